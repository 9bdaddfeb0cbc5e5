package run

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"sluice"
	"sluice/flow"
	"sluice/journey"
	"sluice/store"
	"sluice/user"
)

// accept writes an entry to the log of a partition, as what is accepted for somebody there.
func (b *bed) accept(log *flow.Log) sluice.Position {
	b.Helper()
	prev, err := log.Seq(b.Context(), "somebody")
	if err != nil {
		b.Fatal(err)
	}
	n, _ := strconv.Atoi(prev)
	done, err := log.Append(b.Context(), "somebody", prev, strconv.Itoa(n+1), sluice.NewBatch(0), false)
	if err != nil {
		b.Fatal(err)
	}
	return done.Position
}

// storesUpTo has the store come to a position of the log, with a fact that came there.
func (b *bed) storesUpTo(at sluice.Position, number int64, kind journey.FactKind, name string) {
	b.Helper()
	cursors, err := b.store.Cursors(b.Context(), storedBy, []int{0})
	if err != nil {
		b.Fatal(err)
	}
	b.apply(&store.Effect{Moves: []store.Move{{Follower: storedBy, From: cursors[0], To: at}},
		JourneyFacts: []journey.Fact{{Place: sluice.Place{Position: at}, Number: number, Kind: kind, Name: name, TimeMillis: b.clock.Now().UnixMilli()}}})
}

// stepsOf are the steps of a person's mails.
func (b *bed) stepsOf(number int) string {
	b.Helper()
	return strings.Join(b.read().steps[fmt.Sprintf("u%d@example.com", number)], " ")
}

// What was accepted before somebody is due decides, also if the store stores it later, and
// the process that has the partition by then.
func TestWhatWasAcceptedBeforeDecides(t *testing.T) {
	b := newBed(t, 3)
	b.follows = true
	b.publish(cart)
	for n := int64(1); n <= 3; n++ {
		b.fact(uint64(n), n, journey.FactEvent, "cart", `{"items":2}`)
	}
	p := b.open()
	b.passes(p)
	bought, gold := b.accept(b.log), b.accept(b.log)
	b.clock.Move(25 * time.Hour)
	b.passes(p)
	b.clock.Move(time.Hour)
	b.passes(p)
	p = b.open() // another process
	b.passes(p)
	if n := len(b.read().ids); n != 0 {
		t.Fatalf("%d mails before the store has what was accepted", n)
	}
	b.storesUpTo(bought, 1, journey.FactPurchase, "shoe")
	b.passes(p)
	if b.stepsOf(1) != "thanks" || len(b.read().ids) != 1 {
		t.Errorf("mails are %v, want that of who has bought alone", b.read().steps)
	}
	b.apply(&store.Effect{JourneyFacts: []journey.Fact{{Place: sluice.Place{Position: gold}, Number: 2, Kind: journey.FactAttributes, TimeMillis: 1, Body: `{"plan":["free","gold"]}`}}})
	b.stored(everything)
	b.passes(p)
	if f := b.read(); b.stepsOf(1) != "thanks" || b.stepsOf(2) != "" || b.stepsOf(3) != "remind" {
		t.Errorf("mails are %v, want thanks to the first, remind to the third", f.steps)
	}
}

// A clock may be set back while somebody who is due waits for the store. The next wait counts
// from when the person was due: it would be over too early once the clock is right again.
func TestAWaitBehindAClockThatWasSetBack(t *testing.T) {
	b := newBed(t, 1)
	b.follows = true
	j := b.publish("id: two\nentry: {when: {event: signup}}\nsteps:\n  - {id: one, delay: {for: 1h}, next: two}\n  - {id: two, delay: {for: 1h}}\n")
	b.enterAll(1)
	p := b.open()
	b.passes(p)
	due := b.records(j)[1].Due
	b.accept(b.log)
	b.clock.Move(time.Hour)
	b.passes(p)
	b.clock.Move(-5 * time.Minute)
	b.stored(everything)
	b.passes(p)
	if r := b.records(j)[1]; r.Step != 1 || r.Due != due+3600 {
		t.Errorf("the person is %+v, want the second step, due at %d", r, due+3600)
	}
}

// A store that catches up has those move who were due by where it has come; and other
// partitions wait for nothing.
func TestPeopleMoveAsTheStoreCatchesUp(t *testing.T) {
	b := newBed(t, 3)
	b.follows = true
	b.apply(&store.Effect{Users: &user.Changes{Put: []user.Row{{ID: user.ID{Partition: 1, Number: 1}, Profile: profileOf(7)}}}})
	b.publish("id: slow\nentry: {when: {event: signup}}\nsteps:\n  - {id: pause, delay: {for: 1h}, next: mail}\n  - {id: mail, message: {template: x}}\n")
	enter := func(partition int, number int64) {
		b.apply(&store.Effect{JourneyFacts: []journey.Fact{{Place: sluice.Place{Partition: partition, Position: sluice.Position{Major: 1, Minor: uint64(number)}}, Number: number, Kind: journey.FactEvent, Name: "signup", TimeMillis: 1}}})
	}
	p, other := b.open(), b.other()
	var ends []sluice.Position
	for n := int64(1); n <= 3; n++ {
		enter(0, n)
		b.passes(p)
		b.clock.Move(time.Minute)
	}
	enter(1, 1)
	b.passes(other)
	b.clock.Move(57 * time.Minute)
	for range 3 {
		ends = append(ends, b.accept(b.log))
		b.passes(p)
		b.clock.Move(time.Minute)
	}
	b.passes(other)
	moved, err := other.log.RecordOf(t.Context(), int(other.journeys[0].number), 1)
	var r journey.Record
	if err != nil || r.Decode(moved[:]) != nil || r.State != journey.StateFinished {
		t.Errorf("the person of another partition is %s: %v", r.State, err)
	}
	for i, end := range ends {
		if n := len(b.read().ids); n != i {
			t.Errorf("%d mails when the store has come to %d of 3 entries", n, i)
		}
		b.storesUpTo(end, 1, journey.FactEvent, "other")
		b.passes(p)
	}
	if n := len(b.read().ids); n != 3 {
		t.Errorf("%d mails in the end, want 3", n)
	}
}

// Where Redis goes back behind what is waited for, nobody waits for it.
func TestNobodyWaitsForWhatRedisHasLost(t *testing.T) {
	b := newBed(t, 3)
	b.follows = true
	b.publish(cart)
	b.fact(1, 1, journey.FactEvent, "cart", `{"items":2}`)
	p := b.open()
	b.passes(p)
	b.storesUpTo(b.accept(b.log), 2, journey.FactEvent, "other")
	key := strings.TrimSuffix(b.log.Note("any", "").Words[1], "journeys")
	var before []string
	for _, name := range []string{"log", "sources"} {
		text, err := flow.Ask(t.Context(), b.redis, "copy a key", b.redis.B().Dump().Key(key+name).Build(), rueidis.RedisResult.ToString)
		if err != nil {
			t.Fatal(err)
		}
		before = append(before, text)
	}
	b.accept(b.log)
	b.clock.Move(25 * time.Hour)
	if b.passes(p); b.stepsOf(1) != "" {
		t.Fatal("the person did not wait")
	}
	for i, name := range []string{"log", "sources"} {
		if err := b.redis.Do(t.Context(), "take a key back", b.redis.B().Restore().Key(key+name).Ttl(0).SerializedValue(before[i]).Replace().Build()); err != nil {
			t.Fatal(err)
		}
	}
	if b.passes(p); b.stepsOf(1) != "remind" {
		t.Errorf("mails are %v, want that of who has not bought", b.read().steps)
	}
}

// Nothing comes of the mails and counts that a partition has itself made, so nobody waits
// until they are stored. A changed profile is waited for.
func TestNobodyWaitsForOwnMail(t *testing.T) {
	b := newBed(t, 3)
	b.follows = true
	b.publish("id: three\nentry: {when: {event: signup}}\nsteps:\n  - {id: one, delay: {for: 1h}, next: first}\n  - {id: first, message: {template: x}, next: two}\n  - {id: two, delay: {for: 1h}, next: note}\n" +
		"  - {id: note, update: {attributes: {noted: true}}, next: three}\n  - {id: three, delay: {for: 1h}, next: last}\n  - {id: last, message: {template: x}}\n")
	b.enterAll(3)
	p := b.open()
	for range 4 {
		b.passes(p)
		b.clock.Move(time.Hour)
	}
	if f := b.read(); f.updates != 3 || len(f.ids) != 3 {
		t.Errorf("%d updates and %d mails while nobody stores, want 3 of each", f.updates, len(f.ids))
	}
	b.stored(everything)
	b.passes(p)
	if n := len(b.read().ids); n != 6 {
		t.Errorf("%d mails when the updates are stored, want 6", n)
	}
}

// Who has been due for a while, and waits for room, does not get it while the store stands;
// where it makes progress, though it is behind, they do.
func TestWhoWaitsForRoomWaitsForTheStore(t *testing.T) {
	const people = 2 * shareMails
	b := newBed(t, people)
	b.follows = true
	b.publish(fmt.Sprintf(crowding, "wave", "wave", "", "wave"))
	b.waiting("normal-marketing", pendingMails)
	b.tell(0, "wave", 1, people)
	p := b.open()
	b.passes(p)
	b.wantTagged("crowded", map[string]int{"wave": shareMails})
	b.stored(everything)
	b.passes(p)
	first := b.accept(b.log)
	b.clock.Move(time.Second)
	b.passes(p)
	b.accept(b.log)
	b.clock.Move(standsAfter)
	b.waiting("normal-marketing", pendingMails-1)
	b.passes(p)
	b.wantTagged("the store stands", map[string]int{"wave": shareMails})
	b.storesUpTo(first, people, journey.FactEvent, "stop")
	b.passes(p)
	b.wantTagged("the store is behind", map[string]int{"wave": people - 1})
}

// Nobody moves before the facts up to an end were told, however many there are.
func TestFactsUpToAnEndAreTold(t *testing.T) {
	b := newBed(t, 2)
	b.follows = true
	b.publish(cart)
	b.fact(1, 1, journey.FactEvent, "cart", `{"items":2}`)
	p := b.open()
	b.passes(p)
	end := b.accept(b.log)
	b.clock.Move(25 * time.Hour)
	b.passes(p)
	var facts []journey.Fact
	fact := func(major uint64, number int64) {
		facts = append(facts, journey.Fact{Place: sluice.Place{Position: sluice.Position{Major: major, Minor: uint64(len(facts))}}, Number: number, Kind: journey.FactPurchase, Name: "shoe", TimeMillis: 1})
	}
	const before = factsAtOnce * (factPages + 1)
	for range before {
		fact(2, 2)
	}
	fact(3, 1)
	for piece := range slices.Chunk(facts, 10_000) {
		b.apply(&store.Effect{JourneyFacts: piece})
	}
	b.storesUpTo(end, 2, journey.FactEvent, "other")
	b.passes(p)
	if b.stepsOf(1) != "thanks" {
		t.Errorf("mails are %v, want that of who has bought", b.read().steps)
	}
}

// A partition that waits long notes no more than so many ends. Facts behind an end, and a
// clock that is set back, keep nobody waiting.
func TestEndsAreBounded(t *testing.T) {
	var h horizon
	now := time.Unix(1_000_000, 0)
	end := func(n int) sluice.Position { return sluice.Position{Major: uint64(n)} }
	const seconds = 3 * endsAtMost
	for n := range seconds {
		h.look(now.Add(time.Duration(n)*time.Second), end(n+1), true)
	}
	if len(h.ends) != endsAtMost {
		t.Fatalf("%d ends", len(h.ends))
	}
	now = now.Add(seconds * time.Second)
	h.tell(now, end(1), sluice.Position{}, true)
	if h.second != 1_000_000 || h.stands(now) {
		t.Errorf("the horizon is %d", h.second)
	}
	h.tell(now, end(1), end(3), false)
	if h.second != 1_000_001 {
		t.Errorf("the horizon is %d where facts behind the second end were told", h.second)
	}
	h.tell(now, end(seconds), sluice.Position{}, true)
	if h.second != uint32(now.Unix())-1 || h.waits() {
		t.Errorf("the horizon is %d, and waits: %v", h.second, h.waits())
	}
	back := now.Add(-time.Hour)
	if h.look(back, end(seconds), true); !h.at().Equal(back) || h.waits() {
		t.Errorf("the horizon is %d behind a clock that was set back", h.second)
	}
}

// While the store is far behind nobody moves, but who is stored to have left has left: mail
// that was made already asks for that before it leaves.
func TestExitsWhileTheStoreIsBehind(t *testing.T) {
	b := newBed(t, 3)
	j := b.publish("id: cart\nentry: {when: {event: cart}}\nexit_when: [{event: bought}]\nsteps:\n  - {id: mail, message: {template: x}, next: wait}\n  - {id: wait, delay: {for: 1h}}\n")
	for n := int64(1); n <= 2; n++ {
		b.fact(uint64(n), n, journey.FactEvent, "cart", "")
	}
	p := b.open()
	b.passes(p)
	for range pendingEntries + 1 {
		b.accept(b.log)
	}
	b.clock.Move(2 * time.Hour)
	b.fact(3, 1, journey.FactEvent, "bought", "")
	b.fact(4, 3, journey.FactEvent, "cart", "")
	before := len(b.sends())
	b.passes(p)
	if all := b.records(j); !p.behind || all[1].State != journey.StateExited || all[2].State != journey.StateInside || all[3].State != journey.StateInside {
		t.Errorf("behind: %v; records %+v", p.behind, all)
	}
	if made := len(b.sends()) - before; made != 0 {
		t.Errorf("%d mails were made while the store is behind", made)
	}
}
