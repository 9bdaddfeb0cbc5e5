package main

import (
	"context"
	"errors"

	"sluice/bench"
)

const benchLong = `
Measures this machine: the old designs and Sluice's, side by side in one run. Its
arguments are its own; without any it prints what it can measure.
`

func runBench(ctx context.Context, c *call) error {
	switch bench.Main(ctx, c.given.args, c.main.Stdout, c.main.Stderr) {
	case exitOK:
		return nil
	case exitUsage:
		return usagef("bench: see above")
	}
	return errors.New("bench: failed, see above")
}
