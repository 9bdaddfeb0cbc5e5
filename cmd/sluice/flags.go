package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"sluice/config"
	"sluice/lib/nearest"
)

// flagSpec is one flag of a command.
type flagSpec struct {
	name    string // without dashes
	value   string // what its value is called; empty: it takes none, or is true or false of a setting, where true may be left out
	preset  string // the value without the flag
	help    string
	more    bool // only --help-all shows it
	empty   bool // its value may be empty, which means something
	setting bool // it belongs to the configuration
	check   func(string) error
}

// given is what stood on the command line.
type given struct {
	args     []string // what is no flag
	own      map[string]string
	settings map[string]string // flags of the configuration
	file     string            // --config
	help     bool              // -h, --help or --help-all
	helpAll  bool
	said     map[string]bool // flags of its own that were there, presets left out
}

// flagsOf returns all flags of a command, its own first.
func flagsOf(cmd command) []flagSpec {
	all := append([]flagSpec(nil), cmd.flags...)
	if !cmd.setting {
		return all
	}
	all = append(all, flagSpec{name: "config", value: "FILE", help: "the configuration file; without it that of SLUICE_CONFIG, or ./sluice.yaml, if there is one"})
	for _, s := range config.Settings() {
		if s.Flag != "" {
			short, _, _ := strings.Cut(s.Doc, ". ")
			spec := flagSpec{name: s.Flag, value: "VALUE", help: strings.TrimSuffix(short, "."), setting: true}
			if s.Bool {
				spec.value = ""
			}
			all = append(all, spec)
		}
	}
	return all
}

// parseArgs reads a command's arguments: --flag VALUE, --flag=VALUE, in any
// place; behind -- nothing is a flag.
func parseArgs(args []string, cmd command) (given, error) {
	g := given{own: map[string]string{}, settings: map[string]string{}, said: map[string]bool{}}
	specs := flagsOf(cmd)
	for _, s := range specs {
		if !s.setting && s.preset != "" {
			g.own[s.name] = s.preset
		}
	}
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		if arg == "--" {
			g.args = append(g.args, args...)
			break
		}
		if arg == "-h" || arg == "--help" || arg == "--help-all" {
			g.help, g.helpAll = true, arg == "--help-all"
			return g, nil
		}
		if len(arg) < 2 || arg[0] != '-' {
			g.args = append(g.args, arg)
			continue
		}
		var err error
		if args, err = g.take(arg, args, specs); err != nil {
			return g, err
		}
	}
	return g, nil
}

// take reads one flag and returns the arguments behind it.
func (g *given) take(arg string, rest []string, specs []flagSpec) ([]string, error) {
	name, value, inline := strings.Cut(strings.TrimLeft(arg, "-"), "=")
	spec, known := flagSpec{}, []string{}
	for _, s := range specs {
		known = append(known, "--"+s.name)
		if s.name == name && strings.HasPrefix(arg, "--") {
			spec = s
		}
	}
	switch {
	case spec.name == "":
		dashed, _, _ := strings.Cut(arg, "=")
		if len(known) == 0 {
			return nil, fmt.Errorf("unknown flag %s; it takes none", dashed)
		}
		return nil, fmt.Errorf("unknown flag %s%s", dashed, nearest.DidYouMean("--"+name, known))
	case spec.setting && spec.value == "":
		if !inline && len(rest) > 0 && (rest[0] == "true" || rest[0] == "false") {
			value, rest = rest[0], rest[1:]
		} else if !inline {
			value = "true"
		}
	case spec.value == "" && inline:
		return nil, fmt.Errorf("--%s takes no value", name)
	case spec.value == "":
		value = "yes"
	case !inline && len(rest) == 0:
		return nil, fmt.Errorf("--%s wants a value: --%s %s", name, name, spec.value)
	case !inline:
		value, rest = rest[0], rest[1:]
	}
	// An empty value is most likely that of a variable that is not set. Taken as "not
	// given", it would leave out a filter. That of a setting makes the setting empty.
	if value == "" && !spec.setting && !spec.empty {
		return nil, fmt.Errorf("--%s wants a value, and it is empty", name)
	}
	if spec.check != nil {
		if err := spec.check(value); err != nil {
			return nil, fmt.Errorf("--%s: %w", name, err)
		}
	}
	switch {
	case spec.setting:
		g.settings[name] = value
	case name == "config":
		g.file = value
	default:
		g.own[name], g.said[name] = value, true
	}
	return rest, nil
}

// The values of a command's own flags. They were checked when they were read.
func (g given) has(name string) bool { return g.own[name] != "" }

func (g given) text(name string) string { return g.own[name] }

func (g given) number(name string) int {
	n, _ := strconv.Atoi(g.own[name]) // checked by wholeNumber
	return n
}

func (g given) duration(name string) time.Duration {
	d, _ := time.ParseDuration(g.own[name]) // checked by aDuration
	return d
}

// wholeNumber returns a check for numbers from low to high.
func wholeNumber(low, high int) func(string) error {
	return func(s string) error {
		if n, err := strconv.Atoi(s); err != nil || n < low || n > high {
			return fmt.Errorf("%q is no whole number from %d to %d", s, low, high)
		}
		return nil
	}
}

func aDuration(s string) error {
	if d, err := time.ParseDuration(s); err != nil || d <= 0 {
		return fmt.Errorf("%q is no duration, such as 10s or 5m", s)
	}
	return nil
}

// oneOf returns a check for some words.
func oneOf(words ...string) func(string) error {
	return func(s string) error {
		for _, w := range words {
			if s == w {
				return nil
			}
		}
		return errors.New(strconv.Quote(s) + " is none of " + strings.Join(words, ", "))
	}
}
