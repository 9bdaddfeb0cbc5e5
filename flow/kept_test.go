package flow

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"sluice"
)

// TestWhatIsKeptIsReadAgain drives a list whose follower keeps applied
// elements, by random steps. The cursor goes back by as much as is kept, to the
// middle of chunks too; Redis is told late; the reader crashes. A read from a
// cursor returns what was pushed after it, in order. Elements that are not
// applied are counted, and nothing else.
func TestWhatIsKeptIsReadAgain(t *testing.T) {
	for _, side := range []Side{Left, Right} {
		for range 15 {
			seed := rand.Uint64()
			t.Run(fmt.Sprintf("%s/seed=%d", side, seed), func(t *testing.T) { keptModel(t, side, rand.New(rand.NewPCG(seed, 0))) })
		}
	}
}

// passed is a cursor, and how many elements lie before it.
type passed struct {
	at sluice.Position
	n  int
}

func keptModel(t *testing.T, side Side, random *rand.Rand) {
	r := dial(t)
	l, lease := newList(t, r, side)
	push := map[Side]string{Left: "RPUSH", Right: "LPUSH"}[side]
	cursors := []passed{{}} // the oldest that is kept, and all after it
	read, pushed := passed{}, 0
	var reader *ListReader
	cursor := func() passed { return cursors[len(cursors)-1] }
	open := func() {
		t.Helper()
		var err error
		if reader, err = l.OpenKeeping(t.Context(), lease, cursor().at); err != nil {
			t.Fatalf("open at %v, kept from %v: %v", cursor(), cursors[0], err)
		}
		read = cursor()
		if n, err := l.Remaining(t.Context()); err != nil || int(n) > pushed-read.n {
			t.Fatalf("%d remain, %v; %d are not applied", n, err, pushed-read.n)
		}
	}
	next := func() int {
		t.Helper()
		page, err := reader.Next(t.Context(), false)
		if err != nil {
			t.Fatal(err)
		}
		for i, e := range page.Elements {
			if n := e[:strings.IndexByte(e, ' ')]; n != strconv.Itoa(read.n+i) {
				t.Fatalf("read element %s, want %d", n, read.n+i)
			}
		}
		if len(page.Elements) > 0 {
			read = passed{page.To, read.n + len(page.Elements)}
		}
		return len(page.Elements)
	}
	open()
	for range 80 {
		switch random.IntN(8) {
		case 0, 1:
			words := []string{push, l.Name()}
			for range 1 + random.IntN(300) {
				words = append(words, strconv.Itoa(pushed)+" "+strings.Repeat("x", random.IntN(1+random.IntN(4000))))
				pushed++
			}
			do(t, r, words...)
		case 2, 3:
			next()
		case 4, 5:
			if read.n > cursor().n {
				cursors = append(cursors, read)
			}
			if random.IntN(3) > 0 {
				reader.Committed(cursor().at)
			}
		case 6:
			cursors = cursors[random.IntN(len(cursors)):]
			reader.KeepFrom(cursors[0].at, NeverCut)
			reader.Committed(cursor().at)
		case 7: // the process ends, or the database goes back
			if random.IntN(2) == 0 {
				cursors = cursors[:1+random.IntN(len(cursors))]
			}
			open()
		}
	}
	for next() > 0 {
	}
	if read.n != pushed {
		t.Fatalf("read %d elements, %d were pushed", read.n, pushed)
	}
	reader.Committed(read.at)
	if err := reader.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n, err := l.Remaining(t.Context()); err != nil || n != 0 {
		t.Fatalf("%d remain, %v; all is applied", n, err)
	}
	cursors = append(cursors[:1], read)
	open()
	kept, whole, err := reader.Kept(t.Context(), 1<<40)
	if err != nil || !whole {
		t.Fatal(whole, err)
	}
	n := 0
	for _, s := range kept {
		n += s.Entries
	}
	if n < read.n-cursors[0].n { // what Redis was not told of in time is still there
		t.Fatalf("%d elements are kept, want %d", n, read.n-cursors[0].n)
	}
	cursors = cursors[:1]
	open()
	for next() > 0 {
	}
	if read.n != pushed {
		t.Fatalf("read again up to %d, %d were pushed", read.n, pushed)
	}
}

// Kept chunks are no back pressure: more of them than may wait are kept, and
// the list is held all the same. They are measured newest first, as far as
// there is room.
func TestKeptChunksAreNoBackPressure(t *testing.T) {
	r := dial(t)
	l, lease := newList(t, r, Left)
	reader, err := l.OpenKeeping(t.Context(), lease, sluice.Position{})
	if err != nil {
		t.Fatal(err)
	}
	var at sluice.Position
	const chunks = maxHeldChunks + 20
	for i := range chunks {
		do(t, r, "RPUSH", l.Name(), strconv.Itoa(i), "-")
		page, err := reader.Next(t.Context(), false)
		if err != nil || len(page.Elements) != 2 || page.Elements[0] != strconv.Itoa(i) {
			t.Fatalf("chunk %d: %v, %v", i, page, err)
		}
		at = page.To
		reader.Committed(at)
	}
	if err := reader.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if held, err := l.Remaining(t.Context()); err != nil || held != 0 {
		t.Fatalf("%d are held, %v; want none", held, err)
	}
	all, whole, err := reader.Kept(t.Context(), 1<<30)
	if err != nil || !whole || len(all) != chunks || all[0].Last != (sluice.Position{Major: chunks, Minor: 1}) {
		t.Fatalf("%d kept, whole %v, %v", len(all), whole, err)
	}
	some, whole, err := reader.Kept(t.Context(), all[0].Bytes*5)
	if err != nil || whole || len(some) < 5 || len(some) > 20 {
		t.Fatalf("%d kept of a room for five, whole %v, %v", len(some), whole, err)
	}
	reader.KeepFrom(sluice.Position{Major: 200, Minor: 1}, NeverCut) // in more than one call
	if err := reader.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if keys := do(t, r, "KEYS", "*:held:*"); strings.Count(keys, "held") != chunks-199 {
		t.Fatalf("%d chunks are left, want %d", strings.Count(keys, "held"), chunks-199)
	}
	if n := do(t, r, "LLEN", l.keys.heldKey(200)); n != "1" {
		t.Fatalf("chunk 200 has %s elements, want one", n)
	}
	// One large chunk is measured in pieces.
	for range 100 {
		do(t, r, append([]string{"RPUSH", l.Name()}, slices.Repeat([]string{strings.Repeat("x", 1000)}, 10)...)...)
	}
	for n := 0; n < 700; {
		page, err := reader.Next(t.Context(), false)
		if err != nil {
			t.Fatal(err)
		}
		n, at = n+len(page.Elements), page.To
	}
	reader.Committed(at)
	if err := reader.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	some, whole, err = reader.Kept(t.Context(), 400_000)
	if err != nil || whole || len(some) < keptPieces || some[0].Last != (sluice.Position{Major: at.Major, Minor: at.Minor - 1}) {
		t.Fatalf("%+v, whole %v, %v; want pieces of 50 KB", some, whole, err)
	}
}

// TestKeptChunksBesideAnOlderProcess: an older process knows what is there, and
// not what of it is applied. It goes on at the cursor and keeps nothing, and
// what it leaves is read rightly. State without a note of what is applied is
// read too.
func TestKeptChunksBesideAnOlderProcess(t *testing.T) {
	r := dial(t)
	l, lease := newList(t, r, Left)
	reader, err := l.OpenKeeping(t.Context(), lease, sluice.Position{})
	if err != nil {
		t.Fatal(err)
	}
	var at sluice.Position
	for range 3 {
		do(t, r, "RPUSH", l.Name(), "a", "b")
		page, err := reader.Next(t.Context(), false)
		if err != nil {
			t.Fatal(err)
		}
		at = page.To
		reader.Committed(at)
	}
	do(t, r, "RPUSH", l.Name(), "c", "d")
	if _, err := reader.Next(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	remain := func(want int64) {
		t.Helper()
		if n, err := l.Remaining(t.Context()); err != nil || n != want {
			t.Fatalf("%d remain, %v; want %d", n, err, want)
		}
	}
	remain(2)
	// The older one has dropped all before its cursor, and some more.
	do(t, r, "UNLINK", l.keys.heldKey(1), l.keys.heldKey(2), l.keys.heldKey(3))
	do(t, r, "LTRIM", l.keys.heldKey(4), "1", "-1")
	do(t, r, "HSET", l.keys.stateKey(), "first", "4", "base", "1", "ended", "3-2")
	remain(1)
	if got := readOn(t, l, lease, sluice.Position{Major: 4, Minor: 1}); !slices.Equal(got, []string{"d"}) {
		t.Fatalf("read %v", got)
	}
	do(t, r, "HDEL", l.keys.stateKey(), "done")
	remain(1)
	if reader, err = l.OpenKeeping(t.Context(), lease, sluice.Position{Major: 4, Minor: 1}); err != nil {
		t.Fatal(err)
	}
	if page, err := reader.Next(t.Context(), false); err != nil || !slices.Equal(page.Elements, []string{"d"}) {
		t.Fatalf("read %v, %v", page, err)
	}
}

// TestKeptChunksAreNotCopiedAndNotRouted: a backup has the elements that are
// not applied. A list that goes to the logs from now on begins there.
func TestKeptChunksAreNotCopiedAndNotRouted(t *testing.T) {
	r := dial(t)
	l, lease := newList(t, r, Left)
	reader, err := l.OpenKeeping(t.Context(), lease, sluice.Position{})
	if err != nil {
		t.Fatal(err)
	}
	do(t, r, "RPUSH", l.Name(), "a", "b", "c")
	if _, err := reader.Next(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	reader.Committed(sluice.Position{Major: 1, Minor: 2})
	if err := reader.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	var copied []HeldPage
	if _, err := l.CopyHeld(t.Context(), func(p HeldPage) error { copied = append(copied, p); return nil }); err != nil {
		t.Fatal(err)
	}
	if len(copied) != 1 || copied[0].Offset != 2 || !slices.Equal(copied[0].Elements, []string{"c"}) {
		t.Errorf("copied %+v", copied)
	}
	oldest, err := l.OpenOldest(t.Context(), lease, sluice.Position{})
	if err != nil {
		t.Fatal(err)
	}
	if page, err := oldest.Next(t.Context(), false); err != nil || !slices.Equal(page.Elements, []string{"c"}) {
		t.Fatalf("read %v, %v", page, err)
	}
	if n := do(t, r, "LLEN", l.keys.heldKey(1)); n != "1" {
		t.Errorf("%s elements are left, want 1", n)
	}
}
