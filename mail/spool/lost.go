package spool

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"sluice"
	"sluice/flow"
	"sluice/mail"
)

// A send may be pending in the ledger, or in doubt with an attempt to come, and
// be in no lane. It waits for ever, and nothing says so, because totals and
// rows agree. The comparison finds such sends when it is known that one of the
// two stores has gone back. A defect that nobody has foreseen leaves no such
// hint. So each partition is looked through from time to time.
//
// The idea. A look reads a page of the keys that are pending in the ledger.
// Then it reads what is pending in Redis: first later, then lanes, then
// sublanes. Sends move that way without an item in the log, so a look meets
// those that move. What moves the other way, as a deferred send does, has its
// outcome in the log. Mail that was not attempted has none, as while its journey
// is paused. It would be missed each time that it moves behind the look. So the
// recorder tells a look of it. A send is lost if two looks have not met it and its
// row has stayed the same. The row is read before the second look, and after it
// once the log is stored. It is in doubt then, as if a comparison had found it.
//
// A look costs reading what waits, so it goes slowly, one partition of a process at a
// time. Without mail that waits it is two questions that indexes answer. MySQL and
// MariaDB read the rows in doubt of the partition for the second.

var (
	// lookEvery is how long a partition rests after a look that found nothing,
	// lookAgain after one that met not all.
	lookEvery = 10 * time.Minute
	lookAgain = 1 * time.Minute
)

const (
	// lookTick is how often is seen to whose turn it is.
	lookTick = 1 * time.Second

	// lookAtMost is how long a look may take.
	lookAtMost = 30 * time.Minute

	// lookKeys is how many keys a look asks for at most: of more it goes on the next
	// time. 18 bytes each are in memory.
	lookKeys = 100_000

	// lookLost is how many sends a look takes for lost at most.
	lookLost = 512

	// lookBytes is after how much that was read of the lanes a look pauses for
	// lookPause.
	lookBytes = 256 << 10
	lookPause = 50 * time.Millisecond

	// lookStored is how long a look waits until the ledger has what is in the log.
	lookStored = 30 * time.Second
)

// looked is what is known of a partition between two looks.
type looked struct {
	next    time.Time
	after   shortKey                // where the keys of the next one begin
	missing map[mail.SendKey]string // what the last one did not meet, and how its rows were
}

// lookThrough looks through the partitions that this process sends of, until the
// context ends.
func (s *Sender) lookThrough(ctx context.Context) {
	all := make(map[int]*looked)
	for {
		if sluice.Pause(ctx, sluice.Rest(time.Now(), lookTick)) != nil {
			return
		}
		for _, p := range s.held() {
			l := all[p.number]
			if l == nil {
				l = &looked{next: time.Now().Add(lookEvery / 10)} // a start has enough to do
				all[p.number] = l
			}
			if p.urgent || time.Now().Before(l.next) || ctx.Err() != nil || p.over.Load() {
				continue
			}
			err := s.look(ctx, p, l)
			s.Stats.looks.Add(1)
			if err != nil && ctx.Err() == nil && !p.over.Load() {
				s.Log.Warn("pending mail of a partition could not be checked; it is checked later", "partition", p.number, "in", lookEvery, "error", err)
			}
			if l.next = time.Now().Add(lookEvery); len(l.missing) > 0 {
				l.next = time.Now().Add(lookAgain)
			}
		}
	}
}

// look looks for sends of a partition that wait in the ledger alone.
func (s *Sender) look(ctx context.Context, p *part, l *looked) error {
	ctx, cancel := context.WithTimeout(ctx, lookAtMost)
	defer cancel()
	w := waitingPage{until: l.after}
	if err := w.read(ctx, s.Record, p.number, lookKeys); err != nil {
		return err
	}
	var missing []mail.SendKey
	if len(w.keys) > 0 {
		r := s.recorders[p.number]
		r.look.Store(&w)
		err := s.meetAll(ctx, p, &w)
		r.look.Store(nil)
		if err != nil {
			return err
		}
		missing, _ = w.unmet(0, lookLost)
	}
	before := l.missing
	if l.missing = nil; len(missing) > 0 {
		rows, err := s.Record.SendRows(ctx, missing)
		if err != nil {
			return err
		}
		if l.missing = waitingRows(rows); len(before) > 0 {
			return s.giveUp(ctx, p, before, l)
		}
	}
	if len(l.missing) == 0 {
		if l.after = w.until; w.last {
			l.after = shortKey{}
		}
	}
	return nil
}

// meetAll meets all that waits in Redis, slowly.
func (s *Sender) meetAll(ctx context.Context, p *part, w *waitingPage) error {
	pause := slowly(ctx)
	each := func(b *flow.LaneBatch, _ bool) error {
		r, err := sluice.ReadBatch(b.Data)
		if err != nil {
			return fmt.Errorf("read lane %s, entry %s: %w", b.Lane, b.Entry, err)
		}
		for r.Next() {
			var send mail.Send
			if r.Item.Kind == sluice.ItemSend && mail.DecodeSend(r.Item.Payload, &send) == nil {
				w.meet(short(send.Key())) // also what has left it since: so none is missing that is here
			}
		}
		if p.over.Load() {
			return fmt.Errorf("partition %d is read anew: %w", p.number, sluice.ErrConflict)
		}
		return cmp.Or(pause(len(b.Data)), r.Err())
	}
	if err := p.lanes.WalkLater(ctx, each); err != nil {
		return err
	}
	return p.lanes.WalkLanes(ctx, func(string) bool { return true }, each)
}

// slowly returns what a walk is to call with the bytes that it has read: it rests
// after each lookBytes.
func slowly(ctx context.Context) (pause func(bytes int) error) {
	read := 0
	return func(bytes int) error {
		if read += bytes; read < lookBytes {
			return ctx.Err()
		}
		read = 0
		return sluice.Pause(ctx, lookPause)
	}
}

// unmet returns keys that were not met, from a place on, and where to go on.
func (w *waitingPage) unmet(from, most int) (keys []mail.SendKey, next int) {
	for ; from < len(w.keys) && len(keys) < most; from++ {
		if atomic.LoadUint64(&w.met[from/64])&(1<<(from%64)) == 0 {
			keys = append(keys, w.keys[from].key())
		}
	}
	return keys, from
}

// waitingRows are those rows that are to be attempted, and how they are: each outcome
// leaves a line in the life of its row.
func waitingRows(rows []mail.SendRow) map[mail.SendKey]string {
	all := make(map[mail.SendKey]string)
	for i := range rows {
		if r := &rows[i]; r.InLane() {
			all[r.Key()] = fmt.Sprint(r.Attempts, r.UpdatedMillis, r.DueMillis, len(r.Life))
		}
	}
	return all
}

// giveUp says of sends that two looks did not meet, and whose rows are as they were
// before the second, that they are in doubt.
func (s *Sender) giveUp(ctx context.Context, p *part, before map[mail.SendKey]string, l *looked) error {
	maps.DeleteFunc(before, func(k mail.SendKey, how string) bool { return l.missing[k] != how })
	if len(before) == 0 {
		return nil
	}
	has, err := s.stored(ctx, p.lanes, func(waited time.Duration, _, _ sluice.Position) bool { return waited < lookStored })
	if err != nil || !has {
		return err // the next look decides
	}
	rows, err := s.Record.SendRows(ctx, slices.Collect(maps.Keys(before)))
	if err != nil {
		return err
	}
	still := waitingRows(rows)
	var items []byte
	var lost []string
	now := s.Clock.Now().UnixMilli()
	for i := range rows {
		r := &rows[i]
		delete(l.missing, r.Key())
		if how, waits := still[r.Key()]; waits && how == before[r.Key()] {
			items = mail.AppendOutcome(items, lostOutcome(r, 0, now))
			lost = append(lost, (&mail.Send{Message: r.Message, Number: r.Number}).ID())
		}
	}
	if len(lost) == 0 || p.over.Load() {
		return nil
	}
	if err := p.lanes.Note(ctx, items); err != nil {
		return err
	}
	s.Stats.lost.Add(int64(len(lost)))
	s.Log.Error("sends were in no lane and would never have left; they are in doubt now, with the reason lost", "partition", p.number, "sends", len(lost), "first", lost[0],
		"remedy", "`sluice doubt list` shows them")
	return nil
}
