package run

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"sluice"
	"sluice/flow"
	"sluice/journey"
	"sluice/lib/faults"
	"sluice/store"
)

// save writes a checkpoint now, whole or with an error.
func (b *bed) save(p *part) error {
	b.Helper()
	p.saver.due = time.Time{}
	if err := p.saver.look(b.Context()); err != nil || p.saver.writing == nil {
		return err
	}
	w := <-p.saver.writing
	if err := p.saver.ended(b.Context(), w); err != nil {
		return err
	}
	return w.err
}

// mustSave writes a checkpoint, and sees that SQL has all then.
func (b *bed) mustSave(p *part) {
	b.Helper()
	if err := b.save(p); err != nil {
		b.Fatal(err)
	}
	if !p.saver.since.IsZero() || p.saver.row.At != p.at.Position {
		b.Fatalf("the checkpoint is of %s, the partition at %s", p.saver.row.At, p.at.Position)
	}
}

// empty takes from Redis all that it has of journeys.
func (b *bed) empty() {
	b.Helper()
	if err := b.log.ClearJourneys(b.Context(), 0); err != nil {
		b.Fatal(err)
	}
}

// An emptied Redis has everybody where the checkpoint has them; what came behind it is
// decided again, and makes the same mails.
func TestAnEmptiedRedisLosesNobody(t *testing.T) {
	const people = 3000
	b := newBed(t, people)
	j := b.publish(welcome)
	b.enterAll(people)
	p := b.open()
	b.passes(p)
	b.clock.Move(time.Hour)
	if _, err := p.pass(t.Context()); err != nil { // in the middle of the wave
		t.Fatal(err)
	}
	b.mustSave(p)
	saved, ways := b.records(j), b.ways(j, people)
	if len(ways) == 0 {
		t.Fatal("nobody has taken a branch")
	}
	b.passes(p)
	first := b.read()
	b.empty()
	if n := len(b.records(j)); n != 0 {
		t.Fatalf("%d records are left", n)
	}
	b.clock.Move(5 * time.Minute)
	p = b.open()
	if got := b.records(j); !maps.Equal(got, saved) {
		t.Fatalf("%d people are back, want %d where they were", len(got), len(saved))
	}
	if got := b.ways(j, people); !reflect.DeepEqual(got, ways) {
		t.Fatalf("branches of %d people are back, want those of %d", len(got), len(ways))
	}
	if p.stats.Recovered.Load() != 1 || p.at.Major <= p.saver.row.At.Major {
		t.Errorf("recovered to the number %d, the checkpoint has %d", p.at.Major, p.saver.row.At.Major)
	}
	b.passes(p)
	b.mustSave(p)
	b.clock.Move(time.Hour)
	b.passes(b.open())
	f := b.read()
	for n := 1; n <= people; n++ {
		want := 2
		if n%3 == 0 {
			want = 1
		}
		if got := f.sends[fmt.Sprintf("u%d@example.com", n)]; got != want && got != want+1 {
			t.Fatalf("person %d was made %d mails, want %d, and one of them perhaps twice", n, got, want)
		}
	}
	if want := people + people*2/3; len(f.ids) != want || len(first.ids) != people {
		t.Errorf("%d different mails, %d before Redis was emptied; want %d and %d", len(f.ids), len(first.ids), want, people)
	}
}

// One partition of a process copies at a time. The next one begins when that has ended,
// and one that ends in its turn keeps none of the others waiting.
func TestCheckpointsTakeTurns(t *testing.T) {
	b := newBed(t, 100)
	b.publish(welcome)
	b.enterAll(50)
	p := b.open()
	b.passes(p)
	turns := func(want bool, what string) {
		t.Helper()
		if p.saver.turn != want {
			t.Fatalf("%s: it has the turn: %v, want %v", what, p.saver.turn, want)
		}
	}
	p.saver.due = time.Now().Add(time.Hour)
	p.rest(t.Context(), t.Context())
	turns(false, "before it is time")
	p.saver.due = time.Time{}
	p.saver.busy <- struct{}{} // another one copies
	p.rest(t.Context(), t.Context())
	turns(false, "while another one copies")
	if err := p.saver.look(t.Context()); err != nil || p.saver.writing != nil {
		t.Fatalf("two copy at a time (%v)", err)
	}
	<-p.saver.busy
	p.rest(t.Context(), t.Context())
	turns(true, "when the other one has ended")
	b.mustSave(p)
	turns(false, "when it has copied")
	b.enterAllAt(60, 1)
	b.passes(p)
	p.saver.due = time.Time{}
	if p.rest(t.Context(), t.Context()); p.saver.since.IsZero() {
		t.Fatal("nothing has changed")
	}
	turns(true, "the second time")
	p.saver.close()
	if n := len(p.saver.busy); n != 0 {
		t.Error("a session that has ended keeps its turn")
	}
}

// A checkpoint that is behind Redis changes nothing there, and one that is ahead replaces
// all: also what it does not have.
func TestTheNewerOneHolds(t *testing.T) {
	b := newBed(t, 100)
	j := b.publish(welcome)
	b.enterAll(50)
	p := b.open()
	b.passes(p)
	b.mustSave(p)
	b.clock.Move(time.Hour)
	b.passes(p)
	want := b.records(j)
	p = b.open()
	if p.stats.Recovered.Load() != 0 || !maps.Equal(b.records(j), want) {
		t.Fatal("a Redis that is newer was overwritten")
	}
	b.mustSave(p)

	// Redis goes back to a number before the checkpoint's, with people who are not there.
	c := p.begin()
	for n := range int64(9) {
		r := journey.Record{State: journey.StateInside, Version: 1, Due: 1}
		if err := c.set(t.Context(), p.journeys[0], 20_000+n, &r); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.cursorTo(p, flow.Reached{Position: sluice.Position{Major: 1, Minor: 7}})
	p = b.open()
	if got := b.records(j); p.stats.Recovered.Load() != 1 || !maps.Equal(got, want) {
		t.Fatalf("%d people, want %d as the checkpoint has them", len(got), len(want))
	}
	if r, err := b.log.RecordOf(t.Context(), int(j.Number), 20_000); err != nil || !r.IsZero() {
		t.Errorf("a record that the checkpoint does not have is left: %v, %v", r, err)
	}
}

// A recovery that ends in the middle is begun again.
func TestARecoveryMayEndInTheMiddle(t *testing.T) {
	const people = 2000
	b := newBed(t, people)
	j := b.publish(welcome)
	b.enterAll(people)
	p := b.open()
	b.passes(p)
	b.mustSave(p)
	want := b.records(j)
	b.empty()
	for n := 1; n < 4; n++ {
		disarm, err := faults.Arm(fmt.Sprintf("recover=error,%d", n))
		if err != nil {
			t.Fatal(err)
		}
		_, err = b.tryOpen()
		disarm()
		if !errors.Is(err, faults.ErrInjected) {
			t.Fatalf("a recovery did not end in the middle: %v", err)
		}
	}
	b.open()
	if got := b.records(j); !maps.Equal(got, want) {
		t.Errorf("%d people are back, want %d", len(got), len(want))
	}
}

// What a checkpoint has left that was not finished never counts.
func TestWhatIsLeftNeverCounts(t *testing.T) {
	b := newBed(t, 100)
	j := b.publish(welcome)
	b.enterAll(100)
	p := b.open()
	b.passes(p)
	b.mustSave(p)
	want := b.records(j)
	b.clock.Move(time.Hour)
	b.passes(p)
	disarm, err := faults.Arm("checkpoint-finish=error,1")
	if err != nil {
		t.Fatal(err)
	}
	err = b.save(p)
	disarm()
	if !errors.Is(err, faults.ErrInjected) {
		t.Fatalf("the checkpoint did not end in the middle: %v", err)
	}
	b.empty()
	b.mustSave(b.open()) // of where they were before, with a higher number
	b.empty()
	b.open()
	if got := b.records(j); !maps.Equal(got, want) {
		t.Errorf("people are where a checkpoint had them that was never finished")
	}
}

// ways are the branches that people took, of those who took any.
func (b *bed) ways(j store.Journey, people int64) map[int64][]int {
	b.Helper()
	all := make(map[int64][]int)
	for n := range people {
		taken, err := b.log.WaysOf(b.Context(), int(j.Number), n+1)
		if err != nil {
			b.Fatal(err)
		}
		if len(taken) > 0 {
			all[n+1] = taken
		}
	}
	return all
}

// cursorTo has Redis say that it is at another number.
func (b *bed) cursorTo(p *part, to flow.Reached) {
	b.Helper()
	if _, err := b.log.Commit(b.Context(), p.lease, &flow.Commit{Follower: cursor, From: p.at, To: to}, 1); err != nil {
		b.Fatal(err)
	}
}

// Wherever checkpoints, recoveries and commits end, and however often Redis is emptied
// meanwhile: everybody takes one way.
func TestCheckpointsMayEndAnywhere(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	const people = 2000
	b := newBed(t, people)
	j := b.publish(welcome)
	b.enterAllAt(people, 1_000_000)
	points := []string{"journey", "journey-moved", "checkpoint-copied", "checkpoint-put", "checkpoint-finish", "checkpoint-finished", "recover"}
	ended, emptied := 0, 0
	work := func() {
		t.Helper()
		for done := false; !done; {
			p, err := b.tryOpen()
			disarm, bad := faults.Arm(fmt.Sprintf("%s=error,%d", points[random.IntN(len(points))], 1+random.IntN(3)))
			if bad != nil {
				t.Fatal(bad)
			}
			for !done && err == nil {
				var worked bool
				worked, err = p.pass(t.Context())
				done = err == nil && !worked
				if err == nil && random.IntN(3) == 0 {
					err = b.save(p)
				}
			}
			if err != nil {
				p, err = b.tryOpen()
			}
			disarm()
			if err != nil {
				ended++
				done = false
			}
			if random.IntN(6) == 0 {
				b.empty()
				emptied++
				done = false
			}
			if p != nil && p.saver != nil {
				p.saver.close()
			}
		}
	}
	for range 3 {
		work()
		b.clock.Move(time.Hour)
	}
	if ended < 3 || emptied < 1 {
		t.Logf("only %d sessions ended in the middle, Redis was emptied %d times", ended, emptied)
	}
	for range 4 { // those who were put back come later
		b.passes(b.open())
		b.clock.Move(time.Hour)
	}
	f := b.read()
	got := b.records(j)
	if len(got) != people {
		t.Fatalf("%d people have a place, want %d", len(got), people)
	}
	for n, r := range got {
		if r.State != journey.StateFinished || r.Occurrence != 0 {
			t.Fatalf("person %d is %+v, want finished, for the first time", n, r)
		}
	}
	want := 0
	for n := 1; n <= people; n++ {
		want += 2
		if n%3 == 0 {
			want--
		}
	}
	if len(f.ids) != want {
		t.Errorf("%d different mails, want %d", len(f.ids), want)
	}
}

// A session that was replaced writes no checkpoint, and what it copies while another
// moves people is not made one.
func TestAZombieWritesNoCheckpoint(t *testing.T) {
	b := newBed(t, 50)
	b.publish(welcome)
	b.enterAll(50)
	zombie := b.open()
	b.passes(zombie)
	other := b.open()
	if err := b.save(zombie); !errors.Is(err, sluice.ErrConflict) {
		t.Errorf("a session that was replaced wrote a checkpoint: %v", err)
	}
	b.clock.Move(time.Hour)
	b.passes(other)
	b.mustSave(other)
	late := b.open() // takes the checkpoint over, and is overtaken in Redis
	b.fact(99, 1, journey.FactEvent, "signup", "")
	b.clock.Move(time.Hour)
	b.passes(other)
	late.saver.since = time.Now()
	if err := b.save(late); !errors.Is(err, sluice.ErrConflict) {
		t.Errorf("what was copied while another moved people is a checkpoint: %v", err)
	}
}

// A checkpoint is not there before the store has what its commits have appended.
func TestACheckpointWaitsForTheStore(t *testing.T) {
	b := newBed(t, 50)
	b.publish(welcome)
	b.enterAll(50)
	p := b.open()
	asked := &counted{Store: b.store, n: make(chan struct{})}
	p.storedBy, p.store = "store", asked
	if _, err := b.store.Cursors(t.Context(), "store", []int{0}); err != nil {
		t.Fatal(err)
	}
	b.passes(p)
	p.saver.due = time.Time{}
	if err := p.saver.look(t.Context()); err != nil {
		t.Fatal(err)
	}
	end, err := b.log.Last(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for range 3 { // it has looked, and looked again
		<-asked.n
	}
	if rows, err := b.store.Checkpoints(t.Context()); err != nil || !rows[0].At.IsZero() {
		t.Fatalf("a checkpoint is there before the store has its items: %+v, %v", rows, err)
	}
	b.apply(&store.Effect{Moves: []store.Move{{Follower: "store", To: end}}})
	go func() { // until the store closes
		for range asked.n {
		}
	}()
	w := <-p.saver.writing
	close(asked.n)
	if w.err != nil {
		t.Fatal(w.err)
	}
	if rows, err := b.store.Checkpoints(t.Context()); err != nil || rows[0].At != p.at.Position {
		t.Fatalf("the checkpoint is %+v, %v", rows, err)
	}
}

// counted is a store that says when it is asked for cursors.
type counted struct {
	Store
	n chan struct{}
}

func (c *counted) Cursors(ctx context.Context, follower string, partitions []int) (map[int]sluice.Position, error) {
	c.n <- struct{}{}
	return c.Store.Cursors(ctx, follower, partitions)
}

// copyTables keeps tables aside, or puts them back as they were.
func (b *bed) copyTables(aside bool, tables ...string) {
	b.Helper()
	db, err := sql.Open("sqlite", b.file)
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	for _, t := range tables {
		statements := []string{"CREATE TABLE old_" + t + " AS SELECT * FROM " + t}
		if !aside {
			statements = []string{"DELETE FROM " + t, "INSERT INTO " + t + " SELECT * FROM old_" + t}
		}
		for _, s := range statements {
			if _, err := db.ExecContext(b.Context(), s); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// A database that goes back alone is written anew: Redis is newer, and holds.
func TestADatabaseThatWentBack(t *testing.T) {
	b := newBed(t, 200)
	j := b.publish(welcome)
	b.enterAll(200)
	p := b.open()
	b.passes(p)
	b.mustSave(p)
	b.copyTables(true, "journey_blocks", "journey_checkpoints")
	b.clock.Move(time.Hour)
	b.passes(p)
	b.mustSave(p)
	want := b.records(j)
	b.copyTables(false, "journey_blocks", "journey_checkpoints")
	b.clock.Move(time.Hour)
	b.passes(p)
	if err := b.save(p); !errors.Is(err, sluice.ErrConflict) {
		t.Fatalf("a database that went back was taken for the one of before: %v", err)
	}
	p = b.open()
	if p.stats.Recovered.Load() != 0 || maps.Equal(b.records(j), want) {
		t.Fatal("Redis was overwritten by an older database")
	}
	b.mustSave(p)
	want = b.records(j)
	b.empty()
	b.open()
	if got := b.records(j); !maps.Equal(got, want) {
		t.Errorf("the checkpoint behind it is not whole: %d of %d people", len(got), len(want))
	}
}
