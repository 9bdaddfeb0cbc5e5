package spool

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"sluice"
	"sluice/flow"
	"sluice/mail"
)

// Cancelling a message is an item of the log like handing it in, so it comes
// after its sends and finds them. The ledger shows what it comes to.
const (
	// cancelWithin is how long Cancel waits for the ledger, cancelLook how often it
	// looks.
	cancelWithin = 3 * time.Second
	cancelLook   = 30 * time.Millisecond

	// writtenWithin is within what time of its acceptance a message is in the logs, or its
	// caller has an error; and how far clocks are apart, beside that.
	writtenWithin = 1 * time.Minute
)

// Ledger is where sends are looked up. mail.SendStore is one.
type Ledger interface {
	MessageSends(ctx context.Context, message string) ([]mail.SendRow, error)
}

// StoredLedger is a Ledger that knows how far it has stored the logs. The stores of
// sqlstore are ones.
type StoredLedger interface {
	Ledger
	Cursors(ctx context.Context, follower string, partitions []int) (map[int]sluice.Position, error)
}

// Canceller cancels messages.
type Canceller struct {
	Writer   *flow.Writer
	Lanes    []*flow.Lanes // by partition
	Ledger   StoredLedger
	StoredBy string // the follower whose cursor says what of the log is in the ledger
	Clock    sluice.Clock
}

// Cancel stops what has not left yet of a message, and returns what became of its
// sends. An *sluice.Error with CodeNotFound: there is no such message; with
// CodeUnavailable: too many are cancelled already, or not all of its recipients are
// stored in time. What was stored of these is cancelled, and a repeat cancels the rest.
func (c *Canceller) Cancel(ctx context.Context, message string) (mail.Cancelled, error) {
	rows, err := c.Ledger.MessageSends(ctx, message)
	if err != nil {
		return mail.Cancelled{}, err
	}
	if len(rows) == 0 {
		return mail.Cancelled{}, &sluice.Error{Code: sluice.CodeNotFound, Index: -1, Message: "there is no message " + message + "; one that was just accepted may take a moment"}
	}
	written := make(map[int]bool) // by number: its cancel is written
	cancel := func(rows []mail.SendRow) error {
		fresh := slices.DeleteFunc(rows, func(r mail.SendRow) bool { return written[r.Number] })
		for i := range fresh {
			written[fresh[i].Number] = true
		}
		return c.write(ctx, fresh, sluice.MaxRecipients) // it may have others, so its body is counted down
	}
	accepted := acceptedAt(rows)
	if err := cancel(rows); err != nil {
		return mail.Cancelled{}, err
	}
	u := &unstored{c: c, accepted: accepted, ends: make(map[int]sluice.Position)}
	if err := u.begin(ctx); err != nil { // behind the cancels: a log that cannot be asked stops none
		return mail.Cancelled{}, err
	}
	var what mail.Cancelled
	err = awaitLedger(ctx, func(ctx context.Context) (bool, error) {
		if err := u.look(ctx); err != nil { // before the rows: then these have all
			return false, err
		}
		rows, err := c.Ledger.MessageSends(ctx, message)
		if err != nil {
			return false, err
		}
		what = became(rows)
		return what.Open == 0 && len(u.ends) == 0, cancel(rows)
	})
	if err == nil && len(u.ends) > 0 {
		err = sluice.Refuse(sluice.CodeUnavailable, "not all recipients of message %s may be stored yet (%d partitions are behind); the %d that are known are cancelled as far as they can be, and others may be mailed. Send it again",
			message, len(u.ends), len(written))
	}
	return what, err
}

// Stored reports whether the ledger has all mail that was handed in before a time, in ms.
// A message that it lacks then is none, or is gone.
func (c *Canceller) Stored(ctx context.Context, beforeMillis int64) (bool, error) {
	u := &unstored{c: c, accepted: beforeMillis, ends: make(map[int]sluice.Position)}
	err := u.begin(ctx)
	return len(u.ends) == 0, err
}

// unstored is of which partitions the ledger may lack sends of a message: those that it
// has not stored up to where the log ended when the cancel came. A message is written to
// the logs of its recipients at once, but each writer of the store stores its share of
// the partitions by itself. A cancel of the rows that are there would let the rest leave,
// and nobody would say so.
type unstored struct {
	c        *Canceller
	accepted int64                   // when the message was, in ms
	ends     map[int]sluice.Position // by partition, up to where it is to be stored
}

// acceptedAt is when the last of some sends was accepted, in ms.
func acceptedAt(rows []mail.SendRow) (millis int64) {
	for i := range rows {
		millis = max(millis, rows[i].AcceptedMillis)
	}
	return millis
}

// begin looks where logs end. What is old is stored, mostly, and nothing is waited for.
func (u *unstored) begin(ctx context.Context) error {
	ends, err := flow.LogEnds(ctx, u.c.Lanes)
	if err != nil {
		return err
	}
	for i, l := range u.c.Lanes {
		u.ends[l.Partition()] = ends[i]
	}
	return u.look(ctx)
}

// look leaves out the partitions that are stored far enough by now.
func (u *unstored) look(ctx context.Context) error {
	if len(u.ends) == 0 {
		return nil
	}
	cursors, err := u.c.Ledger.Cursors(ctx, u.c.StoredBy, slices.Collect(maps.Keys(u.ends)))
	if err != nil {
		return err
	}
	written := u.accepted + writtenWithin.Milliseconds()
	maps.DeleteFunc(u.ends, func(partition int, end sluice.Position) bool {
		at := cursors[partition]
		return !at.Before(end) || at.Major > uint64(written)
	})
	return nil
}

// CancelSends stops sends that wait, of whichever messages, and gives up those in
// doubt: what they say is kept no more. It returns when that is durable. It says
// nothing of their recipients: it is for erased users.
func (c *Canceller) CancelSends(ctx context.Context, rows []mail.SendRow) error {
	nameless := slices.Clone(rows)
	for i := range nameless {
		nameless[i].To, nameless[i].User, nameless[i].Metadata = "", "", ""
	}
	if err := c.attempted(ctx, nameless); err != nil {
		return err
	}
	// That a message has others is not known here, so its body is counted down.
	return c.write(ctx, nameless, sluice.MaxRecipients)
}

// TakeOut takes sends that are cancelled in the ledger out of what waits for a time,
// which would else have their addresses until then. What is in a lane by now leaves it
// when it is met. It reads what waits for these seconds, slowly.
func (c *Canceller) TakeOut(ctx context.Context, rows []mail.SendRow) error {
	type place struct {
		partition int
		second    int64
	}
	ids, now := make(map[place]map[string]bool), c.Clock.Now().UnixMilli()
	for i := range rows {
		r := &rows[i]
		due := r.LastDueMillis()
		if r.State != mail.SendCancelled || due == 0 {
			continue
		}
		// It was rounded up to one second, or to ten (slot).
		for _, second := range []int64{slot(due, due), slot(due, 0)} {
			at := place{r.Partition, second}
			if ids[at] == nil {
				ids[at] = make(map[string]bool)
			}
			ids[at][(&mail.Send{Message: r.Message, Number: r.Number}).ID()] = true
		}
	}
	pause := slowly(ctx)
	for at, of := range ids {
		if _, err := c.Lanes[at.partition].RemoveLater(ctx, at.second, of, now, pause); err != nil {
			return fmt.Errorf("take cancelled sends out of what waits for second %d: %w", at.second, err)
		}
	}
	return nil
}

// attempted makes sure that a decision is about the last attempt: a ledger that was
// restored knows of fewer than what is kept in doubt.
func (c *Canceller) attempted(ctx context.Context, rows []mail.SendRow) error {
	kept := make(map[int][]*mail.SendRow)
	for i := range rows {
		if r := &rows[i]; r.State == mail.SendInDoubt && r.DueMillis == 0 {
			kept[r.Partition] = append(kept[r.Partition], r)
		}
	}
	for partition, of := range kept {
		for piece := range slices.Chunk(of, doubtsAtOnce) {
			ids := make([]string, len(piece))
			for i, r := range piece {
				ids[i] = (&mail.Send{Message: r.Message, Number: r.Number}).ID()
			}
			items, err := c.Lanes[partition].Doubts(ctx, ids)
			if err != nil {
				return err
			}
			for i, r := range piece {
				r.Attempts = max(r.Attempts, attemptsOf(items[i]))
			}
		}
	}
	return nil
}

// doubtsAtOnce is how many sends in doubt are read at once.
const doubtsAtOnce = 500

// write writes that sends are cancelled, those that wait, of messages with so
// many recipients.
func (c *Canceller) write(ctx context.Context, rows []mail.SendRow, recipients int) error {
	now := c.Clock.Now().UnixMilli()
	parts := make(map[int]*flow.Part)
	for i := range rows {
		r := &rows[i]
		if r.State != mail.SendWaiting && (r.State != mail.SendInDoubt || r.To != "") {
			continue // in doubt: it may have arrived, so only that of an erased user is taken out
		}
		p := parts[r.Partition]
		if p == nil {
			p = &flow.Part{Partition: r.Partition}
			parts[r.Partition] = p
		}
		if o := cancelOf(r, recipients, now); r.State == mail.SendInDoubt && r.DueMillis == 0 {
			p.Items = mail.AppendDecision(p.Items, o)
		} else {
			p.Items = mail.AppendCancel(p.Items, o)
		}
		p.Count++
	}
	if len(parts) == 0 {
		return nil
	}
	all := make([]flow.Part, 0, len(parts))
	for _, p := range parts {
		all = append(all, *p)
	}
	if err := roomToCancel(ctx, c.Lanes, all); err != nil {
		return err
	}
	return c.Writer.Write(ctx, all...)
}

// roomToCancel returns an *sluice.Error if parts of cancels would find no room.
// Between this and their turn others may take it: that is logged.
func roomToCancel(ctx context.Context, lanes []*flow.Lanes, parts []flow.Part) error {
	for i := range parts {
		p := &parts[i]
		room, err := lanes[p.Partition].CancelRoom(ctx)
		if err != nil {
			return err
		}
		if int64(p.Count) > room {
			return sluice.Refuse(sluice.CodeUnavailable,
				"%d sends cannot be cancelled: partition %d has room for %d. %s", p.Count, p.Partition, room, noRoomToCancel)
		}
	}
	return nil
}

// noRoomToCancel says what that means, and what to do.
var noRoomToCancel = fmt.Sprintf("%d cancelled sends of a partition are remembered until their turn in their lane, or their time, has come; "+
	"pause what must not leave (`sluice sending pause`), and cancel it when some of these are gone", flow.MaxCancels)

// cancelOf is the outcome of a row that is cancelled, or, in doubt, given up. One in
// doubt that is attempted again is cancelled: its note stays until it is met in its
// lane (notes.go).
func cancelOf(r *mail.SendRow, recipients int, nowMillis int64) *mail.Outcome {
	o := rowOutcome(r, recipients, mail.SendWaiting, mail.SendCancelled, nowMillis)
	if r.State == mail.SendInDoubt {
		o.Was, o.Reason = mail.SendInDoubt, reasonErased
		if r.DueMillis == 0 { // it is not attempted again by itself: this decides
			o.State, o.Reason, o.Reply = mail.SendFailed, mail.ReasonDecided, decidedText(DecideGiveUp, "the erasure of its recipient", "")
		}
	}
	return o
}

// awaitLedger looks at the ledger until there is nothing to wait for, or time is up.
func awaitLedger(ctx context.Context, look func(context.Context) (enough bool, err error)) error {
	ctx, cancel := context.WithTimeout(ctx, cancelWithin)
	defer cancel()
	for {
		enough, err := look(ctx)
		if err != nil && ctx.Err() == nil {
			return err
		}
		if enough || sluice.Pause(ctx, cancelLook) != nil {
			return nil
		}
	}
}

// became counts what became of the sends of a message.
func became(rows []mail.SendRow) (what mail.Cancelled) {
	for i := range rows {
		switch rows[i].State {
		case mail.SendCancelled:
			what.Cancelled++
		case mail.SendWaiting:
			what.Open++
		case mail.SendSent, mail.SendInDoubt:
			what.Left++
		}
	}
	return what
}
