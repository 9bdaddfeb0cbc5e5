package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"sluice/journey"
	"sluice/journey/desk"
	"sluice/journey/plan"
	"sluice/journey/simulate"
	"sluice/user"
)

const (
	simulatedWays     = 3
	maxSimulatedBytes = 1 << 30 // of --events
)

// journeySimulate carries a journey out in memory, and tells what came of it.
func (c *call) journeySimulate(ctx context.Context, name string) error {
	in, err := c.simulated(ctx, name)
	if err != nil {
		return err
	}
	o, err := simulate.Run(ctx, *in)
	if err != nil {
		return err
	}
	o.KeepWays(simulatedWays)
	if c.given.has("json") {
		return c.printJSON(o)
	}
	_, err = io.WriteString(c.main.Stdout, safeLines(o.String()))
	return err
}

// simulated is what is to be simulated.
func (c *call) simulated(ctx context.Context, name string) (*simulate.Input, error) {
	checked, err := c.simulatedPlan(ctx, name)
	if err != nil {
		return nil, err
	}
	c.warn(checked.Warnings)
	try, err := checked.Try()
	if err != nil {
		return nil, err
	}
	try.From = c.main.own().Now().UTC().Truncate(time.Second)
	if text := c.given.text("from"); text != "" {
		if try.From, err = time.Parse(time.RFC3339, text); err != nil {
			return nil, usagef("journey simulate: --from: want a time such as 2026-12-01T00:00:00Z")
		}
	}
	for flag, to := range map[string]*int{"days": &try.Days, "people": &try.People, "opens": &try.Opens, "clicks": &try.Clicks} {
		if c.given.has(flag) {
			*to = c.given.number(flag)
		}
	}
	try.Seed, try.Often, try.Still = uint64(c.given.number("seed")), c.given.text("often"), c.given.has("events")
	try.Caps, try.Control = c.config.JourneyCaps(), c.config.GlobalControlPercent
	if try.Real, err = c.simulatedPeople(ctx); err != nil {
		return nil, err
	}
	in, err := try.Input()
	if err != nil {
		return nil, usagef("journey simulate: --%v", err)
	}
	if file := c.given.text("events"); file != "" {
		in.Happenings, err = c.simulatedEvents(file, in)
	}
	return in, err
}

// simulatedPlan reads a journey: a file, or the draft of an id. A file needs no database,
// unless people of it are asked for: their segments must be the real ones.
func (c *call) simulatedPlan(ctx context.Context, name string) (*desk.Checked, error) {
	isDraft := name != "-" && journey.ValidID(name)
	var w desk.Written
	var err error
	if !isDraft {
		if w, err = c.journeyFile(name); err != nil {
			return nil, err
		}
	}
	if !isDraft && !c.given.has("who") && !c.given.has("sample") {
		checked, err := desk.ValidateAlone(w)
		if err != nil {
			return nil, ofFile(name, err)
		}
		checked.Warnings = append(checked.Warnings, ofUnknownClass(checked.Document)...)
		return checked, nil
	}
	db, err := c.store(ctx)
	if err != nil {
		return nil, err
	}
	checked, err := c.desk(ctx, db).Simulated(ctx, name, w)
	return checked, ofFile(name, err)
}

// ofUnknownClass warns of messages that have the class of their template, where templates are
// not looked up: caps, quiet hours and the control group of all journeys go by it.
func ofUnknownClass(d *plan.Document) (all []desk.Warning) {
	for i := range d.Steps {
		if m := d.Steps[i].Message; m != nil && m.Template != "" && m.Class == "" {
			all = append(all, desk.Warning{Place: "steps." + d.Steps[i].ID + ".message.class", Says: "templates are not looked up here, and this message is taken for marketing; give it a class, or simulate the draft by its id"})
		}
	}
	return all
}

// simulatedPeople are those of the database who are asked for; nil: none are.
func (c *call) simulatedPeople(ctx context.Context) ([]simulate.Person, error) {
	who := c.given.text("who")
	switch {
	case who != "" && c.given.has("sample"):
		return nil, usagef("journey simulate: give --who or --sample, not both")
	case who != "":
		return c.simulatedUser(ctx, who)
	case !c.given.has("sample"):
		return nil, nil
	}
	db, err := c.store(ctx)
	if err != nil {
		return nil, err
	}
	people, err := simulate.Sample(ctx, db, c.config.Partitions, c.given.number("sample"), uint64(c.given.number("seed")))
	if err == nil && len(people) == 0 {
		err = errors.New("journey simulate: --sample: there are no users in the database")
	}
	return people, err
}

// simulatedUser is somebody of the database.
func (c *call) simulatedUser(ctx context.Context, name string) ([]simulate.Person, error) {
	db, err := c.store(ctx)
	if err != nil {
		return nil, err
	}
	key := user.Key{Kind: user.KeyExternal, Name: name}
	found, err := db.Users(ctx, user.Query{Keys: []user.Key{key}})
	if err != nil {
		return nil, err
	}
	for _, id := range found.ByKey[key] {
		if row, ok := found.Owner(id); ok {
			return []simulate.Person{{Name: name, ID: row.ID, Profile: row.Profile}}, nil
		}
	}
	return nil, fmt.Errorf("journey simulate: there is no user %.64q", name)
}

// simulatedEvent is a line of --events.
type simulatedEvent struct {
	ExternalID string          `json:"external_id"`
	Time       time.Time       `json:"time"`
	Name       string          `json:"name"`
	ProductID  string          `json:"product_id"`
	Properties json.RawMessage `json:"properties"`

	// Context: a call lets the person in, with this object. Attributes: each changes from the
	// first of two values to the second.
	Context    map[string]json.RawMessage    `json:"context"`
	Attributes map[string][2]json.RawMessage `json:"attributes"`

	// Of a purchase; 0 EUR if nothing is said.
	Currency json.RawMessage `json:"currency"`
	Price    json.RawMessage `json:"price"`
	Quantity json.RawMessage `json:"quantity"`
}

const simulatedEventWants = "want external_id, time, and one of name, product_id, context and attributes"

// fact is what a line says; false: nothing, or too much.
func (e *simulatedEvent) fact() (f journey.Fact, ok bool) {
	said := 0
	take := func(is bool, fact func() journey.Fact) {
		if is {
			f = fact()
			said++
		}
	}
	take(e.Name != "", func() journey.Fact {
		return journey.Fact{Kind: journey.FactEvent, Name: e.Name, Body: string(e.Properties)}
	})
	take(e.ProductID != "", func() journey.Fact {
		return journey.Fact{Kind: journey.FactPurchase, Name: e.ProductID, Body: e.purchase()}
	})
	take(e.Context != nil, func() journey.Fact { return journey.Fact{Name: "api", Body: jsonText(e.Context)} })
	take(len(e.Attributes) > 0, func() journey.Fact {
		return journey.Fact{Kind: journey.FactAttributes, Body: jsonText(e.Attributes)}
	})
	return f, said == 1 && !e.Time.IsZero()
}

// jsonText writes what was read as JSON; what is missing in a list is null.
func jsonText(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// purchase is the body of its fact.
func (e *simulatedEvent) purchase() string {
	body := map[string]json.RawMessage{"currency": json.RawMessage(`"EUR"`), "price": json.RawMessage("0")}
	for name, raw := range map[string]json.RawMessage{"currency": e.Currency, "price": e.Price, "quantity": e.Quantity, "properties": e.Properties} {
		if raw != nil {
			body[name] = raw
		}
	}
	return jsonText(body)
}

// simulatedEvents reads what people do, a JSON object a line.
func (c *call) simulatedEvents(file string, in *simulate.Input) (all []simulate.Happening, err error) {
	text, err := c.readUpTo(file, "events", maxSimulatedBytes, "; give fewer")
	if err != nil {
		return nil, err
	}
	byName := make(map[string]int, len(in.People))
	for i := range in.People {
		byName[in.People[i].Name] = i
	}
	called := slices.ContainsFunc(in.Plan.Entry.When, func(on plan.On) bool { return on.Kind == plan.OnAPI })
	lines := bufio.NewScanner(strings.NewReader(text))
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		var e simulatedEvent
		err := json.Unmarshal(lines.Bytes(), &e)
		f, ok := e.fact()
		if err != nil || !ok {
			return nil, errors.Join(fmt.Errorf("read events %s: line %d: %s", file, n, simulatedEventWants), err)
		}
		if e.Context != nil && !called {
			return nil, fmt.Errorf("read events %s: line %d: the journey lets nobody in by a call: it has no {api: true} in entry.when", file, n)
		}
		i, known := byName[e.ExternalID]
		if !known {
			continue
		}
		all = append(all, simulate.Happening{Person: i, At: e.Time, Fact: f})
	}
	return slices.Clip(all), lines.Err()
}
