package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"sluice/test/servers"
)

// A deployment moves to another Redis (docs/scale.md): what was held of a list, a part of it
// routed, goes along, and is stored once. Behind what was stored since it is left out, with
// how much.
func TestMoveToAnotherRedis(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	configured := func(redis *servers.Redis, roles string) {
		configure(t, dir, fmt.Sprintf("redis: %s\ndatabase: sqlite:%s\npartitions: 2\nroles: [%s]\nlists:\n  q: {app_id: shop}\n", redis.URL(), filepath.Join(dir, "moved.db"), roles))
	}
	var redises [2]*servers.Redis
	for i := range redises {
		redis, err := servers.StartRedis(t.Context(), servers.RedisOptions{Dir: t.TempDir(), Listen: "tcp"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = redis.Kill() })
		redises[i] = redis
	}
	client := redisAt(t, redises[0].URL())
	number := func(words ...string) (n int64) {
		n, err := client.Do(context.Background(), client.B().Arbitrary(words...).Build()).AsInt64()
		if err != nil {
			t.Fatalf("%s: %v", words, err)
		}
		return n
	}
	configured(redises[0], "intake") // nothing is stored
	s := serveConfigured(t, dir)
	pushed := 0
	push := func(count int) {
		number(append([]string{"RPUSH", "q"}, anonymous(pushed, count)...)...)
		pushed += count
	}
	held := func() bool { return number("EVAL", "return #redis.call('KEYS', 'sluice:{q}:list:q:held:*')", "0") > 0 }
	full := func() bool {
		return number("EVAL", "local n = 0 for _, k in ipairs(redis.call('KEYS', 'sluice:{p*}:log')) do if redis.call('XLEN', k) >= 64 then n = n + 1 end end return n", "0") > 0
	}
	for !full() {
		push(20)
		await(t, "they are routed, or a log is full", func() bool { return full() || number("LLEN", "q") == 0 && !held() })
	}
	push(80_000) // far more than is in hand, which is routed when the process stops
	await(t, "what is pushed is held", func() bool { return held() && number("LLEN", "q") == 0 })
	if code := s.stop(t); code != exitOK || !held() {
		t.Fatalf("exit code %d, held: %v\n%s", code, held(), s.log)
	}
	mustRun(t, dir, "sending", "pause", "--tag", "spring") // no process copies that into the database
	file := filepath.Join(dir, "b.tar")
	mustRun(t, dir, "backup", file)

	configured(redises[1], "intake, store, send")
	if out := mustRun(t, dir, "restore", "--only", "redis", "--replace", file).stdout; !strings.Contains(out, "no gap") || strings.Contains(out, "LEFT OUT") {
		t.Errorf("a restore under a database that has stored nothing since:\n%s", out)
	}
	s = serveConfigured(t, dir)
	await(t, "all is stored", func() bool { return s.metric(t, "sluice_stored_rows_total") >= pushed })
	if shown := mustRun(t, dir, "sending", "show").stdout; !strings.Contains(shown, "tag spring") {
		t.Errorf("what was stopped just before is stopped no more: %s", shown)
	}
	if code := s.stop(t); code != exitOK {
		t.Fatalf("exit code %d:\n%s", code, s.log)
	}
	if n := len(ids(t, dir)); n != pushed {
		t.Errorf("%d events, want %d", n, pushed)
	}

	client = redisAt(t, redises[1].URL())
	if err := client.Do(t.Context(), client.B().Flushall().Build()).Error(); err != nil {
		t.Fatal(err)
	}
	if out := mustRun(t, dir, "restore", "--only", "redis", "--replace", file).stdout; !strings.Contains(out, "LEFT OUT: of lists without a table") {
		t.Errorf("a restore under a database that has stored more since:\n%s", out)
	}
}
