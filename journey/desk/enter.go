package desk

import (
	"context"
	"slices"

	"sluice"
	"sluice/journey"
	"sluice/journey/plan"
)

// MaxContextBytes bounds the context with which a call lets somebody into a journey, and
// MaxEntries how many people one call lets in.
const (
	MaxContextBytes = 4 << 10
	MaxEntries      = 1000
)

// TakesCalls returns an error unless calls let people into a journey now: it is live, and
// its last version has the trigger api.
func (d *Desk) TakesCalls(ctx context.Context, id string) error {
	j, err := d.at(ctx, id, -1)
	if err != nil {
		return err
	}
	if j.Status != journey.StatusLive {
		return sluice.Refuse(sluice.CodeConflict, "journey %s is %s: nobody enters it", id, j.Status)
	}
	v, err := d.Database.Journeys.JourneyVersion(ctx, j.Number, j.Version)
	if err != nil {
		return err
	}
	doc, err := plan.ParseVersion(v.Document)
	if err != nil {
		return judged(err)
	}
	if !slices.ContainsFunc(doc.Entry.When, func(t plan.Trigger) bool { return t.API }) {
		return sluice.Refuse(sluice.CodeConflict, "journey %s lets nobody in by a call: version %d has no trigger {api: true} in entry.when", id, j.Version)
	}
	return nil
}
