package sqlstore_test

import (
	"context"
	"database/sql"
	"strings"
	"testing"
	"time"

	"sluice/store/sqlstore"
	"sluice/test/proxy"
)

// A server whose machine vanishes without a word is given up, by a statement that is sent
// to it and by one that waits for its answer, and the next server takes its place.
func TestVanishedServer(t *testing.T) {
	t.Parallel()
	maria, pg := newDatabase(t), newPostgresDatabase(t)
	for name, of := range map[string]struct {
		first *proxy.Proxy
		url   string
		past  *sql.DB
		holds string // a statement that takes longer than the test
		held  string // how many of it there are
	}{
		"mysql": {newProxy(t), mariadb.URL(maria), bypass(t, "mysql", mariadb.DSN(maria)),
			"SELECT SLEEP(600)", "SELECT COUNT(*) FROM information_schema.processlist WHERE db = DATABASE() AND info = 'SELECT SLEEP(600)'"},
		"postgres": {newPostgresProxy(t), postgres.URL(pg), bypass(t, "pgx", postgres.SocketURL(pg)),
			"SELECT pg_sleep(600)", "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND query = 'SELECT pg_sleep(600)'"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			s := migrated(t, strings.Replace(of.url, "@", "@"+of.first.Addr()+",", 1), served)
			must(t, apply(ctx, s, effectTo(1, events(10))))
			waiting := make(chan error, 1)
			go func() { waiting <- sqlstore.WaitForReads(ctx, s, of.holds) }() // ends with ctx
			for queryTexts(t, of.past, of.held)[0][0] != "1" {
				<-time.After(10 * time.Millisecond)
			}
			if of.first.Connections() < 2 {
				t.Fatal("the store is not connected through the proxy: this test shows nothing")
			}
			must(t, of.first.Vanish())
			began := time.Now()
			again(t, func() error { return apply(ctx, s, effectTo(2, events(10))) })
			t.Logf("it writes to the next server after %s", time.Since(began).Round(10*time.Millisecond))
			if err := <-waiting; err == nil || ctx.Err() != nil {
				t.Errorf("a statement that waits for its answer was not given up: %v", err)
			}
		})
	}
}
