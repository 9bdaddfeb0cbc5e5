package spool

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"sluice"
	"sluice/faults"
	"sluice/flow"
)

// Operator is what people do with the mail that waits, whatever process sends it:
// they stop some of it, let it go on, or purge it.
//
// What is stopped stands in Redis, where all processes look four times a second.
// What is purged is cancelled as any message is (Canceller): by items of the log,
// which the ledger comes to know of and the lanes; so a purge that is broken off
// is begun again and finds what is left, and what is on the wire is let alone.
type Operator struct {
	Redis      *flow.Redis
	Writer     *flow.Writer  // purging only
	Lanes      []*flow.Lanes // purging only, by partition
	Ledger     Listing       // purging only
	Partitions int
	Clock      sluice.Clock
}

// Listing is where sends are listed that wait. sluice.SendStore is one.
type Listing interface {
	WaitingSends(ctx context.Context, partition int, after sluice.SendKey, limit int) ([]sluice.SendRow, error)
}

// Stop stops mail in all processes, within a second. note says why.
func (o *Operator) Stop(ctx context.Context, s sluice.Selector, note string) error {
	return o.Redis.Stop(ctx, s.Name(), strings.TrimSpace(o.Clock.Now().UTC().Format(time.RFC3339)+" "+note), sluice.MaxStops)
}

// Resume lets it go on, and reports whether it was stopped.
func (o *Operator) Resume(ctx context.Context, s sluice.Selector) (bool, error) {
	return o.Redis.Unstop(ctx, s.Name())
}

// Stopped returns what is stopped, by the names of selectors, with notes.
func (o *Operator) Stopped(ctx context.Context) (map[string]string, error) { return o.Redis.Stops(ctx) }

// Bounds of one step of a purge.
const (
	// purgePage is how many sends one read of the ledger gives, and one batch of
	// the log cancels at most.
	purgePage = 500

	// purgeLook is how many sends a step looks at, of which perhaps none is meant.
	purgeLook = 50_000

	// PurgeStep is how many sends a step may cancel.
	PurgeStep = 10_000

	// A log that is full is written to again after purgeAgain, for purgeFull.
	purgeAgain = 200 * time.Millisecond
	purgeFull  = 20 * time.Second
)

// purgePlace is where a purge goes on.
type purgePlace struct {
	Partition int            `json:"p"`
	After     sluice.SendKey `json:"a"`
	Before    int64          `json:"b"` // ms: what was accepted later is let alone
}

// Purge cancels sends that wait and are meant, at most so many, and returns how
// many, and where to go on; empty: it is through. after is what the step before
// returned, empty at first. count only counts them. A send whose attempt is under
// way is cancelled if it has to wait once more.
func (o *Operator) Purge(ctx context.Context, s sluice.Selector, after string, most int, count bool) (n int, next string, err error) {
	at := purgePlace{Before: o.Clock.Now().UnixMilli()}
	if after != "" {
		text, err := base64.RawURLEncoding.DecodeString(after)
		if err == nil {
			err = json.Unmarshal(text, &at)
		}
		if err != nil || at.Partition < 0 || at.Partition >= o.Partitions {
			return 0, "", &sluice.Error{Code: sluice.CodeInvalid, Index: -1, Message: fmt.Sprintf("after is %.64q, want what an answer had as next", after)}
		}
	}
	for looked := 0; at.Partition < o.Partitions; {
		if looked >= purgeLook || n >= most {
			text, err := json.Marshal(at)
			return n, base64.RawURLEncoding.EncodeToString(text), err
		}
		rows, err := o.Ledger.WaitingSends(ctx, at.Partition, at.After, min(purgePage, most-n))
		if err != nil {
			return n, "", fmt.Errorf("purge: %w", err)
		}
		if len(rows) == 0 {
			at.Partition, at.After = at.Partition+1, sluice.SendKey{}
			continue
		}
		looked += len(rows)
		cancelled, err := o.purge(ctx, s, &at, rows, count)
		n += cancelled
		if err != nil {
			return n, "", fmt.Errorf("purge: %w", err)
		}
		last := &rows[len(rows)-1]
		at.After = sluice.SendKey{Message: last.Message, Number: last.Number}
	}
	return n, "", nil
}

// purge cancels those of some rows of a partition that are meant.
func (o *Operator) purge(ctx context.Context, s sluice.Selector, at *purgePlace, rows []sluice.SendRow, count bool) (int, error) {
	part := flow.Part{Partition: at.Partition}
	now := o.Clock.Now().UnixMilli()
	for i := range rows {
		if r := &rows[i]; r.AcceptedMillis <= at.Before && s.TakesRow(r) {
			// However many its message has: with more than one they are counted.
			c := cancelOf(r, 2, now)
			c.Reason = reasonPurged
			part.Items = sluice.AppendCancel(part.Items, c)
			part.Count++
		}
	}
	if part.Count == 0 || count {
		return part.Count, nil
	}
	if err := roomToCancel(ctx, o.Lanes, []flow.Part{part}); err != nil {
		return 0, err
	}
	if err := faults.Hit("purge"); err != nil {
		return 0, err
	}
	for waited := time.Duration(0); ; waited += purgeAgain {
		err := o.Writer.Write(ctx, part)
		if err == nil {
			return part.Count, faults.Hit("purged")
		}
		if !errors.Is(err, sluice.ErrFull) || waited >= purgeFull {
			return 0, err
		}
		select {
		case <-time.After(purgeAgain):
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}
