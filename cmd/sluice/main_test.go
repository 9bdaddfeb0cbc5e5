package main

import (
	"context"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"sluice/config"
	"sluice/store/sqlstore"
	"sluice/test/clocktest"
	"sluice/test/logtest"
)

// patience bounds waiting for a condition, on a machine that is busy.
const patience = 4 * time.Minute

// buffer collects output that is read while it is written.
type buffer = logtest.Buffer

// result is what a command did.
type result struct {
	code           int
	stdout, stderr string
}

// sluiceRun runs a command line in a directory to its end.
func sluiceRun(t *testing.T, dir string, args ...string) result {
	t.Helper()
	var stdout, stderr buffer
	m := Main{Args: args, Dir: dir, Stdout: &stdout, Stderr: &stderr}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	code := m.Run(ctx)
	return result{code, stdout.String(), stderr.String()}
}

// mustRun is sluiceRun for a command that must succeed.
func mustRun(t *testing.T, dir string, args ...string) (r result) {
	t.Helper()
	await(t, "the command has its turn at a file of SQLite", func() bool {
		r = sluiceRun(t, dir, args...)
		return !strings.Contains(r.stderr, "database is locked")
	})
	if r.code != exitOK {
		t.Fatalf("sluice %s: exit code %d\n%s%s", strings.Join(args, " "), r.code, r.stdout, r.stderr)
	}
	return r
}

// calm is for a store of the test, beside a program that writes the same file of SQLite: on
// a busy machine the program may rest in the midst of a transaction.
var calm = sqlstore.Options{SessionTimeout: 30 * time.Second}

// await waits for a condition.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	awaitFound(t, what, func() (any, bool) { return "that it does not hold", holds() })
}

// awaitFound is await for a condition of which the last look is to be told.
func awaitFound(t *testing.T, what string, look func() (found any, holds bool)) {
	t.Helper()
	for began := time.Now(); ; clocktest.Rest(began) {
		found, holds := look()
		if holds {
			return
		}
		if time.Since(began) > patience {
			t.Fatalf("waited in vain: %s; found last:\n%+v", what, found)
		}
	}
}

// awaitRun runs a command until its result is as wanted. On a busy machine the program
// may answer it too late, or not be ready for a moment.
func awaitRun(t *testing.T, dir string, wanted func(r result) bool, args ...string) (r result) {
	t.Helper()
	awaitFound(t, "sluice "+strings.Join(args, " "), func() (any, bool) {
		r = sluiceRun(t, dir, args...)
		return r, wanted(r)
	})
	return r
}

// helpLines is what a terminal shows.
const helpLines = 40

// Every command explains itself on one screen by `help X` and `X -h`, and with all its
// flags by `X --help-all`.
func TestHelpOfEveryCommand(t *testing.T) {
	overview := mustRun(t, t.TempDir(), "help").stdout
	for _, cmd := range commands() {
		if !strings.Contains(overview, "  "+cmd.name+" ") || cmd.line == "" {
			t.Errorf("%s is not in the overview", cmd.name)
		}
		help := mustRun(t, t.TempDir(), "help", cmd.name).stdout
		if !strings.HasPrefix(help, "Usage: sluice "+cmd.name) || len(strings.TrimSpace(cmd.long)) < 40 {
			t.Errorf("%s is not explained:\n%s", cmd.name, help)
		}
		all := mustRun(t, t.TempDir(), cmd.name, "--help-all").stdout
		for _, f := range flagsOf(cmd) {
			if !strings.Contains(all, "  --"+f.name+" ") || f.help == "" {
				t.Errorf("%s: --%s is not explained", cmd.name, f.name)
			}
			if told := strings.Contains(help, "  --"+f.name+" "); told == (f.more || f.setting || f.name == "config") {
				t.Errorf("%s: --%s is in the short help: %v", cmd.name, f.name, told)
			}
		}
		if n := strings.Count(help, "\n"); n > helpLines {
			t.Errorf("%s: %d lines of help, want %d at most: %s", cmd.name, n, helpLines, help)
		}
		for line := range strings.Lines(all) {
			if len(line) > 100 {
				t.Errorf("%s: a line of %d bytes: %s", cmd.name, len(line), line)
			}
		}
		for _, flag := range []string{"-h", "--help"} {
			if got := mustRun(t, t.TempDir(), cmd.name, flag).stdout; got != help {
				t.Errorf("%s %s differs from help %s", cmd.name, flag, cmd.name)
			}
		}
	}
}

func TestUsageErrors(t *testing.T) {
	tests := []struct{ args, want string }{
		{"sevre", "sluice: unknown command sevre; did you mean serve?"},
		{"xyzzy", "sluice: unknown command xyzzy; known are serve, dev, demo, health, doctor, domain, migrate, tail, top, sending, mailbox, doubt, schedule, dead, gaps, alert, key, account, template, journey, suppression, group, bounce, webhook, backup, restore, import, spill, export, hook, config, completion, man, version, help"},
		{"help tial", "sluice: unknown command tial; did you mean tail?"},
		{"serve --lisen x", "sluice: serve: unknown flag --lisen; did you mean --listen?"},
		{"serve -listen x", "sluice: serve: unknown flag -listen; did you mean --listen?"},
		{"key create", "sluice: key create: what is the key for? Say it with --name NAME"},
		{"serve --root-key secret", "sluice: serve: unknown flag --root-key; known are"},
		{"serve --listen", "sluice: serve: --listen wants a value: --listen VALUE"},
		{"serve now", "sluice: serve: takes no arguments, but \"now\" is one"},
		{"demo --rate fast", "sluice: demo: --rate: \"fast\" is no whole number from 1 to 1000000"},
		{"demo --for 0s", "sluice: demo: --for: \"0s\" is no duration, such as 10s or 5m"},
		{"tail --form now", "sluice: tail: unknown flag --form; did you mean --from?"},
		{"tail --from never", "sluice: tail: --from: \"never\" is none of start, now"},
		{"tail --json=yes", "sluice: tail: --json takes no value"},
		{"dead", "sluice: dead: want list, show, replay or drop; `sluice help dead` explains them"},
		{"dead replya", "sluice: dead: unknown \"replya\"; did you mean replay?"},
		{"dead show", "sluice: dead show: want one ID"},
		{"dead show 1 2", "sluice: dead show: want one ID"},
		{"dead drop", "sluice: dead drop: want either IDs or --all"},
		{"dead drop 1 --all", "sluice: dead drop: want either IDs or --all"},
		{"dead replay one", "sluice: dead: \"one\" is no ID; `sluice dead list` shows them"},
		{"import events", "sluice: import events: want one file, or - for standard input"},
		{"import undo", "sluice: import undo: want one file"},
		{"import users u.csv --dedupe id", "sluice: import users: --dedupe is for events"},
		{"import events - --columns name", "sluice: import: --columns: \"name\" is not FROM=TO"},
		{"import events - --delimiter ab", "sluice: import: --delimiter: \"ab\" is no single character"},
		{"backup", "sluice: backup: want one directory or new file"},
		{"restore a b", "sluice: restore: want one backup file"},
		{"sending stop --all", "sluice: sending stop: it stops all marketing mail, and takes no --all: say sending pause"},
		{"restore --only sql f", "sluice: restore: --only: \"sql\" is none of database, redis"},
		{"export", "sluice: export: want events, series or users, not \"\""},
		{"export users --kind mail", "sluice: export users: it takes no --kind"},
		{"export events --from soon", "sluice: export: --from: \"soon\" is no time, such as 2026-11-21 or 2026-11-21T05:30:00Z"},
		{"config shwo", "sluice: config: takes nothing or `show`, not \"shwo\""},
		{"sending purge --class marketing --tag= --yes", "sluice: sending: --tag wants a value, and it is empty"},
		{"dead drop --all --source=", "sluice: dead: --source wants a value, and it is empty"},
		{"version 1 -x", "sluice: version: unknown flag -x; it takes none"},
	}
	for _, tt := range tests {
		r := sluiceRun(t, t.TempDir(), strings.Fields(tt.args)...)
		if r.code != exitUsage || !strings.HasPrefix(r.stderr, tt.want) || strings.Count(r.stderr, "\n") != 1 || r.stdout != "" {
			t.Errorf("sluice %s: exit code %d, stdout %q\ngot  %swant %s", tt.args, r.code, r.stdout, r.stderr, tt.want)
		}
		if strings.Contains(r.stderr, "secret") {
			t.Errorf("sluice %s shows a value", tt.args)
		}
	}
	r := sluiceRun(t, t.TempDir())
	if r.code != exitUsage || !strings.Contains(r.stderr, "  demo ") {
		t.Errorf("without a command: exit code %d\n%s", r.code, r.stderr)
	}
}

// An empty value of a flag is refused, so that the variable of a script that is not set
// takes no filter away. A description may be emptied, and a setting.
func TestEmptyValuesAreRefused(t *testing.T) {
	for _, cmd := range commands() {
		for _, f := range flagsOf(cmd) {
			if f.value == "" {
				continue
			}
			may := f.setting || cmd.name == "group" && f.name == "description"
			for _, args := range [][]string{{"--" + f.name, ""}, {"--" + f.name + "="}} {
				g, err := parseArgs(args, cmd)
				if (err == nil) != may {
					t.Errorf("sluice %s %q: %v", cmd.name, args, err)
				}
				if said := g.said[f.name] || f.setting; may && !said {
					t.Errorf("sluice %s %q is not taken", cmd.name, args)
				}
			}
		}
	}
}

// What is wrong with the configuration or the world is exit code 1, in one
// line that says what to do.
func TestFailures(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	if err := os.WriteFile(filepath.Join(dir, config.DefaultFile), []byte("lists:\n  q:\n    tabel: t\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		args []string
		env  string
		want string
	}{
		{[]string{"serve"}, "", config.DefaultFile + ":3: lists.q.tabel: unknown key; did you mean table?"},
		{[]string{"dev"}, "SLUICE_LISTN=x", "unknown variable SLUICE_LISTN; did you mean SLUICE_LISTEN?"},
		{[]string{"dev", "--listen", "0.0.0.0:0"}, "", "SLUICE_ROOT_KEY"},
		{[]string{"dev", "--listen", "127.0.0.1:0", "--data", data, "--start-seconds", "0", "--redis", "unix:///nowhere/redis.sock"}, "", "start: connect to redis unix:///nowhere/redis.sock: "},
		{[]string{"tail", "--config", "/dev/null", "--data", data}, "", "is --data or --database right?"},
		{[]string{"sending", "show", "--config", "/dev/null", "--data", data}, "", "no sluice has run on the data directory"},
		{[]string{"dead", "list", "--config", "/dev/null", "--data", data}, "", "is --data or --database right?"},
		{[]string{"migrate", "--config", "/nowhere.yaml"}, "", "sluice config"},
	}
	for _, tt := range tests {
		var stdout, stderr buffer
		m := Main{Args: tt.args, Dir: dir, Environ: []string{tt.env}, Stdout: &stdout, Stderr: &stderr}
		if code := m.Run(t.Context()); code != exitFailed || !strings.Contains(stderr.String(), tt.want) || strings.Count(stderr.String(), "\n") != 1 {
			t.Errorf("%v: exit code %d\ngot  %swant %s", tt.args, code, stderr.String(), tt.want)
		}
	}
}

// A command whose output cannot be written fails: a list is not whole, and a key that was
// made is known to nobody. It is in the list, by which it can be revoked.
func TestOutputThatCannotBeWritten(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal("the test wants a system with /dev/full:", err)
	}
	defer full.Close()
	dir := t.TempDir()
	configure(t, dir, "")
	mustRun(t, dir, "migrate")
	mustRun(t, dir, "suppression", "add", "ann@example.com", "bob@example.com")
	for _, args := range []string{"suppression list --json", "key create --name shop", "config show", "version", "completion bash", "man", "help", "help key"} {
		var stderr buffer
		m := Main{Args: strings.Fields(args), Dir: dir, Stdout: full, Stderr: &stderr}
		code, text := m.Run(t.Context()), stderr.String()
		if code != exitFailed || strings.Count(text, "sluice: write output: write /dev/full: ") != 1 {
			t.Errorf("sluice %s: exit code %d\n%s", args, code, text)
		}
	}
	if out := mustRun(t, dir, "key", "list").stdout; !strings.HasSuffix(out, "  in force  shop\n") {
		t.Errorf("the key is not listed: %q", out)
	}
}

// The printed sample is a configuration that loads, and `config show` says
// where each value comes from without showing secrets.
func TestConfigCommand(t *testing.T) {
	dir := t.TempDir()
	sample := mustRun(t, dir, "config").stdout
	if !strings.Contains(mustRun(t, dir, "config", "--help-all").stdout, sample) {
		t.Error("config --help-all does not print the sample")
	}
	if err := os.WriteFile(filepath.Join(dir, config.DefaultFile), []byte(sample+"\ndatabase: mysql://u:hunter2@h/d\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out := mustRun(t, dir, "config", "show", "--partitions=4").stdout
	for _, want := range []string{"mysql://u:xxxxx@h/d", config.DefaultFile + ":", "4  ", "# --partitions", "# default"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if strings.Contains(out, "hunter2") {
		t.Errorf("the password is shown:\n%s", out)
	}
	for _, s := range config.Settings() {
		if !strings.Contains(out, "\n"+s.Path+": ") && !strings.HasPrefix(out, s.Path+": ") {
			t.Errorf("config show leaves %s out", s.Path)
		}
	}
	for f := range reflect.TypeFor[config.Config]().Fields() {
		if f.Tag.Get("only") == "file" && !regexp.MustCompile(`\b`+f.Tag.Get("yaml")+`\b`).MatchString(configLong[strings.Index(configLong, "config show"):]) {
			t.Errorf("the help of config show does not say what becomes of %s", f.Name)
		}
	}
	if !strings.HasPrefix(mustRun(t, dir, "version").stdout, "sluice ") {
		t.Error("version prints nothing")
	}
}

// --accept-gaps is said alone, as the guides have it, or with true or false.
func TestAcceptGapsAlone(t *testing.T) {
	for args, want := range map[string]string{
		"--accept-gaps": "true", "--accept-gaps --partitions 4": "true", "--accept-gaps true --partitions=4": "true",
		"--accept-gaps=false": "false", "--accept-gaps false": "false", "--partitions 4": "false",
	} {
		out := mustRun(t, t.TempDir(), append([]string{"config", "show"}, strings.Fields(args)...)...).stdout
		_, rest, _ := strings.Cut(out, "\naccept_gaps:")
		if !strings.HasPrefix(strings.TrimSpace(rest), want) {
			t.Errorf("%s: accept_gaps: %s, want %s", args, rest, want)
		}
	}
	if r := sluiceRun(t, t.TempDir(), "config", "show", "--accept-gaps=maybe"); r.code != exitFailed || !strings.Contains(r.stderr, "true or false") {
		t.Errorf("--accept-gaps=maybe: %d %s", r.code, r.stderr)
	}
}

// The first signal ends a command in order, the second at once, whatever the
// command does.
func TestSignals(t *testing.T) {
	signals := make(chan os.Signal, 2)
	m := &Main{Signals: signals}
	killed := make(chan struct{})
	orderly := func(ctx context.Context, c *call) error {
		<-ctx.Done()
		if c.kill.Err() != nil {
			t.Error("the first signal has killed")
		}
		return nil
	}
	signals <- syscall.SIGTERM
	if err := m.withSignals(t.Context(), &call{main: m, cmd: command{run: orderly}}); err != nil {
		t.Errorf("first signal: %v", err)
	}
	slow := func(ctx context.Context, c *call) error {
		<-ctx.Done()
		signals <- syscall.SIGTERM
		<-c.kill.Done()
		close(killed)
		return nil
	}
	signals <- syscall.SIGTERM
	if err := m.withSignals(t.Context(), &call{main: m, cmd: command{run: slow}}); err != nil {
		t.Errorf("second signal: %v", err)
	}
	<-killed
	signals <- syscall.SIGINT
	signals <- syscall.SIGINT
	end := make(chan struct{})
	defer close(end)
	deaf := func(context.Context, *call) error { <-end; return nil }
	if err := m.withSignals(t.Context(), &call{main: m, cmd: command{run: deaf}}); err == nil || !strings.Contains(err.Error(), "second signal") {
		t.Errorf("a deaf command: %v", err)
	}
}

func TestSafeText(t *testing.T) {
	for in, want := range map[string]string{
		"plain, größe, 日本": "plain, größe, 日本",
		"\x1b[31mred\a":    `\x1b[31mred\a`,
		"a\u202eb":         `a\u202eb`,
		"\u009b2J":         `\u009b2J`,
		"\xff\xfe":         `\xff\xfe`,
		"line\nnext\ttab":  `line\nnext\ttab`,
	} {
		if got := safeText(in); got != want {
			t.Errorf("%q is shown as %s, want %s", in, got, want)
		}
	}
	got, err := safeJSON(map[string]string{"a": "\x1b\u009b\u202e\U000e0001ü"})
	if want := `{"a":"\u001b\u009b\u202e\udb40\udc01ü"}`; err != nil || got != want {
		t.Errorf("got %s %v, want %s", got, err, want)
	}
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", -1234567: "-1,234,567"} {
		if got := grouped(n); got != want {
			t.Errorf("%d is %s, want %s", n, got, want)
		}
	}
}
