package child

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	// pollInterval is how often a condition of another process is looked at.
	pollInterval = 5 * time.Millisecond

	// logTailBytes is how much of a server's log an error quotes.
	logTailBytes = 2048
)

// Spec is what a process is started with.
type Spec struct {
	Program    string
	Args       []string
	Dir        string
	LogPath    string              // stdout and stderr are appended to it
	Credential *syscall.Credential // whom it runs as; nil: ourselves
	Ending     syscall.Signal      // asks it to end; 0: SIGTERM
	Session    bool                // it wants to lead a session

	private bool     // the files that it makes are for its owner alone
	held    *os.File // stays open in the child, or nil: see lock.go
}

// command returns the program and its arguments. A umask belongs to a whole
// process, so for a private one a shell sets it and becomes the program.
func (s *Spec) command() (program string, args []string) {
	if !s.private {
		return s.Program, s.Args
	}
	return "/bin/sh", append([]string{"-c", `umask 077; exec "$@"`, "sh", s.Program}, s.Args...)
}

// Process is a running child.
//
// Linux can kill a child when its parent ends (PR_SET_PDEATHSIG), which is the
// only way that also covers kill -9 of the parent. Two traps lie in it:
//
// The signal comes when the *thread* that forked ends, not the process, and Go
// ends threads as it likes. So each child has a goroutine that is locked to its
// thread and forks. Then it stays in Wait on the same thread until the child is
// gone. The thread lives exactly as long as the child.
//
// The kernel forgets the request when the child changes its user. So a server
// that must not run as root is started as the other user (Credential is set
// before Pdeathsig by the Go runtime). Its own option, mariadbd --user, is not
// used, since the server would survive us with it.
//
// The signal is SIGKILL: SIGTERM would leave a paused child behind, and the
// servers' promise to us is that nothing accepted is lost by SIGKILL.
type Process struct {
	name   string
	cmd    *exec.Cmd
	ending syscall.Signal
	exited chan struct{} // closed after Wait has returned
	err    error         // of Wait; read only after exited is closed
}

// Start runs the child and returns as soon as it runs.
func Start(name string, s Spec) (*Process, error) {
	log, err := os.OpenFile(s.LogPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("start %s: open its log: %w", name, err)
	}
	defer log.Close()
	program, args := s.command()
	cmd := exec.Command(program, args...)
	cmd.Dir = s.Dir
	cmd.Stdout, cmd.Stderr = log, log
	if s.held != nil {
		cmd.ExtraFiles = []*os.File{s.held}
	}
	cmd.SysProcAttr = childAttributes(s.Credential)
	if s.Session { // which has a process group of its own as well
		cmd.SysProcAttr.Setsid, cmd.SysProcAttr.Setpgid = true, false
	}

	if s.Ending == 0 {
		s.Ending = syscall.SIGTERM
	}
	p := &Process{name: name, cmd: cmd, ending: s.Ending, exited: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if err := cmd.Start(); err != nil {
			started <- err
			return
		}
		started <- nil
		p.err = cmd.Wait()
		close(p.exited)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: run %s: %w", name, s.Program, err)
	}
	return p, nil
}

// Pid returns its process id.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Wait returns when the child has ended, with how, or when ctx is done, which it
// says by ended.
func (p *Process) Wait(ctx context.Context) (ended bool, err error) {
	select {
	case <-p.exited:
		return true, p.err
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

// Gone reports whether the child has ended.
func (p *Process) Gone() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

// Signal sends to the child alone. A child that is gone is no error.
func (p *Process) Signal(sig syscall.Signal) error {
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal %s (pid %d) with %s: %w", p.name, p.Pid(), sig, err)
	}
	return nil
}

// Kill ends the child and what it has forked (Redis forks to rewrite its log),
// and returns when the child is gone.
func (p *Process) Kill() error {
	if p.Gone() {
		return nil
	}
	if err := syscall.Kill(-p.Pid(), syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("kill %s (pid %d): %w", p.name, p.Pid(), err)
	}
	<-p.exited
	return nil
}

// Stop asks the child to end, and kills it after patience or when ctx ends,
// whichever is first. It returns when the child is gone.
func (p *Process) Stop(ctx context.Context, patience time.Duration) error {
	if p.Gone() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := p.Signal(p.ending); err != nil {
		return err
	}
	if err := p.Signal(syscall.SIGCONT); err != nil { // a paused child would not hear it
		return err
	}
	select {
	case <-p.exited:
		return nil
	case <-ctx.Done():
	}
	if err := p.Kill(); err != nil {
		return err
	}
	return fmt.Errorf("stop %s: it did not end after %s and was killed: %w", p.name, p.ending, ctx.Err())
}

// Await calls ready every few milliseconds until it says yes, the child ends,
// or ctx is done. The error says which, and quotes the end of the log.
func (p *Process) Await(ctx context.Context, logPath string, ready func() (bool, error)) error {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	var last error
	for {
		ok, err := ready()
		if ok {
			return nil
		}
		if err != nil {
			last = err
		}
		select {
		case <-p.exited:
			return &ExitError{Log: Tail(logPath), name: p.name, err: p.err}
		case <-ctx.Done():
			return fmt.Errorf("start %s: wait until it answers: %w (last: %w); the end of its log %s:\n%s",
				p.name, context.Cause(ctx), errOr(last), logPath, Tail(logPath))
		case <-tick.C:
		}
	}
}

func errOr(err error) error {
	if err == nil {
		return errors.New("no answer yet")
	}
	return err
}

// ExitError says that a server ended while it was being started.
type ExitError struct {
	Log string // the end of it

	name string
	err  error
}

// Error returns the message, with the end of the log.
func (e *ExitError) Error() string {
	how := "it ended by itself"
	if e.err != nil {
		how = "it ended: " + e.err.Error()
	}
	return fmt.Sprintf("start %s: %s; the end of its log:\n%s", e.name, how, e.Log)
}

// Tail returns the end of a file, or what kept it from being read.
func Tail(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > logTailBytes {
		if _, err := f.Seek(-logTailBytes, io.SeekEnd); err != nil {
			return err.Error()
		}
	}
	b, err := io.ReadAll(io.LimitReader(f, logTailBytes))
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(b))
}

// Find returns the path of the first of the named programs that is installed.
// It also looks into the sbin directories, which an ordinary user on Debian
// does not have in PATH though anybody may run what is there.
func Find(remedy string, names ...string) (string, error) {
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
		for _, dir := range []string{"/usr/sbin", "/usr/local/sbin", "/usr/libexec"} {
			if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
				return path, nil
			}
		}
	}
	return "", fmt.Errorf("find program %s: it is not installed, or not in PATH: %s", names[0], remedy)
}

// Runner is the part that all servers share: one process at a time, and the calls
// on it.
type Runner struct {
	mu   sync.Mutex
	proc *Process // nil before the first start
}

// Current returns the process that was started last.
func (r *Runner) Current() *Process {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.proc
}

// Set makes a process that has been started the current one.
func (r *Runner) Set(p *Process) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.proc = p
}

// Pid returns the process id of the server that was started last.
func (r *Runner) Pid() int { return r.Current().Pid() }

// Exited returns a channel that is closed when the server's process has ended,
// by whatever cause. Restart makes a new one.
func (r *Runner) Exited() <-chan struct{} { return r.Current().exited }

// Kill ends the server with SIGKILL and returns when it is gone. Its files
// stay: Restart starts it again on them.
func (r *Runner) Kill() error { return r.Current().Kill() }
