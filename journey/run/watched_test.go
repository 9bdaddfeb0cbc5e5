package run

import (
	"fmt"
	"testing"
	"time"

	"sluice"
	"sluice/journey"
	"sluice/store"
	"sluice/user"
)

// Who is out by the second of a run may enter by it: the watch for a conversion ends in that
// second, or the last delay does. The run passes over numbers of merged users, and so comes to
// people before the look at those who are due does.
func TestWhoIsOutByARunEntersByIt(t *testing.T) {
	const people, gone = 3000, 1500
	for name, rest := range map[string]string{
		"watched": "  - {id: mail, message: {template: x}}\nconversions: {name: bought, when: {event: bought}, within: 7d}\n",
		"inside":  "  - {id: mail, message: {template: x}, next: rest}\n  - {id: rest, delay: {for: 7d}}\n",
	} {
		b := newBed(t, people)
		b.publish("id: weekly\nentry: {when: {at: \"2026-03-03 08:00\", every: week}, again_after: 6d}\nsteps:\n" + rest)
		p := b.open()
		b.passes(p)
		entered := func() int64 { return b.read().counts["journey/weekly/mail/entered"] }
		b.clock.Move(23 * time.Hour)
		if b.passes(p); entered() != people {
			t.Fatalf("%s: %d have entered by the first run, want %d", name, entered(), people)
		}
		changes := &user.Changes{}
		for n := int64(2); n <= gone; n++ {
			changes.Put = append(changes.Put, user.Row{ID: user.ID{Number: n}, MergedInto: user.ID{Number: 1}})
		}
		b.apply(&store.Effect{Users: changes})
		b.clock.Move(7 * 24 * time.Hour)
		if b.passes(p); entered() != people+people-gone+1 {
			t.Errorf("%s: %d have entered by the second run, want %d", name, entered()-people, people-gone+1)
		}
	}
}

// A run waits for those who are due by its second, but not for the mail of an earlier run that
// is kept for want of room, which may be so for days.
func TestARunWaitsForWhoIsDue(t *testing.T) {
	begin := time.Unix(1772524800, 0)
	for name, x := range map[string]struct {
		due   time.Duration
		after time.Duration
		waits bool
	}{
		"somebody is due":        {0, 0, true},
		"still":                  {-time.Hour, awaitsFor - time.Second, true},
		"for long":               {-time.Hour, awaitsFor, false},
		"nobody is":              {time.Second, 0, false},
		"it is not to begin yet": {0, -time.Second, false},
	} {
		s := scan{after: finished, next: begin, sweep: &sweep{}}
		if got := s.awaits(uint32(begin.Add(x.due).Unix()), begin.Add(x.after)); got != x.waits {
			t.Errorf("%s: it waits %v", name, got)
		}
	}
}

const watching = `
id: cart
entry: {when: {event: signup}, again_after: 0s}
steps:
  - {id: %s, message: {template: x}}
conversions: {name: bought, when: {event: bought}, within: 3d}
`

// Who is watched for a conversion no more is out, also while nobody moves because a lane of
// mail is crowded: an entry event, or another journey, lets the person into the newest version. What was accepted
// in time converts, also if it is told later.
func TestWhoIsOutEntersWhileALaneIsCrowded(t *testing.T) {
	b := newBed(t, 3)
	b.publish(fmt.Sprintf(watching, "mail"))
	b.publish("id: asked\nentry: {when: {event: ask}}\nsteps:\n  - {id: on, go: {journey: cart}}\n")
	began := b.clock.Now()
	minor := uint64(0)
	tell := func(after time.Duration, number int64, event string) {
		t.Helper()
		minor++
		at := sluice.Position{Major: uint64(began.Add(after).UnixMilli()), Minor: minor}
		b.apply(&store.Effect{JourneyFacts: []journey.Fact{{Place: sluice.Place{Position: at}, Number: number, Kind: journey.FactEvent, Name: event, TimeMillis: 1}}})
	}
	tell(0, 1, "signup")
	tell(0, 2, "signup")
	tell(0, 3, "signup")
	b.passes(b.open())
	b.publishAgain("cart", fmt.Sprintf(watching, "other"))
	b.waiting("normal-marketing", pendingMails)
	b.clock.Move(4 * 24 * time.Hour)
	p := b.open()
	p.byID["cart"].share = 0
	const within = 3 * 24 * time.Hour
	tell(within-time.Second, 1, "signup") // it is in still
	tell(within-time.Second, 1, "bought")
	tell(within, 2, "bought") // in the last second
	tell(within+time.Second, 1, "signup")
	tell(within+time.Hour, 2, "signup")
	tell(within+time.Hour, 3, "ask")
	b.passes(p)
	f := b.read()
	for name, want := range map[string]int64{"mail/entered": 3, "other/entered": 3, "converted/bought": 2} {
		if got := f.counts["journey/cart/"+name]; got != want {
			t.Errorf("%s is %d, want %d", name, got, want)
		}
	}
	if p.byID["cart"].dues.next() == never || len(f.ids) != 3 {
		t.Errorf("%d mails: the lane is not crowded, and this test shows nothing", len(f.ids))
	}
}

// A survivor who is watched no more gets the place of a former user, also before a look at
// people who are due has found it.
func TestASurvivorWhoIsOutGetsThePlace(t *testing.T) {
	b := newBed(t, 2)
	j := b.publish(fmt.Sprintf(watching, "mail"))
	at := uint32(b.clock.Now().Unix())
	for _, home := range []int{0, 1} { // of the one who goes
		p := b.open()
		c := p.begin()
		place := journey.Record{State: journey.StateInside, Version: 1, Due: at + 3600, Entered: at, Former: 7}
		for number, r := range map[int64]journey.Record{1: place, 2: {State: journey.StateWatching, Version: 1, Due: at + 9, Entered: at - 99}} {
			if err := c.set(t.Context(), p.journeys[0], number, &r); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		f := journey.Fact{Number: 1, Kind: journey.FactMerged, Name: user.ID{Number: 2}.String()}
		if home == 1 {
			f = journey.Fact{Number: 2, Kind: journey.FactPlace, Name: "cart", Body: (&journey.Place{Record: place}).Text()}
		}
		f.Place.Position = sluice.Position{Major: uint64(at+9) * 1000, Minor: uint64(home) + 1}
		b.apply(&store.Effect{JourneyFacts: []journey.Fact{f}})
		b.passes(b.open())
		if got := b.records(j)[2]; got.State != journey.StateInside || got.Entered != at {
			t.Errorf("home %d: the survivor is %+v, want it in the place of the former user", home, got)
		}
	}
}
