package flow

import (
	"cmp"
	"slices"
	"testing"

	"sluice"
)

// TestLostUpTo: outcomes of mail that is on the wire come within an hour of
// now. That is true for a log without a write for long, and for one with ids
// that are ahead.
func TestLostUpTo(t *testing.T) {
	r := dial(t)
	p := Partitions(1)[0]
	now, err := r.TimeMillis(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		tail  string
		least int64
	}{
		{"1000-5", now},
		{"9999999999999-5", 9_999_999_999_999},
	} {
		do(t, r, "HSET", p.sourcesKey(), "@tail", c.tail)
		got, err := NewLog(r, p).LostUpTo(t.Context())
		if err != nil || int64(got.Major) < c.least+lostRowsMillis {
			t.Errorf("a log that ends at %s: %s, %v; want %d or later", c.tail, got, err, c.least+lostRowsMillis)
		}
	}
}

// TestAGapIsAcceptedInAFullRedis: what waits behind a gap may have filled Redis, and only
// when the gap is accepted it can be drained.
func TestAGapIsAcceptedInAFullRedis(t *testing.T) {
	r := dial(t)
	log := NewLog(r, Partitions(1)[0])
	gaps := log.Gaps()
	gap := Gap{What: log.String(), Cursor: sluice.Position{Major: 1}, Start: sluice.Position{Major: 5}, SinceMillis: 7}
	do(t, r, "CONFIG", "SET", "maxmemory", "1")
	if accepted, err := gaps.Tell(t.Context(), &gap); err != nil || accepted {
		t.Fatalf("told: accepted %v, %v", accepted, err)
	}
	if err := gaps.Accept(t.Context(), &gap); err != nil {
		t.Fatal(err)
	}
	if accepted, err := gaps.Tell(t.Context(), &gap); err != nil || !accepted {
		t.Errorf("told again: accepted %v, %v", accepted, err)
	}
	other := gap
	other.Start.Major++
	if accepted, err := gaps.Tell(t.Context(), &other); err != nil || accepted {
		t.Errorf("another gap: accepted %v, %v", accepted, err)
	}
	if err := log.Lanes().CompareAgain(t.Context()); err != nil {
		t.Error(err)
	}
	if _, _, due, err := log.Lanes().Found(t.Context()); err != nil || !due {
		t.Errorf("lanes are to be compared: %v, %v", due, err)
	}
}

// TestAnotherGapIsNotForgotten: a process finds that a gap is over, while another one tells
// the next gap of the same log, which is accepted.
func TestAnotherGapIsNotForgotten(t *testing.T) {
	r := dial(t)
	gaps := Gaps{Redis: r}
	old := Gap{What: "log 1", Cursor: sluice.Position{Major: 1}, Start: sluice.Position{Major: 5}, SinceMillis: 7}
	again, other := old, old
	again.SinceMillis++
	other.Start.Major++
	do(t, r, "CONFIG", "SET", "maxmemory", "1")
	for name, next := range map[string]*Gap{"another": &other, "told again": &again, "none": nil} {
		if _, err := gaps.Tell(t.Context(), &old); err != nil {
			t.Fatal(err)
		}
		err := gaps.Forget(t.Context(), func(*Gap) bool {
			if next != nil {
				if _, err := gaps.Tell(t.Context(), next); err != nil {
					t.Error(err)
				}
			}
			if err := gaps.Accept(t.Context(), cmp.Or(next, &old)); err != nil {
				t.Error(err)
			}
			return true
		})
		if err != nil {
			t.Fatal(err)
		}
		want := []Gap{}
		if next != nil {
			want = append(want, *next)
		}
		if left, err := gaps.List(t.Context()); err != nil || !slices.Equal(left, want) {
			t.Errorf("%s: left are %+v, %v; want %+v", name, left, err, want)
		}
		at := cmp.Or(next, &old)
		accepted, err := gaps.Accepted(t.Context(), []*GapError{{What: at.What, Cursor: at.Cursor, Start: at.Start}})
		if err != nil || accepted != (next != nil) {
			t.Errorf("%s: accepted %v, %v", name, accepted, err)
		}
	}
}
