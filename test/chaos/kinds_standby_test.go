package chaos

import (
	"database/sql"
	"path/filepath"
	"strings"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"

	"sluice/test/proxy"
	"sluice/test/servers"
)

// standbyKinds promote a replica of the database that has not had the last seconds. What it
// lacks is stored again from the logs.
func standbyKinds() []kind {
	return []kind{
		{name: "standby", standby: true, fits: onServer, strike: strikeStandby},
		{name: "journey-standby", standby: true, journey: true, fits: several, strike: strikeStandby},
	}
}

// startPair starts a primary and its replica, which gets everything by way of a proxy. It
// returns our own way to the primary, and a URL that names both.
func (r *round) startPair() (db *sql.DB, url string) {
	r.t.Helper()
	if r.base == onPostgres {
		return r.startPostgresPair()
	}
	return r.startMariaPair()
}

func (r *round) startPostgresPair() (db *sql.DB, url string) {
	r.t.Helper()
	extra := []string{"-c", "synchronous_commit=off", "-c", "wal_keep_size=1GB"}
	first, err := servers.StartPostgres(r.ctx, servers.PostgresOptions{Dir: filepath.Join(r.dir, "primary"), Extra: extra})
	r.do(err)
	r.t.Cleanup(func() { _ = first.Kill() })
	r.do(first.CreateDatabase(r.ctx, r.name))
	between := r.proxy(first.Addr())
	second, err := servers.StartStandby(r.ctx, servers.PostgresOptions{Dir: filepath.Join(r.dir, "standby"), Extra: extra}, first, between.Addr())
	r.do(err)
	r.t.Cleanup(func() { _ = second.Kill() })
	r.promote = func() {
		r.fallBehind(between, first)
		r.do(second.Promote(r.ctx))
		r.db = r.open("pgx", second.URL(r.name))
	}
	return r.open("pgx", first.URL(r.name)), strings.Replace(first.URL(r.name), first.Addr(), first.Addr()+","+second.Addr(), 1)
}

func (r *round) startMariaPair() (db *sql.DB, url string) {
	r.t.Helper()
	var pair [2]*servers.MariaDB
	for i := range pair {
		m, err := servers.StartMariaDB(r.ctx, servers.MariaDBOptions{Dir: filepath.Join(r.dir, []string{"primary", "replica"}[i]),
			Extra: append(servers.ReplicaArguments(1+i), "--innodb-flush-log-at-trx-commit=2")})
		r.do(err)
		r.t.Cleanup(func() { _ = m.Kill() })
		pair[i] = m
	}
	first, second := pair[0], pair[1]
	r.do(first.CreateDatabase(r.ctx, r.name))
	between := r.proxy(first.Addr())
	r.do(second.Follow(r.ctx, first, between.Addr()))
	r.promote = func() {
		r.fallBehind(between, first)
		r.do(second.Promote(r.ctx))
		r.db = r.open("mysql", second.DSN(r.name))
	}
	return r.open("mysql", first.DSN(r.name)), strings.Replace(first.URL(r.name), first.Addr(), first.Addr()+","+second.Addr(), 1)
}

func (r *round) open(driver, dsn string) *sql.DB {
	r.t.Helper()
	db, err := sql.Open(driver, dsn)
	r.do(err)
	r.t.Cleanup(func() { _ = db.Close() })
	return db
}

// fallBehind has the replica get nothing for 2 s, and kills the primary.
func (r *round) fallBehind(between *proxy.Proxy, primary interface{ Kill() error }) {
	r.t.Helper()
	r.bodiesFrom = time.Now()
	between.Stall()
	pause(r.ctx, standbyBehind)
	r.do(primary.Kill())
	r.bodiesTo = time.Now()
	between.Cut()
}

// standbyBehind is how much the replica lacks.
const standbyBehind = 2 * time.Second

// strikeStandby promotes the replica. Processes find it by themselves: their URL names both.
func strikeStandby(r *round) {
	r.rest(500*time.Millisecond, 3*time.Second)
	r.promote()
}
