package sqlstore

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"sluice"
	"sluice/store"
)

var _ store.FileImportStore = (*Store)(nil)

// AddImport implements store.FileImportStore. They are counted beside other transactions,
// so the bound is a rough one.
func (s *Store) AddImport(ctx context.Context, i store.FileImport) error {
	options, err := json.Marshal(i.Options)
	if err != nil {
		return fmt.Errorf("add import %s: %w", i.ID, err)
	}
	err = s.writeSmall(ctx, func(tx *txn) error {
		if err := tx.below(ctx, store.MaxImports, "there are %d imports, and no more are kept; the oldest go by themselves", "import_count"); err != nil {
			return err
		}
		return tx.exec(ctx, "import_add", i.ID, s.d.text(i.Name), s.d.text(string(options)), i.SizeBytes, i.Account, i.State, i.NextOffset, i.Lines, i.Taken, i.Refused, i.Removed,
			s.d.text(i.Reader), i.Claim, i.LastPiece, s.d.millis(i.CreatedMillis), s.d.millis(i.UpdatedMillis), s.millisOrNull(i.EndedMillis))
	})
	return s.failed(err, "add import %s in", i.ID)
}

func (s *Store) scanImport(scan scanner, i *store.FileImport) error {
	var options string
	err := scan(&i.ID, &i.Name, &options, &i.SizeBytes, &i.Account, &i.State, &i.NextOffset, &i.Lines, &i.Taken, &i.Refused, &i.Removed,
		&i.Reader, &i.Claim, &i.LastPiece, s.instant(&i.CreatedMillis), s.instant(&i.UpdatedMillis), s.instant(&i.EndedMillis))
	if err != nil {
		return err
	}
	return json.Unmarshal([]byte(options), &i.Options)
}

// FileImport implements store.FileImportStore.
func (s *Store) FileImport(ctx context.Context, id string) (store.FileImport, error) {
	return one(ctx, s, s.scanImport, notFound("there is no import %.64q", id), "an import", "import_get", id)
}

// FileImports implements store.FileImportStore.
func (s *Store) FileImports(ctx context.Context, before string, limit int) ([]store.FileImport, error) {
	all, err := list(ctx, s.d, s.reads, s.scanImport, rawQuery(s.d, "import_list"), cmp.Or(before, lastText), limit)
	return all, s.failed(err, "list imports in")
}

// ClaimImport implements store.FileImportStore.
func (s *Store) ClaimImport(ctx context.Context, id string, offset int64, claim string, nowMillis int64) error {
	err := s.writeSmall(ctx, func(tx *txn) error {
		return tx.oneChanged(ctx, "import_claim", claim, s.d.millis(nowMillis), id, offset, claim)
	})
	return s.failed(err, "claim a piece of import %.64q in", id)
}

// importedBatch is a batch as it is kept.
type importedBatch struct {
	At string `json:"at"`
	store.ImportedBatch
}

// NoteImported implements store.FileImportStore.
func (s *Store) NoteImported(ctx context.Context, id string, unit store.ImportUnit) error {
	kept := make([]importedBatch, len(unit.Batches))
	for i, b := range unit.Batches {
		kept[i] = importedBatch{b.Position.String(), b}
	}
	text, err := json.Marshal(kept)
	if err == nil {
		err = s.execSmall(ctx, "import_unit_add", id, unit.ID, string(text))
	}
	return s.failed(err, "note what import %.64q has written in", id)
}

// MoveImport implements store.FileImportStore.
func (s *Store) MoveImport(ctx context.Context, m store.ImportMove) error {
	err := s.writeSmall(ctx, func(tx *txn) error {
		if m.Claim == "" { // a row without one would do
			return sluice.ErrConflict
		}
		err := tx.oneChanged(ctx, "import_move", m.NextOffset, m.Lines, m.Taken, m.Refused, s.d.text(m.Reader), s.d.text(m.LastPiece), s.d.millis(m.NowMillis), m.ID, m.From, m.Claim)
		if err != nil || len(m.RefusedLines) == 0 {
			return err
		}
		var args []any
		for _, l := range m.RefusedLines {
			args = append(args, m.ID, l.Line, s.d.text(l.Reason))
		}
		columns := columnNames(standardTableOf("import_refused").columns)
		_, err = s.d.insertRows(ctx, tx, s.d.insertNew("import_refused", columns), len(columns), args)
		return err
	})
	return s.failed(err, "move import %.64q in", m.ID)
}

// SetImportState implements store.FileImportStore.
func (s *Store) SetImportState(ctx context.Context, was store.FileImport, state string, nowMillis int64) error {
	ended := was.EndedMillis
	if state == store.ImportDone {
		ended = nowMillis
	}
	err := s.writeSmall(ctx, func(tx *txn) error {
		return tx.oneChanged(ctx, "import_state", state, s.d.millis(nowMillis), s.millisOrNull(ended), was.ID, was.State, was.NextOffset, was.Claim, s.d.millis(was.UpdatedMillis))
	})
	return s.failed(err, "change the state of import %.64q in", was.ID)
}

// ImportUnits implements store.FileImportStore.
func (s *Store) ImportUnits(ctx context.Context, id, before string, limit int) ([]store.ImportUnit, error) {
	all, err := list(ctx, s.d, s.reads, func(scan scanner, u *store.ImportUnit) error {
		var text string
		if err := scan(&u.ID, &text); err != nil {
			return err
		}
		var kept []importedBatch
		if err := json.Unmarshal([]byte(text), &kept); err != nil {
			return err
		}
		for _, k := range kept {
			position, err := sluice.ParsePosition(k.At)
			if err != nil {
				return err
			}
			k.ImportedBatch.Position = position
			u.Batches = append(u.Batches, k.ImportedBatch)
		}
		return nil
	}, rawQuery(s.d, "import_units"), id, cmp.Or(before, lastText), limit)
	return all, s.failed(err, "read what import %.64q has written in", id)
}

// RefusedLines implements store.FileImportStore.
func (s *Store) RefusedLines(ctx context.Context, id string, afterLine int64, limit int) ([]store.RefusedLine, error) {
	all, err := list(ctx, s.d, s.reads, func(scan scanner, l *store.RefusedLine) error { return scan(&l.Line, &l.Reason) },
		rawQuery(s.d, "import_refused"), id, afterLine, limit)
	return all, s.failed(err, "list the refused lines of import %.64q in", id)
}

// UndoImported implements store.FileImportStore.
func (s *Store) UndoImported(ctx context.Context, id, unit string, b store.ImportedBatch, last bool, hoursFromMillis, daysFromMillis int64) (removed int, err error) {
	err = s.write(ctx, func(tx *txn) error {
		if removed, err = tx.removeImported(ctx, b, hoursFromMillis, daysFromMillis); err != nil {
			return err
		}
		if removed > 0 {
			if err := tx.exec(ctx, "import_removed", removed, s.now(), id); err != nil {
				return err
			}
		}
		if !last {
			return nil
		}
		return tx.exec(ctx, "import_unit_drop", id, unit)
	})
	return done(removed, err), s.failed(err, "undo import %.64q in", id)
}

// OldImports implements store.RetentionStore.
func (s *Store) OldImports(ctx context.Context, beforeMillis int64, limit int) ([]string, error) {
	all, err := list(ctx, s.d, s.reads, cell[string], rawQuery(s.d, "imports_old"), s.d.millis(beforeMillis), limit)
	return all, s.failed(err, "list old imports in")
}

// DropImport implements store.RetentionStore.
func (s *Store) DropImport(ctx context.Context, id string) error {
	err := s.writeSmall(ctx, func(tx *txn) error {
		return tx.execEach(ctx, []string{"import_units_drop", "import_refused_drop", "import_drop"}, id)
	})
	return s.failed(err, "remove import %.64q from", id)
}
