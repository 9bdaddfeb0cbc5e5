package meter

import (
	"math"
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

// Quantiles lie between the bounds of their bucket. Those of durations longer
// than all bounds lie at the last one. Waits are counted as far as six hours.
func TestWaits(t *testing.T) {
	var w, other Waits
	for range 98 {
		w.Observe(20 * time.Millisecond)
	}
	other.Observe(2 * time.Hour)
	other.Observe(12 * time.Hour)
	w.Add(&other)
	h := w.Snapshot()
	if h.Count != 100 || math.Abs(h.Sum-(98*0.02+14*3600)) > 1e-6 || h.Buckets[0.025] != 98 || h.Buckets[21600] != 99 {
		t.Errorf("%+v", h)
	}
	if p50 := h.Quantile(0.5); p50 <= 0.01 || p50 > 0.025 {
		t.Errorf("half are at most %v", p50)
	}
	if p99 := h.Quantile(0.99); p99 <= 1800 || p99 > 21600 {
		t.Errorf("99 %% are at most %v", p99)
	}
	if last := h.Quantile(1); last != 21600 {
		t.Errorf("all are at most %v", last)
	}
	if none := new(Snapshot); none.Quantile(0.5) != 0 || none.Mean() != 0 {
		t.Error("of nothing there is a quantile, or a mean")
	}
}
