package chaos

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// verdict is how a round has ended.
type verdict struct {
	seed    uint64
	kind    string
	passed  bool
	setUp   string
	amounts string // how much was handed in and found, NAME=NUMBER each
	faults  int
	took    time.Duration
}

// String is the line of the round: seed, kind, passed or FAILED, its set-up, the
// commit that was tried, seconds and amounts.
func (v verdict) String() string {
	word := map[bool]string{true: "passed", false: "FAILED"}[v.passed]
	return strings.TrimSpace(fmt.Sprintf("%d %s %s %s commit=%s seconds=%.1f %s", v.seed, v.kind, word, v.setUp, commit(), v.took.Seconds(), v.amounts))
}

// readVerdict reads what String wrote.
func readVerdict(line string) (v verdict, ok bool) {
	words := strings.Fields(line)
	if len(words) < 3 {
		return v, false // a run was killed while it wrote
	}
	s, err := strconv.ParseUint(words[0], 10, 64)
	if err != nil || words[2] != "passed" && words[2] != "FAILED" {
		return v, false
	}
	v = verdict{seed: s, kind: words[1], passed: words[2] == "passed"}
	for _, word := range words[3:] {
		switch name, text, _ := strings.Cut(word, "="); name {
		case "seconds":
			if seconds, err := strconv.ParseFloat(text, 64); err == nil {
				v.took = time.Duration(seconds * float64(time.Second))
			}
		case "faults":
			v.faults, _ = strconv.Atoi(text)
		}
	}
	return v, true
}

// commit is what is tried: the commit of this tree, with "+" if the tree differs
// from it, or the program that was named.
var commit = sync.OnceValue(func() string {
	if *onBinary != "" {
		return filepath.Base(*onBinary)
	}
	out, err := exec.Command("git", "rev-parse", "--short=9", "HEAD").Output()
	if err != nil {
		return "unknown"
	}
	name := strings.TrimSpace(string(out))
	if changed, err := exec.Command("git", "status", "--porcelain").Output(); err != nil || len(changed) > 0 {
		name += "+"
	}
	return name
})

// recorder keeps what a test says, so that it can be written to a file.
type recorder struct {
	*testing.T
	mu   sync.Mutex
	said strings.Builder
}

func (r *recorder) note(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.said.WriteString(time.Now().Format("15:04:05.000 ") + strings.TrimSuffix(text, "\n") + "\n")
}

func (r *recorder) text() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.said.String()
}

func (r *recorder) Logf(format string, args ...any) {
	r.T.Helper()
	r.note(fmt.Sprintf(format, args...))
	r.T.Logf(format, args...)
}

func (r *recorder) Errorf(format string, args ...any) {
	r.T.Helper()
	r.note("ERROR " + fmt.Sprintf(format, args...))
	r.T.Errorf(format, args...)
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.T.Helper()
	r.note("FATAL " + fmt.Sprintf(format, args...))
	r.T.Fatalf(format, args...)
}

// Log, Error and Fatal are the others of testing.T that say something.
func (r *recorder) Log(args ...any)   { r.T.Helper(); r.Logf("%s", fmt.Sprint(args...)) }
func (r *recorder) Error(args ...any) { r.T.Helper(); r.Errorf("%s", fmt.Sprint(args...)) }
func (r *recorder) Fatal(args ...any) { r.T.Helper(); r.Fatalf("%s", fmt.Sprint(args...)) }

// keepOutput keeps what a round has said that has failed, beside the file of
// rounds. The logs of its processes are there already (round.keepLogs).
func keepOutput(t *testing.T, p *plan, text string) {
	t.Helper()
	dir := failedDir(p)
	if dir == "" {
		return
	}
	err := os.MkdirAll(dir, 0o755)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "output.txt"), []byte(text), 0o644)
	}
	if err != nil {
		t.Error(err)
	}
	fmt.Printf("  its output and the logs of its processes: %s\n", dir)
}

// failedDir is where the output of a round is kept if it fails; "": nowhere.
func failedDir(p *plan) string {
	if *roundsFile == "" {
		return ""
	}
	return filepath.Join(*roundsFile+".failed", fmt.Sprintf("%d-%s", p.seed, p.kind.name))
}

// readVerdicts returns the rounds that the file has.
func readVerdicts(t *testing.T) (all []verdict) {
	t.Helper()
	if *roundsFile == "" {
		return nil
	}
	file, err := os.Open(*roundsFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		if v, ok := readVerdict(lines.Text()); ok {
			all = append(all, v)
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

// noteLine writes a line to the file of rounds.
func noteLine(t *testing.T, line string) {
	t.Helper()
	if *roundsFile == "" {
		return
	}
	file, err := os.OpenFile(*roundsFile, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		t.Error(err)
		return
	}
	defer file.Close()
	if _, err := fmt.Fprintln(file, line); err != nil {
		t.Error(err)
	}
}

// sumUp prints how many rounds of each kind have passed, in what time, and the
// seeds of those that have not. The latter also fail the test if an earlier run
// made them. A line of it goes to the file of rounds.
func sumUp(t *testing.T, done []verdict) {
	t.Helper()
	made, took, failed := map[string]int{}, map[string]time.Duration{}, map[string][]uint64{}
	bad, all, faults := 0, time.Duration(0), 0
	for _, v := range done {
		made[v.kind]++
		took[v.kind] += v.took
		all += v.took
		faults += v.faults
		if !v.passed {
			failed[v.kind] = append(failed[v.kind], v.seed)
			bad++
		}
	}
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(made)) {
		slices.SortFunc(failed[name], cmp.Compare[uint64])
		fmt.Fprintf(&text, "  %-16s %4d of %4d passed, %.1f s each", name, made[name]-len(failed[name]), made[name], took[name].Seconds()/float64(made[name]))
		if len(failed[name]) > 0 {
			fmt.Fprintf(&text, "; failed: seeds %v", failed[name])
		}
		text.WriteByte('\n')
	}
	line := fmt.Sprintf("%d rounds with %d faults, %d passed, %d failed; %.0f minutes of rounds", len(done), faults, len(done)-bad, bad, all.Minutes())
	fmt.Printf("%s:\n%s", line, text.String())
	noteLine(t, "# "+line)
	if len(failed) > 0 && !t.Failed() {
		t.Errorf("rounds of earlier runs have failed; take their lines out of %s to make them again", *roundsFile)
	}
	if len(done) == 0 {
		t.Error("no round was made")
	}
}
