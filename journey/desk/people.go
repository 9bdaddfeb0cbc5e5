package desk

import (
	"context"
	"fmt"

	"sluice"
	"sluice/flow"
	"sluice/journey"
	"sluice/journey/plan"
	"sluice/user"
)

// Person is somebody in a journey.
type Person struct {
	ID         user.ID
	State      journey.State
	Step       string
	DueMillis  int64 // 0: when something happens
	Entered    int64 // milliseconds
	Occurrence int
}

// PageOfRecords hands on people of a journey in one partition (flow.Log.PageOfRecords).
type PageOfRecords func(ctx context.Context, partition int, journey, after int64, f func(number int64, r *flow.Record) bool) (next int64, err error)

// Bounds of a page of people: how many it has, and how many chunks of records are looked
// through for it, 256 KiB each. A page that looks through so many has fewer people.
const (
	MaxPeoplePage   = 100
	peopleReadsPage = 64
)

// PeopleAsked says whom of a journey is asked for.
type PeopleAsked struct {
	Step  string // empty: any. With a step, those who are in it, unless a state is named
	State string // empty: any
	After string // the next of the page before
	Limit int
}

// People returns a page of the people of a journey, by partition and number, and where
// the next one begins; empty: that was the last. What it says of each is of one moment,
// and who moves between two pages may be in both or in none.
func (d *Desk) People(ctx context.Context, id string, a PeopleAsked) (people []Person, next string, err error) {
	j, err := d.at(ctx, id, -1)
	if err != nil {
		return nil, "", err
	}
	if a.State == "" && a.Step != "" {
		a.State = journey.StateInside.String()
	}
	partition, after := 0, int64(0)
	if a.After != "" {
		if n, err := fmt.Sscanf(a.After, "%d-%d", &partition, &after); n != 2 || err != nil || partition < 0 || after < 0 {
			return nil, "", refusal(sluice.CodeInvalid, "after is %.32q, want the next of the page before", a.After)
		}
	}
	steps, err := d.stepNames(ctx, j.Number)
	if err != nil {
		return nil, "", err
	}
	people = []Person{}
	take := func(number int64, raw *flow.Record) bool {
		var r journey.Record
		if r.Decode(raw[:]) != nil {
			return true // of a newer program
		}
		p := Person{ID: user.ID{Partition: partition, Number: number}, State: r.State, Entered: int64(r.Entered) * 1000, Occurrence: int(r.Occurrence)}
		if ids := steps[r.Version]; int(r.Step) < len(ids) {
			p.Step = ids[r.Step]
		}
		if r.Waits() {
			p.DueMillis = int64(r.Due) * 1000
		}
		if (a.Step == "" || p.Step == a.Step) && (a.State == "" || p.State.String() == a.State) {
			people = append(people, p)
		}
		return len(people) < a.Limit
	}
	for range peopleReadsPage {
		if partition >= d.Partitions {
			return people, "", nil
		}
		if after, err = d.Page(ctx, partition, j.Number, after, take); err != nil {
			return nil, "", err
		}
		if after == 0 {
			partition++
		}
		if len(people) >= a.Limit {
			break
		}
	}
	if partition >= d.Partitions {
		return people, "", nil
	}
	return people, fmt.Sprintf("%d-%d", partition, after), nil
}

// stepNames are the ids of the steps of each version in use, by its place in records.
func (d *Desk) stepNames(ctx context.Context, number int64) (map[uint8][]string, error) {
	used, err := d.Database.Journeys.VersionsInUse(ctx)
	if err != nil {
		return nil, err
	}
	names := make(map[uint8][]string)
	for _, v := range used {
		if v.Journey != number {
			continue
		}
		doc, err := plan.ParseJSON(v.Document)
		if err != nil {
			return nil, fmt.Errorf("read version %d of journey %d: %w", v.Version, number, err)
		}
		for i := range doc.Steps {
			names[uint8(v.Version)] = append(names[uint8(v.Version)], doc.Steps[i].ID)
		}
	}
	return names, nil
}
