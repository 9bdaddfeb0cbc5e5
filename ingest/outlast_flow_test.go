package ingest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"sluice"
	"sluice/flow"
	"sluice/store"
	"sluice/test/proxy"
	"sluice/user"
)

// leaving is a store that goes away: a commit fails, it answers so many times more, and
// then it answers nobody until it is back.
type leaving struct {
	store.Store
	store.JourneyStore
	usersToo

	mu      sync.Mutex
	leaves  bool // from the next commit on
	away    bool
	answers int // that it still gives when it is away
}

var errAway = errors.New("the database is away")

func (l *leaving) Apply(ctx context.Context, p store.Prepared) (store.Applied, error) {
	l.mu.Lock()
	l.away = l.away || l.leaves
	away := l.away
	l.mu.Unlock()
	if away {
		return store.Applied{}, errAway
	}
	return l.Store.Apply(ctx, p)
}

func (l *leaving) Cursors(ctx context.Context, follower string, partitions []int) (map[int]sluice.Position, error) {
	l.mu.Lock()
	if l.away {
		if l.answers--; l.answers < 0 {
			l.mu.Unlock()
			return nil, errAway
		}
	}
	l.mu.Unlock()
	return l.Store.Cursors(ctx, follower, partitions)
}

func (l *leaving) set(leaves bool, answers int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leaves, l.away, l.answers = leaves, false, answers
}

func (l *leaving) gone() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.away && l.answers < 0
}

// queued is a Queue that notes what it is given, as the lanes do, once.
type queued struct {
	mu  sync.Mutex
	at  map[int]sluice.Position
	got []string // names of events
}

func (*queued) Begin(context.Context, []int) error  { return nil }
func (*queued) GoneBack(context.Context, int) error { return nil }

func (q *queued) Queue(_ context.Context, _ *flow.Lease, b *flow.Batch) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.at[b.Partition].Before(b.Position) {
		return nil
	}
	q.at[b.Partition] = b.Position
	r, err := sluice.ReadBatch(b.Data)
	if err != nil {
		return err
	}
	for r.Next() {
		var e sluice.Event
		if r.Item.Kind == sluice.ItemEvent && sluice.DecodeEvent(r.Item.Payload, &e) == nil {
			q.got = append(q.got, e.Name)
		}
	}
	return r.Err()
}

func (q *queued) has(name string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Contains(q.got, name)
}

// What the logs get while the database is away is queued, however many times the database
// answered behind the commit that failed: the session stays, or the next one
// cannot begin.
func TestWhatComesIsQueuedWhileTheDatabaseIsAway(t *testing.T) {
	for _, answers := range []int{0, 1, 2, 3} {
		b, q, db := newBed(t, "sqlite"), &queued{at: make(map[int]sluice.Position)}, &leaving{}
		e := newEngine(b, setup{queue: q, store: func(s store.Store) store.Store {
			db.Store, db.JourneyStore, db.usersToo = s, s.(store.JourneyStore), s.(user.Store)
			return db
		}})
		e.run()
		e.write(0, "one", named("before"))
		b.eventually("all is stored", func() bool { return b.storedNames() == "before" })
		db.set(true, answers)
		e.write(0, "two", named("cut off"))
		b.eventually("somebody gets no answer", db.gone)
		for _, name := range []string{"first", "second"} {
			e.write(0, name, named(name))
			e.write(1, name, named(name+" elsewhere"))
			b.eventually("it is queued", func() bool { return q.has(name) && q.has(name+" elsewhere") })
		}
		db.set(false, 0)
		b.eventually("all is stored", func() bool { return b.count("events") == 6 })
		e.stop()
		if slices.Sort(q.got); len(slices.Compact(q.got)) != 6 {
			t.Errorf("queued after %d answers: %q", answers, q.got)
		}
	}
}

// What the logs get while the database is away is also queued when a connection to Redis
// is lost meanwhile: the session, which cannot read on, gives way to one that can.
func TestWhatComesIsQueuedBehindALostConnection(t *testing.T) {
	const many = 2000 // events that wait for no company
	for _, behind := range []bool{false, true} {
		b, q, db := newBed(t, "sqlite"), &queued{at: make(map[int]sluice.Position)}, &leaving{}
		way, err := proxy.New("unix", b.server().Socket())
		b.must(err)
		past, err := flow.Dial(b.Context(), b.server().URL())
		b.must(err)
		e := newEngine(b, setup{redis: "redis://" + way.Addr(), queue: q, store: func(s store.Store) store.Store {
			db.Store, db.JourneyStore, db.usersToo = s, s.(store.JourneyStore), s.(user.Store)
			return db
		}})
		write := func(p int, name string, events int) {
			t.Helper()
			_, err := flow.NewLog(past, flow.Partitions(testPartitions)[p]).Append(b.Context(), name, "", "1", named(slices.Repeat([]string{name}, events)...), false)
			b.must(err)
			b.eventually(name+" is queued", func() bool { return q.has(name) })
		}
		e.run()
		write(0, "before", 1)
		b.eventually("all is stored", func() bool { return b.storedNames() == "before" })
		db.set(true, 0)
		write(0, "cut off", 1)
		b.eventually("somebody gets no answer", db.gone)
		all := 2 + testPartitions
		if behind { // what the store has not taken, since a transaction waits for the one that was cut off
			write(0, "waiting", many)
			write(0, "not taken", 1)
			write(1, "not taken either", 1)
			all += many + 2
		}
		cut, err := way.Arm(proxy.Rule{Pattern: []byte("XREAD")})
		b.must(err)
		<-cut.Fired()
		for p := range testPartitions {
			write(p, fmt.Sprint("behind the cut in ", p), 1)
		}
		db.set(false, 0)
		b.eventually("all is stored", func() bool { return b.count("events") == all })
		e.stop()
		past.Close()
		b.must(way.Close())
	}
}

// While the database is away, a partition for which Redis fails keeps no mail of another
// one waiting, and its own goes on when Redis does, database or not.
func TestWhatComesIsQueuedBesideAPartitionThatFails(t *testing.T) {
	b, q, db := newBed(t, "sqlite"), &queued{at: make(map[int]sluice.Position)}, &leaving{}
	e := newEngine(b, setup{partitions: 2, queue: q, store: func(s store.Store) store.Store {
		db.Store, db.JourneyStore, db.usersToo = s, s.(store.JourneyStore), s.(user.Store)
		return db
	}})
	e.run()
	for p := range 2 {
		e.write(p, "one", named("before"))
	}
	b.eventually("all is stored", func() bool { return b.count("events") == 2 })
	db.set(true, 0)
	e.write(0, "two", named("cut off"))
	b.eventually("somebody gets no answer", db.gone)
	key := b.logKey(1)
	b.do("RENAME", key, key+":kept")
	b.do("SET", key, "no log")
	b.eventually("the session has ended", func() bool { return e.log.has("follower failed", "follower=store") })
	e.write(0, "three", named("beside"))
	b.eventually("mail of the other partition is queued", func() bool { return q.has("beside") })
	b.do("RENAME", key+":kept", key)
	e.write(1, "two", named("behind"))
	b.eventually("mail of the partition is queued again", func() bool { return q.has("behind") })
	if !db.gone() || !e.log.has("partition is left out", "partition=1") || e.log.has("partition is left out", "partition=0") {
		t.Error("the database is there, or another partition was left out: this test shows nothing")
	}
	db.set(false, 0)
	b.eventually("all is stored", func() bool { return b.count("events") == 5 })
	e.stop()
	if slices.Sort(q.got); !slices.Equal(q.got, []string{"before", "before", "behind", "beside", "cut off"}) {
		t.Errorf("queued: %q", q.got)
	}
}
