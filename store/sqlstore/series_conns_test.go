package sqlstore_test

import (
	"context"
	"database/sql"
	"sync"
	"testing"
	"time"

	"sluice"
	"sluice/store"
	"sluice/store/sqlstore"
)

// Connections stay for the store and for leases, however many ask for counts and however
// long the database takes to add them up.
func TestCountsLeaveConnections(t *testing.T) {
	maria, pg := newDatabase(t), newPostgresDatabase(t)
	for name, c := range map[string]struct {
		url, driver, dsn string
		lock, unlock     []string
	}{
		"mariadb": {mariadb.SocketURL(maria), "mysql", mariadb.DSN(maria), []string{"LOCK TABLES series_hours WRITE, reactions WRITE"}, []string{"UNLOCK TABLES"}},
		"postgres": {postgres.SocketURL(pg), "pgx", postgres.SocketURL(pg),
			[]string{"BEGIN", "LOCK TABLE series_hours, reactions IN ACCESS EXCLUSIVE MODE"}, []string{"ROLLBACK"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := migrated(t, c.url, sqlstore.Options{})
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			conn, err := bypass(t, c.driver, c.dsn).Conn(ctx)
			must(t, err)
			runOn(t, conn, c.lock)
			const callers = 8
			errs := make([]error, 2*callers)
			var asking sync.WaitGroup
			for i := range callers {
				asking.Go(func() {
					_, errs[i] = s.Series(ctx, store.SeriesQuery{ToMillis: sluice.MaxEventTimeMillis, ByName: true, Limit: 10})
				})
				asking.Go(func() {
					_, errs[callers+i] = s.Reactions(ctx, store.ReactionQuery{ToMillis: sluice.MaxEventTimeMillis, Limit: 10})
				})
			}
			for sqlstore.ReadsInUse(s) < 2 && ctx.Err() == nil {
				<-time.After(time.Millisecond)
			}
			for range 100 {
				must(t, s.Ping(ctx)) // as each lease that is taken
			}
			runOn(t, conn, c.unlock)
			asking.Wait()
			for _, err := range errs {
				must(t, err)
			}
		})
	}
}

func runOn(t *testing.T, conn *sql.Conn, statements []string) {
	t.Helper()
	for _, statement := range statements {
		_, err := conn.ExecContext(t.Context(), statement)
		must(t, err)
	}
}
