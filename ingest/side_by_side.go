package ingest

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// silentFor is for how long partitions that have not answered are waited for after the
// last one that has.
const silentFor = time.Second

// errSilent is of a partition that does not answer while others do.
var errSilent = errors.New("its part of redis does not answer, and others do")

// sideBySide runs a step for partitions, all at once, and returns by partition what came
// of it and what failed. A server that hangs, or a slot that moves, costs the seconds for
// which a call is repeated, and the others shall not wait for that. So when partitions have
// answered, and for silentFor no further one has, those that are left have failed:
// errSilent. Their steps end with their context, and what they return then is dropped.
//
// A server may be slow for all alike: each answer has the others waited for anew, and
// without an answer all are waited for. Those in sure are waited for in any case.
func sideBySide[T any](ctx context.Context, partitions []int, sure map[int]bool, step func(ctx context.Context, partition int) (T, error)) (all map[int]T, failed map[int]error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type outcome struct {
		partition int
		value     T
		err       error
	}
	outcomes := make(chan outcome, len(partitions))
	open, sureOpen := make(map[int]bool, len(partitions)), 0
	for _, p := range partitions {
		open[p] = true
		if sure[p] {
			sureOpen++
		}
		go func() { // ends with ctx
			value, err := step(ctx, p)
			outcomes <- outcome{p, value, err}
		}()
	}
	all, failed = make(map[int]T, len(partitions)), make(map[int]error)
	var silence <-chan time.Time
	for len(open) > 0 {
		select {
		case o := <-outcomes:
			delete(open, o.partition)
			if sure[o.partition] {
				sureOpen--
			}
			if o.err != nil {
				failed[o.partition] = o.err
				continue
			}
			all[o.partition] = o.value
			silence = time.After(silentFor)
		case <-silence:
			if silence = nil; sureOpen > 0 {
				silence = time.After(silentFor)
				continue
			}
			for p := range open {
				failed[p] = fmt.Errorf("make partition %d ready: %w", p, errSilent)
			}
			return all, failed
		}
	}
	return all, failed
}
