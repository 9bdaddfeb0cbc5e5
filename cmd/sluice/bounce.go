package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"sluice/track/bounce"
)

const bounceLong = `
Reads one mail that reports what became of another, and prints what it says: a JSON object
a line, one for each recipient. It reads bounces (RFC 3464, qmail, Exim), complaints (RFC
5965) and answers of programs. Without a FILE, or with -, the mail is read from stdin, as a
mail server hands it to a program. Nothing is stored, sent or asked.

    sluice bounce parse report.eml
    sluice bounce parse < report.eml

A mail that reports nothing is one event unknown. docs/bounces.md has the members and what
they mean. Anybody can write such a mail: compare message_id before you act on it.
`

// maxMailRestBytes is how much is read behind what counts, and thrown away: a mail
// server that pipes a long mail should not find its pipe closed.
const maxMailRestBytes = 256 << 20

func runBounce(_ context.Context, c *call) error {
	args := c.given.args
	if len(args) == 0 || len(args) > 2 || args[0] != "parse" {
		return usagef("bounce: want parse, and a file or none")
	}
	from := c.main.Stdin
	if len(args) == 2 && args[1] != "-" {
		f, err := os.Open(args[1])
		if err != nil {
			return fmt.Errorf("read the mail: %w", err)
		}
		defer f.Close()
		from = f
	}
	events, err := bounce.Read(from)
	if err != nil {
		return err
	}
	if from == c.main.Stdin {
		if _, err := io.CopyN(io.Discard, from, maxMailRestBytes); err != nil && err != io.EOF {
			return fmt.Errorf("read the end of the mail: %w", err)
		}
	}
	for i := range events {
		line, err := safeJSON(&events[i])
		if err == nil {
			_, err = fmt.Fprintln(c.main.Stdout, line)
		}
		if err != nil {
			return fmt.Errorf("write events: %w", err)
		}
	}
	return nil
}
