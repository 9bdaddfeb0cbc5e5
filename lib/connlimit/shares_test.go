package connlimit

import "testing"

// A name has its share of a budget and no more, and what is given back is there again for
// all. Names without anything are forgotten.
func TestShares(t *testing.T) {
	b := NewBudget(10)
	s := b.Shares(6)
	ann, bob := s.Of("ann"), s.Of("bob")
	for _, step := range []struct {
		who  *Share
		take int
		want bool
	}{{ann, 4, true}, {ann, 3, false}, {ann, 2, true}, {ann, 1, false}, {s.Of("ann"), 1, false}, {bob, 5, false}, {bob, 4, true}, {bob, 1, false}} {
		if got := step.who.Take(step.take); got != step.want {
			t.Errorf("%s takes %d: %t, want %t; %v", step.who.name, step.take, got, step.want, s.taken)
		}
	}
	if b.Left() != 0 {
		t.Errorf("%d are left, want none", b.Left())
	}
	s.Of("ann").Give(5)
	if !bob.Take(2) || bob.Take(1) {
		t.Errorf("bob has not 6 of what is there: %v", s.taken)
	}
	ann.Give(1)
	bob.Give(6)
	if b.Left() != 10 || len(s.taken) != 0 {
		t.Errorf("%d are left, want 10; %v are remembered", b.Left(), s.taken)
	}
}
