package spool

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"sluice"
	"sluice/flow"
	"sluice/mail"
)

// Operator is what people do with the pending mail, whatever process sends it:
// they stop some of it, let it go on, or purge it.
//
// What is stopped stands in Redis, where all processes look twice a
// second. What is purged is cancelled as any message is (Canceller): by items
// of the log, which reach the ledger and the lanes. So a purge that is broken
// off is begun again and finds what is left. What is on the wire is left
// unchanged.
type Operator struct {
	Redis      *flow.Redis
	Writer     *flow.Writer  // purging only
	Lanes      []*flow.Lanes // purging only, by partition
	Ledger     Listing       // purging only
	Partitions int
	Clock      sluice.Clock
	Kept       mail.StopStore // nil: processes that send keep what is stopped

	// Meant, purging only, is Router.Meant: it tells of mail that was not tried yet by
	// which route it goes. nil: by route only what asked for it is meant, and
	// what was tried by it.
	Meant func(to string, class mail.Class, asked string) string
}

// Listing is where sends are listed that wait. mail.SendStore is one.
type Listing interface {
	WaitingSends(ctx context.Context, partition int, after mail.SendKey, limit int) ([]mail.SendRow, error)
}

// Stop stops mail in all processes, within a second. note says why.
func (o *Operator) Stop(ctx context.Context, s mail.Selector, note string) error {
	most, beside := s.StopBound()
	err := o.Redis.Stop(ctx, s.Name(), strings.TrimSpace(o.Clock.Now().UTC().Format(time.RFC3339)+" "+note), most, beside...)
	if err == nil && o.Kept != nil {
		err = o.keep(ctx)
	}
	return err
}

// keepWithin bounds how long a stop waits for the database.
const keepWithin = 2 * time.Second

// keep writes what is stopped to the database, so that a failover of Redis a moment later
// takes nothing back. Mail is stopped without the database too: where it is away,
// processes that send write it when it is back. It fails only where another Redis has taken
// the place of the one that this process reaches: what is stopped here goes with it.
func (o *Operator) keep(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, keepWithin)
	defer cancel()
	names, epoch, err := o.Redis.StopsHere(ctx)
	if err == nil && epoch > 0 { // else they have to bring both together first
		err = o.Kept.KeepStops(ctx, names, epoch) // they do it again
	}
	if errors.Is(err, sluice.ErrConflict) {
		return &sluice.Error{Code: sluice.CodeUnavailable, Index: -1, Message: "another redis has taken the place of the one that this process reaches, and does not know of it yet: stop it again in a moment"}
	}
	return nil
}

// Resume lets it go on, and reports whether it was stopped.
func (o *Operator) Resume(ctx context.Context, s mail.Selector) (bool, error) {
	return o.Redis.Unstop(ctx, s.Name())
}

// Stopped returns what is stopped, by the names of selectors, with notes.
func (o *Operator) Stopped(ctx context.Context) (map[string]string, error) { return o.Redis.Stops(ctx) }

// Bounds of one step of a purge.
const (
	// purgePage is how many sends one read of a partition's ledger gives at most, and
	// one batch of the log cancels.
	purgePage = 500

	// purgeRows is about how many rows are in memory, but purgeLeast of each
	// partition, and after how many of them is cancelled what is meant.
	purgeRows  = 4096
	purgeLeast = 64

	// purgeLook is how many sends a step looks at, of which perhaps none is meant.
	purgeLook = 50_000

	// PurgeStep is how many sends a step may cancel.
	PurgeStep = 10_000

	// A log that is full is written to again after purgeAgain, for purgeFull.
	purgeAgain = 200 * time.Millisecond
	purgeFull  = 20 * time.Second
)

// purgePlace is where a purge goes on: behind a key, in all partitions.
type purgePlace struct {
	Behind mail.SendKey `json:"k"`
	Before int64        `json:"b"` // ms: what was accepted later is left unchanged
}

// Purge cancels sends that wait and are meant, at most so many, and returns how
// many, and where to go on; empty: it is through. after is what the step before
// returned, empty at first. count only counts them. A send whose attempt is under
// way is cancelled if it has to wait once more. The others leave no more when Purge
// returns, unless the lanes are more than purgeNotedWithin behind.
func (o *Operator) Purge(ctx context.Context, s mail.Selector, after string, most int, count bool) (n int, next string, err error) {
	at := purgePlace{Before: o.Clock.Now().UnixMilli()}
	if after != "" {
		text, err := base64.RawURLEncoding.DecodeString(after)
		if err == nil {
			err = json.Unmarshal(text, &at)
		}
		if err != nil {
			return 0, "", sluice.Refuse(sluice.CodeInvalid, "after is %.64q, want what an answer had as next", after)
		}
	}
	waiting, pace := o.backlog(at.Behind), newPurgePace(o.Ledger, o.Lanes)
	for looked := 0; looked < purgeLook && n < most; {
		meant, through := make([][]mail.SendRow, o.Partitions), false
		for left, end := most-n, looked+purgeRows; looked < end && left > 0; looked++ {
			r, err := waiting.next(ctx)
			if err != nil {
				return n, "", fmt.Errorf("purge: %w", err)
			}
			if through = r == nil; through {
				break
			}
			if at.Behind = r.Key(); r.AcceptedMillis <= at.Before && o.takes(s, r) {
				meant[r.Partition] = append(meant[r.Partition], *r)
				left--
			}
		}
		for partition, all := range meant {
			for rows := range slices.Chunk(all, purgePage) {
				if !count {
					err = errors.Join(o.purge(ctx, partition, rows), pace.written(ctx, partition, rows))
				}
				if err != nil {
					return n, "", fmt.Errorf("purge: %w", err)
				}
				n += len(rows)
			}
		}
		if through {
			return n, "", pace.ended(ctx)
		}
	}
	text, err := json.Marshal(at)
	return n, base64.RawURLEncoding.EncodeToString(text), errors.Join(err, pace.ended(ctx))
}

// takes reports whether a send is meant. By its route it is, too, if it was not
// tried yet and that is the one by which it goes.
func (o *Operator) takes(s mail.Selector, r *mail.SendRow) bool {
	return s.TakesRow(r) || s.By == mail.SelectRoute && o.Meant != nil && r.Route == "" && o.Meant(r.To, r.Class, r.AskedRoute()) == s.Value
}

// backlog is all that is pending, of all partitions, in the order of its keys,
// which is that of the table. Read partition by partition, the whole of it
// would be read for each, again and again where it is larger than the server's
// memory.
type backlog struct {
	ledger Listing
	limit  int // of a page
	parts  []backlogPart
}

// backlogPart is a page of one partition.
type backlogPart struct {
	rows  []mail.SendRow // what is left of it
	after mail.SendKey   // its last
	ended bool           // nothing comes after it
}

func (o *Operator) backlog(after mail.SendKey) *backlog {
	b := &backlog{ledger: o.Ledger, limit: min(purgePage, max(purgeLeast, purgeRows/o.Partitions)), parts: make([]backlogPart, o.Partitions)}
	for i := range b.parts {
		b.parts[i].after = after
	}
	return b
}

// next returns the next row; nil: there is none.
func (b *backlog) next(ctx context.Context) (*mail.SendRow, error) {
	var first *backlogPart
	for i := range b.parts {
		p := &b.parts[i]
		if len(p.rows) == 0 && !p.ended {
			var err error
			if p.rows, err = b.ledger.WaitingSends(ctx, i, p.after, b.limit); err != nil {
				return nil, err
			}
			if p.ended = len(p.rows) < b.limit; len(p.rows) > 0 {
				p.after = p.rows[len(p.rows)-1].Key()
			}
		}
		if len(p.rows) > 0 && (first == nil || p.rows[0].Key().Compare(first.rows[0].Key()) < 0) {
			first = p
		}
	}
	if first == nil {
		return nil, nil
	}
	row := &first.rows[0]
	first.rows = first.rows[1:]
	return row, nil
}
