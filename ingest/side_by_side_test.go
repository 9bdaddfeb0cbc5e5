package ingest

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A partition that hangs is waited for while others answer, and a second longer. One that
// is slow is not given up where it has been ready, nor where all are.
func TestSideBySideLeavesOutWhatIsSilent(t *testing.T) {
	const never = -1
	broken := errors.New("broken")
	for name, test := range map[string]struct {
		answers map[int]time.Duration // when; never: not before its context ends
		fails   map[int]bool
		sure    map[int]bool
		silent  []int
		took    time.Duration
	}{
		"all answer":                            {answers: map[int]time.Duration{0: 0, 1: 700 * time.Millisecond}, took: 700 * time.Millisecond},
		"one hangs":                             {answers: map[int]time.Duration{0: 0, 1: never, 2: 100 * time.Millisecond}, silent: []int{1}, took: 1100 * time.Millisecond},
		"each answer has it waited for anew":    {answers: map[int]time.Duration{0: 900 * time.Millisecond, 1: 1800 * time.Millisecond, 2: 2700 * time.Millisecond}, took: 2700 * time.Millisecond},
		"all are slow alike":                    {answers: map[int]time.Duration{0: 5 * time.Second, 1: 5 * time.Second}, took: 5 * time.Second},
		"one that fails says nothing of others": {answers: map[int]time.Duration{0: 0, 1: 5 * time.Second}, fails: map[int]bool{0: true}, took: 5 * time.Second},
		"one was ready before":                  {answers: map[int]time.Duration{0: 0, 1: 4 * time.Second, 2: never}, sure: map[int]bool{1: true}, silent: []int{2}, took: 5 * time.Second},
		"it fails at last":                      {answers: map[int]time.Duration{0: 0, 1: 4 * time.Second}, sure: map[int]bool{1: true}, fails: map[int]bool{1: true}, took: 4 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var partitions []int
				for p := range test.answers {
					partitions = append(partitions, p)
				}
				began := time.Now()
				all, failed := sideBySide(t.Context(), partitions, test.sure, func(ctx context.Context, p int) (int, error) {
					if test.answers[p] == never {
						<-ctx.Done()
						return 0, ctx.Err()
					}
					<-time.After(test.answers[p])
					if test.fails[p] {
						return 0, broken
					}
					return 10 + p, nil
				})
				if took := time.Since(began); took != test.took {
					t.Errorf("it took %s, want %s", took, test.took)
				}
				silent := make(map[int]bool)
				for _, p := range test.silent {
					silent[p] = true
				}
				for p := range test.answers {
					value, answered := all[p]
					switch {
					case silent[p]:
						if answered || !errors.Is(failed[p], errSilent) {
							t.Errorf("partition %d: %d, %v; want it silent", p, value, failed[p])
						}
					case test.fails[p]:
						if answered || failed[p] != broken {
							t.Errorf("partition %d: %d, %v; want its error", p, value, failed[p])
						}
					case value != 10+p || failed[p] != nil:
						t.Errorf("partition %d: %d, %v", p, value, failed[p])
					}
				}
			})
		})
	}
}
