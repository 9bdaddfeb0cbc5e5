package run

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"sluice/flow"
	"sluice/journey"
	"sluice/store"
)

// other opens the second partition.
func (b *bed) other() *part {
	b.Helper()
	p, err := b.tryOpenAt(flow.NewLog(b.redis, flow.Partitions(bedPartitions)[1]))
	if err != nil {
		b.Fatal(err)
	}
	return p
}

// ends are the processes that end versions.
func (b *bed) ends() *Passed {
	return &Passed{Store: b.store, Journeys: b.store, Partitions: bedPartitions, Clock: b.clock, Log: slog.New(slog.DiscardHandler)}
}

// endNow has versions ended that may end, and returns which are in use then.
func (b *bed) endNow(x *Passed) string {
	b.Helper()
	b.look(x)
	b.clock.Move(endAfter)
	return b.look(x)
}

// look has a process look once which versions may end, and returns which are in use then.
func (b *bed) look(x *Passed) string {
	b.Helper()
	left, err := x.look(b.Context())
	if err == nil {
		err = x.end(b.Context(), left)
	}
	if err != nil {
		b.Fatal(err)
	}
	used, err := b.store.VersionsInUse(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	var all []string
	for _, v := range used {
		all = append(all, fmt.Sprintf("%d/%d", v.Journey, v.Version))
	}
	return strings.Join(all, " ")
}

// want compares what endNow has returned.
func (b *bed) want(when, got, want string) {
	b.Helper()
	if got != want {
		b.Fatalf("%s the versions %s are in use, want %s", when, got, want)
	}
}

// A version ends when a newer one is published and the checkpoints of all partitions say
// that nobody is inside: not before, and not because one partition or Redis says so. A
// session that knew less cannot let anybody in any more.
func TestAVersionEnds(t *testing.T) {
	b := newBed(t, 4)
	j := b.publish(strings.Replace(welcome, "delay: {for: 1h}, next: split", "delay: {for: 3d}, next: split", 1))
	b.enterAll(3)
	zombie := b.open()
	b.passes(zombie)
	b.mustSave(zombie)
	x := b.ends()
	b.want("with one version", b.endNow(x), "1/1")
	b.publishAgain("welcome", welcome)
	p := b.open()
	b.passes(p)
	b.mustSave(p)
	other := b.other()
	b.passes(other)
	b.mustSave(other)
	b.want("with people inside", b.endNow(x), "1/1 1/2")
	b.clock.Move(3 * 24 * time.Hour)
	b.passes(p)
	b.clock.Move(time.Hour)
	b.passes(p)
	if p.left != `{"1":[1]}` {
		t.Fatalf("the partition says %s", p.left)
	}
	b.want("before a checkpoint", b.endNow(x), "1/1 1/2")
	b.empty()
	p = b.open()
	b.passes(p) // all go their way again
	b.clock.Move(time.Hour)
	b.passes(p)
	b.mustSave(p)
	b.want("behind all checkpoints", b.endNow(b.ends()), "1/2")
	if n := len(b.read().ids); n != 5 {
		t.Errorf("%d mails, want 5", n)
	}
	var err error
	if b.all, b.published, err = b.loader().Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.fact(9, 4, journey.FactEvent, "signup", "")
	zombie.published = b.published // as if it had looked and were frozen behind that
	if _, err := zombie.pass(t.Context()); err == nil {
		t.Error("a session of before the publish has let somebody in")
	}
	b.passes(b.open())
	if r := b.records(j)[4]; r.State != journey.StateInside || r.Version != 2 {
		t.Errorf("who came last is %+v", r)
	}
}

// A partition that says nothing, because no process has it, keeps a version alive.
func TestAVersionWaitsForAllPartitions(t *testing.T) {
	b := newBed(t, 1)
	b.publish(welcome)
	b.publishAgain("welcome", welcome)
	p := b.open()
	b.passes(p)
	b.mustSave(p)
	x := b.ends()
	b.want("without the other partition", b.endNow(x), "1/1 1/2")
	other := b.other()
	b.passes(other)
	b.mustSave(other)
	b.want("with it", b.look(x), "1/1 1/2")
	b.clock.Move(endAfter - time.Second)
	b.want("too early", b.look(x), "1/1 1/2")
	b.clock.Move(time.Second)
	b.want("in time", b.look(x), "1/2")
}

// What Redis has said of versions of before a restore of the database is in no checkpoint.
func TestAPartitionCorrectsWhatRedisSays(t *testing.T) {
	b := newBed(t, 1)
	b.publish(welcome)
	for _, p := range []*part{b.open(), b.other()} {
		c := p.begin()
		c.notes = append(c.notes, p.log.Note(leftNote, `{"1":[1]}`))
		if err := c.commit(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range []*part{b.open(), b.other()} {
		b.mustSave(p)
	}
	b.want("while it is the only one", b.endNow(b.ends()), "1/1")
}

// countingEnds counts how often versions are ended.
type countingEnds struct {
	store.JourneyStore
	ends int
}

func (c *countingEnds) EndVersions(ctx context.Context, journey int64, versions []int, millis int64) error {
	c.ends++
	return c.JourneyStore.EndVersions(ctx, journey, versions, millis)
}

// Of a journey that was stopped all versions end. Nobody asks for facts then, and mail of
// it is cancelled still.
func TestAStoppedJourneyEnds(t *testing.T) {
	b := newBed(t, 3)
	j := b.publish(`
id: tell
entry: {when: {event: signup}}
steps:
  - {id: tell, message: {template: x}, next: wait}
  - {id: wait, delay: {for: 1d}}
`)
	b.enterAll(3)
	b.passes(b.open())
	j, err := b.store.Journey(t.Context(), j.ID)
	if err != nil {
		t.Fatal(err)
	}
	j.Status = journey.StatusStopped
	if b.published, err = b.store.PutStatus(t.Context(), j); err != nil {
		t.Fatal(err)
	}
	if b.all, _, err = b.loader().Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, p := range []*part{b.open(), b.other()} {
		b.passes(p)
		b.mustSave(p)
	}
	x, counting := b.ends(), &countingEnds{JourneyStore: b.store}
	x.Journeys = counting
	b.want("of a stopped journey", b.endNow(x), "")
	b.want("and later", b.endNow(x), "") // no partition moves people any more: checkpoints stay
	if counting.ends != 1 {
		t.Errorf("the versions of one journey ended %d times", counting.ends)
	}
	if names, err := b.store.Registered(t.Context()); err != nil || names.Any() {
		t.Errorf("facts are written of %+v, %v", names.Names(), err)
	}
	if leave := b.mayLeave(b.gate(), b.sends()); len(leave) != 3 || leave[0].Cancel == "" {
		t.Errorf("its mail: %+v", leave)
	}
}

// What people passed in a version that has ended is known to rules, and its hours without
// mail hold for what it made, also when the whole journey was stopped.
func TestWhatWasPassedOutlivesTheVersion(t *testing.T) {
	b := newBed(t, 4)
	j := b.publish(`
id: first
entry: {when: {event: signup}}
quiet: {from: "22:00", to: "08:00"}
steps:
  - {id: fork, split: {if: {attribute: plan, is: equals, value: gold}, then: gold, else: free}}
  - {id: gold, message: {template: x, tags: gold}}
  - {id: free, message: {template: x, tags: free}}
`)
	b.enterAll(3)
	b.passes(b.open())
	b.publishAgain("first", "id: first\nentry: {when: {event: other}}\nsteps: [{id: none, exit: {}}]\n")
	b.endVersion(j.Number, 1)
	b.clock.Move(14 * time.Hour) // 23:00
	if leave := b.mayLeave(b.gate(), b.sends()[:1]); leave[0].AgainMillis == 0 {
		t.Errorf("mail in the hours without: %+v", leave)
	}
	for n, stopped := range []bool{false, true} {
		if stopped {
			b.status("first", journey.StatusStopped)
			b.endVersion(j.Number, 2)
		}
		b.publish(fmt.Sprintf(`
id: second-%d
entry: {when: {event: bought%d}, who: {journey: first, is: was_inside}}
steps:
  - {id: fork, split: {if: {journey: first, step: gold, is: passed}, then: "yes", else: "no"}}
  - {id: "yes", message: {template: x, tags: yes%d}}
  - {id: "no", message: {template: x, tags: no%d}}
`, n, n, n, n))
		p := b.open()
		for person := int64(1); person <= 4; person++ {
			b.fact(uint64(100*(n+1))+uint64(person), person, journey.FactEvent, fmt.Sprintf("bought%d", n), "")
		}
		b.passes(p)
		if gold, free := len(b.mails(fmt.Sprintf("yes%d", n))), len(b.mails(fmt.Sprintf("no%d", n))); gold != 1 || free != 2 {
			t.Errorf("stopped %v: %d are known to have passed, %d not; want 1 and 2", stopped, gold, free)
		}
	}
}

// endVersion ends a version, and reads the journeys anew.
func (b *bed) endVersion(number int64, version int) {
	b.Helper()
	err := b.store.EndVersions(b.Context(), number, []int{version}, b.clock.Now().UnixMilli())
	if err == nil {
		b.all, b.published, err = b.loader().Load(b.Context())
	}
	if err != nil {
		b.Fatal(err)
	}
}

// Wherever a session ends, what a partition says of versions is true: nobody is inside
// one that it names.
func TestWhatAPartitionSaysIsTrueWhereverASessionEnds(t *testing.T) {
	const people = 3000
	b := newBed(t, people)
	j := b.publish(welcome)
	b.enterAll(people / 2)
	b.endAnywhere()
	b.publishAgain("welcome", welcome)
	for n := range 3 {
		b.endAnywhere()
		fields, err := b.log.JourneyFields(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		said, err := readLeft(flow.NoteIn(fields, leftNote))
		if err != nil {
			t.Fatal(err)
		}
		inside := 0
		for _, r := range b.records(j) {
			if r.Inside() && r.Version == 1 {
				inside++
			}
		}
		if (len(said[j.Number]) == 1) != (inside == 0) || n == 2 && inside > 0 {
			t.Fatalf("%d are inside version 1, and the partition says %v", inside, said)
		}
		b.clock.Move(time.Hour)
	}
}
