package spool

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"sluice"
	"sluice/flow"
	"sluice/lib/faults"
	"sluice/mail"
)

// QueueCursor is the name of the Queuer's cursors.
const QueueCursor = "spool"

// cancelsAtOnce is how many sends one call cancels: it costs Redis 3.5 µs for
// each, and everybody else waits meanwhile.
const cancelsAtOnce = 128

// Role is the role of sending, one lease for each partition.
const Role = "send"

// Queuer moves sends from the logs to their lanes.
//
// The idea. A store follower reads the log anyway. So it hands every batch to
// the Queuer first, under its lease; a log without sends costs no call. The
// lanes are in Redis, and so is the cursor that moves with them. A batch that
// the store reads again after a crash is at or before that cursor, and is left
// out.
//
// A batch may be of any size: one item of a request may become thousands of
// sends, and what one commit takes is bounded (flow.CommitBytes). So a large
// batch is queued by several commits, and the cursor stands inside it meanwhile
// (flow.Reached). A process that goes on after a crash passes over its first
// items.
//
// The invariant. A batch is queued before its cursor in SQL moves past it: what
// the ledger counts as waiting is in a lane, or has been.
type Queuer struct {
	Lanes    []*flow.Lanes // by partition
	Logs     []*flow.Log
	Suppress Suppressor
	Clock    sluice.Clock
	Log      *slog.Logger

	mu      sync.Mutex
	cursors map[int]flow.Reached // of the partitions that this process stores
}

// Suppressor knows to whom no mail may go. reason is a word for the event
// (bounced, unsubscribed, spam, ...).
type Suppressor interface {
	Check(address string, class mail.Class, app string) (reason string, suppressed bool)

	// Ready is told of addresses that are checked next, so that it need not read
	// of them one after the other.
	Ready(addresses []string)

	// Fresh reports whether Check is recent enough for mail of a class to leave. It
	// waits for nobody.
	Fresh(class mail.Class) bool
}

// Begin reads the cursors of partitions. A process that stores them calls it
// before it reads them.
func (q *Queuer) Begin(ctx context.Context, partitions []int) error {
	cursors := make(map[int]flow.Reached, len(partitions))
	for _, p := range partitions {
		at, err := q.Logs[p].Cursor(ctx, QueueCursor)
		if err != nil {
			return err
		}
		cursors[p] = at
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.cursors == nil {
		q.cursors = make(map[int]flow.Reached)
	}
	maps.Copy(q.cursors, cursors) // other writers of the process have theirs
	return nil
}

// Queue moves the sends of a batch to their lanes, if it has any that are not
// there. Batches of a partition come in order; those of several may come at the
// same time. A batch that cannot be read is left to the store, which says so.
func (q *Queuer) Queue(ctx context.Context, lease *flow.Lease, b *flow.Batch) error {
	if !hasSends(b.Data) {
		return nil
	}
	q.mu.Lock()
	at := q.cursors[b.Partition]
	q.mu.Unlock()
	if !at.Before(b.Position) && (at.Position != b.Position || at.Items == 0) {
		return nil
	}
	err := q.queue(ctx, lease, b, &at)
	q.mu.Lock()
	q.cursors[b.Partition] = at
	q.mu.Unlock()
	if err != nil {
		return &flow.PartitionError{Partition: b.Partition, Err: fmt.Errorf("queue sends of partition %d: %w", b.Partition, err)}
	}
	return nil
}

// GoneBack has lanes and ledger of a partition compared, before anything of it is
// sent: one of the two is another one than before.
func (q *Queuer) GoneBack(ctx context.Context, partition int) error {
	return q.Lanes[partition].CompareAgain(ctx)
}

// hasSends reports whether a batch has items for the lanes.
func hasSends(data []byte) bool {
	r, err := sluice.ReadBatch(data)
	if err != nil {
		return false
	}
	for r.Next() {
		if r.Item.Kind == sluice.ItemSend || r.Item.Kind == sluice.ItemCancel || r.Item.Kind == sluice.ItemDecide || settles(&r.Item) {
			return true
		}
	}
	return false
}

// packing gathers the sends of one batch of a log by where they are to wait.
type packing struct {
	open  map[queuePlace]*flow.Packed // that are not full
	ready []*flow.Packed
	bytes int                  // about what one of them takes
	owed  map[string]mail.Load // by account, of those that are counted; nil: none is
}

// queuePlace is where sends are queued together.
type queuePlace struct {
	lane   string
	second int64
	doubt  bool // until an operator decides
}

// add packs an item.
func (p *packing) add(at queuePlace, s *mail.Send) {
	w := p.open[at]
	if w == nil {
		w = &flow.Packed{Lane: at.lane, Second: at.second, Data: sluice.NewBatch(p.bytes)}
		p.open[at] = w
		p.ready = append(p.ready, w)
	}
	w.Data = mail.AppendSend(w.Data, s)
	w.Size++
	if s.Account != "" {
		if p.owed == nil {
			p.owed = make(map[string]mail.Load)
		}
		load := p.owed[s.Account]
		load.Add(mail.Load{Sends: 1, Bytes: int64(s.Weight)})
		p.owed[s.Account] = load
	}
	if w.Size >= flow.MaxLaneSends || len(w.Data) >= sluice.MaxBatchBytes {
		delete(p.open, at)
	}
}

// queue is Queue for a batch that has something. It moves at on to the end of the
// batch, by as many commits as it takes.
func (q *Queuer) queue(ctx context.Context, lease *flow.Lease, b *flow.Batch, at *flow.Reached) error {
	r, err := sluice.ReadBatch(b.Data)
	if err != nil {
		return nil // the store makes it a dead letter
	}
	done := 0 // items of the batch
	if at.Position == b.Position {
		done = at.Items
	}
	g := q.gathering(b)
	for r.Next() {
		if r.Index < done {
			continue
		}
		if g.full(&r.Item) {
			if err := q.commit(ctx, lease, g, at, flow.Reached{Position: b.Position, Items: r.Index}); err != nil {
				return err
			}
			g = q.gathering(b)
		}
		g.add(r.Index, &r.Item, q.Suppress)
	}
	return q.commit(ctx, lease, g, at, flow.Reached{Position: b.Position})
}

// gathered is what one commit brings of a batch.
type gathered struct {
	nowMillis int64
	lanes     *flow.Lanes
	packing   packing
	cancels   []flow.Cancel
	decisions deciding
	commit    flow.Commit

	items, bytes int // of the commit, roughly
}

func (q *Queuer) gathering(b *flow.Batch) *gathered {
	return &gathered{
		nowMillis: q.Clock.Now().UnixMilli(),
		lanes:     q.Lanes[b.Partition],
		packing:   packing{open: make(map[queuePlace]*flow.Packed), bytes: min(len(b.Data), mail.MaxInlineBytes)},
		commit:    flow.Commit{Follower: QueueCursor},
	}
}

// keptBytes is about what a send takes that is kept in doubt.
const keptBytes = 2 * mail.MaxInlineBytes

// cost is about what an item takes of a commit.
func cost(item *sluice.Item) int {
	switch item.Kind {
	case sluice.ItemSend, sluice.ItemCancel:
		return len(item.Payload)
	case sluice.ItemDecide:
		return len(item.Payload) + keptBytes
	case sluice.ItemOutcome:
		return sluice.MessageIDBytes
	}
	return 0
}

// accountBytes is about what an account takes of a commit.
const accountBytes = 512

// full reports whether the next item is to be left to the next commit.
func (g *gathered) full(item *sluice.Item) bool {
	return g.items >= flow.CommitItems || g.items > 0 && g.bytes+len(g.packing.owed)*accountBytes+cost(item) > flow.CommitBytes
}

// add takes an item, by its number in the batch. What cannot be read the store makes a
// dead letter.
func (g *gathered) add(number int, item *sluice.Item, suppress Suppressor) {
	size := cost(item)
	if size == 0 {
		return // it is for the store alone
	}
	g.items, g.bytes = g.items+1, g.bytes+size
	switch item.Kind {
	case sluice.ItemSend:
		var s mail.Send
		if mail.DecodeSend(item.Payload, &s) != nil {
			return
		}
		if reason, suppressed := suppress.Check(s.To, s.Class, s.App); suppressed {
			g.commit.Log = mail.AppendOutcome(g.commit.Log, suppressedOutcome(&s, reason, g.nowMillis))
			return
		}
		g.packing.add(queueOf(&s, g.nowMillis), &s)
	case sluice.ItemCancel:
		g.addCancel(number, item.Payload)
	case sluice.ItemDecide, sluice.ItemOutcome:
		g.decisions.add(item)
	}
}

// commit carries out what was gathered and moves the cursor from at on.
func (q *Queuer) commit(ctx context.Context, lease *flow.Lease, g *gathered, at *flow.Reached, to flow.Reached) error {
	if err := g.decisions.settle(ctx, g.lanes, &g.packing, &g.commit, g.nowMillis); err != nil {
		return err
	}
	partition := g.lanes.Partition()
	for piece := range slices.Chunk(g.cancels, cancelsAtOnce) { // before the cursor: a repeat notes nothing twice
		if err := faults.Hit("cancel"); err != nil {
			return err
		}
		refused, err := g.lanes.Cancel(ctx, lease, to.Position, piece, g.nowMillis)
		if err != nil {
			return err
		}
		if refused > 0 {
			q.Log.Error("sends could not be cancelled, and will leave: there is no room", "partition", partition, "sends", refused, "first_of", piece[0].ID, "remedy", noRoomToCancel)
		}
	}
	g.commit.From, g.commit.To = *at, to
	g.commit.Operations = append(g.commit.Operations, g.lanes.Operations(g.packing.ready)...)
	g.commit.Operations = append(g.commit.Operations, g.lanes.Owe(g.packing.owed)...)
	if err := faults.Hit("queue"); err != nil {
		return err
	}
	dead, err := q.Logs[partition].Commit(ctx, lease, &g.commit, g.nowMillis)
	if err != nil {
		return err
	}
	*at = to
	if err := faults.Hit("queued"); err != nil {
		return err
	}
	if dead > 0 {
		q.Log.Error("redis refused a part of what queues sends; it is a dead letter", "partition", partition, "refused", dead, "of", len(g.commit.Operations), "remedy", "see `sluice dead list`")
	}
	return nil
}

// addCancel takes a cancel.
func (g *gathered) addCancel(number int, payload []byte) {
	var o mail.Outcome
	if mail.DecodeOutcome(payload, &o) != nil {
		return // the store makes it a dead letter
	}
	send := mail.Send{Message: o.Message, Number: o.Number}
	g.cancels = append(g.cancels, flow.Cancel{Item: number, ID: send.ID(), Log: mail.AppendOutcome(nil, &o)})
}

// queueOf says where a send waits.
func queueOf(s *mail.Send, nowMillis int64) queuePlace {
	at := queuePlace{lane: flow.LaneName(s.Priority, s.Class)}
	if s.DueMillis > nowMillis {
		at.second = slot(s.DueMillis, nowMillis)
	}
	return at
}

// slot rounds up the time for which sends wait: to a second, and to ten if it
// is more than a minute away. So they are packed together.
func slot(dueMillis, nowMillis int64) int64 {
	second := (dueMillis + 999) / 1000
	if dueMillis-nowMillis > 60_000 {
		second = (second + 9) / 10 * 10
	}
	return second
}
