package child

import (
	"context"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	ctx := limit(t)
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for !done() {
		select {
		case <-ctx.Done():
			t.Fatalf("waited in vain until %s", what)
		case <-tick.C:
		}
	}
}

// The death signal follows the thread that forked. A server must outlive the
// thread on which it was asked for.
func TestServerOutlivesTheThreadThatAskedForIt(t *testing.T) {
	dir := t.TempDir()
	type result struct {
		r   *Redis
		err error
		tid int
	}
	done := make(chan result)
	go onThreadThatEnds(func() {
		r, err := StartRedis(limit(t), RedisOptions{Dir: dir})
		done <- result{r, err, syscall.Gettid()}
	})
	got := <-done
	if got.err != nil {
		t.Fatal(got.err)
	}
	defer func() {
		if err := got.r.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	until(t, "the thread has ended", func() bool {
		_, err := os.Stat(filepath.Join("/proc/self/task", strconv.Itoa(got.tid)))
		return errors.Is(err, os.ErrNotExist)
	})
	// The signal was sent before the thread was gone: it has arrived, or never will.
	wantAnswer(t, got.r, "PING", "+PONG")
}

// onThreadThatEnds runs f on a thread that ends with it. Go ends the thread of
// a goroutine that returns while locked to it, except the process's first
// thread. A goroutine that finds itself there holds it and sends another.
func onThreadThatEnds(f func()) {
	runtime.LockOSThread() // and never unlocked
	if syscall.Gettid() != os.Getpid() {
		f()
		return
	}
	other := make(chan struct{})
	go func() {
		defer close(other)
		onThreadThatEnds(f)
	}()
	<-other
	runtime.UnlockOSThread()
}

func TestSecondServerOnADirectoryIsRefused(t *testing.T) {
	r := startRedis(t, RedisOptions{})
	wantAnswer(t, r, "SET key value", "+OK")
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // tries once, does not wait for the first to die
	if second, err := StartRedis(ctx, RedisOptions{Dir: r.opt.Dir}); err == nil {
		t.Error("a second Redis started on the same directory")
		second.Stop(context.Background())
	} else if !strings.Contains(err.Error(), "another server runs on this directory") {
		t.Error(err)
	}
	wantAnswer(t, r, "GET key", "value")
}

func TestServerHasAProcessGroupOfItsOwn(t *testing.T) {
	r := startRedis(t, RedisOptions{})
	if group, err := syscall.Getpgid(r.Pid()); err != nil || group != r.Pid() {
		t.Errorf("process group %d, %v; want %d", group, err, r.Pid())
	}
}

func TestStopKillsWhenItsContextEnds(t *testing.T) {
	r := startRedis(t, RedisOptions{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := r.Stop(ctx)
	if err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	select {
	case <-r.Exited():
	default:
		t.Error("Stop has returned and the server still runs")
	}
	if err := r.Stop(t.Context()); err != nil {
		t.Errorf("stop it again: %v", err)
	}
}

func TestMissingProgramNamesTheRemedy(t *testing.T) {
	_, err := Find(redisRemedy, "no-such-server")
	if err == nil || !strings.Contains(err.Error(), "make deps") || !strings.Contains(err.Error(), "no-such-server") {
		t.Error(err)
	}
}

func TestFailedStartQuotesTheLog(t *testing.T) {
	_, err := StartRedis(limit(t), RedisOptions{Dir: t.TempDir(), AppendFsync: "sometimes"})
	if err == nil || !strings.Contains(err.Error(), "appendfsync") {
		t.Error(err)
	}
}

// URLs survive the characters that a directory may have.
func TestRedisURL(t *testing.T) {
	r := &Redis{socket: "/tmp/a b%?#/redis.sock"}
	u, err := url.Parse(r.URL())
	if err != nil || u.Scheme != "unix" || u.Path != r.socket {
		t.Errorf("%s: parsed %v, %v", r.URL(), u, err)
	}
}
