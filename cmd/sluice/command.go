package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"sluice"
	"sluice/config"
	"sluice/lib/nearest"
)

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

// secondSignalGrace is how long a command may clean up after a second signal.
const secondSignalGrace = time.Second

// Main is the program: what it is given and where it writes. Tests run the
// same struct.
type Main struct {
	Args    []string // without the program's name
	Environ []string
	Dir     string    // where sluice.yaml is looked for; empty: the working directory
	Stdin   io.Reader // what commands read for -, or without a FILE
	Stdout  io.Writer
	Stderr  io.Writer

	// Clock is this machine's; nil: it is asked.
	Clock sluice.Clock

	// Signals ends the program: the first in order, the second at once.
	Signals <-chan os.Signal
}

// command is one row of the table below.
type command struct {
	name    string
	args    string   // what stands behind the flags
	words   []string // what completion knows of it; nil: the small words of args
	line    string   // what it does, in a line
	long    string
	setting bool // it takes the flags of the configuration
	loads   bool // it works on the configuration, which is read before it runs
	bare    bool // it takes no arguments
	flags   []flagSpec
	run     func(ctx context.Context, c *call) error
}

// commands is the table of all commands, in the order of the help.
func commands() []command {
	return []command{
		{name: "serve", line: "run the program", long: serveLong, setting: true, bare: true, run: runServe},
		{name: "dev", line: "run the program with its own Redis and SQLite", long: devLong, setting: true, bare: true, run: runDev},
		{name: "demo", line: "watch made-up people move through journeys", long: demoLong, flags: demoFlags, bare: true, run: runDemo},
		{name: "health", line: "ask whether the program lives, for supervisors", long: healthLong, setting: true, loads: true, flags: healthFlags, bare: true, run: runHealth},
		{name: "doctor", line: "look for what is wrong, and say what to do", long: doctorLong, setting: true, flags: doctorFlags, bare: true, run: runDoctor},
		{name: "domain", args: "check DOMAIN...", line: "look whether receivers will take mail from a domain", long: domainLong, setting: true, loads: true, flags: domainFlags, run: runDomain},
		{name: "migrate", line: "bring the database's schema up", long: migrateLong, setting: true, loads: true, bare: true, run: runMigrate},
		{name: "tail", line: "show the events as they are stored", long: tailLong, setting: true, loads: true, flags: tailFlags, bare: true, run: runTail},
		{name: "top", line: "watch what a running program does", long: topLong, setting: true, loads: true, flags: topFlags, bare: true, run: runTop},
		{name: "sending", args: "show | pause [NOTE] | resume | purge | stop [NOTE]", line: "stop, resume or purge mail", long: sendingLong, setting: true, loads: true, flags: sendingFlags, run: runSending},
		{name: "mailbox", args: "list | show NUMBER", line: "read the mails in the built-in mailboxes", long: mailboxLong, setting: true, loads: true, flags: mailboxFlags, run: runMailbox},
		{name: "doubt", args: "list | resolve SEND... --as DECISION", line: "decide about mails that may have arrived or not", long: doubtLong, setting: true, loads: true, flags: doubtFlags, run: runDoubt},
		{name: "schedule", args: "list | release ID... | drop ID...", line: "release or drop scheduled mails in doubt", long: scheduleLong, setting: true, loads: true, flags: scheduleFlags, run: runSchedule},
		{name: "dead", args: "list | show ID | replay ID... | drop ID...", line: "show, replay or drop items that could not be applied", long: deadLong, setting: true, loads: true, flags: deadFlags, run: runDead},
		{name: "gaps", args: "list | accept NAME...", line: "show where entries are missing, and continue without them", long: gapsLong, setting: true, loads: true, flags: gapsFlags, run: runGaps},
		{name: "alert", args: "test", line: "send a test alert", long: alertLong, setting: true, loads: true, run: runAlert},
		{name: "key", args: "create | list | revoke ID", line: "manage the keys of the HTTP API", long: keyLong, setting: true, loads: true, flags: keyFlags, run: runKey},
		{name: "account", args: "add|reset|remove NAME | list", line: "manage accounts of the dashboard", long: accountLong, setting: true, loads: true, flags: accountFlags, run: runAccount},
		{name: "template", args: "list | put FILE | show|preview|test|archive ID | use ID VERSION", line: "manage templates of mails", long: templateLong, setting: true, loads: true, flags: templateFlags, run: runTemplate},
		{name: "journey", args: "validate|diff|apply FILE | publish|pause|...|status ID | list", line: "write, check, publish and stop journeys", words: journeyActions(), long: journeyLong, setting: true, loads: true, flags: journeyFlags, run: runJourney},
		{name: "suppression", args: "add|remove ENTRY... | list | check ADDRESS... | import FILE", line: "manage suppressions: addresses that are not mailed", long: suppressionLong, setting: true, loads: true, flags: suppressionFlags, run: runSuppression},
		{name: "group", args: "set ID | list | remove ID", line: "name subscription groups that people choose", words: []string{"set", "list", "remove"}, long: groupLong, setting: true, loads: true, flags: groupFlags, run: runGroup},
		{name: "bounce", args: "parse [FILE]", line: "read bounces and complaints that come by mail", long: bounceLong, run: runBounce},
		{name: "webhook", args: "add URL | list | show|set|on|off|test|...|remove ID", line: "post events to endpoints of yours", words: []string{"add", "list", "show", "set", "on", "off", "test", "deliveries", "replay", "rotate", "remove"}, long: webhookLong, setting: true, loads: true, flags: webhookFlags, run: runWebhook},
		{name: "backup", args: "DIR|FILE", line: "write the tables and the logs to a file", long: backupLong, flags: backupFlags, setting: true, loads: true, run: runBackup},
		{name: "restore", args: "FILE", line: "put a backup back", long: restoreLong, setting: true, flags: restoreFlags, run: runRestore},
		{name: "import", args: "events | users | undo FILE", line: "read events or users of a file in", long: importLong, setting: true, loads: true, flags: importFlags, run: runImport},
		{name: "spill", args: "list | replay FILE...", line: "show and replay events that were kept while Redis was away", long: spillLong, setting: true, loads: true, run: runSpill},
		{name: "export", args: "events | series | users", line: "write events, series or users out as lines", long: exportLong, setting: true, loads: true, flags: exportFlags, run: runExport},
		{name: "hook", args: "parse PROVIDER [FILE]", line: "read the webhook of a mail provider", long: hookLong, run: runHook},
		{name: "config", args: "[show]", line: "print the commented configuration", long: configLong, setting: true, run: runConfig},
		{name: "completion", args: "bash | zsh | fish", line: "print what a shell completes commands by", long: completionLong, run: runCompletion},
		{name: "man", line: "print the manual page", long: manLong, bare: true, run: runMan},
		{name: "version", line: "print the version", long: "Prints the version, the revision it was built from, and Go's version.", bare: true, run: runVersion},
		{name: "help", args: "[COMMAND]", line: "explain a command", long: "Explains a command, or lists them all. `sluice COMMAND -h` is the same;\n`sluice COMMAND --help-all` lists rare flags and those of the configuration, too.", run: runHelp},
	}
}

// call is one command being run.
type call struct {
	main    *Main
	cmd     command
	given   given
	config  *config.Config  // nil unless the command loads it
	closers []func() error  // run after it, the last one first
	kill    context.Context // ends at the second signal
	bar     *progress       // nil: none was asked for
	unread  bool            // a file is here that this command does not read, and others do
	setup   string          // the link that makes the first account; empty: there is one
	unsaid  error           // why print could not write, the first time
}

// usageError is a mistake in the command line.
type usageError struct{ error }

// usagef returns a usageError.
func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// Run runs the command that Args name and returns the exit code: 0 done, 1
// failed, 2 the command line is wrong.
func (m *Main) Run(ctx context.Context) int {
	err := m.dispatch(ctx)
	if err == nil {
		return exitOK
	}
	for line := range strings.Lines(err.Error()) {
		fmt.Fprintln(m.Stderr, "sluice: "+strings.TrimRight(safeText(strings.TrimRight(line, "\n")), " "))
	}
	if _, usage := errors.AsType[usageError](err); usage {
		return exitUsage
	}
	return exitFailed
}

func (m *Main) dispatch(ctx context.Context) error {
	if len(m.Args) == 0 {
		writeOverview(m.Stderr)
		return usagef("no command given; to see it work: sluice demo")
	}
	name := m.Args[0]
	if name == "-h" || name == "--help" {
		name = "help"
	}
	if name == "--version" || name == "-v" {
		name = "version"
	}
	cmd, err := findCommand(name)
	if err != nil {
		return err
	}
	c := &call{main: m, cmd: cmd}
	if c.given, err = parseArgs(m.Args[1:], cmd); err != nil {
		return usageError{fmt.Errorf("%s: %w", cmd.name, err)}
	}
	if c.given.help {
		return errors.Join(c.explain(cmd, c.given.helpAll), c.unsaid)
	}
	return m.withSignals(ctx, c)
}

// findCommand returns a row of the table.
func findCommand(name string) (command, error) {
	var known []string
	for _, cmd := range commands() {
		if cmd.name == name {
			return cmd, nil
		}
		known = append(known, cmd.name)
	}
	return command{}, usagef("unknown command %s%s", name, nearest.DidYouMean(name, known))
}

// withSignals runs a command beside the signals. The first ends its context,
// the second c.kill; a command that does not heed that either is left behind.
func (m *Main) withSignals(ctx context.Context, c *call) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	kill, killNow := context.WithCancel(context.WithoutCancel(ctx))
	defer killNow()
	c.kill = kill
	done := make(chan error, 1)
	go func() { done <- c.run(ctx) }() // ends with the command, or with the process
	select {
	case err := <-done:
		return err
	case <-m.Signals:
		stop()
	}
	select {
	case err := <-done:
		return err
	case <-m.Signals:
		killNow()
	}
	select {
	case err := <-done:
		return err
	case <-time.After(secondSignalGrace):
		return errors.New("ended at once by a second signal; what was in hand is done again at the next start")
	}
}

// run runs a command, and closes what it has opened.
func (c *call) run(ctx context.Context) (err error) {
	if c.cmd.bare && len(c.given.args) > 0 {
		return usagef("%s: takes no arguments, but %q is one", c.cmd.name, c.given.args[0])
	}
	if c.cmd.loads {
		if c.config, err = c.load(nil); err != nil {
			return err
		}
	}
	defer func() {
		for _, end := range slices.Backward(c.closers) {
			err = errors.Join(err, end())
		}
		if c.unsaid != nil {
			err = errors.Join(err, fmt.Errorf("write output: %w", c.unsaid))
		}
	}()
	return c.cmd.run(ctx, c)
}

// later has something done after the command.
func (c *call) later(end func() error) { c.closers = append(c.closers, end) }

// load reads the configuration for a command.
func (c *call) load(change func(*config.Sources)) (*config.Config, error) {
	src := config.Sources{File: c.given.file, Dir: c.main.Dir, Environ: c.main.Environ, Flags: c.given.settings}
	if change != nil {
		change(&src)
	}
	return config.Load(src)
}

// print writes a line of output. A command whose output cannot be written, as on a full
// disk, goes on, and fails at its end: what it prints may be a list that another reads,
// or a secret that is shown once.
func (c *call) print(format string, args ...any) {
	if c.bar != nil {
		c.bar.end()
	}
	if _, err := fmt.Fprintf(c.main.Stdout, format+"\n", args...); err != nil && c.unsaid == nil {
		c.unsaid = err
	}
}
