// Command sluice takes in users, events and mail, keeps them in a database and
// sends the mail, losing and doubling nothing. Its commands are listed in command.go.
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	_ "time/tzdata" // days of the series in zones, also where the system knows none
)

// What the program holds is small and short-lived, so the collector would run
// a hundred times a second under load, for a fifth of the time that is not the
// database's. It runs seldom instead, until the heap is large. GOGC and
// GOMEMLIMIT win.
const (
	collectAtPercent = 400
	heapLimitBytes   = 160 << 20
)

func tuneCollector() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(collectAtPercent)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(heapLimitBytes)
	}
}

func main() {
	tuneCollector()
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	m := Main{Args: os.Args[1:], Environ: os.Environ(), Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Signals: signals}
	os.Exit(m.Run(context.Background()))
}
