package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Bounds of whole benches in turns.
const (
	wholeTurns  = 10
	wholeWithin = 2 * quickLimit // one bench of one program, with its servers

	// wholeOutputBytes bounds what is told of a bench that fails.
	wholeOutputBytes = 2 << 10

	wholeReportBytes = 4 << 20
)

// runWhole has both programs run whole benches in turns, and compares each row
// that both have. What is none of the loads is compared so. The benches are quick
// ones: many short turns give a narrower interval than few long ones. A name may
// have a part behind a colon, as in send:cpu.
func runWhole(ctx context.Context, r *run) error {
	dir, err := os.MkdirTemp("", "sluice-turns-")
	if err != nil {
		return fmt.Errorf("make a directory for the results of benches: %w", err)
	}
	defer os.RemoveAll(dir)
	for _, name := range strings.Split(r.whole, ",") {
		if err := wholeOf(ctx, r, name, dir); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// wholeOf compares one bench.
func wholeOf(ctx context.Context, r *run, name, dir string) error {
	var found [2][]report // of this program, of the other
	many := r.turnsOr(wholeTurns)
	for n := range many {
		r.say("%s: turn %d of %d", name, n+1, many)
		order := []int{0, 1}
		if n%2 == 1 {
			slices.Reverse(order)
		}
		for _, i := range order {
			one, err := r.wholeOnce(ctx, []string{r.program, r.against}[i], name, filepath.Join(dir, "result.json"))
			if err != nil {
				return err
			}
			found[i] = append(found[i], one)
		}
	}
	for _, x := range found[0][0].Rows {
		var values [2][]float64
		for i := range values {
			for _, one := range found[i] {
				if v := one.value(x.ID); v > 0 {
					values[i] = append(values[i], v)
				}
			}
		}
		switch {
		case len(values[0]) == many && len(values[1]) == many:
			r.compare(name+"_"+x.ID, name+": "+x.Label+" in "+x.Unit, values[0], values[1])
		default:
			r.say("%s: %s is not compared: one of the programs had none of it, in a turn at least", name, x.ID)
		}
	}
	return nil
}

// wholeOnce runs a bench of one program, which writes its results to a file.
func (r *run) wholeOnce(ctx context.Context, program, name, file string) (found report, err error) {
	ctx, cancel := context.WithTimeout(ctx, wholeWithin)
	defer cancel()
	if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) { // of the other program
		return found, fmt.Errorf("remove the results of the bench before: %w", err)
	}
	name, part, _ := strings.Cut(name, ":")
	command, args := benchOf(program)
	args = append(args, name, "--quick", "--json", file)
	if part != "" {
		args = append(args, "--only", part)
	}
	if command != program {
		args = append(args, "--program", program)
	}
	cmd := exec.CommandContext(ctx, command, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // it ends its servers
	cmd.WaitDelay = stopWithin
	if out, err := cmd.CombinedOutput(); err != nil {
		return found, fmt.Errorf("run %s %s: %w: %s", command, strings.Join(args, " "), err, out[max(0, len(out)-wholeOutputBytes):])
	}
	f, err := os.Open(file)
	if err != nil {
		return found, fmt.Errorf("read results: %w", err)
	}
	defer f.Close()
	if err := json.NewDecoder(io.LimitReader(f, wholeReportBytes)).Decode(&found); err != nil {
		return found, fmt.Errorf("read results of %s: %w", program, err)
	}
	return found, nil
}

// benchOf returns the command that measures a program. It is the one that lies
// beside it, by its name with -bench behind, or the own command bench of an
// older program.
func benchOf(program string) (command string, args []string) {
	beside := program + "-bench"
	if _, err := os.Stat(beside); err != nil {
		return program, []string{"bench"}
	}
	return beside, nil
}
