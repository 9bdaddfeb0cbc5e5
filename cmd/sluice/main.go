// Command sluice takes events out of Redis lists and into a database, in
// batches, losing and doubling nothing. Its commands are listed in command.go.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	m := Main{Args: os.Args[1:], Environ: os.Environ(), Stdout: os.Stdout, Stderr: os.Stderr, Signals: signals}
	os.Exit(m.Run(context.Background()))
}
