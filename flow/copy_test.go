package flow

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"sluice"
)

// fillLog appends batches to a log and returns their positions.
func fillLog(t *testing.T, l *Log, source string, from, count int) []sluice.Position {
	t.Helper()
	var all []sluice.Position
	for i := from; i < from+count; i++ {
		prev := ""
		if i > 0 {
			prev = fmt.Sprint(i - 1)
		}
		done, err := l.Append(t.Context(), source, prev, fmt.Sprint(i), oneEvent(fmt.Sprint(i)), false)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, done.Position)
	}
	return all
}

// A running backup keeps the trim from entries that it has not copied. Copied
// entries go back with their ids, their chain and their sources.
func TestLogCopyHoldsTheTrimAndGoesBack(t *testing.T) {
	r := dial(t)
	partitions := Partitions(2)
	log := NewLog(r, partitions[1])
	lease := &Lease{key: partitions[1].leaseKey("store"), token: "x"}
	do(t, r, "HSET", lease.key, "token", "x")
	first := fillLog(t, log, "api:x", 0, 5)
	if _, err := log.Trim(t.Context(), lease, first[2]); err != nil {
		t.Fatal(err)
	}

	c := NewLogCopy(r, 2)
	from, err := c.Begin(t.Context())
	if err != nil || from[1] != first[1] || from[0] != (sluice.Position{}) {
		t.Fatalf("begins at %v, %v", from, err)
	}
	second := fillLog(t, log, "api:x", 5, 5)
	if _, err := log.Trim(t.Context(), lease, second[4]); err != nil { // the store is far ahead
		t.Fatal(err)
	}
	if n, _ := log.Entries(t.Context()); n != 8 {
		t.Fatalf("%d entries are left while nothing is copied, want 8", n)
	}
	var mu sync.Mutex
	copied := make(map[sluice.Position]Batch)
	ctx, stop := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() {
		ran <- c.Run(ctx, func(batches []Batch) error {
			mu.Lock()
			defer mu.Unlock()
			for _, b := range batches {
				copied[b.Position] = b
			}
			return nil
		})
	}()
	ends, err := c.End(t.Context())
	if err != nil || ends[1].Position != second[4] || ends[1].Sources["api:x"] != "9|"+second[4].String() {
		t.Fatalf("ends %+v, %v", ends, err)
	}
	stop()
	if err := <-ran; err != nil {
		t.Fatal(err)
	}
	if len(copied) != 8 {
		t.Fatalf("%d entries were copied, want 8", len(copied))
	}
	if _, err := log.Trim(t.Context(), lease, second[4]); err != nil {
		t.Fatal(err)
	}
	if n, _ := log.Entries(t.Context()); n != 1 {
		t.Fatalf("%d entries are left when the copy is done, want 1", n)
	}

	do(t, r, "FLUSHALL")
	var batches []Batch
	for _, p := range slices.SortedFunc(maps.Keys(copied), sluice.Position.Compare) {
		batches = append(batches, copied[p])
	}
	if err := log.PutBack(t.Context(), batches); err != nil {
		t.Fatal(err)
	}
	for _, sources := range []map[string]string{ends[1].Sources, {"@server": "x", "@begun": "1"}} { // of an empty log
		if err := log.PutBackSources(t.Context(), sources); err != nil {
			t.Fatal(err)
		}
	}
	back, err := log.Read(t.Context(), first[1], 100, 0)
	if err != nil || len(back) != 8 || back[7].Position != second[4] || string(back[7].Data) != string(oneEvent("9")) {
		t.Fatalf("%d entries went back, %v", len(back), err)
	}
	again, err := log.Append(t.Context(), "api:x", "8", "9", oneEvent("9"), false)
	if err != nil || !again.Repeated {
		t.Fatalf("a source's repeat after the restore: %+v, %v", again, err)
	}
	if start, end, err := log.Span(t.Context()); err != nil || start != first[1] || end != second[4] {
		t.Fatalf("spans %s to %s, %v", start, end, err)
	}
}

// meanwhile is a client beside which something happens once, behind the first answer
// that it gets to a read.
type meanwhile struct {
	rueidis.Client
	happens func()
}

func (m *meanwhile) Do(ctx context.Context, command rueidis.Completed) rueidis.RedisResult {
	reads := command.IsReadOnly()
	answer := m.Client.Do(ctx, command)
	m.happen(reads)
	return answer
}

func (m *meanwhile) DoMulti(ctx context.Context, commands ...rueidis.Completed) []rueidis.RedisResult {
	reads := commands[0].IsReadOnly()
	answers := m.Client.DoMulti(ctx, commands...)
	m.happen(reads)
	return answers
}

func (m *meanwhile) happen(reads bool) {
	if happens := m.happens; reads && happens != nil {
		m.happens = nil
		happens()
	}
}

// An entry that comes to an empty log while the copy begins is in it.
func TestLogCopyBeginsBeforeTheFirstEntry(t *testing.T) {
	r := dial(t)
	var first []sluice.Position
	beside := &Redis{name: r.name, client: &meanwhile{r.client, func() { first = fillLog(t, NewLog(r, Partitions(1)[0]), "api:x", 0, 1) }}}
	from, err := NewLogCopy(beside, 1).Begin(t.Context())
	if err != nil || len(first) != 1 || !from[0].Before(first[0]) {
		t.Errorf("the copy begins behind %v, and the first entries are %v; %v", from, first, err)
	}
}

// TestLogCopyBeginsInFewCalls: with a call for each log the first hold has ended before
// all begin, where Redis is far away.
func TestLogCopyBeginsInFewCalls(t *testing.T) {
	const logs = 64
	dial(t) // it is empty
	r, way := dialBy(t, testRedis.Network(), testRedis.Addr())
	for _, p := range []int{3, logs - 1} {
		fillLog(t, NewLog(r, Partitions(logs)[p]), "api:x", 0, 2)
	}
	before := way.Turns()
	c := NewLogCopy(r, logs)
	from, err := c.Begin(t.Context())
	if turns := way.Turns() - before; err != nil || len(from) != logs || turns > logs/2 {
		t.Errorf("%d round trips for %d logs, %v", turns, len(from), err)
	}
	before = way.Turns()
	if err := c.hold(t.Context(), c.partitions, from); err != nil {
		t.Fatal(err)
	}
	if turns := way.Turns() - before; turns > logs/4 {
		t.Errorf("%d round trips to hold them on", turns)
	}
}

// A copier that falls silent holds the trim no longer than its hold lives.
func TestAHoldEndsByItself(t *testing.T) {
	r := dial(t)
	c := NewLogCopy(r, 1)
	if _, err := c.Begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	ttl, err := r.client.Do(t.Context(), r.client.B().Pttl().Key(c.partitions[0].holdKey()).Build()).AsInt64()
	if err != nil || ttl <= 0 || ttl > holdTTL.Milliseconds() {
		t.Fatalf("it lives %d ms, %v", ttl, err)
	}
}

func TestLivingProcessesAreSeen(t *testing.T) {
	r := dial(t)
	if n, err := Living(t.Context(), r, false); err != nil || n != 0 {
		t.Fatalf("%d live in an empty Redis, %v", n, err)
	}
	do(t, r, "HSET", membersKey(), "dead", "7 store/1/x")
	if n, err := Living(t.Context(), r, false); err != nil || n != 0 {
		t.Fatalf("%d live beside one that is silent, %v", n, err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var beating sync.WaitGroup
	beating.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			_ = r.client.Do(ctx, r.client.B().Hset().Key(membersKey()).FieldValue().FieldValue("a", fmt.Sprint(i)).Build()).Error()
		}
	})
	if n, err := Living(t.Context(), r, false); err != nil || n != 1 {
		t.Errorf("%d live beside one that beats, %v", n, err)
	}
	stop()
	beating.Wait()
	do(t, r, "FLUSHALL")
	ctx, stop = context.WithCancel(t.Context())
	beating.Go(func() {
		for i, rest := 0, 3*beatEvery/2; ; i, rest = i+1, beatEvery/5 { // it comes back after the first looks
			select {
			case <-ctx.Done():
				return
			case <-time.After(rest):
				_ = r.client.Do(ctx, r.client.B().Hset().Key(membersKey()).FieldValue().FieldValue("a", fmt.Sprint(i)).Build()).Error()
			}
		}
	})
	if n, err := Living(t.Context(), r, true); err != nil || n != 1 {
		t.Errorf("%d live beside one that comes back to an emptied Redis, %v", n, err)
	}
	stop()
	beating.Wait()
}
