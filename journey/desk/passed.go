package desk

import (
	"fmt"
	"time"

	"sluice/journey/plan"
	"sluice/lib/timetext"
)

// west is where days begin last: a time that has passed there has passed everywhere.
var west = time.FixedZone("UTC-12", -12*60*60)

// passedTime is a time of entry that never comes any more.
type passedTime struct{ place, says string }

// passed are the times of entry that never come behind a moment. A publish refuses them:
// nobody would ever enter by them, and most are a slip. One that comes again begins with
// its next occurrence, so it has passed only behind its last.
func passed(p *plan.Plan, now time.Time) (all []passedTime) {
	for i := range p.Entry.When {
		on := &p.Entry.When[i]
		if on.Kind != plan.OnSchedule {
			continue
		}
		if _, ok := on.At.Next(now, west); ok {
			continue
		}
		place, says := "at", on.At.First.Format(shownTime)+" has passed"
		if until := on.At.Until; on.At.Every != plan.Once {
			place, says = "until", until.Format(shownTime)+" has passed"
			if timetext.FirstMoment(until, on.At.Zone.In(west)).After(now) {
				says = "no time of the schedule is left up to " + until.Format(shownTime)
			}
		}
		all = append(all, passedTime{fmt.Sprintf("entry.when[%d].%s", i, place), says})
	}
	return all
}

const shownTime = "2006-01-02 15:04"
