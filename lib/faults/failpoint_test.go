package faults

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// asVictim names the variable with which the test binary is started as a
// program that hits the failpoint "x" and prints what it returned.
const asVictim = "FAULTS_TEST_HITS"

func TestMain(m *testing.M) {
	if os.Getenv(asVictim) == "" {
		os.Exit(m.Run())
	}
	for i := range 3 {
		fmt.Printf("hit %d: %v\n", i+1, Hit("x"))
	}
}

func victim(t *testing.T, spec string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), asVictim+"=1", EnvFailpoint+"="+spec)
	return cmd
}

func TestFailpointKillsItselfAtTheCount(t *testing.T) {
	cmd := victim(t, "y=error;x=kill,2")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("the program ended with %v, want SIGKILL", err)
	}
	if string(out) != "hit 1: <nil>\n" {
		t.Errorf("it printed %q", out)
	}
	if !strings.Contains(stderr.String(), "WARN") || !strings.Contains(stderr.String(), "x=kill,2") {
		t.Errorf("it did not warn: %q", stderr.String())
	}
}

func TestFailpointError(t *testing.T) {
	out, err := victim(t, "x=error,2").Output()
	if err != nil {
		t.Fatal(err)
	}
	if want := "hit 1: <nil>\nhit 2: failpoint x: injected failure\nhit 3: <nil>\n"; string(out) != want {
		t.Errorf("it printed %q, want %q", out, want)
	}
}

func TestFailpointStopsItself(t *testing.T) {
	cmd := victim(t, "x=stop")
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(cmd.Process.Pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
		t.Fatalf("wait for the stop: %v, status %v", err, status)
	}
	if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	lines := 0
	for s := bufio.NewScanner(stdout); s.Scan(); {
		lines++
	}
	if err := cmd.Wait(); err != nil || lines != 3 {
		t.Errorf("after SIGCONT: %v, %d lines, want 3", err, lines)
	}
}

func TestFailpointPause(t *testing.T) {
	file := filepath.Join(t.TempDir(), "go")
	disarm, err := Arm("x=pause:" + file)
	if err != nil {
		t.Fatal(err)
	}
	defer disarm()
	done := make(chan error, 1)
	go func() { done <- Hit("x") }()
	awaitFile(t, file+".reached")
	select {
	case err := <-done:
		t.Fatalf("it went on before its file was there: %v", err)
	default:
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestUnreadableFailpointEndsTheProgram(t *testing.T) {
	for _, spec := range []string{"x", "=kill", "x=explode", "x=kill,0", "x=kill,two", "x=pause", "x=steps", "x=kill:y", "x=ahead", "x=ahead:0s", "x=ahead:week", "x=kill;x=stop", "x=kill;"} {
		var stderr bytes.Buffer
		cmd := victim(t, spec)
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != exitBadFailpoint || len(out) != 0 {
			t.Errorf("%s: ended with %v, printed %q", spec, err, out)
		}
		if !strings.HasPrefix(stderr.String(), "parse failpoint") {
			t.Errorf("%s: said %q", spec, stderr.String())
		}
	}
}

func TestClockSetWrong(t *testing.T) {
	disarm, err := Arm("clock=ahead:-168h")
	if err != nil {
		t.Fatal(err)
	}
	if by, err := Ahead("clock"), Hit("clock"); by != -7*24*time.Hour || err != nil || Ahead("other") != 0 {
		t.Errorf("ahead by %s, of another by %s, a hit: %v", by, Ahead("other"), err)
	}
	disarm()
	if by := Ahead("clock"); by != 0 {
		t.Errorf("disarmed, ahead by %s", by)
	}
}

// A clock steps while the program runs, as often as the file is written.
func TestClockSteps(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ahead")
	disarm, err := Arm("clock=steps:" + file)
	if err != nil {
		t.Fatal(err)
	}
	defer disarm()
	if by, err := Ahead("clock"), Hit("clock"); by != 0 || err != nil || !SetsClock("clock") || SetsClock("other") {
		t.Errorf("without a file it is ahead by %s, a hit: %v, it sets a clock: %v, another: %v", by, err, SetsClock("clock"), SetsClock("other"))
	}
	for _, want := range []time.Duration{5 * time.Minute, -5 * time.Minute, 0} {
		if err := os.WriteFile(file, []byte(want.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		for Ahead("clock") != want {
			if t.Context().Err() != nil {
				t.Fatal("the test has ended")
			}
			runtime.Gosched()
		}
	}
}

func TestArmIsUndone(t *testing.T) {
	disarm, err := Arm("x=error")
	if err != nil {
		t.Fatal(err)
	}
	if err := Hit("x"); !errors.Is(err, ErrInjected) {
		t.Errorf("armed: %v", err)
	}
	disarm()
	if err := Hit("x"); err != nil {
		t.Errorf("disarmed: %v", err)
	}
}

func BenchmarkHitUnarmed(b *testing.B) {
	for b.Loop() {
		if Hit("x") != nil {
			b.Fatal("it hit")
		}
	}
}

func awaitFile(t *testing.T, path string) {
	t.Helper()
	for t.Context().Err() == nil {
		if _, err := os.Stat(path); err == nil {
			return
		}
	}
	t.Fatalf("%s was not made", path)
}
