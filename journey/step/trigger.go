package step

import (
	"maps"
	"slices"
	"time"

	"sluice/journey"
	"sluice/journey/plan"
	"sluice/lib/jsonscan"
	"sluice/user/rule"
)

// mayFire reports whether a fact is of the kind and name of a trigger; the rest is not
// looked at.
func mayFire(on *plan.On, f *journey.Fact) bool {
	switch on.Kind {
	case plan.OnEvent:
		return f.Kind == journey.FactEvent && f.Name == on.Name
	case plan.OnPurchase:
		return f.Kind == journey.FactPurchase && (on.Name == journey.Any || f.Name == on.Name)
	case plan.OnAttribute:
		return f.Kind == journey.FactAttributes
	case plan.OnGroup:
		return f.Kind == journey.FactGroups
	case plan.OnMail:
		return f.Kind == journey.FactMail && f.Name == string(on.Mail)
	case plan.OnAPI:
		return f.Kind == journey.FactEntered
	case plan.OnRule:
		return looks(&on.Looks, f)
	}
	return false
}

// looks reports whether a rule looks at what a fact is about.
func looks(n *journey.Names, f *journey.Fact) bool {
	switch f.Kind {
	case journey.FactEvent:
		return n.HasEvent(f.Name)
	case journey.FactPurchase:
		return n.HasPurchase(f.Name)
	case journey.FactAttributes:
		return len(n.Attributes) > 0
	case journey.FactGroups:
		return len(n.Groups) > 0
	case journey.FactMail:
		return n.HasMails(journey.MailEvent(f.Name))
	case journey.FactTookIn: // all that rules look at may be other than it was
		return true
	}
	return false
}

// fires reports whether a fact is what is meant. holds has the rules of the step at
// hand, for triggers that are rules: on.Rule is counted from bit.
func fires(on *plan.On, f *journey.Fact, p *Person, now time.Time, holds uint64, bit int) (bool, error) {
	switch {
	case !mayFire(on, f):
		return false, nil
	case on.Kind == plan.OnRule:
		return holds&(1<<(bit+on.Rule)) != 0, nil
	case on.Kind == plan.OnAttribute, on.Kind == plan.OnGroup:
		return changes(on, f.Body), nil
	case on.Kind == plan.OnMail:
		m := journey.ReadMailed(f.Body)
		return on.Of.Takes(m.Message, m.Tags, m.Journey, m.Step), nil
	case on.Where == nil:
		return true, nil
	}
	given := p.Given
	given.Properties = f.Properties()
	out, err := holdsFor(on.Where, p, &given, now)
	return out == 1, err
}

// holdsFor asks rules of one person.
func holdsFor(set *rule.Set, p *Person, given *rule.Given, now time.Time) (uint64, error) {
	var out [1]uint64
	_, err := set.MatchGiven([]string{p.Profile}, []uint64{p.ID.Hash()}, now.UnixMilli(), []rule.Given{*given}, out[:])
	return out[0], err
}

// changes reports whether a body {"NAME": [BEFORE, AFTER]} has the change.
func changes(on *plan.On, body string) bool {
	var pair [2]string
	e := jsonscan.ReadArray(member(body, on.Name).Raw)
	for i := 0; i < len(pair) && e.Next(); i++ {
		v := e.Value
		if len(on.Path) > 0 {
			v = member(v.Raw, on.Path...)
		}
		pair[i] = v.Raw
		if on.Kind == plan.OnGroup {
			pair[i] = text(v)
		}
		if pair[i] == "" && on.Kind != plan.OnGroup {
			pair[i] = "null"
		}
	}
	return !plan.SameValue(pair[0], pair[1]) && (on.From == "" || plan.SameValue(on.From, pair[0])) && (on.To == "" || plan.SameValue(on.To, pair[1]))
}

// Concerns reports whether anything may come of a fact for who has this record, whatever else
// is known of the person: so it is asked before that is read.
func (j *Journey) Concerns(r *journey.Record, f *journey.Fact) bool {
	at := int(r.Step)
	switch {
	case gone(f):
		return r.Converts()
	case r.Converts() && slices.ContainsFunc(j.p.Conversions, func(c plan.Converting) bool { return mayFireAny(c.When, f) }):
		return true
	case r.State != journey.StateInside:
		return mayFireAny(j.p.Entry.When, f)
	case at >= len(j.p.Steps):
		return false // Due looks at it again
	}
	s := &j.p.Steps[at]
	return mayFireAny(j.p.Exit, f) || at == 0 && mayFireAny(j.p.Exceptions, f) ||
		s.Kind == plan.StepWait && slices.ContainsFunc(s.Paths, func(way plan.PlanPath) bool { return mayFireAny(way.When, f) })
}

func mayFireAny(all []plan.On, f *journey.Fact) bool {
	for i := range all {
		if mayFire(&all[i], f) {
			return true
		}
	}
	return false
}

// Fact tells one person of a fact. The record of somebody who
// is inside must be of this version; others may be of another one (Person.Of). Facts
// are told in their order: one may let a person in, and the next take the person out.
// It reports whether anything came of it; if so, out has it for one person.
func (j *Journey) Fact(p *Person, f *journey.Fact, now time.Time, out *Result) (bool, error) {
	out.reset(1, len(j.p.Steps))
	out.Records[0] = p.Record
	r := &p.Record
	if !j.Concerns(r, f) {
		return false, nil
	}
	changed := false
	if r.Converts() {
		var err error
		if changed, err = j.convert(p, f, now, out); err != nil {
			return false, err
		}
		if gone(f) && r.State != journey.StateExited {
			why := journey.Cause{Kind: journey.CauseDeleted}
			if f.Kind == journey.FactMerged {
				why.Kind = journey.CauseMerged
			}
			out.Records[0].Leave(why, secondOf(f))
			if r.State == journey.StateInside { // others are at no step
				out.count(int(r.Step), -1, Exited)
			}
			return true, nil
		}
	}
	if r.State == journey.StateInside {
		moved, err := j.insideFact(p, f, now, out)
		return changed || moved, err
	}
	one := *p
	one.Record, one.EnteredAt = out.Records[0].AsOf(Moment(f, now)), secondOf(f)
	if changed && r.State != journey.StateExited || gone(f) || out.Closed || !j.MayEnter(&one, now) {
		return changed, nil
	}
	for i := range j.p.Entry.When {
		fired, err := fires(&j.p.Entry.When[i], f, p, now, 0, 0)
		if err != nil {
			return false, err
		}
		if fired {
			one.Given.Context = f.Properties()
			converted := maps.Clone(out.Counts)
			entered, err := j.Enter([]Person{one}, now, out)
			for c, n := range converted {
				out.Counts[c] += n
			}
			return entered > 0 || len(out.Counts) > 0, err
		}
	}
	return changed, nil
}

// conversionBit is the bit that a conversion has in the record of somebody who entered by
// another version: that of the same name there. One that is new has a bit behind those.
func (j *Journey) conversionBit(at int, of *Journey) int {
	if of == nil || of == j {
		return at
	}
	in := func(name string) int {
		return slices.IndexFunc(of.p.Conversions, func(c plan.Converting) bool { return c.Name == name })
	}
	if bit := in(j.p.Conversions[at].Name); bit >= 0 {
		return bit
	}
	bit := len(of.p.Conversions)
	for i := range at {
		if in(j.p.Conversions[i].Name) < 0 {
			bit++
		}
	}
	return min(bit, journey.MaxConversions-1)
}

// convert counts conversions, each once an occurrence. What was accepted in time counts, also
// if it is told later.
func (j *Journey) convert(p *Person, f *journey.Fact, now time.Time, out *Result) (changed bool, err error) {
	at := Moment(f, now)
	for i := range j.p.Conversions {
		c := &j.p.Conversions[i]
		late := time.Unix(int64(p.Record.Entered), 0).Add(time.Duration(c.WithinSeconds) * time.Second).Before(at)
		bit := j.conversionBit(i, p.Of)
		if late || p.Record.Converted&(1<<bit) != 0 {
			continue
		}
		for n := range c.When {
			fired, err := fires(&c.When[n], f, p, now, 0, 0)
			if err != nil {
				return false, err
			}
			if fired {
				out.Records[0].Converted |= 1 << bit
				what := Converted
				if p.Record.State == journey.StateControl {
					what = HeldConverted
				}
				out.count(0, i, what)
				if what == Converted {
					out.countGlobal(j, p, &p.Record, i)
				}
				if at := int(p.Record.Step); hasStep(p.Record.State) && at < len(j.p.Steps) {
					out.count(at, i, ConvertedAt)
				}
				changed = true
				break
			}
		}
	}
	return changed, nil
}

// hasStep reports whether the step of a record is one of its version: who was taken out
// converts by another, when its own has ended.
func hasStep(s journey.State) bool { return s == journey.StateInside || s == journey.StateWatching }

// insideFact tells a person who is inside.
func (j *Journey) insideFact(p *Person, f *journey.Fact, now time.Time, out *Result) (moved bool, err error) {
	at := int(p.Record.Step)
	if at >= len(j.p.Steps) {
		return false, nil // Due looks at it again
	}
	s := &j.p.Steps[at]
	var holds uint64
	if s.Rules != nil {
		if holds, err = holdsFor(s.Rules, p, &p.Given, now); err != nil {
			return false, err
		}
	}
	why := journey.Cause{Kind: journey.CauseExit}
	why.Index, err = firstFires(j.p.Exit, f, p, now, holds, s.ExitBit)
	if err == nil && why.Index < 0 && at == 0 {
		why.Kind = journey.CauseException
		why.Index, err = firstFires(j.p.Exceptions, f, p, now, holds, s.ExitBit)
	}
	if err != nil || why.Index >= 0 {
		if err == nil {
			out.exit(0, at, why, secondOf(f))
		}
		return err == nil, err
	}
	if s.Kind != plan.StepWait {
		return false, nil
	}
	for n := range s.Paths {
		fired, err := firstFires(s.Paths[n].When, f, p, now, holds, 0)
		if err != nil {
			return false, err
		}
		if fired < 0 {
			continue
		}
		// A better path may come yet, or nobody moves, or did so until now: the first one counts.
		if s.Ranked && n > 0 || j.stands || !s.Ranked && p.Record.Rank != 0 {
			noted := note(s, n, p, now, &out.Records[0], j.stands)
			if noted {
				out.waited(j, s, p, &s.Paths[n].When[fired], f)
			}
			return noted, nil
		}
		out.Records[0].Rank = 0
		out.take(j, 0, at, n)
		out.arrive(j, 0, s.Paths[n].Next, now)
		one := *p
		one.EnteredAt = secondOf(f)
		if out.waited(j, s, p, &s.Paths[n].When[fired], f); out.Waited {
			one.Given.Context = out.Context
		}
		return true, j.walk([]Person{one}, now, out)
	}
	return false, nil
}

// waited takes over, of a fact that a step has waited for, what later steps look at. A fact
// that takes the place of another one, which was noted, may have no properties: then there is
// nothing of either.
func (r *Result) waited(j *Journey, s *plan.PlanStep, p *Person, on *plan.On, f *journey.Fact) {
	if !j.keeps.WaitsFor(s.ID) {
		return
	}
	properties := ""
	if on.Kind.HasProperties() {
		properties = f.Properties()
	}
	r.Waited, r.Context = true, j.keeps.WithWaited(p.Given.Context, s.ID, properties)
}

// note notes a path of a wait that has happened, unless one that counts more has before. ends:
// if it would have ended the wait, the person is due.
func note(s *plan.PlanStep, path int, p *Person, now time.Time, r *journey.Record, ends bool) bool {
	rank := uint8(path) + 1
	if p.Record.Rank != 0 && (!s.Ranked || rank >= p.Record.Rank) {
		return false
	}
	r.Rank = rank
	if ends && (!s.Ranked || path == 0) {
		r.Due = min(r.Due, second(now))
	}
	return true
}

// firstFires returns which of those that are meant a fact is; -1: none.
func firstFires(all []plan.On, f *journey.Fact, p *Person, now time.Time, holds uint64, bit int) (int, error) {
	for i := range all {
		if fired, err := fires(&all[i], f, p, now, holds, bit); err != nil || fired {
			return i, err
		}
	}
	return -1, nil
}

// Moment is when a fact came to its log: the same when it is told again. A fact without a
// place, as in a simulation, is of now.
func Moment(f *journey.Fact, now time.Time) time.Time {
	if second := secondOf(f); second != 0 {
		return time.Unix(int64(second), 0)
	}
	return now
}

// secondOf is when a fact came to its log: the same when it is told again.
func secondOf(f *journey.Fact) uint32 { return uint32(f.Place.Position.Major / 1000) }
