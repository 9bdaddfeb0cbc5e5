// Command sluice takes in users, events and mail, keeps them in a database and
// sends the mail, losing and doubling nothing. Its commands are listed in command.go.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata" // days of the series in zones, also where the system knows none

	"sluice/engine"
)

func main() {
	engine.TuneCollector()
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	m := Main{Args: os.Args[1:], Environ: os.Environ(), Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Signals: signals}
	os.Exit(m.Run(context.Background()))
}
