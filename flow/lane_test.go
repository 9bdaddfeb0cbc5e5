package flow

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"sluice"
	"sluice/mail"
)

// lanesOf returns the lanes of a partition, the lease of sending and its log.
func lanesOf(t *testing.T) (*Redis, *Lanes, *Lease, *Log) {
	t.Helper()
	r := dial(t)
	p := Partitions(1)[0]
	log := NewLog(r, p)
	return r, log.Lanes(), leaseOn(t, r, p.leaseKey("send")), log
}

// queue puts sends into a lane (or, with a second, where they wait for it).
func queue(t *testing.T, log *Log, lease *Lease, cursor *sluice.Position, lane string, second int64, messages ...string) {
	t.Helper()
	data := sluice.NewBatch(0)
	for _, m := range messages {
		data = mail.AppendSend(data, &mail.Send{Message: m, To: m + "@example.com"})
	}
	from := *cursor
	cursor.Major++
	c := Commit{Follower: "spool", From: Reached{Position: from}, To: Reached{Position: *cursor},
		Operations: log.Lanes().Operations([]*Packed{{Lane: lane, Second: second, Size: len(messages), Data: data}})}
	if dead, err := log.Commit(t.Context(), lease, &c, 0); err != nil || dead != 0 {
		t.Fatalf("queue: %d dead, %v", dead, err)
	}
}

// readAll returns the batches of a lane.
func readAll(t *testing.T, l *Lanes, lane string) []LaneBatch {
	t.Helper()
	read, err := l.Read(t.Context(), map[string]string{lane: "0-0"}, 100, 0)
	if err != nil {
		t.Fatal(err)
	}
	return read[lane]
}

// messagesOf lists the messages of the sends of batches.
func messagesOf(t *testing.T, batches []LaneBatch) []string {
	t.Helper()
	var all []string
	for _, b := range batches {
		r, err := sluice.ReadBatch(b.Data)
		if err != nil {
			t.Fatal(err)
		}
		for r.Next() {
			var s mail.Send
			if err := mail.DecodeSend(r.Item.Payload, &s); err != nil {
				t.Fatal(err)
			}
			all = append(all, s.Message)
		}
	}
	return all
}

func mark(t *testing.T, l *Lanes, lease *Lease, evidence string, b *LaneBatch, indexes ...int) string {
	t.Helper()
	var places []LanePlace
	var ids []string
	for _, i := range indexes {
		places = append(places, LanePlace{Batch: b, Index: i})
		ids = append(ids, fmt.Sprintf("%s/%d", b.Entry, i))
	}
	answer, err := l.Mark(t.Context(), lease, serverOf(t, l, lease), evidence, places, ids)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

// serverOf is the Redis that lanes are on.
func serverOf(t *testing.T, l *Lanes, lease *Lease) string {
	t.Helper()
	s, err := l.Begin(t.Context(), lease, 1000)
	if err != nil {
		t.Fatal(err)
	}
	return s.Server
}

func recorded(b *LaneBatch, i int, evidence string) Recorded {
	return Recorded{LanePlace: LanePlace{Batch: b, Index: i}, ID: fmt.Sprintf("%s/%d", b.Entry, i), Evidence: evidence, Packed: -1}
}

func waiting(t *testing.T, l *Lanes) map[string]int64 {
	t.Helper()
	counts, err := l.Waiting(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for lane, n := range counts {
		if n == 0 {
			delete(counts, lane)
		}
	}
	return counts
}

func TestSendsAreMarkedOnceAndRecordedByWhoHasMarkedThem(t *testing.T) {
	_, l, lease, log := lanesOf(t)
	var cursor sluice.Position
	queue(t, log, lease, &cursor, "low", 0, "a", "b", "c")
	b := &readAll(t, l, "low")[0]
	if got := mark(t, l, lease, "one", b, 0, 2); got != "mm" {
		t.Fatalf("mark: %q", got)
	}
	if got := mark(t, l, lease, "two", b, 0, 1); got != "-m" {
		t.Fatalf("mark again: %q, want the first one refused", got)
	}
	item := mail.AppendOutcome(nil, &mail.Outcome{Message: "a", State: mail.SendSent})
	first := recorded(b, 0, "one")
	first.Log = item
	stranger := recorded(b, 2, "two") // marked by "one"
	stranger.Log = item
	n, refused, err := l.Record(t.Context(), nil, []Recorded{first, stranger})
	if err != nil || n != 1 || len(refused) != 0 {
		t.Fatalf("record: %d, %v, %v; want the one whose mark stands", n, refused, err)
	}
	if n, _, err := l.Record(t.Context(), nil, []Recorded{first}); err != nil || n != 0 {
		t.Fatalf("record again: %d, %v; want nothing", n, err)
	}
	batches, err := log.Read(t.Context(), sluice.Position{}, 10, 0)
	if err != nil || len(batches) != 1 || string(batches[0].Data[1:]) != string(item) {
		t.Fatalf("the log has %v, %v; want the outcome, once", batches, err)
	}
	if got := waiting(t, l); got["low"] != 2 {
		t.Fatalf("waiting: %v, want 2", got)
	}
	s, err := l.Begin(t.Context(), lease, 1000)
	if err != nil || s.Letters(b) != "dmm" || len(s.Marks) != 2 {
		t.Fatalf("standing: %+v, %v", s, err)
	}
	if _, _, err := l.Record(t.Context(), nil, []Recorded{recorded(b, 1, "two"), recorded(b, 2, "one")}); err != nil {
		t.Fatal(err)
	}
	s, err = l.Begin(t.Context(), lease, 1000)
	if err != nil || len(s.States) != 0 || len(s.Marks) != 0 || len(readAll(t, l, "low")) != 0 || len(waiting(t, l)) != 0 {
		t.Fatalf("all is recorded, and there is still %+v, %v, %v", s, waiting(t, l), err)
	}
	// A process that read the batch before, and comes late, would attempt it
	// again.
	if got := mark(t, l, lease, "three", b, 0, 1, 2); got != "---" || len(waiting(t, l)) != 0 {
		t.Fatalf("what is done and gone is marked: %q, waiting: %v", got, waiting(t, l))
	}
}

func TestMarkingNeedsTheLease(t *testing.T) {
	r, l, lease, log := lanesOf(t)
	var cursor sluice.Position
	queue(t, log, lease, &cursor, "low", 0, "a")
	b := &readAll(t, l, "low")[0]
	mark(t, l, lease, "one", b, 0)
	server := serverOf(t, l, lease)
	leaseOn(t, r, lease.key) // another takes it
	if _, err := l.Mark(t.Context(), lease, server, "two", []LanePlace{{Batch: b}}, []string{"x"}); !errors.Is(err, sluice.ErrLeaseLost) {
		t.Fatalf("mark with a lost lease: %v", err)
	}
	if n, _, err := l.Record(t.Context(), nil, []Recorded{recorded(b, 0, "one")}); err != nil || n != 1 {
		t.Fatalf("record what was marked before: %d, %v", n, err)
	}
}

func TestWhatIsDeferredWaitsForItsSecond(t *testing.T) {
	_, l, lease, log := lanesOf(t)
	var cursor sluice.Position
	queue(t, log, lease, &cursor, "normal", 0, "a", "b")
	queue(t, log, lease, &cursor, "high", 1000, "c")
	b := &readAll(t, l, "normal")[0]
	mark(t, l, lease, "one", b, 0, 1)
	later := recorded(b, 0, "one")
	later.Packed, later.Item = 0, mail.AppendSend(nil, &mail.Send{Message: "a"})
	back := recorded(b, 1, "one")
	back.Waits = true
	gone := recorded(b, 1, "no such mark")
	gone.Packed, gone.Item = 0, mail.AppendSend(nil, &mail.Send{Message: "never"})
	if n, refused, err := l.Record(t.Context(), []Packed{{Lane: "normal", Second: 1005}}, []Recorded{later, back, gone}); err != nil || n != 2 || len(refused) != 0 {
		t.Fatalf("record: %d, %v, %v", n, refused, err)
	}
	if got := waiting(t, l); got["normal"] != 1 || got["later"] != 2 {
		t.Fatalf("waiting: %v", got)
	}
	if got := mark(t, l, lease, "two", b, 0, 1); got != "-m" {
		t.Fatalf("mark: %q, want only the one that was not attempted", got)
	}
	for second, want := range map[int64][]string{999: nil, 1000: {"c"}} {
		if _, err := l.Due(t.Context(), lease, second); err != nil {
			t.Fatal(err)
		}
		if got := messagesOf(t, readAll(t, l, "high")); second == 1000 && !slices.Equal(got, want) {
			t.Fatalf("at %d the lane high has %v, want %v", second, got, want)
		}
	}
	if more, err := l.Due(t.Context(), lease, 2000); err != nil || more {
		t.Fatalf("due: %v, %v", more, err)
	}
	batches := readAll(t, l, "normal")
	if got := messagesOf(t, batches[1:]); !slices.Equal(got, []string{"a"}) {
		t.Fatalf("the lane has %v", got)
	}
	if got := waiting(t, l); got["normal"] != 2 || got["high"] != 1 || got["later"] != 0 {
		t.Fatalf("waiting: %v", got)
	}
}

func TestDueMovesAFewBatchesAtATime(t *testing.T) {
	_, l, lease, log := lanesOf(t)
	var cursor sluice.Position
	var want []string
	for i := range 3*dueBatches + 1 {
		m := fmt.Sprintf("m%02d", i)
		want = append(want, m)
		queue(t, log, lease, &cursor, "low", int64(100+i/5), m)
	}
	turns := 0
	for more := true; more; turns++ {
		var err error
		if more, err = l.Due(t.Context(), lease, 1000); err != nil {
			t.Fatal(err)
		}
	}
	if got := messagesOf(t, readAll(t, l, "low")); !slices.Equal(got, want) {
		t.Fatalf("after %d turns the lane has %v, want %v", turns, got, want)
	}
}

func TestCancelledSendsAreNotAttempted(t *testing.T) {
	r, l, lease, log := lanesOf(t)
	var cursor sluice.Position
	queue(t, log, lease, &cursor, "low", 0, "a", "b", "c")
	b := &readAll(t, l, "low")[0]
	mark(t, l, lease, "one", b, 1)
	ids := []string{b.Entry + "/0", b.Entry + "/1"}
	items := [][]byte{mail.AppendOutcome(nil, &mail.Outcome{Message: "a"}), mail.AppendOutcome(nil, &mail.Outcome{Message: "b"})}
	for range 2 { // the second time changes nothing
		if refused, err := l.Cancel(t.Context(), lease, cursor, cancels(ids, items), 5); err != nil || refused != 0 {
			t.Fatalf("cancel: %d refused, %v", refused, err)
		}
	}
	batches, err := log.Read(t.Context(), sluice.Position{}, 10, 0)
	if err != nil || len(batches) != 1 || string(batches[0].Data[1:]) != string(items[0]) {
		t.Fatalf("the log has %d batches, %v; want the cancelled one that was not marked", len(batches), err)
	}
	if got := mark(t, l, lease, "two", b, 0, 2); got != "em" { // the log was told
		t.Fatalf("mark: %q", got)
	}
	// The marked one was sent after all: nothing is left of its cancel.
	if n, _, err := l.Record(t.Context(), nil, []Recorded{recorded(b, 0, "two"), recorded(b, 1, "one"), recorded(b, 2, "two")}); err != nil || n != 3 {
		t.Fatalf("record: %d, %v", n, err)
	}
	if n := do(t, r, "HLEN", log.partition.cancelsKey()); n != "0" {
		t.Fatalf("%s cancels are left", n)
	}
}

func TestSublanesAreKnown(t *testing.T) {
	_, l, lease, log := lanesOf(t)
	var cursor sluice.Position
	queue(t, log, lease, &cursor, "low", 0, "a")
	b := &readAll(t, l, "low")[0]
	mark(t, l, lease, "one", b, 0)
	moved := recorded(b, 0, "one")
	moved.Packed, moved.Item = 0, mail.AppendSend(nil, &mail.Send{Message: "a"})
	lane := Sublane("low", "example.com")
	if _, _, err := l.Record(t.Context(), []Packed{{Lane: lane}}, []Recorded{moved}); err != nil {
		t.Fatal(err)
	}
	s, err := l.Begin(t.Context(), lease, 1000)
	if err != nil || !slices.Equal(s.Sublanes, []string{lane}) {
		t.Fatalf("sublanes: %v, %v", s.Sublanes, err)
	}
	if got := messagesOf(t, readAll(t, l, lane)); !slices.Equal(got, []string{"a"}) || waiting(t, l)[lane] != 1 {
		t.Fatalf("the sublane has %v, waiting %v", got, waiting(t, l))
	}
}

// cancels are the first items of a batch that cancel sends.
func cancels(ids []string, items [][]byte) (all []Cancel) {
	for i, id := range ids {
		all = append(all, Cancel{Item: i, ID: id, Log: items[i]})
	}
	return all
}

// TestACancelIsNotedOnce: a batch of cancels that comes again, because its cursor had not
// moved, is passed over as far as it was noted. So a send that was met in its lane
// meanwhile gets no note that nobody would ever meet, and the log is told once.
func TestACancelIsNotedOnce(t *testing.T) {
	r, l, lease, log := lanesOf(t)
	var cursor sluice.Position
	queue(t, log, lease, &cursor, "low", 0, "a", "b", "c")
	b := &readAll(t, l, "low")[0]
	item := mail.AppendOutcome(nil, &mail.Outcome{Message: "a"})
	all := cancels([]string{b.Entry + "/0", b.Entry + "/1", b.Entry + "/2"}, [][]byte{item, item, item})
	cancel := func(at sluice.Position, some []Cancel, notes string, told int) {
		t.Helper()
		if refused, err := l.Cancel(t.Context(), lease, at, some, 5); err != nil || refused != 0 {
			t.Fatalf("cancel: %d refused, %v", refused, err)
		}
		batches, err := log.Read(t.Context(), sluice.Position{}, 10, 0)
		if n := do(t, r, "HLEN", log.partition.cancelsKey()); err != nil || n != notes || len(batches) != told {
			t.Fatalf("%s notes, told %d times, %v; want %s and %d", n, len(batches), err, notes, told)
		}
	}
	cancel(cursor, all[:2], "2", 1)
	if got := mark(t, l, lease, "one", b, 0); got != "e" {
		t.Fatalf("mark: %q", got)
	}
	if n, _, err := l.Record(t.Context(), nil, []Recorded{recorded(b, 0, "one")}); err != nil || n != 1 {
		t.Fatalf("record: %d, %v", n, err)
	}
	cancel(cursor, all[:2], "1", 1) // again, as before
	cancel(cursor, all, "2", 2)     // and what comes behind it
	cancel(cursor, all[:1], "2", 2)
	cancel(cursor, all, "2", 2)
	cancel(sluice.Position{Major: cursor.Major + 1}, all, "3", 3) // of another batch, who knows
}

// TestACancelOutlivesALostMark: the answer that a send was cancelled may be
// lost. So it is given again to the process that marks the send next, until it
// is recorded.
func TestACancelOutlivesALostMark(t *testing.T) {
	r, l, lease, log := lanesOf(t)
	var cursor sluice.Position
	queue(t, log, lease, &cursor, "low", 0, "a", "b")
	b := &readAll(t, l, "low")[0]
	ids := []string{b.Entry + "/0", b.Entry + "/1"}
	item := mail.AppendOutcome(nil, &mail.Outcome{Message: "a"})
	if _, err := l.Cancel(t.Context(), lease, cursor, cancels(ids, [][]byte{item, item}), 5); err != nil {
		t.Fatal(err)
	}
	if got := mark(t, l, lease, "lost", b, 0, 1); got != "ee" {
		t.Fatalf("mark: %q", got)
	}
	// The process that has marked them finds them as its own; or its successor
	// has one of them in doubt and attempts it once more.
	back, again := recorded(b, 0, "lost"), recorded(b, 1, "lost")
	back.Waits = true
	again.Packed, again.Item = 0, mail.AppendSend(nil, &mail.Send{Message: "b"})
	if n, _, err := l.Record(t.Context(), []Packed{{Lane: "low"}}, []Recorded{back, again}); err != nil || n != 2 {
		t.Fatalf("record: %d, %v", n, err)
	}
	second := &readAll(t, l, "low")[1]
	places := []LanePlace{{Batch: b, Index: 0}, {Batch: second, Index: 0}}
	if got, err := l.Mark(t.Context(), lease, serverOf(t, l, lease), "two", places, ids); err != nil || got != "ee" {
		t.Fatalf("mark again: %q, %v; want both cancelled", got, err)
	}
	first, last := recorded(b, 0, "two"), recorded(second, 0, "two")
	last.ID = ids[1]
	if n, _, err := l.Record(t.Context(), nil, []Recorded{first, last}); err != nil || n != 2 {
		t.Fatalf("record: %d, %v", n, err)
	}
	if n := do(t, r, "HLEN", log.partition.cancelsKey()); n != "0" {
		t.Fatalf("%s cancels are left", n)
	}
}

// TestRecordingWorksWhenRedisIsFull: sends that are inside must be able to
// leave.
func TestRecordingWorksWhenRedisIsFull(t *testing.T) {
	r, l, lease, log := lanesOf(t)
	var cursor sluice.Position
	queue(t, log, lease, &cursor, "low", 0, "a", "b")
	b := &readAll(t, l, "low")[0]
	mark(t, l, lease, "one", b, 0)
	server := serverOf(t, l, lease)
	do(t, r, "CONFIG", "SET", "maxmemory", "1")
	done := recorded(b, 0, "one")
	done.Log = mail.AppendOutcome(nil, &mail.Outcome{Message: "a", Reply: strings.Repeat("x", 200)})
	if n, refused, err := l.Record(t.Context(), nil, []Recorded{done}); err != nil || n != 1 || len(refused) != 0 {
		t.Fatalf("record in a full redis: %d, %v, %v", n, refused, err)
	}
	if _, err := l.Mark(t.Context(), lease, server, "two", []LanePlace{{Batch: b, Index: 1}}, []string{"x"}); err != nil {
		t.Fatalf("mark in a full redis: %v; what waits must be able to leave", err)
	}
}

// TestNotesOfCancelsAreTidied: those of Cancel go, or are kept for good, if they
// are what they were; those of Remove are none of them. One that is kept still says
// whether the log was told: who meets its send tells it once more otherwise.
func TestNotesOfCancelsAreTidied(t *testing.T) {
	r, l, lease, log := lanesOf(t)
	var cursor sluice.Position
	queue(t, log, lease, &cursor, "low", 0, "a", "b")
	b := &readAll(t, l, "low")[0]
	kept, marked := b.Entry+"/0", b.Entry+"/1"
	mark(t, l, lease, "one", b, 1)
	key := log.partition.cancelsKey()
	if _, err := l.Cancel(t.Context(), lease, sluice.Position{Major: 1}, cancels([]string{"gone", kept, "new", marked}, make([][]byte, 4)), 5); err != nil {
		t.Fatal(err)
	}
	do(t, r, "HSET", key, "spared", "5")
	notes, next, err := l.Notes(t.Context(), "0", 100)
	if err != nil || next != "0" || len(notes) != 4 {
		t.Fatalf("notes: %v, next %q, %v; want those of Cancel", notes, next, err)
	}
	by := make(map[string]CancelNote)
	for _, n := range notes {
		by[n.ID] = n
	}
	do(t, r, "HSET", key, "new", "7") // it is spared since
	if err := l.Tidy(t.Context(), lease, []CancelNote{by["gone"], by["new"]}, []CancelNote{by[kept], by[marked]}); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]string{kept: "5!", marked: "5", "new": "7", "spared": "5"} {
		if got := do(t, r, "HGET", key, id); got != want {
			t.Errorf("%s is %q, want %q", id, got, want)
		}
	}
	if n := do(t, r, "HLEN", key); n != "4" {
		t.Errorf("%s notes", n)
	}
	if room, err := l.CancelRoom(t.Context()); err != nil || room != MaxCancels-4 {
		t.Errorf("room for %d, %v", room, err)
	}
	if got := mark(t, l, lease, "two", b, 0); got != "e" {
		t.Errorf("mark: %q, want that the log was told", got)
	}
	leaseOn(t, r, lease.key) // another takes it
	if err := l.Tidy(t.Context(), lease, []CancelNote{by[kept]}, nil); !errors.Is(err, sluice.ErrLeaseLost) {
		t.Errorf("tidied without the lease: %v", err)
	}
}

// TestEmptySublanesAreRemoved: they go with their names, and never while they
// hold a send, marked or not. A process that moves a send to a removed one
// makes it anew.
func TestEmptySublanesAreRemoved(t *testing.T) {
	r, l, lease, log := lanesOf(t)
	var cursor sluice.Position
	queue(t, log, lease, &cursor, "low", 0, "a", "b")
	b := &readAll(t, l, "low")[0]
	lane, other := Sublane("low", "example.com"), Sublane("low", "example.net")
	move := func(i int, message string) {
		t.Helper()
		mark(t, l, lease, message, b, i)
		moved := recorded(b, i, message)
		moved.Packed, moved.Item = 0, mail.AppendSend(nil, &mail.Send{Message: message})
		if n, _, err := l.Record(t.Context(), []Packed{{Lane: lane}}, []Recorded{moved}); err != nil || n != 1 {
			t.Fatalf("record: %d, %v", n, err)
		}
	}
	closes := func(want ...bool) {
		t.Helper()
		if got, err := l.CloseSublanes(t.Context(), lease, []string{lane, other}); err != nil || !slices.Equal(got, want) {
			t.Fatalf("removed %v, %v; want %v", got, err, want)
		}
	}
	move(0, "a")
	closes(false, true)
	in := &readAll(t, l, lane)[0]
	mark(t, l, lease, "in", in, 0)
	closes(false, true)
	if n, _, err := l.Record(t.Context(), nil, []Recorded{recorded(in, 0, "in")}); err != nil || n != 1 {
		t.Fatalf("record: %d, %v", n, err)
	}
	closes(true, true)
	if s, err := l.Begin(t.Context(), lease, 1000); err != nil || len(s.Sublanes) != 0 {
		t.Errorf("sublanes: %v, %v", s.Sublanes, err)
	}
	if n := do(t, r, "HEXISTS", log.partition.waitingKey(), lane) + do(t, r, "EXISTS", log.partition.laneKey(lane)); n != "00" {
		t.Errorf("something is left of the sublane: %s", n)
	}
	move(1, "b")
	if got := messagesOf(t, readAll(t, l, lane)); !slices.Equal(got, []string{"b"}) {
		t.Errorf("the sublane has %v", got)
	}
	closes(false, true)
	leaseOn(t, r, lease.key) // another takes it
	if _, err := l.CloseSublanes(t.Context(), lease, []string{other}); !errors.Is(err, sluice.ErrLeaseLost) {
		t.Errorf("removed without the lease: %v", err)
	}
}
