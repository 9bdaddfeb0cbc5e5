package engine_test

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sluice/config"
	"sluice/engine"
	"sluice/test/servers"
)

// TestStartWarnsOfMixedVersions: a start on a cluster that was left in the middle of an
// upgrade says so, once, with what to do.
func TestStartWarnsOfMixedVersions(t *testing.T) {
	program, err := exec.LookPath("redis-server")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	link := filepath.Join(dir, "redis-server")
	if err := os.Symlink(program, link); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	c, err := servers.StartRedisCluster(t.Context(), servers.ClusterOptions{Dir: filepath.Join(dir, "cluster"), Masters: 3})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	database := "sqlite:" + filepath.Join(dir, "a.db")
	if got := warnings(t, c.URL(), database, "redis-version"); len(got) != 0 {
		t.Errorf("servers of one version: %s", got)
	}
	otherVersion(t, program, link)
	if err := c.Nodes[1].Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := c.Await(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := warnings(t, c.URL(), database, "redis-version")
	if len(got) != 1 || !strings.Contains(got[0], "its masters have different versions") || !strings.Contains(got[0], "bring all nodes to one version") {
		t.Errorf("servers of two versions: %d lines: %s", len(got), got)
	}
}

// otherVersion puts a copy of a server's program in place of the link to it. It is the
// same but for its name: the last digit of its version is another one.
func otherVersion(t *testing.T, program, link string) {
	t.Helper()
	said, err := exec.CommandContext(t.Context(), program, "--version").Output()
	if err != nil {
		t.Fatal(err)
	}
	version := regexp.MustCompile(`v=(\d+\.\d+\.\d+)`).FindSubmatch(said)
	code, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	if version == nil || !bytes.Contains(code, version[1]) {
		t.Fatalf("%s tells no version that its file has: %s", program, said)
	}
	other := bytes.Clone(version[1])
	other[len(other)-1] = '0' + (other[len(other)-1]-'0'+1)%10
	if err := os.Remove(link); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(link, bytes.ReplaceAll(code, version[1], other), 0o700); err != nil {
		t.Fatal(err)
	}
}

// warnings are the lines about one check that a start on a Redis logs.
func warnings(t *testing.T, redis, database, check string) (lines []string) {
	t.Helper()
	cfg := config.Default()
	cfg.Data, cfg.Listen, cfg.Partitions = t.TempDir(), "127.0.0.1:0", 4
	cfg.Redis, cfg.Database = config.URL(redis), config.URL(database)
	cfg.RootKey = rootKey
	var said bytes.Buffer
	log := slog.New(slog.NewTextHandler(&said, &slog.HandlerOptions{Level: slog.LevelWarn}))
	e, err := engine.Open(t.Context(), engine.Options{Config: cfg, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Stop(context.Background()); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(said.String()) {
		if strings.Contains(line, "check="+check+" ") {
			lines = append(lines, line)
		}
	}
	return lines
}
