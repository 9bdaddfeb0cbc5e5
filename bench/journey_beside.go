package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"sluice/flow"
	"sluice/journey"
	moving "sluice/journey/run"
)

// What is beside the wave: a few people of another journey who are due in its midst,
// journeys that few are in, and many journeys.
const (
	lonelySeconds = 10 // of the wave
	lonelyASecond = 20
	lonelyEvery   = 5 * time.Millisecond // is looked where they are

	hundredthOf  = 100
	singlesOf    = 10  // of all people come one by one
	singlesAtOne = 100 // by one commit of a partition
	singlesDay   = 24 * time.Hour
	manyRuns     = 3
	manyOf       = 10 // of all people are in all of many journeys together
	manyLead     = time.Minute

	spreadJourneys = 1_000_000 // numbers from here on are not published: nobody moves these people
)

var manyJourneys = []int64{1, 10, 50}

// enterLonely enters people of another journey who are due one after the other in the
// seconds behind an instant.
func (b *journeyBench) enterLonely(ctx context.Context, from time.Time) error {
	number, err := b.publish(ctx, "lonely")
	if err != nil {
		return err
	}
	held, err := b.hold(ctx)
	if err != nil {
		return err
	}
	b.lonely, b.lonelyFrom = int(number), from
	for p := range journeyPartitions {
		var people []int64
		for i := p; i < lonelySeconds*lonelyASecond; i += journeyPartitions {
			people = append(people, b.lonelyPerson(i).Number)
		}
		err := b.enterSome(ctx, held[p], p, int(number), people, func(n int64) journey.Record {
			i := int(n-1)/b.lonelyStep()*journeyPartitions + p
			return waiting(from.Add(time.Duration(1+i/lonelyASecond)*time.Second), from)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// waiting is the record of somebody who waits at the first step.
func waiting(due, entered time.Time) journey.Record {
	return journey.Record{State: journey.StateInside, Version: 1, Due: uint32(due.Unix()), Entered: uint32(entered.Unix())}
}

// lonelyStep is how far apart the people of a partition are.
func (b *journeyBench) lonelyStep() int {
	return int(b.users) / (lonelySeconds * lonelyASecond) / journeyPartitions
}

// lonelyPerson is where the i-th of them is.
func (b *journeyBench) lonelyPerson(i int) (at struct {
	Partition int
	Number    int64
}) {
	at.Partition, at.Number = i%journeyPartitions, int64(i/journeyPartitions*b.lonelyStep()+1)
	return at
}

// watchLonely looks when each of them moves, and notes how late that is.
func (b *journeyBench) watchLonely(ctx context.Context) error {
	var late []float64
	for second := range lonelySeconds {
		due := b.lonelyFrom.Add(time.Duration(1+second) * time.Second)
		for i := second * lonelyASecond; i < (second+1)*lonelyASecond; i++ {
			at := b.lonelyPerson(i)
			for {
				raw, err := b.logs[at.Partition].RecordOf(ctx, b.lonely, at.Number)
				if err != nil {
					return err
				}
				var r journey.Record
				if err := r.Decode(raw[:]); err != nil {
					return err
				}
				if r.Step != 0 {
					break
				}
				if err := pause(ctx, lonelyEvery); err != nil {
					return err
				}
			}
			late = append(late, b.clock.Now().Sub(due).Seconds())
		}
	}
	slices.Sort(late)
	b.add("lonely_p99", "a person of another journey moves in the midst of the wave, p99", "s", late[len(late)*99/100])
	return nil
}

// enterSome enters some people of a partition, by one commit.
func (b *journeyBench) enterSome(ctx context.Context, lease *flow.Lease, partition, number int, people []int64, of func(person int64) journey.Record) error {
	records := b.logs[partition].Records(number)
	if err := records.Load(ctx, func(*flow.Unit) error { return nil }); err != nil {
		return err
	}
	return b.enterInto(ctx, lease, partition, records, people, of)
}

// enterInto does so into records that were loaded.
func (b *journeyBench) enterInto(ctx context.Context, lease *flow.Lease, partition int, records *flow.Records, people []int64, of func(person int64) journey.Record) error {
	units := make(map[int64]*flow.Unit)
	var order []*flow.Unit
	read := func(n int64) (*flow.Unit, error) {
		u := records.Of(n)
		key := u.First()*2 + int64(u.Span())%2
		if units[key] == nil {
			if err := records.Read(ctx, []*flow.Unit{u}); err != nil {
				return nil, err
			}
			units[key] = u
			order = append(order, u)
		}
		return units[key], nil
	}
	for _, n := range people {
		var raw flow.Record
		r := of(n)
		r.Append(raw[:0])
		u, err := read(n)
		if err != nil {
			return err
		}
		if u.Set(n, raw) {
			continue
		}
		for _, block := range records.Divide(u) {
			units[block.First()*2+int64(block.Span())%2] = block
			order = append(order, block)
		}
		if u, err = read(n); err != nil {
			return err
		}
		u.Set(n, raw)
	}
	at, err := b.logs[partition].Cursor(ctx, journeyName)
	if err != nil {
		return err
	}
	next := at
	next.Major++
	_, err = b.logs[partition].Commit(ctx, lease, &flow.Commit{Follower: journeyName, From: at, To: next, Operations: records.Operations(order)}, 1)
	return err
}

// spread measures what a person takes in journeys that few are in: a hundredth of all, at
// random, and people who came one by one over a day.
func (b *journeyBench) spread(ctx context.Context) error {
	held, err := b.hold(ctx)
	if err != nil {
		return err
	}
	now := time.Now().Add(singlesDay)
	for n, part := range []struct {
		id, label string
		people    int64
		at        int // in one commit of a partition
		within    time.Duration
	}{
		{"hundredth", "a person of a hundredth at random", b.users / hundredthOf, int(b.users), time.Second},
		{"singles", "a person of those who came one by one", b.users / singlesOf, singlesAtOne, singlesDay},
	} {
		b.run.say("%s: %s", b.name, part.label)
		before, err := b.usedMB(ctx, "used_memory")
		if err != nil {
			return err
		}
		group, entering := errgroup.WithContext(ctx)
		group.SetLimit(4)
		for p := range journeyPartitions {
			group.Go(func() error {
				random := rand.New(rand.NewPCG(uint64(n), uint64(p)))
				records := b.logs[p].Records(spreadJourneys + n)
				if err := records.Load(entering, func(*flow.Unit) error { return nil }); err != nil {
					return err
				}
				last := b.lastOf(p)
				for piece := range slices.Chunk(random.Perm(int(last))[:part.people/journeyPartitions], part.at) {
					people := make([]int64, len(piece))
					for i, n := range piece {
						people[i] = int64(n) + 1
					}
					if part.at > singlesAtOne {
						slices.Sort(people)
					}
					err := b.enterInto(entering, held[p], p, records, people, func(int64) journey.Record {
						return waiting(now.Add(time.Duration(random.Int64N(int64(part.within)))), now)
					})
					if err != nil {
						return err
					}
				}
				return nil
			})
		}
		if err := group.Wait(); err != nil {
			return err
		}
		after, err := b.usedMB(ctx, "used_memory")
		if err != nil {
			return err
		}
		b.add(part.id, part.label, "bytes", (after-before)*1e6/float64(part.people/journeyPartitions*journeyPartitions))
		b.add(part.id+"_mb", part.label+": all of them", "MB", after-before)
	}
	return b.further(ctx, now)
}

// further measures what a person takes in one more journey that everybody is in.
func (b *journeyBench) further(ctx context.Context, due time.Time) error {
	before, err := b.usedMB(ctx, "used_memory")
	if err != nil {
		return err
	}
	if err := b.enter(ctx, spreadJourneys+2, due); err != nil {
		return err
	}
	after, err := b.usedMB(ctx, "used_memory")
	if err != nil {
		return err
	}
	b.add("further", "a person of one more journey that everybody is in", "bytes", (after-before)*1e6/float64(b.users))
	return nil
}

// many lets as many people in all wait in one journey, in ten and in fifty, and compares
// the time for a person. One takes seconds, in which the machine may be slow: so there are several.
func (b *journeyBench) many(ctx context.Context) error {
	for n := range pick(b.run, manyRuns, 1) {
		for _, journeys := range manyJourneys {
			b.run.say("%s: %d journeys", b.name, journeys)
			took, err := b.waveOf(ctx, fmt.Sprint("many-", journeys, "-", n), journeys, b.users/manyOf/journeys, 0)
			if err != nil {
				return fmt.Errorf("%d journeys: %w", journeys, err)
			}
			id, label := "many_"+strconv.FormatInt(journeys, 10), fmt.Sprintf("a person of %d, in %d journeys", b.users/manyOf, journeys)
			b.add(id, label, "µs", took.seconds*1e6/float64(b.users/manyOf))
			b.add(id+"_cpu", label+": computing of all processes", "µs", float64(took.computed.Microseconds())/float64(b.users/manyOf))
		}
	}
	return nil
}

// waveTook is what a wave took.
type waveTook struct {
	seconds  float64
	computed time.Duration // by this process and all servers
	saved    int64         // checkpoints that were written in it
}

// waveOf enters people into journeys, and lets all of them be due at one second.
// Checkpoints begin so long after the first of them has moved; 0: as is usual.
func (b *journeyBench) waveOf(ctx context.Context, name string, journeys, people int64, every time.Duration) (took waveTook, err error) {
	held, err := b.hold(ctx)
	if err != nil {
		return took, err
	}
	clock := &benchClock{}
	due := clock.Now().Add(time.Hour)
	for i := range journeys {
		number, err := b.publish(ctx, fmt.Sprintf("%s-%d", name, i))
		if err != nil {
			return took, err
		}
		for p := range journeyPartitions {
			if err := b.enterOne(ctx, held[p], p, int(number), people/journeyPartitions, func(int64) journey.Record { return waiting(due, due.Add(-time.Hour)) }); err != nil {
				return took, err
			}
		}
	}
	f := b.follower(clock)
	f.CheckpointEvery = every
	defer runs(ctx, f)()
	ready := func() bool {
		return f.Stats.Opened.Load() == journeyPartitions && (every == 0 || every == savedNever || f.Stats.Unwritten() == 0)
	}
	if err := until(ctx, journeyWithin, ready); err != nil {
		return took, err
	}
	saved := f.Stats.Saved.Load()
	computed, err := cpuTimeOfTree(os.Getpid())
	if err != nil {
		return took, err
	}
	began := time.Now()
	clock.ahead.Store(int64(time.Hour + manyLead))
	want := people / journeyPartitions * journeyPartitions * journeys
	if err := until(ctx, journeyWithin, func() bool { return f.Stats.Moved.Load() >= want }); err != nil {
		return took, fmt.Errorf("%d of %d have moved: %w", f.Stats.Moved.Load(), want, err)
	}
	took.seconds, took.saved = time.Since(began).Seconds(), f.Stats.Saved.Load()-saved
	after, err := cpuTimeOfTree(os.Getpid())
	took.computed = after - computed
	return took, err
}

// runs runs what moves people until stop is called.
func runs(ctx context.Context, f *moving.Follower) (stop func()) {
	running, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() { defer close(done); f.Run(running, running) }() // until stop
	return func() { cancel(); <-done }
}
