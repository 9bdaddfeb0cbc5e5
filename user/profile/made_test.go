package profile

import (
	"fmt"
	"testing"
)

// A change with a name is made once, whatever the text of the profile goes through meanwhile.
// The last of a day are known, and a merge brings those of both.
func TestChangesAreMadeOnce(t *testing.T) {
	p := &Profile{}
	again := func() {
		t.Helper()
		text := string(p.Append(nil))
		var err error
		if p, err = Parse(text); err != nil || string(p.Append(nil)) != text || string(p.Clone().Append(nil)) != text {
			t.Fatalf("%s is read as %s, %v", text, p.Append(nil), err)
		}
	}
	for range 2 {
		if !p.Makes("a", 5_000) || p.Makes("a", 5_000) || !p.Makes("b", 4_000) || p.Makes("b", 9_000) {
			t.Fatalf("%+v", p.Made)
		}
		again()
		if p.Makes("a", 6_000) {
			t.Fatalf("made a second time: %s", p.Append(nil))
		}
		p.Made = nil
	}
	if got := string(p.Append(nil)); got != "{}" {
		t.Errorf("of nothing that was made there is %s", got)
	}
	other := &Profile{}
	p.Makes("mine", 1_000)
	other.Makes("other's", 2_000)
	other.Makes("mine", 1_000)
	copied := other.Clone()
	p.Merge(other)
	again()
	if p.Makes("mine", 3_000) || p.Makes("other's", 3_000) || !p.Makes("new", 3_000) || len(p.Made) != 3 {
		t.Errorf("after a merge: %+v", p.Made)
	}
	if fmt.Sprint(other.Made) != fmt.Sprint(copied.Made) {
		t.Error("the merge has changed the other one")
	}
	for i := range 2 * madeAtMost {
		p.Makes(fmt.Sprint("many", i), 10_000)
	}
	if len(p.Made) != madeAtMost || p.Makes(fmt.Sprint("many", 2*madeAtMost-1), 10_000) {
		t.Errorf("%d are known, want %d", len(p.Made), madeAtMost)
	}
	if p.Makes("late", 10_000+(madeDays*24*60*60+1)*1000); len(p.Made) != 1 {
		t.Errorf("%d are known a day later, want 1", len(p.Made))
	}
}
