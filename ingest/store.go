package ingest

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"sluice"
	"sluice/flow"
	"sluice/journey"
	"sluice/mail"
	"sluice/store"
	"sluice/user"
	"sluice/user/users"
)

// StoreRole is the role of storing the logs, and the name of its cursors.
const StoreRole = "store"

// StoreFollower stores the logs of the partitions whose lease this process
// holds, or of its share of them (Writer). It stores all of them in one transaction
// at a time, with one bulk load and many cursors.
type StoreFollower struct {
	Logs   []*flow.Log // by partition
	Leases *flow.Leases
	Store  store.Store

	// Writer is which of the process's Writers it is, from 0; of 1 or 0 it is alone.
	Writer, Writers int

	// TakeTurns says that its Writers share the store, which writes for one at a time.
	TakeTurns bool

	Users user.Store // the same store

	// Journeys is the same store: which names journeys ask for. nil: no facts are written.
	Journeys store.JourneyStore

	// FactsUpTo returns up to which place the facts of a partition may go: all who read
	// them have passed it for good. false: none may. It is called often and must not
	// block. nil: none go.
	FactsUpTo func(partition int) (upTo sluice.Place, ok bool)

	turn int // of the partitions whose facts go

	// Replicas must have what is forwarded before it is forgotten here.
	Replicas flow.Replicas

	Clock sluice.Clock
	Log   *slog.Logger
	Stats *Stats

	// Queue gets every batch before it is stored, in the order of its log. It
	// may get a batch long before if the store is behind (ahead). nil: nothing
	// is queued.
	Queue Queue

	// Reported is told of bounces and complaints that name a send, once they are stored.
	// It must not block. nil: nobody wants to know.
	Reported func([]mail.Report)

	// MarginBytes is how much the logs may keep of what is applied, all together
	// (margin.go).
	MarginBytes int

	margins margins

	// lostUpTo has, for partitions with a gap that was accepted, up to where the rows
	// of sends may be lost that outcomes speak of. It is read with the cursors
	// (flow.LostRowsFollower).
	lostUpTo map[int]sluice.Position

	// forwarded has, by partition, the highest number of a forward that a log has
	// seen when the session began (unitReader).
	forwarded map[int]int64

	// stored has, by partition, what the last session that began knew to be stored
	// (meanwhile). It belongs to the goroutine of Run.
	stored map[int]sluice.Position

	// awaited has the partitions that were left out by the last session and were ready
	// before it ended.
	awaited map[int]bool

	// registered are the names of which facts are written, read when the session began
	// and when they turn out to have changed; nil: none were. reloads counts the sessions
	// in a row that ended before a commit because they had changed.
	registered *journey.Registered
	reloads    int

	// fewer is how many users a transaction may name where profiles are large, which its
	// applying side notes for the reading side (profiles.go). 0: flushUsers.
	fewer atomic.Int64

	// free belongs to the session. It has an element while no unit with updates
	// of users is on its way: the time before which the next is not begun.
	free chan time.Time

	// Gaps is where it says at which gaps it stands still, and learns that somebody
	// accepts them; nil: nowhere.
	Gaps *flow.Gaps

	// AcceptGaps lets the follower go on behind gaps instead of standing still:
	// the operator has decided that what is missing is lost.
	AcceptGaps bool
}

// Queue moves what waits to be sent from the logs to where it waits.
type Queue interface {
	// Begin is called with the partitions of the batches that will come.
	Begin(ctx context.Context, partitions []int) error

	// Queue is called from several goroutines at once, one a partition.
	Queue(ctx context.Context, lease *flow.Lease, b *flow.Batch) error

	// GoneBack is called before the store goes on behind a gap of a partition: the
	// database, or Redis, is another one than before.
	GoneBack(ctx context.Context, partition int) error
}

// Run follows the logs until fetch ends.
func (s *StoreFollower) Run(fetch, work context.Context) {
	flow.Follow(fetch, work, s.Name(), s.Log, s.Stats, s.session)
}

// session waits for leases and follows their logs until they change.
func (s *StoreFollower) session(fetch, work context.Context) error {
	share := flow.Share{Leases: s.Leases, Index: s.Writer, Of: s.Writers}
	held, _ := share.Held(StoreRole)
	s.Stats.holds(s.Name(), held)
	if len(held) == 0 {
		s.Stats.setStanding(s.Name(), nil)
		s.Stats.setMargins(s.Name(), nil)
		share.WaitForChange(fetch, StoreRole, held)
		return nil
	}
	ctx, stop := share.While(fetch, StoreRole, held)
	defer stop()
	return s.follow(ctx, work, held)
}

// storeUnit is one transaction. It is prepared when it is read, or, if it has
// updates of users, when these have been applied to what is stored of them.
type storeUnit struct {
	effect   *store.Effect
	updates  []users.Update // nil when they have been applied
	kept     []users.Update // of those applied, to apply them again; nil: they were not kept
	read     unresolved     // the effect as it was read
	many     int            // of these
	counted  int            // of these are events, which have rows of their own
	ignored  int            // of these
	keys     int            // by which these name users
	batches  int            // that have some of these
	prepared store.Prepared

	forwarded bool // the transaction has something for the logs of others, of what happened to mails
	names     map[string]int64
	moves     []store.Move
	entries   map[int]flow.Stretch // applied with it, by partition
	reported  []mail.Report
}

func (s *StoreFollower) follow(fetch, work context.Context, held map[int]*flow.Lease) error {
	e, err := s.enter(work, held)
	if err != nil {
		return s.meanwhile(fetch, held, e.sure, err)
	}
	partitions, cursors, logs := e.partitions, e.cursors, e.logs
	var awaiting sync.WaitGroup
	defer awaiting.Wait() // behind stop
	fetch, stop := context.WithCancel(fetch)
	defer stop()
	if len(e.standing) > 0 && s.Gaps != nil {
		go s.awaitAccepted(fetch, stop, &e) // ends with the session
	}
	if len(e.failed) > 0 {
		awaiting.Go(func() {
			s.awaitReady(fetch, stop, &e, func(ctx context.Context, p int) error { return s.ready(ctx, p, held[p], e.cursors[p]) })
		})
	}
	if len(logs) == 0 {
		<-fetch.Done() // other leases may come
		return nil
	}
	if s.Gaps != nil {
		awaiting.Go(func() { s.forgetGaps(fetch, &e) })
	}
	reading := maps.Clone(cursors) // owned by the reading side
	s.free = make(chan time.Time, 1)
	s.free <- time.Time{}
	forwarder, forwarding := newForwarder(s), make(chan error, 1)
	go func() { // ends with the session
		err := s.outlast(fetch, partitions[0], forwarder.run(fetch, partitions))
		stop()
		forwarding <- err
	}()
	letting := make(chan error, 1)
	go func() { // ends with the session
		err := s.margins.run(fetch)
		stop()
		letting <- err
	}()
	pulling, pulled := context.WithCancel(fetch)
	defer pulled()
	err = flow.Pipe(fetch, work, func(ctx context.Context, emit func(storeUnit) error) error {
		return s.read(ctx, logs, reading, held, pulled, emit)
	}, func(ctx context.Context, u storeUnit) error {
		return s.outlast(pulling, partitions[0], s.store(ctx, &u, forwarder))
	})
	stop()
	if failed := <-letting; err == nil {
		err = failed
	}
	if failed := <-forwarding; err == nil && !errors.Is(failed, context.Canceled) {
		err = failed
	}
	if errors.Is(err, sluice.ErrGap) {
		return nil // the next session judges it, before it begins
	}
	if errors.Is(err, store.ErrPublished) {
		return s.published(err)
	}
	return s.tooManyBytes(err)
}

// published ends a session whose names are past and whose updates are not kept: the next
// one reads both. That is no failure, and has no pause. But where no session comes to a
// commit with the names that it has read, the pauses are those of failures: names that
// are read from a replica which is behind would keep the store busy with nothing.
func (s *StoreFollower) published(err error) error {
	if s.reloads++; s.reloads > maxReloads {
		return err
	}
	s.Log.Info("the names that journeys ask for have changed: what was not stored is read again")
	return nil
}

// store applies a unit, and wakes the callers that wait for it.
func (s *StoreFollower) store(ctx context.Context, u *storeUnit, forwarder *forwarder) error {
	began := s.Clock.Now()
	if err := s.commit(ctx, u); err != nil {
		return err
	}
	s.reloads = 0
	if u.many > 0 {
		for i := u.read.events; i < len(u.effect.Events); i++ { // those that were updates
			u.names[u.effect.Events[i].Kind.String()]++
		}
	}
	if err := forwarder.tell(ctx, u); err != nil {
		return err
	}
	now := s.Clock.Now()
	if u.many > 0 {
		s.free <- nextUsers(began, now) // it was taken for this unit
	}
	s.Stats.countNames(u.names)
	s.Stats.countUsers(u)
	for _, m := range u.moves {
		s.stored[m.Partition] = m.To
		s.Stats.stored(s.Name(), m.Partition, m.To, now.Sub(time.UnixMilli(int64(m.To.Major))))
	}
	err := s.margins.applied(ctx, u.entries)
	s.Stats.Trim.Observe(s.Clock.Now().Sub(now))
	return err
}

// RaiseBy sets what writers to the logs of r do when r is another Redis than
// before. They first raise the logs above what the store has applied of them.
func RaiseBy(r *flow.Redis, store store.Store, log *slog.Logger) {
	r.RaiseBy(log, func(ctx context.Context, partitions []int) (map[int]sluice.Position, error) {
		return store.Cursors(ctx, StoreRole, partitions)
	})
}

// read gathers batches of all logs to transactions. ended is called when nothing is
// pulled any more: nothing is queued either, whatever waits to be stored.
func (s *StoreFollower) read(ctx context.Context, logs []*flow.Log, cursors map[int]sluice.Position, held map[int]*flow.Lease, ended func(), emit func(storeUnit) error) error {
	pulled := newOffers()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	failed := make(chan error, 1)
	reading := make(map[int]*ahead) // by partition, each of one goroutine
	for _, l := range logs {
		p := l.Partition()
		reading[p] = &ahead{store: s, log: l, lease: held[p], after: cursors[p]}
	}
	go func() { // ends with ctx
		failed <- flow.Pull(ctx, logs, maps.Clone(cursors), func(ctx context.Context, b []flow.Batch) error {
			return reading[b[0].Partition].offer(ctx, b, pulled)
		})
		ended()
	}()
	for {
		t, err := s.gather(pulled, failed, cursors)
		if err == nil && len(t.updates) > 0 {
			err = t.gatherMore(ctx, pulled, failed, cursors)
		}
		if err != nil {
			return err
		}
		t.done()
		t.effect.Stripe = s.stripe(held)
		s.Stats.Read.Observe(s.Clock.Now().Sub(t.began))
		u := storeUnit{effect: &t.effect, updates: t.updates, many: len(t.updates), counted: t.counted, keys: len(t.keys), batches: t.batches, names: t.names, moves: t.effect.Moves, entries: t.entries, reported: t.reported}
		t.updates, t.keys = nil, nil // the effect keeps the rest of t
		if len(u.updates) == 0 {
			if u.prepared, err = prepare(s.Store, s.Stats, &t.effect); err != nil {
				return err
			}
		}
		if err := emit(u); err != nil {
			return err
		}
	}
}

// gather waits for a first batch and adds what comes until the transaction is
// full, or nothing more came for a short while. It moves the cursors. Counts
// alone wait longer for company: the more of them are added up, the fewer rows
// are written, and nobody looks for a single one.
func (s *StoreFollower) gather(pulled *offers, failed chan error, cursors map[int]sluice.Position) (*storing, error) {
	t := newStoring(s)
	var timer *time.Timer
	var timeout <-chan time.Time
	patient := false // it waits for more counts
	for !t.full() {
		if b := pulled.take(); b != nil { // what is there already goes in, timeout or not
			t.add(b, cursors)
			continue
		}
		if len(t.effect.Events)+len(t.updates) >= flushSoon {
			break
		}
		switch {
		case timer == nil && len(t.moved) > 0:
			timer = time.NewTimer(t.s.flushWait())
			defer timer.Stop()
			timeout = timer.C
		case patient && !t.onlyCounts():
			patient = false
			timer.Reset(t.s.flushWait())
		}
		select {
		case <-pulled.some:
		case <-timeout:
			if patient || !t.onlyCounts() {
				return t, nil
			}
			patient = true
			timer.Reset(countsWait - t.s.flushWait())
		case err := <-failed:
			if len(t.moved) == 0 {
				return nil, err
			}
			failed <- err // what was read before is applied; then the next call meets it
			return t, nil
		}
	}
	return t, nil
}

// nextUsers returns before when no transaction with updates of users is begun,
// after one that took from began to ended.
func nextUsers(began, ended time.Time) time.Time {
	return began.Add(min(usersRest*ended.Sub(began), usersEvery))
}

// gatherMore adds what comes until the last transaction with updates of users
// has been applied. If that took long, it gathers some time longer. The updates
// have to wait for that one anyway, because its result is read for them. The
// more come together, the less often a user is read and written.
func (t *storing) gatherMore(ctx context.Context, pulled *offers, failed chan error, cursors map[int]sluice.Position) error {
	var late error
	var rested <-chan time.Time
	free := t.s.free
	for free != nil || (rested != nil && !t.full() && late == nil) {
		var more <-chan struct{}
		if !t.full() && late == nil {
			if b := pulled.take(); b != nil {
				t.add(b, cursors)
				continue
			}
			more = pulled.some
		}
		select {
		case next := <-free:
			free = nil
			if rest := next.Sub(t.s.Clock.Now()); rest > 0 {
				timer := time.NewTimer(rest)
				defer timer.Stop()
				rested = timer.C
			}
		case <-rested:
			rested = nil
		case <-more:
		case late = <-failed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if late != nil {
		failed <- late // what was read before is applied; then the next call meets it
	}
	return nil
}

// storing is a transaction that fills.
type storing struct {
	s      *StoreFollower
	effect store.Effect

	updates []users.Update
	counted int                   // of these are events
	batches int                   // that have some of these
	keys    map[user.Key]struct{} // of the updates
	moved   map[int]store.Move
	names   map[string]int64
	counts  map[sluice.Count]int64 // by the count of an hour, without its By
	bytes   int
	began   time.Time // when its first batches came

	entries map[int]flow.Stretch // of the batches added, by partition

	reported []mail.Report
}

func newStoring(s *StoreFollower) *storing {
	return &storing{s: s, moved: make(map[int]store.Move), names: make(map[string]int64), entries: make(map[int]flow.Stretch), counts: make(map[sluice.Count]int64), keys: make(map[user.Key]struct{})}
}

// addFact adds a row of a table of facts, and counts it by the table's name.
//
//lint:ignore U1000 docs/extend.md uses it, and facts to come
func (t *storing) addFact(f store.Fact) {
	t.effect.Facts = append(t.effect.Facts, f)
	t.names[f.Table.Name]++
}

func (t *storing) full() bool {
	s := t.s
	return len(t.effect.Events)+len(t.effect.Outcomes)+len(t.effect.Facts)+len(t.effect.Reactions)+len(t.effect.Dead)+len(t.counts) >= s.flush(flushRows) ||
		t.bytes >= s.flush(4*flushBytes) || len(t.updates) >= s.flush(flushUpdates) || len(t.keys) >= s.usersAtOnce()
}

// onlyCounts reports whether nothing but counts has come.
func (t *storing) onlyCounts() bool {
	return len(t.counts) > 0 && len(t.effect.Events)+len(t.effect.Outcomes)+len(t.effect.Facts)+len(t.effect.Reactions)+len(t.updates)+len(t.effect.Dead) == 0
}

func (t *storing) done() *storing {
	for _, p := range slices.Sorted(maps.Keys(t.moved)) {
		t.effect.Moves = append(t.effect.Moves, t.moved[p])
	}
	t.effect.Counts = make([]sluice.Count, 0, len(t.counts))
	for c, by := range t.counts {
		c.By = by
		t.effect.Counts = append(t.effect.Counts, c)
	}
	return t
}

// add adds a batch's items and moves its partition's cursor behind it.
func (t *storing) add(b *flow.Batch, cursors map[int]sluice.Position) {
	if len(t.moved) == 0 {
		t.began = t.s.Clock.Now()
	}
	t.s.tellLoss(b, cursors[b.Partition])
	move, ok := t.moved[b.Partition]
	if !ok {
		move = store.Move{Follower: StoreRole, Partition: b.Partition, From: cursors[b.Partition]}
	}
	move.To = b.Position
	t.moved[b.Partition], cursors[b.Partition] = move, b.Position
	added := t.entries[b.Partition]
	added.Last, added.Entries, added.Bytes = b.Position, added.Entries+1, added.Bytes+len(b.Data)
	t.entries[b.Partition] = added
	t.bytes += len(b.Data)
	before := len(t.updates)
	r, err := sluice.ReadBatch(b.Data)
	if err != nil {
		t.deadLetter(b, 0, sluice.FormBatch, "log", err.Error(), b.Data)
		return
	}
	for r.Next() {
		place := sluice.Place{Partition: b.Partition, Position: b.Position, Index: r.Index}
		if err := kindOf(r.Item.Kind).add(t, place, r.Item.Payload); err != nil {
			item := sluice.AppendItem(nil, r.Item.Kind, func(x []byte) []byte { return append(x, r.Item.Payload...) })
			t.deadLetter(b, r.Index, sluice.FormItem, "log", err.Error(), item)
		}
	}
	if r.Err() != nil {
		t.deadLetter(b, r.Index+1, sluice.FormBatch, "log", r.Err().Error(), b.Data)
	}
	if len(t.updates) > before {
		t.batches++
	}
}

// count adds a count to those of its hour.
func (t *storing) count(c sluice.Count) {
	by := c.By
	if c.By = 0; c.Quarter() == 0 {
		c.TimeMillis -= c.TimeMillis % time.Hour.Milliseconds()
	}
	t.counts[c] = sluice.AddCount(t.counts[c], by)
}

// deadLetter makes a dead letter of what cannot be read.
func (t *storing) deadLetter(b *flow.Batch, index int, form sluice.Form, source, reason string, payload []byte) {
	t.effect.Dead = append(t.effect.Dead, sluice.DeadLetter{
		Source: source, Form: form, Reason: reason, Payload: payload,
		Place:      sluice.Place{Partition: b.Partition, Position: b.Position, Index: index},
		TimeMillis: t.s.Clock.Now().UnixMilli(),
	})
}
