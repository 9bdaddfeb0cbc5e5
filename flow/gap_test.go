package flow

import (
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
