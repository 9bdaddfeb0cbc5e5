package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"sluice/lib/nearest"
)

// This file is what the commands have in common that do one of several things
// with what is in the database: `sluice dead list`, `sluice key revoke`.

// word takes the first argument, which says what is to be done.
func (c *call) word(words ...string) (what string, rest []string, err error) {
	if len(c.given.args) == 0 {
		last := len(words) - 1
		return "", nil, usagef("%s: want %s or %s; `sluice help %s` explains them", c.cmd.name, strings.Join(words[:last], ", "), words[last], c.cmd.name)
	}
	if what, rest = c.given.args[0], c.given.args[1:]; !slices.Contains(words, what) {
		return "", nil, usagef("%s: unknown %q%s", c.cmd.name, what, nearest.DidYouMean(what, words))
	}
	return what, rest, nil
}

// errEnough ends a list or a tail whose limit is reached.
var errEnough = errors.New("limit reached")

// upToLimit shows rows until --limit of them are shown, then says how to go on.
// each hands show the name that --after takes of a row and what prints it.
func (c *call) upToLimit(none string, each func(show func(name string, print func() error) error) error) error {
	left, last := c.given.number("limit"), ""
	err := each(func(name string, print func() error) error {
		if left == 0 {
			return errEnough
		}
		left, last = left-1, name
		return print()
	})
	switch {
	case errors.Is(err, errEnough):
		fmt.Fprintf(c.main.Stderr, "there are more: sluice %s list --after %s\n", c.cmd.name, last)
		return nil
	case err == nil && last == "":
		fmt.Fprintln(c.main.Stderr, none)
	}
	return err
}

// printJSON writes a value as a line of output.
func (c *call) printJSON(v any) error {
	line, err := safeJSON(v)
	if err == nil {
		c.print("%s", line)
	}
	return err
}

// row prints one of what is listed: as JSON if --json is given, else as a line.
func (c *call) row(shown any, format string, args ...any) error {
	if c.given.has("json") {
		return c.printJSON(shown)
	}
	c.print(format, args...)
	return nil
}
