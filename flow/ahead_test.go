package flow

import (
	"context"
	"errors"
	"strconv"
	"testing"

	"sluice"
)

// Pages that are read ahead are the list's, in order, each once, while what
// was read before is committed and more is pushed.
func TestReadAhead(t *testing.T) {
	r := dial(t)
	l, lease := newList(t, r, Left)
	reader, err := l.Open(t.Context(), lease, sluice.Position{})
	if err != nil {
		t.Fatal(err)
	}
	ahead := ReadAhead(t.Context(), reader)
	defer ahead.Stop()
	if page, err := ahead.Next(t.Context(), false); err != nil || len(page.Elements) > 0 {
		t.Fatalf("the list is empty: %v, %v", page, err)
	}
	const rounds, each = 20, 700
	want := 0
	for round := range rounds {
		words := []string{"RPUSH", "pepi_queue"}
		for i := range each {
			words = append(words, strconv.Itoa(round*each+i))
		}
		do(t, r, words...)
		for round%3 == 2 && want < (round+1)*each {
			page, err := ahead.Next(t.Context(), true)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range page.Elements {
				if e != strconv.Itoa(want) {
					t.Fatalf("read element %s, want %d", e, want)
				}
				want++
			}
			reader.Committed(page.To)
		}
	}
	for want < rounds*each {
		page, err := ahead.Next(t.Context(), true)
		if err != nil {
			t.Fatal(err)
		}
		want += len(page.Elements)
		reader.Committed(page.To)
	}
	ahead.Stop()
	if _, err := ahead.Next(t.Context(), true); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end: %v", err)
	}
	if err := reader.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := do(t, r, "EXISTS", l.keys.heldKey(1), l.keys.heldKey(2)); left != "0" {
		t.Errorf("%s chunks are left of what was committed", left)
	}
}

// A gap is met each time.
func TestReadAheadMeetsGaps(t *testing.T) {
	r := dial(t)
	l, lease := newList(t, r, Left)
	do(t, r, "RPUSH", "pepi_queue", "a", "b")
	reader, err := l.Open(t.Context(), lease, sluice.Position{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := reader.hold(t.Context()); err != nil {
		t.Fatal(err)
	}
	do(t, r, "DEL", l.keys.heldKey(1))
	ahead := ReadAhead(t.Context(), reader)
	defer ahead.Stop()
	for range 2 {
		if page, err := ahead.Next(t.Context(), true); !errors.Is(err, sluice.ErrGap) {
			t.Fatalf("page %v, error %v; want a gap", page, err)
		}
	}
}
