package spool

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"sluice"
	"sluice/flow"
	"sluice/mail"
)

// How much of a lane is held in memory, for each partition.
const (
	// laneSends and laneBytes are where a lane is not read on, and the sublane for
	// others; sublaneSends where a sublane is not.
	laneSends    = 512
	laneBytes    = 256 << 10
	sublaneSends = 64

	// laneBatches is how many batches of each lane a read asks for: at most that
	// many times MaxBatchBytes come at once.
	laneBatches = 2

	// laneWait is how long a read waits for sends: as often is looked for what is
	// due.
	laneWait = 1 * time.Second

	// busyWait is how long one waits that has full queues, for room in them or
	// for sends in others.
	busyWait = 50 * time.Millisecond

	// dueCalls is how many calls release what is due before lanes are read again. What is
	// due of a large campaign would else keep urgent mail waiting until all of it is there.
	dueCalls = 16

	// moveEvery is how often is looked whether somebody has said that the ledger, or
	// the log, is another one than before.
	moveEvery = 2 * time.Second

	// orphanEvery is how often is looked whether the process of a mark has died.
	orphanEvery = 1 * time.Second
)

// part is one partition whose lease this process holds, for as long as it does:
// what is read of its lanes and not taken yet. One goroutine reads; workers take.
type part struct {
	s      *Sender // whose workers take of it
	number int
	lanes  *flow.Lanes
	lease  *flow.Lease

	room wake // signals that a queue has become short

	// urgent: only the urgent lanes and their sublanes are worked off, beside a
	// walk through all (compare.go). So what waits for a time is not released,
	// which would move it to where the walk has been. Notes of cancelled sends
	// stay, since what the ledger has as ended may be in a lane all the same. No
	// sublane is removed, so the walk meets none that goes while it is read.
	urgent bool

	over    atomic.Bool  // the lease is lost, or it is to be read anew: nothing more is taken
	waiting atomic.Int64 // sends in all queues; changed under mu

	mu      sync.Mutex        // guards what follows; with it, no lock of the Sender is taken
	queues  map[string]*queue // by lane
	orphans []*item           // marked by others
	gave    [4]string         // by priority, the main lane of the class that gave a mail last

	lookUntil time.Time // till when the records of sends are looked up before they are marked

	// Owned by the goroutine that reads, but for start.Server.
	start      flow.LaneState
	looked     time.Time // for orphans
	unsettled  bool      // what they need of the ledger could not be read at the last look
	asked      time.Time // whether the ledger is another one
	swept      time.Time
	tended     time.Time // when sublanes were looked at
	notes      rounds    // of notes of cancelled sends
	lookedDue  time.Time // for what is due, by the machine's clock
	lastSecond int64     // and by ours
	moreDue    bool      // more is due than was released
}

func newPart(s *Sender, number int, lanes *flow.Lanes, lease *flow.Lease, start flow.LaneState, urgent bool) *part {
	p := &part{s: s, number: number, lanes: lanes, lease: lease, start: start, urgent: urgent, room: newWake(), queues: make(map[string]*queue)}
	if !start.Moved.IsZero() {
		p.lookUntil = start.Moved.Add(AfterMove)
	}
	for _, lane := range slices.Concat(flow.LaneNames, start.Sublanes) {
		p.queues[lane] = newQueue(lane)
		p.queues[lane].found = true
	}
	return p
}

// urgentLanes are the lanes of high priority.
var urgentLanes = flow.LaneNames[:2]

// urgentLane reports whether a lane is urgent, or a sublane of one that is.
func urgentLane(lane string) bool { return slices.Contains(urgentLanes, mainLane(lane)) }

// mainLane is the lane of which one is a sublane, or itself.
func mainLane(lane string) string {
	main, _, _ := strings.Cut(lane, "@")
	return main
}

// queue is what is in memory of one lane.
type queue struct {
	lane  string
	main  string // the lane of which it is a sublane, or itself
	after string // the last entry that was read
	items []*item
	bytes int

	// Of a sublane (sublane.go).
	found   bool            // it was there when the partition's session began
	coming  int             // sends that are on their way to it
	closing bool            // it is being removed, and nothing has come to it since
	domains map[string]bool // of the one for others: those of which something may be in it

	// Whether it is the sublane for others (others.go). For that one: when
	// transports look through it again, since when its sends go round, and when
	// they do so again.
	others            bool
	scanned           map[mail.Transport]time.Time
	round, roundAgain time.Time
	inVain            int // rounds in which nothing went, one after the other (others.go)
}

func newQueue(lane string) *queue {
	main := mainLane(lane)
	return &queue{lane: lane, main: main, after: "0-0", others: lane == flow.Sublane(main, otherDomains)}
}

func (q *queue) sublane() bool { return q.main != q.lane }

func (q *queue) urgent() bool { return urgentLane(q.lane) }

// short reports whether the lane is to be read on.
func (q *queue) short() bool {
	if q.sublane() && !q.others {
		return len(q.items) < sublaneSends
	}
	return len(q.items) < laneSends && q.bytes < laneBytes
}

// pop takes one: 0 is the head. It reports whether the lane is to be read on since
// then.
func (q *queue) pop(at int) (it *item, short bool) {
	before := q.short()
	if it = q.items[at]; at == 0 {
		q.items[0], q.items = nil, q.items[1:]
	} else {
		q.items = slices.Delete(q.items, at, at+1)
	}
	q.bytes -= it.bytes()
	return it, !before && q.short()
}

func (q *queue) push(items []*item) {
	q.items = append(q.items, items...)
	for _, it := range items {
		q.bytes += it.bytes()
	}
}

// unpop puts what was taken to the head again.
func (q *queue) unpop(it *item) {
	q.items = slices.Insert(q.items, 0, it)
	q.bytes += it.bytes()
}

// next is the queue of a priority whose head is to go next. The classes take turns: so a
// wave of marketing mail keeps a transactional mail waiting for one mail, and not for all
// that came before it, in whichever lanes. Of a class, sublanes go before the main lane.
// Those that are stopped are left out; nil: there is none.
func (p *part) next(priority mail.Priority, stopped map[*queue]bool) (next *queue) {
	transactional, marketing := flow.LaneName(priority, mail.ClassTransactional), flow.LaneName(priority, mail.ClassMarketing)
	first := transactional // the class whose turn it is
	if p.gave[priority] == transactional {
		first = marketing
	}
	for _, q := range p.queues {
		switch {
		case len(q.items) == 0 || q.main != transactional && q.main != marketing || stopped[q]:
		case q.main == first && q.sublane():
			return q
		case next == nil, q.main == first, next.main != first && q.sublane():
			next = q
		}
	}
	return next
}

// end makes the partition's session begin anew: what is known of it in memory may
// be wrong.
func (p *part) end() {
	p.over.Store(true)
	p.room.signal()
}

// putBack puts sends that are not marked to the heads of their queues, those of a
// partition at once: else another worker could take a later one before an earlier one
// is there.
func putBack(items []*item) {
	of := make(map[*part][]*item)
	for _, it := range items {
		of[it.part] = append(of[it.part], it)
	}
	for p, items := range of {
		p.putBack(items)
	}
}

func (p *part) putBack(items []*item) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, it := range slices.Backward(items) {
		if q := p.queues[it.place.Batch.Lane]; q != nil && !p.over.Load() {
			q.unpop(it)
			p.waiting.Add(1)
		}
	}
}

// read reads the lanes until the context ends. What is due goes to the lanes,
// and what is in the lanes to the queues, as far as there is room.
func (p *part) read(ctx context.Context) error {
	before := []func(context.Context) error{p.release, p.sameLedger, p.settleOrphans, p.sweep, p.tidy, p.tendSublanes}
	for ctx.Err() == nil && !p.over.Load() {
		for _, see := range before {
			if err := see(ctx); err != nil {
				return err
			}
		}
		wanted, all := p.wanted()
		wait := sluice.Rest(time.Now(), laneWait)
		if !all || p.moreDue { // a full queue may be short before a blocked read ends
			wait = 0
		}
		batches, err := p.lanes.Read(ctx, wanted, laneBatches, wait)
		if err != nil {
			return err
		}
		if wait == 0 && len(batches) == 0 && !p.moreDue {
			select {
			case <-p.room:
			case <-time.After(busyWait):
			case <-ctx.Done():
			}
			continue
		}
		for _, read := range batches {
			for i := range read {
				if err := p.lanes.Readable(ctx, &read[i]); err != nil {
					return err
				}
				if err := p.take(&read[i]); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// release moves what is due to the lanes, or some of it. What waits is packed by seconds,
// so it is looked for once a second, and not with each read, unless more is known to be due.
func (p *part) release(ctx context.Context) error {
	if sluice.ClocksApart(p.s.Clock) || p.urgent {
		p.moreDue = false // or lanes would be read without a pause
		return nil
	}
	second := p.s.Clock.Now().Unix()
	if !p.moreDue && second == p.lastSecond && time.Since(p.lookedDue) < laneWait {
		return nil
	}
	p.moreDue = true
	for calls := 0; p.moreDue && calls < dueCalls; calls++ {
		var err error
		if p.moreDue, err = p.lanes.Due(ctx, p.lease, second); err != nil {
			return err
		}
	}
	p.lastSecond, p.lookedDue = second, time.Now()
	return nil
}

// sameLedger fails when lanes and ledger are to be compared that were not when the
// partition's session began.
func (p *part) sameLedger(ctx context.Context) error {
	if p.urgent || time.Since(p.asked) < moveEvery {
		return nil
	}
	p.asked = time.Now()
	server, err := p.lanes.Server(ctx)
	if err == nil && server != p.start.Server {
		err = fmt.Errorf("work off the lanes: %w: they are to be compared with the ledger, which is another one than before", sluice.ErrConflict)
	}
	return err
}

// wanted are the lanes that are to be read on, with the place from which, and
// whether these are all that are worked off.
func (p *part) wanted() (wanted map[string]string, all bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	wanted, all = make(map[string]string, len(p.queues)), true
	for lane, q := range p.queues {
		switch {
		case p.urgent && !q.urgent():
		case q.short():
			wanted[lane] = q.after
		default:
			all = false
		}
	}
	return wanted, all
}

// take puts the sends of a batch into the queue of their lane, but those that
// are done with, and those that others have marked.
func (p *part) take(b *flow.LaneBatch) error {
	letters := p.start.Letters(b)
	delete(p.start.States, b.Place())
	r, err := sluice.ReadBatch(b.Data)
	if err != nil {
		return fmt.Errorf("read lane %s of partition %d, entry %s: %w", b.Lane, p.number, b.Entry, err)
	}
	entered := enteredAt(b.Entry)
	var waiting, marked []*item
	for r.Next() {
		it := &item{place: flow.LanePlace{Batch: b, Index: r.Index}, part: p, ready: entered, since: entered}
		if r.Index >= b.Size || letters[r.Index] == flow.LetterDone {
			continue
		}
		err := fmt.Errorf("an item of kind %d is no send", r.Item.Kind)
		if r.Item.Kind == sluice.ItemSend {
			err = mail.DecodeSend(r.Item.Payload, &it.send)
		}
		if err != nil {
			it.broken, it.cannot = append([]byte{byte(r.Item.Kind)}, r.Item.Payload...), err.Error()
		}
		if letters[r.Index] == flow.LetterMarked {
			it.mark = p.start.Marks[it.id()]
			marked = append(marked, it)
			continue
		}
		waiting = append(waiting, it)
	}
	if err := r.Err(); err != nil {
		return fmt.Errorf("read lane %s of partition %d, entry %s: %w", b.Lane, p.number, b.Entry, err)
	}
	p.mu.Lock()
	q := p.queues[b.Lane]
	q.after = b.Entry
	q.push(waiting)
	p.waiting.Add(int64(len(waiting)))
	p.orphans = append(p.orphans, marked...)
	p.mu.Unlock()
	if len(waiting) > 0 {
		p.s.wake(urgentLane(b.Lane))
	}
	return nil
}

// enteredAt is when an entry of a lane was written.
func enteredAt(entry string) time.Time {
	millis, _, _ := strings.Cut(entry, "-")
	ms, err := strconv.ParseInt(millis, 10, 64)
	if err != nil {
		return time.Time{} // Redis names entries MS-SEQ
	}
	return time.UnixMilli(ms)
}

// settleOrphans decides on sends that were marked before this process held the
// lease: one whose process has died is in doubt. One that this process has
// marked itself, in an earlier lease, and that is not on its way was never
// handed to anybody. But if Redis has become another one since (settleMoved),
// nobody knows. Another process that lives says which marks it still has on their way.
// What it has not, it has told to the Redis that is lost, and AfterMove later the ledger
// has what was heard of it. What cannot be read was attempted by none: it becomes a dead
// letter by then.
func (p *part) settleOrphans(ctx context.Context) error {
	s, now := p.s, p.s.Clock.Now()
	p.mu.Lock()
	waiting := p.orphans
	if len(waiting) == 0 || time.Since(p.looked) < orphanEvery {
		p.mu.Unlock()
		return nil
	}
	p.looked, p.orphans = time.Now(), nil
	p.mu.Unlock()
	left, err := p.stillMarked(ctx, waiting)
	if err != nil {
		return err
	}
	var kept, moved []*item
	for _, it := range left {
		e, err := parseEvidence(it.mark)
		before := p.before(e)
		told := before && now.After(p.lookUntil)
		switch {
		case err != nil:
			s.Log.Error("a send is marked without evidence; it counts as in doubt", "send", it.id(), "partition", p.number, "error", err)
			s.doubt(ctx, it, e, died, now)
		case s.isFlying(it):
			kept = append(kept, it)
		case e.process == s.Process && before && it.broken == nil:
			moved = append(moved, it)
		case e.process == s.Process:
			s.hand(ctx, finished{item: it, waits: true})
		case s.Leases.Dead(e.process), told && it.broken != nil:
			s.doubt(ctx, it, e, died, now)
		case told && s.landed(e):
			moved = append(moved, it)
		default:
			kept = append(kept, it)
		}
	}
	kept = append(kept, p.settleMoved(ctx, moved, now)...)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.orphans = append(p.orphans, kept...)
	return nil
}

// before reports whether a mark is from before Redis became another one. The Redis itself
// says so: its clock may differ from that of the one before. A mark of an older program has
// its time alone.
func (p *part) before(e evidence) bool {
	if e.history != 0 {
		return e.history != historyOf(p.start.Server)
	}
	return e.millis < p.start.Moved.UnixMilli()
}

// settleMoved decides on sends that a process that lives has marked before Redis became another
// one, and that are not on their way. It may have attempted them, and recorded that where it is
// lost. What has ended in the ledger leaves its lane. What waits there for another attempt
// waits in Redis, too. All else is in doubt. Those of which the ledger does not say so now are
// kept.
func (p *part) settleMoved(ctx context.Context, items []*item, now time.Time) (kept []*item) {
	if len(items) == 0 {
		return nil
	}
	byKey := make(map[mail.SendKey]*item, len(items))
	for _, it := range items {
		byKey[it.send.Key()] = it
	}
	rows, err := p.s.Record.SendRows(ctx, slices.Collect(maps.Keys(byKey)))
	if err != nil {
		if !p.unsettled {
			p.s.Log.Warn("records of sends that were marked before redis became another one could not be read; it is tried again until they can", "partition", p.number, "sends", len(items), "error", err)
		}
		p.unsettled = true
		return items
	}
	p.unsettled = false
	byRow := make(map[mail.SendKey]*mail.SendRow, len(rows))
	for i := range rows {
		byRow[rows[i].Key()] = &rows[i]
	}
	for _, it := range items {
		r := byRow[it.send.Key()]
		switch e, _ := parseEvidence(it.mark); { // it was read before
		case byKey[it.send.Key()] != it: // a second one of a key, when the first is recorded
			kept = append(kept, it)
		case r != nil && r.State != mail.SendInDoubt && over(r, &it.send):
			p.s.hand(ctx, finished{item: it})
		case r != nil && p.deferredBefore(r, &it.send):
			again := it.send
			again.Attempts, again.DueMillis = r.Attempts, r.DueMillis
			p.s.hand(ctx, finished{item: it, verdict: verdict{again: &again}})
		default:
			p.s.doubt(ctx, it, e, "redis has become another one since its process marked it", now)
		}
	}
	return kept
}

// deferredBefore reports whether the ledger knows that the attempt of a send that is marked
// was turned away, and that it was not attempted again before Redis became another one: it was
// not due by then. Times say nothing while clocks are apart.
func (p *part) deferredBefore(r *mail.SendRow, s *mail.Send) bool {
	return r.State == mail.SendWaiting && !s.Doubted && r.Attempts > s.Attempts && r.DueMillis > p.start.Moved.UnixMilli() && !sluice.ClocksApart(p.s.Clock)
}

// stillMarked returns those whose mark stands. What has become of the others is
// seen when the partition is read anew.
func (p *part) stillMarked(ctx context.Context, orphans []*item) (left []*item, err error) {
	ids := make([]string, len(orphans))
	for i, it := range orphans {
		ids[i] = it.id()
	}
	marks, err := p.lanes.Marks(ctx, ids)
	if err != nil {
		return nil, err
	}
	for i, it := range orphans {
		if marks[i] == it.mark {
			left = append(left, it)
		}
	}
	if len(left) < len(orphans) {
		p.end()
	}
	return left, nil
}

// died is why a send is in doubt that its process has marked.
const died = "its process died; it had marked it"

// doubt records that a send is in doubt, and why.
func (s *Sender) doubt(ctx context.Context, it *item, e evidence, why string, now time.Time) {
	if it.broken != nil { // it was never attempted
		s.hand(ctx, finished{item: it})
		return
	}
	attempted := it.send
	attempted.Attempts++
	t := s.Routes.TransportOf(e.route)
	v := inDoubt(&attempted, e.route, t != nil && knows(t), e.millis, now.UnixMilli(), max(now.UnixMilli(), e.millis+s.DoubtAfter.Milliseconds()))
	v.outcome.Route = e.route
	v.outcome.Reply = why + " at " + time.UnixMilli(e.millis).UTC().Format(time.RFC3339Nano)
	s.hand(ctx, finished{item: it, verdict: v, given: true})
}
