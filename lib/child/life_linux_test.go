package child

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
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

func TestPauseAndContinue(t *testing.T) {
	r := startRedis(t, RedisOptions{})
	conn, err := net.Dial(r.Network(), r.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if err := r.Pause(); err != nil {
		t.Fatal(err)
	}
	if !allStopped(r.Pid()) {
		t.Error("after Pause some thread still runs")
	}
	if _, err := io.WriteString(conn, "PING\r\n"); err != nil {
		t.Fatal(err)
	}
	if err := r.Continue(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || line != "+PONG\r\n" {
		t.Errorf("after Continue: %q, %v", line, err)
	}
	if err := r.Pause(); err != nil { // a paused server can be stopped, and killed
		t.Fatal(err)
	}
	if err := r.Stop(limit(t)); err != nil {
		t.Error(err)
	}
	if err := r.Restart(limit(t)); err != nil {
		t.Fatal(err)
	}
	if err := r.Pause(); err != nil {
		t.Fatal(err)
	}
	if err := r.Kill(); err != nil {
		t.Error(err)
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

// A long directory puts the socket elsewhere; Stop takes that away again.
func TestLongDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("d", 120), "a b?c")
	r := startRedis(t, RedisOptions{Dir: dir})
	wantAnswer(t, r, "SET key value", "+OK")
	if len(r.Addr()) > maxSocketPathBytes {
		t.Errorf("the socket's path has %d bytes", len(r.Addr()))
	}
	if err := r.Stop(limit(t)); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(r.SocketHome); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after Stop the socket's directory is there: %v", err)
	}
	if err := r.Restart(limit(t)); err != nil {
		t.Fatal(err)
	}
	wantAnswer(t, r, "GET key", "value")
}

// URLs survive the characters that a directory may have.
func TestRedisURL(t *testing.T) {
	r := &Redis{socket: "/tmp/a b%?#/redis.sock"}
	u, err := url.Parse(r.URL())
	if err != nil || u.Scheme != "unix" || u.Path != r.socket {
		t.Errorf("%s: parsed %v, %v", r.URL(), u, err)
	}
}

// A port of another process ends the start with an error that is recognised.
// That makes a start on a free port try another.
func TestTakenPort(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).Port
	if _, err := StartRedis(limit(t), RedisOptions{Dir: t.TempDir(), Port: port}); !PortTaken(err) {
		t.Errorf("redis: %v", err)
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

// A restart waits while Redis loads its log, and says how far it is.
func TestStartWaitsForLoading(t *testing.T) {
	var calls atomic.Int64
	r := startRedis(t, RedisOptions{
		Loading: func(loaded, total int64) { calls.Add(1) },
		// 200 keys of 10 ms each, and an event loop that looks up in between.
		Extra: []string{"--enable-debug-command", "yes", "--key-load-delay", "10000", "--loading-process-events-interval-bytes", "1024"},
	})
	value := strings.Repeat("v", 200)
	for i := range 200 {
		wantAnswer(t, r, fmt.Sprintf("SET key%d %s", i, value), "+OK")
	}
	wantAnswer(t, r, "BGREWRITEAOF", "+Background append only file rewriting started")
	until(t, "the log is rewritten", func() bool { return rewritten(t, r) })
	if err := r.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := r.Restart(limit(t)); err != nil {
		t.Fatal(err)
	}
	wantAnswer(t, r, "GET key199", value)
	if calls.Load() == 0 {
		t.Error("Loading was never called")
	}
}

func rewritten(t *testing.T, r *Redis) bool {
	t.Helper()
	conn, err := net.Dial(r.Network(), r.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "INFO persistence\r\nQUIT\r\n"); err != nil {
		t.Fatal(err)
	}
	all, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Contains(string(all), "aof_rewrite_in_progress:0") && strings.Contains(string(all), "aof_rewrites:1")
}
