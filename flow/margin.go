package flow

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"sluice"
)

// Applied entries stay in a log for a while. A database that fails over to a
// replica which lagged takes the cursor back, and the entries after it are read
// again. They are no backlog, so the follower that applies a log records their
// number.

// appliedField is the field of the sources that holds how many of the log's
// entries are applied.
const appliedField = "@applied"

// A read of a log's applied end asks for leastStretch entries first, then for as
// many as let expect stretchBytes, mostStretch at most.
const (
	leastStretch = 4
	mostStretch  = 1000
	stretchBytes = 1 << 20
)

// removedField is the field of the sources that holds how many entries have been
// removed from the log.
const removedField = "@removed"

// cutField is a field of the sources, and of a list's state. It holds when the
// newest entry that went for want of room was applied, in milliseconds of
// Redis's clock; 0: nothing has gone. A process that goes on learns from it how
// far back is kept. It trusts the field if the lease's number beside it is its
// own, or that of the last holder.
const cutField = "@cut"

// NeverCut is how long ago something applied has gone for want of room, if nothing
// has.
const NeverCut = time.Duration(-1)

// Stretch is some entries of a log, or elements of a list, that follow each other.
type Stretch struct {
	First, Last sluice.Position
	Entries     int
	Bytes       int // of their batches; of elements, about what they take in Redis
}

// Applied returns the entries of the log up to a cursor, newest first, at most
// so many bytes and one read more. whole: that is all of them.
func (l *Log) Applied(ctx context.Context, cursor sluice.Position, mostBytes int) (all []Stretch, whole bool, err error) {
	c, end, count := l.redis.client, cursor.String(), int64(leastStretch)
	for bytes := 0; bytes < mostBytes; {
		command := c.B().Xrevrange().Key(l.partition.logKey()).End(end).Start("-").Count(count).Build()
		entries, err := Ask(ctx, l.redis, "read what of a log is applied", command, rueidis.RedisResult.AsXRange)
		if err != nil {
			return nil, false, err
		}
		if len(entries) == 0 {
			return all, true, nil
		}
		s := Stretch{Entries: len(entries)}
		for _, entry := range entries {
			s.Bytes += len(entry.FieldValues["batch"])
		}
		if s.Last, err = sluice.ParsePosition(entries[0].ID); err != nil {
			return nil, false, err
		}
		if s.First, err = sluice.ParsePosition(entries[len(entries)-1].ID); err != nil {
			return nil, false, err
		}
		all, bytes = append(all, s), bytes+s.Bytes
		count = int64(min(max(leastStretch, stretchBytes*s.Entries/max(1, s.Bytes)), mostStretch))
		end = "(" + entries[len(entries)-1].ID
	}
	return all, false, nil
}

// Settle notes how many of the log's entries are applied, and how long ago one was
// that went last for want of room, or NeverCut. It removes the applied entries before
// keep; zero: none. The lease must be held.
func (l *Log) Settle(ctx context.Context, lease *Lease, keep sluice.Position, applied int, cut time.Duration) (removed int64, err error) {
	ago := ""
	if cut >= 0 {
		ago = strconv.FormatInt(cut.Milliseconds(), 10)
	}
	return l.trim(ctx, lease, keep, strconv.Itoa(applied), ago)
}

// Cut returns how long ago the newest entry that has gone was applied, or
// NeverCut. An entry goes for want of room, or with a Redis that has gone back
// in time. known: the last holder of the lease has noted it. An older process
// does not. The lease must be held.
func (l *Log) Cut(ctx context.Context, lease *Lease) (ago time.Duration, known bool, err error) {
	return l.redis.cut(ctx, "read how far back a log is kept", l.partition.sourcesKey(), lease)
}

func (r *Redis) cut(ctx context.Context, verb, key string, lease *Lease) (ago time.Duration, known bool, err error) {
	millis, err := r.callInt(ctx, verb, "cut", []string{key, lease.key}, nil)
	if err != nil || millis < 0 {
		return NeverCut, millis == -1, err
	}
	return time.Duration(millis) * time.Millisecond, true, nil
}

func (l *Log) trim(ctx context.Context, lease *Lease, keep sluice.Position, applied, cut string) (int64, error) {
	id := ""
	if !keep.IsZero() {
		id = keep.String()
	}
	p := l.partition
	return l.redis.callInt(ctx, "trim a log", "trim", []string{lease.key, p.logKey(), p.holdKey(), p.sourcesKey(), p.removedKey()}, []string{lease.token, id, applied, cut})
}

// MemoryPercents returns, by partition, how much of its memory the Redis of each log uses;
// 0: it has no bound. It asks each server that has some of the logs once, and waits for
// lookTimeout at most. Logs of a server that does not answer are left out.
func MemoryPercents(ctx context.Context, logs []*Log) map[int]int {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	all := make(map[int]int, len(logs))
	var mu sync.Mutex // of all
	var asking sync.WaitGroup
	for _, some := range byServer(ctx, logs) {
		asking.Go(func() { // ends with ctx
			percent, err := some[0].redis.memoryPercent(ctx, some[0].partition.logKey())
			if err != nil {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			for _, l := range some {
				all[l.partition.Number] = percent
			}
		})
	}
	asking.Wait()
	return all
}

// byServer splits logs of a Redis by the server that has them. Those whose server is not
// known are left out.
func byServer(ctx context.Context, logs []*Log) (split [][]*Log) {
	if len(logs) == 0 {
		return nil
	}
	r := logs[0].redis
	if r.oneServer() {
		return [][]*Log{logs}
	}
	nodes, err := r.clusterNodes(ctx)
	if err != nil {
		return nil
	}
	for i := range nodes {
		var has []*Log
		for _, l := range logs {
			if nodes[i].has(int(r.slotOf(l.partition.logKey()))) {
				has = append(has, l)
			}
		}
		if len(has) > 0 {
			split = append(split, has)
		}
	}
	return split
}

// MemoryPercent returns how much of its memory the list's Redis uses; 0: it has no bound.
func (l *List) MemoryPercent(ctx context.Context) (int, error) {
	return l.redis.memoryPercent(ctx, l.keys.list)
}

func (r *Redis) memoryPercent(ctx context.Context, key string) (int, error) {
	info, err := r.infoAt(ctx, key, "memory")
	if err != nil {
		return 0, err
	}
	most, _ := strconv.ParseInt(info["maxmemory"], 10, 64)
	used, _ := strconv.ParseInt(info["used_memory"], 10, 64)
	if most <= 0 {
		return 0, nil
	}
	return int(100 * used / most), nil
}
