package flow

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"sluice"
)

func newList(t *testing.T, r *Redis, side Side) (*List, *Lease) {
	t.Helper()
	l, err := NewList(r, "pepi_queue", side)
	if err != nil {
		t.Fatal(err)
	}
	return l, leaseOn(t, r, l.keys.leaseKey())
}

// TestListIsReadInOrderOnceWhateverCrashes drives a list and its reader by
// random steps against a model: what is read and committed is what was pushed,
// in order. A crash forgets the reader and begins from the committed cursor.
func TestListIsReadInOrderOnceWhateverCrashes(t *testing.T) {
	for _, side := range []Side{Left, Right} {
		for range 20 {
			seed := rand.Uint64()
			t.Run(fmt.Sprintf("%s/seed=%d", side, seed), func(t *testing.T) { listModel(t, side, rand.New(rand.NewPCG(seed, 0))) })
		}
	}
}

func listModel(t *testing.T, side Side, random *rand.Rand) {
	r := dial(t)
	l, lease := newList(t, r, side)
	push := "RPUSH"
	if side == Right {
		push = "LPUSH"
	}
	pushed, want := 0, 0
	var cursor, read sluice.Position
	var ahead int // read, not committed
	reader, err := l.Open(t.Context(), lease, cursor)
	if err != nil {
		t.Fatal(err)
	}
	next := func() int {
		page, err := reader.Next(t.Context(), false)
		if err != nil {
			t.Fatal(err)
		}
		for i, e := range page.Elements {
			if n := e[:strings.IndexByte(e, ' ')]; n != strconv.Itoa(want+ahead+i) {
				t.Fatalf("read element %s, want %d", n, want+ahead+i)
			}
		}
		if len(page.Elements) > 0 {
			ahead, read = ahead+len(page.Elements), page.To
		}
		return len(page.Elements)
	}
	for range 60 {
		switch random.IntN(6) {
		case 0, 1:
			words := []string{push, "pepi_queue"}
			for range 1 + random.IntN(300) {
				words = append(words, strconv.Itoa(pushed)+" "+strings.Repeat("x", random.IntN(1+random.IntN(4000))))
				pushed++
			}
			do(t, r, words...)
		case 2, 3:
			next()
		case 4: // the effect is committed; Redis hears of it, or not
			cursor, want, ahead = read, want+ahead, 0
			if random.IntN(2) == 0 {
				reader.Committed(cursor)
			}
		case 5: // crash
			ahead, read = 0, cursor
			if random.IntN(3) == 0 {
				lease = leaseOn(t, r, l.keys.leaseKey())
			}
			if reader, err = l.Open(t.Context(), lease, cursor); err != nil {
				t.Fatal(err)
			}
		}
	}
	for next() > 0 {
	}
	if want+ahead != pushed {
		t.Fatalf("read %d elements, %d were pushed", want+ahead, pushed)
	}
	reader.Committed(read)
	if err := reader.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := do(t, r, "KEYS", "*held*"); left != "[]" {
		t.Fatalf("after all is committed %s remain", left)
	}
	if _, err := l.Open(t.Context(), lease, read); err != nil {
		t.Fatalf("open at the end: %v", err)
	}
}

// A held chunk that was deleted is no empty one.
func TestListMeetsALostChunk(t *testing.T) {
	r := dial(t)
	l, lease := newList(t, r, Left)
	reader, err := l.Open(t.Context(), lease, sluice.Position{})
	if err != nil {
		t.Fatal(err)
	}
	for chunk := range 3 {
		if err := r.Push(t.Context(), "pepi_queue", []string{strconv.Itoa(chunk)}); err != nil {
			t.Fatal(err)
		}
		if held, err := reader.hold(t.Context()); err != nil || !held {
			t.Fatalf("hold: %v, %v", held, err)
		}
	}
	do(t, r, "DEL", l.keys.heldKey(2))
	for range 2 { // also a reader that begins anew
		if reader, err = l.Open(t.Context(), lease, sluice.Position{}); err != nil {
			t.Fatal(err)
		}
		if page, err := reader.Next(t.Context(), false); err != nil || len(page.Elements) != 1 {
			t.Fatalf("read what comes before the gap: %v, %v", page, err)
		}
		for range 2 {
			_, err = reader.Next(t.Context(), false)
			var gap *GapError
			if !errors.As(err, &gap) || gap.Start != (sluice.Position{Major: 3}) {
				t.Fatalf("read a lost chunk: %v, want a gap up to chunk 3", err)
			}
		}
	}
	if reader, err = l.Open(t.Context(), lease, sluice.Position{Major: 3}); err != nil {
		t.Fatal(err)
	}
	if page, err := reader.Next(t.Context(), false); err != nil || len(page.Elements) != 1 || page.Elements[0] != "2" {
		t.Fatalf("read behind the gap: %v, %v", page, err)
	}
}

func TestListMeetsAGap(t *testing.T) {
	r := dial(t)
	l, lease := newList(t, r, Left)
	reader, err := l.Open(t.Context(), lease, sluice.Position{})
	if err != nil {
		t.Fatal(err)
	}
	var cursors []sluice.Position
	for range 3 {
		if err := r.Push(t.Context(), "pepi_queue", []string{"a", "b", "c"}); err != nil {
			t.Fatal(err)
		}
		page, err := reader.Next(t.Context(), true)
		if err != nil {
			t.Fatal(err)
		}
		cursors = append(cursors, page.To)
	}
	reader.Committed(cursors[1])
	if err := reader.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	// The database is last night's: its cursor is behind what was dropped.
	for _, cursor := range []sluice.Position{{}, {Major: 1, Minor: 2}, cursors[0]} {
		if _, err := l.Open(t.Context(), lease, cursor); !errors.Is(err, sluice.ErrGap) {
			t.Fatalf("open at %s: %v, want ErrGap", cursor, err)
		}
	}
	if _, err := l.Open(t.Context(), lease, cursors[1]); err != nil {
		t.Fatalf("open at the end of what was dropped: %v", err)
	}
}

func TestListChunkNumbersAreNeverReused(t *testing.T) {
	r := dial(t)
	l, lease := newList(t, r, Left)
	// Redis was emptied; the database has committed chunk 7.
	cursor := sluice.Position{Major: 7, Minor: 100}
	reader, err := l.Open(t.Context(), lease, cursor)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Push(t.Context(), "pepi_queue", []string{"a"}); err != nil {
		t.Fatal(err)
	}
	page, err := reader.Next(t.Context(), true)
	if err != nil || !cursor.Before(page.To) || len(page.Elements) != 1 {
		t.Fatalf("page %+v, %v; want it beyond %s", page, err, cursor)
	}
}

func TestListOfAnotherLeaseIsRefused(t *testing.T) {
	r := dial(t)
	l, old := newList(t, r, Left)
	if err := r.Push(t.Context(), "pepi_queue", []string{"a"}); err != nil {
		t.Fatal(err)
	}
	reader, err := l.Open(t.Context(), old, sluice.Position{})
	if err != nil {
		t.Fatal(err)
	}
	leaseOn(t, r, l.keys.leaseKey())
	if _, err := reader.Next(t.Context(), false); !errors.Is(err, sluice.ErrLeaseLost) {
		t.Fatalf("a zombie takes: %v, want ErrLeaseLost", err)
	}
	if n := do(t, r, "LLEN", "pepi_queue"); n != "1" {
		t.Fatalf("the list has %s elements, want 1", n)
	}
}

func TestListPagesAreBoundedInBytes(t *testing.T) {
	r := dial(t)
	l, lease := newList(t, r, Left)
	big := strings.Repeat("x", 300<<10)
	for range 40 {
		if err := r.Push(t.Context(), "pepi_queue", []string{big}); err != nil {
			t.Fatal(err)
		}
	}
	reader, err := l.Open(t.Context(), lease, sluice.Position{})
	if err != nil {
		t.Fatal(err)
	}
	for n := 0; n < 40; {
		page, err := reader.Next(t.Context(), true)
		if err != nil || len(page.Elements) == 0 || len(page.Elements) > 2 {
			t.Fatalf("page of %d elements of 300 KB, %v; want 1 or 2", len(page.Elements), err)
		}
		n += len(page.Elements)
	}
}

// A few large elements far behind many small ones do not come as one page.
func TestListPagesAreBoundedWhenFewElementsAreLarge(t *testing.T) {
	r := dial(t)
	l, lease := newList(t, r, Left)
	for range 50 {
		words := []string{"RPUSH", "pepi_queue"}
		for range 1000 {
			words = append(words, strings.Repeat("x", 180))
		}
		do(t, r, words...)
	}
	for range 8 {
		do(t, r, "RPUSH", "pepi_queue", strings.Repeat("x", 2<<20))
	}
	reader, err := l.Open(t.Context(), lease, sluice.Position{})
	if err != nil {
		t.Fatal(err)
	}
	for n := 0; n < 50008; {
		page, err := reader.Next(t.Context(), true)
		if err != nil {
			t.Fatal(err)
		}
		bytes := 0
		for _, e := range page.Elements {
			bytes += len(e)
		}
		if bytes > 3<<20 {
			t.Fatalf("a page of %d elements has %d bytes", len(page.Elements), bytes)
		}
		n += len(page.Elements)
	}
}

func TestAgainPushesOnce(t *testing.T) {
	r := dial(t)
	l, _ := newList(t, r, Left)
	do(t, r, "SET", "pepi_queue", "no list")
	if err := l.Again(t.Context(), "7", []byte("lost?")); err == nil {
		t.Fatal("pushed to a key that is no list")
	}
	do(t, r, "DEL", "pepi_queue")
	for range 2 {
		if err := l.Again(t.Context(), "7", []byte("\x00binary")); err != nil {
			t.Fatal(err)
		}
	}
	if n := do(t, r, "LLEN", "pepi_queue"); n != "1" {
		t.Fatalf("pushed %s times", n)
	}
}

func TestListNoticesThatRedisHasGoneBack(t *testing.T) {
	r := dial(t)
	l, lease := newList(t, r, Left)
	reader, err := l.Open(t.Context(), lease, sluice.Position{})
	if err != nil {
		t.Fatal(err)
	}
	var cursor sluice.Position
	for range 3 {
		if err := r.Push(t.Context(), "pepi_queue", []string{"a"}); err != nil {
			t.Fatal(err)
		}
		page, err := reader.Next(t.Context(), true)
		if err != nil {
			t.Fatal(err)
		}
		cursor = page.To
	}
	// A replica takes over that never heard of chunks 2 and 3.
	do(t, r, "HSET", l.keys.stateKey(), "last", "1")
	do(t, r, "DEL", l.keys.heldKey(2), l.keys.heldKey(3))
	if err := r.Push(t.Context(), "pepi_queue", []string{"new"}); err != nil {
		t.Fatal(err)
	}
	if _, err := reader.Next(t.Context(), false); !errors.Is(err, sluice.ErrConflict) {
		t.Fatalf("go on reading: %v, want ErrConflict", err)
	}
	if reader, err = l.Open(t.Context(), lease, cursor); err != nil {
		t.Fatal(err)
	}
	page, err := reader.Next(t.Context(), true)
	if err != nil || len(page.Elements) != 1 || page.Elements[0] != "new" || !cursor.Before(page.To) {
		t.Fatalf("page %+v, %v; want the new element beyond %s", page, err, cursor)
	}
}

// A producer's EXPIRE is for its list, not for what was held of it.
func TestHeldChunksDoNotExpire(t *testing.T) {
	r := dial(t)
	l, lease := newList(t, r, Left)
	if err := r.Push(t.Context(), "pepi_queue", []string{"a"}); err != nil {
		t.Fatal(err)
	}
	do(t, r, "EXPIRE", "pepi_queue", "1000")
	reader, err := l.Open(t.Context(), lease, sluice.Position{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := reader.Next(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	if ttl := do(t, r, "TTL", l.keys.heldKey(1)); ttl != "-1" {
		t.Fatalf("the chunk lives for %s s", ttl)
	}
}

// Redis has gone back to before a drop, with everything else as it was: the
// reader's offsets would point at other elements.
func TestListNoticesThatADropWasTakenBack(t *testing.T) {
	for _, size := range []int{1, 5000} { // read by LRANGE, and by page.lua
		r := dial(t)
		l, lease := newList(t, r, Left)
		var elements []string
		for i := range 1000 {
			elements = append(elements, strconv.Itoa(i)+strings.Repeat(" ", size))
		}
		if err := r.Push(t.Context(), "pepi_queue", elements); err != nil {
			t.Fatal(err)
		}
		reader, err := l.Open(t.Context(), lease, sluice.Position{})
		if err != nil {
			t.Fatal(err)
		}
		page, err := reader.Next(t.Context(), true)
		if err != nil {
			t.Fatal(err)
		}
		reader.Committed(page.To)
		if _, err := reader.Next(t.Context(), true); err != nil {
			t.Fatal(err)
		}
		do(t, r, append([]string{"LPUSH", l.keys.heldKey(1)}, page.Elements...)...)
		do(t, r, "HSET", l.keys.stateKey(), "base", "0")
		if _, err := reader.Next(t.Context(), true); !errors.Is(err, sluice.ErrConflict) {
			t.Fatalf("go on reading: %v, want ErrConflict", err)
		}
	}
}

// The database knows a large chunk number and Redis none: opening must not
// count up to it.
func TestListOfAnEmptiedRedisOpensAtOnce(t *testing.T) {
	r := dial(t)
	l, lease := newList(t, r, Left)
	cursor := sluice.Position{Major: 1 << 50, Minor: 7}
	for range 2 {
		reader, err := l.Open(t.Context(), lease, cursor)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Push(t.Context(), "pepi_queue", []string{"a"}); err != nil {
			t.Fatal(err)
		}
		page, err := reader.Next(t.Context(), true)
		if err != nil || len(page.Elements) != 1 || !cursor.Before(page.To) {
			t.Fatalf("page %+v, %v", page, err)
		}
		cursor = page.To
		reader.Committed(cursor)
		if err := reader.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// Redis has gone back to chunk 1, the database has committed chunk 5.
func TestListStepsOverChunksThatNeverWere(t *testing.T) {
	r := dial(t)
	l, lease := newList(t, r, Left)
	reader, err := l.Open(t.Context(), lease, sluice.Position{})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Push(t.Context(), "pepi_queue", []string{"old"}); err != nil {
		t.Fatal(err)
	}
	if _, err := reader.Next(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	cursor := sluice.Position{Major: 5, Minor: 9}
	for range 3 {
		if reader, err = l.Open(t.Context(), lease, cursor); err != nil {
			t.Fatal(err)
		}
		if page, err := reader.Next(t.Context(), false); err != nil || len(page.Elements) != 0 {
			t.Fatalf("page %+v, %v; want nothing, it is all committed", page, err)
		}
	}
	if err := r.Push(t.Context(), "pepi_queue", []string{"new"}); err != nil {
		t.Fatal(err)
	}
	page, err := reader.Next(t.Context(), true)
	if err != nil || len(page.Elements) != 1 || page.Elements[0] != "new" || page.To != (sluice.Position{Major: 6, Minor: 1}) {
		t.Fatalf("page %+v, %v", page, err)
	}
}
