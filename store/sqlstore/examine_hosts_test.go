package sqlstore_test

import (
	"database/sql"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice"
	"sluice/lib/doctor"
	"sluice/store/sqlstore"
	"sluice/test/servers"
)

// wantHosts examines the hosts of a URL, of which other things are wrong or not.
func wantHosts(t *testing.T, what, url string, want doctor.Severity) {
	t.Helper()
	lookAgain(t, func() (wrong string) {
		if got := examined(t, sqlstore.Examiner{URL: url, Brief: true})[doctor.CheckDatabaseHosts]; got != want {
			wrong = fmt.Sprintf("%s: the hosts are %q, want %q", what, got, want)
		}
		return wrong
	})
}

// lookAgain looks until nothing is wrong: a host that answers late, as on a busy machine, is
// taken for one that is away.
func lookAgain(t *testing.T, look func() (wrong string)) {
	t.Helper()
	for limit := time.Now().Add(3 * time.Minute); ; {
		wrong := look()
		if wrong == "" {
			return
		}
		if time.Now().After(limit) {
			t.Error(wrong)
			return
		}
	}
}

func TestExamineHostsMariaDB(t *testing.T) {
	t.Parallel()
	p := startPair(t)
	replica := p.past[1]
	_, port, err := net.SplitHostPort(p.servers[0].Addr())
	must(t, err)
	wantHosts(t, "one host", strings.Replace(p.url, ","+p.servers[1].Addr(), "", 1), "")
	wantHosts(t, "a user who may not see how the replica stands", p.url, doctor.SeverityUnknown)
	exec(t, p.past[0], "GRANT REPLICA MONITOR ON *.* TO app@'%'")
	p.await(t)
	wantHosts(t, "a replica that follows", p.url, doctor.SeverityOK)
	wantHosts(t, "a name that is wrong", strings.Replace(p.url, "@", "@127.0.0.1:1,", 1), doctor.SeverityWarning)
	wantHosts(t, "two names of one server", strings.Replace(p.url, "@", "@localhost:"+port+",", 1), doctor.SeverityOK)

	// A replica counts from the last event that it has applied: that is old, and the next
	// one waits for a table.
	exec(t, p.past[0], "CREATE TABLE app.free (n INT)")
	exec(t, p.past[0], "CREATE TABLE app.locked (n INT)")
	p.await(t)
	locks, err := replica.Conn(t.Context())
	must(t, err)
	_, err = locks.ExecContext(t.Context(), "LOCK TABLES app.locked WRITE")
	must(t, err)
	old, err := p.past[0].Conn(t.Context())
	must(t, err)
	for _, statement := range []string{"SET timestamp = UNIX_TIMESTAMP() - 1000", "INSERT INTO app.free VALUES (1)", "INSERT INTO app.locked VALUES (1)"} {
		_, err = old.ExecContext(t.Context(), statement)
		must(t, err)
	}
	must(t, old.Close())
	for !behind(t, replica) {
		<-time.After(10 * time.Millisecond)
	}
	wantHosts(t, "a replica that is far behind", p.url, doctor.SeverityWarning)
	_, err = locks.ExecContext(t.Context(), "UNLOCK TABLES")
	must(t, err)
	must(t, locks.Close())
	for behind(t, replica) {
		<-time.After(10 * time.Millisecond)
	}
	wantHosts(t, "a replica that has caught up", p.url, doctor.SeverityOK)

	exec(t, replica, "STOP SLAVE")
	wantHosts(t, "a replica that stands still", p.url, doctor.SeverityWarning)
	exec(t, replica, "RESET SLAVE ALL")
	wantHosts(t, "a server that is read-only and follows none", p.url, doctor.SeverityWarning)
	alone := strings.Replace(p.url, p.servers[0].Addr()+",", "", 1)
	open(t, alone, sqlstore.Options{ReadOnly: true})
	if _, err := sqlstore.Open(t.Context(), alone, sqlstore.Options{Exclusive: true}); err == nil || !sqlstore.IsAway(err) || !strings.Contains(err.Error(), "SET GLOBAL read_only = 0") {
		t.Errorf("a program that writes opens a read-only server: %v", err)
	}
	exec(t, replica, "SET GLOBAL read_only = 0")
	wantHosts(t, "two primaries", p.url, doctor.SeverityError)
}

// behind reports whether a replica says that it is 100 s behind at least.
func behind(t *testing.T, replica *sql.DB) bool {
	t.Helper()
	rows, err := replica.QueryContext(t.Context(), "SHOW SLAVE STATUS")
	must(t, err)
	defer rows.Close()
	names, err := rows.Columns()
	must(t, err)
	if !rows.Next() {
		t.Fatal("it is no replica")
	}
	cells, into := make([]sql.NullString, len(names)), make([]any, len(names))
	for i := range cells {
		into[i] = &cells[i]
	}
	must(t, rows.Scan(into...))
	for i, name := range names {
		if name == "Seconds_Behind_Master" {
			return len(cells[i].String) > 2
		}
	}
	return false
}

// postgresPair starts a primary and its standby, and returns a URL that names both.
func postgresPair(t *testing.T) (primary, standby *servers.Postgres, url string) {
	t.Helper()
	primary, err := servers.StartPostgres(t.Context(), servers.PostgresOptions{Dir: filepath.Join(t.TempDir(), "primary"), Extra: []string{"-c", "fsync=off"}})
	must(t, err)
	t.Cleanup(func() { _ = primary.Kill() })
	must(t, primary.CreateDatabase(t.Context(), "app"))
	standby, err = servers.StartStandby(t.Context(), servers.PostgresOptions{Dir: filepath.Join(t.TempDir(), "standby"), Extra: []string{"-c", "fsync=off"}}, primary, primary.Addr())
	must(t, err)
	t.Cleanup(func() { _ = standby.Kill() })
	return primary, standby, strings.Replace(primary.URL("app"), "/app", ","+standby.Addr()+"/app", 1)
}

func TestExamineHostsPostgres(t *testing.T) {
	t.Parallel()
	primary, standby, url := postgresPair(t)
	wantHosts(t, "one host", primary.URL("app"), "")
	wantHosts(t, "a standby that follows", url, doctor.SeverityOK)
	wantHosts(t, "a name that is wrong", strings.Replace(url, "@", "@127.0.0.1:1,", 1), doctor.SeverityWarning)
	must(t, standby.Promote(t.Context()))
	wantHosts(t, "two primaries", url, doctor.SeverityError)
	must(t, standby.Kill())
	wantHosts(t, "a standby that is dead", url, doctor.SeverityWarning)
	wantRemedy(t, "a host that may have been the primary", url, doctor.CheckDatabaseHosts, "come back as a replica")
}

// While no host takes writes, a replica is to be promoted: that the servers have no TLS is
// no reason, for sslmode=prefer does without.
func TestExamineHostsWithoutPrimary(t *testing.T) {
	t.Parallel()
	primary, _, url := postgresPair(t)
	must(t, primary.Kill())
	for _, mode := range []string{"disable", "prefer"} {
		wantRemedy(t, mode, strings.Replace(url, "sslmode=disable", "sslmode="+mode, 1), doctor.CheckDatabaseReachable, "promote a replica")
	}
}

// wantRemedy examines a URL, of which a check says what is to be done.
func wantRemedy(t *testing.T, what, url string, check doctor.Check, want string) {
	t.Helper()
	lookAgain(t, func() (wrong string) {
		e := (&sqlstore.Examiner{URL: url, Brief: true, Clock: sluice.SystemClock{}}).Examine(t.Context())
		for _, f := range e.Findings {
			if f.Check == check && strings.Contains(f.Remedy, want) {
				return ""
			}
		}
		return fmt.Sprintf("%s: no finding %s has the remedy %q: %+v", what, check, want, e.Findings)
	})
}
