package run

import (
	"testing"
	"time"

	"sluice"
	"sluice/journey"
	"sluice/user"
)

// A mail is named as before: databases have what was made by those names.
func TestMailNameStays(t *testing.T) {
	id := user.ID{Partition: 3, Number: 65}
	r := &journey.Record{Occurrence: 2, Entered: 1_700_001_234}
	if got, want := string(appendMailName(nil, 7, "hello", r, id)), "journey/7/hello/2/1700001234/000000030000000000000041"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got, want := messageOf(7, "hello", r, id), "018bcb20b400030000b4dffd304f93f3"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if back, ok := user.ParseID(id.String()); !ok || back != id {
		t.Errorf("%s is read as %v", id, back)
	}
}

// Mails of neighbours who entered on one day are neighbours in the ledger, and each
// has an id of its own: so has each step, occurrence, second of entry and person.
func TestMailsOfNeighboursLieTogether(t *testing.T) {
	const day = 86400
	const beginning = 1_700_000_000 - 1_700_000_000%day
	name := func(step string, occurrence uint16, entered uint32, partition int, number int64) string {
		return messageOf(7, step, &journey.Record{Occurrence: occurrence, Entered: entered}, user.ID{Partition: partition, Number: number})
	}
	below := [...]string{name("a", 0, beginning+day-1, 1, namedTogether-1), name("b", 9, beginning+1, 1, 1), name("a", 0, beginning, 1, 1), name("a", 1, beginning, 1, 1), name("a", 0, beginning+1, 1, 1), name("a", 0, beginning, 1, 2)}
	above := [...]string{name("a", 0, beginning, 1, namedTogether), name("a", 0, beginning, 2, 1), name("a", 0, beginning+day, 0, 1)}
	seen := make(map[string]bool)
	for _, low := range below {
		if seen[low] {
			t.Errorf("two mails have the id %s", low)
		}
		seen[low] = true
		if at := sluice.MessageTime(low).Unix(); at != beginning {
			t.Errorf("%s is of %d, want the day of the entry, %d", low, at, beginning)
		}
		for _, high := range above {
			if low >= high {
				t.Errorf("%s is not before %s", low, high)
			}
		}
	}
}

// An update that adds to something, and is made again because Redis has lost that it was, has
// the same name, by which the profile knows it. One that sets something needs none.
func TestAnUpdateMadeAgainHasItsName(t *testing.T) {
	const people = 30
	b := newBed(t, people)
	b.publish(`
id: counting
entry: {when: {event: signup}, again_after: 0s}
steps:
  - {id: pause, delay: {for: 1h}, next: count}
  - {id: count, update: {attributes: {visits: {inc: 1}}}, next: note}
  - {id: note, update: {attributes: {last: counting}}, next: list}
  - {id: list, update: {attributes: {list: {$add: [{a: 1}]}}}}
`)
	b.enterAllAt(people, uint64(b.clock.Now().UnixMilli()))
	p := b.open()
	b.passes(p)
	b.mustSave(p)
	b.clock.Move(time.Hour)
	b.passes(p)
	for times, loses := range []bool{false, true} {
		if loses {
			b.empty()
			b.clock.Move(time.Minute)
			b.passes(b.open())
		}
		named := b.read().named
		if len(named) != 2*people+1 || named[""] != people*(times+1) {
			t.Fatalf("%d names, %d updates without one", len(named), named[""])
		}
		for name, n := range named {
			if name != "" && (len(name) != 16 || n != times+1) {
				t.Errorf("the name %q is of %d updates, want %d", name, n, times+1)
			}
		}
	}
	b.enterAllAt(people, uint64(b.clock.Now().UnixMilli())+1000)
	b.passes(b.open())
	b.clock.Move(time.Hour + time.Minute)
	b.passes(b.open())
	if n := len(b.read().named); n != 4*people+1 {
		t.Errorf("%d names after all came a second time, want others", n)
	}
}
