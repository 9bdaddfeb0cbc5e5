package spool

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"sluice"
	"sluice/flow"
	"sluice/mail"
)

// Lanes and ledger are two stores, and each can go back in time alone. Redis
// does when a replica that lagged, or an empty server, takes over; the database
// does when a backup is restored. Then the ledger has pending sends that are in
// no lane, and lanes hold sends that have ended, or that no row knows. The
// comparison brings both together, before anything of the partition is sent but
// urgent mail.
//
// The idea. Everything that the log knows is stored in the ledger first. An
// open transaction may store what only the Redis of before had. So a marker is
// written to the end of the log, above all positions that any process has seen.
// Once the cursor in the database has passed the marker, each open transaction
// has ended one way or the other. Then the keys of all that is pending there
// are read, then the lanes are walked. A send is queued before its row is
// there. So a send that is pending in the ledger and is not met in the lanes
// has left them. Either it was recorded meanwhile, which the log tells once
// more, or its place is lost. Then nobody knows whether it was attempted: it is
// in doubt, and is not attempted again. What the lanes have and the ledger
// lacks, the ledger gets. What the ledger has as ended is noted, and not
// attempted when its turn comes.
//
// Urgent mail does not wait for all that. Its lanes and sublanes are looked
// through first, for what has ended and what no row knows. Then they are worked
// off beside the comparison of all lanes. Nothing is released meanwhile. So a
// recorded send moves only towards the end of the walk (lane, sublane, later),
// and is met there if it was not before. A send whose final outcome is recorded
// when the walk comes by has it in the log. The ledger has that log before any
// send is declared lost.
//
// What comes of it goes by the log, as everything does. So rows, totals and
// bodies are changed by their one owner. A comparison that was broken off
// begins again and finds less to do.
//
// What was dropped. Deciding in `sluice restore`, out of the ledger and the
// lanes alone. Outcomes still in the log would arrive too late for rows already
// declared lost. Reading the lanes while they are worked on: what moves
// backwards in between, as what is released does, is seen in neither.

// AfterMove is for how long a sender looks up the record of each send before it
// marks it, once a change of Redis was seen. A process that had read from the
// log of before may write to the ledger even after the comparison. How long a
// mail is on the wire is not bounded by it.
const AfterMove = 10 * time.Minute

const (
	// compareKeys is how many keys of waiting sends one question asks for.
	compareKeys = 5000

	// comparisons is how many partitions of a process are compared at once.
	comparisons = 2

	// storedWait is how often is looked whether the ledger has what the log has.
	storedWait = 50 * time.Millisecond

	// storedLate is after what time of waiting for that it is said, again and again.
	storedLate = 30 * time.Second
)

// comparePage is how many keys are in memory at a time, 18 MB: for each page of
// them the lanes are walked once. A test has smaller ones.
var comparePage = 1_000_000

// Record is the ledger, as a Sender needs it. The stores of sqlstore are ones.
type Record interface {
	SendRows(ctx context.Context, keys []mail.SendKey) ([]mail.SendRow, error)
	LaneKeys(ctx context.Context, partition int, after mail.SendKey, limit int) ([]mail.LaneKey, error)
	Cursors(ctx context.Context, follower string, partitions []int) (map[int]sluice.Position, error)
}

// Found is what a comparison has found.
type Found struct {
	At      int64 `json:"at"`      // ms since 1970
	Waiting int   `json:"waiting"` // in the ledger and in a lane, those in doubt with an attempt to come among them
	Doubt   int   `json:"doubt"`   // in the ledger alone: in doubt now, without an attempt to come
	Known   int   `json:"known"`   // in a lane alone: in the ledger now
	Ended   int   `json:"ended"`   // ended in the ledger: not attempted again
}

// Add adds up what was found in several partitions.
func (f *Found) Add(g Found) {
	f.At = max(f.At, g.At)
	f.Waiting, f.Doubt, f.Known, f.Ended = f.Waiting+g.Waiting, f.Doubt+g.Doubt, f.Known+g.Known, f.Ended+g.Ended
}

// shortKey is a key in as few bytes as it takes, for there may be millions; their
// order is that of the keys.
type shortKey [sluice.MessageIDBytes/2 + 2]byte

func short(k mail.SendKey) (b shortKey) {
	_, _ = hex.Decode(b[:], []byte(k.Message)) // valid ids are hexadecimal
	binary.BigEndian.PutUint16(b[len(b)-2:], uint16(k.Number))
	return b
}

func (b shortKey) key() mail.SendKey {
	return mail.SendKey{Message: hex.EncodeToString(b[:len(b)-2]), Number: int(binary.BigEndian.Uint16(b[len(b)-2:]))}
}

func compareShort(a, b shortKey) int { return bytes.Compare(a[:], b[:]) }

// comparison is one of a partition's lanes with its ledger.
type comparison struct {
	s       *Sender
	lanes   *flow.Lanes
	lease   *flow.Lease
	start   *flow.LaneState
	first   bool        // the urgent lanes are looked through, before all others
	waiting waitingPage // in the ledger
	unsure  []met       // in a lane, and the ledger lacked it, or may know more of it by now; at most compareKeys and a batch
	found   Found
}

// met is a send that was met in a lane.
type met struct {
	send  mail.Send
	batch *flow.LaneBatch
	index int
}

// waitingPage is a page of the keys that are in a lane by the ledger: those between
// two. They wait, or are in doubt and an attempt is to come.
type waitingPage struct {
	after, until shortKey
	last         bool // until is open
	keys         []shortKey
	doubt        []uint64 // a bit for each key: it is in doubt
	met          []uint64 // a bit for each key: it was met in a lane
}

// read reads keys on behind the last one, until there are most.
func (w *waitingPage) read(ctx context.Context, record Record, partition, most int) error {
	w.after, w.keys, w.doubt = w.until, w.keys[:0], w.doubt[:0]
	for !w.last && len(w.keys) < most {
		ask := min(compareKeys, most-len(w.keys))
		keys, err := record.LaneKeys(ctx, partition, w.until.key(), ask)
		if err != nil {
			return err
		}
		for _, k := range keys {
			at := len(w.keys)
			if w.keys = append(w.keys, short(k.SendKey)); at%64 == 0 {
				w.doubt = append(w.doubt, 0)
			}
			if k.Doubt {
				w.doubt[at/64] |= 1 << (at % 64)
			}
		}
		if w.last = len(keys) < ask; !w.last {
			w.until = w.keys[len(w.keys)-1]
		}
	}
	w.met = make([]uint64, len(w.doubt))
	return nil
}

// has reports whether a key is one of this page, if it waits in the ledger.
func (w *waitingPage) has(k shortKey) bool {
	return compareShort(k, w.after) > 0 && (w.last || compareShort(k, w.until) <= 0)
}

// meet notes that a key was met. It reports whether it waits or is in doubt with an
// attempt to come, and whether it was met before. It may be called while another
// goroutine does.
func (w *waitingPage) meet(k shortKey) (waits, doubt, before bool) {
	at, found := slices.BinarySearchFunc(w.keys, k, compareShort)
	if !found {
		return false, false, false
	}
	bit := uint64(1) << (at % 64)
	before = atomic.OrUint64(&w.met[at/64], bit)&bit != 0
	doubt = w.doubt[at/64]&bit != 0
	return !doubt, doubt, before
}

// compare brings lanes and ledger of a partition together. It returns when that
// is done, or the context ends.
func (s *Sender) compare(ctx, work context.Context, lanes *flow.Lanes, lease *flow.Lease, start flow.LaneState) error {
	own := start
	own.States = maps.Clone(start.States) // the worker of the urgent lanes changes its own
	c := &comparison{s: s, lanes: lanes, lease: lease, start: &own}
	err := c.urgent(ctx)
	if err == nil {
		err = c.beside(ctx, work, start)
	}
	if err != nil {
		return fmt.Errorf("compare the lanes of partition %d with the ledger: %w", lanes.Partition(), err)
	}
	return nil
}

// urgent looks through the urgent lanes: what has ended is noted, and what no row
// knows gets one. What the ledger has and they have not is for later.
func (c *comparison) urgent(ctx context.Context) error {
	marker := sluice.AppendItem(nil, sluice.ItemMarker, func(b []byte) []byte { return b })
	if err := c.write(ctx, marker); err != nil {
		return err
	}
	if err := c.awaitStored(ctx); err != nil {
		return err
	}
	c.first = true
	defer func() { c.first = false }()
	if err := c.lanes.WalkLanes(ctx, urgentLane, func(b *flow.LaneBatch, later bool) error { return c.batch(ctx, b, later) }); err != nil {
		return err
	}
	return c.enter(ctx)
}

// beside compares all lanes while the urgent ones are worked off.
func (c *comparison) beside(ctx, work context.Context, start flow.LaneState) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan error, 1)
	go func() { // it is waited for below
		err := c.whole(ctx)
		done <- err
		stop()
	}()
	failed := c.s.serveUrgent(ctx, work, c.lanes, c.lease, start)
	stop()
	if err := <-done; failed == nil {
		return err
	}
	return failed
}

// serveUrgent works off the urgent lanes of a partition until the context ends.
func (s *Sender) serveUrgent(ctx, work context.Context, lanes *flow.Lanes, lease *flow.Lease, start flow.LaneState) (err error) {
	for server := start.Server; ; {
		if err := s.serve(ctx, newPart(s, lanes.Partition(), lanes, lease, start, true)); err != nil || ctx.Err() != nil {
			return err
		}
		if start, err = lanes.Begin(work, lease, s.Clock.Now().UnixMilli()); err != nil {
			return err
		}
		if start.Server != server {
			return fmt.Errorf("work off the urgent lanes: %w: it is another redis by now", sluice.ErrConflict)
		}
	}
}

// whole compares all lanes, and notes what was found.
func (c *comparison) whole(ctx context.Context) error {
	select { // each has a page of keys in memory
	case c.s.comparing <- struct{}{}:
		defer func() { <-c.s.comparing }()
	case <-ctx.Done():
		return ctx.Err()
	}
	began := c.s.Clock.Now()
	for !c.waiting.last {
		if err := c.page(ctx); err != nil {
			return err
		}
	}
	c.found.At = c.s.Clock.Now().UnixMilli()
	text, err := json.Marshal(c.found)
	if err == nil {
		err = c.lanes.Compared(ctx, c.lease, c.start.Server, string(text))
	}
	if err == nil {
		level := slog.LevelDebug
		if c.found.Doubt+c.found.Known+c.found.Ended > 0 {
			level = slog.LevelWarn
		}
		c.s.Log.Log(ctx, level, "lanes and ledger were compared, since one of them may have gone back in time", "partition", c.lanes.Partition(), "took", c.s.Clock.Now().Sub(began),
			"waiting", c.found.Waiting, "in_doubt", c.found.Doubt, "entered_in_the_ledger", c.found.Known, "ended_before", c.found.Ended)
	}
	return err
}

// page compares the next comparePage keys that wait in the ledger, and what lanes
// have between them.
func (c *comparison) page(ctx context.Context) error {
	if err := c.waiting.read(ctx, c.s.Record, c.lanes.Partition(), comparePage); err != nil {
		return err
	}
	if err := c.lanes.Walk(ctx, func(b *flow.LaneBatch, later bool) error { return c.batch(ctx, b, later) }); err != nil {
		return err
	}
	// A process that had marked before may have recorded while the lanes were walked.
	if err := c.enter(ctx); err != nil {
		return err
	}
	return c.lost(ctx)
}

// awaitStored waits until the ledger has all that is in the log now.
func (c *comparison) awaitStored(ctx context.Context) error {
	_, err := c.s.stored(ctx, c.lanes, func(waited time.Duration, at, end sluice.Position) bool {
		if waited%storedLate == 0 {
			c.s.Log.Warn("nothing of a partition is sent before its log is stored: lanes and ledger are to be compared; does a process with the role store run?",
				"partition", c.lanes.Partition(), "stored_up_to", at.String(), "log_ends_at", end.String())
		}
		return true
	})
	return err
}

// stored waits until the ledger has all that is in the log of a partition now,
// and reports whether it has. If not, the ledger is behind, and goesOn has said
// that the wait is over.
func (s *Sender) stored(ctx context.Context, lanes *flow.Lanes, goesOn func(waited time.Duration, at, end sluice.Position) bool) (bool, error) {
	end, err := lanes.LogEnd(ctx)
	if err != nil {
		return false, err
	}
	number := lanes.Partition()
	for waited := storedWait; ; waited += storedWait {
		at, err := s.Record.Cursors(ctx, s.StoredBy, []int{number})
		if err != nil {
			return false, err
		}
		if !at[number].Before(end) {
			return true, nil
		}
		if !goesOn(waited, at[number], end) {
			return false, nil
		}
		if err := sluice.Pause(ctx, storedWait); err != nil {
			return false, err
		}
	}
}

// batch compares the sends of a batch in a lane.
func (c *comparison) batch(ctx context.Context, b *flow.LaneBatch, later bool) error {
	if err := c.lanes.Readable(ctx, b); err != nil {
		return err
	}
	letters := ""
	if !later {
		letters = c.start.Letters(b)
	}
	r, err := sluice.ReadBatch(b.Data)
	if err != nil {
		return fmt.Errorf("read lane %s, entry %s: %w", b.Lane, b.Entry, err)
	}
	known := !c.first && !later && urgentLane(b.Lane) // its sends were looked at before, and may have left since
	unknown := make(map[mail.SendKey]*met)
	place := *b // without what is in it
	place.Data = nil
	for r.Next() {
		m := &met{batch: &place, index: r.Index}
		if r.Index >= b.Size || letters != "" && letters[r.Index] == flow.LetterDone ||
			r.Item.Kind != sluice.ItemSend || mail.DecodeSend(r.Item.Payload, &m.send) != nil {
			continue // what cannot be read becomes a dead letter when its turn comes
		}
		key := short(m.send.Key())
		if !c.first && !c.waiting.has(key) {
			continue // its turn is another page's
		}
		waits, doubt, before := c.waiting.meet(key)
		if !waits && (!doubt || !m.send.Doubted) {
			if !known {
				unknown[m.send.Key()] = m
			}
			continue
		}
		if !before {
			c.found.Waiting++
		}
		if waits && m.send.Doubted {
			if err := c.lookAgain(m); err != nil {
				return err
			}
		}
	}
	if err := r.Err(); err != nil {
		return fmt.Errorf("read lane %s, entry %s: %w", b.Lane, b.Entry, err)
	}
	if err := c.unknown(ctx, unknown); err != nil || len(c.unsure) < compareKeys {
		return err
	}
	return c.enter(ctx)
}

// doubtedBefore is the outcome that a lagging ledger lacks: it does not know
// yet that a send was in doubt and gets its last attempt.
func doubtedBefore(s *mail.Send, nowMillis int64) *mail.Outcome {
	known := *s
	known.Doubted = false
	o := outcomeOf(&known, mail.SendInDoubt, "", nowMillis)
	o.DueMillis = max(s.DueMillis, nowMillis)
	return o
}

// unknown looks at sends of lanes that do not wait in the ledger. What has ended
// leaves its lane. One that is in doubt in the ledger may have been decided about
// since, or evidence may have come: enter looks at it again.
func (c *comparison) unknown(ctx context.Context, sends map[mail.SendKey]*met) error {
	if len(sends) == 0 {
		return nil
	}
	rows, err := c.s.Record.SendRows(ctx, slices.Collect(maps.Keys(sends)))
	if err != nil {
		return err
	}
	var ended []*met
	for i := range rows {
		r := &rows[i]
		m := sends[r.Key()]
		switch {
		case r.State == mail.SendInDoubt && over(r, &m.send), r.State == mail.SendWaiting && m.send.Doubted:
			continue
		case over(r, &m.send):
			ended = append(ended, m)
		}
		delete(sends, m.send.Key())
	}
	for _, m := range sends {
		if err := c.lookAgain(m); err != nil {
			return err
		}
	}
	return c.remove(ctx, ended)
}

// remove takes sends out of the lanes that have ended in the ledger.
func (c *comparison) remove(ctx context.Context, ended []*met) error {
	byBatch := make(map[*flow.LaneBatch][]flow.Placed)
	for _, m := range ended {
		byBatch[m.batch] = append(byBatch[m.batch], flow.Placed{Index: m.index, ID: m.send.ID(), Account: m.send.Account, Weight: m.send.Weight})
	}
	now := c.s.Clock.Now().UnixMilli()
	for batch, sends := range byBatch {
		n, err := c.lanes.Remove(ctx, c.lease, batch, sends, now)
		if err != nil {
			return err
		}
		c.found.Ended += int(n)
	}
	return nil
}

// lookAgain has enter look at a send again.
func (c *comparison) lookAgain(m *met) error {
	m.send.Content = ""
	own := met{batch: m.batch, index: m.index} // which keeps no batch in memory
	if err := mail.DecodeSend(mail.AppendSend(nil, &m.send)[sluice.ItemHeaderBytes:], &own.send); err != nil {
		return err
	}
	c.unsure = append(c.unsure, own)
	return nil
}

// enter enters in the ledger what it lacks: sends that no row knows, and that one
// was in doubt. Of what was accepted or recorded a moment ago it has all once the
// log is stored. What has ended by then leaves its lane.
func (c *comparison) enter(ctx context.Context) error {
	if err := c.awaitStored(ctx); err != nil {
		return err
	}
	for chunk := range slices.Chunk(c.unsure, flow.MaxLaneSends) {
		missing := make(map[mail.SendKey]*met, len(chunk))
		for i := range chunk {
			missing[chunk[i].send.Key()] = &chunk[i]
		}
		rows, err := c.s.Record.SendRows(ctx, slices.Collect(maps.Keys(missing)))
		if err != nil {
			return err
		}
		var items []byte
		var ended []*met
		now := c.s.Clock.Now().UnixMilli()
		for i := range rows {
			r := &rows[i]
			key := r.Key()
			m := missing[key]
			switch {
			case over(r, &m.send):
				ended = append(ended, m)
				if r.State == mail.SendInDoubt && r.DueMillis != 0 { // its last attempt is lost
					items = mail.AppendOutcome(items, lostOutcome(r, m.send.Recipients, now))
				}
			case m.send.Doubted && r.State == mail.SendWaiting:
				items = mail.AppendOutcome(items, doubtedBefore(&m.send, now))
			}
			delete(missing, key)
		}
		for _, m := range missing {
			known := m.send
			known.Doubted = false
			items = mail.AppendKnown(items, &known)
			if m.send.Doubted {
				items = mail.AppendOutcome(items, doubtedBefore(&m.send, now))
			}
		}
		c.found.Known += len(missing)
		if err := c.write(ctx, items); err != nil { // first: a send in doubt that left its lane would stay so
			return err
		}
		if err := c.remove(ctx, ended); err != nil {
			return err
		}
	}
	c.unsure = c.unsure[:0]
	return nil
}

// over reports whether the ledger says that a send of a lane is not to be
// attempted. Either it has ended, or it was in doubt and this is not its last
// attempt.
func over(r *mail.SendRow, s *mail.Send) bool {
	switch r.State {
	case mail.SendWaiting:
		return false
	case mail.SendInDoubt:
		return !s.Doubted || r.DueMillis == 0
	}
	return true
}

// lost says of all that was met in no lane, and still waits or is to be attempted
// once more, that it is in doubt.
func (c *comparison) lost(ctx context.Context) error {
	for keys, next := c.waiting.unmet(0, flow.MaxLaneSends); len(keys) > 0; keys, next = c.waiting.unmet(next, flow.MaxLaneSends) {
		rows, err := c.s.Record.SendRows(ctx, keys)
		if err != nil {
			return err
		}
		var items []byte
		now := c.s.Clock.Now().UnixMilli()
		for i := range rows {
			if rows[i].InLane() {
				c.found.Doubt++
				items = mail.AppendOutcome(items, lostOutcome(&rows[i], 0, now))
			}
		}
		if err := c.write(ctx, items); err != nil {
			return err
		}
	}
	return nil
}

// lostOutcome ends a row whose send is in no lane any more. recipients 0: nobody
// knows how many its message has.
func lostOutcome(r *mail.SendRow, recipients int, nowMillis int64) *mail.Outcome {
	o := rowOutcome(r, max(recipients, 2), r.State, mail.SendInDoubt, nowMillis)
	o.Reason, o.Reply = mail.ReasonLost, "redis or the database has gone back in time: it waits in no lane, and nobody knows whether it was sent"
	return o
}

// write writes items to the log.
func (c *comparison) write(ctx context.Context, items []byte) error {
	if len(items) == 0 {
		return nil
	}
	return c.lanes.Note(ctx, items)
}
