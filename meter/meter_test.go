package meter

import (
	"testing"
	"time"
)

// What lies on a bound belongs to it, what lies beyond all of them is in the
// count alone.
func TestSeconds(t *testing.T) {
	var s Seconds
	if h := s.Snapshot(); h.Count != 0 || len(h.Buckets) != len(secondsBounds) {
		t.Errorf("empty: %v", h)
	}
	for _, d := range []time.Duration{0, 100 * time.Microsecond, 100*time.Microsecond + 1, time.Second, 10 * time.Second, 11 * time.Second} {
		s.Observe(d)
	}
	h := s.Snapshot()
	for bound, want := range map[float64]uint64{0.0001: 2, 0.00025: 3, 0.5: 3, 1: 4, 5: 4, 10: 5} {
		if got, ok := h.Buckets[bound]; got != want || !ok {
			t.Errorf("at most %v s: %d, want %d", bound, got, want)
		}
	}
	if h.Count != 6 || h.Sum < 22.0002 || h.Sum > 22.0003 {
		t.Errorf("count %d, sum %v", h.Count, h.Sum)
	}
}

func TestSizes(t *testing.T) {
	var s Sizes
	for _, n := range []int{0, 1, 2, 4, 5, 16, 17, 65536, 65537, 1 << 30} {
		s.Observe(n)
	}
	h := s.Snapshot()
	for bound, want := range map[float64]uint64{1: 2, 4: 4, 16: 6, 64: 7, 16384: 7, 65536: 8} {
		if got, ok := h.Buckets[bound]; got != want || !ok {
			t.Errorf("at most %v: %d, want %d", bound, got, want)
		}
	}
	if h.Count != 10 || h.Sum != 1+2+4+5+16+17+65536+65537+1<<30 {
		t.Errorf("count %d, sum %v", h.Count, h.Sum)
	}
}

func TestAdd(t *testing.T) {
	var a, b Seconds
	a.Observe(time.Millisecond)
	b.Observe(time.Second)
	h := Snapshot{}.Add(a.Snapshot()).Add(b.Snapshot())
	if h.Count != 2 || h.Sum != 1.001 || h.Buckets[0.001] != 1 || h.Buckets[1] != 2 || a.Snapshot().Buckets[1] != 1 {
		t.Errorf("%+v", h)
	}
}

func BenchmarkSeconds(b *testing.B) {
	var s Seconds
	for b.Loop() {
		s.Observe(3 * time.Millisecond)
	}
}
