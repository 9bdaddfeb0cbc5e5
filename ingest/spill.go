package ingest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"time"

	"sluice"
	"sluice/flow"
	"sluice/ingest/spill"
	"sluice/lib/faults"
	"sluice/lib/filelock"
	"sluice/store"
)

// spillLookEvery is how often a process looks for files in its directory.
const spillLookEvery = 10 * time.Second

// Spilled brings spill files back into the logs.
//
// A file is imported under a source of its own, spill:ID, so any process can
// resume an interrupted attempt. Each log knows up to which record it has the
// file. When all is in, the logs forget the source and the file goes. A copy
// that is replayed later is all repeats to the store, since every event in it
// has an id and a time.
type Spilled struct {
	Dir        string
	Deployment string      // as flow.Identify returns it
	Logs       []*flow.Log // by partition
	Kept       Retention
	Clock      sluice.Clock
	Log        *slog.Logger

	BacklogBytes int           // as of Import
	Replicas     flow.Replicas // they must have what is in a file before it goes

	// Said is what people have said since what a file of items has; nil: it is not asked.
	Said Said
}

// Run replays what is found in the directory, until fetch ends. A file that
// another process writes or replays is left to it.
func (s *Spilled) Run(fetch, _ context.Context) {
	for err := error(nil); err == nil; err = sluice.Pause(fetch, spillLookEvery) {
		s.look(fetch)
	}
}

func (s *Spilled) look(ctx context.Context) {
	files, err := spill.List(s.Dir)
	if err != nil {
		s.Log.Warn("spill files are not looked for", "error", err)
		return
	}
	for _, f := range files {
		if ctx.Err() != nil || !strings.HasSuffix(f.Path, spill.Suffix) {
			continue
		}
		done, err := s.Replay(ctx, f.Path, nil)
		switch {
		case err == nil:
			s.Log.Info("spill file replayed", "file", f.Path, "events", done.Written, "known", done.Known, "rejected", done.Rejected)
		case errors.Is(err, filelock.ErrHeld) || errors.Is(err, fs.ErrNotExist) || ctx.Err() != nil:
		default:
			s.Log.Warn("spill file not replayed, and tried again", "file", f.Path, "error", err)
		}
	}
}

// Replay brings one file's events into the logs and removes it. One with events
// that were rejected is kept: they may only be too old for a clock that is
// wrong. progress, if it is not nil, is told how far it is.
func (s *Spilled) Replay(ctx context.Context, path string, progress func(read, size int64)) (Imported, error) {
	r, err := spill.OpenFile(path)
	if err != nil {
		return Imported{}, err
	}
	if r.Header.Deployment != s.Deployment {
		return Imported{}, errors.Join(fmt.Errorf("replay %s: its events are of another deployment (%s, this is %s): replay it where they belong", path, r.Header.Deployment, s.Deployment), r.Close())
	}
	im := &Import{
		Logs: s.Logs, Source: "spill:" + r.Header.ID, Known: true, Parse: spill.Decode, Counts: true, Kept: s.Kept, Clock: s.Clock, BacklogBytes: s.BacklogBytes, Replicas: s.Replicas,
		Reject: func(line store.Line, reason error) error {
			s.Log.Warn("spilled event not replayed", "file", path, "record", line.Number, "reason", reason)
			return nil
		},
	}
	next := r.Next
	if r.Header.Items {
		im.Parse, im.Items, next = nil, s.items, s.unsaid(ctx, r.Next)
	}
	done, err := im.Run(ctx, next, func(Imported) {
		if progress != nil {
			progress(r.Bytes())
		}
	})
	if err == nil {
		err = faults.Hit("replayed")
	}
	if err != nil {
		return done, errors.Join(fmt.Errorf("replay %s: %w", path, err), r.Close())
	}
	if left, why := r.Rest(); left > 0 {
		s.Log.Warn("the end of a spill file could not be read; it is kept", "file", strings.TrimSuffix(path, spill.DamagedSuffix)+spill.DamagedSuffix, "bytes", left, "reason", why)
	}
	return done, r.Done(done.Rejected > 0)
}
