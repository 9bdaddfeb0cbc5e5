package api

import (
	"context"
	"errors"
	"strconv"
	"time"

	"sluice"
	"sluice/journey/desk"
	"sluice/journey/simulate"
)

const journeySimulatePath = journeyPath + "/simulate"

// Bounds of a simulation that a caller waits for. Larger ones are for the command.
const (
	simulatedPeople     = 1000 // if nothing is said
	maxSimulatedPeople  = 10_000
	maxSimulatedDays    = 366
	maxSimulatedFacts   = 500_000   // some 200 bytes each
	maxSimulatedBytes   = 128 << 20 // of values that are made up
	maxSimulatedSeed    = 1_000_000
	maxSimulatedWays    = 10
	maxSimulatedTime    = 10 * time.Second
	parallelSimulations = 1 // each takes a whole core
)

var errSimulatedTooLong = errors.New("the simulation takes longer than ten seconds")

// journeySimulated is what came of a simulation.
type journeySimulated struct {
	From     string         `json:"from"`
	To       string         `json:"to"`
	People   int            `json:"people"`
	Warnings []desk.Warning `json:"warnings"`
	*simulate.Outcome
}

// simulateJourney is POST /v1/journeys/{id}/simulate: of the document that is sent, of the
// draft if none is.
func (q *request) simulateJourney() (any, error) {
	try, err := q.wantedTry()
	if err != nil {
		return nil, err
	}
	w, done, err := q.written()
	if err != nil {
		return nil, err
	}
	checked, err := q.Journeys.Simulated(q.Context(), q.PathValue("id"), w)
	done()
	if err != nil {
		return nil, err
	}
	if err := q.sameID(checked); err != nil {
		return nil, err
	}
	if done, err = takeAny(q.s.simulations, "journeys are being simulated"); err != nil {
		return nil, err
	}
	defer done()
	of, err := checked.Try()
	if err != nil {
		return nil, err
	}
	try.Plan, try.Document = of.Plan, of.Document
	try.Caps, try.Control = q.Journeys.Caps, q.Journeys.Control
	ctx, cancel := context.WithTimeoutCause(q.Context(), maxSimulatedTime, errSimulatedTooLong)
	defer cancel()
	in, err := try.Input()
	if err != nil {
		return nil, refusal(sluice.CodeInvalid, "%v", err)
	}
	in.MaxFollowing = maxSimulatedFacts
	o, err := simulate.Run(ctx, *in)
	if errors.Is(err, errSimulatedTooLong) {
		return nil, refusal(sluice.CodeTooLarge, "%v; take fewer people or days", errSimulatedTooLong)
	}
	if err != nil {
		return nil, refusal(sluice.CodeInvalid, "%v", err)
	}
	o.KeepWays(maxSimulatedWays)
	return journeySimulated{in.From.Format(time.RFC3339), in.Until.Format(time.RFC3339), len(in.People), checked.Warnings, o}, nil
}

// wantedTry reads what the query says about a simulation.
func (q *request) wantedTry() (try simulate.Try, err error) {
	try = simulate.Try{From: q.s.clock.Now().UTC().Truncate(time.Second), Often: q.query.Get("often"), MaxHappenings: maxSimulatedFacts, MaxBytes: maxSimulatedBytes}
	if text := q.query.Get("from"); text != "" {
		if try.From, err = time.Parse(time.RFC3339, text); err != nil {
			return try, refusal(sluice.CodeInvalid, "from is %.64q, want a time such as 2026-12-01T00:00:00Z", text)
		}
		try.From = try.From.UTC()
	}
	seed := 0
	for _, n := range []struct {
		name         string
		to           *int
		preset, most int
	}{
		{"people", &try.People, simulatedPeople, maxSimulatedPeople}, {"days", &try.Days, simulate.PresetDays, maxSimulatedDays}, {"seed", &seed, 1, maxSimulatedSeed},
	} {
		if *n.to, err = q.query.number(n.name, n.preset, n.most); err != nil {
			return try, err
		}
	}
	try.Seed = uint64(seed)
	if try.Opens, err = q.query.percent("opens"); err == nil {
		try.Clicks, err = q.query.percent("clicks")
	}
	if err != nil || !q.query.Has("user") {
		return try, err
	}
	row, p, err := q.named()
	if err != nil {
		return try, err
	}
	name := p.ExternalID
	if name == "" {
		name = row.ID.String()
	}
	try.Real = []simulate.Person{{Name: name, ID: row.ID, Profile: row.Profile}}
	return try, nil
}

// percent reads a whole number from 0 to 100; 0: it is not given.
func (q query) percent(name string) (int, error) {
	text := q.Get(name)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > 100 || text[0] == '+' || text[0] == '-' {
		return 0, refusal(sluice.CodeInvalid, "%s is %.32q, want 0 to 100", name, text)
	}
	return n, nil
}
