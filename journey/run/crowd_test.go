package run

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"sluice"
	"sluice/journey"
	"sluice/journey/step"
	"sluice/store"
)

// waiting says how many mails wait in a lane.
func (b *bed) waiting(lane string, n int) {
	b.Helper()
	key := strings.TrimSuffix(b.log.Note("any", "").Words[1], ":journeys") + ":waiting"
	if err := b.redis.Do(b.Context(), "fill a lane", b.redis.B().Hset().Key(key).FieldValue().FieldValue(lane, strconv.Itoa(n)).Build()); err != nil {
		b.Fatal(err)
	}
}

const crowding = `
id: %s
entry: {when: {event: %s}}
steps:
%s  - {id: mail, message: {template: x, tags: %s}, next: last}
  - {id: last, delay: {for: 30d}}
exit_when: {event: stop}
`

// tell has people do something, in their order, behind what was told before.
func (b *bed) tell(minor uint64, event string, from, to int) {
	b.Helper()
	var facts []journey.Fact
	for n := from; n <= to; n++ {
		minor++
		facts = append(facts, journey.Fact{Place: sluice.Place{Position: sluice.Position{Major: 1, Minor: minor}}, Number: int64(n), Kind: journey.FactEvent, Name: event, TimeMillis: 1})
	}
	b.apply(&store.Effect{JourneyFacts: facts})
}

// wants checks how many mails the journeys have made.
func (b *bed) wantTagged(when string, want map[string]int) {
	b.Helper()
	for tag, n := range want {
		if got := len(b.mails(tag)); got != n {
			b.Errorf("%s: %d mails of %s, want %d", when, got, tag, n)
		}
	}
}

// A wave that has filled its lane makes its share and waits; single people of other
// journeys move beside it, at once. When there is room, all go on.
func TestAWaveWaitsForRoom(t *testing.T) {
	const people = 1500
	b := newBed(t, people)
	for _, id := range []string{"wave", "other"} {
		b.publish(fmt.Sprintf(crowding, id, id, "  - {id: pause, delay: {for: 1h}, next: mail}\n", id))
	}
	b.tell(0, "wave", 1, people)
	b.tell(people, "other", 7, 7)
	p := b.open()
	b.passes(p)
	b.waiting("normal-marketing", pendingMails)
	b.clock.Move(time.Hour)
	p = b.open()
	b.passes(p)
	b.wantTagged("crowded", map[string]int{"wave": shareMails, "other": 1})
	b.waiting("normal-marketing", 0)
	b.passes(p)
	b.wantTagged("with room", map[string]int{"wave": people, "other": 1})
}

// People who come by facts wait at the message step while the lane is crowded; other
// journeys' facts, and what takes people out, are not held up. Who is out gets no mail.
func TestPeopleOfFactsWaitForRoom(t *testing.T) {
	const people = 1500
	b := newBed(t, people)
	for _, id := range []string{"wave", "other"} {
		b.publish(fmt.Sprintf(crowding, id, id, "", id))
	}
	b.waiting("normal-marketing", pendingMails)
	p := b.open()
	b.tell(0, "wave", 1, people)
	b.tell(people, "other", 3, 3)
	b.tell(people+1, "stop", people, people)
	b.passes(p)
	b.wantTagged("crowded", map[string]int{"wave": shareMails, "other": 1})
	if f := b.read(); f.counts["journey/wave/mail/entered"] != people || f.counts["journey/wave/mail/exited"] != 1 {
		t.Errorf("%d are at the message step or behind it, %d have left it; want %d, 1", f.counts["journey/wave/mail/entered"], f.counts["journey/wave/mail/exited"], people)
	}
	b.waiting("normal-marketing", pendingMails-10)
	b.passes(b.open()) // another process
	b.wantTagged("with room", map[string]int{"wave": people - 1, "other": 1})
	if f := b.read(); len(f.ids) != people {
		t.Errorf("%d messages, want %d", len(f.ids), people)
	}
}

// What waits apart, because its domain or its routes take no mail, leaves room for others of
// its lane, up to a bound. A tag that is stopped keeps back who uses it alone.
func TestWhatWaitsApartLeavesRoom(t *testing.T) {
	const most = journey.CrowdedApartMails
	for _, x := range []struct {
		waiting map[string]int
		tagged  bool // whether the journey that bears the tag is kept back, too
		all     bool // whether all are
	}{
		{map[string]int{"@example.com": most - 1}, false, false},
		{map[string]int{"@example.com": most / 2, "@out+other": most / 2}, true, true},
		{map[string]int{"@*": most}, true, true},
		{map[string]int{"@tag:wave": most}, true, false},
		{map[string]int{"@marketing/tag:wave": most}, true, false},
		{map[string]int{"@tag:wave": most - 1, "@example.com": most - 1, "@message:" + sluice.NewMessageID(1): most, "@journey:x": most}, false, false},
		{map[string]int{"@tag:third": most}, false, false},
		{map[string]int{"": pendingMails}, true, true},
	} {
		const people = 200
		b := newBed(t, people)
		for _, id := range []string{"wave", "other"} {
			b.publish(fmt.Sprintf(crowding, id, id, "", id))
		}
		for sub, n := range x.waiting {
			b.waiting("normal-marketing"+sub, n)
		}
		b.tell(0, "wave", 1, people)
		b.tell(people, "other", 1, people)
		b.passes(b.open())
		made := map[bool]int{false: people, true: shareMails}
		b.wantTagged(fmt.Sprint(x.waiting), map[string]int{"wave": made[x.tagged], "other": made[x.all]})
	}
}

// However many journeys bear a tag that is stopped, they make no more mails together than
// those of a lane that is crowded. That takes nothing from others who wait for a lane.
func TestJourneysOfATagShare(t *testing.T) {
	const people, journeys = 200, sharesMails/shareMails + 5
	b := newBed(t, people)
	for n := range journeys {
		b.publish(fmt.Sprintf(crowding, fmt.Sprint("w", n), "wave", "", "wave"))
	}
	b.publish(fmt.Sprintf(crowding, "other", "other", "", "other"))
	b.waiting("normal-marketing@tag:wave", journey.CrowdedApartMails)
	b.tell(0, "wave", 1, people)
	p := b.open()
	b.passes(p)
	b.wantTagged("a tag is stopped", map[string]int{"wave": sharesMails})
	b.waiting("normal-marketing", pendingMails)
	b.tell(people, "other", 1, people)
	b.passes(p)
	b.wantTagged("the lane is crowded, too", map[string]int{"other": shareMails})
}

// queued says that all of the log is in its lanes, from which it has left by now.
func (b *bed) queued() {
	b.Helper()
	last, err := b.log.Last(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	key := strings.TrimSuffix(b.log.Note("any", "").Words[1], ":journeys") + ":cursors"
	if err := b.redis.Do(b.Context(), "move the cursor of lanes", b.redis.B().Hset().Key(key).FieldValue().FieldValue("lanes", last.String()).Build()); err != nil {
		b.Fatal(err)
	}
}

// Mail that is in the log and not in its lane yet is counted as well: a wave makes no more
// of it while the store is away, and goes on each time it has come.
func TestAWaveWaitsForTheStore(t *testing.T) {
	const people = 4000
	const most = pendingMails + mailsAtOnce + step.MaxPeople + shareMails
	b := newBed(t, people)
	b.publish(fmt.Sprintf(crowding, "wave", "wave", "  - {id: pause, delay: {for: 1h}, next: mail}\n", "wave"))
	b.tell(0, "wave", 1, people)
	b.passes(b.open())
	b.clock.Move(time.Hour)
	p := b.open()
	p.crowd.queuedBy = "lanes"
	for made := 0; made < people; {
		b.passes(p)
		now := len(b.mails("wave"))
		if now == made || now > made+most {
			t.Fatalf("with %d mails queued %d were made, want %d more at most, and some", made, now, most)
		}
		made = now
		b.queued()
	}
}

// Mail that has left its lane is in the log until it is stored: so while the store is
// behind no more is made, though the lanes are empty.
func TestAWaveWaitsUntilMailIsStored(t *testing.T) {
	const people = 4000
	const most = unstoredMails + mailsAtOnce + step.MaxPeople + shareMails
	b := newBed(t, people)
	b.publish(fmt.Sprintf(crowding, "wave", "wave", "  - {id: pause, delay: {for: 1h}, next: mail}\n", "wave"))
	b.tell(0, "wave", 1, people)
	b.passes(b.open())
	b.clock.Move(time.Hour)
	b.stored(everything)
	p := b.open()
	p.storedBy = storedBy
	for made := 0; made < people; {
		b.passes(p)
		now := len(b.mails("wave"))
		if now == made || now > made+most {
			t.Fatalf("with %d mails stored %d were made, want %d more at most, and some", made, now, most)
		}
		made = now
		b.stored(everything)
		p.crowd.storedLooked = time.Time{}
	}
}

// However many messages stand in a row, one commit makes no more mails than others do:
// fewer people are decided about at once.
func TestManyMessagesInARow(t *testing.T) {
	const people, messages = 100, 100
	var steps strings.Builder
	for i := range messages {
		next := fmt.Sprint("m", i+1)
		if i == messages-1 {
			next = "exit"
		}
		fmt.Fprintf(&steps, "  - {id: m%d, message: {template: x}, next: %s}\n", i, next)
	}
	for _, entry := range []string{"{event: signup}", `{at: "2026-03-02 10:00"}`} {
		b := newBed(t, people)
		b.publish("id: many\nentry: {when: " + entry + "}\nsteps:\n  - {id: pause, delay: {for: 1h}, next: m0}\n" + steps.String())
		if strings.Contains(entry, "at:") {
			b.publish("id: more\nentry: {when: " + entry + "}\nsteps:\n" + steps.String())
		}
		b.enterAll(people)
		b.passes(b.open())
		for range 3 {
			b.clock.Move(time.Hour)
			b.passes(b.open())
		}
		for at := (sluice.Position{}); ; {
			batches, err := b.log.Read(t.Context(), at, 1, 0)
			if err != nil {
				t.Fatal(err)
			}
			if len(batches) == 0 {
				break
			}
			at = batches[0].Position
			f := newFound()
			if b.readBatch(&f, batches[0].Data); len(f.ids) > 3*mailsAtOnce {
				t.Fatalf("%s: a commit has %d mails", entry, len(f.ids))
			}
		}
		if n := len(b.read().ids); n == 0 {
			t.Errorf("%s: no mails", entry)
		}
	}
}
