package sqlstore_test

import (
	"context"
	"testing"
	"time"

	"sluice/store"
	"sluice/store/sqlstore"
)

// A mirror begins when the transactions that do not know it have ended. What this process
// writes goes on meanwhile, and with PostgreSQL later transactions with counts wait behind
// it: it would wait for as long as there is one.
func TestMirrorBeginsUnderLoad(t *testing.T) {
	maria, pg := newDatabase(t), newPostgresDatabase(t)
	for name, c := range map[string]struct{ url, driver, dsn, waiting string }{
		"mariadb":  {mariadb.SocketURL(maria), "mysql", mariadb.DSN(maria), "SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = 'INNODB_ROW_LOCK_CURRENT_WAITS'"},
		"postgres": {postgres.SocketURL(pg), "pgx", postgres.SocketURL(pg), "SELECT COUNT(*) FROM pg_locks WHERE NOT granted"},
	} {
		t.Run(name, func(t *testing.T) {
			s := migrated(t, c.url, sqlstore.Options{})
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			state, err := s.MirrorState(ctx)
			must(t, err)
			db := bypass(t, c.driver, c.dsn)
			first, err := db.Conn(ctx)
			must(t, err)
			look := sqlstore.MirrorStatement(s)
			var epoch, whole int64
			runOn(t, first, []string{"BEGIN"})
			must(t, first.QueryRowContext(ctx, look, "mirror").Scan(&epoch, &whole))
			waits := func(many string, until func() bool) {
				t.Helper()
				for queryTexts(t, db, c.waiting)[0][0] != many && !until() {
					if ctx.Err() != nil {
						t.Fatalf("%s do not wait", many)
					}
					<-time.After(time.Millisecond)
				}
			}
			begun := make(chan error, 1)
			go func() { begun <- s.SetMirrorState(ctx, state, store.MirrorState{Epoch: 1}) }()
			waits("1", func() bool { return len(begun) > 0 })
			_, err = s.Cursors(ctx, "another", []int{0}) // it is written
			must(t, err)
			if name == "postgres" {
				looked := make(chan error, 1)
				later, err := db.Conn(ctx)
				must(t, err)
				go func() { looked <- later.QueryRowContext(ctx, look, "mirror").Scan(&epoch, &whole) }()
				waits("2", func() bool { return len(looked) > 0 })
				runOn(t, first, []string{"ROLLBACK"})
				if must(t, <-looked); epoch != 1 {
					t.Errorf("a later transaction has passed by, and knows epoch %d", epoch)
				}
			} else {
				runOn(t, first, []string{"ROLLBACK"})
			}
			must(t, <-begun)
		})
	}
}

// A mirror that begins waits for longer than other statements of a process do: what is
// being stored may take so long.
func TestMirrorWaitsForLong(t *testing.T) {
	maria, pg := newDatabase(t), newPostgresDatabase(t)
	for name, c := range map[string]struct{ url, driver, dsn, waiting string }{
		"mariadb":  {mariadb.SocketURL(maria), "mysql", mariadb.DSN(maria), "SELECT COUNT(*) FROM information_schema.INNODB_TRX WHERE trx_wait_started < NOW() - INTERVAL 3 SECOND"},
		"postgres": {postgres.SocketURL(pg), "pgx", postgres.SocketURL(pg), "SELECT COUNT(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query_start < clock_timestamp() - interval '3 seconds'"},
	} {
		t.Run(name, func(t *testing.T) {
			state, err := migrated(t, c.url, sqlstore.Options{}).MirrorState(t.Context())
			must(t, err)
			s := open(t, c.url, served)
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			db := bypass(t, c.driver, c.dsn)
			first, err := db.Conn(ctx)
			must(t, err)
			var epoch, whole int64
			runOn(t, first, []string{"BEGIN"})
			must(t, first.QueryRowContext(ctx, sqlstore.MirrorStatement(s), "mirror").Scan(&epoch, &whole))
			// The server ends a session that a busy machine has let rest: it begins again.
			for waits := false; !waits && ctx.Err() == nil; {
				begun := make(chan error, 1)
				go func() { begun <- s.SetMirrorState(ctx, state, store.MirrorState{Epoch: 1}) }()
				for len(begun) == 0 && !waits {
					waits = queryTexts(t, db, c.waiting)[0][0] != "0"
				}
				if waits {
					runOn(t, first, []string{"ROLLBACK"})
				}
				if err = <-begun; err != nil {
					t.Log(err)
				}
			}
			if must(t, ctx.Err()); err != nil {
				t.Error("it has given up before the others had ended")
			}
		})
	}
}
