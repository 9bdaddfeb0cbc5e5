package desk

import (
	"fmt"
	"time"

	"sluice/journey/plan"
)

// west is where days begin last: a time that has passed there has passed everywhere.
var west = time.FixedZone("UTC-12", -12*60*60)

// passed are the times of entry that never come behind a moment. A publish refuses them:
// nobody would ever enter by them, and most are a slip. One that comes again begins with
// its next occurrence, so it has passed only behind its last.
func passed(p *plan.Plan, now time.Time) (all plan.Problems) {
	for i := range p.Entry.When {
		on := &p.Entry.When[i]
		if on.Kind != plan.OnSchedule {
			continue
		}
		if _, ok := on.At.Next(now, west); ok {
			continue
		}
		place, last := "at", on.At.First
		if on.At.Every != plan.Once {
			place, last = "until", on.At.Until
		}
		all = append(all, plan.Problem{
			Place: fmt.Sprintf("entry.when[%d].%s", i, place),
			Want:  fmt.Sprintf("want a time that is to come, got %s, which has passed: nobody would enter by it", last.Format("2006-01-02 15:04")),
		})
	}
	return all
}
