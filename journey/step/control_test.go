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
