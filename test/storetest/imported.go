package storetest

import (
	"testing"
	"time"

	"sluice"
	"sluice/store"
)

// testImported: the events of a batch of a log are found by it and go with their
// counts, and no others do. What is past its retention in the series stays.
func testImported(t *testing.T, f *fixture) {
	imports := f.store.(store.ImportStore)
	f.start(t)
	other := at(6, sluice.KindCustom, midnight(-2))
	position := sluice.Position{Major: eventPosition.Major, Minor: 500}
	f.apply(t, store.Effect{Events: []store.StoredEvent{at(5, sluice.KindCustom, midnight(-1))}}, 1, 0)
	batch := []store.StoredEvent{
		at(1, sluice.KindCustom, midnight(-40)), at(2, sluice.KindCustom, midnight(-2)), at(3, sluice.KindCustom, midnight(-2).Add(time.Second)),
		at(4, sluice.KindMail, midnight(-1).Add(time.Hour)), at(5, sluice.KindCustom, midnight(-1)),
	}
	for i := range batch { // the id of the last was there before it
		batch[i].Place.Position = position
	}
	f.apply(t, store.Effect{Events: append(batch, other)}, 5, 1)
	b := store.ImportedBatch{Partition: 2, Position: position, Items: 5, FromMillis: midnight(-40).UnixMilli(), ToMillis: midnight(-1).Add(time.Hour).UnixMilli()}
	n, err := imports.CountImported(f.ctx, b)
	must(t, err)
	want(t, "imported", n, 4)
	const hours = "SELECT SUM(count) FROM series_hours WHERE kind = 'custom' GROUP BY bucket ORDER BY bucket"
	for again, removed := range []int{4, 0} {
		n, err = imports.RemoveImported(f.ctx, b, midnight(-30).UnixMilli(), midnight(-50).UnixMilli())
		must(t, err)
		want(t, "removed", n, removed)
		f.wantRows(t, "SELECT event_id FROM events ORDER BY event_id", []string{"e5"}, []string{"e6"})
		f.wantRows(t, hours, []string{"1"}, []string{"1"}, []string{"1"})
		f.wantRows(t, "SELECT SUM(count) FROM series_days WHERE kind = 'custom'", []string{"2"})
		f.wantRows(t, "SELECT SUM(count) FROM series_days WHERE kind = 'mail'", []string{"0"})
		if t.Failed() {
			t.Fatalf("after removing it %d times", again+1)
		}
	}
}
