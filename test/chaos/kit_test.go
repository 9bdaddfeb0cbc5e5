package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"syscall"
	"testing"
	"time"
)

// clients hand something in, to the program that listens now, until finish, and
// count what they were told is accepted.
type clients struct {
	mu      sync.Mutex
	at      string // where the program listens now
	ending  bool
	count   int // accepted
	repeats int // answers that were no acceptance, and requests without one
	handing sync.WaitGroup

	fresh chan struct{} // for a waiter for the next acceptance; nil: none waits
}

func (c *clients) moveTo(at string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = at
}

func (c *clients) now() (at string, ending bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at, c.ending
}

func (c *clients) accepted() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.count
}

// took counts something that was accepted, and reports whether to go on. note
// may note what it was.
func (c *clients) took(n int, note func()) bool {
	c.mu.Lock()
	c.count += n
	note()
	ending := c.ending
	c.mu.Unlock()
	select {
	case c.fresh <- struct{}{}:
	default:
	}
	return !ending
}

// missed is took for what was not accepted.
func (c *clients) missed(note func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.repeats++
	note()
	return !c.ending
}

// run starts so many clients, which call hand until it reports that they are
// done.
func (c *clients) run(atOnce int, hand func(client *http.Client, who, n int) bool) {
	for who := range atOnce {
		c.handing.Go(func() { // ends after finish
			client := &http.Client{Transport: &http.Transport{}, Timeout: requestWithin}
			defer client.CloseIdleConnections()
			for n := 0; hand(client, who, n); n++ {
			}
		})
	}
}

// finish lets everybody end with what is in hand.
func (c *clients) finish() {
	c.mu.Lock()
	c.ending = true
	c.mu.Unlock()
	c.handing.Wait()
}

// deliver repeats a request until it is accepted, and reports whether to go on.
// ask makes it: it returns the status, 0 without an answer, how much was
// accepted and what notes it.
func (c *clients) deliver(t *testing.T, what string, within time.Duration, ask func(at string) (status, n int, note func())) bool {
	for until := time.Now().Add(within); t.Context().Err() == nil; pause(t.Context(), 5*time.Millisecond) {
		at, _ := c.now()
		status, n, note := ask(at)
		if status == http.StatusAccepted && n > 0 {
			return c.took(n, note)
		}
		c.missed(func() {})
		if status != 0 && status != http.StatusServiceUnavailable || time.Now().After(until) {
			t.Errorf("%s is answered %d, with %d accepted", what, status, n)
			return false
		}
	}
	return false
}

// killAtRandom kills the program, Redis or the database at random instants, so
// many times at most, and returns how often. Each is killed once, in any order,
// before one is killed again. moved is called when there is another program;
// passed is now and then, and waits until things go on.
func (w *world) killAtRandom(random *rand.Rand, most int, moved, passed func()) (done int) {
	w.t.Helper()
	first := random.Perm(int(preys))
	for ; done < most && time.Now().Before(w.until); done++ {
		pause(w.t.Context(), time.Duration(random.IntN(400))*time.Millisecond)
		before, what := w.newest(), anyPrey(random)
		if done < len(first) {
			what = prey(first[done])
		}
		if w.killAny(what, before) != before {
			moved()
		}
		if random.IntN(3) == 0 {
			passed()
		}
	}
	return done
}

// killBeside is killAtRandom while clients hand in.
func (w *world) killBeside(random *rand.Rand, most int, c *clients) (done int) {
	w.t.Helper()
	return w.killAtRandom(random, most, func() { c.moveTo(w.awaitListen()) }, func() {
		n := c.accepted()
		w.eventually("something is accepted", func() bool { return c.accepted() > n+4 })
	})
}

// killFresh kills a program that takes in and does not store right after it has
// accepted something, again and again, and ends the clients. What finds the
// place where the newest program takes in, and the query what is stored, which
// must be nothing.
func (w *world) killFresh(c *clients, rounds int, where func() string, stored string) {
	w.t.Helper()
	kill := func() {
		w.newest().kill()
		if n := w.highest(stored); n != 0 {
			w.t.Fatalf("%d are stored already: this test shows nothing", n)
		}
	}
	more := func() {
		before := c.accepted()
		w.eventually("something is accepted", func() bool { return c.accepted() >= before+20 })
	}
	for range rounds {
		more()
		<-c.fresh
		kill() // a client that was told an instant ago that it is accepted relies on it
		w.start("")
		c.moveTo(where())
	}
	more()
	c.finish()
	kill()
	if c.repeats == 0 {
		w.t.Error("nothing was repeated: this test shows little")
	}
}

// newest is the program that was started last.
func (w *world) newest() *program {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.programs[len(w.programs)-1]
}

var (
	httpListening = regexp.MustCompile(`listen=(127\.0\.0\.1:\d+)`)
	smtpListening = regexp.MustCompile(`smtp=(127\.0\.0\.1:\d+)`)
)

// awaitListen returns the URL of the newest program, awaitSMTP where it takes
// mail in.
func (w *world) awaitListen() string { w.t.Helper(); return "http://" + w.awaitLogged(httpListening) }
func (w *world) awaitSMTP() string   { w.t.Helper(); return w.awaitLogged(smtpListening) }

// awaitLogged returns what an expression finds in the log of the newest program.
func (w *world) awaitLogged(what *regexp.Regexp) (found string) {
	w.t.Helper()
	file := w.newest().cmd.Stderr.(*os.File).Name()
	w.eventually("the log of the program has "+what.String(), func() bool {
		text, err := os.ReadFile(file)
		if err != nil {
			return false
		}
		parts := what.FindSubmatch(text)
		if parts != nil {
			found = string(parts[1])
		}
		return parts != nil
	})
	return found
}

// ask posts to the newest program until it is answered with what is wanted. What
// is posted may be repeated.
func (w *world) ask(path, body, idempotencyKey string, want int) {
	w.t.Helper()
	client, at := &http.Client{Timeout: requestWithin}, w.awaitListen()
	defer client.CloseIdleConnections()
	w.eventually(fmt.Sprintf("%s is answered %d", path, want), func() bool { return post(client, at+path, body, idempotencyKey) == want })
}

// dies starts a program that kills itself at a failpoint, and waits for it.
func (w *world) dies(failpoint string) {
	w.t.Helper()
	w.exits(w.start(failpoint), "the program has killed itself at "+failpoint)
}

// run runs a command of the program to its end and returns what it says.
func (w *world) run(failpoints string, args ...string) (string, error) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), settleWithin)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, append(args, "--config", filepath.Join(w.dir, "sluice.yaml"))...)
	cmd.Dir = w.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Env = w.environ(failpoints)
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		err = ctx.Err() // it did not kill itself
	}
	return string(out), err
}

// command runs a command that has to succeed or, with a failpoint, to kill
// itself there.
func (w *world) command(failpoint string, args ...string) {
	w.t.Helper()
	out, err := w.run(failpoint, args...)
	exit, ended := errors.AsType[*exec.ExitError](err)
	if failpoint == "" && err != nil || failpoint != "" && (!ended || exit.ExitCode() != -1) {
		w.t.Fatalf("%v with the failpoint %q: %v\n%s", args, failpoint, err, out)
	}
}
