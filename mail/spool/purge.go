package spool

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sluice"
	"sluice/flow"
	"sluice/lib/faults"
	"sluice/mail"
)

// purgePace keeps a purge from filling the logs with cancelled sends, behind which
// other mail would wait for the ledger and for its lane.
//
// The idea. A page of cancelled sends is two items of the log for each: that it
// is cancelled, and what that comes to. The ledger shows when it has a page:
// its rows do not wait any more. So a purge writes no more than ahead sends
// that the ledger does not have. ahead follows from how long a page takes to
// get there: it doubles below purgeQuick, and halves above. The ledger may not
// be written, because no process runs that stores, or what is purged is on the
// wire. Then a step waits for purgePatience once; after that it does not look
// any more, and rests for purgeDeafRest after each page.
//
// What was written leaves all the same until the lanes have noted it. A step ends when
// they have: an operator who purges what is stopped resumes it then, and none of it is
// to leave. Cancels of a partition are noted in their order, so its last page tells.
type purgePace struct {
	ledger Listing
	lanes  []*flow.Lanes // by partition
	ahead  int           // sends
	open   []purgeOpen
	sends  int // in open
	deaf   bool
	last   map[int]purgeOpen // what was written last, by partition
}

// purgeOpen is a page that the ledger may not have.
type purgeOpen struct {
	partition   int
	first, last mail.SendKey
	sends       int
	at          time.Time
}

// Bounds of a purge's pace.
const (
	purgeAheadLeast = purgePage
	purgeAheadMost  = 8 * purgePage

	purgeQuick    = 150 * time.Millisecond
	purgePatience = 5 * time.Second
	purgeLookEach = 10 * time.Millisecond

	// purgeNotedWithin is how long a step waits at its end until the lanes have noted what
	// it has written. Where no process stores they do not, and mostly none sends either.
	purgeNotedWithin = 10 * time.Second

	// purgeDeafRest is the rest after each page once the ledger has said nothing for
	// purgePatience: 2,000 sends a second, however long it says nothing.
	purgeDeafRest = 250 * time.Millisecond
)

func newPurgePace(ledger Listing, lanes []*flow.Lanes) *purgePace {
	return &purgePace{ledger: ledger, lanes: lanes, ahead: purgeAheadLeast, last: make(map[int]purgeOpen)}
}

// written notes a page that is in the log, and waits until there is room for another.
func (p *purgePace) written(ctx context.Context, partition int, rows []mail.SendRow) error {
	page := purgeOpen{partition, rows[0].Key(), rows[len(rows)-1].Key(), len(rows), time.Now()}
	p.last[partition] = page
	if p.deaf {
		return sluice.Pause(ctx, purgeDeafRest)
	}
	p.open = append(p.open, page)
	p.sends += len(rows)
	for p.sends >= p.ahead && !p.deaf {
		if err := p.settle(ctx, &p.open[0]); err != nil {
			return err
		}
		p.sends -= p.open[0].sends
		p.open = p.open[1:]
	}
	return nil
}

// settle waits until the ledger has a page.
func (p *purgePace) settle(ctx context.Context, page *purgeOpen) error {
	for {
		waits, err := p.waits(ctx, page)
		took := time.Since(page.at)
		switch {
		case err != nil:
			return err
		case !waits && took <= purgeQuick:
			p.ahead = min(2*p.ahead, purgeAheadMost)
			return nil
		case !waits:
			p.ahead = max(p.ahead/2, purgeAheadLeast)
			return nil
		case took >= purgePatience:
			p.deaf = true
			return nil
		}
		if err := sluice.Pause(ctx, purgeLookEach); err != nil {
			return err
		}
	}
}

// waits reports whether the first and the last send of a page wait. One of them may
// be on the wire.
func (p *purgePace) waits(ctx context.Context, page *purgeOpen) (bool, error) {
	for _, key := range []mail.SendKey{page.last, page.first} {
		if waits, err := p.pending(ctx, page.partition, key); err != nil || !waits {
			return false, err
		}
	}
	return true, nil
}

// pending reports whether a send waits in the ledger.
func (p *purgePace) pending(ctx context.Context, partition int, key mail.SendKey) (bool, error) {
	rows, err := p.ledger.WaitingSends(ctx, partition, mail.SendKey{Message: key.Message, Number: key.Number - 1}, 1)
	return err == nil && len(rows) > 0 && rows[0].Key() == key, err
}

// ended waits until the lanes have noted all that was written, purgeNotedWithin at most.
func (p *purgePace) ended(ctx context.Context) error {
	began := time.Now()
	for _, page := range p.last {
		for {
			noted, err := p.isNoted(ctx, &page)
			if err != nil {
				return fmt.Errorf("look whether purged sends are cancelled in their lanes: %w", err)
			}
			if noted {
				break
			}
			if time.Since(began) >= purgeNotedWithin {
				return nil
			}
			if err := sluice.Pause(ctx, purgeLookEach); err != nil {
				return err
			}
		}
	}
	return nil
}

// isNoted reports whether the lanes have noted the last send of a page. It may have been
// met in its lane since: then it has no note any more, and soon does not wait.
func (p *purgePace) isNoted(ctx context.Context, page *purgeOpen) (bool, error) {
	last := mail.Send{Message: page.last.Message, Number: page.last.Number}
	noted, err := p.lanes[page.partition].Cancelled(ctx, []string{last.ID()})
	if err != nil || noted != nil && noted[0] {
		return err == nil, err
	}
	waits, err := p.pending(ctx, page.partition, page.last)
	return err == nil && !waits, err
}

// purge cancels some sends of a partition.
func (o *Operator) purge(ctx context.Context, partition int, rows []mail.SendRow) error {
	part := flow.Part{Partition: partition, Count: len(rows)}
	now := o.Clock.Now().UnixMilli()
	for i := range rows {
		// However many its message has: with more than one they are counted.
		c := cancelOf(&rows[i], 2, now)
		c.Reason = reasonPurged
		part.Items = mail.AppendCancel(part.Items, c)
	}
	if err := roomToCancel(ctx, o.Lanes, []flow.Part{part}); err != nil {
		return err
	}
	if err := faults.Hit("purge"); err != nil {
		return err
	}
	for waited := time.Duration(0); ; waited += purgeAgain {
		err := o.Writer.Write(ctx, part)
		if err == nil {
			return faults.Hit("purged")
		}
		if !errors.Is(err, sluice.ErrFull) || waited >= purgeFull {
			return err
		}
		if err := sluice.Pause(ctx, purgeAgain); err != nil {
			return err
		}
	}
}
