// Package meter counts how long things take and how large they are: histograms
// for code that must not carry a metrics library. To observe is a few atomic
// additions and no lock; the cost is in reading.
package meter

import (
	"maps"
	"math/bits"
	"slices"
	"sync/atomic"
	"time"
)

// The upper bounds. A duration's are in microseconds, so that they can be
// compared as integers; a size's are powers of four.
var secondsBounds = [...]int64{100, 250, 500, 1000, 2500, 5000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000, 5_000_000, 10_000_000}

const sizeBounds = 9 // 1, 4, 16, ... 65536

// Snapshot is what a histogram had counted. Buckets holds, for each upper
// bound (seconds, or items), how many were at most that; it has all bounds.
type Snapshot struct {
	Count   uint64
	Sum     float64
	Buckets map[float64]uint64
}

// Add returns both together; they are of the same kind.
func (h Snapshot) Add(other Snapshot) Snapshot {
	sum := Snapshot{Count: h.Count + other.Count, Sum: h.Sum + other.Sum, Buckets: maps.Clone(other.Buckets)}
	for bound, n := range h.Buckets {
		if sum.Buckets == nil {
			sum.Buckets = make(map[float64]uint64)
		}
		sum.Buckets[bound] += n
	}
	return sum
}

// Seconds counts durations from a tenth of a millisecond to ten seconds. The
// zero value is ready; its methods may be called by several goroutines at once.
type Seconds struct {
	within [len(secondsBounds) + 1]atomic.Uint64 // the last: longer than all bounds
	nanos  atomic.Int64
}

// Observe counts one duration.
func (s *Seconds) Observe(took time.Duration) {
	s.within[within(secondsBounds[:], took)].Add(1)
	s.nanos.Add(took.Nanoseconds())
}

// within is the number of the first of some bounds that a duration is at most.
func within(bounds []int64, took time.Duration) int {
	i, micros := 0, (took.Nanoseconds()+999)/1000
	for i < len(bounds) && micros > bounds[i] {
		i++
	}
	return i
}

// Snapshot returns what was counted so far.
func (s *Seconds) Snapshot() Snapshot {
	return snapshot(s.within[:], float64(s.nanos.Load())/1e9, func(i int) float64 { return float64(secondsBounds[i]) / 1e6 })
}

// waitBounds are those of Waits: those of Seconds, and on to six hours.
var waitBounds = slices.Concat(secondsBounds[:], []int64{30_000_000, 60_000_000, 300_000_000, 1_800_000_000, 21_600_000_000})

const waitBuckets = len(secondsBounds) + 5 + 1 // the last: longer than all bounds

// Waits counts durations from a tenth of a millisecond to six hours. It is for
// a caller that has a lock anyway: one goroutine at a time may use it. The zero
// value is ready.
type Waits struct {
	within [waitBuckets]uint64
	nanos  int64
}

// Observe counts one duration.
func (w *Waits) Observe(took time.Duration) {
	w.within[within(waitBounds[:], took)]++
	w.nanos += took.Nanoseconds()
}

// Add counts what another one has counted.
func (w *Waits) Add(other *Waits) {
	for i := range w.within {
		w.within[i] += other.within[i]
	}
	w.nanos += other.nanos
}

// Snapshot returns what was counted so far.
func (w *Waits) Snapshot() Snapshot {
	h := Snapshot{Sum: float64(w.nanos) / 1e9, Buckets: make(map[float64]uint64, len(waitBounds))}
	for i, n := range w.within {
		h.Count += n
		if i < len(waitBounds) {
			h.Buckets[float64(waitBounds[i])/1e6] = h.Count
		}
	}
	return h
}

// Mean returns the mean, 0 of nothing.
func (h *Snapshot) Mean() float64 {
	if h.Count == 0 {
		return 0
	}
	return h.Sum / float64(h.Count)
}

// Quantile returns what a part of all, 0 to 1, was at most: between two bounds as
// if all there were evenly spread. Of what is longer than all bounds it is the
// last one; 0 of nothing.
func (h *Snapshot) Quantile(part float64) float64 {
	wanted := part * float64(h.Count)
	below, lower, last := uint64(0), 0.0, 0.0
	for _, bound := range slices.Sorted(maps.Keys(h.Buckets)) {
		n := h.Buckets[bound]
		if float64(n) >= wanted && n > below {
			return lower + (bound-lower)*(wanted-float64(below))/float64(n-below)
		}
		below, lower, last = n, bound, bound
	}
	if h.Count == 0 {
		return 0
	}
	return last
}

// Sizes counts numbers of items from 1 to 65,536. The zero value is ready; its
// methods may be called by several goroutines at once.
type Sizes struct {
	within [sizeBounds + 1]atomic.Uint64 // the last: more than all bounds
	sum    atomic.Int64
}

// Observe counts one number, 0 or more.
func (s *Sizes) Observe(n int) {
	i := 0
	if n > 1 {
		i = min((bits.Len(uint(n-1))+1)/2, sizeBounds) // the least i with n <= 4^i
	}
	s.within[i].Add(1)
	s.sum.Add(int64(n))
}

// Snapshot returns what was counted so far.
func (s *Sizes) Snapshot() Snapshot {
	return snapshot(s.within[:], float64(s.sum.Load()), func(i int) float64 { return float64(uint64(1) << (2 * i)) })
}

// snapshot adds up: the count is that of the buckets, so that both agree
// whatever is observed meanwhile.
func snapshot(within []atomic.Uint64, sum float64, bound func(int) float64) Snapshot {
	h := Snapshot{Sum: sum, Buckets: make(map[float64]uint64, len(within)-1)}
	for i := range within {
		h.Count += within[i].Load()
		if i < len(within)-1 {
			h.Buckets[bound(i)] = h.Count
		}
	}
	return h
}
