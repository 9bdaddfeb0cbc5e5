package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"math"
	"unicode/utf8"

	"sluice"
	"sluice/store"
)

// section is the part of an effect that goes into one table. Exactly one of
// events, rows and dead is set.
type section struct {
	target *target
	events []store.StoredEvent
	rows   *store.TableRows
	table  *table // of rows
	dead   []sluice.DeadLetter
	tally  tally // of events: all of them

	nowMillis int64 // for dead letters without a time

	excluded map[int]string // rows that end the transaction, with the reason

	// What a dialect made of it for its bulk path.
	encoded bool
	buf     *[]byte
	cuts    []cut
}

// cut is the end of a piece of an encoded section that is sent by itself.
type cut struct {
	end  int // in the buffer
	rows int
}

// loadSection writes a section that is not encoded yet, by the bulk path.
func (t *txn) loadSection(ctx context.Context, sec *section) error {
	d := t.store.d
	defer d.release(sec)
	if err := d.encode(sec); err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	_, _, err := d.load(ctx, t, sec)
	return err
}

func (sec *section) len() int {
	if sec.rows != nil {
		return len(sec.rows.Cells) / len(sec.table.spec.Columns)
	}
	return len(sec.events) + len(sec.dead)
}

// cells returns the cells of a row.
func (sec *section) cells(i int) []store.Cell {
	n := len(sec.table.spec.Columns)
	return sec.rows.Cells[i*n : (i+1)*n]
}

// check says why a row can never be stored, in any database.
func (sec *section) check(i int) error {
	if sec.events != nil {
		if err := checkEvent(&sec.events[i]); err != nil {
			return err
		}
	}
	return sec.checkTexts(i, utf8.ValidString, errNotUTF8)
}

// checkTexts returns an error, with the column of a user's table, if a text does not fit.
func (sec *section) checkTexts(i int, fits func(string) bool, bad error) error {
	switch {
	case sec.rows != nil:
		for c, cell := range sec.cells(i) {
			if cell.Kind != store.CellBytes && !fits(cell.Text) {
				return fmt.Errorf("column %q: %w", sec.table.spec.Columns[c], bad)
			}
		}
	case sec.events != nil:
		e := &sec.events[i]
		for _, s := range [...]string{e.ID, e.Name, e.App, e.Email, e.User, e.Message, e.Properties} {
			if !fits(s) {
				return bad
			}
		}
	}
	return nil
}

// letter makes a dead letter of a row.
func (sec *section) letter(i int, reason string, nowMillis int64) sluice.DeadLetter {
	if sec.events != nil {
		e := &sec.events[i]
		again := e.Event
		again.Apart = true // it has counted for its user, if it does
		return sluice.DeadLetter{
			Source: "log", Form: sluice.FormItem, Place: e.Place, Reason: reason,
			Payload: sluice.AppendEvent(nil, &again), TimeMillis: nowMillis,
		}
	}
	letter := sluice.DeadLetter{
		Source: sec.rows.Source, Form: sluice.FormElement, Reason: reason,
		Payload: []byte(sec.rows.Raw[i]), TimeMillis: nowMillis,
	}
	if sec.rows.Places != nil {
		letter.Place = sec.rows.Places[i]
	}
	return letter
}

var errNotUTF8 = errors.New("a text is not valid UTF-8")

// checkEvent checks what the columns of the events table can hold, but for the
// encoding of the texts. The same bounds hold in every database.
func checkEvent(e *store.StoredEvent) error {
	switch {
	case e.Kind < sluice.KindMail || e.Kind > sluice.KindSystem:
		return fmt.Errorf("kind %d is not one of mail, custom, purchase, system", e.Kind)
	case e.TimeMillis < sluice.MinEventTimeMillis || e.TimeMillis > sluice.MaxEventTimeMillis:
		return fmt.Errorf("time %d ms is outside the years 1970 to 9999", e.TimeMillis)
	case len(e.ID) > sluice.MaxEventIDBytes:
		return tooLong("id", e.ID, sluice.MaxEventIDBytes)
	case len(e.Name) > sluice.MaxNameBytes:
		return tooLong("name", e.Name, sluice.MaxNameBytes)
	case len(e.App) > sluice.MaxAppIDBytes:
		return tooLong("app id", e.App, sluice.MaxAppIDBytes)
	case len(e.Email) > sluice.MaxEmailBytes:
		return tooLong("email", e.Email, sluice.MaxEmailBytes)
	case len(e.User) > sluice.MaxReferenceBytes:
		return tooLong("user reference", e.User, sluice.MaxReferenceBytes)
	case len(e.Message) > sluice.MaxReferenceBytes:
		return tooLong("message reference", e.Message, sluice.MaxReferenceBytes)
	}
	return checkPlace(&e.Place)
}

func checkPlace(p *sluice.Place) error {
	if p.Partition < 0 || p.Partition > math.MaxUint16 || p.Index < 0 || p.Index > math.MaxUint32 || p.Position.Minor > math.MaxUint32 {
		return fmt.Errorf("place (partition %d, position %s, item %d) is out of range", p.Partition, p.Position, p.Index)
	}
	return nil
}

func tooLong(what, s string, limit int) error {
	return fmt.Errorf("%s has %d bytes, the limit is %d", what, len(s), limit)
}

// eventID returns an event's own id, or the one its place gives it. A replay
// of the same log entry gives the same one.
func eventID(dst []byte, e *store.StoredEvent) []byte {
	if e.ID != "" {
		return append(dst, e.ID...)
	}
	return appendPlaceID(dst, &e.Place)
}
