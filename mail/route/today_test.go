package route

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"sluice/flow"
	"sluice/test/servers"
)

// storedDays is a ledger: what was sent by routers is in it when it is recorded.
type storedDays struct {
	mu   sync.Mutex
	n    int64
	away bool
}

func (s *storedDays) RouteDay(context.Context, string, int64) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away {
		return 0, errors.New("the database is away")
	}
	return s.n, nil
}

func (s *storedDays) set(n int64, away bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n, s.away = n, away
}

// spend has routers send what they may until none may any more for a while, by
// their clocks, and returns how many mails that were.
func spend(t *testing.T, beds ...*bed) (sent int64) {
	t.Helper()
	for idle := 0; idle < 40; idle++ { // 4 seconds
		for _, b := range beds {
			n, _ := b.drain("example.com")
			_ = b.Lease(t.Context()) // fails while Redis or the ledger is away
			more, _ := b.drain("example.com")
			if n += more; n > 0 {
				idle = 0
			}
			sent += int64(n)
			b.clock.Move(100 * time.Millisecond)
		}
	}
	return sent
}

// TestWarmupOfAForgetfulRedis: the daily limit of a warm-up route is granted once
// a day, although Redis is emptied or put back meanwhile, to however many
// processes.
func TestWarmupOfAForgetfulRedis(t *testing.T) {
	dir := t.TempDir()
	server, err := servers.StartRedis(t.Context(), servers.RedisOptions{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Kill() })
	redis, err := flow.Dial(t.Context(), server.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(redis.Close)
	days := &storedDays{}
	const limit = 40
	process := func() *bed {
		s := named("warm")
		s.Warmup, s.WarmupFrom, s.Pace = []int{limit}, time.Now(), Pace{PerSecond: 5, Size: 5}
		b := newBed(t, Options{Redis: redis, Days: days, Routes: []Settings{s}})
		b.clock.Move(time.Since(testNow))
		return b
	}
	full := func(n int64) {
		t.Helper()
		if n > limit {
			t.Fatalf("%d mails on a day that has %d", n, limit)
		}
	}
	all := []*bed{process(), process(), process()}
	copied := filepath.Join(t.TempDir(), "before")
	const log = "appendonlydir"
	some := func(beds ...*bed) {
		t.Helper()
		for until := time.Now().Add(3 * time.Minute); ; {
			now := days.n + spend(t, beds...)
			full(now)
			if now > days.n {
				days.set(now, false)
				return
			}
			if time.Now().After(until) {
				t.Fatal("nothing is sent")
			}
		}
	}
	some(all...)
	if err := server.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(copied, os.DirFS(filepath.Join(dir, log))); err != nil {
		t.Fatal(err)
	}
	if n := spend(t, all...); n > 0 {
		t.Fatalf("%d mails without Redis", n)
	}
	restart(t, server, redis)
	some(all...)

	// Put back: Redis has what it had before those.
	if err := server.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.RemoveAll(filepath.Join(dir, log)), os.CopyFS(filepath.Join(dir, log), os.DirFS(copied))); err != nil {
		t.Fatal(err)
	}
	spend(t, all...)
	restart(t, server, redis)
	some(all...)

	// Emptied, while the ledger is away, and with a process that knows nothing.
	empty(t, server)
	days.set(days.n, true)
	fresh := process()
	if n := spend(t, fresh); n > 0 {
		t.Fatalf("%d mails, and nobody knows how many there were", n)
	}
	days.set(days.n, false)
	for days.n < limit {
		empty(t, server)
		some(append(all, fresh)...)
	}
	for range 3 { // however often
		empty(t, server)
		full(days.n + spend(t, append(all, fresh)...))
	}
}

// restart starts a Redis again, and waits until it answers.
func restart(t *testing.T, server *servers.Redis, redis *flow.Redis) {
	t.Helper()
	if err := server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	for redis.Ping(t.Context()) != nil {
		if t.Context().Err() != nil {
			t.Fatal(t.Context().Err())
		}
	}
}

// empty removes all that a Redis has.
func empty(t *testing.T, server *servers.Redis) {
	t.Helper()
	c, err := net.Dial(server.Network(), server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	answer := make([]byte, len("+OK"))
	if _, err := io.WriteString(c, "FLUSHALL\r\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c, answer); err != nil || string(answer) != "+OK" {
		t.Fatalf("FLUSHALL: %q, %v", answer, err)
	}
}
