package sqlstore_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"sluice"
	"sluice/store/sqlstore"
)

// Where nothing is past its retention, nothing waits for the writing connection, and what
// writes does not wait for a DELETE that reads a day.
func TestRetentionWithoutOldRowsOnlyReads(t *testing.T) {
	stores, _ := emptyStores(t)
	for kind, s := range stores {
		t.Run(kind, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			must(t, s.Migrate(ctx))
			old := eventsAt(1, midnight(-2), midnight(-1))
			storeEvents(t, s, old)
			sqlstore.WhileWriting(t, s, "other", func() {
				n, reached, err := s.DeleteEvents(ctx, sluice.KindPurchase, 0, midnight(0).UnixMilli())
				if err != nil || n != 0 || reached != midnight(0).UnixMilli() {
					t.Errorf("%d events of no such kind were deleted, to %d, %v", n, reached, err)
				}
				n, next, err := s.DeleteSends(ctx, "", midnight(0).UnixMilli())
				if err != nil || n != 0 || next != "" {
					t.Errorf("%d of no sends were deleted, then %q, %v", n, next, err)
				}
			})
			n, _, err := s.DeleteEvents(ctx, old[0].Kind, 0, midnight(-1).UnixMilli())
			if err != nil || n != 1 {
				t.Errorf("%d events were deleted, %v", n, err)
			}
		})
	}
}

// Events are found by their keys in the days that they are of. PostgreSQL would plan over
// all others too, and lock them.
func TestEventsByTheirKeys(t *testing.T) {
	stores, past := emptyStores(t)
	var keys []sluice.EventKey
	for i := range 500 {
		keys = append(keys, sluice.EventKey{Millis: midnight(-2).UnixMilli() + int64(i), ID: "b"}, sluice.EventKey{Millis: midnight(-3).UnixMilli(), ID: fmt.Sprint("a", i)})
	}
	keys = keys[:500]
	for kind, s := range stores {
		must(t, s.Migrate(t.Context()))
		_, err := s.MakeEventDays(t.Context(), midnight(7).UnixMilli())
		must(t, err)
		// Enough that a server would rather look at some than at all.
		storeEvents(t, s, eventsAt(1, every(time.Second, midnight(-3), 20_000)...))
		for _, name := range []string{"events_stored", "events_drop"} {
			statement, args := sqlstore.OfEvents(s, name, keys)
			switch kind {
			case "sqlite":
				plan := explain(t, past[kind], "EXPLAIN QUERY PLAN "+statement, args...)
				if strings.Contains(plan, "SCAN events") || !strings.Contains(plan, "(time=? AND event_id=?)") {
					t.Errorf("%s of %s: %s", name, kind, plan)
				}
			case "mysql":
				exec(t, past[kind], "ANALYZE TABLE events")
				plan := explain(t, past[kind], "EXPLAIN PARTITIONS "+statement, args...)
				if !strings.Contains(plan, " range PRIMARY ") || strings.Count(plan, "p20") != 2 {
					t.Errorf("%s of %s: %s", name, kind, plan)
				}
			case "postgres":
				plan := explain(t, past[kind], "EXPLAIN "+statement, args...)
				others := strings.NewReplacer("events_"+midnight(-3).Format("20060102"), "", "events_"+midnight(-2).Format("20060102"), "").Replace(plan)
				if strings.Contains(others, "events_") {
					t.Errorf("%s of %s: %s", name, kind, plan)
				}
			}
		}
	}
}

// every are moments, one after the other.
func every(step time.Duration, from time.Time, many int) []time.Time {
	moments := make([]time.Time, many)
	for i := range moments {
		moments[i] = from.Add(time.Duration(i) * step)
	}
	return moments
}
