package bench

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"sluice/ingest"
	"sluice/journey"
	moving "sluice/journey/run"
)

// People who are due one by one, at random: each second so many of all people, who lie
// anywhere among the others. It may go on so if people are not later and later: those of the
// last third are compared with those of the middle one. How late they are is how long a turn
// through all records takes, as long as both cores have much to do. At a thirtieth more than
// what can be worked off, the last third is a second later. Fewer people say how late a
// person is whom no queue holds up.
const (
	wakesASecond      = 100_000 // of journeyUsers
	wakesSeconds      = 90
	wakesSecondsQuick = 5
	wakesLead         = 3 * time.Second // before the first is due

	fewWakesOf   = 10 // of wakesASecond
	fewWakesSpan = 10
)

// wakes lets people wake up at random, a stated number each second, and measures how
// late the last ones of each second move.
func (b *journeyBench) wakes(ctx context.Context) error {
	rate := wakesASecond * b.users / journeyUsers
	if err := b.wakesAt(ctx, "wakes", rate, pick(b.run, wakesSeconds, wakesSecondsQuick)); err != nil {
		return err
	}
	return b.wakesAt(ctx, "few_wakes", rate/fewWakesOf, pick(b.run, fewWakesSpan, wakesSecondsQuick))
}

// wakesAt is wakes at a rate, for so many seconds.
func (b *journeyBench) wakesAt(ctx context.Context, name string, rate int64, seconds int) error {
	number, err := b.publish(ctx, strings.ReplaceAll(name, "_", "-"))
	if err != nil {
		return err
	}
	b.run.say("%s: %d wake up each second", b.name, rate)
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
	return b.wait(ctx, name, first, seconds, &counts)
}

// entering is how long it may take until all have entered and are known.
func (b *journeyBench) entering() time.Duration {
	return wakesLead + time.Duration(b.users)*time.Microsecond
}

// wait runs what moves people, and measures how late they move behind their second.
func (b *journeyBench) wait(ctx context.Context, name string, first time.Time, seconds int, counts *[journeyPartitions][wakesSeconds]int64) error {
	f := b.follower(&benchClock{})
	defer runs(ctx, f)()
	l := &lateness{first: first, upTo: make([]int64, seconds)}
	for second := range l.upTo {
		if second > 0 {
			l.upTo[second] = l.upTo[second-1]
		}
		for p := range counts {
			l.upTo[second] += counts[p][second]
		}
	}
	all := l.upTo[seconds-1]
	within := time.Until(first) + time.Duration(seconds)*time.Second + journeyWithin
	err := until(ctx, within, func() bool { return l.see(f.Stats.Moved.Load()) >= all })
	if err != nil {
		return fmt.Errorf("wait until all have woken up: %d of %d have moved: %w", l.seen, all, err)
	}
	b.add(name, "people who wake up at random", "1/s", float64(all)/float64(seconds))
	b.add(name+"_growth", "those of the last third of the time are later than those of the middle third", "s", l.growth(all).Seconds())
	b.add(name+"_late", "the last of a second moves behind it, at worst", "s", l.worst.Seconds())
	b.add(name+"_end", "the last of the last second moves behind it", "s", l.end.Seconds())
	b.add(name+"_p99", "99 of a hundred people have moved behind their second", "s", l.within(all*99/100).Seconds())
	return nil
}

// lateness is how late people move: who is due first is taken to move first.
type lateness struct {
	first time.Time // the second of upTo[0]
	upTo  []int64   // how many are due up to each second
	seen  int64     // have moved
	worst time.Duration
	end   time.Duration // of those who moved last
	late  []lateMoves
}

// lateMoves are people who were seen to have moved so late.
type lateMoves struct {
	by     time.Duration
	people int64
}

// see takes note of how many have moved by now, and returns it.
func (l *lateness) see(moved int64) int64 {
	for now := time.Now(); l.seen < min(moved, l.upTo[len(l.upTo)-1]); {
		second, _ := slices.BinarySearch(l.upTo, l.seen+1)
		people := min(moved, l.upTo[second]) - l.seen
		by := now.Sub(l.first.Add(time.Duration(second) * time.Second))
		l.worst, l.end = max(l.worst, by), by
		l.late = append(l.late, lateMoves{by, people})
		l.seen += people
	}
	return moved
}

// growth is how much later the last third of so many people have moved than the middle third,
// on average.
func (l *lateness) growth(all int64) time.Duration {
	var sums [3]float64
	var people [3]int64
	seen := int64(0)
	for _, m := range l.late {
		third := min(3*seen/all, 2)
		sums[third] += m.by.Seconds() * float64(m.people)
		people[third] += m.people
		seen += m.people
	}
	mean := func(third int) float64 { return sums[third] / float64(max(people[third], 1)) }
	return time.Duration((mean(2) - mean(1)) * float64(time.Second))
}

// within is how late so many of them have moved at most.
func (l *lateness) within(people int64) time.Duration {
	slices.SortFunc(l.late, func(a, b lateMoves) int { return cmp.Compare(a.by, b.by) })
	for _, m := range l.late {
		if people -= m.people; people <= 0 {
			return m.by
		}
	}
	return l.worst
}

// follower makes what moves people.
func (b *journeyBench) follower(clock *benchClock) *moving.Follower {
	return &moving.Follower{Logs: b.logs, Leases: b.leases, Store: b.store, Clock: clock, Log: slog.New(slog.NewTextHandler(os.Stderr, nil)), Health: &ingest.Stats{}, StoredBy: ingest.StoreRole,
		Loader: &moving.Loader{Journeys: b.store, Templates: b.store, Segments: b.store, Log: slog.Default()}}
}
