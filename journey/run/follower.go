package run

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"sluice"
	"sluice/flow"
	"sluice/mail"
	"sluice/store"
	"sluice/user"
)

// Role is the role of moving people through journeys, one lease for each partition.
const Role = "journey"

const (
	// pollEvery is how often is asked for facts, and for what has been published.
	pollEvery = 250 * time.Millisecond
)

// Follower moves people through the journeys that are published, in the partitions of
// which this process holds the lease.
//
// The idea. A session reads which versions are in use, and for each partition how far
// it is and who is due (part). Then every partition has a goroutine of its own, and at
// a few compute at a time. A partition that fails is opened again by itself, after a
// pause (flow.Follow), and says so; no other waits for it. When a version is published,
// or the leases change, the session ends and the next one reads all anew. To read 10
// million records takes a second, so nothing has to be carried over.
type Follower struct {
	Logs   []*flow.Log // by partition
	Leases *flow.Leases
	Store  Store
	Clock  sluice.Clock
	Log    *slog.Logger
	Health flow.Health

	// StoredBy is the follower whose cursor says what of a log is stored: a checkpoint
	// waits for it. Empty: there is none.
	StoredBy string

	// QueuedBy is the follower whose cursor says what mails of a log are in their lanes.
	// Empty: mails are counted when they are in a lane.
	QueuedBy string

	// CheckpointEvery is how long changes wait for a checkpoint; 0: 40 seconds.
	CheckpointEvery time.Duration

	Loader *Loader
	Stats  Stats

	saving chan struct{} // of all sessions: see part
}

// Stats count what a process has done since it started.
type Stats struct {
	Opened  atomic.Int64 // partitions whose records were read
	Moved   atomic.Int64 // people decided about whose time had come
	Told    atomic.Int64 // facts applied
	Commits atomic.Int64
	Lost    atomic.Int64 // people in a version that is not in use, looked at in vain: once for each look
	Dropped atomic.Int64 // places of merged people that nobody could take over

	Saved      atomic.Int64 // checkpoints written
	SavedBytes atomic.Int64 // of records in them
	Unsaved    atomic.Int64 // attempts at checkpoints that failed
	Recovered  atomic.Int64 // partitions written anew from their checkpoint

	mu         sync.Mutex
	waiting    map[int]time.Time // by partition: since when changes wait for a checkpoint
	unsendable []string
}

// stay notes at which steps people stay.
func (s *Stats) stay(all []*plans) {
	var steps []string
	for _, j := range all {
		for _, x := range j.unsendable {
			if !j.stopped {
				steps = append(steps, fmt.Sprintf("%s/%s: %v", j.id, x.step, x.why))
			}
		}
	}
	slices.Sort(steps)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unsendable = slices.Compact(steps)
}

// Unsendable lists the message steps at which people stay, for their mail cannot be made:
// JOURNEY/STEP, and why.
func (s *Stats) Unsendable() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unsendable
}

// waits notes since when changes of a partition wait for a checkpoint; zero: none do.
func (s *Stats) waits(partition int, since time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if since.IsZero() {
		delete(s.waiting, partition)
		return
	}
	if s.waiting == nil {
		s.waiting = make(map[int]time.Time)
	}
	s.waiting[partition] = since
}

// Unwritten returns for how long changes have waited for a checkpoint, at the longest; 0:
// SQL has all.
func (s *Stats) Unwritten() (age time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, since := range s.waiting {
		age = max(age, time.Since(since))
	}
	return age
}

// Run follows until fetch ends.
func (f *Follower) Run(fetch, work context.Context) {
	f.saving = make(chan struct{}, 1)
	flow.Follow(fetch, work, Role, f.Log, f.Health, f.session)
}

// errChanged ends a session of which what it has read is too old.
var errChanged = errors.New("journeys or leases have changed")

func (f *Follower) session(fetch, work context.Context) error {
	held, changed := f.Leases.Held(Role)
	if len(held) == 0 {
		f.Stats.stay(nil)
		select {
		case <-changed:
		case <-fetch.Done():
		}
		return nil
	}
	inUse, err := f.Loader.inUse(work)
	if err != nil {
		return err
	}
	all, published, err := f.Loader.Load(work)
	if err != nil {
		return err
	}
	f.Stats.stay(all)
	ending := fetch
	running, stop := context.WithCancel(fetch)
	busy := make(chan struct{}, runtime.GOMAXPROCS(0)+1)
	told := &health{of: f.Health, failing: make(map[int]time.Time)}
	var parts sync.WaitGroup
	for partition, lease := range held {
		if !slices.ContainsFunc(all, func(j *plans) bool { return len(j.versions) > 0 }) {
			break
		}
		parts.Go(func() { // ends with running
			flow.Follow(running, work, Role, f.Log.With("partition", partition), partHealth{told, partition}, func(fetch, work context.Context) error {
				p := &part{log: f.Logs[partition], lease: lease, store: f.Store, clock: f.Clock, busy: busy, published: published, stats: &f.Stats, storedBy: f.StoredBy, crowd: crowd{queuedBy: f.QueuedBy}, caps: f.Loader.Caps, control: f.Loader.Control,
					every: f.CheckpointEvery, saving: f.saving, slog: f.Log, ending: ending}
				err := p.run(work, fetch, all)
				if errors.Is(err, errChanged) {
					stop()
					return nil
				}
				return err
			})
		})
	}
	err = f.watch(running, held, published, func() (bool, error) { return f.Loader.templatesChanged(running, all, inUse) })
	stop()
	parts.Wait()
	return err
}

// watch returns when something else was published, or other leases are held, or other
// versions of templates are in use, or the session ends.
func (f *Follower) watch(running context.Context, held map[int]*flow.Lease, published int64, templates func() (bool, error)) error {
	waiting, stop := context.WithCancel(running)
	defer stop()
	changed := make(chan struct{})
	go func() { // ends with watch
		f.Leases.WaitForChange(waiting, Role, held)
		close(changed)
	}()
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	looked := time.Now()
	for {
		select {
		case <-changed:
			return nil
		case <-running.Done():
			return nil
		case <-ticker.C:
		}
		now, err := f.Store.Published(running)
		other := now != published
		if err == nil && !other && time.Since(looked) >= templatesEvery {
			looked = time.Now()
			other, err = templates()
		}
		switch {
		case running.Err() != nil, err == nil && other:
			return nil
		case err != nil:
			return fmt.Errorf("look whether journeys or templates have changed: %w", err)
		}
	}
}

// Store is what is asked of the database.
type Store interface {
	store.JourneyStore
	store.MailHistory
	store.CheckpointStore
	user.Store
	Ledger

	// Cursors returns up to where a follower has stored the logs (store.Store).
	Cursors(ctx context.Context, follower string, partitions []int) (map[int]sluice.Position, error)
}

// Ledger says what mail was made (mail.SendStore).
type Ledger interface {
	SendRows(ctx context.Context, keys []mail.SendKey) ([]mail.SendRow, error)
	UserSends(ctx context.Context, user user.ID, before mail.SendKey, limit int) ([]mail.SendRow, error)
}
