package servers

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

func startRedis(t *testing.T, opt RedisOptions) *Redis {
	t.Helper()
	if opt.Dir == "" {
		opt.Dir = t.TempDir()
	}
	r, err := StartRedis(limit(t), opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return r
}

// ask sends one inline command and returns the first line of the answer, or
// for a bulk string its text.
func ask(t *testing.T, network, addr, command string) string {
	t.Helper()
	conn, err := net.Dial(network, addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, command+"\r\n"); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(conn)
	line, err := in.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	if strings.HasPrefix(line, "$") && !strings.HasPrefix(line, "$-1") {
		if line, err = in.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	return strings.TrimSpace(line)
}

func wantAnswer(t *testing.T, r *Redis, command, want string) {
	t.Helper()
	if got := ask(t, r.Network(), r.Addr(), command); got != want {
		t.Errorf("%s: got %q, want %q", command, got, want)
	}
}

func TestRedisKeepsItsDataOverKillAndRestart(t *testing.T) {
	for _, listen := range []string{"unix", "tcp"} {
		t.Run(listen, func(t *testing.T) {
			r := startRedis(t, RedisOptions{Listen: listen})
			url, pid := r.URL(), r.Pid()
			wantAnswer(t, r, "SET key value", "+OK")
			if err := r.Kill(); err != nil {
				t.Fatal(err)
			}
			<-r.Exited()
			if err := r.Restart(limit(t)); err != nil {
				t.Fatal(err)
			}
			wantAnswer(t, r, "GET key", "value")
			if r.URL() != url || r.Pid() == pid {
				t.Errorf("after the restart: url %s (was %s), pid %d (was %d)", r.URL(), url, r.Pid(), pid)
			}
		})
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

// A long directory puts the socket elsewhere; Stop takes that away again.
func TestRedisInALongDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("d", 120), "a b?c")
	r := startRedis(t, RedisOptions{Dir: dir})
	wantAnswer(t, r, "SET key value", "+OK")
	if len(r.Addr()) > 100 {
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

// A port of another process ends the start with an error that is recognised.
// That makes a start on a free port try another.
func TestTakenPortOfRedis(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).Port
	if _, err := StartRedis(limit(t), RedisOptions{Dir: t.TempDir(), Extra: []string{"--port", strconv.Itoa(port)}}); !portTaken(err) {
		t.Errorf("redis: %v", err)
	}
}

// A restart waits while Redis loads its log.
func TestStartWaitsForLoading(t *testing.T) {
	r := startRedis(t, RedisOptions{
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
