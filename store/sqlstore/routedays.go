package sqlstore

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"sluice/mail"
)

// The attempts of routes on a day are counted by the transactions that write
// the attempts' outcomes. Deferred attempts are left out: some of them were
// given no mail (421), and their tokens went back. So the sum is never more
// than the tokens that were used. It is less by these attempts, and by those
// not stored yet. Each route has a row a stripe, of its last day. So the table
// stays small, and nothing has to be removed from it.

var _ mail.RouteDayStore = (*Store)(nil)

// routeDay names a sum of a route's attempts.
type routeDay struct {
	route string
	day   int64
}

// attempt counts an outcome that has changed a row, if it is of an attempt.
func (l *ledger) attempt(o *mail.Outcome) {
	if o.Route == "" || o.Attempts == 0 || o.State == mail.SendWaiting {
		return
	}
	if l.attempts == nil {
		l.attempts = make(map[routeDay]int64)
	}
	l.attempts[routeDay{mail.Clip(o.Route, mail.MaxRouteBytes), o.TimeMillis / dayMillis}]++
}

// addRouteDays adds what routes attempted, of each its last day.
func (t *txn) addRouteDays(ctx context.Context, attempts map[routeDay]int64, stripe int) error {
	last := make(map[string]int64, len(attempts))
	for k := range attempts {
		last[k.route] = max(last[k.route], k.day)
	}
	keys := slices.SortedFunc(maps.Keys(attempts), func(a, b routeDay) int {
		return cmp.Or(strings.Compare(a.route, b.route), cmp.Compare(a.day, b.day))
	})
	var args []any
	for _, k := range keys {
		if last[k.route] == k.day {
			args = append(args, t.store.d.text(k.route), stripe, k.day, attempts[k])
		}
	}
	if _, err := t.rows(ctx, "route_day_add", 4, args); err != nil {
		return fmt.Errorf("count what routes attempted: %w", err)
	}
	return nil
}

// RouteDay implements mail.RouteDayStore.
func (s *Store) RouteDay(ctx context.Context, route string, day int64) (attempts int64, err error) {
	err = s.each(ctx, rawQuery(s.d, "route_day"), []any{route, day}, func(scan scanner) error {
		var n int64
		err := scan(&n)
		attempts += n
		return err
	})
	return attempts, s.failed(err, "read the attempts of route %s in", route)
}
