package flow

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"sluice"
)

// readOn reads what a list has from a cursor on.
func readOn(t *testing.T, l *List, lease *Lease, cursor sluice.Position) []string {
	t.Helper()
	r, err := l.Open(t.Context(), lease, cursor)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for {
		p, err := r.Next(t.Context(), false)
		if err != nil {
			t.Fatal(err)
		}
		if len(p.Elements) == 0 {
			return all
		}
		all = append(all, p.Elements...)
	}
}

// The held elements are copied while their follower drops them. They are
// restored so that any cursor of the time of the copy, or later, goes on
// rightly.
func TestCopyOfWhatIsHeld(t *testing.T) {
	for _, side := range []Side{Left, Right} {
		t.Run(string(side), func(t *testing.T) {
			r := dial(t)
			l, lease := newList(t, r, side)
			var all []string
			push := "RPUSH"
			if side == Right {
				push = "LPUSH"
			}
			reader, err := l.Open(t.Context(), lease, sluice.Position{})
			if err != nil {
				t.Fatal(err)
			}
			for chunk := range 3 {
				for i := range 3000 {
					e := fmt.Sprintf("%d-%d", chunk, i)
					all = append(all, e)
					do(t, r, push, l.Name(), e)
				}
				if held, err := reader.hold(t.Context()); err != nil || !held {
					t.Fatalf("held %v, %v", held, err)
				}
			}
			if err := reader.enter(t.Context()); err != nil {
				t.Fatal(err)
			}
			for range 3 { // its follower is some pages ahead
				if _, err := reader.Next(t.Context(), false); err != nil {
					t.Fatal(err)
				}
			}
			var pages []HeldPage
			state, err := l.CopyHeld(t.Context(), func(p HeldPage) error {
				pages = append(pages, p)
				if len(pages) == 1 { // in the middle of the copy the first elements are dropped
					reader.Committed(sluice.Position{Major: 1, Minor: 2500})
					return reader.Close(t.Context())
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			cursor := sluice.Position{Major: 1, Minor: 2500}
			do(t, r, "FLUSHALL")
			do(t, r, "HSET", lease.key, "token", lease.token)
			back, err := l.PutBackHeld(t.Context())
			if err != nil || back == nil {
				t.Fatalf("%v, %v", back, err)
			}
			for range 2 { // the first time it was broken off
				for _, p := range pages {
					if err := back.Write(t.Context(), p); err != nil {
						t.Fatal(err)
					}
				}
			}
			if err := back.Finish(t.Context(), state, cursor); err != nil {
				t.Fatal(err)
			}
			if again, err := l.PutBackHeld(t.Context()); err != nil || again != nil {
				t.Fatalf("a list with a state would be put back: %v, %v", again, err)
			}
			if got := readOn(t, l, lease, cursor); !slices.Equal(got, all[2500:]) {
				t.Fatalf("%d elements came back, want %d: %.100q", len(got), len(all)-2500, got)
			}
		})
	}
}

// Small elements are copied in large pages: to find the place of one costs a walk from
// an end of the chunk. A chunk with a large one among them is copied as well.
func TestCopyOfSmallAndLargeElements(t *testing.T) {
	for _, side := range []Side{Left, Right} {
		t.Run(string(side), func(t *testing.T) {
			r := dial(t)
			l, lease := newList(t, r, side)
			reader, err := l.Open(t.Context(), lease, sluice.Position{})
			if err != nil {
				t.Fatal(err)
			}
			var all []string
			hold := func(elements []string) {
				t.Helper()
				push := r.B().Rpush().Key(l.Name()).Element(elements...).Build()
				if side == Right {
					push = r.B().Lpush().Key(l.Name()).Element(elements...).Build()
				}
				if err := r.Do(t.Context(), "push", push); err != nil {
					t.Fatal(err)
				}
				if held, err := reader.hold(t.Context()); err != nil || !held {
					t.Fatalf("held %v, %v", held, err)
				}
				all = append(all, elements...)
			}
			copied := func() (elements []string) {
				t.Helper()
				if _, err := l.CopyHeld(t.Context(), func(p HeldPage) error {
					elements = append(elements, p.Elements...)
					return nil
				}); err != nil {
					t.Fatal(err)
				}
				return elements
			}
			small := make([]string, 10_000)
			for i := range small {
				small[i] = fmt.Sprint("element ", i)
			}
			hold(small)
			do(t, r, "CONFIG", "RESETSTAT")
			if got := copied(); !slices.Equal(got, all) {
				t.Errorf("%d elements were copied, want %d", len(got), len(all))
			}
			stats, err := r.Info(t.Context(), "commandstats")
			var calls int
			if err == nil {
				_, err = fmt.Sscanf(stats["cmdstat_lrange"], "calls=%d,", &calls)
			}
			if err != nil || calls > 20 {
				t.Errorf("%d elements were read by %d LRANGE, %v", len(all), calls, err)
			}
			uneven := slices.Clone(small)
			uneven[5_000] = strings.Repeat("x", 20<<20)
			hold(uneven)
			if got := copied(); !slices.Equal(got, all) {
				t.Errorf("%d elements were copied with a large one, want %d", len(got), len(all))
			}
		})
	}
}

// All held elements are dropped after a part of them was copied. The restored
// list holds nothing, and its follower finds no gap.
func TestCopyOfWhatIsAllDropped(t *testing.T) {
	r := dial(t)
	l, lease := newList(t, r, Left)
	reader, err := l.Open(t.Context(), lease, sluice.Position{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range []string{"a", "b"} {
		do(t, r, "RPUSH", l.Name(), e)
		if held, err := reader.hold(t.Context()); err != nil || !held {
			t.Fatalf("held %v, %v", held, err)
		}
	}
	if err := reader.enter(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := reader.Next(t.Context(), false); err != nil {
			t.Fatal(err)
		}
	}
	cursor := sluice.Position{Major: 2, Minor: 1}
	var pages []HeldPage
	state, err := l.CopyHeld(t.Context(), func(p HeldPage) error {
		if pages = append(pages, p); len(pages) == 1 {
			reader.Committed(cursor)
			return reader.Close(t.Context())
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	do(t, r, "FLUSHALL")
	do(t, r, "HSET", lease.key, "token", lease.token)
	back, err := l.PutBackHeld(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pages {
		if err := back.Write(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	if err := back.Finish(t.Context(), state, sluice.Position{}); err != nil {
		t.Fatal(err)
	}
	oldest, err := l.OpenOldest(t.Context(), lease, cursor)
	if err != nil {
		t.Fatal(err)
	}
	do(t, r, "RPUSH", l.Name(), "c")
	page, err := oldest.Next(t.Context(), true)
	if err != nil || fmt.Sprint(page.Elements) != "[c]" {
		t.Fatalf("read on: %v, %v", page, err)
	}
}
