package engine

import (
	"context"
	"fmt"
	"strings"
	"time"

	"sluice"
	"sluice/api"
)

// checkpointLate is how long changes of where people are may wait for a checkpoint before
// that is a finding.
const checkpointLate = 5 * time.Minute

// shownSteps is how many steps a warning names.
const shownSteps = 5

// journeyWarnings say what an operator has to know of journeys.
func (e *core) journeyWarnings() (all []string) {
	if e.moving != nil {
		if !sluice.Writes(sluice.JourneyForms) {
			all = append(all, "nobody moves in journeys: a program runs that does not read what journeys write, or redis was emptied some seconds ago; end the older programs")
		}
		if age := e.moving.Stats.Unwritten(); age > checkpointLate {
			all = append(all, fmt.Sprintf("where people are in journeys was not written to the database for %s: if Redis is lost, steps of that time are taken again; the log says why", age.Round(time.Second)))
		}
		if steps := e.moving.Stats.Unsendable(); len(steps) > 0 {
			all = append(all, fmt.Sprintf("people stay at message steps, %d of them, whose mail cannot be made: %s; a version of the template whose mail can be sent lets them go on", len(steps), strings.Join(steps[:min(len(steps), shownSteps)], "; ")))
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), LookTimeout)
	defer cancel()
	switch n, err := e.store.Held(ctx); {
	case err != nil:
		all = append(all, fmt.Sprintf("how many journeys stand could not be counted: %v", err))
	case n > 0:
		all = append(all, fmt.Sprintf("%d journeys stand until somebody decides, since a backup was restored, a run of them is late, or too much of their mail came back: sluice journey status ID says why; resume each, or stop it", n))
	}
	return all
}

// snapshotJourneys adds what this process knows of its checkpoints.
func (e *core) snapshotJourneys(s *api.Stats) {
	if e.moving == nil {
		return
	}
	m := &e.moving.Stats
	s.Checkpoints = &api.Checkpoints{
		AgeSeconds: m.Unwritten().Seconds(), Saved: m.Saved.Load(), Bytes: m.SavedBytes.Load(), Failed: m.Unsaved.Load(), Recovered: m.Recovered.Load(),
		Stranded: m.Lost.Load(), Dropped: m.Dropped.Load(),
	}
}
