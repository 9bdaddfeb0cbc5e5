package spool

import (
	"context"
	"time"

	"sluice/flow"
	"sluice/mail"
)

const (
	// notesEvery is how often a page of the notes of cancelled sends is read.
	// notesPage is about how many notes a page has. notesAgain is the time
	// until the next round through all of them.
	notesEvery = 1 * time.Second
	notesPage  = 500
	notesAgain = 1 * time.Minute

	// notesAfter is how old a note is at least that is looked at. What became of
	// most is known by then.
	notesAfter = 5 * time.Minute

	// notesWithin is how long a page waits for the ledger: lanes are not read meanwhile.
	notesWithin = 2 * time.Second
)

// rounds is where a round through the notes of a partition is.
type rounds struct {
	cursor  string // "" between rounds
	looked  time.Time
	unknown bool // the ledger did not say what became of those of the last page
}

// tidy lets notes of cancelled sends go that nobody will ever meet: the send
// had left when its cancel came, and the ledger knows. A note of a send that
// the ledger has as cancelled stays until the send is met in its lane. It is
// not looked up again. So each costs one look at its row.
//
// Without the ledger all notes stay until the next round. Nothing that waits in a lane
// needs them gone, so its mail goes on.
func (p *part) tidy(ctx context.Context) error {
	since := time.Since(p.notes.looked)
	if p.urgent || since < notesEvery || p.notes.cursor == "" && since < notesAgain {
		return nil
	}
	p.notes.looked = time.Now()
	if p.notes.cursor == "" {
		p.notes.cursor = "0"
	}
	notes, next, err := p.lanes.Notes(ctx, p.notes.cursor, notesPage)
	if err != nil {
		return err
	}
	if p.notes.cursor = next; next == "0" {
		p.notes.cursor = ""
	}
	byKey := make(map[mail.SendKey]flow.CancelNote)
	var keys []mail.SendKey
	before := p.s.Clock.Now().Add(-notesAfter).UnixMilli()
	for _, n := range notes {
		if message, number, ok := mail.ParseSendID(n.ID); ok && n.AtMillis < before {
			key := mail.SendKey{Message: message, Number: number}
			byKey[key] = n
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		return nil
	}
	rows, ok := p.noted(ctx, keys)
	if !ok {
		return nil
	}
	var gone, kept []flow.CancelNote
	for i := range rows {
		r := &rows[i]
		note := byKey[r.Key()]
		switch {
		case r.State == mail.SendCancelled:
			kept = append(kept, note)
		case r.Ended() || r.State == mail.SendInDoubt && r.DueMillis == 0:
			gone = append(gone, note)
		}
	}
	if len(gone)+len(kept) == 0 {
		return nil
	}
	return p.lanes.Tidy(ctx, p.lease, gone, kept)
}

// noted returns the rows of a page of notes. Without them the round is over.
func (p *part) noted(ctx context.Context, keys []mail.SendKey) (rows []mail.SendRow, ok bool) {
	within, cancel := context.WithTimeout(ctx, notesWithin)
	defer cancel()
	rows, err := p.s.Record.SendRows(within, keys)
	if err == nil {
		p.notes.unknown = false
		return rows, true
	}
	if !p.notes.unknown && ctx.Err() == nil {
		p.s.Log.Warn("records of cancelled sends could not be read; their notes are kept, and looked at again until they can", "partition", p.number, "sends", len(keys), "every", notesAgain, "error", err)
	}
	p.notes.cursor, p.notes.unknown = "", true
	return nil, false
}
