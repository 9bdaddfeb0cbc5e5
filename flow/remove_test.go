package flow

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"sluice"
	"sluice/mail"
)

// TestWhatHasEndedLeaves: a send taken out of a batch in a lane, or of one that
// waits for a time, waits no more, once. The others do. A marked send stays
// with a note, and the process of the mark reports its outcome. Notes have no
// part in it otherwise.
func TestWhatHasEndedLeaves(t *testing.T) {
	r, l, lease, log := lanesOf(t)
	var cursor sluice.Position
	queue(t, log, lease, &cursor, "low", 0, "a", "b", "c", "d")
	queue(t, log, lease, &cursor, "low", 7, "e", "f", "g")
	b := &readAll(t, l, "low")[0]
	if got := mark(t, l, lease, "one", b, 3); got != "m" {
		t.Fatalf("mark: %q", got)
	}
	placed := func(b *LaneBatch, indexes ...int) (all []Placed) {
		for _, i := range indexes {
			all = append(all, Placed{Index: i, ID: fmt.Sprintf("%s/%d", b.Entry, i)})
		}
		return all
	}
	remove := func(b *LaneBatch, want int64, indexes ...int) {
		t.Helper()
		if n, err := l.Remove(t.Context(), lease, b, placed(b, indexes...), 5); err != nil || n != want {
			t.Fatalf("remove %v of %s: %d, %v; want %d", indexes, b.Entry, n, err, want)
		}
	}
	key := log.partition.cancelsKey()
	do(t, r, "HSET", key, fmt.Sprintf("%s/0", b.Entry), "c5") // it was cancelled as well
	remove(b, 3, 0, 2, 3)
	remove(b, 1, 0, 2, 3) // the note, again
	if got := mark(t, l, lease, "two", b, 0, 1, 2, 3); got != "-m--" {
		t.Errorf("mark what is left: %q", got)
	}
	if got := do(t, r, "HKEYS", key); got != fmt.Sprintf("[%s/3]", b.Entry) {
		t.Errorf("noted are %v", got)
	}
	walked := func() (later []LaneBatch) {
		t.Helper()
		if err := l.Walk(t.Context(), func(b *LaneBatch, waits bool) error {
			if waits {
				later = append(later, *b)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return later
	}
	later := walked()
	if len(later) != 1 || later[0].Second != 7 {
		t.Fatalf("for a time wait %+v", later)
	}
	remove(&later[0], 1, 1)
	remove(&later[0], 0, 1) // its entry is another one by now
	if got := messagesOf(t, walked()); !slices.Equal(got, []string{"e", "g"}) {
		t.Errorf("for a time wait %v", got)
	}
	if got := waiting(t, l); got["low"] != 2 || got[LaterName] != 2 {
		t.Errorf("waiting: %v", got)
	}
	if n, err := l.RemoveLater(t.Context(), 7, map[string]bool{"h.0": true}, 5, func(int) error { return nil }); err != nil || n != 0 {
		t.Fatalf("take out what is not there: %d, %v", n, err)
	}
	again := walked()
	remove(&again[0], 2, 0, 1)
	if more, err := l.Due(t.Context(), lease, 7); err != nil || more {
		t.Errorf("due: %v, %v", more, err)
	}
	if got := do(t, r, "ZCARD", log.partition.dueKey()); got != "0" {
		t.Errorf("%v seconds are left", got)
	}
	for i, evidence := range map[int]string{1: "two", 3: "one"} {
		if n, _, err := l.Record(t.Context(), nil, []Recorded{recorded(b, i, evidence)}); err != nil || n != 1 {
			t.Fatalf("record: %d, %v", n, err)
		}
	}
	if left := readAll(t, l, "low"); len(left) != 0 || len(waiting(t, l)) != 0 {
		t.Errorf("left are %v, %v", messagesOf(t, left), waiting(t, l))
	}
	remove(b, 0, 0)
	leaseOn(t, r, lease.key) // another takes it
	if _, err := l.Remove(t.Context(), lease, b, placed(b, 1), 5); !errors.Is(err, sluice.ErrLeaseLost) {
		t.Errorf("with a lost lease: %v", err)
	}
}

// A send taken out of a lane, or out of a batch that waits for a time, leaves
// the account that counted it. A marked one stays in it until its process has
// recorded it.
func TestWhatHasEndedLeavesItsAccount(t *testing.T) {
	r, l, lease, log := lanesOf(t)
	var cursor sluice.Position
	queue(t, log, lease, &cursor, "low", 0, "a", "b", "c")
	queue(t, log, lease, &cursor, "low", 7, "e", "f")
	today := fmt.Sprint("key|", time.Now().UnixMilli()/(24*60*60*1000))
	for _, o := range l.Owe(map[string]mail.Load{today: {Sends: 5, Bytes: 500}}) {
		do(t, r, o.Words...)
	}
	owed := func(want mail.Load) {
		t.Helper()
		got, err := (&Owing{Lanes: []*Lanes{l}}).Read(t.Context(), time.Now().UnixMilli())
		if err != nil || got["key"] != want {
			t.Errorf("owed are %+v, %v; want %+v", got, err, want)
		}
	}
	owed(mail.Load{Sends: 5, Bytes: 500})
	b := &readAll(t, l, "low")[0]
	mark(t, l, lease, "one", b, 2)
	counted := func(b *LaneBatch, i int) Placed {
		return Placed{Index: i, ID: fmt.Sprintf("%s/%d", b.Entry, i), Account: today, Weight: 100}
	}
	remove := func(b *LaneBatch, indexes ...int) {
		t.Helper()
		var sends []Placed
		for _, i := range indexes {
			sends = append(sends, counted(b, i))
		}
		if _, err := l.Remove(t.Context(), lease, b, sends, 5); err != nil {
			t.Fatal(err)
		}
	}
	remove(b, 0, 2) // the one that is marked is noted
	owed(mail.Load{Sends: 4, Bytes: 400})
	remove(b, 0, 2) // again
	owed(mail.Load{Sends: 4, Bytes: 400})
	var later []LaneBatch
	if err := l.Walk(t.Context(), func(b *LaneBatch, waits bool) error {
		if waits {
			later = append(later, *b)
		}
		return nil
	}); err != nil || len(later) != 1 {
		t.Fatalf("for a time wait %+v, %v", later, err)
	}
	remove(&later[0], 1)
	owed(mail.Load{Sends: 3, Bytes: 300})
	remove(&later[0], 1) // its entry is another one by now
	owed(mail.Load{Sends: 3, Bytes: 300})
	over := recorded(b, 2, "one")
	over.Account, over.Weight = today, 100
	if n, _, err := l.Record(t.Context(), nil, []Recorded{over}); err != nil || n != 1 {
		t.Fatalf("record: %d, %v", n, err)
	}
	owed(mail.Load{Sends: 2, Bytes: 200})
	do(t, r, "DEL", log.partition.owedKey()) // as if its week were over
	remove(b, 1)
	owed(mail.Load{})
}
