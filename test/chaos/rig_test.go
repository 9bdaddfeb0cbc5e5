package chaos

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/rueidis"
	_ "modernc.org/sqlite"

	"sluice/test/servers"
)

// onSQLite is the database of a single process.
const onSQLite = "sqlite"

// rig is the servers that rounds use one after the other: databases and a
// cluster take seconds to start. Each round has a database of its own, and what
// it leaves in the cluster is removed. A single Redis is a round's own.
type rig struct {
	t        *testing.T
	dir      string
	maria    *servers.MariaDB
	postgres *servers.Postgres
	clusters map[string]*servers.RedisCluster // by what a round is made on

	sentinels *servers.Sentinels
	galera    *servers.Galera
}

func newRig(t *testing.T, worker int) *rig {
	t.Helper()
	return &rig{t: t, dir: filepath.Join(t.TempDir(), fmt.Sprint(worker)), clusters: make(map[string]*servers.RedisCluster)}
}

// roundRedis are arguments of Redis. What was answered survives a kill without a
// sync, and the files are copied while it runs, so nothing may rewrite them.
var roundRedis = []string{"--appendfsync", "no", "--auto-aof-rewrite-percentage", "0"}

// connect makes a database of a name. It returns the way to it, the driver's
// name for it, its address and how its URL is written.
func (g *rig) connect(t *testing.T, base, name string) (db *sql.DB, address, url string) {
	t.Helper()
	var driver, dsn string
	var err error
	switch base {
	case onMariaDB:
		if g.maria == nil {
			// What was committed survives a kill of the server without a sync.
			if g.maria, err = servers.StartMariaDB(t.Context(), servers.MariaDBOptions{Dir: filepath.Join(g.dir, "maria"), Extra: []string{"--innodb-flush-log-at-trx-commit=2"}}); err != nil {
				t.Fatal(err)
			}
			g.t.Cleanup(func() { _ = g.maria.Kill() })
		}
		err = g.maria.CreateDatabase(t.Context(), name)
		driver, dsn, address, url = "mysql", g.maria.DSN(name), g.maria.Addr(), "mysql://root@%s/"+name
	case onPostgres:
		if g.postgres == nil {
			if g.postgres, err = servers.StartPostgres(t.Context(), servers.PostgresOptions{Dir: filepath.Join(g.dir, "postgres"), Extra: []string{"-c", "synchronous_commit=off"}}); err != nil {
				t.Fatal(err)
			}
			g.t.Cleanup(func() { _ = g.postgres.Kill() })
		}
		err = g.postgres.CreateDatabase(t.Context(), name)
		driver, dsn, address, url = "pgx", g.postgres.URL(name), g.postgres.Addr(), "postgres://postgres@%s/"+name+"?sslmode=disable"
	case onGalera:
		db, url = g.connectGalera(t, name)
		return db, "", url
	default:
		file := filepath.Join(t.TempDir(), "sluice.db")
		driver, dsn, url = "sqlite", "file:"+file+"?mode=ro", "sqlite:"+file
	}
	if err != nil {
		t.Fatal(err)
	}
	if db, err = sql.Open(driver, dsn); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db, address, url
}

// dialNode connects to one server, also of a cluster, which it then asks as a
// whole if cluster is set.
func dialNode(node *servers.Redis, cluster bool) (rueidis.Client, error) {
	option, err := rueidis.ParseURL(node.URL())
	if err != nil {
		return nil, err
	}
	option.DisableCache, option.DisableRetry, option.ForceSingleClient = true, true, !cluster
	return rueidis.NewClient(option)
}

// copyTree copies a directory of files.
func copyTree(from, to string) error {
	if err := os.RemoveAll(to); err != nil {
		return err
	}
	return os.CopyFS(to, os.DirFS(from))
}

// tables lists the tables of a database.
func tables(ctx context.Context, db *sql.DB, base string) ([]string, error) {
	query := "SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE() AND table_type = 'BASE TABLE' ORDER BY table_name"
	if base == onPostgres { // partitions go with their table
		query = "SELECT c.relname FROM pg_class c WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition ORDER BY c.relname"
	}
	rows, err := db.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, err
		}
		all = append(all, name)
	}
	return all, rows.Err()
}

// snapshotSQL copies all tables at one moment, into tables beside them that only
// this test knows. Writers wait meanwhile (MariaDB) or do not notice
// (PostgreSQL).
func snapshotSQL(ctx context.Context, db *sql.DB, base, name string) error {
	return runTables(ctx, db, base, func(all []string) (steps []string) {
		if base == onPostgres {
			steps = append(steps, "BEGIN ISOLATION LEVEL REPEATABLE READ", "CREATE SCHEMA snapshot")
			for _, table := range all {
				steps = append(steps, fmt.Sprintf("CREATE TABLE snapshot.%s AS TABLE public.%[1]s", table))
			}
			return append(steps, "COMMIT")
		}
		steps = append(steps, "CREATE DATABASE "+name+"_snapshot")
		var locks, copies []string
		for _, table := range all {
			steps = append(steps, fmt.Sprintf("CREATE TABLE %s_snapshot.%s LIKE %[1]s.%[2]s", name, table))
			locks = append(locks, fmt.Sprintf("%s.%s READ, %[1]s_snapshot.%[2]s WRITE", name, table))
			copies = append(copies, fmt.Sprintf("INSERT INTO %s_snapshot.%s SELECT * FROM %[1]s.%[2]s", name, table))
		}
		steps = append(steps, "SET sql_mode = 'NO_AUTO_VALUE_ON_ZERO'", "LOCK TABLES "+strings.Join(locks, ", "))
		return append(append(steps, copies...), "UNLOCK TABLES")
	})
}

// putBackSQL puts the tables back as snapshotSQL found them. No client may be
// connected.
func putBackSQL(ctx context.Context, db *sql.DB, base, name string) error {
	return runTables(ctx, db, base, func(all []string) []string {
		steps, copied := []string{"SET sql_mode = 'NO_AUTO_VALUE_ON_ZERO'"}, "INSERT INTO %[1]s.%[2]s SELECT * FROM %[1]s_snapshot.%[2]s"
		if base == onPostgres {
			name, steps, copied = "public", []string{"BEGIN"}, "INSERT INTO %[1]s.%[2]s OVERRIDING SYSTEM VALUE SELECT * FROM snapshot.%[2]s"
		}
		for _, table := range all {
			steps = append(steps, fmt.Sprintf("TRUNCATE %s.%s", name, table), fmt.Sprintf(copied, name, table))
		}
		return append(steps, "COMMIT")
	})
}

// runTables runs the steps for all tables of a database in one session.
func runTables(ctx context.Context, db *sql.DB, base string, steps func(tables []string) []string) error {
	all, err := tables(ctx, db, base)
	if err != nil {
		return err
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	for _, step := range steps(all) {
		if _, err := conn.ExecContext(ctx, step); err != nil {
			return fmt.Errorf("%s: %w", step, err)
		}
	}
	return nil
}
