package bench

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Exit codes of Main.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

// quickLimit is what --quick promises. A quick bench that takes longer fails.
const quickLimit = 60 * time.Second

// options are the flags that every bench takes.
type options struct {
	quick    bool
	assert   bool
	jsonFile string
	plotFile string
	redis    string
	database string
	only     string
	program  string

	users int      // of bench journey; 0: as many as are usual
	kinds []string // of databases, of bench journey
	merge string   // the record that it goes on with

	minutes int // of bench dashboard; 0: as many as are usual

	databaseMB int    // which a private database keeps in memory; 0: as it does by itself
	partitions int    // of the program that is measured
	against    string // the other program, of bench turns
	others     int    // partitions of the other program; 0: as many
	turns      int    // 0: as many as are usual
	whole      string // benches that both programs run whole, in turns

	away time.Duration // of the database, of bench events: there and back
}

// run is one bench being run.
type run struct {
	options
	report   *report
	progress io.Writer
	started  time.Time
	parts    []string  // empty: all
	busy     []float64 // percent of all cores, before each run
}

// does reports whether a part is wanted.
func (r *run) does(part string) bool {
	return len(r.parts) == 0 || slices.Contains(r.parts, part)
}

// say shows progress: a line with the seconds since the start.
func (r *run) say(format string, args ...any) {
	fmt.Fprintf(r.progress, "%6.1f s  %s\n", time.Since(r.started).Seconds(), fmt.Sprintf(format, args...))
}

// What --database-memory may say.
const (
	minDatabaseMB = 16
	maxDatabaseMB = 1 << 20
)

// ownMemory are the arguments of a private database for --database-memory: the last one
// has a place for the MB. None: it does as it does by itself.
func (r *run) ownMemory(words ...string) []string {
	if r.databaseMB == 0 {
		return nil
	}
	last := len(words) - 1
	return append(slices.Clone(words[:last]), fmt.Sprintf(words[last], r.databaseMB))
}

// mariaMemory are those of MariaDB. Its redo log is a quarter of what it keeps in memory, as
// docs/operate.md says: by itself it is 96 MB, and pages are written again and again.
func (r *run) mariaMemory() []string {
	args := r.ownMemory("--innodb-buffer-pool-size=%dM")
	if len(args) > 0 {
		args = append(args, fmt.Sprintf("--innodb-log-file-size=%dM", max(r.databaseMB/4, mariaLogMB)))
	}
	return args
}

const mariaLogMB = 96 // which it has by itself

// pick returns full, or quick with --quick.
func pick[T any](r *run, full, quick T) T {
	if r.quick {
		return quick
	}
	return full
}

// Main is the command sluice-bench. The table goes
// to stdout, progress and errors to stderr. It returns the exit code: 0 done,
// 1 failed or (with --assert) a target missed, 2 the command line is wrong.
func Main(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) == 0 || slices.Contains([]string{"-h", "-help", "--help", "help"}, args[0]) {
		usage(stdout)
		return exitOK
	}
	i := slices.IndexFunc(benches, func(b bench) bool { return b.name == args[0] })
	if i < 0 {
		fmt.Fprintf(stderr, "sluice-bench: there is no bench %q\n\n", args[0])
		usage(stderr)
		return exitUsage
	}
	b := benches[i]
	r, err := parse(b, args[1:], stderr)
	if errors.Is(err, flag.ErrHelp) {
		return exitOK
	}
	if err != nil {
		fmt.Fprintf(stderr, "sluice-bench %s: %v\n", b.name, err)
		return exitUsage
	}
	return execute(ctx, b, r, stdout, stderr)
}

func execute(ctx context.Context, b bench, r *run, stdout, stderr io.Writer) int {
	if r.quick {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, quickLimit, fmt.Errorf("--quick is to end within %s", quickLimit))
		defer cancel()
	}
	runErr := b.run(ctx, r)
	if runErr != nil && ctx.Err() != nil {
		runErr = fmt.Errorf("%w (%w)", context.Cause(ctx), runErr)
	}
	r.report.print(stdout)
	if runErr != nil {
		fmt.Fprintf(stderr, "sluice-bench %s: %v\n", b.name, runErr)
		if r.merge == "" {
			return exitFailed
		}
	}
	if err := r.write(); err != nil {
		fmt.Fprintf(stderr, "sluice-bench %s: %v\n", b.name, err)
		return exitFailed
	}
	if runErr != nil {
		return exitFailed
	}
	missed := r.report.missed()
	if r.assert && len(missed) > 0 {
		fmt.Fprintf(stderr, "sluice-bench %s: missed: %s\n", b.name, strings.Join(missed, "; "))
		return exitFailed
	}
	return exitOK
}

// write writes the files that were asked for.
func (r *run) write() error {
	if r.jsonFile != "" {
		if err := writeFile(r.jsonFile, r.report.writeJSON); err != nil {
			return err
		}
	}
	if r.merge != "" {
		if err := writeFile(r.merge, r.report.writeJSON); err != nil {
			return err
		}
	}
	if r.plotFile != "" {
		return writeFile(r.plotFile, r.report.writePlot)
	}
	return nil
}

func writeFile(name string, write func(io.Writer) error) error {
	f, err := os.Create(name)
	if err != nil {
		return fmt.Errorf("write results: %w", err)
	}
	if err := errors.Join(write(f), f.Close()); err != nil {
		return fmt.Errorf("write results to %s: %w", name, err)
	}
	return nil
}

// parse reads the flags of a bench.
func parse(b bench, args []string, stderr io.Writer) (*run, error) {
	r := &run{progress: stderr, started: time.Now(), report: newReport(b.name)}
	f := flag.NewFlagSet("sluice-bench "+b.name, flag.ContinueOnError)
	f.SetOutput(stderr)
	f.BoolVar(&r.quick, "quick", false, "smaller and shorter, done within 60 s")
	f.BoolVar(&r.assert, "assert", false, "fail if a target is missed")
	f.StringVar(&r.jsonFile, "json", "", "write the results to this `FILE`")
	f.StringVar(&r.plotFile, "plot", "", "write a bar chart (SVG) to this `FILE`")
	f.StringVar(&r.redis, "redis", "", "use the Redis at this `URL`, an empty database of it; default: a private one")
	if b.name == journeyName {
		f.StringVar(&r.database, "database", "", "measure on private ones of these `KINDS`: "+strings.Join(journeyKinds, ",")+"; or on the MariaDB or MySQL at a URL; default: each kind in turn")
	} else {
		f.StringVar(&r.database, "database", "", "use the MariaDB or MySQL at this `URL`, an empty database of it; default: a private one")
	}
	f.IntVar(&r.databaseMB, "database-memory", 0, "a private MariaDB or PostgreSQL keeps this many `MB` of its tables in memory, and MariaDB has a redo log of a quarter of that; default: what they do by themselves, 128 and 96")
	f.StringVar(&r.program, "program", "", "the sluice `FILE` to measure; default: the one beside this program")
	f.IntVar(&r.partitions, "partitions", somePartitions, "how many `PARTITIONS` the measured program has; a new deployment has 64, which cost more of small writes")
	if b.name == turnsName {
		f.StringVar(&r.against, "against", "", "the other sluice `FILE`, an older one for instance")
		f.IntVar(&r.turns, "turns", 0, fmt.Sprintf("how `MANY` turns, 2 to %d; default: %d of a piece of work, %d of a whole bench", mostTurns, turns, wholeTurns))
		f.StringVar(&r.whole, "benches", "", "instead of pieces of work, whole `BENCHES` of each program with --quick, as rules,send:cpu")
		f.IntVar(&r.others, "against-partitions", 0, "how many `PARTITIONS` the other program has; default: as many")
	}
	if b.name == eventsName {
		f.DurationVar(&r.away, "database-away", defaultAway, "of the part away: how far the database is, there and back, as a `DURATION`")
	}
	if b.name == journeyName || b.name == peopleName {
		f.IntVar(&r.users, "users", 0, fmt.Sprintf("how many `PEOPLE`; default: %d", journeyUsers))
	}
	if slices.Contains([]string{journeyName, peopleName, dashboardName}, b.name) {
		f.StringVar(&r.merge, "merge", "", "go on with the record in this `FILE`, if it is there, and write all to it: so a record is made of several runs")
	}
	if b.name == dashboardName {
		f.IntVar(&r.minutes, "minutes", 0, fmt.Sprintf("for how many `MINUTES` the overview is looked at; default: %d", viewedMinutes))
	}
	if b.parts != nil {
		f.StringVar(&r.only, "only", "", "measure only these `PARTS`: "+strings.Join(b.parts, ","))
	}
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if f.NArg() > 0 {
		return nil, fmt.Errorf("takes no argument %q", f.Arg(0))
	}
	if r.only != "" {
		r.parts = strings.Split(r.only, ",")
	}
	for _, part := range r.parts {
		if !slices.Contains(b.parts, part) {
			return nil, fmt.Errorf("--only: there is no part %q, there are %s", part, strings.Join(b.parts, ", "))
		}
	}
	if err := errors.Join(r.checkTurns(), r.checkKinds(b.name), r.checkAway()); err != nil {
		return nil, err
	}
	if r.program == "" {
		own, err := os.Executable()
		if err != nil {
			return nil, fmt.Errorf("find the file of sluice, which the bench starts: %w; name it with --program", err)
		}
		r.program = filepath.Join(filepath.Dir(own), "sluice")
	}
	if r.databaseMB != 0 && (r.databaseMB < minDatabaseMB || r.databaseMB > maxDatabaseMB) {
		return nil, fmt.Errorf("--database-memory is %d MB, and may be %d to %d", r.databaseMB, minDatabaseMB, maxDatabaseMB)
	}
	r.report.Settings["partitions"] = fmt.Sprint(r.partitions)
	r.report.Settings["quick"] = fmt.Sprint(r.quick)
	return r, nil
}

func usage(w io.Writer) {
	fmt.Fprint(w, "Usage: sluice-bench NAME [--quick] [--assert] [--json FILE] [--plot FILE] [--redis URL] [--database URL]\n\n")
	for _, b := range benches {
		fmt.Fprintf(w, "  %-11s %s\n", b.name, b.line)
		if b.parts != nil {
			fmt.Fprintf(w, "  %-11s --only %s\n", "", strings.Join(b.parts, ","))
		}
	}
	fmt.Fprint(w, "\nWithout --redis and --database it starts private servers and removes them after. Those you\n"+
		"name must be empty: their contents are deleted between the runs.\n")
}
