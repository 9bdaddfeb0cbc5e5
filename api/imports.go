package api

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"sluice"
	"sluice/lib/jsonscan"
	"sluice/lib/key"
	"sluice/store"
)

// Imports take in files that come in pieces. An imports.Desk is one. What a caller has made
// wrong is an *sluice.Error.
type Imports interface {
	Preview(ctx context.Context, o store.ImportOptions, head string, whole bool) (store.ImportPreview, error)
	Begin(ctx context.Context, i store.FileImport) (store.FileImport, error)
	Piece(ctx context.Context, id string, offset int64, text string) (store.ImportPiece, error)
	Finish(ctx context.Context, id string) (store.FileImport, error)
	Left(ctx context.Context, id string) (int64, error)
	Count(ctx context.Context, id string) (events int64, whole bool, err error)
	Undo(ctx context.Context, id string) (store.FileImport, error)

	// Known is where what is known of imports is kept.
	Known() store.FileImportStore
}

// Paths of imports.
const (
	importsPath = "/v1/imports"
	importPath  = importsPath + "/{id}"
)

// Bounds of imports in requests.
const (
	maxImportBytes  = 64 << 10 // of a body that begins one
	maxPreviewBytes = 1 << 20  // of a body with the beginning of a file, whose marks are escaped
	defaultImports  = 50
	maxImportsPage  = 200

	// parallelPieces bounds the pieces that are read at once: each is in memory some times.
	parallelPieces = 4
)

// importShown is an import in an answer.
type importShown struct {
	ID         string              `json:"id"`
	Name       string              `json:"name"`
	State      string              `json:"state"`
	By         string              `json:"by"`
	Options    store.ImportOptions `json:"options"`
	Size       int64               `json:"size"`
	NextOffset int64               `json:"next_offset"`
	Lines      int64               `json:"lines"`
	Taken      int64               `json:"taken"`
	Refused    int64               `json:"refused_count"`
	Removed    int64               `json:"removed"`
	Created    string              `json:"created"`
	Updated    string              `json:"updated"`
	Ended      string              `json:"ended,omitempty"`
}

func shownImport(i *store.FileImport) importShown {
	return importShown{
		ID: i.ID, Name: i.Name, State: i.State, By: i.Account, Options: i.Options, Size: i.SizeBytes, NextOffset: i.NextOffset, Lines: i.Lines, Taken: i.Taken, Refused: i.Refused,
		Removed: i.Removed, Created: timeText(i.CreatedMillis), Updated: timeText(i.UpdatedMillis), Ended: timeText(i.EndedMillis),
	}
}

// refusedLine is a line that was not taken.
type refusedLine struct {
	Line   int64  `json:"line"`
	Reason string `json:"reason"`
}

func refusedLines(all []store.RefusedLine) []refusedLine {
	shown := make([]refusedLine, len(all))
	for i, l := range all {
		shown[i] = refusedLine(l)
	}
	return shown
}

// importInFull is an import with what is still to be stored, and the lines that were
// refused.
type importInFull struct {
	importShown
	Left    int64         `json:"still_to_be_stored"`
	Refused []refusedLine `json:"refused"`
}

// listImports is GET /v1/imports, the newest first.
func (q *request) listImports() (any, error) {
	before := q.query.Get("before")
	if len(before) > maxRequestIDBytes || !saneID(before) && before != "" {
		return nil, errBefore(before)
	}
	return readList(q.query, "imports", defaultImports, maxImportsPage, func(limit int) ([]store.FileImport, error) {
		return q.Imports.Known().FileImports(q.Context(), before, limit)
	}, shownImport, func(i *store.FileImport) string { return i.ID })
}

// getImport is GET /v1/imports/{id}.
func (q *request) getImport() (any, error) {
	i, err := q.Imports.Known().FileImport(q.Context(), q.PathValue("id"))
	if err != nil {
		return nil, err
	}
	full := importInFull{importShown: shownImport(&i)}
	if full.Left, err = q.Imports.Left(q.Context(), i.ID); err != nil {
		return nil, err
	}
	lines, err := q.Imports.Known().RefusedLines(q.Context(), i.ID, -1, store.MaxImportRefused)
	full.Refused = refusedLines(lines)
	return full, err
}

func (q *request) viewImport() (any, error) {
	i, err := q.Imports.Known().FileImport(q.Context(), q.PathValue("id"))
	return shownImport(&i), err
}

// importFields are what a body may say of how lines are read.
func importFields(o *store.ImportOptions, columns *jsonscan.Value) []field {
	return []field{
		{"kind", &o.Kind}, {"app_id", &o.App}, {"format", &o.Format}, {"delimiter", &o.Delimiter}, {"dedupe", &o.Dedupe}, {"exported", &o.Exported}, {"columns", columns},
	}
}

// readColumns reads what names are made others.
func readColumns(v *jsonscan.Value) (map[string]string, error) {
	if v.Kind == jsonscan.None {
		return nil, nil
	}
	columns := make(map[string]string)
	if v.Kind != jsonscan.Object {
		return nil, refusal(sluice.CodeInvalid, "columns: want an object of texts, got %s", v.Kind)
	}
	for m := jsonscan.Read(v.Raw); m.Next(); {
		if m.Value.Kind != jsonscan.String || len(columns) > store.MaxImportColumns {
			return nil, refusal(sluice.CodeInvalid, "columns: want an object of at most %d texts", store.MaxImportColumns)
		}
		columns[strings.Clone(m.Key)] = strings.Clone(m.Value.Text())
	}
	return columns, nil
}

// addImport is POST /v1/imports.
func (q *request) addImport() (any, error) {
	var i store.FileImport
	var columns jsonscan.Value
	var size int
	_, err := q.object(maxImportBytes, append(importFields(&i.Options, &columns), field{"name", &i.Name}, field{"size", number{&size, store.MaxImportBytes}})...)
	if err != nil {
		return nil, err
	}
	if i.Options.Columns, err = readColumns(&columns); err != nil {
		return nil, err
	}
	i.SizeBytes, i.Account = int64(size), q.who.Name
	if a, ok := q.w.(*answer); ok && a.account != nil {
		i.Account = a.account.Name
	}
	if i, err = q.Imports.Begin(q.Context(), i); err != nil {
		return nil, err
	}
	q.status = http.StatusCreated
	q.w.Header().Set("Location", importsPath+"/"+i.ID)
	q.became(shownImport(&i))
	return shownImport(&i), nil
}

// previewShown is what an import would make of the beginning of a file.
type previewShown struct {
	Options store.ImportOptions `json:"options"`
	Columns []columnShown       `json:"columns"`
	Fields  []string            `json:"fields"`
	Lines   int64               `json:"lines"`
	Rows    []rowShown          `json:"rows"`
	Count   int64               `json:"refused_count"`
	Refused []refusedLine       `json:"refused"`
}

type columnShown struct {
	Name    string   `json:"name"`
	To      string   `json:"to"`
	As      string   `json:"as"`
	Samples []string `json:"samples"`
}

// rowShown is a line as it would be understood.
type rowShown struct {
	Line       int64           `json:"line"`
	Event      string          `json:"event,omitempty"`
	Kind       string          `json:"kind,omitempty"`
	Time       string          `json:"time,omitempty"`
	App        string          `json:"app_id,omitempty"`
	UserID     string          `json:"user_id,omitempty"`
	Email      string          `json:"email,omitempty"`
	MessageID  string          `json:"message_id,omitempty"`
	EventID    string          `json:"event_id,omitempty"`
	Properties json.RawMessage `json:"properties,omitempty"`
	User       string          `json:"user,omitempty"`
	NamedBy    string          `json:"named_by,omitempty"`
	Attributes json.RawMessage `json:"attributes,omitempty"`
}

// objectText is a text as JSON, if it is some.
func objectText(text string) json.RawMessage {
	if text == "" || !json.Valid([]byte(text)) {
		return nil
	}
	return json.RawMessage(text)
}

// previewImport is POST /v1/imports/preview.
func (q *request) previewImport() (any, error) {
	var o store.ImportOptions
	var columns jsonscan.Value
	var text string
	size := 0
	_, err := q.object(maxPreviewBytes, append(importFields(&o, &columns), field{"text", &text}, field{"size", number{&size, store.MaxImportBytes}})...)
	if err == nil {
		o.Columns, err = readColumns(&columns)
	}
	if err != nil {
		return nil, err
	}
	p, err := q.Imports.Preview(q.Context(), o, text, len(text) >= size)
	if err != nil {
		return nil, err
	}
	shown := previewShown{Options: p.Options, Columns: []columnShown{}, Fields: append([]string{}, p.Fields...), Lines: p.Lines, Rows: []rowShown{}, Count: p.Refused, Refused: refusedLines(p.Reasons)}
	for _, c := range p.Columns {
		shown.Columns = append(shown.Columns, columnShown{c.Name, c.To, c.As, append([]string{}, c.Samples...)})
	}
	for i := range p.Rows {
		r := &p.Rows[i]
		row := rowShown{Line: r.Line, Event: r.Event, Kind: r.Kind, App: r.App, UserID: r.UserRef, Email: r.Email, MessageID: r.Message, EventID: r.ID, User: r.User, NamedBy: r.Named}
		if r.Named != "" {
			row.Attributes = objectText(r.Values)
		} else {
			row.Time, row.Properties = timeText(r.TimeMillis), objectText(r.Values)
		}
		shown.Rows = append(shown.Rows, row)
	}
	return shown, nil
}

// countImport is GET /v1/imports/{id}/events.
func (q *request) countImport() (any, error) {
	id := q.PathValue("id")
	events, whole, err := q.Imports.Count(q.Context(), id)
	if err != nil {
		return nil, err
	}
	left, err := q.Imports.Left(q.Context(), id)
	return map[string]any{"events": events, "whole": whole, "still_to_be_stored": left}, err
}

// finishImport is POST /v1/imports/{id}/finish.
func (q *request) finishImport() (any, error) {
	i, err := q.Imports.Finish(q.Context(), q.PathValue("id"))
	return shownImport(&i), err
}

// undoImport is POST /v1/imports/{id}/undo.
func (q *request) undoImport() (any, error) {
	i, err := q.Imports.Undo(q.Context(), q.PathValue("id"))
	return shownImport(&i), err
}

// pieceShown is what became of a piece.
type pieceShown struct {
	NextOffset int64         `json:"next_offset"`
	Lines      int64         `json:"lines"`
	Taken      int64         `json:"taken"`
	Count      int64         `json:"refused_count"`
	Refused    []refusedLine `json:"refused"`
	Repeated   bool          `json:"repeated"`
	WantBytes  int           `json:"want_bytes,omitempty"`
}

// importPiece is POST /v1/imports/{id}/pieces. It is part of a change that was noted when
// the import began: the audit log has no entry for each of thousands.
func (s *Server) importPiece(w http.ResponseWriter, r *http.Request) {
	piece, err := s.takePiece(w, r)
	if err != nil {
		s.writeError(w, r, err)
		return
	}
	s.intake.accepted.Add(float64(piece.Taken))
	s.intake.refused.Add(float64(piece.Refused))
	s.writeJSON(w, http.StatusOK, pieceShown{piece.NextOffset, piece.Lines, piece.Taken, piece.Refused, refusedLines(piece.RefusedLines), piece.Repeated, piece.WantBytes})
}

func (s *Server) takePiece(w http.ResponseWriter, r *http.Request) (piece store.ImportPiece, err error) {
	who, err := s.permitted(w, r, key.ImportsWrite)
	if err == nil {
		err = s.rates.admit(who)
	}
	if err == nil {
		err = storable(r.PathValue("id"))
	}
	if err != nil {
		return piece, err
	}
	imports := s.program.Services().Imports
	if imports == nil {
		return piece, errNotRunning
	}
	q, err := readQuery(r, []string{"offset"})
	if err != nil {
		return piece, err
	}
	offset, err := strconv.ParseInt(q.Get("offset"), 10, 64)
	if err != nil || offset < 0 {
		return piece, refusal(sluice.CodeInvalid, "offset is %.32q, want where the piece begins in the file, in bytes", q.Get("offset"))
	}
	ctx, body, err := s.hold(r, who, s.pieces, maxEventsBytes)
	if err != nil {
		return piece, err
	}
	defer body.release()
	piece, err = imports.Piece(ctx, r.PathValue("id"), offset, body.text())
	s.rates.spend(who, max(1, int(piece.Lines)))
	if err != nil {
		return piece, s.notAccepted(w, err, "Send the piece again, which does no harm")
	}
	return piece, nil
}
