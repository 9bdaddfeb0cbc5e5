package bench

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	moving "sluice/journey/run"
)

// wave has everybody enter, and lets an hour pass, twice.
func (b *journeyBench) wave(ctx context.Context) error {
	number, err := b.publish(ctx, "wave")
	if err != nil {
		return err
	}
	empty, err := b.usedMB(ctx, "used_memory")
	if err != nil {
		return err
	}
	if err := b.enter(ctx, number, b.clock.Now().Add(time.Hour)); err != nil {
		return err
	}
	full, err := b.usedMB(ctx, "used_memory")
	if err != nil {
		return err
	}
	b.add("person", "a person inside", "bytes", (full-empty)*1e6/float64(b.users))
	at := b.clock.Now().Add(time.Hour + time.Minute).Truncate(time.Second)
	if err := b.enterLonely(ctx, at); err != nil {
		return err
	}
	calls, hangUp, err := b.openCalls(ctx)
	if err != nil {
		return err
	}
	defer hangUp()
	forgetPeak()
	f := b.follower(b.clock)
	began := time.Now()
	defer runs(ctx, f)()
	if err := until(ctx, journeyWithin, func() bool { return f.Stats.Opened.Load() == journeyPartitions }); err != nil {
		return fmt.Errorf("wait for the records to be read: %w", err)
	}
	b.add("recover", "all records read, and who is due when", "s", time.Since(began).Seconds())
	memory := b.watchMemory(ctx)
	first, err := b.oneWave(ctx, f, 1, at, calls)
	if err != nil {
		return err
	}
	if err := b.env.redis.Rewrite(ctx); err != nil {
		return err
	}
	second, err := b.oneWave(ctx, f, 2, at.Add(time.Hour+time.Minute), nil)
	if err != nil {
		return err
	}
	b.add("total", "everybody decided about, and where they are written", "s", first)
	b.add("second_to_first", "the step behind it, to the first", "1", second/first)
	return memory(empty)
}

// oneWave moves the clock on to a time, and waits until everybody has moved. With calls it
// looks what becomes meanwhile of others.
func (b *journeyBench) oneWave(ctx context.Context, f *moving.Follower, n int, at time.Time, calls *calls) (seconds float64, err error) {
	b.run.say("%s: wave %d", b.name, n)
	before, err := b.computed()
	if err != nil {
		return 0, err
	}
	all, err := cpuTimeOfTree(os.Getpid())
	if err != nil {
		return 0, err
	}
	reached, err := b.reached(ctx)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	b.clock.ahead.Store(int64(time.Until(at)))
	var beside errgroup.Group
	over := make(chan struct{})
	if calls != nil {
		beside.Go(func() error { return calls.watch(ctx, over) })
		beside.Go(func() error { return b.watchLonely(ctx) })
		beside.Go(func() error { return b.watchRelease(ctx, reached, began) })
	}
	want := int64(n) * b.users
	err = until(ctx, journeyWithin, func() bool { return f.Stats.Moved.Load() >= want })
	close(over)
	if err != nil {
		return 0, fmt.Errorf("wait for wave %d: %d of %d have moved: %w", n, f.Stats.Moved.Load(), want, err)
	}
	seconds = time.Since(began).Seconds()
	allAfter, err := cpuTimeOfTree(os.Getpid())
	if err != nil {
		return 0, err
	}
	if n == 1 {
		b.add("total_cpu", "a person of all, at the first step: computing of all processes", "µs", float64((allAfter-all).Microseconds())/float64(b.users))
	}
	after, err := b.computed()
	if err != nil {
		return 0, err
	}
	for _, name := range []string{sluiceProcess, redisServer, mariaServer} {
		if took, ok := after[name]; ok {
			b.add("cpu_"+strings.ToLower(name), name+"'s computing for a person", "µs", float64((took-before[name]).Microseconds())/float64(b.users))
		}
	}
	return seconds, beside.Wait()
}

// sluiceProcess is this process, in computed.
const sluiceProcess = "Sluice"

// computed is how long this process and the servers have computed.
func (b *journeyBench) computed() (all map[string]time.Duration, err error) {
	all = make(map[string]time.Duration)
	if all[sluiceProcess], err = cpuTimeOf(os.Getpid()); err != nil {
		return nil, err
	}
	for name, pid := range b.pids {
		if all[name], err = cpuTimeOf(pid()); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// reached is the number of each partition's last commit.
func (b *journeyBench) reached(ctx context.Context) (all [journeyPartitions]uint64, err error) {
	for p := range all {
		at, err := b.logs[p].Cursor(ctx, journeyName)
		if err != nil {
			return all, err
		}
		all[p] = at.Major
	}
	return all, nil
}

// watchRelease notes when people of every partition have begun to move. That is all of a
// release: nobody is taken out of one place and put into another.
func (b *journeyBench) watchRelease(ctx context.Context, before [journeyPartitions]uint64, began time.Time) error {
	for p := range before {
		for {
			at, err := b.logs[p].Cursor(ctx, journeyName)
			if err != nil {
				return err
			}
			if at.Major > before[p] {
				break
			}
			if err := pause(ctx, releasedEvery); err != nil {
				return err
			}
		}
	}
	b.add("release", "from the second at which all are due until people of all partitions move", "s", time.Since(began).Seconds())
	return nil
}

// watchMemory watches the memory of Redis and of this process, until the returned
// function notes it.
func (b *journeyBench) watchMemory(ctx context.Context) func(emptyMB float64) error {
	watched, stop := context.WithCancel(ctx)
	var resident, copied float64
	done := make(chan struct{})
	go func() { // until stop
		defer close(done)
		for pause(watched, redisEvery) == nil {
			if rss, err := b.usedMB(watched, "used_memory_rss"); err == nil {
				resident = max(resident, rss)
			}
			if info, err := b.env.redis.Info(watched, "persistence"); err == nil {
				for _, member := range []string{"current_cow_peak", "aof_last_cow_size"} {
					bytes, _ := strconv.ParseFloat(info[member], 64) // not there: an older Redis
					copied = max(copied, bytes/1e6)
				}
			}
		}
	}()
	return func(emptyMB float64) error {
		stop()
		<-done
		peak, err := b.usedMB(ctx, "used_memory_peak")
		if err != nil {
			return err
		}
		b.add("redis", "Redis at its peak, over an empty one", "MB", peak-emptyMB)
		b.add("redis_rss", "Redis, resident at most", "MB", resident)
		b.add("redis_copied", "Redis, copied while it rewrites its append-only file, at most", "MB", copied)
		own, err := peakMB()
		if err != nil {
			return err
		}
		b.add("memory", "this process, which has what moves people, resident at most", "MB", own)
		return nil
	}
}

// forgetPeak has the kernel measure the peak of this process's memory anew. Where it
// cannot, the peak is that since the start.
func forgetPeak() { _ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) }

// peakMB is the most memory that this process had resident.
func peakMB() (float64, error) {
	text := fileField("/proc/self/status", "VmHWM")
	kb, err := strconv.ParseFloat(strings.TrimSuffix(text, " kB"), 64)
	if err != nil {
		return 0, fmt.Errorf("read the memory of the bench: %q: %w; it takes Linux", text, err)
	}
	return kb / 1e3, nil
}
