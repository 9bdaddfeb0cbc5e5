package sqlstore_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice"
	"sluice/lib/doctor"
	"sluice/store"
	"sluice/store/sqlstore"
)

// clockAhead is the machine's clock, or one that is wrong.
type clockAhead time.Duration

func (c clockAhead) Now() time.Time { return time.Now().Add(time.Duration(c)) }

// examined returns the worst severity of each check.
func examined(t *testing.T, x sqlstore.Examiner) map[doctor.Check]doctor.Severity {
	t.Helper()
	if x.Clock == nil {
		x.Clock = sluice.SystemClock{}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	found := make(map[doctor.Check]doctor.Severity)
	rank := map[doctor.Severity]int{"": 0, doctor.SeverityOK: 1, doctor.SeverityUnknown: 2, doctor.SeverityWarning: 3, doctor.SeverityError: 4}
	for _, f := range x.Examine(ctx).Findings {
		t.Logf("%-8s %s: %s", f.Severity, f.Check, f.Found)
		if rank[f.Severity] > rank[found[f.Check]] {
			found[f.Check] = f.Severity
		}
		bad := f.Severity == doctor.SeverityWarning || f.Severity == doctor.SeverityError
		if f.Found == "" || f.Where == "" || bad != (f.Remedy != "") {
			t.Errorf("a finding without a place, a text or a remedy, or with one too much: %+v", f)
		}
		if strings.Contains(f.Found+f.Where+f.Remedy, "s3cret") {
			t.Errorf("it shows the password: %+v", f)
		}
	}
	return found
}

func wantAll(t *testing.T, what string, found map[doctor.Check]doctor.Severity, want doctor.Severity, but ...doctor.Check) {
	t.Helper()
	for check, severity := range found {
		excepted := false
		for _, c := range but {
			excepted = excepted || c == check
		}
		if severity != want && !excepted {
			t.Errorf("%s: %s is %s, want %s", what, check, severity, want)
		}
	}
}

// examineCase is one thing set wrong, and what is found.
type examineCase struct {
	do   string // statements, by ;
	url  string // empty: the database's own user
	want doctor.Check
	as   doctor.Severity
}

func TestExamineMariaDB(t *testing.T) {
	name := newDatabase(t)
	db := bypass(t, "mysql", mariadb.DSN(name))
	x := sqlstore.Examiner{URL: mariadb.SocketURL(name), Keeps: true, Tables: []store.TableSpec{{Table: "mine", Columns: []string{"id"}}}}
	exec(t, db, "SET GLOBAL time_zone = '+00:00'") // whatever the machine's is
	found := examined(t, x)
	for check, want := range map[doctor.Check]doctor.Severity{doctor.CheckDatabaseSchema: doctor.SeverityWarning, doctor.CheckDatabaseRights: doctor.SeverityOK, doctor.CheckListTable: doctor.SeverityError} {
		if found[check] != want {
			t.Errorf("an empty database: %s is %q, want %s", check, found[check], want)
		}
	}
	migrated(t, mariadb.SocketURL(name), sqlstore.Options{})
	exec(t, db, "CREATE TABLE mine (id INT NOT NULL, CHECK (id > 0))")
	wantAll(t, "a good database", examined(t, x), doctor.SeverityOK)
	var packet, infile, mode, zone string
	must(t, db.QueryRowContext(t.Context(), "SELECT @@GLOBAL.max_allowed_packet, @@GLOBAL.local_infile, @@GLOBAL.sql_mode, @@GLOBAL.time_zone").Scan(&packet, &infile, &mode, &zone))
	t.Cleanup(func() {
		for _, statement := range []string{"max_allowed_packet = " + packet, "local_infile = " + infile, "sql_mode = '" + mode + "'", "time_zone = 'SYSTEM'", "read_only = 0", "innodb_flush_log_at_trx_commit = 1", "max_connections = 151"} {
			if _, err := db.Exec("SET GLOBAL " + statement); err != nil {
				t.Error(err)
			}
		}
	})
	user := func(u string) string { return "mysql://" + u + ":s3cret@" + mariadb.Addr() + "/" + name }
	for _, test := range []examineCase{
		{"SET GLOBAL max_allowed_packet = 4194304", "", doctor.CheckDatabasePacket, doctor.SeverityError},
		{"SET GLOBAL max_allowed_packet = 16777216; SET GLOBAL local_infile = 0", "", doctor.CheckDatabaseInfile, doctor.SeverityWarning},
		{"SET GLOBAL sql_mode = ''", "", doctor.CheckDatabaseStrict, doctor.SeverityWarning},
		{"SET GLOBAL time_zone = '+05:30'", "", doctor.CheckDatabaseTimeZone, doctor.SeverityWarning},
		{"SET GLOBAL innodb_flush_log_at_trx_commit = 2", "", doctor.CheckDatabaseDurability, doctor.SeverityWarning},
		{"SET GLOBAL innodb_flush_log_at_trx_commit = 0", "", doctor.CheckDatabaseDurability, doctor.SeverityError},
		{"SET GLOBAL innodb_flush_log_at_trx_commit = 1", "", doctor.CheckDatabaseDurability, doctor.SeverityOK},
		{"SET GLOBAL max_connections = 12", "", doctor.CheckDatabaseConnections, doctor.SeverityError},
		{"SET GLOBAL max_connections = 151", "", doctor.CheckDatabaseConnections, doctor.SeverityOK},
		{"SET GLOBAL read_only = 1", "", doctor.CheckDatabaseWritable, doctor.SeverityError},
		{"SET GLOBAL read_only = 0; CREATE USER reader@'%' IDENTIFIED BY 's3cret'", user("reader"), doctor.CheckDatabaseReachable, doctor.SeverityError},
		{"DO 1", strings.Replace(user("reader"), "s3cret", "s3cret2", 1), doctor.CheckDatabaseReachable, doctor.SeverityError},
		{"GRANT SELECT ON " + name + ".* TO reader@'%'", user("reader"), doctor.CheckDatabaseRights, doctor.SeverityError},
		{"GRANT INSERT, UPDATE, DELETE ON " + name + ".* TO reader@'%'", user("reader"), doctor.CheckDatabaseRights, doctor.SeverityWarning},
		{"GRANT CREATE, ALTER, DROP ON " + name + ".* TO reader@'%'", user("reader"), doctor.CheckDatabaseRights, doctor.SeverityOK},
		{"DROP TABLE schema_readable", user("reader"), doctor.CheckDatabaseRights, doctor.SeverityOK},
		{"DELETE FROM schema_version WHERE version > 2", user("reader"), doctor.CheckDatabaseRights, doctor.SeverityWarning},
		{"GRANT INDEX ON " + name + ".* TO reader@'%'", user("reader"), doctor.CheckDatabaseRights, doctor.SeverityOK},
		{"DO 1", "", doctor.CheckDatabaseSchema, doctor.SeverityWarning},
		{"INSERT INTO schema_version (version, name, applied_at) VALUES (999, 'later', NOW())", "", doctor.CheckDatabaseSchema, doctor.SeverityError},
		{"ALTER TABLE mine CHANGE id number INT", "", doctor.CheckListTable, doctor.SeverityError},
	} {
		for statement := range strings.SplitSeq(test.do, ";") {
			exec(t, db, statement)
		}
		at := x
		if test.url != "" {
			at.URL = test.url
		}
		if got := examined(t, at)[test.want]; got != test.as {
			t.Errorf("after %s: %s is %q, want %q", test.do, test.want, got, test.as)
		}
	}
	exec(t, db, "DROP USER reader@'%'")
	if got := queryTexts(t, db, "SELECT (SELECT COUNT(*) FROM mine), (SELECT COUNT(*) FROM cursors), (SELECT COUNT(*) FROM schema_version)"); strings.Join(got[0], " ") != "0 1 3" {
		t.Errorf("it wrote: rows %v", got)
	}
	x.Clock = clockAhead(-time.Hour)
	if got := examined(t, x)[doctor.CheckDatabaseClock]; got != doctor.SeverityError {
		t.Errorf("a clock that is an hour ahead is %q", got)
	}
}

func TestExaminePostgres(t *testing.T) {
	name := newPostgresDatabase(t)
	db := bypass(t, "pgx", postgres.SocketURL(name))
	x := sqlstore.Examiner{URL: postgres.SocketURL(name), Keeps: true, Writers: 1, Tables: []store.TableSpec{{Table: "mine", Columns: []string{"id"}}}}
	if got := examined(t, x)[doctor.CheckDatabaseSchema]; got != doctor.SeverityWarning {
		t.Errorf("an empty database's schema is %q", got)
	}
	migrated(t, postgres.SocketURL(name), sqlstore.Options{})
	exec(t, db, "CREATE TABLE mine (id INT NOT NULL)")
	found := examined(t, x)
	wantAll(t, "a good database", found, doctor.SeverityOK, doctor.CheckDatabaseDurability)
	if found[doctor.CheckDatabaseDurability] != doctor.SeverityError { // this server, which saves time in tests, has fsync=off
		t.Errorf("fsync=off is %q", found[doctor.CheckDatabaseDurability])
	}
	exec(t, db, "CREATE USER reader PASSWORD 's3cret'")
	t.Cleanup(func() { _, _ = db.Exec("DROP OWNED BY reader; DROP USER reader") })
	reader := strings.Replace(postgres.URL(name), "postgres@", "reader:s3cret@", 1)
	for _, test := range []examineCase{
		{"SELECT 1", reader, doctor.CheckDatabaseRights, doctor.SeverityError},
		{"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO reader", reader, doctor.CheckDatabaseRights, doctor.SeverityWarning},
		{"REVOKE SELECT ON schema_readable FROM reader", reader, doctor.CheckDatabaseRights, doctor.SeverityError},
		{"DROP TABLE schema_readable", reader, doctor.CheckDatabaseRights, doctor.SeverityWarning},
		{"GRANT postgres TO reader", reader, doctor.CheckDatabaseRights, doctor.SeverityOK},
		{"REVOKE postgres FROM reader; ALTER TABLE events OWNER TO reader; GRANT CREATE ON SCHEMA public TO reader", reader, doctor.CheckDatabaseRights, doctor.SeverityOK},
		{"REVOKE TEMPORARY ON DATABASE " + name + " FROM PUBLIC", reader, doctor.CheckDatabaseRights, doctor.SeverityWarning},
		{"DELETE FROM schema_version WHERE version > 2; REVOKE CREATE ON SCHEMA public FROM reader", reader, doctor.CheckDatabaseRights, doctor.SeverityError},
		{"ALTER USER reader CONNECTION LIMIT 14", reader, doctor.CheckDatabaseConnections, doctor.SeverityError},
		{"ALTER USER reader CONNECTION LIMIT 15", reader, doctor.CheckDatabaseConnections, doctor.SeverityOK},
		{"ALTER USER reader SET default_transaction_read_only = on", reader, doctor.CheckDatabaseWritable, doctor.SeverityError},
		{"REVOKE CONNECT ON DATABASE " + name + " FROM PUBLIC", reader, doctor.CheckDatabaseReachable, doctor.SeverityError},
		{"SELECT 1", strings.Replace(reader, name, "absent", 1), doctor.CheckDatabaseReachable, doctor.SeverityError},
	} {
		for statement := range strings.SplitSeq(test.do, ";") {
			exec(t, db, statement)
		}
		at := x
		if test.url != "" {
			at.URL = test.url
		}
		if got := examined(t, at)[test.want]; got != test.as {
			t.Errorf("after %s: %s is %q, want %q", test.do, test.want, got, test.as)
		}
	}
	latin := name + "_latin"
	exec(t, db, "CREATE DATABASE "+latin+" ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0")
	if got := examined(t, sqlstore.Examiner{URL: postgres.SocketURL(latin)})[doctor.CheckDatabaseEncoding]; got != doctor.SeverityError {
		t.Errorf("the encoding LATIN1 is %q", got)
	}
}

func TestExamineSQLite(t *testing.T) {
	file := filepath.Join(t.TempDir(), "sluice.db")
	x := sqlstore.Examiner{URL: "sqlite:" + file}
	wantAll(t, "no file", examined(t, x), doctor.SeverityUnknown, doctor.CheckDatabaseReachable)
	if got := examined(t, x)[doctor.CheckDatabaseReachable]; got != doctor.SeverityWarning {
		t.Errorf("a file that is not there is %q", got)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("it has made the file")
	}
	migrated(t, "sqlite:"+file, sqlstore.Options{})
	wantAll(t, "a good file", examined(t, x), doctor.SeverityOK)
	exec(t, bypass(t, "sqlite", "file:"+file), "DROP TABLE schema_readable")
	wantAll(t, "a file without schema_readable", examined(t, x), doctor.SeverityOK)
	must(t, os.WriteFile(file+"2", []byte(strings.Repeat("no database ", 100)), 0o600))
	x.URL += "2"
	if got := examined(t, x)[doctor.CheckDatabaseReachable]; got != doctor.SeverityError {
		t.Errorf("a file that is no database is %q", got)
	}
	var e doctor.Examination
	if sqlstore.JudgeFileSystem(&e, "NFS"); e.Findings[0].Severity != doctor.SeverityError {
		t.Errorf("%+v", e.Findings)
	}
}

// Databases that are away, or accept and say nothing, are said so within the
// examination's time, and what could not be looked at.
func TestExamineWithoutAnAnswer(t *testing.T) {
	mute, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = mute.Close() })
	for _, url := range []string{"mysql://u:s3cret@127.0.0.1:1/db", "postgres://u:s3cret@127.0.0.1:1/db"} {
		found := examined(t, sqlstore.Examiner{URL: url})
		wantAll(t, url, found, doctor.SeverityUnknown, doctor.CheckDatabaseReachable)
		if found[doctor.CheckDatabaseReachable] != doctor.SeverityError || len(found) < 5 {
			t.Errorf("%s: %v", url, found)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		e := (&sqlstore.Examiner{URL: strings.Replace(url, "127.0.0.1:1", mute.Addr().String(), 1)}).Examine(ctx)
		cancel()
		if e.Findings[0].Severity != doctor.SeverityError || len(e.Findings) != len(found) {
			t.Errorf("a mute one: %+v", e.Findings)
		}
	}
}

// A server without TLS, and a URL that asks for it, are told as that.
func TestExamineWithoutTLS(t *testing.T) {
	t.Parallel()
	for _, url := range []string{mariadb.URL(newDatabase(t)) + "?tls=true", strings.Replace(postgres.URL(newPostgresDatabase(t)), "sslmode=disable", "sslmode=require", 1)} {
		e := (&sqlstore.Examiner{URL: url, Clock: sluice.SystemClock{}}).Examine(t.Context())
		if f := e.Findings[0]; f.Check != doctor.CheckDatabaseReachable || f.Severity != doctor.SeverityError || !strings.Contains(f.Remedy, "TLS") {
			t.Errorf("%+v", f)
		}
	}
}
