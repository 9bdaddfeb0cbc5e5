package desk

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"sluice"
	"sluice/flow"
	"sluice/journey"
	"sluice/journey/env"
	"sluice/journey/plan"
	"sluice/lib/nearest"
	"sluice/store"
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

// StateOverdue asks for people whose time has come, and who have not gone on: the journey
// is paused, or too much is to be done.
const StateOverdue = "overdue"

// PeopleAsked says whom of a journey is asked for.
type PeopleAsked struct {
	Step  string // empty: any. With a step, those who are in it, unless a state is named
	State string // empty: any; StateOverdue: whose time has come
	After string // the next of the page before
	Limit int
}

// People returns a page of the people of a journey, by partition and number, and where
// the next one begins; empty: that was the last. What it says of each is of one moment,
// and who moves between two pages may be in both or in none. A step or a state that there
// is not is refused, and so is StateOverdue while a partition does not know where people are.
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
			return nil, "", sluice.Refuse(sluice.CodeInvalid, "after is %.32q, want the next of the page before", a.After)
		}
	}
	steps := stepNames{of: d.versions(&j)}
	if err := a.check(ctx, &j, &steps); err != nil {
		return nil, "", err
	}
	if a.State == StateOverdue && a.After == "" {
		if _, err := d.knownNotes(ctx); err != nil {
			return nil, "", err
		}
	}
	people = []Person{}
	now := d.Clock.Now()
	var unread error
	take := func(number int64, raw *flow.Record) bool {
		var r journey.Record
		if r.Decode(raw[:]) != nil {
			return true // of a newer program
		}
		r = r.AsOf(now)
		waits := r.Waits()
		if a.State != "" && a.State != r.State.String() && (a.State != StateOverdue || !isOverdue(&r, now.Unix())) {
			return true
		}
		p := Person{ID: user.ID{Partition: partition, Number: number}, State: r.State, Entered: int64(r.Entered) * 1000, Occurrence: int(r.Occurrence)}
		if p.Step, unread = steps.name(ctx, &r); unread != nil {
			return false
		}
		if waits {
			p.DueMillis = int64(r.Due) * 1000
		}
		if a.Step == "" || p.Step == a.Step {
			people = append(people, p)
		}
		return len(people) < a.Limit
	}
	for range peopleReadsPage {
		if partition >= d.Partitions {
			return people, "", nil
		}
		if after, err = d.Page(ctx, partition, j.Number, after, take); err != nil || unread != nil {
			return nil, "", errors.Join(err, unread)
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

// stepNames has the ids of the steps of versions that people are in, or were.
type stepNames struct {
	of   *env.Versions
	read map[int][]string // by version
}

// name is the id of the step of a record; empty: its version has no such step.
func (n *stepNames) name(ctx context.Context, r *journey.Record) (string, error) {
	number, err := n.of.Number(ctx, r)
	if err != nil || number == 0 {
		return "", err
	}
	ids, err := n.ids(ctx, number)
	if err != nil {
		return "", err
	}
	if int(r.Step) >= len(ids) {
		return "", nil
	}
	return ids[r.Step], nil
}

// ids are the steps of a version, by their places in its plan.
func (n *stepNames) ids(ctx context.Context, number int) ([]string, error) {
	if ids, ok := n.read[number]; ok {
		return ids, nil
	}
	v, err := n.of.Store.JourneyVersion(ctx, n.of.Journey, number)
	if err != nil {
		return nil, err
	}
	ids, err := stepIDs(v.Document)
	if err != nil {
		return nil, fmt.Errorf("read version %d of journey %d: %w", v.Version, v.Journey, err)
	}
	if n.read == nil || len(n.read) >= store.MaxVersionsInUse {
		n.read = make(map[int][]string)
	}
	n.read[number] = ids
	return ids, nil
}

// stepIDs are the ids of the steps of a version or a draft, in their order.
func stepIDs(document string) (ids []string, err error) {
	doc, err := plan.ParseVersion(document)
	if err != nil {
		return nil, err
	}
	for i := range doc.Steps {
		ids = append(ids, doc.Steps[i].ID)
	}
	return ids, nil
}

// states are those that people can be asked for by.
var states = []string{
	journey.StateInside.String(), journey.StateWatching.String(), journey.StateFinished.String(),
	journey.StateExited.String(), journey.StateControl.String(), StateOverdue,
}

// check refuses a state that there is not, and a step that neither the draft nor any
// version has that people may be in: as many of the last ones as may be in use.
func (a *PeopleAsked) check(ctx context.Context, j *store.Journey, steps *stepNames) error {
	if a.State != "" && !slices.Contains(states, a.State) {
		return sluice.Refuse(sluice.CodeInvalid, "there is no state %.64q%s", a.State, nearest.DidYouMean(a.State, states))
	}
	if a.Step == "" {
		return nil
	}
	known, err := stepIDs(j.Draft)
	if err != nil {
		return fmt.Errorf("read the draft of journey %s: %w", j.ID, err)
	}
	for number := j.Version; !slices.Contains(known, a.Step); number-- {
		if number <= max(j.Version-store.MaxVersionsInUse, 0) {
			return sluice.Refuse(sluice.CodeNotFound, "journey %s has no step %.64q%s", j.ID, a.Step, nearest.Hint(a.Step, known))
		}
		ids, err := steps.ids(ctx, number)
		if err != nil {
			return err
		}
		known = append(known, ids...)
	}
	return nil
}
