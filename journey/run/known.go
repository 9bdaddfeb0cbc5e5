package run

import (
	"context"
	"time"

	"sluice/journey"
	"sluice/journey/step"
	"sluice/store"
	"sluice/user"
	"sluice/user/rule"
)

// mailNeeds are what rules of a version ask about mail: bit bits[i] of rule.Given.Known
// answers needs[i].
type mailNeeds struct {
	needs []rule.Need
	bits  []int
}

func mailNeedsOf(all []rule.Need) (m mailNeeds) {
	for i, n := range all {
		if n.Journey == "" {
			m.needs, m.bits = append(m.needs, n), append(m.bits, i)
		}
	}
	return m
}

// asked are the questions to the ledger, as of a moment.
func (m *mailNeeds) asked(now time.Time) []store.MailAsked {
	all := make([]store.MailAsked, len(m.needs))
	for i, n := range m.needs {
		all[i] = store.MailAsked{Event: n.Event, Of: n.Of}
		if n.Days > 0 {
			all[i].SinceMillis = now.Add(-time.Duration(n.Days) * 24 * time.Hour).UnixMilli()
		}
	}
	return all
}

// known sets what rules of a version ask about people beside their profiles, by one
// statement for all of them, and one for each other home of somebody who was merged into
// one of them. A version that asks nothing costs nothing.
func (p *part) known(ctx context.Context, v *version, people []step.Person) error {
	if len(v.asks.needs) == 0 || len(people) == 0 {
		return nil
	}
	answers, err := p.mailOf(ctx, v, people)
	for i := range people {
		people[i].Given.Known = answers[people[i].ID]
	}
	return err
}

// mailOf answers what rules of a version ask about the mail of people.
func (p *part) mailOf(ctx context.Context, v *version, people []step.Person) (map[user.ID]uint64, error) {
	ids := make([]user.ID, 0, len(people))
	whose := make(map[user.ID][]user.ID) // of those who were merged: the people they are now
	for i := range people {
		ids = append(ids, people[i].ID)
		for _, id := range people[i].Former() {
			ids = append(ids, id)
			whose[id] = append(whose[id], people[i].ID)
		}
	}
	found, err := p.store.MailKnown(ctx, ids, v.asks.asked(p.clock.Now()))
	if err != nil {
		return nil, err
	}
	answers := make(map[user.ID]uint64, len(found))
	for id, bits := range found {
		var known uint64
		for i, bit := range v.asks.bits {
			known |= bits >> i & 1 << bit
		}
		for _, id := range append(whose[id], id) {
			answers[id] |= known
		}
	}
	return answers, nil
}

// page is people whom facts are told of together: what has to be asked about one of them
// is asked about all.
type page struct {
	people   []step.Person // whom a fact may move, in the order in which facts name them
	profiles map[user.ID]string
	asked    map[int64]bool // whose profiles were read, if there is one
	known    map[*version]map[user.ID]uint64

	contexts map[*inside]contextsOf
}

func (p *part) pageOf(facts []journey.Fact, profiles map[user.ID]string, asked map[int64]bool) *page {
	g := &page{profiles: profiles, asked: asked}
	g.forget()
	seen := make(map[int64]bool)
	for i := range facts {
		if n := facts[i].Number; asked[n] && !seen[n] {
			seen[n] = true
			g.add(p, n)
		}
	}
	return g
}

func (g *page) forget() {
	g.known, g.contexts = make(map[*version]map[user.ID]uint64), make(map[*inside]contextsOf)
}

func (g *page) add(p *part, number int64) {
	one := p.person(number, journey.Record{}, "")
	one.Profile = g.profiles[one.ID]
	g.people = append(g.people, one)
}

// profileOf is the profile of one person of the page, empty if there is none. Somebody whom
// no fact could move may have taken over the place of a former user meanwhile.
func (g *page) profileOf(ctx context.Context, p *part, number int64) (string, error) {
	if !g.asked[number] {
		if _, err := p.addProfiles(ctx, g.profiles, []int64{number}); err != nil {
			return "", err
		}
		g.asked[number] = true
		g.add(p, number)
		g.forget() // it was asked about the others
	}
	return g.profiles[user.ID{Partition: p.log.Partition(), Number: number}], nil
}

// knownOf sets what rules of a version ask about one person of the page.
func (g *page) knownOf(ctx context.Context, p *part, v *version, person *step.Person) (err error) {
	if len(v.asks.needs) == 0 {
		return nil
	}
	if g.known[v] == nil {
		if g.known[v], err = p.mailOf(ctx, v, g.people); err != nil {
			return err
		}
	}
	person.Given.Known = g.known[v][person.ID]
	return nil
}
