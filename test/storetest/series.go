package storetest

import (
	"fmt"
	"math"
	"strconv"
	"sync"
	"testing"
	"time"

	"sluice"
	"sluice/store"
)

// counted is a count at a time of 2026-01-31, UTC, or a day later.
func counted(at time.Duration, app, name string, by int64) sluice.Count {
	day := time.Date(2026, 1, 31, 0, 0, 0, 0, time.UTC)
	return sluice.Count{Kind: sluice.KindCounter, TimeMillis: day.Add(at).UnixMilli(), By: by, App: app, Name: name}
}

// testCounts: counts are added up by hour and by day, in the transaction that
// moves the cursor, whatever way the rest of the effect goes.
func testCounts(t *testing.T, f *fixture) {
	f.start(t)
	f.apply(t, store.Effect{Counts: []sluice.Count{
		counted(time.Hour, "shop", "open", 5), counted(2*time.Hour-time.Millisecond, "shop", "open", 2),
		counted(2*time.Hour, "shop", "open", 3), counted(time.Hour, "", "open", 1), counted(24*time.Hour, "shop", "open", 4),
	}}, 0, 0)
	f.apply(t, store.Effect{Stripe: 3, Counts: []sluice.Count{counted(time.Hour, "shop", "open", 10)}}, 0, 0)
	f.apply(t, store.Effect{Counts: []sluice.Count{counted(time.Hour, "shop", "open", -4)}}, 0, 0)
	hours := "SELECT app_id, name, kind, stripe, count FROM series_hours ORDER BY app_id, bucket, stripe"
	rows := [][]string{
		{"", "open", "counter", "0", "1"}, {"shop", "open", "counter", "0", "3"}, {"shop", "open", "counter", "3", "10"},
		{"shop", "open", "counter", "0", "3"}, {"shop", "open", "counter", "0", "4"},
	}
	f.wantRows(t, hours, rows...)
	f.wantRows(t, "SELECT app_id, stripe, count FROM series_days ORDER BY app_id, bucket, stripe",
		[]string{"", "0", "1"}, []string{"shop", "0", "6"}, []string{"shop", "3", "10"}, []string{"shop", "0", "4"})

	stale := &store.Effect{Moves: []store.Move{{Follower: follower, To: sluice.Position{Major: 99}}}, Counts: []sluice.Count{counted(0, "shop", "stale", 1)}}
	_, err := f.store.Apply(f.ctx, f.prepare(t, stale))
	wantError(t, err, sluice.ErrConflict)
	f.wantRows(t, hours, rows...)

	// An effect of which something is refused counts once, row by row.
	table := f.table(t, "n SMALLINT NOT NULL CHECK (n < 10)", store.TableSpec{Table: "small", Columns: []string{"n"}})
	refused := effectOf(rowsOf(table, []store.Cell{num("1")}, []store.Cell{num("10")}))
	refused.Counts = []sluice.Count{counted(3*time.Hour, "shop", "refused", 7)}
	f.refuse(t, refused, 1, 0, 1)
	f.wantRows(t, "SELECT count FROM series_hours WHERE name = 'refused'", []string{"7"})
}

// testQuarters: of an hour in which days begin, the quarters of events and of counts
// are told apart, and are no others to who asks for hours; of what came by the
// hour none is known.
func testQuarters(t *testing.T, f *fixture) {
	f.start(t)
	day := time.Date(2026, 1, 31, 0, 0, 0, 0, time.UTC)
	quarter := func(at time.Duration, by int64) sluice.Count {
		c := counted(at, "shop", "open", by)
		c.TimeMillis = sluice.RoundCountTime(c.TimeMillis)
		return c
	}
	first := at(1, sluice.KindCustom, day.Add(18*time.Hour+50*time.Minute))
	second := at(2, sluice.KindCustom, day.Add(5*time.Hour+50*time.Minute))
	f.apply(t, store.Effect{Stripe: 7, Events: []store.StoredEvent{first, second}, Counts: []sluice.Count{
		quarter(18*time.Hour+14*time.Minute, 1), quarter(18*time.Hour+15*time.Minute, 2), quarter(18*time.Hour+29*time.Minute, 4), counted(18*time.Hour, "shop", "open", 8), quarter(6*time.Hour+20*time.Minute, 16),
	}}, 2, 0)
	f.apply(t, store.Effect{Stripe: 8, Counts: []sluice.Count{quarter(18*time.Hour+10*time.Minute, 32)}}, 0, 0)
	read := func(quarters bool) (all string) {
		rows, err := f.store.(store.SeriesStore).Series(f.ctx, store.SeriesQuery{FromMillis: day.UnixMilli(), ToMillis: day.Add(24 * time.Hour).UnixMilli(), Quarters: quarters, ByKind: true, Limit: 100})
		must(t, err)
		for _, r := range rows {
			all += fmt.Sprintf("%02d/%d %s %d, ", time.UnixMilli(r.Millis).UTC().Hour(), r.Quarter, r.Kind, r.Count)
		}
		return all
	}
	want(t, "hours", read(false), "05/0 custom 1, 06/0 counter 16, 18/0 counter 47, 18/0 custom 1, ")
	want(t, "quarters", read(true), "05/0 custom 1, 06/0 counter 16, 18/0 counter 8, 18/1 counter 33, 18/2 counter 6, 18/4 custom 1, ")
	f.wantRows(t, "SELECT SUM(count) FROM series_days", []string{"65"})
}

// testCountTexts: names are told apart byte by byte, and more than one
// statement holds go in.
func testCountTexts(t *testing.T, f *fixture) {
	f.start(t)
	texts, _ := f.texts()
	var e store.Effect
	for i, s := range texts {
		if len(s) <= sluice.MaxAppIDBytes {
			e.Counts = append(e.Counts, counted(0, s, "app", int64(i+1)))
		}
		e.Counts = append(e.Counts, counted(0, "name", s, int64(i+1)))
	}
	for i := range 1200 {
		e.Counts = append(e.Counts, counted(0, "many", "n"+strconv.Itoa(i), 1))
	}
	f.apply(t, e, 0, 0)
	f.apply(t, e, 0, 0)
	want(t, "rows", f.count(t, "series_hours"), len(e.Counts))
	f.wantRows(t, "SELECT SUM(count) FROM series_hours WHERE app_id = 'many'", []string{"2400"})
	got := map[string]string{}
	for _, row := range f.Query(t, "SELECT name, count FROM series_hours WHERE app_id = 'name'") {
		got[row[0]] = row[1]
	}
	for i, s := range texts {
		want(t, "count of "+strconv.Quote(s), got[s], strconv.Itoa(2*(i+1)))
	}
}

// testCountsBounded: a count beyond 64 bits stays at their end.
func testCountsBounded(t *testing.T, f *fixture) {
	f.start(t)
	most, least := int64(math.MaxInt64), int64(math.MinInt64)
	f.apply(t, store.Effect{Counts: []sluice.Count{
		counted(0, "", "in one", most), counted(0, "", "in one", 1), counted(0, "", "down in one", least), counted(0, "", "down in one", -1),
		counted(0, "", "in two", most-5), counted(0, "", "down in two", 5-most), counted(0, "", "back", most),
	}}, 0, 0)
	f.apply(t, store.Effect{Counts: []sluice.Count{
		counted(0, "", "in two", 6), counted(0, "", "down in two", -6), counted(0, "", "back", -most), counted(0, "", "in one", most), counted(0, "", "down in one", least),
	}}, 0, 0)
	for _, table := range []string{"series_hours", "series_days"} {
		f.wantRows(t, "SELECT name, count FROM "+table+" ORDER BY name",
			[]string{"back", "0"}, []string{"down in one", "-9223372036854775807"}, []string{"down in two", "-9223372036854775807"},
			[]string{"in one", "9223372036854775807"}, []string{"in two", "9223372036854775807"})
	}
}

// testCountsOfManyStores: processes that count the same names at once, in
// whatever order and stripe, all get through.
func testCountsOfManyStores(t *testing.T, f *fixture) {
	const stores, rounds, names = 3, 10, 40
	all := []store.Store{f.store}
	if f.OpenThrough != nil { // else one process is all there can be
		all = append(all, f.Open(t), f.Open(t))
	}
	var running sync.WaitGroup
	for n := range stores {
		db := all[n%len(all)]
		running.Go(func() {
			name := "counts " + strconv.Itoa(n)
			if _, err := db.Cursors(f.ctx, name, []int{0}); err != nil {
				t.Error(err)
				return
			}
			for round := range rounds {
				e := &store.Effect{Stripe: n % 2, Moves: []store.Move{{Follower: name, From: sluice.Position{Major: uint64(round)}, To: sluice.Position{Major: uint64(round + 1)}}}}
				if round == 0 {
					e.Moves[0].From = sluice.Position{}
				}
				for i := range names {
					e.Counts = append(e.Counts, counted(0, "shop", "n"+strconv.Itoa((i*(n+1)+round)%names), 1))
				}
				p, err := db.Prepare(e)
				if err == nil {
					_, err = db.Apply(f.ctx, p)
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	running.Wait()
	f.wantRows(t, "SELECT SUM(count) FROM series_hours", []string{strconv.Itoa(stores * rounds * names)})
}

// testEventsCounted: events are counted under their own names, if they were
// really inserted, whatever way they went in.
func testEventsCounted(t *testing.T, f *fixture) {
	f.start(t)
	hours := "SELECT kind, app_id, name, count FROM series_hours ORDER BY bucket, kind, app_id, name"
	bought, next := event(10), event(11)
	bought.Kind, bought.App, bought.Name = sluice.KindPurchase, "shop", "bought"
	next.TimeMillis += time.Hour.Milliseconds()
	f.apply(t, store.Effect{
		Events: []store.StoredEvent{event(1), event(2), event(1), bought, next},
		Counts: []sluice.Count{{Kind: sluice.KindCounter, TimeMillis: event(1).TimeMillis, App: "app", Name: "opened", By: 40}},
	}, 4, 1)
	first := [][]string{{"counter", "app", "opened", "40"}, {"mail", "app", "opened", "2"}, {"purchase", "shop", "bought", "1"}, {"mail", "app", "opened", "1"}}
	f.wantRows(t, hours, first...)

	f.apply(t, store.Effect{Events: []store.StoredEvent{event(1), bought, next}}, 0, 3)
	f.wantRows(t, hours, first...)

	bad := event(20)
	bad.Kind = 99
	f.refuse(t, store.Effect{Events: []store.StoredEvent{event(2), event(3), bad, event(3)}}, 1, 2, 1)
	f.wantRows(t, hours, []string{"counter", "app", "opened", "40"}, []string{"mail", "app", "opened", "3"}, first[2], first[3])
	f.wantRows(t, "SELECT kind, count FROM series_days ORDER BY kind", []string{"counter", "40"}, []string{"mail", "4"}, []string{"purchase", "1"})
}

// testEventsCountedAgain: after a cursor was set back, some of an effect's
// places are in the table already. What the bulk path cannot tell apart, it
// refuses, and row by row nothing counts twice.
func testEventsCountedAgain(t *testing.T, f *fixture) {
	f.start(t)
	placed := func(n int) store.StoredEvent {
		e := event(n)
		e.Place.Position = sluice.Position{Major: 1_760_000_000_000, Minor: 77}
		return e
	}
	f.apply(t, store.Effect{Events: []store.StoredEvent{placed(1), placed(2)}}, 2, 0)
	f.refuse(t, store.Effect{Events: []store.StoredEvent{placed(1), placed(2), placed(3)}}, 1, 2, 0)
	f.wantRows(t, "SELECT SUM(count) FROM series_hours", []string{"3"})
}

// testNamesBounded: beyond the bound names are counted together, and names
// that were there before are still counted by themselves.
func testNamesBounded(t *testing.T, f *fixture) {
	f.start(t)
	const most = store.DefaultSeriesNames
	var e store.Effect
	for i := range most + 5 {
		e.Counts = append(e.Counts, counted(0, "app", "n"+strconv.Itoa(i), 1))
	}
	e.Counts = append(e.Counts, counted(0, "other app", "n", 1))
	f.apply(t, e, 0, 0)
	rows := func(app, name string) string {
		return f.Query(t, "SELECT COUNT(*), COALESCE(SUM(count), 0) FROM series_hours WHERE app_id = '"+app+"'"+name)[0][0] + " " +
			f.Query(t, "SELECT COALESCE(SUM(count), 0) FROM series_hours WHERE app_id = '"+app+"'"+name)[0][0]
	}
	want(t, "names of the app", rows("app", ""), strconv.Itoa(most+1)+" "+strconv.Itoa(most+5))
	want(t, "names counted together", rows("app", " AND name = '"+store.OtherName+"'"), "1 5")
	want(t, "names of another app", rows("other app", ""), "1 1")

	// The next program knows them from the table.
	must(t, f.store.Close())
	f.store = f.Open(t)
	f.apply(t, store.Effect{Counts: []sluice.Count{counted(0, "app", "n0", 1), counted(0, "app", "new", 1)}}, 0, 0)
	want(t, "a known name", rows("app", " AND name = 'n0'"), "1 2")
	want(t, "a new one", rows("app", " AND name = 'new'"), "0 0")
}

// testReadSeries: stripes are added up, ranges are half open, filters work.
func testReadSeries(t *testing.T, f *fixture) {
	f.start(t)
	series := f.store.(store.SeriesStore)
	f.apply(t, store.Effect{Counts: []sluice.Count{
		counted(time.Hour, "shop", "open", 5), counted(2*time.Hour, "shop", "open", 3), counted(2*time.Hour, "shop", "click", 1),
		counted(2*time.Hour, "blog", "open", 9), counted(24*time.Hour, "shop", "open", 4),
	}}, 0, 0)
	f.apply(t, store.Effect{Stripe: 3, Counts: []sluice.Count{counted(time.Hour, "shop", "open", 10)}}, 0, 0)
	at := func(d time.Duration) int64 { return counted(d, "", "", 0).TimeMillis }
	app, name, kind, none := "shop", "open", sluice.KindCounter, "nobody"
	for _, c := range []struct {
		what  string
		query store.SeriesQuery
		want  []store.SeriesRow
	}{
		{"all days", store.SeriesQuery{Days: true, FromMillis: at(0), ToMillis: at(48 * time.Hour), ByName: true, ByApp: true}, []store.SeriesRow{
			{Millis: at(0), App: "blog", Name: "open", Count: 9}, {Millis: at(0), App: "shop", Name: "click", Count: 1},
			{Millis: at(0), App: "shop", Name: "open", Count: 18}, {Millis: at(24 * time.Hour), App: "shop", Name: "open", Count: 4}}},
		{"hours of an app and name", store.SeriesQuery{FromMillis: at(time.Hour), ToMillis: at(24 * time.Hour), App: &app, Name: &name, ByKind: true}, []store.SeriesRow{
			{Millis: at(time.Hour), Kind: "counter", Count: 15}, {Millis: at(2 * time.Hour), Kind: "counter", Count: 3}}},
		{"in all", store.SeriesQuery{FromMillis: at(2 * time.Hour), ToMillis: at(3 * time.Hour), Kind: &kind}, []store.SeriesRow{{Millis: at(2 * time.Hour), Count: 13}}},
		{"to the end of all times", store.SeriesQuery{Days: true, FromMillis: at(24 * time.Hour), ToMillis: sluice.MaxEventTimeMillis + 1}, []store.SeriesRow{{Millis: at(24 * time.Hour), Count: 4}}},
		{"as a whole", store.SeriesQuery{Days: true, FromMillis: at(0), ToMillis: at(48 * time.Hour), App: &app, ByName: true, Whole: true}, []store.SeriesRow{
			{Millis: at(0), Name: "click", Count: 1}, {Millis: at(0), Name: "open", Count: 22}}},
		{"one sum", store.SeriesQuery{FromMillis: at(2 * time.Hour), ToMillis: at(48 * time.Hour), Whole: true}, []store.SeriesRow{{Millis: at(2 * time.Hour), Count: 17}}},
		{"no sum", store.SeriesQuery{FromMillis: at(48 * time.Hour), ToMillis: at(49 * time.Hour), Whole: true}, nil},
		{"names that begin so", store.SeriesQuery{ToMillis: at(24 * time.Hour), Under: "op", ByName: true, Whole: true}, []store.SeriesRow{{Millis: at(time.Hour), Name: "open", Count: 27}}},
		{"not later ones", store.SeriesQuery{ToMillis: at(24 * time.Hour), Under: "cl", ByName: true, Whole: true}, []store.SeriesRow{{Millis: at(2 * time.Hour), Name: "click", Count: 1}}},
		{"no longer name", store.SeriesQuery{ToMillis: at(24 * time.Hour), Under: "open/", ByName: true}, nil},
		{"none", store.SeriesQuery{ToMillis: at(48 * time.Hour), App: &none}, nil},
	} {
		c.query.Limit = 100
		got, err := series.Series(f.ctx, c.query)
		must(t, err)
		want(t, c.what, fmt.Sprint(got), fmt.Sprint(c.want))
	}
	got, err := series.Series(f.ctx, store.SeriesQuery{ToMillis: at(48 * time.Hour), ByName: true, Limit: 2})
	must(t, err)
	want(t, "rows within the limit", len(got), 2)
}
