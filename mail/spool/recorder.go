package spool

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"sluice"
	"sluice/flow"
	"sluice/mail"
)

// Bounds of a recorder.
const (
	// recordSends is how many sends one call records, at most recordBytes of
	// contents and a send more.
	recordSends = 256
	recordBytes = 1 << 20

	// takenBackSends is how many sends wait for the recorder whose marks are taken back: 4.5 KB
	// each, or less.
	takenBackSends = 2048

	// What failed is tried again after a while that grows.
	recordAgainSoonest = 20 * time.Millisecond

	// rowsWithin is how long the recorder waits for the ledger, behind a Redis that went back.
	rowsWithin        = 2 * time.Second
	recordAgainLatest = 2 * time.Second
)

// finished is a send whose attempt is over, or that is given up.
type finished struct {
	item    *item
	verdict verdict
	waits   bool   // it was not attempted, and waits as before
	given   bool   // its process is taken for dead
	late    bool   // this process was taken for dead
	aside   string // it was not attempted, and waits in this sublane
	kind    mail.ResultKind
	route   string
}

// notAttempted reports whether it waits as before, perhaps elsewhere or until later, because
// it was not attempted: nothing happened to it.
func (f *finished) notAttempted() bool {
	return f.waits || f.aside != "" || f.verdict.again != nil && f.verdict.outcome == nil
}

// recorder records what becomes of the sends of one partition: all that has come
// while its last call ran, by one call. It lives as long as the program: results
// are recorded even if the lease is lost meanwhile.
type recorder struct {
	sender  *Sender
	lanes   *flow.Lanes
	results chan finished

	takenBack atomic.Int64 // sends on their way to results whose marks are taken back

	look atomic.Pointer[waitingPage] // of the look through the partition; nil: none runs
}

func newRecorder(s *Sender, lanes *flow.Lanes) *recorder {
	return &recorder{sender: s, lanes: lanes, results: make(chan finished, recordSends)}
}

// hand gives a finished send to the recorder of its partition, and waits if that
// has too much in hand. When ctx ends it is left marked.
func (s *Sender) hand(ctx context.Context, f finished) {
	s.unbind(&f.verdict)
	select {
	case s.recorders[f.item.part.number].results <- f:
	case <-ctx.Done():
		s.fly(f.item.mark, -1)
	}
}

// unbind has a send that is kept in doubt go by any route if an operator decides that it goes
// again. It may be bound to the route that had it and knows mails again (inDoubt): that one has
// forgotten it by then. Or its route may have gone from the settings. A route that it has asked
// for stays, unless one of these holds for it.
func (s *Sender) unbind(v *verdict) {
	if v.kept == nil || v.kept.Route == "" {
		return
	}
	if t := s.Routes.TransportOf(v.kept.Route); t == nil || knows(t) {
		v.kept.Route = ""
	}
}

// run records until results is closed, or work ends.
func (r *recorder) run(work context.Context) {
	for first := range r.results {
		batch, size := []finished{first}, first.bytes()
		for more := true; more && len(batch) < recordSends && size < recordBytes; {
			select {
			case f, ok := <-r.results:
				if more = ok; ok {
					batch, size = append(batch, f), size+f.bytes()
				}
			default:
				more = false
			}
		}
		r.record(work, batch)
	}
}

// bytes is how much of a record's call it takes, roughly.
func (f *finished) bytes() int {
	if again, _ := f.waitsAt(0); again != nil {
		return 1024 + len(again.Content)
	}
	return 1024
}

// record records a batch, again and again until it is done or work ends: then it
// stays marked, which is what it is.
func (r *recorder) record(work context.Context, batch []finished) {
	s := r.sender
	r.tellLook(batch) // and behind the call: a look may begin, or end, while it runs
	packed, sends := r.compose(batch)
	wait, late := recordAgainSoonest, false
	all, before := len(sends), 0 // of the batch, and what a call took before all were told late
	for {
		done, refused, err := r.lanes.Record(work, packed, sends)
		if err == nil && done < len(sends) && !late {
			r.anew(batch)
			late, before = true, done
			if packed, sends = r.compose(lateOnes(batch, s.Clock.Now().UnixMilli())); len(sends) > 0 {
				continue
			}
		}
		if err == nil && before+done < all {
			err = r.noteSent(work, batch)
		}
		if err == nil {
			for _, text := range refused {
				s.Log.Error("redis refused a part of what was recorded of sends", "partition", r.lanes.Partition(), "error", text)
			}
			r.recorded(batch)
			return
		}
		if work.Err() != nil {
			s.Log.Warn("results of sends could not be recorded; the sends are in doubt", "partition", r.lanes.Partition(), "sends", len(batch), "error", err)
			for i := range batch {
				s.fly(batch[i].item.mark, -1)
			}
			return
		}
		s.Log.Warn("results of sends could not be recorded, trying again", "partition", r.lanes.Partition(), "sends", len(batch), "error", err)
		_ = sluice.Pause(work, wait/2+rand.N(wait)) // the next call says that work has ended
		wait = min(2*wait, recordAgainLatest)
	}
}

// noteSent writes to the log what has left, where Redis has not taken all of a batch: it
// has gone back behind marks, and what waited there has ended meanwhile, as by a cancel.
// An outcome that was taken already changes nothing then, and sent wins (mail.SendRow.Record).
// Where Redis went back behind the acceptance, too, the ledger may have no row. Then the send
// goes with its outcome, as it was accepted.
func (r *recorder) noteSent(work context.Context, batch []finished) error {
	left := slices.DeleteFunc(slices.Clone(batch), func(f finished) bool {
		o := f.verdict.outcome
		return o == nil || o.State != mail.SendSent || f.item.broken != nil || f.given
	})
	if len(left) == 0 {
		return nil
	}
	rows := r.withRows(work, left)
	var items []byte
	for i := range left {
		known := left[i].item.send
		if rows != nil && !rows[known.Key()] && !known.Doubted { // one in doubt has had a row for long
			known.Attempts, known.Content = 0, ""
			items = mail.AppendKnown(items, &known)
		}
		items = mail.AppendOutcome(items, left[i].verdict.outcome)
	}
	return r.lanes.Note(work, items)
}

// withRows returns which sends the ledger has a row of; nil: it does not say so within
// rowsWithin, and an outcome without a row becomes a dead letter.
func (r *recorder) withRows(work context.Context, batch []finished) map[mail.SendKey]bool {
	keys := make([]mail.SendKey, len(batch))
	for i := range batch {
		keys[i] = batch[i].item.send.Key()
	}
	ctx, cancel := context.WithTimeout(work, rowsWithin)
	defer cancel()
	found, err := r.sender.Record.SendRows(ctx, keys)
	if err != nil {
		r.sender.Log.Warn("which sends have a row in the ledger could not be read", "partition", r.lanes.Partition(), "sends", len(keys), "error", err)
		return nil
	}
	rows := make(map[mail.SendKey]bool, len(found))
	for i := range found {
		rows[found[i].Key()] = true
	}
	return rows
}

// anew has the partitions of a batch read anew: marks in it did not stand. Somebody
// else has recorded those, and the sends may wait where nobody here looks.
func (r *recorder) anew(batch []finished) {
	var last *part
	for i := range batch {
		if p := batch[i].item.part; p != last {
			p.end()
			last = p
		}
	}
}

// lateOnes returns what can be said of a batch of which some was passed over.
// This process may have been taken for dead meanwhile, and those sends put in
// doubt. What was recorded is not reported twice: it was not given up. What was never
// attempted waits once more, unless the process that gave it up attempts it anyway.
func lateOnes(batch []finished, nowMillis int64) (late []finished) {
	for _, f := range batch {
		if f.notAttempted() && !f.item.send.Doubted {
			f.verdict = notAttempted(&f.item.send, f.verdict.again, nowMillis)
		}
		if f.item.broken != nil || f.given || f.verdict.outcome == nil || f.verdict.outcome.State == mail.SendInDoubt {
			continue // it is in doubt anyway
		}
		o := *f.verdict.outcome
		o.Was = mail.SendInDoubt
		f.late, f.verdict.outcome = true, &o
		late = append(late, f)
	}
	return late
}

// recorded tells the rest of the program of a batch that is recorded.
func (r *recorder) recorded(batch []finished) {
	s, now := r.sender, r.sender.Clock.Now()
	r.tellLook(batch)
	var back []*item
	for i := range batch {
		f := &batch[i]
		f.item.spend(mail.StageRecord, now)
		s.fly(f.item.mark, -1)
		switch {
		case f.waits:
			back = append(back, f.item)
		case f.aside != "":
			f.item.part.arrived(f.aside)
		}
	}
	s.Stats.recorded(batch, now)
	if len(back) > 0 {
		putBack(back)
		s.wake(true)
	}
}

// tellLook tells a look for lost mail which sends of a batch wait and were not attempted:
// they may have moved to where it has been, and the log does not say so (lost.go).
func (r *recorder) tellLook(batch []finished) {
	w := r.look.Load()
	if w == nil {
		return
	}
	for i := range batch {
		if f := &batch[i]; f.notAttempted() && f.item.broken == nil {
			w.meet(short(f.item.send.Key()))
		}
	}
}

// compose makes a record's arguments of a batch. Sends that wait for the same
// time in the same lane are packed together.
func (r *recorder) compose(batch []finished) (packed []flow.Packed, sends []flow.Recorded) {
	now := r.sender.Clock.Now().UnixMilli()
	groups := make(map[queuePlace]int)
	sizes := make([]int, 0, 4)
	for i := range batch {
		f := &batch[i]
		rec := flow.Recorded{LanePlace: f.item.place, ID: f.item.id(), Evidence: f.item.mark, Server: f.item.part.start.Server, Given: f.given, Late: f.late, Waits: f.waits, Packed: -1, Account: f.item.send.Account, Weight: f.item.send.Weight}
		switch {
		case f.item.broken != nil && !f.waits:
			rec.Log = sluice.AppendDead(nil, f.item.dead(now))
		case f.verdict.outcome != nil:
			rec.Log = mail.AppendOutcome(nil, f.verdict.outcome)
		}
		again, at := f.waitsAt(now)
		if again != nil {
			g, ok := groups[at]
			if !ok || sizes[g] >= sluice.MaxBatchBytes {
				g = len(packed)
				groups[at] = g
				packed, sizes = append(packed, flow.Packed{Lane: at.lane, Second: at.second, Doubt: at.doubt}), append(sizes, 0)
			}
			rec.Packed, rec.Item = g, mail.AppendSend(nil, again)
			sizes[g] += len(rec.Item)
		}
		sends = append(sends, rec)
	}
	return packed, sends
}

// waitsAt says what of a finished send waits anew, and where.
func (f *finished) waitsAt(nowMillis int64) (*mail.Send, queuePlace) {
	switch {
	case f.aside != "":
		return &f.item.send, queuePlace{lane: f.aside}
	case f.verdict.again != nil:
		return f.verdict.again, queueOf(f.verdict.again, nowMillis)
	case f.verdict.kept != nil:
		return f.verdict.kept, queuePlace{doubt: true}
	}
	return nil, queuePlace{}
}

// comparePlaces orders sends so that those of one batch stand together, and those
// of a lane as they wait there.
func comparePlaces(a, b *flow.LanePlace) int {
	return cmp.Or(cmp.Compare(a.Batch.Lane, b.Batch.Lane), compareEntries(a.Batch.Entry, b.Batch.Entry), cmp.Compare(a.Index, b.Index))
}

// compareEntries orders the ids of entries, which are TIME-NUMBER: 7-10 comes
// after 7-9, and 8-0 after both. The two numbers have no leading zeros.
func compareEntries(a, b string) int {
	if a == b {
		return 0
	}
	aTime, aNumber, _ := strings.Cut(a, "-")
	bTime, bNumber, _ := strings.Cut(b, "-")
	return cmp.Or(cmp.Compare(len(aTime), len(bTime)), cmp.Compare(aTime, bTime), cmp.Compare(len(aNumber), len(bNumber)), cmp.Compare(aNumber, bNumber))
}
