package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"sluice/journey"
	"sluice/journey/desk"
	"sluice/journey/plan"
	"sluice/journey/simulate"
	"sluice/user"
)

// Presets and bounds of journey simulate.
const (
	simulatedPeople = 10_000
	simulatedDays   = 30
	simulatedWays   = 3

	// simulatedPerDay is how often a made-up person does each thing that the journey
	// waits for, on average: three times in two months.
	simulatedPerDay = 0.05

	maxSimulatedOften = 3000    // times in 30 days
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

// safeLines is safeText of each line.
func safeLines(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = safeText(lines[i])
	}
	return strings.Join(lines, "\n")
}

// simulated is what is to be simulated.
func (c *call) simulated(ctx context.Context, name string) (*simulate.Input, error) {
	checked, err := c.simulatedPlan(ctx, name)
	if err != nil {
		return nil, err
	}
	c.warn(checked.Warnings)
	p := checked.Plan
	text, err := checked.Document.Text()
	if err != nil {
		return nil, err
	}
	mentioned, err := simulate.Mentions(text)
	if err != nil {
		return nil, err
	}
	from := c.main.own().Now().UTC().Truncate(time.Second)
	if text := c.given.text("from"); text != "" {
		if from, err = time.Parse(time.RFC3339, text); err != nil {
			return nil, usagef("journey simulate: --from: want a time such as 2026-12-01T00:00:00Z")
		}
	}
	days, people := simulatedDays, simulatedPeople
	if c.given.has("days") {
		days = c.given.number("days")
	}
	if c.given.has("people") {
		people = c.given.number("people")
	}
	in := &simulate.Input{Plan: p, From: from, Until: from.AddDate(0, 0, days), Reactions: c.reactions(), Caps: c.config.JourneyCaps(), Control: c.config.GlobalControlPercent}
	if who := c.given.text("who"); who != "" {
		if in.People, err = c.simulatedUser(ctx, who); err != nil {
			return nil, err
		}
	} else {
		crowd := simulate.Crowd{People: people, Seed: uint64(c.given.number("seed")), SeenBefore: from, Attributes: mentioned.Attributes,
			Events: mentioned.Events, Products: mentioned.Products}
		in.People = crowd.Make()
	}
	for i := range min(simulate.MaxSamples, len(in.People)) {
		in.Samples = append(in.Samples, i)
	}
	if file := c.given.text("events"); file != "" {
		in.Happenings, err = c.simulatedEvents(file, in.People)
		return in, err
	}
	habits := habitsOf(p, mentioned)
	if err := c.often(habits); err != nil {
		return nil, err
	}
	in.Happenings = simulate.Happen(len(in.People), habits, in.From, in.Until, uint64(c.given.number("seed")))
	return in, nil
}

// reactions are what people do with mail.
func (c *call) reactions() simulate.Reactions {
	share := func(flag string) float64 {
		if !c.given.has(flag) {
			return 0
		}
		return float64(c.given.number(flag)) / 100
	}
	return simulate.Reactions{Opens: share("opens"), Clicks: share("clicks"), Seed: uint64(c.given.number("seed"))}
}

// simulatedPlan reads a journey: a file, without a database, or the draft of an id.
func (c *call) simulatedPlan(ctx context.Context, name string) (*desk.Checked, error) {
	if journey.ValidID(name) {
		db, err := c.store(ctx)
		if err != nil {
			return nil, err
		}
		return c.desk(ctx, db).SimulatedDraft(ctx, name)
	}
	w, err := c.journeyFile(name)
	if err != nil {
		return nil, err
	}
	checked, err := desk.ValidateAlone(w)
	if err != nil {
		return nil, ofFile(name, err)
	}
	return checked, nil
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

// habitsOf have people do what a journey waits for, with the properties that its rules
// ask for.
func habitsOf(p *plan.Plan, m *simulate.Mentioned) (habits []simulate.Habit) {
	names := p.Names()
	for _, name := range names.Events {
		habits = append(habits, simulate.Habit{Fact: journey.Fact{Kind: journey.FactEvent, Name: name}, PerDay: simulatedPerDay, Properties: m.Properties})
	}
	for _, name := range names.Purchases {
		if name == journey.Any {
			name = "product"
		}
		habits = append(habits, simulate.Habit{Fact: journey.Fact{Kind: journey.FactPurchase, Name: name, Body: `{"currency":"EUR","price":10}`}, PerDay: simulatedPerDay})
	}
	return habits
}

// often takes over how often people do what.
func (c *call) often(habits []simulate.Habit) error {
	for part := range strings.SplitSeq(c.given.text("often"), ",") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		name, times, _ := strings.Cut(part, "=")
		n, err := strconv.ParseFloat(times, 64)
		if err != nil || math.IsNaN(n) || n < 0 || n > maxSimulatedOften {
			return usagef("journey simulate: --often: want NAME=TIMES, at most %d times in 30 days, got %.64q", maxSimulatedOften, part)
		}
		i := slices.IndexFunc(habits, func(h simulate.Habit) bool { return h.Fact.Name == strings.TrimSpace(name) })
		if i < 0 {
			return usagef("journey simulate: --often: the journey asks for no event and no product %.64q", name)
		}
		habits[i].PerDay = n / 30
	}
	return nil
}

// simulatedEvent is a line of --events.
type simulatedEvent struct {
	ExternalID string          `json:"external_id"`
	Time       time.Time       `json:"time"`
	Name       string          `json:"name"`
	ProductID  string          `json:"product_id"`
	Properties json.RawMessage `json:"properties"`
}

// simulatedEvents reads what people do, a JSON object a line.
func (c *call) simulatedEvents(file string, people []simulate.Person) (all []simulate.Happening, err error) {
	text, err := c.readUpTo(file, "events", maxSimulatedBytes, "; give fewer")
	if err != nil {
		return nil, err
	}
	byName := make(map[string]int, len(people))
	for i := range people {
		byName[people[i].Name] = i
	}
	lines := bufio.NewScanner(strings.NewReader(text))
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		var e simulatedEvent
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil || (e.Name == "") == (e.ProductID == "") || e.Time.IsZero() {
			return nil, errors.Join(fmt.Errorf("read events %s: line %d: want external_id, time, and name or product_id", file, n), err)
		}
		i, known := byName[e.ExternalID]
		if !known {
			continue
		}
		f := journey.Fact{Kind: journey.FactEvent, Name: e.Name, Body: string(e.Properties)}
		if e.ProductID != "" {
			f = journey.Fact{Kind: journey.FactPurchase, Name: e.ProductID, Body: `{"currency":"EUR","price":0}`}
		}
		all = append(all, simulate.Happening{Person: i, At: e.Time, Fact: f})
	}
	return slices.Clip(all), lines.Err()
}
