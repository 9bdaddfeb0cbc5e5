package sqlstore_test

import (
	"fmt"
	"testing"
	"time"

	"sluice"
	"sluice/store"
	"sluice/store/sqlstore"
)

// Events of the bench of the feed: of so many days, in so many partitions.
const (
	benchFeedDays  = 400
	benchFeedParts = 16
	benchFeedRows  = 5 * effectRows
)

// benchmarkFeed reads pages of a table of a year of days: full ones behind a place in the
// middle, and those at the end, which have ten events each.
func benchmarkFeed(b *testing.B, s *sqlstore.Store) {
	const day = int64(24 * time.Hour / time.Millisecond)
	now := time.Now().UnixMilli()
	for more := true; more; {
		made, err := s.MakeEventDays(b.Context(), now+(benchFeedDays-31)*day)
		must(b, err)
		more = made > 0
	}
	const hour = day / 24
	move := uint64(0)
	add := func(rows int, from, span int64) (first int64) {
		for n := range rows / effectRows {
			var events []store.StoredEvent
			for i := range effectRows {
				at := from + int64(n*effectRows+i)*span/int64(rows)
				events = append(events, store.StoredEvent{
					Place: sluice.Place{Partition: i % benchFeedParts, Position: sluice.Position{Major: uint64(at)}, Index: i},
					Event: sluice.Event{Kind: sluice.KindCustom, Name: fmt.Sprint("event-", i%7), User: "user-1", TimeMillis: at, Properties: `{"items":3,"total":29.5,"sku":"A-17","x":"a text of some length"}`},
				})
			}
			move++
			must(b, apply(b.Context(), s, effectTo(move, events)))
		}
		return from
	}
	add(benchFeedRows, now-30*day, (benchFeedDays-32)*day)
	begin := add(benchFeedRows, now+(benchFeedDays-32)*day, hour)
	end := begin + hour
	look := func(at sluice.Position, want int) time.Duration {
		began := time.Now()
		for part := range benchFeedParts {
			page, err := s.FeedPage(b.Context(), "store", part, sluice.Place{Partition: part, Position: at}, store.MaxFeedRows)
			must(b, err)
			if len(page.Events) < want {
				b.Fatalf("partition %d: %d events", part, len(page.Events))
			}
		}
		return time.Since(began)
	}
	var full, last time.Duration
	for b.Loop() {
		full += look(sluice.Position{Major: uint64(begin)}, store.MaxFeedRows)
		last += look(sluice.Position{Major: uint64(end - 4000)}, 5)
	}
	b.ReportMetric(float64(b.N*benchFeedParts*store.MaxFeedRows)/full.Seconds(), "events/s")
	b.ReportMetric(float64(last.Microseconds())/float64(b.N*benchFeedParts), "µs/page-at-the-end")
}

func BenchmarkSQLiteFeed(b *testing.B) {
	s, _ := sqliteStore(b)
	benchmarkFeed(b, s)
}

func BenchmarkMariaDBFeed(b *testing.B) { benchmarkFeed(b, mariadbStore(b)) }

func BenchmarkPostgresFeed(b *testing.B) {
	s, _ := postgresStore(b)
	benchmarkFeed(b, s)
}
