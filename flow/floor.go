package flow

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"sluice"
)

// A Redis that has gone back in time, and whose clock is behind, would issue
// ids again that were issued before. Entries written then lie at or below the
// cursor in SQL, and nobody reads them. So a writer raises a log on this Redis
// before it writes to it.
//
// The idea. Every script that writes to the end of a log is told a replication
// id: that of the Redis on which its process has raised the log. The id (INFO
// replication) is new with every start and every promotion. It costs 1.6 µs of
// Redis a call on an idle machine, 7 to 8 under load. On another one it writes
// nothing. The process then asks SQL for the cursor, raises the log above it
// (raise.lua), and calls again: so no writer's knowledge can be old.
//
// Beyond the cursor. A transaction may be open that moves the cursor to a
// position of the Redis of before, known to its process only. So the log is
// also raised above all that this process has seen of it. If the clock of the
// new Redis is behind that of the old one, it is raised further: above the
// latest id that the old one can have issued.

const (
	// raiseTries is how often a write is begun anew because the Redis is another
	// one again.
	raiseTries = 3

	// storedTimeout bounds the question for the cursors. Without an answer the
	// process goes by what it has seen: writes go on while a database is away. For as
	// long it is not asked again: each log would wait anew.
	storedTimeout = 2 * time.Second

	// driftOver: the clock of a Redis and that of this machine drift apart by less
	// than one part in so many.
	driftOver = 10_000
)

// floors is what a process knows of the ends of the logs of a Redis.
type floors struct {
	mu     sync.Mutex
	stored func(ctx context.Context, partitions []int) (map[int]sluice.Position, error)
	failed time.Time // when stored failed last
	log    *slog.Logger
	of     map[int]*floor // by partition

	// A fresh id of any log, and when it came: the clock of the Redis.
	millis uint64
	at     time.Time
}

// floor is what is known of the end of one log.
type floor struct {
	settling sync.Mutex // held by the caller that raises the log for a write

	server string          // replication id of the Redis on which it was raised; "": on none
	seen   sluice.Position // no id up to here may be given out again
}

// RaiseBy has writers ask for the cursors of the logs, before they write to a
// Redis that is another one than before.
func (r *Redis) RaiseBy(log *slog.Logger, stored func(ctx context.Context, partitions []int) (map[int]sluice.Position, error)) {
	r.floors.mu.Lock()
	defer r.floors.mu.Unlock()
	r.floors.log, r.floors.stored = log, stored
}

func (f *floors) locked(partition int) *floor {
	known := f.of[partition]
	if known == nil {
		if f.of == nil {
			f.of = make(map[int]*floor)
		}
		known = new(floor)
		f.of[partition] = known
	}
	return known
}

// server returns the Redis on which some logs were raised; "": not all of them on
// one.
func (f *floors) server(logs []*Log) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	server := f.locked(logs[0].partition.Number).server
	for _, l := range logs[1:] {
		if f.locked(l.partition.Number).server != server {
			return ""
		}
	}
	return server
}

// see notes an id of a log. fresh: it was given out just now.
func (f *floors) see(partition int, at sluice.Position, fresh bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if known := f.locked(partition); known.seen.Before(at) {
		known.seen = at
	}
	if now := time.Now(); fresh && at.Major >= f.clockLocked(now) {
		f.millis, f.at = at.Major, now
	}
}

// clockLocked is the least that the clock of the Redis says, if that Redis
// issued the ids that were seen; 0: none was seen.
func (f *floors) clockLocked(now time.Time) uint64 {
	if f.millis == 0 {
		return 0
	}
	passed := now.Sub(f.at)
	return f.millis + uint64((passed - passed/driftOver).Milliseconds())
}

// above returns what a log is to be raised above, and the clock of before.
func (f *floors) above(partition int, cursor sluice.Position) (at sluice.Position, clock uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	at = cursor
	if seen := f.locked(partition).seen; at.Before(seen) {
		at = seen
	}
	return at, f.clockLocked(time.Now())
}

func (f *floors) raised(partition int, server string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.locked(partition).server = server
}

// errManyServers is of a Redis that is another one again and again. Nothing was
// written.
var errManyServers = fmt.Errorf("redis was another one %d times while logs were raised on it: is it being restarted, or promoted, again and again?", raiseTries)

// writeEnd runs a script that writes to the ends of logs, and raises them before,
// if this is another Redis than they were raised on. args has no element for the
// replication id yet.
func (r *Redis) writeEnd(ctx context.Context, script string, logs []*Log, keys, args []string) (rueidis.RedisResult, error) {
	for try := 1; ; try++ {
		server := r.floors.server(logs)
		if server == "" {
			if err := r.raiseFor(ctx, logs, server); err != nil {
				return rueidis.RedisResult{}, err
			}
			if server = r.floors.server(logs); server == "" { // it became another one between two of them
				if try == raiseTries {
					return rueidis.RedisResult{}, errManyServers
				}
				continue
			}
		}
		answer := r.call(ctx, script, keys, append(args, server))
		reply, ok := rueidis.IsRedisErr(answer.Error())
		if !ok || try == raiseTries || !strings.HasPrefix(reply.Error(), "BEHIND") {
			return answer, nil
		}
		if err := r.raiseFor(ctx, logs, server); err != nil {
			return rueidis.RedisResult{}, err
		}
	}
}

// raiseFor raises some logs, all of them, unless another caller has meanwhile raised them
// all on one Redis that is another than on. on is "" if they were raised on none, or on
// several.
func (r *Redis) raiseFor(ctx context.Context, logs []*Log, on string) error {
	f := &r.floors
	var partitions []int
	for _, l := range logs {
		partitions = append(partitions, l.partition.Number)
	}
	slices.Sort(partitions) // so that no two callers wait for each other
	partitions = slices.Compact(partitions)
	for _, p := range partitions {
		settling := f.settling(p)
		settling.Lock()
		defer settling.Unlock()
	}
	if now := f.server(logs); now != "" && now != on {
		return nil // another caller has
	}
	cursors, log := f.cursors(ctx, partitions)
	for _, l := range logs {
		raised, err := l.Raise(ctx, cursors[l.partition.Number])
		if err != nil {
			return err
		}
		if raised && log != nil {
			log.Warn("log was behind and has been raised before it is written: redis has gone back in time", "partition", l.partition.Number)
		}
	}
	return nil
}

// settling is the lock of the caller that raises a log. Each log has its own: in a cluster
// all that were on one master are raised at once, while the database may be away.
func (f *floors) settling(partition int) *sync.Mutex {
	f.mu.Lock()
	defer f.mu.Unlock()
	return &f.locked(partition).settling
}

// cursors asks for the cursors of logs; nil: they are not known.
func (f *floors) cursors(ctx context.Context, partitions []int) (map[int]sluice.Position, *slog.Logger) {
	f.mu.Lock()
	stored, log, rests := f.stored, f.log, time.Since(f.failed) < storedTimeout
	f.mu.Unlock()
	if stored == nil || rests {
		return nil, log
	}
	ctx, cancel := context.WithTimeout(ctx, storedTimeout)
	defer cancel()
	cursors, err := stored(ctx, partitions)
	if err != nil {
		f.mu.Lock()
		f.failed = time.Now()
		f.mu.Unlock()
		log.Warn("redis is another one, and the database does not say what it has stored: logs are raised above what this process has seen of them", "error", err)
	}
	return cursors, log
}

// Raise makes sure that certain ids are not issued again: those up to the
// cursor, and those that this process has seen. If the clock of another Redis
// was ahead of this one's, it also excludes the ids that the other can have
// issued.
func (l *Log) Raise(ctx context.Context, cursor sluice.Position) (raised bool, err error) {
	answer, err := l.raise(ctx, cursor, "")
	if err != nil {
		return false, err
	}
	return answer[0] == "1", nil
}

// raise calls raise.lua. session is "1" if a session of the store begins at the cursor.
func (l *Log) raise(ctx context.Context, cursor sluice.Position, session string) ([]string, error) {
	f := &l.redis.floors
	above, clock := f.above(l.partition.Number, cursor)
	marker := sluice.AppendItem(sluice.NewBatch(sluice.ItemHeaderBytes), sluice.ItemMarker, func(b []byte) []byte { return b })
	number := func(n uint64) string { return strconv.FormatUint(n, 10) }
	answer, err := l.redis.callTexts(ctx, "raise a log", "raise",
		[]string{l.partition.logKey(), l.partition.sourcesKey()},
		[]string{number(cursor.Major), number(cursor.Minor), number(above.Major), number(above.Minor), number(clock), rueidis.BinaryString(marker),
			session, strconv.Itoa(maxMovedEntries), strconv.Itoa(maxMovedBytes)})
	if err != nil {
		return nil, err
	}
	f.raised(l.partition.Number, answer[1])
	f.see(l.partition.Number, cursor, false)
	return answer, nil
}

// writeTexts is callTexts for a script that writes to the end of the log.
func (l *Log) writeTexts(ctx context.Context, verb, script string, keys, args []string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	result, err := l.redis.writeEnd(ctx, script, []*Log{l}, keys, args)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", verb, err)
	}
	return l.redis.readTexts(verb, result)
}
