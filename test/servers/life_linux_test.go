package servers

import (
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
	"strconv"
	"strings"
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

// limit bounds a whole test; nothing is measured against it.
func limit(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
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
	tick := time.NewTicker(5 * time.Millisecond)
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

// A long directory puts the socket elsewhere.
func TestLongDirectory(t *testing.T) {
	m := startMariaDB(t, MariaDBOptions{Dir: filepath.Join(t.TempDir(), strings.Repeat("d", 120))})
	if err := m.CreateDatabase(limit(t), "d"); err != nil {
		t.Error(err)
	}
}

// URLs survive the characters that a directory may have.
func TestMariaDBURL(t *testing.T) {
	m := &MariaDB{socket: "/tmp/a b%?#/mariadb.sock"}
	if err := m.settle("mariadb", "Dir", t.TempDir(), 3306, 0, nil); err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(m.SocketURL("d"))
	if err != nil || u.Query().Get("socket") != m.socket || u.Path != "/d" {
		t.Errorf("%s: parsed %v, %v", m.SocketURL("d"), u, err)
	}
	if got, want := m.URL("d"), "mysql://root@127.0.0.1:3306/d"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// A port of another process ends the start with an error that is recognised.
func TestTakenPort(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).Port
	if _, err := StartMariaDB(limit(t), MariaDBOptions{Dir: t.TempDir(), Port: port}); !portTaken(err) {
		t.Error(err)
	}
}

func TestFailedStartQuotesTheLog(t *testing.T) {
	_, err := StartMariaDB(limit(t), MariaDBOptions{Dir: t.TempDir(), Extra: []string{"--no-such-option"}})
	if err == nil || !strings.Contains(err.Error(), "no-such-option") {
		t.Error(err)
	}
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
