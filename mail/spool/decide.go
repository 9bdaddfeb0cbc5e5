package spool

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"sluice"
	"sluice/flow"
	"sluice/lib/faults"
	"sluice/mail"
)

// An operator's decision about a send in doubt is an item of the log, as
// handing it in was. The store follower that queues the sends of that log
// carries it out, in one step with its cursor. The outcome goes to the log, the
// send leaves those kept in doubt, and goes to its lane if it is to be sent
// again.
//
// Of several decisions about one doubt one holds. They are in one log, so they
// are carried out one after the other. "Send it again" holds if the send is
// still kept. Any decision holds in the ledger if the row is as it was decided
// about (mail.SendRow.Undecided). Each names how many attempts its author
// knew of. So a decision does not apply once the send has been attempted again
// and is in doubt anew.

// Decision is what an operator decides about a send in doubt.
type Decision string

// The decisions.
const (
	DecideSent   Decision = "sent"    // it has arrived
	DecideAgain  Decision = "again"   // it is sent once more
	DecideGiveUp Decision = "give_up" // it has not arrived, and is not sent again
)

// Decisions are all of them.
var Decisions = []Decision{DecideSent, DecideAgain, DecideGiveUp}

// MaxNoteBytes bounds what is said of a decision.
const MaxNoteBytes = 200

// maxByBytes bounds the name of the operator who has decided.
const maxByBytes = 200

// Decider takes decisions. Any process may; it is carried out by those that store
// the logs.
type Decider struct {
	Writer *flow.Writer
	Lanes  []*flow.Lanes // by partition
	Ledger Ledger
	Clock  sluice.Clock
}

// Decide decides about a send in doubt. by and note are written into its life.
// It returns the send's row when the ledger has it. If that takes too long, it
// returns the row as it was, with settled false: read it again later. An
// *sluice.Error says why it cannot be decided, or that somebody else was
// faster.
func (d *Decider) Decide(ctx context.Context, send string, what Decision, by, note string) (row mail.SendRow, settled bool, err error) {
	row, recipients, err := d.look(ctx, send)
	if err != nil {
		return row, false, err
	}
	kept, err := d.Lanes[row.Partition].Doubts(ctx, []string{send})
	if err != nil {
		return row, false, err
	}
	now := d.Clock.Now().UnixMilli()
	o := rowOutcome(&row, recipients, mail.SendInDoubt, mail.SendInDoubt, now)
	o.Attempts = max(row.Attempts, attemptsOf(kept[0])) // a ledger that was restored knows of fewer
	o.Reason, o.Reply = mail.ReasonDecided, decidedText(what, by, note)
	switch what {
	case DecideSent:
		o.State, o.Event = mail.SendSent, sluice.EventSent
	case DecideGiveUp:
		o.State, o.Event = mail.SendFailed, sluice.EventFailed
	case DecideAgain:
		o.DueMillis = now
		if kept[0] == nil {
			return row, false, sluice.Refuse(sluice.CodeConflict, "send %s cannot be sent again: what it says is not kept any more, or never was; hand the message in anew, and decide sent or give_up about this one", send)
		}
	default:
		return row, false, sluice.Refuse(sluice.CodeInvalid, "decision %.32q is none of %v", what, Decisions)
	}
	if err := faults.Hit("decide"); err != nil {
		return row, false, err
	}
	if err := d.Writer.Write(ctx, flow.Part{Partition: row.Partition, Items: mail.AppendDecision(nil, o), Count: 1}); err != nil {
		return row, false, err
	}
	if err := faults.Hit("decided"); err != nil {
		return row, false, err
	}
	return d.await(ctx, send, row, o)
}

func decidedText(what Decision, by, note string) string {
	text := fmt.Sprintf("%s, decided by %s", what, mail.Clip(by, maxByBytes))
	if note != "" {
		text += ": " + mail.Clip(note, MaxNoteBytes)
	}
	return mail.ReplyText(text)
}

// find returns the row of a send, and how many its message has.
func (d *Decider) find(ctx context.Context, send string) (row mail.SendRow, recipients int, err error) {
	message, number, ok := mail.ParseSendID(send)
	var rows []mail.SendRow
	if ok {
		if rows, err = d.Ledger.MessageSends(ctx, message); err != nil {
			return row, 0, err
		}
	}
	for i := range rows {
		if rows[i].Number == number {
			return rows[i], len(rows), nil
		}
	}
	return row, 0, sluice.Refuse(sluice.CodeNotFound, "there is no send %.80q", send)
}

// look returns the row of a send about which can be decided.
func (d *Decider) look(ctx context.Context, send string) (row mail.SendRow, recipients int, err error) {
	row, recipients, err = d.find(ctx, send)
	switch {
	case err != nil:
	case row.State != mail.SendInDoubt:
		err = sluice.Refuse(sluice.CodeConflict, "send %s is not in doubt, it is %s", send, row.State)
	case row.DueMillis != 0:
		err = sluice.Refuse(sluice.CodeConflict, "send %s is attempted once more by itself at %s; decide when that has left it in doubt", send, time.UnixMilli(row.DueMillis).UTC().Format(time.RFC3339))
	case row.Partition < 0 || row.Partition >= len(d.Lanes):
		err = fmt.Errorf("send %s is in partition %d of %d", send, row.Partition, len(d.Lanes))
	}
	return row, recipients, err
}

// await looks at the ledger until it says what has become of a decision, or time
// is up.
func (d *Decider) await(ctx context.Context, send string, before mail.SendRow, o *mail.Outcome) (row mail.SendRow, settled bool, err error) {
	row = before
	var refused error
	err = awaitLedger(ctx, func(ctx context.Context) (bool, error) {
		now, _, err := d.find(ctx, send)
		if err != nil {
			return false, err
		}
		recorded, tooLate := now.Knows(o)
		if settled = recorded || !now.Undecided(o.Attempts); !settled {
			return false, nil
		}
		if row = now; !recorded || tooLate { // one that sends nothing again has no line
			refused = sluice.Refuse(sluice.CodeConflict, "somebody else, or evidence, was faster: send %s %s", send, stands(&row))
		}
		return true, nil
	})
	return row, settled, cmp.Or(err, refused)
}

// stands says how a row stands about which is not to be decided.
func stands(r *mail.SendRow) string {
	if r.State == mail.SendInDoubt && r.DueMillis != 0 {
		return "is attempted once more"
	}
	return "is " + r.State.String()
}

// attemptsOf is how many attempts were made of a send that is kept, 0 if it
// cannot be read.
func attemptsOf(kept []byte) int {
	var s mail.Send
	if kept == nil || decodeItem(kept, &s) != nil {
		return 0
	}
	return s.Attempts
}

// settles reports whether an item is an outcome by which a send is in doubt no
// more: evidence has come. Its first bytes are the states (mail.AppendOutcome).
// One that waits again was taken out of those in doubt when that was written
// (record.lua), and may be in doubt anew by now.
func settles(item *sluice.Item) bool {
	if item.Kind != sluice.ItemOutcome || len(item.Payload) < 2 || mail.SendState(item.Payload[0]) != mail.SendInDoubt {
		return false
	}
	state := mail.SendState(item.Payload[1])
	return state != mail.SendInDoubt && state != mail.SendWaiting
}

// deciding is what a batch of a log decides about sends in doubt.
type deciding struct {
	decided []mail.Outcome
	ids     []string // of these
	settled []string // by evidence
}

// add takes a decision, or an outcome. What cannot be read the store makes a dead
// letter.
func (d *deciding) add(item *sluice.Item) {
	var o mail.Outcome
	if item.Kind == sluice.ItemOutcome && !settles(item) || mail.DecodeOutcome(item.Payload, &o) != nil {
		return
	}
	if item.Kind == sluice.ItemOutcome && o.Reason == mail.ReasonDecided {
		return // it was carried out when it was written, or did not hold
	}
	id := (&mail.Send{Message: o.Message, Number: o.Number}).ID()
	if item.Kind == sluice.ItemOutcome {
		d.settled = append(d.settled, id)
		return
	}
	d.decided, d.ids = append(d.decided, o), append(d.ids, id)
}

// settle adds to a commit what the decisions come to.
func (d *deciding) settle(ctx context.Context, lanes *flow.Lanes, packing *packing, commit *flow.Commit, nowMillis int64) error {
	over := d.settled
	var again []string
	if len(d.ids) > 0 {
		kept, err := lanes.Doubts(ctx, d.ids)
		if err != nil {
			return err
		}
		for i := range d.decided {
			o, id := &d.decided[i], d.ids[i]
			stale := attemptsOf(kept[i]) > o.Attempts // it is about an earlier doubt
			if o.State == mail.SendInDoubt {          // again
				var s mail.Send
				if stale || kept[i] == nil || decodeItem(kept[i], &s) != nil {
					continue // another decision was faster
				}
				s.DueMillis, s.ExpiresMillis = o.DueMillis, max(s.ExpiresMillis, nowMillis+mail.DefaultExpiryMillis)
				s.Recount()
				packing.add(queueOf(&s, nowMillis), &s)
				again = append(again, id)
			}
			commit.Log = mail.AppendOutcome(commit.Log, o)
			if kept[i] == nil || stale {
				continue // what is kept by the time of the commit is another doubt
			}
			over = append(over, id)
			for j := range d.ids { // a later decision of this batch
				if d.ids[j] == id {
					kept[j] = nil
				}
			}
		}
	}
	commit.Operations = append(commit.Operations, lanes.Revived(again)...) // a cancel that came before the decision
	commit.Operations = append(commit.Operations, lanes.Settled(over)...)
	return nil
}

// decodeItem reads a send out of an item.
func decodeItem(item []byte, s *mail.Send) error {
	r, err := sluice.ReadBatch(append([]byte{sluice.BatchVersion}, item...))
	if err != nil {
		return err
	}
	if !r.Next() || r.Item.Kind != sluice.ItemSend {
		return fmt.Errorf("read a send in doubt: it is none")
	}
	return mail.DecodeSend(r.Item.Payload, s)
}
