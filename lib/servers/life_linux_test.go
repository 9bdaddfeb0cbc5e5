package servers

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// asParent names a directory. The test binary, started as a program of its own,
// starts both servers there, prints that they run, and waits to be killed.
const asParent = "SERVERS_TEST_PARENT"

func TestMain(m *testing.M) {
	if dir := os.Getenv(asParent); dir != "" {
		os.Exit(parent(dir))
	}
	os.Exit(m.Run())
}

func parent(dir string) int {
	r, err := StartRedis(context.Background(), RedisOptions{Dir: filepath.Join(dir, "redis")})
	if err == nil {
		var m *MariaDB
		if m, err = StartMariaDB(context.Background(), MariaDBOptions{Dir: filepath.Join(dir, "mariadb")}); err == nil {
			err = json.NewEncoder(os.Stdout).Encode([]int{r.Pid(), m.Pid()})
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	_, _ = io.Copy(io.Discard, os.Stdin) // until we are killed
	return 0
}

// alive reports whether a process runs; one that was not waited for yet (a
// zombie) does not.
func alive(t *testing.T, pid int) bool {
	t.Helper()
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return false
	}
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X")
}

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

// Also a paused server dies with its parent, and its directory is free then.
func TestServersDieWithTheirParent(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cmd := exec.CommandContext(limit(t), self)
	cmd.Env = append(os.Environ(), asParent+"="+dir)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe() // held open: the parent waits on it
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var pids []int
	if err := json.NewDecoder(stdout).Decode(&pids); err != nil {
		t.Fatal(err)
	}
	for _, pid := range pids {
		if !alive(t, pid) {
			t.Fatalf("server %d does not run", pid)
		}
	}
	if err := syscall.Kill(pids[0], syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("the parent was not killed")
	}
	for _, pid := range pids { // if the test fails, nothing else would end them
		t.Cleanup(func() { killOrphan(t, pid, dir) })
	}
	for _, pid := range pids {
		until(t, fmt.Sprintf("server %d is gone", pid), func() bool { return !alive(t, pid) })
	}
	startRedis(t, RedisOptions{Dir: filepath.Join(dir, "redis")})
	startMariaDB(t, MariaDBOptions{Dir: filepath.Join(dir, "mariadb")})
}

func killOrphan(t *testing.T, pid int, dir string) {
	t.Helper()
	cwd, err := os.Readlink(filepath.Join("/proc", strconv.Itoa(pid), "cwd"))
	if err == nil && strings.HasPrefix(cwd, dir) && syscall.Kill(pid, syscall.SIGKILL) == nil {
		t.Errorf("server %d outlived its parent", pid)
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
	if _, err := os.Stat(r.socketHome); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after Stop the socket's directory is there: %v", err)
	}
	if err := r.Restart(limit(t)); err != nil {
		t.Fatal(err)
	}
	wantAnswer(t, r, "GET key", "value")

	m := startMariaDB(t, MariaDBOptions{Dir: filepath.Join(t.TempDir(), strings.Repeat("d", 120))})
	if err := m.CreateDatabase(limit(t), "d"); err != nil {
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
	m := &MariaDB{base: base{port: 3306}, socket: r.socket}
	if u, err = url.Parse(m.SocketURL("d")); err != nil || u.Query().Get("socket") != m.socket || u.Path != "/d" {
		t.Errorf("%s: parsed %v, %v", m.SocketURL("d"), u, err)
	}
	if got, want := m.URL("d"), "mysql://root@127.0.0.1:3306/d"; got != want {
		t.Errorf("got %s, want %s", got, want)
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
	if _, err := StartRedis(limit(t), RedisOptions{Dir: t.TempDir(), Port: port}); !portTaken(err) {
		t.Errorf("redis: %v", err)
	}
	if _, err := StartMariaDB(limit(t), MariaDBOptions{Dir: t.TempDir(), Port: port}); !portTaken(err) {
		t.Errorf("mariadb: %v", err)
	}
}

func TestMissingProgramNamesTheRemedy(t *testing.T) {
	_, err := find(redisRemedy, "no-such-server")
	if err == nil || !strings.Contains(err.Error(), "make deps") || !strings.Contains(err.Error(), "no-such-server") {
		t.Error(err)
	}
}

func TestFailedStartQuotesTheLog(t *testing.T) {
	_, err := StartRedis(limit(t), RedisOptions{Dir: t.TempDir(), AppendFsync: "sometimes"})
	if err == nil || !strings.Contains(err.Error(), "appendfsync") {
		t.Error(err)
	}
	_, err = StartMariaDB(limit(t), MariaDBOptions{Dir: t.TempDir(), Extra: []string{"--no-such-option"}})
	if err == nil || !strings.Contains(err.Error(), "no-such-option") {
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

// An installation that was killed half-way is done again; a directory that
// holds something else is left alone.
func TestMariaDBOnDirectoriesItCannotTake(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"server.installing", "ibdata1"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	startMariaDB(t, MariaDBOptions{Dir: dir})

	other := t.TempDir()
	precious := filepath.Join(other, "precious")
	if err := os.WriteFile(precious, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := StartMariaDB(limit(t), MariaDBOptions{Dir: other}); err == nil || !strings.Contains(err.Error(), "precious") {
		t.Error(err)
	}
	if _, err := os.Stat(precious); err != nil {
		t.Error(err)
	}
}
