package simulate

import (
	"slices"
	"strings"
	"time"

	"sluice/journey"
	"sluice/journey/plan"
	"sluice/journey/step"
	"sluice/user/rule"
)

// got is a mail that somebody got. Times are in milliseconds, 0: never.
type got struct {
	of                    *journey.Mailed
	made, opened, clicked int64 // an opening may be still to come
	caps                  uint64
}

// receivedAfter is how long a mail, or an update, takes on its way. Whatever follows from
// either comes later than it: a journey that lets people in again by its own mail goes on
// in time.
const receivedAfter = time.Second

// prepareMail reads the message steps, and what caps and rules will ask.
func (r *runner) prepareMail() {
	p := r.in.Plan
	r.mailings, r.mailed = make([]step.Mailing, len(p.Steps)), make([]journey.Mailed, len(p.Steps))
	asks := false
	for i := range p.Steps {
		if m := p.Steps[i].Message; m != nil {
			r.mailings[i] = step.MailingOf(m, r.in.Caps)
			r.mailed[i] = journey.Mailed{Journey: p.ID, Step: p.Steps[i].ID, Tags: strings.Join(m.Tags, ",")}
			asks = asks || r.mailings[i].Asks != 0
		}
	}
	for i := range p.Needs {
		asks = asks || p.Needs[i].Journey == ""
		if p.Needs[i].Journey == p.ID && p.Needs[i].Passed() {
			r.ways = make([][]int, len(r.in.People))
		}
	}
	if asks {
		r.got = make([][]got, len(r.in.People))
	}
}

// judge takes the mails out of a decision that are not made in the end.
func (r *runner) judge(some []int32, now time.Time) {
	r.unmade = r.unmade[:0]
	r.out.Mails = slices.DeleteFunc(r.out.Mails, func(did step.Did) bool {
		i := some[did.Person]
		_, why := r.mailings[did.Step].Judge(r.in.People[i].ID, r.profiles[i], r.in.Control, func(byCap int) int { return r.gotIn(i, byCap, now) })
		if why != 0 {
			r.out.NoMail(did.Step, why)
			r.unmade = append(r.unmade, step.Count{Step: did.Step, Path: -1, What: why})
			return true
		}
		r.mail(i, did.Step, now)
		return false
	})
}

// gotIn counts the mails that a person got in the window of a cap.
func (r *runner) gotIn(person int32, byCap int, now time.Time) (n int) {
	since := now.Add(-r.in.Caps[byCap].Window).UnixMilli()
	for _, g := range r.got[person] {
		if g.caps&(1<<byCap) != 0 && g.made >= since {
			n++
		}
	}
	return n
}

// known answers what rules ask about a person beside the profile. Nothing is known of
// other journeys.
func (r *runner) known(person int32, now time.Time) (bits uint64) {
	p := r.in.Plan
	for i := range p.Needs {
		n, holds := &p.Needs[i], false
		switch n.Journey {
		case "":
			holds = slices.ContainsFunc(r.got[person], func(g got) bool { return g.answers(n, now) })
		case p.ID:
			holds = p.Answers(n, &r.records[person], r.waysOf(person))
		}
		if holds {
			bits |= 1 << i
		}
	}
	return bits
}

// answers reports whether this mail is one that a rule asks for.
func (g *got) answers(n *rule.Need, now time.Time) bool {
	at := map[journey.MailEvent]int64{journey.MailReceived: g.made + receivedAfter.Milliseconds(), journey.MailOpened: g.opened, journey.MailClicked: g.clicked}[n.Event]
	since := int64(1)
	if n.Days > 0 {
		since = now.Add(-time.Duration(n.Days) * 24 * time.Hour).UnixMilli()
	}
	return at >= since && at <= now.UnixMilli() && n.Of.Takes(g.of.Message, g.of.Tags, g.of.Journey, g.of.Step)
}

// reacted notes what a person did with the last mail of a step that it got.
func (r *runner) reacted(h *Happening) {
	if h.Fact.Kind != journey.FactMail || r.got == nil {
		return
	}
	m, ms := journey.ReadMailed(h.Fact.Body), h.At.UnixMilli()
	for i := range slices.Backward(r.got[h.Person]) {
		if g := &r.got[h.Person][i]; g.of.Journey == m.Journey && g.of.Step == m.Step {
			g.react(journey.MailEvent(h.Fact.Name), ms)
			return
		}
	}
}

// react notes the first time.
func (g *got) react(event journey.MailEvent, ms int64) {
	switch {
	case event == journey.MailOpened && (g.opened == 0 || g.opened > ms):
		g.opened = ms
	case event == journey.MailClicked && (g.clicked == 0 || g.clicked > ms):
		g.clicked = ms
	}
}

// waysOf are the branches that a person took, if rules ask for them.
func (r *runner) waysOf(person int32) []int {
	if r.ways == nil {
		return nil
	}
	return r.ways[person]
}

// keepWays notes the branches that were taken by a decision. before are the records.
func (r *runner) keepWays(some []int32, before []journey.Record) {
	if r.ways == nil {
		return
	}
	for n, i := range some {
		if rec := &r.out.Records[n]; rec.Entered != before[n].Entered || rec.Occurrence != before[n].Occurrence {
			r.ways[i] = nil
		}
	}
	for _, w := range r.out.Ways {
		r.ways[some[w.Person]] = append(r.ways[some[w.Person]], w.Branch)
	}
}

// pace is the rate of mails of the journey (limits.per_minute): people wait for it at
// message steps, and nobody else does. The tokens of a second are there at once.
type pace struct {
	queue  []int32
	tokens float64 // below zero: taken in advance
	last   time.Time
}

// paces reports whether the rate decides when a person goes on who is due.
func (r *runner) paces(person int32) bool {
	p := r.in.Plan
	return p.PerMinute > 0 && p.Steps[r.records[person].Step].Kind == plan.StepMessage
}

// walk is how people go up to where the rate decides.
func (r *runner) walk() *step.Journey {
	if r.in.Plan.PerMinute > 0 {
		return r.holding
	}
	return r.journey
}

// next is when there is a token for those who wait.
func (x *pace) next(perMinute int64) time.Time {
	wait := time.Duration((1 - x.tokens) * float64(time.Minute) / float64(perMinute))
	return x.last.Add(max((wait + time.Second - 1).Truncate(time.Second), time.Second))
}

// goOnPaced lets those go on from message steps for whom there are tokens.
func (r *runner) goOnPaced(now time.Time) error {
	x, second := &r.pace, float64(r.in.Plan.PerMinute)/60
	if r.in.Plan.PerMinute == 0 || len(x.queue) == 0 {
		return nil
	}
	x.tokens = min(x.tokens+now.Sub(x.last).Seconds()*second, max(second, 1))
	x.last = now
	for x.tokens >= 1 && len(x.queue) > 0 {
		n := min(int(x.tokens), len(x.queue), step.MaxPeople)
		some := x.queue[:n]
		x.queue = x.queue[n:]
		if err := r.move(some, now, r.journey); err != nil {
			return err
		}
	}
	return nil
}
