package servers

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func startPostgres(t *testing.T, opt PostgresOptions) *Postgres {
	t.Helper()
	if opt.Dir == "" {
		opt.Dir = filepath.Join(t.TempDir(), "pg")
	}
	p, err := StartPostgres(limit(t), opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return p
}

func psql(t *testing.T, p *Postgres, statement string) string {
	t.Helper()
	out, err := p.client(limit(t), statement)
	if err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
	return out
}

// TestPostgres: durable by its own defaults, kept over a kill, and restarted
// where it was.
func TestPostgres(t *testing.T) {
	p := startPostgres(t, PostgresOptions{})
	for setting, want := range map[string]string{"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on", "server_encoding": "UTF8"} {
		if got := psql(t, p, "SHOW "+setting); got != want {
			t.Errorf("%s is %q, want %q", setting, got, want)
		}
	}
	for range 2 {
		if err := p.CreateDatabase(limit(t), `it's "odd"`); err != nil {
			t.Fatal(err)
		}
	}
	psql(t, p, "CREATE TABLE kept AS SELECT 42 AS n")
	addr := p.Addr()
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := net.DialTimeout("tcp", addr, time.Second); err == nil {
		t.Fatal("a killed server answers")
	}
	if err := p.Restart(limit(t)); err != nil {
		t.Fatal(err)
	}
	if got := psql(t, p, "SELECT n FROM kept"); got != "42" || p.Addr() != addr {
		t.Errorf("after the restart at %s (was %s) the row is %q", p.Addr(), addr, got)
	}
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := p.Kill(); err != nil {
		t.Errorf("killing what is gone: %v", err)
	}
}

// TestPostgresPause: an open session of a paused server is not answered.
func TestPostgresPause(t *testing.T) {
	p := startPostgres(t, PostgresOptions{})
	if err := p.Pause(); err != nil {
		t.Fatal(err)
	}
	_, err := admits(p.Socket())
	var timeout net.Error
	if !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("a paused server answered: %v", err)
	}
	if err := p.Continue(); err != nil {
		t.Fatal(err)
	}
	if got := psql(t, p, "SELECT 1"); got != "1" {
		t.Errorf("continued, it answers %q", got)
	}
}

// TestPostgresHalfInstalled: what a killed initdb has left is made anew.
func TestPostgresHalfInstalled(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pg")
	if err := os.MkdirAll(filepath.Join(dir, "data.new", "base"), 0o700); err != nil {
		t.Fatal(err)
	}
	if got := psql(t, startPostgres(t, PostgresOptions{Dir: dir}), "SELECT 1"); got != "1" {
		t.Errorf("it answers %q", got)
	}
}
