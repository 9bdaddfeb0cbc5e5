package step

import (
	"strconv"

	"sluice/journey"
	"sluice/user"
	"sluice/user/rule"
)

// InGlobalControl reports whether somebody is among so many percent of all people who
// get no marketing mail of any journey. Who is among 5 percent is among 10 too.
func InGlobalControl(id user.ID, percent int) bool {
	return rule.Bucket(id, globalControlSeed) < int64(percent)*100
}

// globalControlSeed is what buckets of that group are named by. It must never change:
// people would leave the group and others come into it.
const globalControlSeed = "control of all journeys"

// GlobalGroup names a group in counts: the control group of all journeys when it is of so
// many percent, or those beside it. Both are counted by the percentage: when that changes,
// shares of before and after must not be added up, for another part of them is of each
// group. No step has such an id.
func GlobalGroup(what What, percent int) string { return what.String() + "_" + strconv.Itoa(percent) }

// countGlobal counts an entry (conversion -1) or a conversion of somebody who goes through
// the journey, by whether the person is in the control group of all journeys. Who has taken
// over the place of a user who was merged into it counts as that user, which has entered.
func (r *Result) countGlobal(j *Journey, p *Person, record *journey.Record, conversion int) {
	if r.GlobalControl == 0 || len(j.p.Conversions) == 0 {
		return
	}
	what := GlobalOthers
	if InGlobalControl(p.NamedAs(record.Former), r.GlobalControl) {
		what = GlobalControl
	}
	r.count(r.GlobalControl, conversion, what)
}
