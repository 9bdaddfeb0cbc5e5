package bench

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"runtime"
	"time"

	"golang.org/x/sync/errgroup"

	"sluice/ingest"
	"sluice/journey"
	moving "sluice/journey/run"
)

// People who are due one by one, at random: each second so many of all people, who lie
// anywhere among the others.
const (
	wakesASecond      = 100_000 // of journeyUsers
	wakesSeconds      = 30
	wakesSecondsQuick = 5
	wakesLead         = 3 * time.Second // before the first is due
)

// wakes lets people wake up at random, a stated number each second, and measures how
// late the last ones of each second move.
func (b *journeyBench) wakes(ctx context.Context) error {
	number, err := b.publish(ctx, "wakes")
	if err != nil {
		return err
	}
	rate := wakesASecond * b.users / journeyUsers
	b.run.say("%s: %d wake up each second", b.name, rate)
	seconds := pick(b.run, wakesSeconds, wakesSecondsQuick)
	share := float64(rate*int64(seconds)) / float64(b.users)
	held, err := b.hold(ctx)
	if err != nil {
		return err
	}
	first := time.Now().Add(b.entering()).Truncate(time.Second)
	var counts [journeyPartitions][wakesSeconds]int64
	group, entering := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for p := range journeyPartitions {
		group.Go(func() error {
			random := rand.New(rand.NewPCG(1, uint64(p)))
			return b.enterOne(entering, held[p], p, int(number), b.lastOf(p), func(int64) (r journey.Record) {
				if random.Float64() < share {
					second := random.IntN(seconds)
					counts[p][second]++
					r = journey.Record{State: journey.StateInside, Version: 1, Due: uint32(first.Unix()) + uint32(second), Entered: uint32(first.Unix())}
				}
				return r
			})
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if late := time.Since(first); late > 0 {
		return fmt.Errorf("people were to wake up from %s on, and had entered only %s later", first.Format(time.TimeOnly), late)
	}
	return b.wait(ctx, first, seconds, &counts)
}

// entering is how long it may take until all have entered and are known.
func (b *journeyBench) entering() time.Duration {
	return wakesLead + time.Duration(b.users)*time.Microsecond
}

// wait runs what moves people, and looks when those of each second have moved.
func (b *journeyBench) wait(ctx context.Context, first time.Time, seconds int, counts *[journeyPartitions][wakesSeconds]int64) error {
	f := b.follower(&benchClock{})
	defer runs(ctx, f)()
	var want int64
	var worst time.Duration
	for second := range seconds {
		for p := range counts {
			want += counts[p][second]
		}
		due := first.Add(time.Duration(second) * time.Second)
		if err := until(ctx, journeyWithin, func() bool { return f.Stats.Moved.Load() >= want }); err != nil {
			return fmt.Errorf("wait for second %d: %d of %d have moved: %w", second, f.Stats.Moved.Load(), want, err)
		}
		worst = max(worst, time.Since(due))
	}
	b.add("wakes", "people who wake up at random", "1/s", float64(want)/float64(seconds))
	b.add("wakes_late", "the last of a second moves behind it, at worst", "s", worst.Seconds())
	return nil
}

// follower makes what moves people.
func (b *journeyBench) follower(clock *benchClock) *moving.Follower {
	return &moving.Follower{Logs: b.logs, Leases: b.leases, Store: b.store, Clock: clock, Log: slog.New(slog.NewTextHandler(os.Stderr, nil)), Health: &ingest.Stats{}, StoredBy: ingest.StoreRole,
		Loader: &moving.Loader{Journeys: b.store, Templates: b.store, Segments: b.store, Log: slog.Default()}}
}
