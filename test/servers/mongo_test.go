package servers

import (
	"context"
	"net"
	"os"
	"path"
	"strings"
	"testing"
)

func TestMongoComesBackAfterAKill(t *testing.T) {
	m, err := StartMongo(limit(t), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	url := m.URL("db")
	if err := m.Kill(); err != nil {
		t.Fatal(err)
	}
	if conn, err := net.Dial("unix", m.socket); err == nil {
		t.Errorf("it still listens: %v", conn.Close())
	}
	if err := m.Restart(limit(t)); err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("unix", m.socket)
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(); err != nil || m.URL("db") != url {
		t.Errorf("%v; url %s, was %s", err, m.URL("db"), url)
	}
}

// The script and this package must mean the same program.
func TestMongoIsWhatTheScriptBuilds(t *testing.T) {
	script, err := os.ReadFile("../../scripts/install-deps.sh")
	if err != nil {
		t.Fatal(err)
	}
	if dir := path.Dir(mongoProgram); !strings.Contains(string(script), "/"+dir+"\n") {
		t.Errorf("scripts/install-deps.sh does not name %s", dir)
	}
}
