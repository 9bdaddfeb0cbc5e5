package run

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"sluice"
	"sluice/flow"
	"sluice/store"
	"sluice/user"
)

// Role is the role of moving people through journeys, one lease for each partition.
const Role = "journey"

const (
	// pollEvery is how often the database is asked for facts, and for what has been
	// published. A store of the same process says at once that there are facts.
	pollEvery = 250 * time.Millisecond
)

// Follower moves people through the journeys that are published, in the partitions of
// which this process holds the lease.
//
// The idea. A session reads which versions are in use, and for each partition how far
// it is and who is due (part). Then every partition has a goroutine of its own, and at
// most one for each processor computes at a time. When a version is published, or the
// leases change, the session ends and the next one reads all anew. To read 10 million
// records takes a second, so nothing has to be carried over.
type Follower struct {
	Logs   []*flow.Log // by partition
	Leases *flow.Leases
	Store  Store
	Clock  sluice.Clock
	Log    *slog.Logger
	Health flow.Health

	Loader *Loader
	Stats  Stats
}

// Stats count what a process has done since it started.
type Stats struct {
	Opened  atomic.Int64 // partitions whose records were read
	Moved   atomic.Int64 // people decided about whose time had come
	Told    atomic.Int64 // facts applied
	Commits atomic.Int64
	Lost    atomic.Int64 // people in a version that is not in use, looked at in vain
}

// Run follows until fetch ends.
func (f *Follower) Run(fetch, work context.Context) {
	flow.Follow(fetch, work, Role, f.Log, f.Health, f.session)
}

// errChanged ends a session of which what it has read is too old.
var errChanged = errors.New("journeys or leases have changed")

func (f *Follower) session(fetch, work context.Context) error {
	held, changed := f.Leases.Held(Role)
	if len(held) == 0 {
		select {
		case <-changed:
		case <-fetch.Done():
		}
		return nil
	}
	all, published, err := f.Loader.Load(work)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(work)
	busy := make(chan struct{}, runtime.GOMAXPROCS(0)+1)
	for _, partition := range slices.Sorted(maps.Keys(held)) {
		p := &part{log: f.Logs[partition], lease: held[partition], store: f.Store, clock: f.Clock, busy: busy, published: published, stats: &f.Stats}
		if len(all) > 0 {
			group.Go(func() error { return p.run(ctx, fetch, all) })
		}
	}
	group.Go(func() error { return f.watch(ctx, fetch, held, published) })
	if err := group.Wait(); !errors.Is(err, errChanged) && fetch.Err() == nil {
		return err
	}
	return nil
}

// watch ends the session when something else was published, or other leases are held.
func (f *Follower) watch(ctx, fetch context.Context, held map[int]*flow.Lease, published int64) error {
	waiting, stop := context.WithCancel(ctx)
	defer stop()
	lost := make(chan struct{})
	go func() { // ends with the session
		f.Leases.WaitForChange(waiting, Role, held)
		close(lost)
	}()
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for {
		select {
		case <-lost:
			return errChanged
		case <-fetch.Done():
			return errChanged
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
		now, err := f.Store.Published(ctx)
		if err != nil {
			return fmt.Errorf("look whether journeys were published: %w", err)
		}
		if now != published {
			return errChanged
		}
	}
}

// Store is what is asked of the database.
type Store interface {
	store.JourneyStore
	user.Store
}
