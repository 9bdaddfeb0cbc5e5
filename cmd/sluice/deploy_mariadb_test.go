package main

import (
	"crypto/rand"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sluice/test/servers"
)

const replicaConf = "deploy/mariadb/replica.cnf"

// maria is a server by a file of deploy/mariadb, and its operator: root, by its socket.
type maria struct {
	*servers.MariaDB
	db *sql.DB
}

// startMaria starts a server by a file with replacements. Directory, port, address and
// character set come from arguments, as they come from the file of Debian's package.
func startMaria(t *testing.T, file string, pairs ...string) *maria {
	t.Helper()
	dir := t.TempDir()
	own := filepath.Join(dir, filepath.Base(file))
	write(t, own, filledIn(t, file, readText(t, file), pairs...))
	if err := os.Chmod(own, 0o644); err != nil { // as root the server runs as mysql
		t.Fatal(err)
	}
	m, err := servers.StartMariaDB(t.Context(), servers.MariaDBOptions{Dir: filepath.Join(dir, "maria"), File: own})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Kill() })
	return operatorOf(t, m)
}

func operatorOf(t *testing.T, m *servers.MariaDB) *maria {
	t.Helper()
	db, err := sql.Open("mysql", m.DSN("")+"?multiStatements=true")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return &maria{m, db}
}

func (m *maria) run(t *testing.T, statements string) {
	t.Helper()
	if _, err := m.db.ExecContext(t.Context(), statements); err != nil {
		t.Fatalf("%s: %v", statements, err)
	}
}

func (m *maria) says(t *testing.T, query string) (answer string) {
	t.Helper()
	if err := m.db.QueryRowContext(t.Context(), query).Scan(&answer); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return answer
}

// replication is what SHOW SLAVE STATUS says in a column.
func (m *maria) replication(t *testing.T, column string) string {
	t.Helper()
	rows, err := m.db.QueryContext(t.Context(), "SHOW SLAVE STATUS")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil || !rows.Next() {
		t.Fatalf("it is no replica: %v %v", err, rows.Err())
	}
	cells, to := make([]sql.NullString, len(names)), make([]any, len(names))
	for i := range cells {
		to[i] = &cells[i]
	}
	if err := rows.Scan(to...); err != nil {
		t.Fatal(err)
	}
	for i, name := range names {
		if name == column {
			return cells[i].String
		}
	}
	t.Fatalf("SHOW SLAVE STATUS has no %s", column)
	return ""
}

// scaleSQL returns the statements of the page below a comment.
func scaleSQL(t *testing.T, comment string) string {
	t.Helper()
	found := regexp.MustCompile(`(?m)^-- `+regexp.QuoteMeta(comment)+`.*\n((?:[^-\x60].*\n)+)`).FindAllStringSubmatch(readText(t, scalePage), -1)
	if len(found) != 1 {
		t.Fatalf("%s has %d places with the comment %q, want 1", scalePage, len(found), comment)
	}
	return found[0][1]
}

// TestDeployedReplica: a primary and a replica by replica.cnf and the statements of the
// page. The primary is killed, the replica promoted, and the old primary follows it.
func TestDeployedReplica(t *testing.T) {
	t.Parallel()
	password := rand.Text()
	primary := startMaria(t, replicaConf)
	replica := startMaria(t, replicaConf, "server_id         = 1\n", "server_id         = 2\n")
	said := func(comment string, pairs ...string) string {
		return filledIn(t, scalePage, scaleSQL(t, comment), pairs...)
	}
	follow := func(host string, m *maria) []string { // the page has the usual port
		return []string{fmt.Sprintf("'%s'", host), fmt.Sprintf("'127.0.0.1', MASTER_PORT = %d", m.Port()), "PASSWORD = 'PASSWORD'", "PASSWORD = '" + password + "'"}
	}
	writes := said("on the primary, and on a new one behind a failover")
	primary.run(t, writes)
	primary.run(t, said("on the first primary, once", "10.0.0.%", "127.0.0.%", "PASSWORD", password))
	replica.run(t, said("on the replica", follow("10.0.0.1", primary)...))
	line := filledIn(t, scalePage, scaleLine(t, "database: mysql://USER:PASSWORD@10.0.0.1:3306,10.0.0.2:3306/sluice"),
		"USER", "sluice", "PASSWORD", password, "10.0.0.1:3306", primary.Addr(), "10.0.0.2:3306", replica.Addr())
	await(t, "the replica has the user of the program", func() bool {
		return replica.says(t, "SELECT COUNT(*) FROM mysql.user WHERE User = 'sluice'") == "1"
	})
	d := serveDeployed(t, line)
	d.well(t, "after the start")

	// What is not on the replica is stored again. Then the old primary could not follow
	// it: nothing is written from here to the kill.
	primary.run(t, "FLUSH TABLES WITH READ LOCK")
	await(t, "the replica has all", func() bool {
		return replica.says(t, "SELECT @@gtid_slave_pos") == primary.says(t, "SELECT @@gtid_binlog_pos")
	})
	if err := primary.Kill(); err != nil {
		t.Fatal(err)
	}
	first, rest, _ := strings.Cut(said("a failover, on the replica"), "\n")
	replica.run(t, first)
	await(t, "the replica has applied what it has received", func() bool {
		return strings.Contains(replica.replication(t, "Slave_SQL_Running_State"), "Slave has read all relay log")
	})
	replica.run(t, rest)
	d.store(t, "behind the promotion")
	if err := primary.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if is := primary.says(t, "SELECT @@read_only"); is != "1" {
		t.Errorf("the old primary takes writes by itself: read_only is %s", is)
	}
	primary.run(t, said("on the old primary, when it is started again", follow("10.0.0.2", replica)...))
	d.well(t, "after the return of the old primary")
}
