package faults

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// EnvFailpoint is the environment variable that arms failpoints. It is read
// once, when the program starts:
//
//	SLUICE_FAILPOINT="take=kill,3;commit=error"
//
// is a list of name=action[,count] separated by semicolons. The action is taken
// at the count-th hit (1 if not given), and only then:
//
//	kill          SIGKILL to the program itself
//	stop          SIGSTOP to the program itself; it goes on after SIGCONT
//	error         Hit returns ErrInjected
//	pause:FILE    Hit makes FILE.reached and returns once FILE exists
//	ahead:TIME    Hit does nothing, and Ahead returns TIME, such as 168h or -1h
//	steps:FILE    Hit does nothing, and Ahead returns the time that FILE has now,
//	              0 until there is one: so a clock steps while a program runs
//
// A value that cannot be read ends the program at once with status 2: a test
// without its fault would pass for the wrong reason.
const EnvFailpoint = "SLUICE_FAILPOINT"

const (
	// pauseWithin bounds a pause; after it Hit returns an error.
	pauseWithin = 10 * time.Minute

	// pausePoll is how often a pause, or a clock that steps, looks for its file.
	pausePoll = 5 * time.Millisecond

	// exitBadFailpoint is the status of a program whose EnvFailpoint is wrong.
	exitBadFailpoint = 2
)

// ErrInjected is what a failpoint with the action "error" returns, wrapped.
var ErrInjected = errors.New("injected failure")

// point is one armed failpoint.
type point struct {
	action string
	file   string        // of pause and steps
	ahead  time.Duration // of ahead
	count  int64
	hits   atomic.Int64

	mu      sync.Mutex // of what steps has read
	looked  time.Time
	stepped time.Duration
}

// armed holds the failpoints by name. It is nil while there are none, so that
// Hit costs one load; a map that is there is never changed, only replaced.
var armed atomic.Pointer[map[string]*point]

func init() {
	value := os.Getenv(EnvFailpoint)
	if value == "" {
		return
	}
	points, err := parse(value)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(exitBadFailpoint)
	}
	armed.Store(&points)
	slog.Warn("failpoints are armed: this program will fail on purpose", "variable", EnvFailpoint, "value", value)
}

// Hit marks a place where a test may make the program fail. It returns nil
// unless a failpoint of that name is armed; see EnvFailpoint for what it does
// then. The error is ErrInjected or a pause that lasted too long.
func Hit(name string) error {
	points := armed.Load()
	if points == nil {
		return nil
	}
	p := (*points)[name]
	if p == nil || p.setsClock() || p.hits.Add(1) != p.count {
		return nil
	}
	return p.act(name)
}

// Ahead returns by how much a clock is to be set wrong. It is the time of the
// failpoint of that name, less than 0 for a clock that is behind, 0 if there is
// none.
func Ahead(name string) time.Duration {
	points := armed.Load()
	if points == nil || (*points)[name] == nil {
		return 0
	}
	if p := (*points)[name]; p.action == "steps" {
		return p.step()
	}
	return (*points)[name].ahead
}

// SetsClock reports whether a failpoint of that name may ever have a clock wrong.
func SetsClock(name string) bool {
	points := armed.Load()
	return points != nil && (*points)[name] != nil && (*points)[name].setsClock()
}

func (p *point) setsClock() bool { return p.action == "ahead" || p.action == "steps" }

// step is the time that the file has. A clock is asked often: the file is read every few
// milliseconds. A file that is not there yet, or is being written, changes nothing.
func (p *point) step() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := time.Now(); p.looked.IsZero() || now.Sub(p.looked) >= pausePoll {
		p.looked = now
		if text, err := os.ReadFile(p.file); err == nil {
			if by, err := time.ParseDuration(string(text)); err == nil {
				p.stepped = by
			}
		}
	}
	return p.stepped
}

// Arm arms the failpoints of a spec, in the form of EnvFailpoint, in place of
// those armed before, and returns what restores them. For tests that run the
// program's parts in their own process; not for parallel tests.
func Arm(spec string) (disarm func(), err error) {
	points, err := parse(spec)
	if err != nil {
		return nil, err
	}
	before := armed.Swap(&points)
	return func() { armed.Store(before) }, nil
}

func (p *point) act(name string) error {
	switch p.action {
	case "kill":
		return signalSelf(name, syscall.SIGKILL)
	case "stop":
		return signalSelf(name, syscall.SIGSTOP)
	case "pause":
		return p.pause(name)
	}
	return fmt.Errorf("failpoint %s: %w", name, ErrInjected)
}

func signalSelf(name string, sig syscall.Signal) error {
	if err := syscall.Kill(os.Getpid(), sig); err != nil {
		return fmt.Errorf("failpoint %s: send %s to itself: %w", name, sig, err)
	}
	return nil
}

func (p *point) pause(name string) error {
	reached := p.file + ".reached"
	if err := os.WriteFile(reached, nil, 0o600); err != nil {
		return fmt.Errorf("failpoint %s: say that it is reached: %w", name, err)
	}
	tick := time.NewTicker(pausePoll)
	defer tick.Stop()
	limit := time.NewTimer(pauseWithin)
	defer limit.Stop()
	for {
		if _, err := os.Stat(p.file); err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-limit.C:
			return fmt.Errorf("failpoint %s: the file %s was not made within %s", name, p.file, pauseWithin)
		}
	}
}

func parse(spec string) (map[string]*point, error) {
	points := make(map[string]*point)
	for one := range strings.SplitSeq(spec, ";") {
		name, rest, ok := strings.Cut(one, "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("parse failpoint %q: want name=action[,count]", one)
		}
		p := &point{count: 1}
		if at := strings.LastIndexByte(rest, ','); at >= 0 {
			n, err := strconv.ParseInt(rest[at+1:], 10, 64)
			if err != nil || n < 1 {
				return nil, fmt.Errorf("parse failpoint %q: count %q: want a whole number from 1", one, rest[at+1:])
			}
			p.count, rest = n, rest[:at]
		}
		p.action, p.file, _ = strings.Cut(rest, ":")
		switch {
		case (p.action == "pause" || p.action == "steps") && p.file == "":
			return nil, fmt.Errorf("parse failpoint %q: want %s:FILE", one, p.action)
		case p.action == "pause", p.action == "steps":
		case p.action == "ahead":
			by, err := time.ParseDuration(p.file)
			if err != nil || by == 0 {
				return nil, fmt.Errorf("parse failpoint %q: want ahead:TIME, such as ahead:168h or ahead:-1h", one)
			}
			p.ahead = by
		case p.file != "" || (p.action != "kill" && p.action != "stop" && p.action != "error"):
			return nil, fmt.Errorf("parse failpoint %q: action %q: want kill, stop, error, pause:FILE, ahead:TIME or steps:FILE", one, rest)
		}
		if points[name] != nil {
			return nil, fmt.Errorf("parse failpoint %q: the name is there twice", one)
		}
		points[name] = p
	}
	return points, nil
}
