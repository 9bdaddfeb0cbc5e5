package flow

import (
	"testing"
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
