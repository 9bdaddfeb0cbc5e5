package flow

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"sluice"
)

// Callers that were in a write, and those that came meanwhile, are waited for.
// The wait ends when they are there, or after about as long as that write took.
func TestTheExpectedAreWaitedFor(t *testing.T) {
	const took = 3 * time.Millisecond
	for _, test := range []struct {
		name                     string
		before, meanwhile, after int // parts in the write, during it, right behind it
		took                     time.Duration
		come                     time.Duration // when one more part comes; 0: none does
		want                     time.Duration
	}{
		{"a caller comes alone", 1, 0, 1, took, 0, 0},
		{"the missing caller comes", 2, 0, 1, took, time.Millisecond, time.Millisecond},
		{"it does not", 2, 0, 1, took, 0, took},
		{"a caller that came meanwhile counts", 1, 2, 0, took, time.Millisecond, time.Millisecond},
		{"two are missing, and one comes", 3, 0, 1, took, time.Millisecond, took},
		{"after a short write", 2, 0, 1, time.Microsecond, 0, shortestWait},
		{"after a long write", 2, 0, 1, time.Minute, 0, longestWait},
		{"enough are there", 500, 0, enoughParts, took, 0, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &Writer{open: make([]openBatch, 1)}
				g := &group{partitions: []int{0}, writing: true}
				w.open[0].group = g
				come := func() {
					if _, err := w.add(t.Context(), &Part{Items: []byte{0}, Count: 1}); err != nil {
						t.Error(err)
					}
				}
				for range test.meanwhile {
					come()
				}
				g.expect(&flight{parts: test.before}, test.took)
				for range test.after {
					come()
				}
				if test.come > 0 {
					time.AfterFunc(test.come, come)
				}
				began := time.Now()
				g.gather()
				if waited := time.Since(began); waited != test.want {
					t.Errorf("waited %s, want %s", waited, test.want)
				}
			})
		})
	}
}

// A full open batch does not wait for callers: another waits for it to leave.
func TestAFullBatchIsNotHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &Writer{open: make([]openBatch, 1)}
		g := &group{partitions: []int{0}, writing: true}
		w.open[0].group = g
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		g.expect(&flight{parts: enoughParts}, longestWait)
		large := &Part{Items: make([]byte, sluice.MaxBatchBytes), Count: 1}
		if _, err := w.add(ctx, large); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		time.AfterFunc(time.Millisecond, func() { _, _ = w.add(ctx, large) }) // ends with ctx
		g.gather()
		if waited := time.Since(began); waited != time.Millisecond {
			t.Errorf("a full batch left after %s, want 1ms", waited)
		}
	})
}
