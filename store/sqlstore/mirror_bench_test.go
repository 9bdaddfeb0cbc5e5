package sqlstore_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"sluice"
	"sluice/store"
	"sluice/store/sqlstore"
)

// BenchmarkCounts applies 100 hot counts a transaction, with and without a
// mirror. It looks at the changes as the mirror does: the questions of one
// pass.
func BenchmarkCounts(b *testing.B) {
	onPostgres, _ := postgresStore(b)
	stores := map[string]*sqlstore.Store{"mariadb": mariadbStore(b), "postgres": onPostgres}
	for name, s := range stores {
		_, err := s.Cursors(b.Context(), "counts", []int{0})
		must(b, err)
		state, err := s.MirrorState(b.Context())
		must(b, err)
		at := uint64(0)
		count := func() {
			e := &store.Effect{Moves: []store.Move{{Follower: "counts", From: sluice.Position{Major: at}, To: sluice.Position{Major: at + 1}}}}
			at++
			for i := range 100 {
				e.Counts = append(e.Counts, sluice.Count{Kind: sluice.KindCounter, TimeMillis: time.Hour.Milliseconds(), By: 1, App: "app", Name: "name " + strconv.Itoa(i)})
			}
			p, err := s.Prepare(e)
			must(b, err)
			_, err = s.Apply(b.Context(), p)
			must(b, err)
		}
		for _, mirrored := range []bool{false, true} {
			b.Run(fmt.Sprintf("%s/apply/mirror=%v", name, mirrored), func(b *testing.B) {
				to := store.MirrorState{}
				if mirrored {
					to.Epoch = 1
				}
				if state != to {
					must(b, s.SetMirrorState(b.Context(), state, to))
					state = to
				}
				for b.Loop() {
					count()
				}
			})
		}
		b.Run(name+"/pass", func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				count()
				b.StartTimer()
				changes, err := s.SeriesChanges(b.Context(), nil, 2000)
				must(b, err)
				var days []store.SeriesDay
				for _, c := range changes {
					days = append(days, c.SeriesDay)
				}
				totals, err := s.DayTotals(b.Context(), days)
				must(b, err)
				must(b, s.SettleSeries(b.Context(), 1, changes))
				if len(totals) != 100 {
					b.Fatal(len(totals))
				}
			}
		})
	}
}
