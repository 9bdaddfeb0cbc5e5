package run

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/flow"
)

// Partitions whose people wait for the tokens of one journey all get some: none takes
// what was saved up at once, or asks first each time.
func TestPartitionsShareARate(t *testing.T) {
	const partitions, tokens, least = 8, 400, 10
	const most = 6000 / 60 / 10 // what comes in in a tenth of a second
	b := newBed(t, 0)
	got := make([]int, partitions)
	var sum atomic.Int64
	var all sync.WaitGroup
	for i, partition := range flow.Partitions(partitions) {
		all.Go(func() {
			p := &part{log: flow.NewLog(b.redis, partition)}
			in := &inside{plans: &plans{number: 7, perMinute: 6000}}
			for sum.Load() < tokens {
				if err := p.takeTokens(t.Context(), in, ratedPeople); err != nil {
					t.Error(err)
					return
				}
				if in.rate.tokens > most {
					t.Errorf("partition %d gets %d tokens at once, want %d at most: others wait", i, in.rate.tokens, most)
				}
				got[i] += max(in.rate.tokens, 0)
				sum.Add(int64(max(in.rate.tokens, 0)))
				in.rate.tokens = 0
				select {
				case <-time.After(time.Until(in.rate.ask)):
				case <-t.Context().Done():
				}
			}
		})
	}
	all.Wait()
	for i, n := range got {
		if n < least {
			t.Errorf("partition %d gets %d of %d tokens, want %d at least: %v", i, n, sum.Load(), least, got)
		}
	}
}
