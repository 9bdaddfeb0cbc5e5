package profile

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"sluice/lib/jsonscan"
)

// A list that was set, or added to, has the last of its values, each at its
// last place. The result is as if all were put behind one another first, and
// cut then.
func TestLongLists(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for range 200 {
		var had, come []string
		for range r.IntN(2 * MaxArrayItems) {
			had = append(had, fmt.Sprint(r.IntN(3*MaxArrayItems)))
		}
		for range r.IntN(4 * MaxArrayItems) {
			come = append(come, fmt.Sprint(r.IntN(3*MaxArrayItems)))
		}
		want := lastOnes(append(lastOnes(had), come...))
		list := func(all []string) string { return "[" + strings.Join(all, ",") + "]" }
		got := changed(t, `{"l":`+list(had)+`}`, `{"l":{"add":`+list(come)+`}}`)
		if len(had)+len(come) > 0 && got != `{"custom":{"l":`+list(want)+`}}` {
			t.Fatalf("%v and %v\nare  %s\nwant %v", had, come, got, want)
		}
	}
}

// lastOnes is the obvious way to it.
func lastOnes(all []string) (kept []string) {
	for i := len(all) - 1; i >= 0 && len(kept) < MaxArrayItems; i-- {
		if !slices.Contains(kept, all[i]) {
			kept = append(kept, all[i])
		}
	}
	slices.Reverse(kept)
	return kept
}

// Objects of many members are merged as those of few.
func TestManyMembersAreMerged(t *testing.T) {
	half := func(from int) string {
		var b strings.Builder
		for i := range 100 {
			fmt.Fprintf(&b, `,"k%d":%d`, from+i, from)
		}
		return "{" + b.String()[1:] + "}"
	}
	merged := changed(t, `{"o":`+half(0)+`}`, `{"_merge_objects":true,"o":`+half(50)+`}`)
	v, err := jsonscan.Scan(merged)
	if err != nil {
		t.Fatal(err)
	}
	all := members(memberOf(jsonscan.Value{Raw: memberOf(v, "custom"), Kind: jsonscan.Object}, "o"))
	if len(all) != 150 || all[49] != (Value{"k49", "0"}) || all[50] != (Value{"k50", "50"}) || all[149] != (Value{"k149", "50"}) {
		t.Errorf("%d members: %v", len(all), all)
	}
}

// The longest values that are taken in: what it costs to apply one.
func BenchmarkLongValues(b *testing.B) {
	var numbers, fields strings.Builder
	for i := range 7000 {
		fmt.Fprintf(&numbers, ",%d", i)
		if i < 4000 {
			fmt.Fprintf(&fields, `,"k%d":1`, i)
		}
	}
	list, object := "["+numbers.String()[1:]+"]", "{"+fields.String()[1:]+"}"
	for name, body := range map[string]string{"set": `{"a":` + list + `}`, "add": `{"a":{"add":` + list + `}}`, "merge": `{"_merge_objects":true,"o":` + object + `}`} {
		checked, err := Check(body)
		if err != nil || len(checked) < 20_000 {
			b.Fatalf("%s: %d bytes, %v", name, len(checked), err)
		}
		b.Run(name, func(b *testing.B) {
			p := &Profile{}
			p.SetAttributes(`{"o":`+object+`}`, 7)
			for b.Loop() {
				p.SetAttributes(checked, 7)
			}
		})
	}
}
