package sqlstore

import (
	"context"
	"errors"
	"fmt"

	"sluice"
	"sluice/store"
)

// How an effect is written that the bulk path has refused as a whole.
//
// Each section is cut into pieces, and each piece goes in by the bulk path
// behind a savepoint. A refused piece is taken back and written row by row, so
// that only the bad rows become dead letters. Of 32,768 rows with a bad one,
// 512 go row by row. A savepoint is gone when it is needed if a trigger of the
// table has ended the transaction. Then all begins anew without pieces, row by
// row. A row that ends the transaction then is left out of the next try.

// pieceRows is how large a piece is. Smaller ones cost more round trips; larger
// ones write more rows one by one when one of them is bad.
const pieceRows = 512

var (
	// errEnded: a row was refused, and the whole transaction was rolled back
	// with it, by a trigger of the table.
	errEnded = errors.New("the transaction was ended by a trigger of the table")

	// errNoPieces: a piece could not be taken back.
	errNoPieces = errors.New("a savepoint is gone")
)

// ApplyEach moves the cursors and writes what can be written. In its last
// resort, row by row, each try but the last leaves out one row more. So there
// are at most as many tries as rows, and one.
func (s *Store) ApplyEach(ctx context.Context, prep store.Prepared) (store.Applied, error) {
	p, err := s.own(prep)
	if err != nil {
		return store.Applied{}, err
	}
	if err := s.names.fill(ctx, s); err != nil {
		return store.Applied{}, s.failed(err, "apply effect piece by piece to")
	}
	var applied store.Applied
	try := func(rows int) error {
		return s.write(ctx, func(tx *txn) error {
			applied = store.Applied{}
			return tx.applyEach(ctx, p, rows, &applied)
		})
	}
	for err = try(pieceRows); errors.Is(err, errNoPieces) || errors.Is(err, errEnded); {
		before := p.excluded()
		if err = try(0); errors.Is(err, errEnded) && p.excluded() == before {
			break
		}
	}
	if err != nil {
		return store.Applied{}, s.failed(err, "apply effect piece by piece to")
	}
	p.release()
	return applied, nil
}

// excluded counts the rows that are left out.
func (p *prepared) excluded() (n int) {
	for _, sec := range p.sections {
		n += len(sec.excluded)
	}
	return n
}

// applyEach writes by pieces of so many rows; 0: row by row.
func (t *txn) applyEach(ctx context.Context, p *prepared, rows int, applied *store.Applied) error {
	return t.stages(ctx, p, applied, func() ([]sluice.DeadLetter, error) {
		letters := append([]sluice.DeadLetter(nil), p.effect.Dead...)
		inserted := make(tally)
		t.inserted = make(map[sluice.Place]struct{})
		for _, sec := range p.sections {
			if sec.dead != nil {
				continue
			}
			refused, err := t.writeEach(ctx, sec, rows, applied, inserted)
			if err != nil {
				return nil, fmt.Errorf("insert into %s: %w", sec.target.name, err)
			}
			letters = append(letters, refused...)
		}
		return letters, t.addCounts(ctx, inserted.counts(p.effect.Counts), p.effect.Stripe)
	})
}

// writeEach writes a section and returns its refused rows. Events that it
// inserts are added to the tally.
func (t *txn) writeEach(ctx context.Context, sec *section, rows int, applied *store.Applied, inserted tally) ([]sluice.DeadLetter, error) {
	if rows == 0 {
		return t.insertEach(ctx, sec, 0, sec.len(), applied, inserted)
	}
	var letters []sluice.DeadLetter
	for from := 0; from < sec.len(); from += rows {
		to := min(from+rows, sec.len())
		err := t.loadPiece(ctx, sec.piece(from, to), applied, inserted)
		if errors.Is(err, sluice.ErrRefused) {
			var refused []sluice.DeadLetter
			refused, err = t.insertEach(ctx, sec, from, to, applied, inserted)
			letters = append(letters, refused...)
		}
		if err != nil {
			return nil, err
		}
	}
	return letters, nil
}

// piece is a part of a section as a section of its own.
func (sec *section) piece(from, to int) *section {
	part := &section{target: sec.target, table: sec.table, nowMillis: sec.nowMillis}
	if sec.events != nil {
		part.events = sec.events[from:to]
		part.tally = part.tallyAll()
		return part
	}
	n := len(sec.table.spec.Columns)
	rows := *sec.rows
	rows.Cells, rows.Raw = rows.Cells[from*n:to*n], rows.Raw[from:to]
	if rows.Places != nil {
		rows.Places = rows.Places[from:to]
	}
	part.rows = &rows
	return part
}

// loadPiece writes a piece by the bulk path. ErrRefused: nothing of it was
// written, and the transaction goes on.
func (t *txn) loadPiece(ctx context.Context, part *section, applied *store.Applied, inserted tally) error {
	d := t.store.d
	defer d.release(part)
	if err := d.encode(part); err != nil {
		return fmt.Errorf("%w: %w", sluice.ErrRefused, err)
	}
	if _, err := t.conn.ExecContext(ctx, "SAVEPOINT sluice_piece"); err != nil {
		return err
	}
	rows, duplicates, err := d.load(ctx, t, part)
	fresh := part.tally
	if err == nil && part.events != nil {
		fresh, err = t.tallyInserted(ctx, part, rows)
	}
	if errors.Is(err, sluice.ErrRefused) {
		if _, back := t.conn.ExecContext(ctx, "ROLLBACK TO SAVEPOINT sluice_piece"); back != nil {
			return fmt.Errorf("%w: %w", errNoPieces, back)
		}
		return err
	}
	if err != nil {
		return err
	}
	applied.Rows += rows
	applied.Duplicates += duplicates
	for k, n := range fresh {
		inserted[k] += n
	}
	_, err = t.conn.ExecContext(ctx, "RELEASE SAVEPOINT sluice_piece")
	return err
}

// insertEach writes rows of a section one by one and returns the refused ones.
func (t *txn) insertEach(ctx context.Context, sec *section, from, to int, applied *store.Applied, inserted tally) ([]sluice.DeadLetter, error) {
	ins, err := t.store.d.inserter(ctx, t, sec)
	if err != nil {
		return nil, err
	}
	defer ins.close()
	nowMillis := t.store.clock.Now().UnixMilli()
	var letters []sluice.DeadLetter
	for i := from; i < to; i++ {
		if err := sec.check(i); err != nil {
			letters = append(letters, sec.letter(i, err.Error(), nowMillis))
			continue
		}
		if reason, ok := sec.excluded[i]; ok {
			letters = append(letters, sec.letter(i, reason, nowMillis))
			continue
		}
		o, err := ins.insert(ctx, i)
		if errors.Is(err, errEnded) {
			if sec.excluded == nil {
				sec.excluded = make(map[int]string)
			}
			sec.excluded[i] = o.refused
		}
		switch {
		case err != nil:
			return nil, fmt.Errorf("row %d: %w", i, err)
		case o.refused != "":
			letters = append(letters, sec.letter(i, o.refused, nowMillis))
		case o.duplicate:
			applied.Duplicates++
		default:
			applied.Rows++
			if sec.events != nil {
				inserted.add(&sec.events[i].Event)
				t.inserted[sec.events[i].Place] = struct{}{}
			}
		}
	}
	return letters, nil
}
