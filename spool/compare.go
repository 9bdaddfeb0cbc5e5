package spool

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"sluice"
	"sluice/flow"
)

// Lanes and ledger are two stores, and either can go back in time alone: Redis
// when a replica that lagged takes over, or an empty server; the database when a
// backup is put back. Then the ledger has sends as waiting that are in no lane,
// lanes hold sends that have ended, or that no row knows. Comparing them brings
// both together, before anything of the partition is sent.
//
// The idea. Everything that the log knows is let into the ledger first; then
// the keys of all that wait there are read, then the lanes are walked. A send is
// queued before its row is there, so whoever waits in the ledger and is not met
// in the lanes has left them: it was recorded meanwhile, which the log tells once
// more, or its place is lost. Nobody knows then whether it was attempted: it is
// in doubt, and is not attempted again. What the lanes have and the ledger has
// not, it gets; what the ledger has as ended is noted, and not attempted when its
// turn comes.
//
// What comes of it goes by the log, as everything does: so rows, totals and
// bodies are changed by their one owner, and a comparison that was broken off
// begins again and finds less to do.
//
// What was dropped. Deciding in `sluice restore`, out of the ledger and the
// lanes alone: outcomes that are still in the log would come too late for rows
// that had been taken for lost. Reading the lanes while they are worked on: what
// moves from one to another in between is seen in neither.

// AfterMove is for how long a sender looks the record of each send up before it
// marks it, once Redis was seen to be another one: a process that had read from
// the log of before may write to the ledger even after the comparison.
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

// reasonLost is the reason of sends in doubt that no lane has any more.
const reasonLost = "lost"

// Record is the ledger, as a Sender needs it. The stores of sqlstore are ones.
type Record interface {
	SendRows(ctx context.Context, keys []sluice.SendKey) ([]sluice.SendRow, error)
	WaitingKeys(ctx context.Context, partition int, after sluice.SendKey, limit int) ([]sluice.SendKey, error)
	Cursors(ctx context.Context, follower string, partitions []int) (map[int]sluice.Position, error)
}

// Found is what a comparison has found.
type Found struct {
	At      int64 `json:"at"`      // ms since 1970
	Waiting int   `json:"waiting"` // in the ledger and in a lane
	Doubt   int   `json:"doubt"`   // in the ledger alone: in doubt now
	Known   int   `json:"known"`   // in a lane alone: in the ledger now
	Ended   int   `json:"ended"`   // ended in the ledger: not attempted again
}

// Add adds up what was found in several partitions.
func (f *Found) Add(g Found) {
	f.At = max(f.At, g.At)
	f.Waiting, f.Doubt, f.Known, f.Ended = f.Waiting+g.Waiting, f.Doubt+g.Doubt, f.Known+g.Known, f.Ended+g.Ended
}

// shortKey is a key in as few bytes as it takes: there may be millions.
type shortKey [sluice.MessageIDBytes/2 + 2]byte

func short(k sluice.SendKey) (b shortKey) {
	_, _ = hex.Decode(b[2:], []byte(k.Message)) // valid ids are hexadecimal
	binary.BigEndian.PutUint16(b[:], uint16(k.Number))
	return b
}

func (b shortKey) key() sluice.SendKey {
	return sluice.SendKey{Message: hex.EncodeToString(b[2:]), Number: int(binary.BigEndian.Uint16(b[:]))}
}

// comparison is one of a partition's lanes with its ledger.
type comparison struct {
	s       *Sender
	lanes   *flow.Lanes
	lease   *flow.Lease
	start   *flow.Standing
	waiting map[shortKey]bool // in the ledger; met in a lane: true
	missing []sluice.Send     // in a lane, and without a row when it was looked; at most compareKeys and a batch
	found   Found
}

// compare brings lanes and ledger of a partition together.
func (s *Sender) compare(ctx context.Context, lanes *flow.Lanes, lease *flow.Lease, start *flow.Standing) error {
	c := &comparison{s: s, lanes: lanes, lease: lease, start: start, waiting: make(map[shortKey]bool)}
	select { // each has the keys of all that wait in its partition in memory
	case s.comparing <- struct{}{}:
		defer func() { <-s.comparing }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := c.run(ctx); err != nil {
		return fmt.Errorf("compare the lanes of partition %d with the ledger: %w", lanes.Partition(), err)
	}
	c.found.At = s.Clock.Now().UnixMilli()
	text, err := json.Marshal(c.found)
	if err == nil {
		err = lanes.Compared(ctx, lease, start.Server, string(text))
	}
	if err == nil {
		start.Compared = true
		level := slog.LevelDebug
		if c.found.Doubt+c.found.Known+c.found.Ended > 0 {
			level = slog.LevelWarn
		}
		s.Log.Log(ctx, level, "lanes and ledger were compared, since one of them may have gone back in time", "partition", lanes.Partition(),
			"waiting", c.found.Waiting, "in_doubt", c.found.Doubt, "entered_in_the_ledger", c.found.Known, "ended_before", c.found.Ended)
	}
	return err
}

func (c *comparison) run(ctx context.Context) error {
	if err := c.awaitStored(ctx); err != nil {
		return err
	}
	var after sluice.SendKey
	for {
		keys, err := c.s.Record.WaitingKeys(ctx, c.lanes.Partition(), after, compareKeys)
		if err != nil {
			return err
		}
		for _, k := range keys {
			c.waiting[short(k)] = false
		}
		if len(keys) < compareKeys {
			break
		}
		after = keys[len(keys)-1]
	}
	if err := c.lanes.Walk(ctx, func(b *flow.LaneBatch, later bool) error { return c.batch(ctx, b, later) }); err != nil {
		return err
	}
	// Who had marked before may have recorded while the lanes were walked.
	if err := c.enter(ctx); err != nil {
		return err
	}
	return c.lost(ctx)
}

// awaitStored waits until the ledger has all that is in the log now.
func (c *comparison) awaitStored(ctx context.Context) error {
	end, err := c.lanes.LogEnd(ctx)
	if err != nil {
		return err
	}
	number := c.lanes.Partition()
	for waited := storedWait; ; waited += storedWait {
		at, err := c.s.Record.Cursors(ctx, c.s.StoredBy, []int{number})
		if err != nil {
			return err
		}
		if !at[number].Before(end) {
			return nil
		}
		if waited%storedLate == 0 {
			c.s.Log.Warn("nothing of a partition is sent before its log is stored: lanes and ledger are to be compared; does a process with the role store run?",
				"partition", number, "stored_up_to", at[number].String(), "log_ends_at", end.String())
		}
		select {
		case <-time.After(storedWait):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// batch compares the sends of a batch in a lane.
func (c *comparison) batch(ctx context.Context, b *flow.LaneBatch, later bool) error {
	letters := ""
	if !later {
		letters = c.start.Letters(b)
	}
	r, err := sluice.ReadBatch(b.Data)
	if err != nil {
		return fmt.Errorf("read lane %s, entry %s: %w", b.Lane, b.Entry, err)
	}
	unknown, marked := make(map[sluice.SendKey]*sluice.Send), make(map[sluice.SendKey]bool)
	var items []byte
	now := c.s.Clock.Now().UnixMilli()
	for r.Next() {
		var send sluice.Send
		if r.Index >= b.Size || letters != "" && letters[r.Index] == flow.LetterDone ||
			r.Item.Kind != sluice.ItemSend || sluice.DecodeSend(r.Item.Payload, &send) != nil {
			continue // what cannot be read becomes a dead letter when its turn comes
		}
		met, waits := c.waiting[short(send.Key())]
		if !waits {
			unknown[send.Key()] = &send
			marked[send.Key()] = letters != "" && letters[r.Index] == flow.LetterMarked
			continue
		}
		c.waiting[short(send.Key())] = true
		if !met {
			c.found.Waiting++
		}
		if send.Doubted {
			items = sluice.AppendOutcome(items, doubtedBefore(&send, now))
		}
	}
	if err := r.Err(); err != nil {
		return fmt.Errorf("read lane %s, entry %s: %w", b.Lane, b.Entry, err)
	}
	if items, err = c.unknown(ctx, unknown, marked, items, now); err != nil {
		return err
	}
	if err := c.write(ctx, items); err != nil || len(c.missing) < compareKeys {
		return err
	}
	return c.enter(ctx)
}

// doubtedBefore is the outcome that a ledger lacks which does not know yet that a
// send was in doubt and is attempted for the last time.
func doubtedBefore(s *sluice.Send, nowMillis int64) *sluice.Outcome {
	known := *s
	known.Doubted = false
	o := outcomeOf(&known, sluice.SendInDoubt, "", nowMillis)
	o.DueMillis = max(s.DueMillis, nowMillis)
	return o
}

// unknown looks at sends of lanes that do not wait in the ledger.
func (c *comparison) unknown(ctx context.Context, sends map[sluice.SendKey]*sluice.Send, marked map[sluice.SendKey]bool, items []byte, nowMillis int64) ([]byte, error) {
	if len(sends) == 0 {
		return items, nil
	}
	rows, err := c.s.Record.SendRows(ctx, slices.Collect(maps.Keys(sends)))
	if err != nil {
		return nil, err
	}
	var ended, perhaps []string
	for i := range rows {
		r := &rows[i]
		s := sends[sluice.SendKey{Message: r.Message, Number: r.Number}]
		delete(sends, s.Key())
		switch {
		case !over(r, s):
			continue
		case marked[s.Key()]:
			perhaps = append(perhaps, s.ID())
			continue
		}
		ended = append(ended, s.ID())
		if r.State == sluice.SendInDoubt && r.DueMillis != 0 { // its last attempt is lost
			items = sluice.AppendOutcome(items, lostOutcome(r, s.Recipients, nowMillis))
		}
	}
	for _, s := range sends {
		s.Content = ""
		var own sluice.Send // which keeps no batch in memory
		if err := sluice.DecodeSend(sluice.AppendSend(nil, s)[sluice.ItemHeaderBytes:], &own); err != nil {
			return nil, err
		}
		c.missing = append(c.missing, own)
	}
	if len(perhaps) > 0 { // one that was recorded a moment ago has no mark any more
		marks, err := c.lanes.Marks(ctx, perhaps)
		if err != nil {
			return nil, err
		}
		for i, id := range perhaps {
			if marks[i] != "" {
				ended = append(ended, id)
			}
		}
	}
	c.found.Ended += len(ended)
	if len(ended) == 0 {
		return items, nil
	}
	left, err := c.lanes.Spare(ctx, c.lease, ended, nowMillis)
	if err == nil && left > 0 {
		err = fmt.Errorf("too many sends of it are cancelled and still in a lane: there is no room for %d that have ended", left)
	}
	return items, err
}

// enter enters sends in the ledger that no row knows. Those that were accepted a
// moment ago have one once the log is stored.
func (c *comparison) enter(ctx context.Context) error {
	if err := c.awaitStored(ctx); err != nil {
		return err
	}
	for chunk := range slices.Chunk(c.missing, flow.MaxLaneSends) {
		missing := make(map[sluice.SendKey]*sluice.Send, len(chunk))
		for i := range chunk {
			missing[chunk[i].Key()] = &chunk[i]
		}
		rows, err := c.s.Record.SendRows(ctx, slices.Collect(maps.Keys(missing)))
		if err != nil {
			return err
		}
		for i := range rows {
			delete(missing, sluice.SendKey{Message: rows[i].Message, Number: rows[i].Number})
		}
		var items []byte
		now := c.s.Clock.Now().UnixMilli()
		for _, s := range missing {
			known := *s
			known.Doubted = false
			items = sluice.AppendKnown(items, &known)
			if s.Doubted {
				items = sluice.AppendOutcome(items, doubtedBefore(s, now))
			}
		}
		c.found.Known += len(missing)
		if err := c.write(ctx, items); err != nil {
			return err
		}
	}
	c.missing = c.missing[:0]
	return nil
}

// over reports whether the ledger says that a send of a lane is not to be
// attempted: it has ended, or it was in doubt and this is not its last attempt.
func over(r *sluice.SendRow, s *sluice.Send) bool {
	switch r.State {
	case sluice.SendWaiting:
		return false
	case sluice.SendInDoubt:
		return !s.Doubted || r.DueMillis == 0
	}
	return true
}

// lost says of all that was met in no lane, and still waits, that it is in doubt.
func (c *comparison) lost(ctx context.Context) error {
	keys := make([]sluice.SendKey, 0, flow.MaxLaneSends)
	decide := func() error {
		rows, err := c.s.Record.SendRows(ctx, keys)
		if err != nil {
			return err
		}
		var items []byte
		now := c.s.Clock.Now().UnixMilli()
		for i := range rows {
			if rows[i].State == sluice.SendWaiting {
				c.found.Doubt++
				items = sluice.AppendOutcome(items, lostOutcome(&rows[i], 0, now))
			}
		}
		keys = keys[:0]
		return c.write(ctx, items)
	}
	for k, met := range c.waiting {
		if met {
			continue
		}
		if keys = append(keys, k.key()); len(keys) == cap(keys) {
			if err := decide(); err != nil {
				return err
			}
		}
	}
	return decide()
}

// lostOutcome ends a row whose send is in no lane any more. recipients 0: nobody
// knows how many its message has.
func lostOutcome(r *sluice.SendRow, recipients int, nowMillis int64) *sluice.Outcome {
	return &sluice.Outcome{
		Message: r.Message, Number: r.Number, Recipients: max(recipients, 2), Was: r.State, State: sluice.SendInDoubt,
		TimeMillis: nowMillis, Attempts: r.Attempts, Reason: reasonLost, Reply: "redis or the database has gone back in time: it waits in no lane, and nobody knows whether it was sent",
		To: r.To, User: r.User, App: r.App, Tags: r.Tags, Metadata: r.Metadata,
		HasBody: true, // or not: counting down one that is not there changes nothing
	}
}

// write writes items to the log.
func (c *comparison) write(ctx context.Context, items []byte) error {
	if len(items) == 0 {
		return nil
	}
	return c.lanes.Note(ctx, items)
}

// known takes those out of a window that the ledger has as ended, if Redis has
// been another one for less than AfterMove, and gives their marks up.
func (s *Sender) known(ctx context.Context, route string, window []*item) (left []*item, err error) {
	now := s.Clock.Now()
	byKey := make(map[sluice.SendKey]*item)
	var keys []sluice.SendKey
	for _, it := range window {
		if it.broken == nil && now.Before(it.part.lookUntil) {
			byKey[it.send.Key()] = it
			keys = append(keys, it.send.Key())
		}
	}
	if len(keys) == 0 {
		return window, nil
	}
	rows, err := s.Record.SendRows(ctx, keys)
	if err != nil {
		return nil, err
	}
	ended := make(map[*item]bool)
	var marks []*item
	for i := range rows {
		it := byKey[sluice.SendKey{Message: rows[i].Message, Number: rows[i].Number}]
		if over(&rows[i], &it.send) && !ended[it] {
			ended[it] = true
			marks = append(marks, it)
		}
	}
	if len(marks) == 0 {
		return window, nil
	}
	for _, it := range window {
		if !ended[it] {
			left = append(left, it)
		}
	}
	s.Log.Warn("sends that have ended stood as waiting in redis; they are not attempted again", "sends", len(marks), "first", marks[0].id())
	for _, m := range s.markAll(ctx, route, marks) {
		s.hand(ctx, finished{item: m.item})
	}
	return left, nil
}
