package sqlstore_test

import (
	"maps"
	"testing"
	"time"

	"sluice"
	"sluice/store"
	"sluice/store/sqlstore"
	"sluice/test/clocktest"
	"sluice/test/tables"
)

// Names that retention has removed make room for others, in a program that goes on running.
func TestRemovedNamesMakeRoom(t *testing.T) {
	const day = int64(24 * time.Hour / time.Millisecond)
	first := int64(1_700_000_000_000)
	c := clocktest.At(time.UnixMilli(first))
	s := tables.Open(t, sqlstore.Options{SeriesNames: 2, Clock: c})
	count := func(name string, millis int64) {
		t.Helper()
		must(t, apply(t.Context(), s, &store.Effect{Counts: []sluice.Count{{Kind: sluice.KindCustom, TimeMillis: millis, By: 1, App: "a", Name: name}}}))
	}
	late := first + 5*day
	count("old", first)
	count("stays", late)
	count("new", late)
	removed, err := s.DeleteSeries(t.Context(), true, first+2*day)
	if must(t, err); removed != 1 {
		t.Fatalf("%d rows were removed, want that of the old name", removed)
	}
	c.Move(time.Hour - time.Millisecond)
	count("new", late) // they are not read again for each transaction
	c.Move(time.Millisecond)
	count("new", late)
	count("more", late)

	got := make(map[string]int64)
	rows, err := s.Series(t.Context(), store.SeriesQuery{Days: true, ToMillis: late + day, ByName: true, Limit: 10})
	must(t, err)
	for _, r := range rows {
		got[r.Name] += r.Count
	}
	if want := map[string]int64{"stays": 1, "new": 1, store.OtherName: 3}; !maps.Equal(got, want) {
		t.Errorf("counted are %v, want %v", got, want)
	}
}
