package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"time"

	"sluice/engine"
	"sluice/ingest"
	"sluice/ingest/spill"
	"sluice/lib/filelock"
)

const spillLong = `
Spill files have events that could not be written while Redis was away. A program
replays those in its data directory automatically, when it starts and every 10 s. This
command is for files of a lost machine, and for a look.

    sluice spill list [DIR|FILE...]  the files, what is in them, and who holds them
    sluice spill replay FILE...      bring their events into the logs; the files go

If it is interrupted, run it again, here or elsewhere: it continues. A file that was
replayed before doubles nothing. A file whose end cannot be read, or with events that are
past their retention, stays, as FILE.damaged.
`

func runSpill(ctx context.Context, c *call) error {
	args := c.given.args
	switch {
	case len(args) > 0 && args[0] == "list":
		return c.spillList(args[1:])
	case len(args) > 1 && args[0] == "replay":
		return c.spillReplay(ctx, args[1:])
	case len(args) == 1 && args[0] == "replay":
		return usagef("spill: name the files to replay; `sluice spill list` shows those of the data directory")
	}
	return usagef("spill: want list or replay; `sluice help spill` explains them")
}

func (c *call) spillList(args []string) error {
	cfg := c.config
	if len(args) == 0 {
		args = []string{engine.SpillDir(cfg)}
	}
	var files []spill.File
	for _, arg := range args {
		// The data directory's own need not be there; what was named must be.
		if info, err := os.Stat(arg); arg != engine.SpillDir(cfg) && (err != nil || !info.IsDir()) {
			files = append(files, spill.File{Path: arg})
			continue
		}
		found, err := spill.List(arg)
		if err != nil {
			return err
		}
		files = append(files, found...)
	}
	if len(files) == 0 {
		c.print("no spill files")
	}
	for _, f := range files {
		c.print("%s: %s", f.Path, describeSpill(f.Path))
	}
	return nil
}

// describeSpill says what is in a file.
func describeSpill(path string) string {
	r, err := spill.OpenFile(path)
	if errors.Is(err, filelock.ErrHeld) {
		return "is being written or replayed by a running process"
	}
	if err != nil {
		return err.Error()
	}
	defer r.Close()
	events := int64(0)
	for {
		_, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return fmt.Sprintf("%s events, then: %v", grouped(events), err)
		}
		events++
	}
	what := "events"
	if r.Header.Items {
		what = "choices of people"
	}
	text := fmt.Sprintf("%s %s since %s, of deployment %s", grouped(events), what, r.Header.Made.Format(time.RFC3339), r.Header.Deployment)
	if left, why := r.Rest(); left > 0 {
		text += fmt.Sprintf("; then %d bytes that cannot be read: %v", left, why)
	}
	return text
}

func (c *call) spillReplay(ctx context.Context, files []string) error {
	running, err := c.running(ctx)
	if err != nil {
		return err
	}
	deployment, err := running.Redis.Deployment(ctx)
	if err != nil {
		return err
	}
	db, err := c.store(ctx)
	if err != nil {
		return err
	}
	s := &ingest.Spilled{
		Said:       db,
		Deployment: strconv.FormatUint(deployment, 10), Logs: engine.LogsOf(running.Redis, running.Config), Kept: engine.Retention(running.Config), Clock: c.clockOf(ctx, running.Redis),
		BacklogBytes: running.Config.BacklogMB << 20, Replicas: engine.Replicas(running.Config), Log: slog.New(slog.NewTextHandler(c.main.Stderr, &slog.HandlerOptions{ReplaceAttr: engine.MaskAttr})),
	}
	progress := c.progress()
	for _, file := range files {
		done, err := s.Replay(ctx, file, func(read, size int64) {
			progress.at(partOf(read, size), fmt.Sprintf("%s: %d of %d MB", file, read>>20, size>>20))
		})
		if err != nil {
			return err
		}
		c.print("%s: %s events replayed, %s of an earlier try, %s past their retention", file, grouped(done.Written), grouped(done.Known), grouped(done.Rejected))
	}
	return nil
}
