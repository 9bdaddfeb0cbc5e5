package flow

import (
	"testing"

	"sluice"
)

// Held elements are counted until they are dropped, across chunks, and none
// waits.
func TestRemaining(t *testing.T) {
	r := dial(t)
	l, lease := newList(t, r, Left)
	want := func(remaining, waiting int64) {
		t.Helper()
		held, err := l.Remaining(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if inList, err := l.Waiting(t.Context()); err != nil || held != remaining || inList != waiting {
			t.Fatalf("%d are held and %d wait, %v; want %d and %d", held, inList, err, remaining, waiting)
		}
	}
	want(0, 0)
	reader, err := l.Open(t.Context(), lease, sluice.Position{})
	if err != nil {
		t.Fatal(err)
	}
	next := func() Page {
		page, err := reader.Next(t.Context(), false)
		if err != nil {
			t.Fatal(err)
		}
		return page
	}
	do(t, r, "RPUSH", "pepi_queue", "1", "2", "3", "4", "5")
	want(0, 5)
	page := next()
	do(t, r, "RPUSH", "pepi_queue", "6", "7")
	want(5, 2)
	next()
	want(7, 0)
	reader.Committed(sluice.Position{Major: page.From.Major, Minor: 3})
	next()
	want(4, 0)
	reader.Committed(page.To)
	next()
	want(2, 0)
	reader.Committed(sluice.Position{Major: page.From.Major + 1, Minor: 2})
	next()
	want(0, 0)
}
