package imports

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"sluice"
	"sluice/ingest"
	"sluice/lib/faults"
	"sluice/ops/transfer"
	"sluice/store"
)

// Bounds of pieces.
const (
	// MaxPieceBytes bounds a piece: a record of a CSV may be so large that less would have
	// no whole one. MinPieceBytes is for all but the last piece of a file; it bounds how
	// many there are.
	MaxPieceBytes = 9 << 20
	MinPieceBytes = 64 << 10

	// MaxPieceReasons bounds the refused lines that an answer names.
	MaxPieceReasons = 100

	// maxLinesBytes bounds the lines of a piece in memory, each counted with lineBytes for
	// itself; the piece ends there. A cell of one byte may become a member of a thousand.
	maxLinesBytes = 32 << 20
	lineBytes     = 64

	claimTries = 3
)

// Desk takes imports in whose file comes in pieces, from anybody to any process.
//
// The idea. A piece is to its import what a run is to one by the command: lines go to the
// logs under the import's source, whose seq in each log is the last line that is there. What
// cannot be read off the logs stands in a row of the database: where the next piece begins,
// where reading stands, and the hash over all lines, of which ids are made. So any process
// takes the next piece, and the ids are those that the command makes of the whole file.
//
// The steps. A piece is claimed: the row names its length and hash. Its lines are appended;
// what was written is noted, for undoing it. The row moves behind the piece, and the claim
// is gone. A piece whose sender has no answer is sent again: before the move it has the same
// claim, and each log leaves out the lines that it has; after it, the row knows the piece.
// Another content at a claimed place is refused: some logs may have the lines of the first.
// Two who send the same piece at once write the same batches under the same seqs.
//
// What was tried and dropped. To keep the file, as it came: a second place where data waits,
// with its own disk, retention and erasure. A lease for the sender: the seqs do it.
type Desk struct {
	Into
	Store Store
}

// Store is what a Desk asks of the database.
type Store interface {
	store.FileImportStore
	Stored
}

// reading is where the reading of a file stands between two pieces.
type reading struct {
	Lines transfer.LineState `json:"lines"`
	Point ingest.ImportPoint `json:"point"`
}

// lastPiece is what is remembered of a piece.
type lastPiece struct {
	From    int64 `json:"from"`
	Lines   int64 `json:"lines"`
	Taken   int64 `json:"taken"`
	Refused int64 `json:"refused"`
}

func invalid(format string, args ...any) error {
	return sluice.Refuse(sluice.CodeInvalid, format, args...)
}

func conflict(format string, args ...any) error {
	return sluice.Refuse(sluice.CodeConflict, format, args...)
}

// source is that of an import in the logs.
func source(id string) string { return "import:" + id }

// Check returns why options cannot be those of an import.
func Check(o *store.ImportOptions) error {
	switch {
	case o.Kind != store.ImportEvents && o.Kind != store.ImportUsers:
		return invalid("kind is %.32q, want %s or %s", o.Kind, store.ImportEvents, store.ImportUsers)
	case o.Format != "" && o.Format != string(transfer.NDJSON) && o.Format != string(transfer.CSV):
		return invalid("format is %.32q, want %s or %s, or none", o.Format, transfer.NDJSON, transfer.CSV)
	case o.Kind == store.ImportUsers && (o.App != "" || o.Dedupe != "" || o.Exported):
		return invalid("app_id, dedupe and exported are for events")
	case len(o.App) > sluice.MaxAppIDBytes || !isText(o.App):
		return invalid("app_id: want a text of at most %d bytes", sluice.MaxAppIDBytes)
	case len(o.Dedupe) > sluice.MaxNameBytes || !isText(o.Dedupe):
		return invalid("dedupe: want the name of a field, of at most %d bytes", sluice.MaxNameBytes)
	case len(o.Columns) > store.MaxImportColumns:
		return invalid("columns has %d names, at most %d are possible", len(o.Columns), store.MaxImportColumns)
	}
	for from, to := range o.Columns {
		if from == "" || len(from) > sluice.MaxNameBytes || len(to) > sluice.MaxNameBytes || !isText(from) || !isText(to) {
			return invalid("columns: %.40q: want names of at most %d bytes", from, sluice.MaxNameBytes)
		}
	}
	if _, err := Delimiter(o.Delimiter); err != nil {
		return invalid("delimiter: %v; want one character, tab, or none", err)
	}
	return nil
}

func isText(s string) bool { return utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 }

// Begin begins an import: the name, size and options of i, and who begins it.
func (d *Desk) Begin(ctx context.Context, i store.FileImport) (store.FileImport, error) {
	if err := Check(&i.Options); err != nil {
		return i, err
	}
	switch {
	case i.Name == "" || len(i.Name) > store.MaxImportNameBytes || !isText(i.Name):
		return i, invalid("name: want the name of the file, of 1 to %d bytes", store.MaxImportNameBytes)
	case i.SizeBytes < 1 || i.SizeBytes > store.MaxImportBytes:
		return i, invalid("size: want the size of the file in bytes, from 1 to %d", int64(store.MaxImportBytes))
	}
	now := d.Clock.Now()
	i.ID, i.State, i.CreatedMillis, i.UpdatedMillis = sluice.NewUUID(now), store.ImportOpen, now.UnixMilli(), now.UnixMilli()
	return i, d.Store.AddImport(ctx, i)
}

// Piece takes a piece of an import's file, which begins at an offset, and returns when its
// lines are durable. Errors: an *sluice.Error, of which *store.OtherOffset is one, or
// flow.LogFullError: nothing was written, but no other text may take the piece's place.
// Any other leaves open what was: a repeat does no harm.
func (d *Desk) Piece(ctx context.Context, id string, offset int64, text string) (store.ImportPiece, error) {
	for range claimTries {
		i, err := d.Store.FileImport(ctx, id)
		if err != nil {
			return store.ImportPiece{}, err
		}
		if again, ok := repeated(&i, offset); ok {
			return again, nil
		}
		if err := takes(&i, offset, text); err != nil {
			return store.ImportPiece{}, err
		}
		p := &piece{desk: d, of: &i}
		if want, err := p.read(text); err != nil || want > 0 {
			return store.ImportPiece{NextOffset: offset, WantBytes: want}, err
		}
		// Also of what is claimed already: it is written from now on, for pieceTime at most.
		if err = d.Store.ClaimImport(ctx, id, offset, p.claim, max(d.Clock.Now().UnixMilli(), i.UpdatedMillis+1)); err == nil {
			err = p.write(ctx)
		}
		if errors.Is(err, sluice.ErrConflict) { // somebody else sends it, too
			continue
		}
		return p.done, err
	}
	return store.ImportPiece{}, conflict("somebody else sends pieces of this import at the moment: ask how far it is, and go on from there")
}

// repeated tells of a piece that was taken before.
func repeated(i *store.FileImport, offset int64) (p store.ImportPiece, ok bool) {
	var last lastPiece
	if i.LastPiece == "" || json.Unmarshal([]byte(i.LastPiece), &last) != nil || last.From != offset || offset == i.NextOffset {
		return p, false
	}
	return store.ImportPiece{NextOffset: i.NextOffset, Lines: last.Lines, Taken: last.Taken, Refused: last.Refused, Repeated: true}, true
}

// takes refuses a piece that is none of an import, or not the next one.
func takes(i *store.FileImport, offset int64, text string) error {
	left := i.SizeBytes - i.NextOffset
	switch {
	case i.State != store.ImportOpen:
		return conflict("the import is %s, and takes no more pieces; begin another one", i.State)
	case offset != i.NextOffset:
		return &store.OtherOffset{Want: i.NextOffset}
	case left == 0:
		return conflict("the file has been read to its end; finish the import")
	case text == "":
		return invalid("the piece is empty")
	case int64(len(text)) > left:
		return invalid("the piece goes beyond the file: %d bytes are left of its %d", left, i.SizeBytes)
	case len(text) > MaxPieceBytes:
		return sluice.Refuse(sluice.CodeTooLarge, "the piece has more than %d bytes", MaxPieceBytes)
	case len(text) < MinPieceBytes && int64(len(text)) < left:
		return invalid("the piece has fewer than %d bytes: only the last one of a file may", MinPieceBytes)
	case offset == 0 && isPacked(text):
		return invalid("the file is packed: send pieces of what is in it; of a piece itself Content-Encoding says how it is packed")
	}
	return nil
}

// isPacked tells gzip (RFC 1952, 2.3.1) and zstd (RFC 8878, 3.1.1).
func isPacked(head string) bool {
	return strings.HasPrefix(head, "\x1f\x8b") || strings.HasPrefix(head, "\x28\xb5\x2f\xfd")
}

// piece is a piece being taken.
type piece struct {
	desk  *Desk
	of    *store.FileImport
	at    reading // before it, and when its lines are read behind it
	lines []store.Line
	bytes int    // of its whole lines
	claim string // "LENGTH:SHA-256"
	done  store.ImportPiece
}

// read cuts a piece into lines; what is claimed already is read as it was then. want: it
// has no whole line.
func (p *piece) read(text string) (want int, err error) {
	if p.of.Claim != "" {
		if text, want, err = claimed(p.of.Claim, text); err != nil || want > 0 {
			return want, err
		}
	}
	if err := p.stand(); err != nil {
		return 0, err
	}
	options, err := Lines(&p.of.Options)
	if err != nil {
		return 0, err
	}
	options.From, options.More = p.at.Lines, p.of.NextOffset+int64(len(text)) < p.of.SizeBytes
	r, err := transfer.NewLineReader(strings.NewReader(text), options)
	if errors.Is(err, transfer.ErrUnfinished) {
		return p.larger(len(text))
	}
	if err != nil {
		return 0, invalid("%v", err)
	}
	defer r.Close()
	for size := 0; size < maxLinesBytes || !r.Between(); {
		line, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return 0, err
		}
		p.lines = append(p.lines, line)
		size += lineBytes + len(line.Text)
	}
	if p.bytes = int(r.Taken()); p.bytes == 0 {
		return p.larger(len(text))
	}
	p.at.Lines = r.State()
	sum := sha256.Sum256([]byte(text[:p.bytes]))
	p.claim = strconv.Itoa(p.bytes) + ":" + hex.EncodeToString(sum[:])
	return 0, nil
}

// stand finds out where reading stands.
func (p *piece) stand() error {
	if p.of.Reader == "" {
		return nil
	}
	if err := json.Unmarshal([]byte(p.of.Reader), &p.at); err != nil {
		return fmt.Errorf("read where import %s stands: %w", p.of.ID, err)
	}
	return nil
}

// larger says how large a piece is to be instead of one that has no whole line.
func (p *piece) larger(bytes int) (int, error) {
	if bytes >= MaxPieceBytes {
		return 0, invalid("%d bytes have no whole line: this is no file of lines", bytes)
	}
	return min(2*bytes, MaxPieceBytes), nil
}

// claimed returns the part of a piece that was claimed.
func claimed(claim, text string) (part string, want int, err error) {
	length, sum, _ := strings.Cut(claim, ":")
	n, err := strconv.Atoi(length)
	if err != nil || n < 1 {
		return "", 0, fmt.Errorf("read the claim %.80q of an import: want its length", claim)
	}
	if len(text) < n {
		return "", n, nil
	}
	if now := sha256.Sum256([]byte(text[:n])); hex.EncodeToString(now[:]) != sum {
		return "", 0, conflict("the file is another one now: of the %d bytes from here on something else was sent before, and may be in. Begin another import", n)
	}
	return text[:n], 0, nil
}

// write writes the lines to the logs, and moves the import.
func (p *piece) write(ctx context.Context) error {
	d, done := p.desk, &p.done
	im := d.Import(&p.of.Options)
	im.Source, im.Known, im.Part, im.Wrote = source(p.of.ID), true, &p.at.Point, d.noting(ctx, p.of.ID)
	*done = store.ImportPiece{NextOffset: p.of.NextOffset + int64(p.bytes)}
	var kept []store.RefusedLine
	im.Reject = func(line store.Line, reason error) error {
		if len(done.RefusedLines) < MaxPieceReasons {
			done.RefusedLines = append(done.RefusedLines, store.RefusedLine{Line: line.Number, Reason: reasonText(reason.Error())})
		}
		if p.of.Refused+int64(len(kept)) < store.MaxImportRefused {
			kept = append(kept, store.RefusedLine{Line: line.Number, Reason: keptReason(reason)})
		}
		return nil
	}
	lines := p.lines
	all, err := im.Run(ctx, func() (line store.Line, err error) {
		if len(lines) == 0 {
			return line, io.EOF
		}
		line, lines = lines[0], lines[1:]
		return line, nil
	}, func(ingest.Imported) {})
	if err == nil {
		err = faults.Hit("import-piece")
	}
	if err != nil {
		return err
	}
	done.Lines, done.Refused, done.Taken = all.Lines, all.Rejected, all.Written+all.Known
	reader, err := json.Marshal(p.at)
	if err != nil {
		return err
	}
	last, err := json.Marshal(lastPiece{p.of.NextOffset, done.Lines, done.Taken, done.Refused})
	if err != nil {
		return err
	}
	return d.Store.MoveImport(ctx, store.ImportMove{
		ID: p.of.ID, From: p.of.NextOffset, Claim: p.claim, NextOffset: done.NextOffset, Lines: done.Lines, Taken: done.Taken, Refused: done.Refused,
		Reader: string(reader), LastPiece: string(last), RefusedLines: kept, NowMillis: d.Clock.Now().UnixMilli(),
	})
}

// noting returns what notes batches that an import has written.
func (d *Desk) noting(ctx context.Context, id string) func([]store.ImportedBatch) error {
	return func(batches []store.ImportedBatch) error {
		if err := faults.Hit("import-note"); err != nil {
			return err
		}
		return d.Store.NoteImported(ctx, id, store.ImportUnit{ID: sluice.NewUUID(d.Clock.Now()), Batches: batches})
	}
}

// quoted is a value in a reason, as %q writes it: so all do that say why a line is refused.
var quoted = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)

// keptReason is a reason as it is kept, for all who may see imports and for 90 days: without
// values, which would have to be erased with their people. The sender is told them once, and
// has the file.
func keptReason(reason error) string {
	return reasonText(quoted.ReplaceAllLiteralString(reason.Error(), `"…"`))
}

// reasonText is a reason as it is shown.
func reasonText(reason string) string {
	text := strings.ToValidUTF8(reason, "\uFFFD")
	if len(text) <= store.MaxImportReason {
		return text
	}
	at := store.MaxImportReason
	for !utf8.RuneStart(text[at]) {
		at--
	}
	return text[:at]
}

// Finish says that an import's file has come to its end.
func (d *Desk) Finish(ctx context.Context, id string) (store.FileImport, error) {
	i, err := d.Store.FileImport(ctx, id)
	switch {
	case err != nil || i.State == store.ImportDone:
		return i, err
	case i.State != store.ImportOpen:
		return i, conflict("the import is %s", i.State)
	case i.NextOffset < i.SizeBytes:
		return i, &store.OtherOffset{Want: i.NextOffset}
	}
	if err := d.Store.SetImportState(ctx, i, store.ImportDone, d.Clock.Now().UnixMilli()); err != nil && !errors.Is(err, sluice.ErrConflict) {
		return i, err
	}
	return d.Store.FileImport(ctx, id)
}

// Known is where what is known of imports is kept.
func (d *Desk) Known() store.FileImportStore { return d.Store }

// Forget makes the logs forget an import, before its row goes.
func (d *Desk) Forget(ctx context.Context, id string) error {
	return ingest.Forget(ctx, d.Logs, source(id), ingest.EventSource(source(id)))
}
