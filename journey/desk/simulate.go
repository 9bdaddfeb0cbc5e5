package desk

import (
	"context"
	"time"

	"sluice/journey/simulate"
)

// Simulated checks a document, that of the draft if it has no text, for a simulation. That
// has a clock of its own: a time of entry that has passed is no error.
func (d *Desk) Simulated(ctx context.Context, id string, w Written) (*Checked, error) {
	if w.Text == "" {
		j, err := d.at(ctx, id, -1)
		if err != nil {
			return nil, err
		}
		w = Written{Text: j.Draft}
	}
	return d.validateAt(ctx, w, time.Time{}, func(string) (int, error) { return 0, nil })
}

// Try is the simulation of a document that was checked.
func (c *Checked) Try() (*simulate.Try, error) {
	text, err := c.Document.Text()
	return &simulate.Try{Plan: c.Plan, Document: text}, err
}
