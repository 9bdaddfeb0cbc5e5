package step

import (
	"testing"
	"time"

	"sluice/journey"
	"sluice/user"
)

const controlText = `
id: half
entry: {when: {event: bought}, again_after: 0s}
control: {percent: 50}
steps:
  - {id: wait, delay: {for: 1h}}
conversions: [{name: again, when: {event: bought}, within: 10d}]
`

// Somebody who does the same thing each day enters as often in the control group as among
// the others, and converts as often.
func TestTheControlGroupEntersAsOftenAsOthers(t *testing.T) {
	const days = 40
	type tally struct{ entered, converted int }
	groups := make(map[bool]tally)
	for number := int64(1); len(groups) < 2; number++ {
		l := newLife(t, controlText, `{}`)
		l.p.ID = user.ID{Number: number}
		var got tally
		held := false
		for range days {
			f := journey.Fact{Kind: journey.FactEvent, Name: "bought"}
			if came, err := l.j.Fact(&l.p, &f, l.now, &l.out); err != nil {
				t.Fatal(err)
			} else if came {
				l.take()
				held = l.p.Record.State == journey.StateControl
				for c, n := range l.out.Counts {
					switch c.What {
					case Treated, Held:
						got.entered += n
						if held != (c.What == Held) {
							t.Errorf("%s is counted of who is %s", c.What, l.p.Record.State)
						}
					case Converted, HeldConverted:
						got.converted += n
					}
				}
			}
			l.pass(24 * time.Hour)
		}
		groups[held] = got
	}
	if groups[true] != groups[false] || groups[true] != (tally{4, 4}) {
		t.Errorf("in the control group %+v, of the others %+v; want 4 and 4 of both", groups[true], groups[false])
	}
}

// So it is for who is taken out each day, which nobody is who is in the control group.
func TestWhoIsTakenOutEntersAsOftenAsTheControlGroup(t *testing.T) {
	text := controlText + "exit_when: {event: left}\n"
	groups := make(map[bool]int)
	for number := int64(1); len(groups) < 2; number++ {
		l := newLife(t, text, `{}`)
		l.p.ID = user.ID{Number: number}
		entered, held := 0, false
		for range 40 {
			for _, name := range []string{"bought", "left"} {
				came, err := l.j.Fact(&l.p, &journey.Fact{Kind: journey.FactEvent, Name: name}, l.now, &l.out)
				if err != nil {
					t.Fatal(err)
				}
				if came {
					l.take()
				}
				entered += l.out.Counts[Count{0, -1, Treated}] + l.out.Counts[Count{0, -1, Held}]
				held = l.p.Record.State == journey.StateControl
			}
			l.pass(24 * time.Hour)
		}
		groups[held] = entered
	}
	if groups[true] != groups[false] || groups[true] != 4 {
		t.Errorf("%d entries in the control group, %d of one who is taken out each day; want 4 of both", groups[true], groups[false])
	}
}

// Who was taken out by a trigger converts as the control group does, whose people nothing
// takes out: within the time, once, also if the same fact lets the person in again.
func TestWhoWasTakenOutConverts(t *testing.T) {
	const text = `
id: out
entry: {when: [{event: in}, {event: again}], again_after: 1h}
steps:
  - {id: wait, delay: {for: 1d}}
exit_when: {event: gone}
conversions: [{name: c, when: [{event: bought}, {event: again}], within: 10h}]
`
	converted := func(l *life) (n int) {
		for c, of := range l.out.Counts {
			if c.What == Converted {
				n += of
			}
		}
		return n
	}
	begin := func() *life {
		l := newLife(t, text, `{}`)
		l.tell("in")
		l.want("", l.tell("gone"), journey.StateExited)
		return l
	}
	l := begin()
	before := l.p.Record
	if l.want("", l.tell("bought"), journey.StateExited); converted(l) != 1 || l.p.Record.Converted != 1 {
		t.Errorf("a purchase of who was taken out is counted %d times", converted(l))
	}
	if before.Converted = 1; l.p.Record != before {
		t.Errorf("the record is %+v, want %+v", l.p.Record, before)
	}
	if l.tell("bought"); converted(l) != 0 {
		t.Error("the second purchase counts")
	}
	l = begin()
	if l.want("", l.tell("again"), journey.StateInside); converted(l) != 1 || l.out.Counts[Count{0, -1, Entered}] != 1 || l.p.Record.Converted != 0 {
		t.Errorf("what converts and lets in again: %v, %+v", l.out.Counts, l.p.Record)
	}
	l = begin()
	l.pass(10 * time.Hour)
	if l.tell("bought"); converted(l) != 0 {
		t.Error("a purchase counts that is too late")
	}
	for _, kind := range []journey.CauseKind{journey.CauseStopped, journey.CauseDeleted, journey.CauseMerged} {
		l = newLife(t, text, `{}`)
		l.tell("in")
		l.p.Record.Leave(journey.Cause{Kind: kind}, uint32(l.now.Unix()))
		if l.tell("bought"); converted(l) != 0 {
			t.Errorf("of cause %d a purchase counts", kind)
		}
	}
}
