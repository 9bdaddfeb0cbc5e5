package simulate

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"sluice/journey"
	"sluice/lib/jsonscan"
	"sluice/user"
	"sluice/user/profile"
)

// changed is a profile after a fact.
func changed(text string, f *journey.Fact, now time.Time) string {
	if f.Kind != journey.FactEvent && f.Kind != journey.FactPurchase && f.Kind != journey.FactAttributes && f.Kind != journey.FactGroups {
		if f.Kind == journey.FactDeleted || f.Kind == journey.FactMerged {
			return ""
		}
		return text
	}
	p, err := profile.Parse(text)
	if err != nil {
		return text
	}
	switch ms := now.UnixMilli(); f.Kind {
	case journey.FactEvent:
		p.CountEvent(f.Name, ms)
	case journey.FactPurchase:
		buy(p, f, ms)
	case journey.FactAttributes, journey.FactGroups:
		for m := jsonscan.Read(f.Body); m.Next(); {
			after := second(m.Value)
			if f.Kind == journey.FactGroups {
				p.SetGroup(m.Key, after.Kind == jsonscan.String && after.Text() == "subscribed", ms)
			} else if object, err := profile.Check("{" + profile.Quoted(m.Key) + ":" + rawOrNull(after) + "}"); err == nil {
				p.SetAttributes(object, ms)
			}
		}
	}
	return string(p.Append(nil))
}

// second is the second of a pair.
func second(pair jsonscan.Value) (v jsonscan.Value) {
	if pair.Kind != jsonscan.Array {
		return v
	}
	e := jsonscan.ReadArray(pair.Raw)
	for i := 0; e.Next(); i++ {
		if i == 1 {
			v = e.Value
		}
	}
	return v
}

func rawOrNull(v jsonscan.Value) string {
	if v.Kind == jsonscan.None {
		return "null"
	}
	return v.Raw
}

func buy(p *profile.Profile, f *journey.Fact, ms int64) {
	currency, micros, quantity := "", int64(0), int64(1)
	for m := jsonscan.Read(f.Body); m.Next(); {
		switch m.Key {
		case "currency":
			currency = m.Value.Text()
		case "price":
			if price, err := strconv.ParseFloat(m.Value.Raw, 64); err == nil {
				micros = int64(math.Round(price * 1e6))
			}
		case "quantity":
			if n, err := strconv.ParseInt(m.Value.Raw, 10, 64); err == nil {
				quantity = n
			}
		}
	}
	p.CountPurchase(f.Name, currency, micros, quantity, ms)
}

// update changes a profile as a step says. What it changes is a fact like others.
func (r *runner) update(person int32, at int, now time.Time) {
	before, err := profile.Parse(r.profiles[person])
	if err != nil {
		return
	}
	after := before.Clone()
	object := r.in.Plan.Steps[at].Update
	if !after.SetAttributes(object, now.UnixMilli()) {
		return
	}
	r.profiles[person] = string(after.Append(nil))
	var attributes, groups changes
	for m := jsonscan.Read(object); m.Next(); {
		attributes.add(m.Key, attribute(before, m.Key), attribute(after, m.Key))
	}
	for i := range after.Groups {
		g := &after.Groups[i]
		groups.add(g.ID, groupState(before, g.ID), profile.Quoted(g.State()))
	}
	soon := now.Add(receivedAfter)
	r.followChanges(person, soon, journey.FactAttributes, attributes)
	r.followChanges(person, soon, journey.FactGroups, groups)
}

func (r *runner) followChanges(person int32, at time.Time, kind journey.FactKind, all changes) {
	if all != "" {
		r.follows(person, at, journey.Fact{Kind: kind, Body: "{" + string(all[1:]) + "}"})
	}
}

// changes are the members of a fact's body, each behind a comma.
type changes string

func (c *changes) add(name, was, is string) {
	if was != is {
		*c += changes("," + profile.Quoted(name) + ":[" + was + "," + is + "]")
	}
}

// groupState is the JSON of what a user has said about a group, null if nothing.
func groupState(p *profile.Profile, id string) string {
	for i := range p.Groups {
		if p.Groups[i].ID == id {
			return profile.Quoted(p.Groups[i].State())
		}
	}
	return "null"
}

// attribute is the JSON of one, null if there is none.
func attribute(p *profile.Profile, name string) string {
	raw := p.Custom.Get(name)
	if profile.IsField(name) {
		raw = p.Fields.Get(name)
	}
	if raw == "" {
		return "null"
	}
	return raw
}

// zoneName is the zone that a profile has, empty: none.
func zoneName(text string) string {
	p, err := profile.Parse(text)
	if err != nil {
		return ""
	}
	v, err := jsonscan.Scan(p.Fields.Get("time_zone"))
	if err != nil || v.Kind != jsonscan.String || profile.Zone(v.Text()) == nil {
		return ""
	}
	return v.Text()
}

// Crowd makes people up. The same one makes the same people.
type Crowd struct {
	People     int
	Seed       uint64
	Partitions int // that they are spread over; 0: one

	// Attributes are values that people may have, as JSON, by names of attributes,
	// standard or custom. Each value is as likely as another; an empty one is none.
	Attributes map[string][]string

	// Events and Products are what half of the people have done, or bought, once since
	// they were first seen.
	Events, Products []string

	SeenBefore time.Time // they were first seen within two years before
}

// usual are values that people have unless others are said.
var usual = []struct {
	name   string
	values []string
}{
	{"country", []string{`"AT"`, `"BR"`, `"DE"`, `"IN"`, `"US"`}},
	{"email_subscribe", []string{"", "", "", `"opted_in"`, `"unsubscribed"`}},
	{"first_name", []string{`"Ana"`, `"Ben"`, `"Chen"`, `"Divya"`, `"Emil"`, ""}},
	{"language", []string{`"de"`, `"en"`, `"pt"`}},
	{"time_zone", []string{"", `"America/New_York"`, `"America/Sao_Paulo"`, `"Asia/Kolkata"`, `"Europe/Berlin"`}},
}

// Make makes the people.
func (c *Crowd) Make() []Person {
	all := make([]Person, min(c.People, MaxPeople))
	parts := max(c.Partitions, 1)
	for i := range all {
		random := rand.New(rand.NewPCG(c.Seed, uint64(i)))
		p := profile.Profile{ExternalID: fmt.Sprint("person-", i+1), CreatedMillis: c.SeenBefore.Add(-time.Duration(random.Int64N(int64(2 * 365 * 24 * time.Hour)))).UnixMilli()}
		p.Fields.Set("email", profile.Quoted(p.ExternalID+"@example.com"))
		for _, u := range usual {
			if _, said := c.Attributes[u.name]; !said {
				p.Fields.Set(u.name, u.values[random.IntN(len(u.values))])
			}
		}
		for _, name := range sortedNames(c.Attributes) {
			values := c.Attributes[name]
			raw := values[random.IntN(len(values))]
			if profile.IsField(name) {
				p.Fields.Set(name, raw)
			} else {
				p.Custom.Set(name, raw)
			}
		}
		c.past(&p, random)
		all[i] = Person{Name: p.ExternalID, ID: user.ID{Partition: i % parts, Number: int64(i/parts) + 1}, Profile: string(p.Append(nil))}
	}
	return all
}

// past gives a person what has happened before.
func (c *Crowd) past(p *profile.Profile, random *rand.Rand) {
	once := func(does func(ms int64)) {
		if age := c.SeenBefore.UnixMilli() - p.CreatedMillis; random.IntN(2) == 0 {
			does(p.CreatedMillis + random.Int64N(age+1))
		}
	}
	for _, name := range c.Events {
		once(func(ms int64) { p.CountEvent(name, ms) })
	}
	for _, name := range c.Products {
		if name == journey.Any {
			name = "product"
		}
		once(func(ms int64) { p.CountPurchase(name, "EUR", 10_000_000, 1, ms) })
	}
}

// Habit is something that people do now and then: so many times a day on average, each
// time by itself.
type Habit struct {
	Fact   journey.Fact
	PerDay float64

	// Properties are values, as JSON, of which each time has one: all are as likely, and
	// an empty one is none. They need a body without properties.
	Properties map[string][]string
}

// body is that of the fact, with properties by chance. Those of a purchase that are members
// of it take the place of these.
func (h *Habit) body(names []string, random *rand.Rand) string {
	var own, ofPurchase strings.Builder
	for _, name := range names {
		v := h.Properties[name][random.IntN(len(h.Properties[name]))]
		switch {
		case v == "", h.Fact.Kind == journey.FactPurchase && name == "product":
		case h.Fact.Kind == journey.FactPurchase && (name == "currency" || name == "price" || name == "quantity"):
			ofPurchase.WriteString("," + profile.Quoted(name) + ":" + v) // of two of a name the last one counts
		default:
			own.WriteString("," + profile.Quoted(name) + ":" + v)
		}
	}
	if own.Len()+ofPurchase.Len() == 0 {
		return h.Fact.Body
	}
	properties := ""
	if own.Len() > 0 {
		properties = "{" + own.String()[1:] + "}"
	}
	if h.Fact.Kind != journey.FactPurchase {
		return properties
	}
	if properties != "" {
		properties = `,"properties":` + properties
	}
	return strings.TrimSuffix(h.Fact.Body, "}") + ofPurchase.String() + properties + "}"
}

// Happen makes up what people do in a time, MaxHappenings at most.
func Happen(people int, habits []Habit, from, until time.Time, seed uint64) (all []Happening) {
	const day = float64(24 * time.Hour)
	for n, h := range habits {
		if h.PerDay <= 0 {
			continue
		}
		names := sortedNames(h.Properties)
		for i := range people {
			random := rand.New(rand.NewPCG(seed+uint64(n), uint64(i)))
			values := random
			if h.Fact.Kind == journey.FactPurchase { // when people buy does not depend on what rules ask for
				values = rand.New(rand.NewPCG(seed+uint64(n), uint64(people+i)))
			}
			for at := from; len(all) < MaxHappenings; {
				wait := random.ExpFloat64() / h.PerDay * day
				if wait >= float64(until.Sub(at)) {
					break
				}
				at = at.Add(time.Duration(wait))
				f := h.Fact
				f.Body = h.body(names, values)
				all = append(all, Happening{i, at, f})
			}
		}
	}
	return all
}

func sortedNames(m map[string][]string) (names []string) {
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
