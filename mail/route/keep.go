package route

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"sluice"
	"sluice/flow"
)

// keepEvery is how often a process looks whether the database has what is stopped. It
// is beside Look: a database that hangs must not delay what is stopped now.
const keepEvery = 500 * time.Millisecond

// keepFor bounds one such look.
const keepFor = 5 * time.Second

// Kept has what was stopped, for a Redis that has not. mail.StopStore is one.
type Kept interface {
	KeptStops(ctx context.Context) (names map[string]string, epoch uint64, err error)
	KeepStops(ctx context.Context, names map[string]string, epoch uint64) error
}

// stopAgain has a Redis that is another one than before stop what the database has.
func (r *Router) stopAgain(ctx context.Context) error {
	names, epoch, err := r.kept.KeptStops(ctx)
	if err != nil {
		return err
	}
	return r.redis.StopAgain(ctx, names, epoch)
}

// Keep brings what is stopped and what the database has of it together, once; Run calls
// it again and again. A Redis that is another one than before gets what the database has,
// and nothing that it has goes: what was resumed in the moment that a failover has taken
// back is stopped once more. Else the database gets what Redis has, unless it has that of a
// Redis that took this one's place.
func (r *Router) Keep(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, keepFor)
	defer cancel()
	names, epoch, err := r.redis.StopsHere(ctx)
	switch {
	case err != nil:
		return err
	case epoch == 0:
		r.copiedAs = 0
		return r.stopAgain(ctx)
	case r.copiedAs == 0:
		if r.copied, r.copiedAs, err = r.kept.KeptStops(ctx); err != nil {
			r.copiedAs = 0
			return err
		}
	}
	if r.copiedAs == epoch && maps.Equal(r.copied, names) {
		return nil
	}
	if err := r.kept.KeepStops(ctx, names, epoch); err != nil {
		return err
	}
	r.copied, r.copiedAs = names, epoch
	return nil
}

// KeepStops is Keep for a command beside which no process need run. Operators stop mail
// without one, and the database may not have that yet.
func KeepStops(ctx context.Context, redis *flow.Redis, kept Kept) error {
	r := &Router{redis: redis, kept: kept}
	for range 2 { // a Redis that is another one than before first gets what the database has
		if err := r.Keep(ctx); err != nil && !errors.Is(err, sluice.ErrConflict) {
			return fmt.Errorf("bring what is stopped into the database: %w", err)
		}
	}
	return nil
}

// readStops returns what is stopped. Until a Redis that is another one than before is
// complete, what this process knew stays stopped.
func (r *Router) readStops(ctx context.Context, before *stops) (names map[string]string, err error) {
	names, epoch, err := r.redis.StopsHere(ctx)
	if err != nil || epoch > 0 || r.kept == nil {
		return names, err
	}
	if before != nil {
		all := maps.Clone(before.names)
		maps.Copy(all, names)
		return all, nil
	}
	if err := r.stopAgain(ctx); err != nil {
		return nil, err
	}
	return r.redis.Stops(ctx)
}
