package ingest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"sluice"
	"sluice/flow"
)

// Room in the logs.
//
// Lists and files have more than the logs are to hold. A router, or an import, that
// has filled a log waits for the store: the list is the back pressure.
//
// But a partition that stands still at a gap is not stored until an operator has
// decided, and nobody else may wait for that. What comes for it goes on into its
// log, up to a bound of bytes for all such logs together. Beyond it the list has to
// wait, and says for which partition. Every element is in one log only, so a list
// cannot go on without it.
const (
	// maxLogEntries is where a partition's log is full. 64 batches are some 10 MB.
	maxLogEntries = 64
	logFullPoll   = 10 * time.Millisecond

	// maxStandingEntries is where the log of a partition that stands still is full.
	// Requests are refused at twice as many (flow.Writer), so lists alone keep none out.
	maxStandingEntries = 32_768

	// standingPause is how long a router rests after each unit meanwhile: of a list
	// that trickles fewer and larger batches come, and no other list is slower.
	standingPause = 250 * time.Millisecond
)

// room is what the logs may hold of what routers and imports append.
type room struct {
	backlogBytes int         // in the logs of all partitions that stand still
	held         func(error) // is told, every gapEvery, for which log a list is held
}

// wait waits while a log is full, until its context ends, which is no error: what was
// appended stays. stands reports that it did not wait, since the partition stands
// still.
func (r *room) wait(ctx context.Context, log *flow.Log, entries int) (stands bool, err error) {
	for looked := (time.Time{}); entries >= maxLogEntries && err == nil; {
		if time.Since(looked) >= gapEvery {
			looked = time.Now()
			var full bool
			if stands, full, err = r.standing(ctx, log, entries); stands && !full {
				return true, nil
			}
			if full {
				r.held(fmt.Errorf("%w: it stands still at a gap, and what comes for it waits until the gap is accepted (`sluice gaps list`)", &flow.LogFullError{Partition: log.Partition(), Entries: entries}))
			}
		}
		if err == nil {
			err = sluice.Pause(ctx, logFullPoll)
		}
		if err == nil {
			entries, err = log.Entries(ctx)
		}
	}
	if ctx.Err() != nil {
		err = nil
	}
	return false, err
}

// standing reports whether a partition stands still at a gap, and whether its log then
// has as much as it may.
func (r *room) standing(ctx context.Context, log *flow.Log, entries int) (stands, full bool, err error) {
	gaps, err := log.Gaps().List(ctx)
	if err != nil || !slices.ContainsFunc(gaps, func(g flow.Gap) bool { return g.What == log.String() }) {
		return false, false, err
	}
	bytes, err := log.Bytes(ctx)
	if err != nil {
		return false, false, err
	}
	share := max(flow.LeastBacklogBytes, r.backlogBytes/len(gaps))
	return true, entries >= maxStandingEntries || bytes >= int64(share), nil
}
