package imports

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"sluice"
	"sluice/flow"
	"sluice/ingest"
	"sluice/store"
	"sluice/store/sqlstore"
	"sluice/test/clocktest"
	"sluice/test/tables"
)

var errCut = errors.New("the sender has died")

// cut is a database whose claims are made, and not answered.
type cut struct{ *sqlstore.Store }

func (c cut) ClaimImport(ctx context.Context, id string, offset int64, claim string, nowMillis int64) error {
	if err := c.Store.ClaimImport(ctx, id, offset, claim, nowMillis); err != nil {
		return err
	}
	return errCut
}

// testDesk is a desk of one partition, with an import of two lines. Nothing is written.
func testDesk(t *testing.T) (d *Desk, db *sqlstore.Store, clock *clocktest.Clock, i store.FileImport) {
	t.Helper()
	db = tables.Open(t, sqlstore.Options{})
	clock = clocktest.At(time.UnixMilli(1_780_000_000_000))
	d = &Desk{Into: Into{Logs: make([]*flow.Log, 1), Clock: clock}, Store: cut{db}}
	i, err := d.Begin(t.Context(), store.FileImport{Name: "f", SizeBytes: int64(len(twoLines)), Options: store.ImportOptions{Kind: store.ImportEvents, Format: "ndjson"}})
	if err != nil {
		t.Fatal(err)
	}
	return d, db, clock, i
}

const twoLines = `{"event":"n","time":1}` + "\n" + `{"event":"n","time":2}` + "\n"

// A piece that is sent again under an old claim is being written, as one is that was just
// claimed: an undo waits for it, and one that has begun before gives way.
func TestAPieceThatIsSentAgainHoldsUpAnUndo(t *testing.T) {
	d, db, clock, i := testDesk(t)
	for range 2 {
		if _, err := d.Piece(t.Context(), i.ID, 0, twoLines); !errors.Is(err, errCut) {
			t.Fatal(err)
		}
		clock.Move(5 * time.Minute)
	}
	clock.Move(-5 * time.Minute)
	before, err := db.FileImport(t.Context(), i.ID)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Undo(t.Context(), i.ID); err == nil || !strings.Contains(err.Error(), "a piece of it is being written") {
		t.Errorf("just sent again: %v", err)
	}
	if _, err := d.Piece(t.Context(), i.ID, 0, twoLines); !errors.Is(err, errCut) {
		t.Fatal(err)
	}
	if err := db.SetImportState(t.Context(), before, store.ImportUndoing, clock.Now().UnixMilli()); !errors.Is(err, sluice.ErrConflict) {
		t.Errorf("an undo that has looked before: %v", err)
	}
}

// What is still to be stored is not undone: it would be stored behind that.
func TestAnUndoLeavesWhatIsNotStored(t *testing.T) {
	d, db, _, i := testDesk(t)
	batch := store.ImportedBatch{Partition: 0, Position: sluice.Position{Major: 7}, Items: 2}
	if err := db.NoteImported(t.Context(), i.ID, store.ImportUnit{ID: "u", Batches: []store.ImportedBatch{batch}}); err != nil {
		t.Fatal(err)
	}
	if err := db.SetImportState(t.Context(), i, store.ImportUndoing, i.UpdatedMillis); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Undo(t.Context(), i.ID); err == nil || !strings.Contains(err.Error(), "2 events of it are still to be stored") {
		t.Errorf("before it is stored: %v", err)
	}
	cursors, err := db.Cursors(t.Context(), ingest.StoreRole, []int{0})
	if err != nil {
		t.Fatal(err)
	}
	prepared, err := db.Prepare(&store.Effect{Moves: []store.Move{{Follower: ingest.StoreRole, From: cursors[0], To: batch.Position}}})
	if err == nil {
		_, err = db.Apply(t.Context(), prepared)
	}
	if err != nil {
		t.Fatal(err)
	}
	if i, err = d.Undo(t.Context(), i.ID); err != nil || i.State != store.ImportUndone {
		t.Errorf("when it is stored: %s, %v", i.State, err)
	}
}

// What a partition that is behind has of earlier pieces is still to be stored, whatever other
// partitions have stored of later ones.
func TestLeftLooksAtEachPartition(t *testing.T) {
	d, db, _, i := testDesk(t)
	d.Logs = make([]*flow.Log, 3)
	stored := sluice.Position{Major: 5}
	cursors, err := db.Cursors(t.Context(), ingest.StoreRole, []int{1})
	if err != nil {
		t.Fatal(err)
	}
	prepared, err := db.Prepare(&store.Effect{Moves: []store.Move{{Follower: ingest.StoreRole, Partition: 1, From: cursors[1], To: stored}}})
	if err == nil {
		_, err = db.Apply(t.Context(), prepared)
	}
	if err != nil {
		t.Fatal(err)
	}
	for n, b := range []store.ImportedBatch{{Partition: 0, Position: sluice.Position{Major: 3}, Items: 4}, {Partition: 1, Position: sluice.Position{Major: 4}, Items: 8}, {Partition: 1, Position: stored, Items: 16}} {
		if err := db.NoteImported(t.Context(), i.ID, store.ImportUnit{ID: string(rune('a' + n)), Batches: []store.ImportedBatch{b}}); err != nil {
			t.Fatal(err)
		}
	}
	if left, err := d.Left(t.Context(), i.ID); err != nil || left != 4 {
		t.Errorf("%d are left, want 4; %v", left, err)
	}
}

// A piece ends where its lines would take too much memory, and the next one goes on there:
// together they have what the file has.
func TestAPieceOfLinesThatGrow(t *testing.T) {
	d, _, _, i := testDesk(t)
	column := strings.Repeat("n", 1000)
	file := "event,time," + column + "\n" + strings.Repeat("n,1,x\n", 80_000) // 80 MB as objects
	i.Options, i.SizeBytes = store.ImportOptions{Kind: store.ImportEvents, Format: "csv"}, int64(len(file))
	var lines, pieces int
	for ; i.NextOffset < i.SizeBytes; pieces++ {
		p := readPiece(t, d, &i, file)
		size := 0
		for n, line := range p.lines {
			size += len(line.Text)
			if line.Refused != nil || line.Number != int64(lines+n+2) || !strings.Contains(line.Text, column) {
				t.Fatalf("line %d of piece %d: %+v", n, pieces, line)
			}
		}
		if size > maxLinesBytes {
			t.Fatalf("piece %d has %d bytes of lines", pieces, size)
		}
		i.Claim = p.claim
		if again := readPiece(t, d, &i, file); again.bytes != p.bytes || len(again.lines) != len(p.lines) || again.at.Lines.Line != p.at.Lines.Line {
			t.Fatalf("piece %d, sent again: %d bytes, %d lines; at first %d, %d", pieces, again.bytes, len(again.lines), p.bytes, len(p.lines))
		}
		reader, err := json.Marshal(p.at)
		if err != nil {
			t.Fatal(err)
		}
		i.Reader, i.Claim = string(reader), ""
		lines, i.NextOffset = lines+len(p.lines), i.NextOffset+int64(p.bytes)
	}
	if lines != 80_000 || pieces < 2 {
		t.Errorf("%d lines in %d pieces", lines, pieces)
	}
}

func readPiece(t *testing.T, d *Desk, i *store.FileImport, file string) *piece {
	t.Helper()
	p := &piece{desk: d, of: i}
	if want, err := p.read(file[i.NextOffset:]); err != nil || want > 0 {
		t.Fatal(want, err)
	}
	return p
}
