package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"

	"sluice/config"
)

func runHelp(_ context.Context, c *call) error {
	switch len(c.given.args) {
	case 0:
		w := &strings.Builder{}
		writeOverview(w)
		c.print("%s", strings.TrimSuffix(w.String(), "\n"))
		return nil
	case 1:
		cmd, err := findCommand(c.given.args[0])
		if err != nil {
			return err
		}
		return c.explain(cmd, false)
	}
	return usagef("help: explains one command at a time")
}

// explain prints what writeHelp writes.
func (c *call) explain(cmd command, all bool) error {
	w := &strings.Builder{}
	err := writeHelp(w, cmd, all)
	c.print("%s", strings.TrimSuffix(w.String(), "\n"))
	return err
}

// writeOverview lists all commands.
func writeOverview(w io.Writer) {
	fmt.Fprint(w, "Sluice takes in users, events and mail, keeps them in a database and sends the mail,\nin batches, losing and doubling nothing.\n\nUsage: sluice COMMAND [FLAGS]\n\n")
	for _, cmd := range commands() {
		fmt.Fprintf(w, "  %-11s %s\n", cmd.name, cmd.line)
	}
	fmt.Fprint(w, "\nStart with `sluice demo`. `sluice help COMMAND` explains one, `sluice config` prints every\nsetting. Exit codes: 0 done, 1 failed, 2 the command line is wrong.\n")
}

// writeHelp explains a command: usage, text, flags. What it needs is on one screen; all
// adds rare flags, those of the configuration, and the sample of config.
func writeHelp(w io.Writer, cmd command, all bool) error {
	usage := "Usage: sluice " + cmd.name
	if len(flagsOf(cmd)) > 0 {
		usage += " [FLAGS]"
	}
	if cmd.args != "" {
		usage += " " + cmd.args
	}
	fmt.Fprintf(w, "%s\n\n%s\n", usage, strings.TrimSpace(cmd.long))
	more := writeFlags(w, cmd, all)
	switch {
	case all && cmd.setting:
		writeSettings(w, cmd)
	case cmd.setting:
		fmt.Fprintf(w, "\nThe configuration: --config FILE, without it ./sluice.yaml; --SETTING VALUE changes it.\n`sluice %s --help-all` lists these flags%s.\n", cmd.name, map[bool]string{true: ", and more of its own"}[more])
	}
	if cmd.name == "config" && all {
		fmt.Fprint(w, "\nThe sample:\n\n")
		return config.WriteSample(w)
	}
	return nil
}

// writeFlags lists the flags of a command that are its own, and reports whether there
// are more.
func writeFlags(w io.Writer, cmd command, all bool) (more bool) {
	head := "\nFlags:\n"
	for _, f := range cmd.flags {
		if f.more && !all {
			more = true
			continue
		}
		preset := ""
		if f.preset != "" {
			preset = " (" + f.preset + ")"
		}
		fmt.Fprint(w, head+hanging(fmt.Sprintf("  %-22s ", strings.TrimSpace("--"+f.name+" "+f.value)), f.help+preset))
		head = ""
	}
	return more
}

// writeSettings lists the flags of the configuration.
func writeSettings(w io.Writer, cmd command) {
	settings := flagsOf(cmd)[len(cmd.flags):]
	width := 0
	for _, f := range settings {
		width = max(width, len(strings.TrimSpace("--"+f.name+" "+f.value)))
	}
	fmt.Fprint(w, "\nFlags of the configuration:\n")
	for _, f := range settings {
		fmt.Fprint(w, hanging(fmt.Sprintf("  %-*s ", width, strings.TrimSpace("--"+f.name+" "+f.value)), f.help))
	}
}

// helpWidth is where the lines of a flag's explanation are broken.
const helpWidth = 92

// hanging returns text behind a head, broken into lines that hang below it.
func hanging(head, text string) string {
	var b strings.Builder
	line, indent := head, strings.Repeat(" ", len(head))
	for word := range strings.FieldsSeq(text) {
		if len(line)+len(word) > helpWidth && strings.TrimSpace(line) != "" {
			b.WriteString(strings.TrimRight(line, " ") + "\n")
			line = indent
		}
		line += word + " "
	}
	return b.String() + strings.TrimRight(line, " ") + "\n"
}

// version is set when the program is built (Makefile).
var version = "unversioned"

// revision is what the program was built from, if the build knew.
func revision() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				return s.Value
			}
		}
	}
	return ""
}

func runVersion(_ context.Context, c *call) error {
	c.print("sluice %s, %s, %s %s/%s", version, cmp.Or(revision(), "unknown revision"), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return nil
}
