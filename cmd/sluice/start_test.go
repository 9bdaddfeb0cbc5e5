package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/test/servers"
)

const startFile = `
partitions: 1
start_seconds: 600
redis: %s
database: %s
`

// awayServers are a Redis and a MariaDB that have been killed, and a
// configuration that names them.
func awayServers(t *testing.T) (dir string, redis *servers.Redis, maria *servers.MariaDB) {
	t.Helper()
	dir = t.TempDir()
	redis, err := servers.StartRedis(t.Context(), servers.RedisOptions{Dir: filepath.Join(dir, "redis"), Listen: "tcp", AppendFsync: "everysec"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = redis.Kill() })
	maria, err = servers.StartMariaDB(t.Context(), servers.MariaDBOptions{Dir: filepath.Join(dir, "maria"),
		Extra: []string{"--innodb-flush-log-at-trx-commit=0", "--log-bin", "--sync-binlog=0"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = maria.Kill() })
	if err := maria.CreateDatabase(t.Context(), "late"); err != nil {
		t.Fatal(err)
	}
	configure(t, dir, fmt.Sprintf(startFile, redis.URL(), "mysql://root@"+maria.Addr()+"/late"))
	if err := redis.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := maria.Kill(); err != nil {
		t.Fatal(err)
	}
	return dir, redis, maria
}

// After a power cut the program, Redis and the database start together: it
// waits for them, and says for whom.
func TestStartWaitsForServers(t *testing.T) {
	t.Parallel()
	dir, redis, maria := awayServers(t)
	s := &served{client: http.DefaultClient, dir: dir, log: &buffer{}, signals: make(chan os.Signal, 2), done: make(chan int, 1)}
	m := Main{Args: []string{"serve"}, Dir: dir, Stdout: io.Discard, Stderr: s.log, Signals: s.signals}
	go func() { s.done <- m.Run(context.Background()) }()
	t.Cleanup(func() { s.stop(t) })
	says := func(what string) {
		t.Helper()
		await(t, "the log says "+what, func() bool { return strings.Contains(s.log.String(), what) })
	}
	says("connect to redis " + redis.URL())
	if err := redis.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	says("open database late at " + maria.Addr())
	if err := maria.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	await(t, "the program runs", func() bool { return listening.MatchString(s.log.String()) })
	says("check=redis-persistence") // it may lose a second, and the operator must learn that
	says("check=database-durability")
	for _, what := range []string{"innodb_flush_log_at_trx_commit is 0", "sync_binlog is 0", "level=ERROR"} {
		says(what)
	}
	s.url = "http://" + listening.FindStringSubmatch(s.log.String())[1]
	await(t, "it is ready", func() bool { status, _ := s.get(t, "/readyz"); return status == http.StatusOK })
	if code := s.stop(t); code != exitOK {
		t.Errorf("it ended with %d", code)
	}
}

// Its patience has an end.
func TestStartGivesUp(t *testing.T) {
	t.Parallel()
	dir, redis, _ := awayServers(t)
	r := sluiceRun(t, dir, "serve", "--start-seconds", "0")
	if r.code != exitFailed || !strings.Contains(r.stderr, "sluice: start: connect to redis "+redis.URL()) {
		t.Errorf("exit code %d\n%s", r.code, r.stderr)
	}
}
