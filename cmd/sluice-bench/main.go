// Command sluice-bench measures a machine: the old designs and Sluice's, side by side
// in one run. It starts the program sluice, which lies beside it.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata" // days of the series in zones

	"sluice/bench"
	"sluice/engine"
)

func main() {
	engine.TuneCollector()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	code := bench.Main(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
