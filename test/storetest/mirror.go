package storetest

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"sluice"
	"sluice/store"
)

// mirrored begins a mirror of the fixture's series.
func (f *fixture) mirrored(t *testing.T, db store.MirrorStore, epoch int64) {
	t.Helper()
	state, err := db.MirrorState(f.ctx)
	must(t, err)
	must(t, db.SetMirrorState(f.ctx, state, store.MirrorState{Epoch: epoch}))
}

func (f *fixture) changes(t *testing.T, store store.MirrorStore) []store.SeriesChange {
	t.Helper()
	all, err := store.SeriesChanges(f.ctx, nil, 10_000)
	must(t, err)
	return all
}

// testMirrorChanges: changes are noted while there is a mirror, by day, once
// for all that come before they are settled. A change that is repeated after it
// was read stays.
func testMirrorChanges(t *testing.T, f *fixture) {
	f.start(t)
	db := f.store.(store.MirrorStore)
	count := func(stripe int, counts ...sluice.Count) {
		t.Helper()
		f.apply(t, store.Effect{Stripe: stripe, Counts: counts}, 0, 0)
	}
	count(0, counted(0, "shop", "before", 1))
	want(t, "changes without a mirror", len(f.changes(t, db)), 0)
	f.mirrored(t, db, 7)
	count(0, counted(time.Hour, "shop", "open", 5), counted(2*time.Hour, "shop", "open", 5), counted(24*time.Hour, "shop", "open", 1), counted(0, "blog", "open", 1))
	count(3, counted(time.Hour, "shop", "open", 5))
	f.apply(t, store.Effect{Events: []store.StoredEvent{event(1)}}, 1, 0)
	first := f.changes(t, db)
	got := ""
	for _, c := range first {
		got += fmt.Sprintf("%s %s %s %d; ", c.App, c.Name, time.UnixMilli(c.DayMillis).UTC().Format("2006-01-02T15"), c.Stripe)
	}
	want(t, "changes", got, "app opened 2025-10-09T00 0; blog open 2026-01-31T00 0; shop open 2026-01-31T00 0; shop open 2026-01-31T00 3; shop open 2026-02-01T00 0; ")
	for i := range first {
		page, err := db.SeriesChanges(f.ctx, &first[i], 2)
		must(t, err)
		want(t, "a page", fmt.Sprint(page), fmt.Sprint(first[i+1:min(i+3, len(first))]))
	}

	count(3, counted(time.Hour, "shop", "open", 1)) // again, after it was read
	wantError(t, db.SettleSeries(f.ctx, 6, first), sluice.ErrConflict)
	want(t, "changes after another's settling", len(f.changes(t, db)), 5)
	must(t, db.SettleSeries(f.ctx, 7, first))
	left := f.changes(t, db)
	if len(left) != 1 || left[0].Stripe != 3 || left[0].Stamp == first[3].Stamp {
		t.Fatalf("left: %+v", left)
	}
	must(t, db.SetMirrorState(f.ctx, store.MirrorState{Epoch: 7}, store.MirrorState{Epoch: 8, Whole: true}))
	wantError(t, db.SetMirrorState(f.ctx, store.MirrorState{Epoch: 7}, store.MirrorState{Epoch: 9}), sluice.ErrConflict)
	state, err := db.MirrorState(f.ctx)
	must(t, err)
	want(t, "state", state, store.MirrorState{Epoch: 8, Whole: true})
	must(t, db.SetMirrorState(f.ctx, state, store.MirrorState{}))
	count(0, counted(0, "shop", "after", 1))
	want(t, "changes when the mirror has ended", len(f.changes(t, db)), 0)
}

// testMirrorTotals: the days of all rows are found, page by page, and their
// hours added up over kinds and stripes.
func testMirrorTotals(t *testing.T, f *fixture) {
	f.start(t)
	db := f.store.(store.MirrorStore)
	mail := counted(time.Hour, "shop", "open", 100)
	mail.Kind = sluice.KindMail
	f.apply(t, store.Effect{Counts: []sluice.Count{
		counted(time.Hour, "shop", "open", 5), counted(23*time.Hour, "shop", "open", 3), counted(24*time.Hour, "shop", "open", 4), mail,
		counted(0, "", "", 1), counted(0, "sho", "popen", 1), counted(0, "shop", "open ", -8),
		{Kind: sluice.KindCounter, TimeMillis: sluice.MaxEventTimeMillis, By: 2, App: "last", Name: "day"},
		{Kind: sluice.KindCounter, TimeMillis: 0, By: 2, App: "first", Name: "day"},
	}}, 0, 0)
	f.apply(t, store.Effect{Stripe: 3, Counts: []sluice.Count{counted(time.Hour, "shop", "open", 10)}}, 0, 0)
	var pages [2]string
	for i, limit := range []int{1, 1000} {
		seen := make(map[store.SeriesDay]bool)
		var days []store.SeriesDay
		for from := (*store.SeriesHour)(nil); ; {
			page, next, err := db.SeriesDays(f.ctx, from, limit)
			must(t, err)
			for _, d := range page {
				if !seen[d] {
					seen[d], days = true, append(days, d)
				}
			}
			if from = next; from == nil {
				break
			}
		}
		want(t, "days", len(days), 7)
		totals, err := db.DayTotals(f.ctx, append(days, store.SeriesDay{App: "no", Name: "row"}))
		must(t, err)
		for _, d := range totals {
			pages[i] += fmt.Sprintf("%q %q %s %v\n", d.App, d.Name, time.UnixMilli(d.DayMillis).UTC().Format(time.DateOnly), d.Hours)
		}
	}
	want(t, "totals", pages[0], `"" "" 2026-01-31 [{0 1}]
"first" "day" 1970-01-01 [{0 2}]
"last" "day" 9999-12-31 [{23 2}]
"sho" "popen" 2026-01-31 [{0 1}]
"shop" "open" 2026-01-31 [{1 115} {23 3}]
"shop" "open" 2026-02-01 [{0 4}]
"shop" "open " 2026-01-31 [{0 -8}]
`)
	want(t, "totals by other pages", pages[1], pages[0])
}

// testMirrorBegins: what is not in the totals that are read after a mirror has
// begun is noted, whatever transactions were under way.
func testMirrorBegins(t *testing.T, f *fixture) {
	f.start(t)
	const stores, rounds = 3, 40
	all := []store.Store{f.store}
	if f.OpenThrough != nil { // else one process is all there can be
		all = append(all, f.Open(t), f.Open(t))
	}
	mirror := f.store.(store.MirrorStore)
	_, err := mirror.MirrorState(f.ctx) // as every process does before it stores
	must(t, err)
	var running sync.WaitGroup
	under := make(chan struct{}, stores*rounds)
	for n := range stores {
		db := all[n%len(all)]
		running.Go(func() {
			name := "mirrored " + strconv.Itoa(n)
			_, err := db.Cursors(f.ctx, name, []int{0})
			for round := 0; round < rounds && err == nil; round++ {
				e := &store.Effect{Stripe: n, Moves: []store.Move{{Follower: name, From: sluice.Position{Major: uint64(round)}, To: sluice.Position{Major: uint64(round + 1)}}},
					Counts: []sluice.Count{counted(0, "shop", fmt.Sprintf("n%d %d", n, round), 1), counted(0, "shop", "hot", 1)}}
				var p store.Prepared
				if p, err = db.Prepare(e); err == nil {
					_, err = db.Apply(f.ctx, p)
				}
				under <- struct{}{}
			}
			if err != nil && !errors.Is(err, f.ctx.Err()) {
				t.Error(err)
			}
		})
	}
	for range stores * rounds / 3 { // they are at it
		<-under
	}
	f.mirrored(t, mirror, 1)
	days, next, err := mirror.SeriesDays(f.ctx, nil, 10_000)
	must(t, err)
	want(t, "pages behind the first", next, nil)
	early, err := mirror.DayTotals(f.ctx, days)
	must(t, err)
	running.Wait()
	noted := make(map[store.SeriesDay]bool)
	for _, c := range f.changes(t, mirror) {
		noted[c.SeriesDay] = true
	}
	before := make(map[store.SeriesDay]string)
	for _, d := range early {
		before[d.SeriesDay] = fmt.Sprint(d.Hours)
	}
	if days, _, err = mirror.SeriesDays(f.ctx, nil, 10_000); err != nil {
		t.Fatal(err)
	}
	late, err := mirror.DayTotals(f.ctx, days)
	must(t, err)
	want(t, "days", len(late), stores*rounds+1)
	for _, d := range late {
		if before[d.SeriesDay] != fmt.Sprint(d.Hours) && !noted[d.SeriesDay] {
			t.Errorf("%s: %s, later %v, and no change is noted", d.Name, before[d.SeriesDay], d.Hours)
		}
	}
}
