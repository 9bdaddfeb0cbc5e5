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
	"sluice/store"
	"sluice/user"
)

// Shown is a journey with all that is known of it.
type Shown struct {
	Journey  store.Journey
	Document string                 // JSON: the draft
	Used     []store.JourneyVersion // versions that people may be inside, the oldest first
	Counts   *Counts

	// Stays are the steps at which people stay who are due. StaysUnknown is why it is not
	// known: they are in Redis, which may be away when all else is there.
	Stays        Stays
	StaysUnknown error
}

// Show returns a journey. version 0: its draft; else a version that was published.
func (d *Desk) Show(ctx context.Context, id string, version int) (*Shown, error) {
	j, err := d.at(ctx, id, -1)
	if err != nil {
		return nil, err
	}
	s := &Shown{Journey: j, Document: j.Draft}
	if version > 0 {
		v, err := d.Database.Journeys.JourneyVersion(ctx, j.Number, version)
		if e, ok := errors.AsType[*sluice.Error](err); ok && e.Code == sluice.CodeNotFound {
			return nil, sluice.Refuse(sluice.CodeNotFound, "journey %s has no version %d", id, version)
		}
		if err != nil {
			return nil, err
		}
		s.Document, _ = plan.SplitVersion(v.Document)
	}
	doc, err := plan.ParseJSON(s.Document)
	if err != nil {
		return nil, fmt.Errorf("read the document of journey %s: %w", id, err)
	}
	if s.Used, err = d.used(ctx, &j); err != nil {
		return nil, err
	}
	if s.Counts, err = d.counts(ctx, &j, doc); err != nil {
		return nil, err
	}
	if s.StaysUnknown = d.countInSteps(ctx, &j, s.Counts); s.StaysUnknown == nil {
		s.Stays, s.StaysUnknown = d.stays(ctx, &j, doc, s.Counts)
	}
	s.Counts.addBranches(doc)
	return s, nil
}

// Draft returns a journey with its draft as it is kept, without reading more.
func (d *Desk) Draft(ctx context.Context, id string) (store.Journey, error) { return d.at(ctx, id, -1) }

// listedAtOnce are read by one statement: each may have a draft of 256 KiB.
const listedAtOnce = 50

// List returns journeys in the order of their ids, after one: limit of them at most.
func (d *Desk) List(ctx context.Context, after string, archived bool, limit int) (all []store.Journey, err error) {
	for len(all) < limit {
		page, err := d.Database.Journeys.Journeys(ctx, after, listedAtOnce)
		if err != nil {
			return nil, err
		}
		for _, j := range page {
			after, j.Draft = j.ID, ""
			if (archived || j.Status != journey.StatusArchived) && len(all) < limit {
				all = append(all, j)
			}
		}
		if len(page) < listedAtOnce {
			break
		}
	}
	return all, nil
}

// Place is where a person is in a journey, or was last.
type Place struct {
	Journey    string
	Name       string
	Status     string // of the journey
	Version    int
	State      journey.State
	Step       string // its id
	StepName   string
	DueMillis  int64 // when the person is looked at next; 0: when something happens
	Entered    int64 // milliseconds
	Occurrence int   // how often the person had entered before

	// Path is the way of this occurrence up to the step; nil: it is not known.
	Path []PathStep
}

// Records reads the record of a person in a journey, by its number.
type Records func(ctx context.Context, id user.ID, journey int64) (flow.Record, error)

// Ways reads the branches that a person took in a journey, by its number.
type Ways func(ctx context.Context, id user.ID, journey int64) ([]int, error)

// PlacesOf returns where a person is, in the order of the ids of journeys. Journeys that
// the person never entered are left out. It refuses while the person's partition does not know
// where people are: else it would seem that the person has entered none.
func (d *Desk) PlacesOf(ctx context.Context, id user.ID) ([]Place, error) {
	all, err := d.List(ctx, "", true, store.MaxJourneys)
	if err != nil {
		return nil, err
	}
	places := []Place{}
	if slices.ContainsFunc(all, func(j store.Journey) bool { return j.Version > 0 }) {
		known, err := d.isKnownIn(ctx, id.Partition)
		if err != nil {
			return nil, err
		}
		if !known {
			return nil, unknownIn(id.Partition, "")
		}
	}
	for i := range all {
		j := &all[i]
		if j.Version == 0 {
			continue
		}
		found, err := d.Records(ctx, id, j.Number)
		if err != nil {
			return nil, err
		}
		if found.IsZero() {
			continue
		}
		var r journey.Record
		if err := r.Decode(found[:]); err != nil {
			return nil, fmt.Errorf("user %s in journey %s: %w", id, j.ID, err)
		}
		r = r.AsOf(d.Clock.Now())
		place, err := d.place(ctx, id, j, &r)
		if err != nil {
			return nil, err
		}
		places = append(places, place)
	}
	return places, nil
}

// place says where a record is. Of a version that the database has lost, because it has
// gone back, the steps are not known.
func (d *Desk) place(ctx context.Context, id user.ID, j *store.Journey, r *journey.Record) (p Place, err error) {
	p = Place{
		Journey: j.ID, Name: j.Name, Status: j.Status, State: r.State,
		DueMillis: int64(r.Due) * 1000, Entered: int64(r.Entered) * 1000, Occurrence: int(r.Occurrence),
	}
	if !r.Waits() {
		p.DueMillis = 0
	}
	if p.Version, err = d.versions(j).Number(ctx, r); err != nil || p.Version == 0 {
		return p, err
	}
	v, err := d.Database.Journeys.JourneyVersion(ctx, j.Number, p.Version)
	if err != nil {
		return p, err
	}
	doc, err := plan.ParseVersion(v.Document)
	if err != nil {
		return p, fmt.Errorf("read version %d of journey %s: %w", v.Version, j.ID, err)
	}
	if int(r.Step) >= len(doc.Steps) {
		return p, fmt.Errorf("version %d of journey %s has %d steps, and a record names step %d", v.Version, j.ID, len(doc.Steps), r.Step)
	}
	p.Step, p.StepName = doc.Steps[r.Step].ID, doc.Steps[r.Step].Name
	if r.State == journey.StateControl {
		return p, nil
	}
	ways, err := d.Ways(ctx, id, j.Number)
	if err != nil {
		return p, err
	}
	if _, compiled, err := plan.LoadVersion(v.Document, env.Anything{}); err == nil {
		p.Path = pathOf(compiled, int(r.Step), ways)
	}
	return p, nil
}

// versions finds the versions of a journey that people are in, or were.
func (d *Desk) versions(j *store.Journey) *env.Versions {
	return &env.Versions{Store: d.Database.Journeys, Journey: j.Number, Newest: j.Version}
}
