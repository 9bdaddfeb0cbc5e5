package sqlstore_test

import (
	"context"
	"database/sql"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/lib/doctor"
	"sluice/store/sqlstore"
	"sluice/test/servers"
)

// A binary log that is not synced takes committed transactions back.
func TestExamineABinaryLogThatIsNotSynced(t *testing.T) {
	t.Parallel()
	server, err := servers.StartMariaDB(t.Context(), servers.MariaDBOptions{Dir: filepath.Join(t.TempDir(), "mariadb"), Extra: []string{"--log-bin"}})
	must(t, err)
	t.Cleanup(func() { _ = server.Kill() })
	must(t, server.CreateDatabase(t.Context(), "d"))
	db := bypass(t, "mysql", server.DSN("d"))
	x := sqlstore.Examiner{URL: server.SocketURL("d")}
	for sync, want := range map[string]doctor.Severity{"0": doctor.SeverityWarning, "1": doctor.SeverityOK, "100": doctor.SeverityWarning} {
		exec(t, db, "SET GLOBAL sync_binlog = "+sync)
		if got := examined(t, x)[doctor.CheckDatabaseDurability]; got != want {
			t.Errorf("sync_binlog %s is %q, want %q", sync, got, want)
		}
	}
	// What a start looks at, and for how many processes.
	x.Brief, x.Processes = true, func(context.Context) int { return 40 }
	found := examined(t, x)
	if found[doctor.CheckDatabaseConnections] != doctor.SeverityError || found[doctor.CheckDatabaseSchema] != "" || found[doctor.CheckLedger] != "" {
		t.Errorf("40 processes on a server with 151 connections: %v", found)
	}
	x.Processes = func(context.Context) int { return 7 }
	for writers, want := range map[int]doctor.Severity{0: doctor.SeverityOK, 1: doctor.SeverityOK, 4: doctor.SeverityOK, 5: doctor.SeverityError} {
		x.Writers = writers
		if got := examined(t, x)[doctor.CheckDatabaseConnections]; got != want {
			t.Errorf("7 processes of %d writers on a server with 151 connections: %q, want %q", writers, got, want)
		}
	}
	// 14 processes of two writers have no room, and choose one each. One partition has one.
	x.Processes = func(context.Context) int { return 14 }
	for _, c := range []struct {
		writers, partitions int
		want                doctor.Severity
	}{{0, 0, doctor.SeverityOK}, {2, 0, doctor.SeverityError}, {2, 1, doctor.SeverityOK}} {
		x.Writers, x.Partitions = c.writers, c.partitions
		if got := examined(t, x)[doctor.CheckDatabaseConnections]; got != c.want {
			t.Errorf("14 processes of %d writers and %d partitions on a server with 151 connections: %q, want %q", c.writers, c.partitions, got, c.want)
		}
	}
	wantRedo(t, x, db)
	exec(t, db, "SET GLOBAL innodb_buffer_pool_size = 5242880")
	wantMemory(t, x, db, "INSERT INTO users (part, number, updated, to_part, to_number, profile) SELECT 0, seq, NOW(), 0, 0, REPEAT('x', 1000) FROM seq_1_to_10000", "ANALYZE TABLE users")
}

// Each of PostgreSQL's settings, at the server, the user and in the URL.
func TestExamineAPostgresThatForgets(t *testing.T) {
	t.Parallel()
	server, err := servers.StartPostgres(t.Context(), servers.PostgresOptions{Dir: filepath.Join(t.TempDir(), "postgres"), Extra: []string{"-c", "shared_buffers=256kB"}})
	must(t, err)
	t.Cleanup(func() { _ = server.Kill() })
	must(t, server.CreateDatabase(t.Context(), "d"))
	db := bypass(t, "pgx", server.SocketURL("d"))
	x := sqlstore.Examiner{URL: server.SocketURL("d"), Brief: true}
	// A reload reaches a session a moment after it is asked for.
	settles := func(what string, want doctor.Severity) {
		t.Helper()
		deadline := time.Now().Add(3 * time.Minute)
		for got := doctor.Severity(""); got != want; got = examined(t, x)[doctor.CheckDatabaseDurability] {
			if time.Now().After(deadline) {
				t.Fatalf("%s: it is %q, want %q", what, got, want)
			}
		}
	}
	settles("a good server", doctor.SeverityOK)
	for setting, want := range map[string]doctor.Severity{"fsync = off": doctor.SeverityError, "full_page_writes = off": doctor.SeverityError, "synchronous_commit = off": doctor.SeverityWarning,
		"synchronous_commit = local": doctor.SeverityOK} {
		name, _, _ := strings.Cut(setting, " ")
		exec(t, db, "ALTER SYSTEM SET "+setting)
		exec(t, db, "SELECT pg_reload_conf()")
		settles(setting, want)
		exec(t, db, "ALTER SYSTEM RESET "+name)
		exec(t, db, "SELECT pg_reload_conf()")
		settles(name+" as it was", doctor.SeverityOK)
	}
	x.URL += "&options=-c%20synchronous_commit%3Doff"
	if !strings.Contains(x.URL, "?") {
		x.URL = strings.Replace(x.URL, "&", "?", 1)
	}
	settles("synchronous_commit in the URL", doctor.SeverityWarning)
	x.URL = server.SocketURL("d")
	wantMemory(t, x, db, "INSERT INTO users (part, number, updated, to_part, to_number, profile) SELECT 0, n, NOW(), 0, 0, repeat('x', 500) FROM generate_series(1, 2000) n")
}

// wantMemory wants users to be compared with what the server keeps in memory: without a
// table, with an empty one, and with those that statements make.
func wantMemory(t *testing.T, x sqlstore.Examiner, db *sql.DB, more ...string) {
	t.Helper()
	for _, step := range []struct {
		what string
		do   func()
		want doctor.Severity
	}{
		{"no table", func() {}, doctor.SeverityOK},
		{"an empty table", func() { migrated(t, x.URL, sqlstore.Options{}) }, doctor.SeverityOK},
		{"users", func() {
			for _, statement := range more {
				exec(t, db, statement)
			}
		}, doctor.SeverityWarning},
	} {
		step.do()
		if got := examined(t, x)[doctor.CheckDatabaseMemory]; got != step.want {
			t.Errorf("%s: it is %q, want %q", step.what, got, step.want)
		}
	}
}

// wantRedo wants a large memory for tables to be compared with the redo log of a MariaDB.
func wantRedo(t *testing.T, x sqlstore.Examiner, db *sql.DB) {
	t.Helper()
	for _, step := range []struct {
		statement string
		want      doctor.Severity
	}{
		{"SET GLOBAL innodb_buffer_pool_size = 1 << 30", doctor.SeverityWarning},
		{"SET GLOBAL innodb_log_file_size = 128 << 20", doctor.SeverityOK},
	} {
		exec(t, db, step.statement)
		if got := examined(t, x)[doctor.CheckDatabaseMemory]; got != step.want {
			t.Errorf("%s: it is %q, want %q", step.statement, got, step.want)
		}
	}
}
