package servers

import (
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func startMariaDB(t *testing.T, opt MariaDBOptions) *MariaDB {
	t.Helper()
	if opt.Dir == "" {
		opt.Dir = filepath.Join(t.TempDir(), "data")
	}
	m, err := StartMariaDB(limit(t), opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return m
}

// query runs SQL through the server's own client, over TCP as URL says it.
func query(t *testing.T, m *MariaDB, sql string) string {
	t.Helper()
	out, err := exec.CommandContext(limit(t), m.client, "--no-defaults", "--protocol=tcp", "--host=127.0.0.1",
		"--port="+strings.TrimPrefix(m.Addr(), "127.0.0.1:"), "--user=root", "--skip-column-names", "--batch", "--execute="+sql).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v: %s", sql, err, out)
	}
	return strings.TrimSpace(string(out))
}

// A server that starts empties its directory of temporary tables, so each has
// one of its own, which is no database.
func TestMariaDBSharesNoTemporaryTables(t *testing.T) {
	m := startMariaDB(t, MariaDBOptions{})
	if got := query(t, m, "SELECT @@tmpdir"); got != m.tempDir() {
		t.Errorf("temporary tables are in %s, want %s", got, m.tempDir())
	}
	if got := query(t, m, "SHOW DATABASES"); strings.Contains(got, "tmp") {
		t.Errorf("databases: %s", got)
	}
}

func TestMariaDBKeepsItsDataOverKillAndRestart(t *testing.T) {
	m := startMariaDB(t, MariaDBOptions{})
	if err := m.CreateDatabase(limit(t), "od`d"); err != nil {
		t.Fatal(err)
	}
	query(t, m, "CREATE TABLE `od``d`.t (a INT); INSERT INTO `od``d`.t VALUES (7)")
	url := m.URL("x")
	if err := m.Kill(); err != nil {
		t.Fatal(err)
	}
	<-m.Exited()
	if err := m.Restart(limit(t)); err != nil {
		t.Fatal(err)
	}
	if got := query(t, m, "SELECT a FROM `od``d`.t"); got != "7" {
		t.Errorf("after the restart: got %q, want 7", got)
	}
	if m.URL("x") != url {
		t.Errorf("after the restart: url %s, was %s", m.URL("x"), url)
	}
	if got := query(t, m, "SELECT CONCAT(@@character_set_server, ' ', @@collation_server, ' ', @@bind_address)"); got != "utf8mb4 utf8mb4_general_ci 127.0.0.1" {
		t.Errorf("settings: got %q", got)
	}
}
