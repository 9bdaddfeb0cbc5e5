package flow

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice"
)

func TestPartitionsAreEvenlySpacedOverTheSlots(t *testing.T) {
	r := dialClusterNode(t)
	for _, count := range []int{1, 3, 16, 256} {
		for _, p := range Partitions(count) {
			want := (2*p.Number + 1) * 16384 / (2 * count)
			for _, key := range []string{p.logKey(), p.sourcesKey(), p.leaseKey("store"), p.cursorsKey()} {
				if got := do(t, r, "CLUSTER", "KEYSLOT", key); got != strconv.Itoa(want) {
					t.Fatalf("P=%d: key %s is in slot %s, want %d", count, key, got, want)
				}
			}
		}
	}
}

func TestListKeysShareTheSlotOfTheirList(t *testing.T) {
	r := dialClusterNode(t)
	for _, list := range []string{"pepi_queue", "a:{b}:c", "x{}y", "{", "}{"} {
		keys, err := newListKeys("list", list)
		if err != nil {
			if !strings.ContainsAny(list, "{}") {
				t.Fatal(err)
			}
			continue
		}
		for _, key := range []string{keys.stateKey(), keys.leaseKey(), keys.heldKey(7)} {
			if a, b := do(t, r, "CLUSTER", "KEYSLOT", key), do(t, r, "CLUSTER", "KEYSLOT", list); a != b {
				t.Fatalf("key %s is in slot %s, list %s in %s", key, a, list, b)
			}
		}
	}
}

func TestAppendWritesOnce(t *testing.T) {
	r := dial(t)
	l := NewLog(r, Partitions(1)[0])
	first, err := l.Append(t.Context(), "s", "", "1", oneEvent("a"), false)
	if err != nil || first.Repeated || first.Entries != 1 {
		t.Fatalf("first append: %+v, %v", first, err)
	}
	again, err := l.Append(t.Context(), "s", "", "1", oneEvent("a"), false)
	if err != nil || !again.Repeated || again.Position != first.Position || again.Entries != 1 {
		t.Fatalf("repeat: %+v, %v; want the first one's position and no new entry", again, err)
	}
	if _, err := l.Append(t.Context(), "s", "5", "6", oneEvent("a"), false); !errors.Is(err, sluice.ErrConflict) {
		t.Fatalf("append from a seq the source is not at: %v, want ErrConflict", err)
	}
	if _, err := l.Append(t.Context(), "other", "", "1", oneEvent("b"), false); err != nil {
		t.Fatal(err)
	}
	if seq, err := l.Seq(t.Context(), "s"); err != nil || seq != "1" {
		t.Fatalf("seq of s: %q, %v", seq, err)
	}
	batches, err := l.Read(t.Context(), sluice.Position{}, 10, 0)
	if err != nil || len(batches) != 2 || batches[1].Prev != batches[0].Position {
		t.Fatalf("read: %v, %v; want two entries, linked", batches, err)
	}
}

func TestReadMeetsAGap(t *testing.T) {
	r := dial(t)
	p := Partitions(1)[0]
	l := NewLog(r, p)
	var at []sluice.Position
	for i := range 4 {
		a, err := l.Append(t.Context(), "s", seqText(i), seqText(i+1), oneEvent("a"), false)
		if err != nil {
			t.Fatal(err)
		}
		at = append(at, a.Position)
	}
	do(t, r, "XDEL", p.logKey(), at[1].String())
	_, err := l.Read(t.Context(), at[0], 10, 0)
	if !errors.Is(err, sluice.ErrGap) {
		t.Fatalf("reading over a removed entry: %v, want ErrGap", err)
	}
	if batches, err := l.Read(t.Context(), at[1], 10, 0); err != nil || len(batches) != 2 {
		t.Fatalf("reading from behind the gap: %v, %v", batches, err)
	}
	if batches, err := l.Read(t.Context(), sluice.Position{}, 10, 0); err != nil || len(batches) != 1 {
		t.Fatalf("reading up to the gap: %v, %v; want what comes before it", batches, err)
	}
}

// A log that Redis has lost whole begins anew, also if a writer was faster than
// the follower that would have raised it.
func TestReadFollowsALogThatBeginsAnew(t *testing.T) {
	r := dial(t)
	l := NewLog(r, Partitions(1)[0])
	first, err := l.Append(t.Context(), "s", "", "1", oneEvent("a"), false)
	if err != nil {
		t.Fatal(err)
	}
	var again Appended
	eventually(t, "a later millisecond", func() bool {
		do(t, r, "FLUSHALL")
		if again, err = l.Append(t.Context(), "s", "", "1", oneEvent("b"), false); err != nil {
			t.Fatal(err)
		}
		return first.Position.Before(again.Position)
	})
	if raised, err := l.Raise(t.Context(), first.Position); err != nil || raised {
		t.Fatalf("raise a log that is beyond the cursor: %v, %v", raised, err)
	}
	batches, err := l.Read(t.Context(), first.Position, 10, 0)
	if err != nil || len(batches) != 1 || batches[0].Position != again.Position {
		t.Fatalf("read from the old cursor: %v, %v; want the new entry", batches, err)
	}
}

// Redis has gone back to before the cursor, and a writer was faster than Raise:
// what it wrote follows an entry from before the cursor. Nothing is missing.
func TestReadFollowsAForkFromBeforeTheCursor(t *testing.T) {
	r := dial(t)
	p := Partitions(1)[0]
	l := NewLog(r, p)
	var at []sluice.Position
	for i := range 3 {
		a, err := l.Append(t.Context(), "s", seqText(i), seqText(i+1), oneEvent("a"), false)
		if err != nil {
			t.Fatal(err)
		}
		at = append(at, a.Position)
	}
	cursor := at[2]
	do(t, r, "XDEL", p.logKey(), cursor.String())
	do(t, r, "HSET", p.sourcesKey(), "@tail", at[1].String())
	after, err := l.Append(t.Context(), "other", "", "1", oneEvent("b"), false)
	if err != nil {
		t.Fatal(err)
	}
	batches, err := l.Read(t.Context(), cursor, 10, 0)
	if err != nil || len(batches) != 1 || batches[0].Position != after.Position {
		t.Fatalf("read from the cursor: %v, %v; want the entry written since", batches, err)
	}
}

// TestAppliedEntriesAreNoBacklog: they stay, and do not count as waiting.
func TestAppliedEntriesAreNoBacklog(t *testing.T) {
	r := dial(t)
	p := Partitions(1)[0]
	l := NewLog(r, p)
	lease := leaseOn(t, r, p.leaseKey("store"))
	var at []sluice.Position
	for i := range 10 {
		a, err := l.Append(t.Context(), "s", seqText(i), seqText(i+1), oneEvent("a"), false)
		if err != nil {
			t.Fatal(err)
		}
		at = append(at, a.Position)
	}
	all, whole, err := l.Applied(t.Context(), at[6], 1<<20)
	entries, bytes := 0, 0
	for _, s := range all {
		entries, bytes = entries+s.Entries, bytes+s.Bytes
	}
	if err != nil || !whole || entries != 7 || all[len(all)-1].First != at[0] || all[0].Last != at[6] || bytes != 7*len(oneEvent("a")) {
		t.Fatalf("applied are %+v, whole %v, %v", all, whole, err)
	}
	if n, err := l.Settle(t.Context(), lease, sluice.Position{}, 7, NeverCut); err != nil || n != 0 {
		t.Fatalf("%d removed, %v; want it only noted", n, err)
	}
	check := func(want int) {
		t.Helper()
		if n, err := l.Entries(t.Context()); err != nil || n != want {
			t.Errorf("%d entries wait, %v; want %d", n, err, want)
		}
	}
	check(3)
	a, err := l.Append(t.Context(), "s", "10", "11", oneEvent("a"), false)
	if err != nil || a.Entries != 4 {
		t.Errorf("%d entries wait, %v; want 4", a.Entries, err)
	}
	if n, err := l.appendOnce(t.Context(), "name", "print", []Part{{Items: oneEvent("a")[1:], Count: 1}}, time.Minute); err != nil || n != 5 {
		t.Errorf("%d entries wait, %v; want 5", n, err)
	}
	if n, err := l.Settle(t.Context(), lease, at[4], 8, NeverCut); err != nil || n != 4 {
		t.Fatalf("%d removed, %v; want 4", n, err)
	}
	if oldest, ok, err := l.Oldest(t.Context()); err != nil || !ok || oldest.Position != at[4] {
		t.Errorf("oldest %v, %v; want %v", oldest.Position, err, at[4])
	}
	check(4)
	if _, err := l.Settle(t.Context(), lease, sluice.Position{}, 100, NeverCut); err != nil { // another process has removed more
		t.Fatal(err)
	}
	check(0)
}

func TestAgainWritesOnce(t *testing.T) {
	r := dial(t)
	l := NewLog(r, Partitions(1)[0])
	for range 2 {
		if err := l.Again(t.Context(), "7", oneEvent("a")); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := l.Entries(t.Context()); err != nil || n != 1 {
		t.Fatalf("%d entries, %v; want 1", n, err)
	}
}

func seqText(i int) string {
	if i == 0 {
		return ""
	}
	return strconv.Itoa(i)
}

func TestRaiseNeverHandsOutAnAppliedID(t *testing.T) {
	r := dial(t)
	l := NewLog(r, Partitions(1)[0])
	cursor := sluice.Position{Major: uint64(time.Now().Add(time.Hour).UnixMilli()), Minor: 3}
	if raised, err := l.Raise(t.Context(), cursor); err != nil || !raised {
		t.Fatalf("raise an empty log: %v, %v", raised, err)
	}
	if raised, err := l.Raise(t.Context(), cursor); err != nil || raised {
		t.Fatalf("raise again: %v, %v", raised, err)
	}
	a, err := l.Append(t.Context(), "s", "", "1", oneEvent("a"), false)
	if err != nil || !cursor.Before(a.Position) {
		t.Fatalf("append after raise: %v, %v; want an id beyond %s", a, err, cursor)
	}
	batches, err := l.Read(t.Context(), cursor, 10, 0)
	if err != nil || len(batches) != 2 {
		t.Fatalf("read from the cursor: %d batches, %v; want the marker and the entry", len(batches), err)
	}
}

func TestReadWaitsAndIsWokenByAnAppend(t *testing.T) {
	r := dial(t)
	l := NewLog(r, Partitions(1)[0])
	got := make(chan error, 1)
	go func() {
		batches, err := l.Read(t.Context(), sluice.Position{}, 1, 20*time.Second)
		if err == nil && len(batches) != 1 {
			err = fmt.Errorf("%d batches", len(batches))
		}
		got <- err
	}()
	eventually(t, "the reader is blocked", func() bool { return strings.Contains(do(t, r, "INFO", "clients"), "blocked_clients:1") })
	if _, err := l.Append(t.Context(), "s", "", "1", oneEvent("a"), false); err != nil {
		t.Fatal(err)
	}
	if err := <-got; err != nil {
		t.Fatal(err)
	}
}

func TestTrimNeedsTheLease(t *testing.T) {
	r := dial(t)
	p := Partitions(1)[0]
	l := NewLog(r, p)
	a, err := l.Append(t.Context(), "s", "", "1", oneEvent("a"), false)
	if err != nil {
		t.Fatal(err)
	}
	old := leaseOn(t, r, p.leaseKey("store"))
	leaseOn(t, r, p.leaseKey("store"))
	if _, err := l.Trim(t.Context(), old, sluice.Position{Major: a.Position.Major + 1}); !errors.Is(err, sluice.ErrLeaseLost) {
		t.Fatalf("trim under a lost lease: %v, want ErrLeaseLost", err)
	}
}

func TestScriptsSurviveAScriptFlush(t *testing.T) {
	r := dial(t)
	l := NewLog(r, Partitions(1)[0])
	for i := range 3 {
		if _, err := l.Append(t.Context(), "s", seqText(i), seqText(i+1), oneEvent("a"), false); err != nil {
			t.Fatalf("append %d: %v", i, err)
		}
		do(t, r, "SCRIPT", "FLUSH")
	}
}

func TestFullRedisRefusesInputAndGoesOnDraining(t *testing.T) {
	r := dial(t)
	p := Partitions(1)[0]
	l := NewLog(r, p)
	list, err := NewList(r, "q", Left)
	if err != nil {
		t.Fatal(err)
	}
	lease, logLease := leaseOn(t, r, list.keys.leaseKey()), leaseOn(t, r, p.leaseKey("store"))
	for range 100 {
		if err := r.Push(t.Context(), "q", []string{strings.Repeat("x", 10000)}); err != nil {
			t.Fatal(err)
		}
	}
	a, err := l.Append(t.Context(), "api", "", "1", oneEvent("a"), false)
	if err != nil {
		t.Fatal(err)
	}
	do(t, r, "CONFIG", "SET", "maxmemory", "1mb")
	if err := r.Push(t.Context(), "q", []string{"x"}); !errors.Is(err, sluice.ErrFull) {
		t.Fatalf("push: %v, want ErrFull: the server is not full and this test shows nothing", err)
	}
	if _, err := l.Append(t.Context(), "api", "1", "2", oneEvent("a"), false); !errors.Is(err, sluice.ErrFull) {
		t.Fatalf("append from outside: %v, want ErrFull", err)
	}
	for _, want := range []bool{true, false} { // a program that cannot start cannot empty it
		if since, first, err := r.since(t.Context(), "something", time.UnixMilli(5)); err != nil || first != want || since.UnixMilli() != 5 {
			t.Fatalf("since %v, first %v: %v", since, first, err)
		}
	}
	reader, err := list.Open(t.Context(), lease, sluice.Position{})
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	for n := 0; n < 100; {
		page, err := reader.Next(t.Context(), true)
		if err != nil {
			t.Fatalf("read: %v", err)
		}
		n += len(page.Elements)
		if _, err := l.Append(t.Context(), "list:q", seqText(n-len(page.Elements)), seqText(n), oneEvent("a"), true); err != nil {
			t.Fatalf("append from inside: %v", err)
		}
		reader.Committed(page.To)
	}
	if err := reader.Close(t.Context()); err != nil {
		t.Fatalf("drop: %v", err)
	}
	if _, err := l.Trim(t.Context(), logLease, a.Position); err != nil {
		t.Fatalf("trim: %v", err)
	}
	if _, err := r.call(t.Context(), "beat", []string{membersKey()}, []string{"id", "1"}).ToArray(); err != nil {
		t.Fatalf("beat: %v", err)
	}
}

func TestCommitWithAFailingOperationIsDoneOnce(t *testing.T) {
	r := dial(t)
	p := Partitions(1)[0]
	l := NewLog(r, p)
	lease := leaseOn(t, r, p.leaseKey("journey"))
	good, bad := p.cursorsKey()+":good", p.cursorsKey()+":bad"
	do(t, r, "SET", bad, "text")
	c := &Commit{Follower: "journey", To: Reached{Position: sluice.Position{Major: 1}}, Operations: []Operation{
		{Keys: []string{good}, Words: []string{"INCR", good}},
		{Keys: []string{bad}, Words: []string{"INCR", bad}},
		{Keys: []string{good}, Words: []string{"INCR", good}},
	}}
	for try := range 2 {
		dead, err := l.Commit(t.Context(), lease, c, 1234)
		if err != nil || dead != int64(1-try) {
			t.Fatalf("try %d: %d dead letters, %v", try, dead, err)
		}
	}
	if got := do(t, r, "GET", good); got != "2" {
		t.Fatalf("the good operations were run to %s, want 2: each once", got)
	}
	batches, err := l.Read(t.Context(), sluice.Position{}, 10, 0)
	if err != nil || len(batches) != 1 {
		t.Fatalf("dead letters: %d batches, %v; want 1", len(batches), err)
	}
	items, err := sluice.ReadBatch(batches[0].Data)
	if err != nil || !items.Next() || items.Item.Kind != sluice.ItemDead {
		t.Fatalf("dead letter: %v, %v", items, err)
	}
	var d sluice.DeadLetter
	if err := sluice.DecodeDead(items.Item.Payload, &d); err != nil {
		t.Fatal(err)
	}
	if d.Source != "commit:journey" || d.Form != sluice.FormCommand || d.TimeMillis != 1234 || !strings.Contains(d.Reason, "not an integer") || items.Next() {
		t.Fatalf("dead letter %+v", d)
	}
	c.From, c.To = Reached{Position: sluice.Position{Major: 7}}, Reached{Position: sluice.Position{Major: 8}}
	if _, err := l.Commit(t.Context(), lease, c, 1); !errors.Is(err, sluice.ErrConflict) {
		t.Fatalf("commit from elsewhere: %v, want ErrConflict", err)
	}
	leaseOn(t, r, p.leaseKey("journey"))
	c.From, c.To = Reached{Position: sluice.Position{Major: 1}}, Reached{Position: sluice.Position{Major: 2}}
	if _, err := l.Commit(t.Context(), lease, c, 1); !errors.Is(err, sluice.ErrLeaseLost) {
		t.Fatalf("commit of a zombie: %v, want ErrLeaseLost", err)
	}
}

func TestWriterSharesBatchesAndAnswersAfterTheWrite(t *testing.T) {
	r := dial(t)
	logs := []*Log{NewLog(r, Partitions(2)[0]), NewLog(r, Partitions(2)[1])}
	w := NewWriter(logs, "api:1", testBacklogBytes)
	item := sluice.AppendEvent(nil, &sluice.Event{Name: "a"})
	var wait sync.WaitGroup
	for i := range 500 {
		wait.Go(func() {
			if err := w.Write(t.Context(), Part{i % 2, item, 1}); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	items, entries := 0, 0
	for _, l := range logs {
		batches, err := l.Read(t.Context(), sluice.Position{}, 1000, 0)
		if err != nil {
			t.Fatal(err)
		}
		entries += len(batches)
		for _, b := range batches {
			items += countItems(t, b.Data)
		}
	}
	if items != 500 || entries >= 250 {
		t.Fatalf("%d items in %d batches; want 500 in few", items, entries)
	}
}

func TestWriterIsToldWhenRedisIsFull(t *testing.T) {
	r := dial(t)
	w := NewWriter([]*Log{NewLog(r, Partitions(1)[0])}, "api:1", testBacklogBytes)
	item := sluice.AppendEvent(nil, &sluice.Event{Name: "a"})
	do(t, r, "CONFIG", "SET", "maxmemory", "1")
	if err := w.Write(t.Context(), Part{0, item, 1}); !errors.Is(err, sluice.ErrFull) {
		t.Fatalf("write to a full redis: %v, want ErrFull", err)
	}
	do(t, r, "CONFIG", "SET", "maxmemory", "0")
	if err := w.Write(t.Context(), Part{0, item, 1}); err != nil {
		t.Fatalf("write afterwards: %v", err)
	}
}

func countItems(t *testing.T, batch []byte) int {
	t.Helper()
	r, err := sluice.ReadBatch(batch)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for r.Next() {
		n++
	}
	if r.Err() != nil {
		t.Fatal(r.Err())
	}
	return n
}
