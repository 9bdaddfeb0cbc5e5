package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// child is the program under measurement: a process of its own, started as a
// user starts it, with a configuration file. It dies with the bench.
type child struct {
	cmd     *exec.Cmd
	base    string // "http://127.0.0.1:8019"
	logPath string
	exited  chan struct{}
	err     error // of Wait; read only after exited is closed
}

const (
	readyWithin  = 30 * time.Second
	readyPoll    = 10 * time.Millisecond
	stopWithin   = 30 * time.Second
	stallWithin  = 30 * time.Second
	answerWithin = 5 * time.Second
	logTailBytes = 4096

	// clockTicks is USER_HZ, in which Linux tells a process's times; 100 on
	// every system that Go runs on.
	clockTicks = 100
)

// http1 asks for nothing compressed: that would cost the program more than many
// rows.
var http1 = &http.Client{Timeout: answerWithin, Transport: &http.Transport{DisableCompression: true}}

// startSluice starts the program with one list in the configuration and waits
// until it is ready. list is the list's settings in YAML's short form, more are
// further lines of the configuration.
func (e *env) startSluice(ctx context.Context, s database, list string, more ...string) (*child, error) {
	dir, err := os.MkdirTemp(e.dir, "sluice-")
	if err != nil {
		return nil, fmt.Errorf("make a directory for sluice: %w", err)
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "sluice.yaml")
	text := fmt.Sprintf("listen: 127.0.0.1:%d\nredis: %q\ndatabase: %q\ndata: %q\nroot_key: %s\npartitions: %d\nevent_time: {past_days: 0, future_minutes: 0}\nlists:\n  %s: {%s}\n%s\n",
		port, e.redisURL, s.url(), filepath.Join(dir, "data"), benchRootKey, e.run.partitions, listName, list, strings.Join(more, "\n"))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return nil, fmt.Errorf("write sluice's configuration: %w", err)
	}
	c := &child{
		cmd:  exec.Command(e.run.program, "serve", "--config", file),
		base: "http://127.0.0.1:" + strconv.Itoa(port), logPath: filepath.Join(dir, "sluice.log"),
		exited: make(chan struct{}),
	}
	c.cmd.Dir = dir
	// Variables outrank the file: what is set for another Sluice must not count.
	c.cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "SLUICE_") })
	if err := c.start(); err != nil {
		return nil, err
	}
	if err := c.awaitReady(ctx); err != nil {
		return nil, errors.Join(err, c.kill())
	}
	return c, nil
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// start runs the process. Its goroutine stays on one thread until the process
// ends. The kernel's "kill it when its parent dies" watches the thread that
// forked (see package servers).
func (c *child) start() error {
	log, err := os.OpenFile(c.logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open sluice's log: %w", err)
	}
	defer log.Close()
	c.cmd.Stdout, c.cmd.Stderr = log, log
	c.cmd.SysProcAttr = childAttributes()
	started := make(chan error, 1)
	go func() { // ends with the process
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := c.cmd.Start()
		started <- err
		if err == nil {
			c.err = c.cmd.Wait()
			close(c.exited)
		}
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("start sluice: run %s serve: %w", c.cmd.Path, err)
	}
	return nil
}

func (c *child) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, readyWithin, fmt.Errorf("not ready within %s", readyWithin))
	defer cancel()
	for {
		last, err := c.get(ctx, "/readyz")
		if err == nil {
			return nil
		}
		if died := c.dead(); died != nil {
			return died
		}
		if pauseErr := pause(ctx, readyPoll); pauseErr != nil {
			return fmt.Errorf("start sluice: %w: %w: %s%s", pauseErr, err, last, c.tail())
		}
	}
}

// dead says how the process ended, if it did.
func (c *child) dead() error {
	select {
	case <-c.exited:
		return fmt.Errorf("sluice ended: %w%s", errors.Join(c.err, errors.New("see its log")), c.tail())
	default:
		return nil
	}
}

// tail is the end of the log, for an error.
func (c *child) tail() string {
	b, err := os.ReadFile(c.logPath)
	if err != nil {
		return ": " + err.Error()
	}
	return "; the end of its log:\n" + string(b[max(0, len(b)-logTailBytes):])
}

func (c *child) get(ctx context.Context, path string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+path, nil)
	if err != nil {
		return "", err
	}
	answer, err := http1.Do(request)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("get %s: %s", path, answer.Status)
	}
	return string(body), err
}

// Counters of the process that benches wait for.
const (
	storedRows    = "sluice_stored_rows_total"
	storedUpdates = "sluice_user_updates_total"
)

// counter returns one of the process's metrics.
func (c *child) counter(ctx context.Context, name string) (int64, error) {
	text, err := c.get(ctx, "/metrics")
	if err != nil {
		return 0, fmt.Errorf("read sluice's metrics: %w", err)
	}
	_, rest, ok := strings.Cut(text, "\n"+name+" ")
	if !ok {
		return 0, fmt.Errorf("read sluice's metrics: there is no %s", name)
	}
	value, _, _ := strings.Cut(rest, "\n")
	v, err := strconv.ParseFloat(value, 64)
	return int64(v), err
}

// How often the counter is asked for: seldom at first, and often when the end
// is near. A scrape costs the process half a millisecond.
const (
	countSlowly  = 50 * time.Millisecond
	countQuickly = 4 * time.Millisecond
	nearlyAll    = 0.93
)

// awaitStored returns when the process has committed so many rows.
func (c *child) awaitStored(ctx context.Context, want int64) error {
	return c.await(ctx, storedRows, want)
}

// await returns when a counter of the process has come so far. It gives up when
// nothing has moved for half a minute.
func (c *child) await(ctx context.Context, name string, want int64) error {
	last, moved := int64(-1), time.Now()
	for {
		n, err := c.counter(ctx, name)
		if died := c.dead(); died != nil {
			return died
		}
		if err != nil {
			return err
		}
		if n >= want {
			return nil
		}
		if n != last {
			last, moved = n, time.Now()
		}
		if time.Since(moved) > stallWithin {
			return fmt.Errorf("wait for sluice: %s is %d of %d, and no more for %s%s", name, n, want, stallWithin, c.tail())
		}
		every := countSlowly
		if float64(n) >= nearlyAll*float64(want) {
			every = countQuickly
		}
		if err := pause(ctx, every); err != nil {
			return fmt.Errorf("wait for sluice: %s is %d of %d: %w", name, n, want, err)
		}
	}
}

// peakMemoryMB returns the most memory the process has had resident (VmHWM).
func (c *child) peakMemoryMB() (float64, error) {
	text := fileField(fmt.Sprintf("/proc/%d/status", c.cmd.Process.Pid), "VmHWM")
	kb, err := strconv.ParseFloat(strings.TrimSuffix(text, " kB"), 64)
	if err != nil {
		return 0, fmt.Errorf("read sluice's memory: %q: %w; it takes Linux", text, err)
	}
	return kb / 1024, nil
}

// cpuTime returns how long the process has computed, in user and system mode.
func (c *child) cpuTime() (time.Duration, error) { return cpuTimeOf(c.cmd.Process.Pid) }

// cpuTimes is cpuTime of the process and of the servers that were started here, by
// their names.
func (e *env) cpuTimes(c *child) (map[string]time.Duration, error) {
	all := make(map[string]time.Duration)
	var err error
	if all["Sluice"], err = c.cpuTime(); err != nil {
		return nil, err
	}
	for name, pid := range e.pids {
		if all[name], err = cpuTimeOf(pid()); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// cpuTimeOf is cpuTime of any process.
func cpuTimeOf(pid int) (time.Duration, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("read sluice's cpu time: %w; it takes Linux", err)
	}
	// proc(5): utime and stime are the 14th and 15th fields; the 2nd ends at
	// the last parenthesis.
	_, rest, _ := strings.Cut(string(b[strings.LastIndexByte(string(b), ')'):]), " ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0, fmt.Errorf("read sluice's cpu time: %q", b)
	}
	var ticks int64
	for _, field := range fields[11:13] {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read sluice's cpu time: %w", err)
		}
		ticks += n
	}
	return time.Duration(ticks) * time.Second / clockTicks, nil
}

// stop ends the process as an operator does, and reports if it does not end
// well.
func (c *child) stop() error {
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop sluice: %w", err)
	}
	select {
	case <-c.exited:
	case <-time.After(stopWithin):
		return errors.Join(fmt.Errorf("stop sluice: it did not end within %s%s", stopWithin, c.tail()), c.kill())
	}
	if c.err != nil {
		return fmt.Errorf("stop sluice: %w%s", c.err, c.tail())
	}
	return nil
}

// kill ends the process with SIGKILL and returns when it is gone.
func (c *child) kill() error {
	if err := c.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill sluice: %w", err)
	}
	<-c.exited
	return nil
}
