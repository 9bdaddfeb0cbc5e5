package servers

import (
	"path/filepath"
	"testing"
)

// A standby of PostgreSQL has what its primary had, and takes writes when it is promoted.
func TestStandbyOfPostgres(t *testing.T) {
	first := startPostgres(t, PostgresOptions{})
	psql(t, first, "CREATE TABLE a AS SELECT 7 AS n")
	second, err := StartStandby(limit(t), PostgresOptions{Dir: filepath.Join(t.TempDir(), "standby")}, first, first.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = second.Kill() })
	if _, err := second.client(limit(t), "INSERT INTO a VALUES (8)"); err == nil {
		t.Error("a standby takes writes")
	}
	if err := first.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := second.Promote(limit(t)); err != nil {
		t.Fatal(err)
	}
	if got := psql(t, second, "INSERT INTO a VALUES (8); SELECT sum(n) FROM a"); got != "INSERT 0 1\n15" {
		t.Errorf("the standby says %q", got)
	}
}

// A replica of MariaDB has what its primary had, and takes writes when it is promoted.
func TestStandbyOfMariaDB(t *testing.T) {
	var pair [2]*MariaDB
	for i := range pair {
		m, err := StartMariaDB(limit(t), MariaDBOptions{Dir: filepath.Join(t.TempDir(), "m"), Extra: ReplicaArguments(1 + i)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = m.Kill() })
		pair[i] = m
	}
	if err := pair[0].CreateDatabase(limit(t), "a"); err != nil {
		t.Fatal(err)
	}
	if _, err := pair[0].say(limit(t), "CREATE TABLE a.a AS SELECT 7 AS n"); err != nil {
		t.Fatal(err)
	}
	if err := pair[1].Follow(limit(t), pair[0], pair[0].Addr()); err != nil {
		t.Fatal(err)
	}
	if got, err := pair[1].say(limit(t), "SELECT @@read_only, n FROM a.a"); err != nil || got != "1\t7" {
		t.Errorf("the replica says %q (%v), want that it takes no writes, and 7", got, err)
	}
	if err := pair[0].Kill(); err != nil {
		t.Fatal(err)
	}
	if err := pair[1].Promote(limit(t)); err != nil {
		t.Fatal(err)
	}
	if got, err := pair[1].say(limit(t), "INSERT INTO a.a VALUES (8); SELECT @@read_only, SUM(n) FROM a.a"); err != nil || got != "0\t15" {
		t.Errorf("the replica says %q (%v)", got, err)
	}
}
