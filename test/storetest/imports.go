package storetest

import (
	"errors"
	"reflect"
	"testing"

	"sluice"
	"sluice/store"
)

// anImport is one that begins; its id rises with second.
func anImport(id string) store.FileImport {
	return store.FileImport{
		ID: id, Name: "old ä\\'.csv", SizeBytes: 1 << 33, Account: "account:1", State: store.ImportOpen, CreatedMillis: 1_760_000_000_001, UpdatedMillis: 1_760_000_000_001,
		Options: store.ImportOptions{Kind: store.ImportEvents, App: "shop", Columns: map[string]string{"when ä": "time", "secret": ""}, Delimiter: "tab"},
	}
}

// testFileImports: a piece is claimed once, moves its import once, and only from where it
// was; what is written is listed from its end on, and undone by batches.
func testFileImports(t *testing.T, f *fixture) {
	s := f.store.(store.FileImportStore)
	first, second := anImport("a1"), anImport("a2")
	must(t, s.AddImport(f.ctx, first))
	must(t, s.AddImport(f.ctx, second))
	if all, err := s.FileImports(f.ctx, "", 10); err != nil || !reflect.DeepEqual(all, []store.FileImport{second, first}) {
		t.Errorf("%+v %v", all, err)
	}
	if all, err := s.FileImports(f.ctx, "a2", 10); err != nil || len(all) != 1 || all[0].ID != "a1" {
		t.Errorf("before the second: %+v %v", all, err)
	}
	_, err := s.FileImport(f.ctx, "a3")
	wantCode(t, err, sluice.CodeNotFound)

	must(t, s.ClaimImport(f.ctx, "a1", 0, "10:x", 2))
	for name, err := range map[string]error{
		"claimed for another piece":  s.ClaimImport(f.ctx, "a1", 0, "10:y", 3),
		"claimed elsewhere":          s.ClaimImport(f.ctx, "a2", 10, "10:x", 3),
		"moved by another claim":     s.MoveImport(f.ctx, store.ImportMove{ID: "a1", Claim: "10:y", NextOffset: 10}),
		"moved from elsewhere":       s.MoveImport(f.ctx, store.ImportMove{ID: "a1", From: 5, Claim: "10:x", NextOffset: 10}),
		"moved without a claim":      s.MoveImport(f.ctx, store.ImportMove{ID: "a2", NextOffset: 10}),
		"another state of then":      s.SetImportState(f.ctx, first, store.ImportDone, 3),
		"a claim of what is not one": s.ClaimImport(f.ctx, "a3", 0, "10:x", 3),
	} {
		if !errors.Is(err, sluice.ErrConflict) {
			t.Errorf("%s: %v", name, err)
		}
	}
	claimed, err := s.FileImport(f.ctx, "a1")
	must(t, err)
	must(t, s.ClaimImport(f.ctx, "a1", 0, "10:x", claimed.UpdatedMillis+1)) // sent again
	wantError(t, s.SetImportState(f.ctx, claimed, store.ImportUndoing, 3), sluice.ErrConflict)
	move := store.ImportMove{ID: "a1", Claim: "10:x", NextOffset: 10, Lines: 4, Taken: 3, Refused: 2, Reader: `{"ä":"\n"}`, LastPiece: "{}", RefusedLines: []store.RefusedLine{{Line: 7, Reason: "not JSON: ä"}, {Line: 2, Reason: "x"}}, NowMillis: 1_760_000_000_009}
	must(t, s.MoveImport(f.ctx, move))
	wantError(t, s.MoveImport(f.ctx, move), sluice.ErrConflict)
	want := first
	want.NextOffset, want.Lines, want.Taken, want.Refused, want.Reader, want.LastPiece, want.UpdatedMillis = 10, 4, 3, 2, move.Reader, "{}", move.NowMillis
	if got, err := s.FileImport(f.ctx, "a1"); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("moved: %+v %v", got, err)
	}
	want.Reader, want.LastPiece = "", "" // a list goes without
	if all, err := s.FileImports(f.ctx, "a2", 10); err != nil || !reflect.DeepEqual(all, []store.FileImport{want}) {
		t.Errorf("listed: %+v %v", all, err)
	}
	if lines, err := s.RefusedLines(f.ctx, "a1", 2, 10); err != nil || !reflect.DeepEqual(lines, move.RefusedLines[:1]) {
		t.Errorf("refused: %v %v", lines, err)
	}
	must(t, s.SetImportState(f.ctx, want, store.ImportDone, 1_760_000_000_010))
	wantError(t, s.ClaimImport(f.ctx, "a1", 10, "10:x", 3), sluice.ErrConflict)
	if got, err := s.FileImport(f.ctx, "a1"); err != nil || got.State != store.ImportDone || got.EndedMillis != 1_760_000_000_010 {
		t.Errorf("done: %+v %v", got, err)
	}
	f.checkUnits(t, s)
	f.checkOldImports(t, s)
}

// checkUnits undoes what an import has written, batch by batch.
func (f *fixture) checkUnits(t *testing.T, s store.FileImportStore) {
	t.Helper()
	f.start(t)
	position := sluice.Position{Major: eventPosition.Major, Minor: 500}
	batch := []store.StoredEvent{at(1, sluice.KindCustom, midnight(-2)), at(2, sluice.KindCustom, midnight(-1))}
	for i := range batch {
		batch[i].Place.Position = position
	}
	f.apply(t, store.Effect{Events: batch}, 2, 0)
	b := store.ImportedBatch{Partition: 2, Position: position, Items: 2, FromMillis: midnight(-2).UnixMilli(), ToMillis: midnight(-1).UnixMilli()}
	empty := store.ImportedBatch{Partition: 255, Position: sluice.Position{Major: 1<<64 - 1, Minor: 7}, ToMillis: 1<<53 - 1}
	units := []store.ImportUnit{{ID: "u2", Batches: []store.ImportedBatch{empty}}, {ID: "u1", Batches: []store.ImportedBatch{b, empty}}}
	for _, u := range units {
		must(t, s.NoteImported(f.ctx, "a1", u))
	}
	if got, err := s.ImportUnits(f.ctx, "a1", "", 10); err != nil || !reflect.DeepEqual(got, units) {
		t.Errorf("units: %+v %v", got, err)
	}
	for again, removed := range []int{2, 0} {
		n, err := s.UndoImported(f.ctx, "a1", "u1", b, again > 0, 0, 0)
		must(t, err)
		want(t, "removed", n, removed)
		f.wantRows(t, "SELECT SUM(count) FROM series_days", []string{"0"})
		f.wantRows(t, "SELECT removed FROM imports WHERE id = 'a1'", []string{"2"})
	}
	if got, err := s.ImportUnits(f.ctx, "a1", "", 10); err != nil || !reflect.DeepEqual(got, units[:1]) {
		t.Errorf("units that are left: %+v %v", got, err)
	}
}

func (f *fixture) checkOldImports(t *testing.T, s store.FileImportStore) {
	t.Helper()
	keep := f.store.(store.RetentionStore)
	old, err := keep.OldImports(f.ctx, 1_760_000_000_005, 10)
	must(t, err)
	if !reflect.DeepEqual(old, []string{"a2"}) {
		t.Errorf("old: %v", old)
	}
	must(t, keep.DropImport(f.ctx, "a1"))
	_, err = s.FileImport(f.ctx, "a1")
	wantCode(t, err, sluice.CodeNotFound)
	f.wantRows(t, "SELECT COUNT(*) FROM import_units", []string{"0"})
	f.wantRows(t, "SELECT COUNT(*) FROM import_refused", []string{"0"})
}

// fillImports fills the tables of imports.
func (f *fixture) fillImports(t *testing.T) {
	t.Helper()
	s := f.store.(store.FileImportStore)
	must(t, s.AddImport(f.ctx, anImport("filled")))
	must(t, s.ClaimImport(f.ctx, "filled", 0, "1:x", 1_760_000_000_002))
	must(t, s.NoteImported(f.ctx, "filled", store.ImportUnit{ID: "1", Batches: []store.ImportedBatch{{Partition: 1, Position: sluice.Position{Major: 1<<64 - 1, Minor: 2}, Items: 3, FromMillis: 1, ToMillis: 2}}}))
	must(t, s.MoveImport(f.ctx, store.ImportMove{ID: "filled", Claim: "1:x", NextOffset: 1, Lines: 1, Refused: 1, Reader: "{}", LastPiece: "{}", RefusedLines: []store.RefusedLine{{Line: 1, Reason: "ä\n"}}, NowMillis: 1_760_000_000_003}))
}
