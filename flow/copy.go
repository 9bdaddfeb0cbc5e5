package flow

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"sluice"
	"sluice/store"
)

// Times and bounds of copying and of writing back.
const (
	// holdTTL is how long the trim waits for a copier that says nothing more;
	// it says where it is every holdEvery, if it has moved.
	holdTTL   = 15 * time.Second
	holdEvery = 100 * time.Millisecond

	// beginLogs is how many logs are asked at once for their oldest entry.
	beginLogs = 16

	// restoreBytes bounds the entries that are sent to Redis at once.
	restoreBytes = 8 << 20
)

// LogCopy copies the logs while they are written, stored and trimmed.
//
// The idea. A backup needs of the logs what the database's snapshot does not
// have yet: everything behind the snapshot's cursors. The store trims what it
// has committed, also what it commits after the snapshot was taken. So the copy
// begins before the snapshot, at each log's oldest entry, and goes on until
// after it. While it lasts it holds the trim: entries that are not copied yet
// stay, even when they are applied (trim.lua). The log is a little longer
// meanwhile, and a writer that is faster than the copy waits as for a slow
// store.
//
// The invariants. A hold ends by itself when its copier is gone. The copy of a
// log ends at an entry, with what the log remembered of its sources at that
// entry. Later writes are not in it, so a source that writes again after a
// restore is never taken for one that did.
//
// What was tried and dropped. Copying the logs after the dump, from its cursors
// on: entries stored during the dump are trimmed by then, so they would be in
// neither. Reading fast enough and hoping: eight entries are 16 ms of small
// requests.
type LogCopy struct {
	redis      *Redis
	logs       []*Log
	partitions []Partition

	mu     sync.Mutex
	at     map[int]sluice.Position // copied up to here
	dirty  map[int]bool            // at has moved since the hold was set
	moved  chan struct{}           // closed and replaced when at moves
	failed error
}

// NewLogCopy prepares to copy all logs of a Redis.
func NewLogCopy(r *Redis, partitions int) *LogCopy {
	c := &LogCopy{redis: r, partitions: Partitions(partitions), at: make(map[int]sluice.Position), dirty: make(map[int]bool), moved: make(chan struct{})}
	for _, p := range c.partitions {
		c.logs = append(c.logs, NewLog(r, p))
	}
	return c
}

// Begin holds the trim and returns where the copy of each log begins: behind
// the entry at that position.
func (c *LogCopy) Begin(ctx context.Context) (map[int]sluice.Position, error) {
	if err := c.hold(ctx, c.partitions, nil); err != nil {
		return nil, err
	}
	for logs := range slices.Chunk(c.logs, beginLogs) {
		if err := c.begin(ctx, logs); err != nil {
			return nil, err
		}
	}
	return maps.Clone(c.at), nil
}

// begin finds where the copy of some logs begins. A call for each would take longer than
// a hold lives where Redis is far away.
func (c *LogCopy) begin(ctx context.Context, logs []*Log) error {
	ends, err := logEnds(ctx, logs) // first: what comes to an empty log between the two reads is copied
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	ask := make(rueidis.Commands, len(logs))
	for i, l := range logs {
		ask[i] = l.askOldest()
	}
	for i, answer := range c.redis.client.DoMulti(ctx, ask...) {
		oldest, ok, err := logs[i].oldestOf(answer)
		if err != nil {
			return err
		}
		if ok {
			ends[i] = oldest.Prev
		}
		c.at[logs[i].Partition()] = ends[i]
	}
	return nil
}

// Run copies until its context ends: emit is handed entries, those of a log in
// order, from several goroutines. The holds are kept up, and ended at the end.
func (c *LogCopy) Run(ctx context.Context, emit func([]Batch) error) error {
	ctx, stop := context.WithCancelCause(ctx)
	var holding sync.WaitGroup
	holding.Go(func() { stop(c.keepHolding(ctx)) })
	err := Pull(ctx, c.logs, maps.Clone(c.at), func(_ context.Context, batches []Batch) error {
		if err := emit(batches); err != nil {
			return err
		}
		last := batches[len(batches)-1]
		c.mu.Lock()
		defer c.mu.Unlock()
		c.at[last.Partition], c.dirty[last.Partition] = last.Position, true
		close(c.moved)
		c.moved = make(chan struct{})
		return nil
	})
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		err = cause // of keepHolding
	}
	stop(nil)
	holding.Wait()
	var holds rueidis.Commands
	for _, p := range c.partitions {
		holds = append(holds, c.redis.B().Del().Key(p.holdKey()).Build())
	}
	_ = c.redis.Do(context.WithoutCancel(ctx), "end holds", holds...) // they end by themselves
	switch {
	case errors.Is(err, sluice.ErrGap):
		err = fmt.Errorf("copy the logs: a part was trimmed before it was copied: this process was held up for longer than %s; try again (%v)", holdTTL, err)
	case err != nil && !errors.Is(err, context.Canceled):
		err = fmt.Errorf("copy the logs: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failed = errors.Join(err, context.Canceled)
	close(c.moved)
	c.moved = make(chan struct{})
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// keepHolding says where the copy is until the context ends.
func (c *LogCopy) keepHolding(ctx context.Context) error {
	ticker := time.NewTicker(holdEvery)
	defer ticker.Stop()
	all := time.Now().Add(holdTTL / 4)
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-ticker.C:
			c.mu.Lock()
			at, dirty := maps.Clone(c.at), c.dirty
			c.dirty = make(map[int]bool)
			c.mu.Unlock()
			every := now.After(all)
			if every {
				all = now.Add(holdTTL / 4)
			}
			which := slices.DeleteFunc(slices.Clone(c.partitions), func(p Partition) bool { return !every && !dirty[p.Number] })
			if err := c.hold(ctx, which, at); err != nil && ctx.Err() == nil {
				return err
			}
		}
	}
}

// hold keeps what lies behind a position of each of some logs, or all that it has.
func (c *LogCopy) hold(ctx context.Context, which []Partition, at map[int]sluice.Position) error {
	var holds rueidis.Commands
	for _, p := range which {
		holds = append(holds, c.redis.B().Set().Key(p.holdKey()).Value(at[p.Number].String()).Px(holdTTL).Build())
	}
	return c.redis.Do(ctx, "hold the trim of logs", holds...)
}

// LogEnd is where the copy of a log ends, and what the log remembered there.
type LogEnd struct {
	Position sluice.Position
	Sources  map[string]string
}

// End fixes where the copy of each log ends, and waits until it has come there.
func (c *LogCopy) End(ctx context.Context) (map[int]LogEnd, error) {
	ends := make(map[int]LogEnd)
	for _, p := range c.partitions {
		sources, err := c.sources(ctx, p)
		if err != nil {
			return nil, err
		}
		end, err := sluice.ParsePosition(sources[tailField])
		if err != nil {
			return nil, fmt.Errorf("read the end of the log of partition %d: %w", p.Number, err)
		}
		ends[p.Number] = LogEnd{Position: end, Sources: sources}
	}
	for {
		c.mu.Lock()
		behind, moved, failed := 0, c.moved, c.failed
		for p, end := range ends {
			if c.at[p].Before(end.Position) {
				behind++
			}
		}
		c.mu.Unlock()
		if behind == 0 {
			return ends, nil
		}
		if failed != nil {
			return nil, failed
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (c *LogCopy) sources(ctx context.Context, p Partition) (map[string]string, error) {
	return Ask(ctx, c.redis, "read the sources of a log", c.redis.B().Hgetall().Key(p.sourcesKey()).Build(), rueidis.RedisResult.AsStrMap)
}

// tailField is the field of the sources that holds the id of the last entry.
const tailField = "@tail"

// PutBack writes copied entries into the log, which must be empty or end before
// the first of them, as they were.
func (l *Log) PutBack(ctx context.Context, batches []Batch) error {
	c, key := l.redis.client, l.partition.logKey()
	for len(batches) > 0 {
		var commands rueidis.Commands
		bytes := 0
		for len(batches) > 0 && bytes < restoreBytes {
			b := batches[0]
			batches, bytes = batches[1:], bytes+len(b.Data)
			commands = append(commands, c.B().Xadd().Key(key).Id(b.Position.String()).FieldValue().
				FieldValue("prev", b.Prev.String()).FieldValue("batch", rueidis.BinaryString(b.Data)).Build())
		}
		if err := l.redis.Do(ctx, fmt.Sprintf("put entries back into the log of partition %d", l.partition.Number), commands...); err != nil {
			return err
		}
	}
	return nil
}

// PutBackSources has the log remember its sources as they were. What was about the Redis
// that they come from, or was kept there, is not put back.
func (l *Log) PutBackSources(ctx context.Context, sources map[string]string) error {
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(sources)), func(name string) bool {
		return name == cutField || slices.Contains(serverFields, name)
	})
	if len(names) == 0 {
		return nil
	}
	pairs := l.redis.B().Hset().Key(l.partition.sourcesKey()).FieldValue()
	for _, name := range names {
		pairs = pairs.FieldValue(name, sources[name])
	}
	return l.redis.Do(ctx, "put back the sources of a log", pairs.Build())
}

// Clear removes the log and all that Redis remembers of it.
func (l *Log) Clear(ctx context.Context) error {
	p := l.partition
	return l.redis.Do(ctx, "empty a log", l.redis.B().Unlink().Key(p.logKey(), p.sourcesKey(), p.cursorsKey(), p.holdKey(), p.removedKey()).Build())
}

// Span is what a log holds: entries behind From, the last one at To. Both are
// the same if it is empty, and zero if it never held any.
func (l *Log) Span(ctx context.Context) (from, to sluice.Position, err error) {
	oldest, ok, err := l.Oldest(ctx)
	if err != nil {
		return from, to, err
	}
	if to, err = l.Last(ctx); err != nil || !ok {
		return to, to, err
	}
	return oldest.Prev, to, nil
}

// Known returns how many processes have beaten in a Redis and not said that they end.
func Known(ctx context.Context, r *Redis) (int, error) {
	beats, err := r.beats(ctx)
	return len(beats), err
}

// Living returns how many processes were seen to beat in a Redis when the first was; 0:
// none beats. It watches for as long as
// a process may be silent if there may be one. That is the case if there are
// beats, or if inUse says so, since Redis may have been emptied under processes
// that live. If it is in use and has no recorded forms, it is watched for longer, as by Words.
func Living(ctx context.Context, r *Redis, inUse bool) (int, error) {
	first, err := r.beats(ctx)
	if err != nil || len(first) == 0 && !inUse {
		return 0, err
	}
	used, err := r.forms(ctx, sluice.Forms{})
	if err != nil {
		return 0, err
	}
	deadline := time.Now().Add(LeaseTimeout)
	if inUse && used == (sluice.Forms{}) {
		deadline = time.Now().Add(returnWithin(LeaseTimeout))
	}
	living := 0
	err = r.watchBeats(ctx, beatEvery, deadline, func(now map[string]string) bool {
		for id, beat := range now {
			if first[id] != beat {
				living++
			}
		}
		return living > 0
	})
	return living, err
}

// watchBeats looks at the beats every so often, until enough says so, or the time is
// over: once at least.
func (r *Redis) watchBeats(ctx context.Context, every time.Duration, until time.Time, enough func(now map[string]string) bool) error {
	for {
		if sluice.Pause(ctx, every) != nil {
			return r.wrap("watch the processes", context.Cause(ctx))
		}
		now, err := r.beats(ctx)
		if err != nil || enough(now) || time.Now().After(until) {
			return err
		}
	}
}

func (r *Redis) beats(ctx context.Context) (map[string]string, error) {
	return Ask(ctx, r, "look who lives", r.B().Hgetall().Key(membersKey()).Build(), rueidis.RedisResult.AsStrMap)
}

// Deployment is what a database says of the Redis that it belongs to; the zero
// one: none yet.
type Deployment struct {
	ID         uint64
	Partitions int
}

// DeploymentOf reads a database's deployment.
func DeploymentOf(ctx context.Context, store store.Store) (Deployment, error) {
	cursors, err := store.Cursors(ctx, identityFollower, []int{0})
	if err != nil {
		return Deployment{}, fmt.Errorf("read the deployment of the database: %w", err)
	}
	return deploymentAt(cursors[0]), nil
}

func deploymentAt(p sluice.Position) Deployment {
	return Deployment{ID: p.Major, Partitions: int(p.Minor)}
}

// Deployment returns the id of the deployment that a Redis belongs to, 0: none.
func (r *Redis) Deployment(ctx context.Context) (uint64, error) {
	id, _, err := r.identity(ctx, "", "")
	return id, err
}

// NewDeploymentID returns the id of a new deployment.
func NewDeploymentID() (uint64, error) { return strconv.ParseUint(newDeployment(), 10, 64) }

// Cursor is the cursor that makes a database a deployment's.
func (d Deployment) Cursor() store.DumpCursor {
	return store.DumpCursor{Follower: identityFollower, Position: d.position()}
}

func (d Deployment) position() sluice.Position {
	return sluice.Position{Major: d.ID, Minor: uint64(d.Partitions)}
}

// Join takes a Redis for a deployment, also one of another deployment. Until
// the database has the same id, no program starts on either.
func (r *Redis) Join(ctx context.Context, id uint64) error {
	_, _, err := r.identity(ctx, strconv.FormatUint(id, 10), "force")
	return err
}

// LeaveDeployment frees a Redis from its deployment: no program starts on it
// with the database of another.
func (r *Redis) LeaveDeployment(ctx context.Context) error {
	return r.Do(ctx, "leave the deployment", r.B().Del().Key(identityKey()).Build())
}

// Rejoin gives a database that stays the id of a new deployment. It moves the
// cursors from where they were (before) to where the logs begin (after), in one
// transaction.
func Rejoin(ctx context.Context, db store.Store, from, to Deployment, before, after []store.DumpCursor) error {
	moves := []store.Move{{Follower: identityFollower, From: from.position(), To: to.position()}}
	for _, to := range after {
		var from sluice.Position // of one that is new
		for _, was := range before {
			if was.Follower == to.Follower && was.Partition == to.Partition {
				from = was.Position
			}
		}
		if from != to.Position {
			moves = append(moves, store.Move{Follower: to.Follower, Partition: to.Partition, From: from, To: to.Position})
		}
	}
	p, err := db.Prepare(&store.Effect{Moves: moves})
	if err == nil {
		_, err = db.Apply(ctx, p)
	}
	if err != nil {
		return fmt.Errorf("write the deployment of the database: %w", err)
	}
	return nil
}
