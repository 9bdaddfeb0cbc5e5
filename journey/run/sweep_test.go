package run

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"sluice"
	"sluice/journey"
	"sluice/lib/timetext"
	"sluice/store"
	"sluice/user"
)

// A journey that begins at a time of each person's zone lets everybody in at that
// person's moment, once a time, whatever clocks do, and whichever process goes on.
func TestEachZoneHasItsTime(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	zones := []string{"", "no zone", "Asia/Tokyo", "Asia/Kolkata", "America/New_York", "Pacific/Chatham", "Pacific/Kiritimati", "Etc/GMT+12", "Europe/Berlin"}
	b := newBed(t, 0)
	changes := &user.Changes{}
	for n, zone := range zones {
		changes.Put = append(changes.Put, user.Row{ID: user.ID{Number: int64(n) + 1}, Profile: fmt.Sprintf(`{"external_id":"z%d","fields":{"email":"z%d@example.com","time_zone":%q}}`, n, n, zone)})
	}
	b.apply(&store.Effect{Users: changes})
	b.clock.Move(4 * 24 * time.Hour) // the sixth of March; New York's clocks leap on the eighth at two
	j := b.publish(`
id: daily
entry: {when: {at: "2026-03-07 02:30", every: day, until: "2026-03-09 02:30", zone: user}, again_after: 0s}
steps:
  - {id: mail, message: {template: x}}
`)
	once := b.publish(`
id: once
entry: {when: {at: "2026-03-08 02:30", zone: user}}
steps:
  - {id: mail, message: {template: x}}
`)
	var walls []time.Time
	for day := 7; day <= 9; day++ {
		walls = append(walls, time.Date(2026, 3, day, 2, 30, 0, 0, time.UTC))
	}
	zoneOf := func(n int) *time.Location {
		if zone, err := time.LoadLocation(zones[n]); err == nil {
			return zone
		}
		return time.UTC
	}
	p := b.open()
	for end := walls[2].Add(14 * time.Hour); b.clock.Now().Before(end); b.clock.Move(time.Duration(1+random.IntN(40)) * time.Minute) {
		if random.IntN(10) == 0 {
			p = b.open() // another process
		}
		if b.passes(p); random.IntN(3) > 0 {
			continue
		}
		daily := b.records(j)
		for n := range zones {
			want, times := uint32(0), -1
			for _, wall := range walls {
				at := timetext.FirstMoment(wall, zoneOf(n))
				if at.After(b.clock.Now().Add(-time.Hour)) {
					break // it may be found a while later, where a process has just taken over
				}
				want, times = uint32(at.Unix()), times+1
			}
			r := daily[int64(n)+1]
			if times >= 0 && (r.Entered < want || int(r.Occurrence) < times) {
				t.Fatalf("%s at %s: entered %d for time %d, want %d for time %d", zones[n], b.clock.Now(), r.Entered, r.Occurrence, want, times)
			}
		}
	}
	for n := range zones {
		r, last := b.records(j)[int64(n)+1], timetext.FirstMoment(walls[2], zoneOf(n))
		if r.Entered != uint32(last.Unix()) || r.Occurrence != 2 || r.State != journey.StateFinished {
			t.Errorf("%s: %+v, want in for the third time at %s", zones[n], r, last)
		}
		if r, at := b.records(once)[int64(n)+1], timetext.FirstMoment(walls[1], zoneOf(n)); r.Entered != uint32(at.Unix()) {
			t.Errorf("%s: entered once at %d, want %s", zones[n], r.Entered, at)
		}
		if got := b.read().sends[fmt.Sprintf("z%d@example.com", n)]; got != 4 {
			t.Errorf("%s: %d mails, want 4", zones[n], got)
		}
	}
	if f := b.read(); len(f.ids) != 4*len(zones) {
		t.Errorf("%d mails of their own, want %d", len(f.ids), 4*len(zones))
	}
	for _, in := range p.journeys {
		if !in.scan.next.IsZero() {
			t.Errorf("journey %s has a sweep at %s, and is over", in.id, in.scan.next)
		}
	}
}

// A person who travels enters once by a time that comes twice to that person.
func TestATravellerEntersOnce(t *testing.T) {
	b := newBed(t, 0)
	put := func(zone string) {
		b.apply(&store.Effect{Users: &user.Changes{Put: []user.Row{{ID: user.ID{Number: 1}, Profile: fmt.Sprintf(`{"fields":{"email":"a@example.com","time_zone":%q}}`, zone)}}}})
	}
	put("Asia/Tokyo")
	b.publish(`
id: daily
entry: {when: {at: "2026-03-03 09:00", every: day, until: "2026-03-03 09:00", zone: user}, again_after: 0s}
steps:
  - {id: mail, message: {template: x}}
`)
	p := b.open()
	for range 60 {
		b.passes(p)
		b.clock.Move(time.Hour)
		if b.read().sends["a@example.com"] == 1 {
			put("America/New_York")
		}
	}
	if n := b.read().sends["a@example.com"]; n != 1 {
		t.Errorf("%d mails, want 1", n)
	}
}

// A process that takes over in the middle of a sweep goes on with that sweep.
func TestASweepGoesOn(t *testing.T) {
	const people = 2*scanPeople + 100
	b := newBed(t, people)
	b.publish(`
id: once
entry: {when: {at: "2026-03-02 10:10", zone: user}}
steps:
  - {id: mail, message: {template: x}}
`)
	b.passes(b.open())
	b.clock.Move(2 * time.Hour)
	p := b.open()
	if worked, err := p.pass(t.Context()); err != nil || !worked {
		t.Fatal(worked, err)
	}
	if n := len(b.read().ids); n == 0 || n == people {
		t.Fatalf("%d of %d mails: the test does not see the middle", n, people)
	}
	b.clock.Move(time.Minute)
	b.passes(b.open())
	if n := len(b.read().ids); n != people {
		t.Errorf("%d mails, want %d", n, people)
	}
}

// What a commit counts brings no facts: they are not asked for behind it, and are as soon as
// something else is in the log.
func TestCountsAskForNoFacts(t *testing.T) {
	b := newBed(t, 3)
	b.publish("id: counts\nentry: {when: {event: come}}\nsteps:\n  - {id: pause, delay: {for: 1h}, next: more}\n  - {id: more, delay: {for: 1h}}\nexit_when: {event: stop}\n")
	b.tell(0, "come", 1, 3)
	p := b.open()
	b.passes(p)
	last, err := p.log.Last(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p.looked, p.told = p.own.without(last), true // as if the store had nothing more
	b.facts = 0
	b.clock.Move(time.Hour)
	b.passes(p)
	if b.facts != 0 {
		t.Errorf("facts were asked for %d times", b.facts)
	}
	b.tell(10, "stop", 2, 2)
	if _, err := p.log.Append(t.Context(), "somebody", "", "1", sluice.NewBatch(0), false); err != nil {
		t.Fatal(err)
	}
	b.passes(p)
	if f := b.read(); b.facts == 0 || f.counts["journey/counts/more/exited"] != 1 {
		t.Errorf("facts were asked for %d times, counts are %v", b.facts, f.counts)
	}
}
