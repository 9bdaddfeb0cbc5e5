package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"sluice"
	"sluice/api/braze"
	"sluice/engine"
	"sluice/ingest"
	"sluice/ops/imports"
	"sluice/ops/transfer"
	"sluice/store"
)

const importLong = `
Reads events or users of a file into the logs of a running program. The file is NDJSON
or CSV with a header, packed with gzip or zstd or not, detected by the content; - is
standard input. Lines become events as elements of a list do (INTERFACES.md, section 4),
but each needs a time.

    sluice import events old.csv.gz --columns "action=event,when=time" --app-id shop
    zcat *.gz | sluice import events -

It waits until all is stored, and says how many events are new. If it is interrupted, run
it again: it continues. A file may be imported twice, or again when it has grown: an event
without an id gets one of the app and the file's content up to its line. Lines that are no
events are written to FILE.rejected with numbers and reasons, and the exit code is 1.

    sluice import undo old.csv.gz          count what its imports put in
    sluice import undo old.csv.gz --yes    remove it, also from the series

FILE.imported notes which rows an import wrote; an undo renames it to FILE.imported.undone.
What else came of the events stays: suppressions, ways of journeys.

    sluice import users people.csv.gz --columns "id=external_id"

A line of users is an attributes object as /users/track takes it, with external_id,
user_alias, email or phone; users who are not there are created. The header of a CSV names
attributes, external_id among them; empty cells are left out, numbers, true and false are
such in custom attributes, all else is text. If it is interrupted, run it again: each line
is applied once, except from standard input. A file that was imported as a whole is applied
again if it is imported again.
`

var importFlags = []flagSpec{
	{name: "app-id", value: "APP", help: "the app of events that name none", check: atMostBytes(sluice.MaxAppIDBytes)},
	{name: "columns", value: "FROM=TO,...", help: "take the column or member FROM for TO, such as action=event,when=time; FROM= leaves it out", check: func(s string) error { _, err := parseColumns(s); return err }},
	{name: "dedupe", value: "FIELD", more: true, help: "the field that has the event's own id, which every line must have; without it event_id, which may be absent"},
	{name: "format", value: "FORMAT", more: true, help: "ndjson or csv; without it told by the content", check: oneOf(string(transfer.NDJSON), string(transfer.CSV))},
	{name: "delimiter", value: "CHAR", help: "between the cells of a CSV; tab for a tab. Without it the header tells: comma, semicolon, tab or bar", check: aDelimiter},
	{name: "exported", more: true, help: "the file is one of `sluice export events`: events are taken as they are"},
	{name: "yes", help: "undo: remove what the imports of the file put in"},
	{name: "rejected", value: "FILE", more: true, help: "where rejected lines go; FILE.rejected, for standard input import.rejected"},
}

func atMostBytes(most int) func(string) error {
	return func(s string) error {
		if len(s) > most {
			return fmt.Errorf("it has %d bytes, the limit is %d bytes", len(s), most)
		}
		return nil
	}
}

func aDelimiter(s string) error {
	_, err := imports.Delimiter(s)
	return err
}

func parseColumns(s string) (map[string]string, error) {
	if s == "" {
		return nil, nil
	}
	columns := make(map[string]string)
	for pair := range strings.SplitSeq(s, ",") {
		from, to, ok := strings.Cut(pair, "=")
		if from, to = strings.TrimSpace(from), strings.TrimSpace(to); !ok || from == "" {
			return nil, fmt.Errorf("%q is not FROM=TO", pair)
		}
		columns[from] = to
	}
	return columns, nil
}

func runImport(ctx context.Context, c *call) error {
	what, rest, err := c.word("events", "users", "undo")
	if err != nil {
		return err
	}
	if len(rest) != 1 {
		return usagef("import %s: want one file%s", what, map[bool]string{false: ", or - for standard input"}[what == "undo"])
	}
	if what == "undo" {
		return c.importUndo(ctx, rest[0])
	}
	users := what == "users"
	for _, flag := range []string{"app-id", "dedupe", "exported"} {
		if users && c.given.has(flag) {
			return usagef("import users: --%s is for events", flag)
		}
	}
	running, err := c.running(ctx)
	if err != nil {
		return err
	}
	in := &importing{call: c, name: rest[0], users: users, options: c.importOptions(what)}
	if in.deployment, err = deploymentText(ctx, running); err != nil {
		return err
	}
	if err := in.open(ctx); err != nil {
		return err
	}
	c.later(in.close)
	into := imports.Into{Logs: engine.LogsOf(running.Redis, running.Config), Kept: engine.Retention(running.Config), Clock: c.clockOf(ctx, running.Redis), UserLine: braze.UserLine, BacklogBytes: running.Config.BacklogMB << 20, Replicas: engine.Replicas(running.Config)}
	if err := in.run(ctx, &into); err != nil {
		return err
	}
	return in.end(ctx, running)
}

// importOptions are what the flags say.
func (c *call) importOptions(kind string) store.ImportOptions {
	g := c.given
	columns, _ := parseColumns(g.text("columns")) // checked by its flag
	return store.ImportOptions{
		Kind: kind, App: g.text("app-id"), Columns: columns, Format: g.text("format"), Delimiter: g.text("delimiter"), Dedupe: g.text("dedupe"), Exported: g.has("exported"),
	}
}

// importing is one file being imported.
type importing struct {
	call    *call
	name    string
	users   bool // it has users, not events
	options store.ImportOptions
	started time.Time

	file       *os.File // nil: standard input
	size       int64
	read       atomic.Int64
	lines      *transfer.LineReader
	source     string
	deployment string // which it goes into
	rejected   *os.File
	refused    int64 // lines
	record     *importRecord
	unrecorded bool                  // it could not be noted
	batches    []store.ImportedBatch // that this run wrote
	earlier    []store.ImportedBatch // the last ones of the run before it
}

// Read implements io.Reader, and counts.
func (in *importing) Read(p []byte) (int, error) {
	from := io.Reader(in.file)
	if in.file == nil {
		from = in.call.main.Stdin
	}
	n, err := from.Read(p)
	in.read.Add(int64(n))
	return n, err
}

// open opens the file, and names the source after all that decides what comes
// out of it.
func (in *importing) open(ctx context.Context) error {
	options, err := imports.Lines(&in.options)
	if err != nil {
		return err
	}
	in.source = "import:" + strings.ToLower(rand.Text())
	if in.name != "-" {
		file, err := os.Open(in.name)
		if err != nil {
			return fmt.Errorf("import: %w", err)
		}
		in.file = file
		info, err := file.Stat()
		if err == nil && info.Mode().IsRegular() {
			in.size = info.Size()
			in.source, err = in.fingerprint(ctx)
		}
		if err != nil {
			return errors.Join(fmt.Errorf("import %s: %w", in.name, err), file.Close())
		}
	}
	in.read.Store(0)
	if in.lines, err = transfer.NewLineReader(in, options); err != nil {
		return errors.Join(fmt.Errorf("import %s: %w", in.name, err), in.close())
	}
	return nil
}

// fingerprint reads the file through: the same content with the same options
// is the same import.
func (in *importing) fingerprint(ctx context.Context) (string, error) {
	h := sha256.New()
	progress := in.call.progress()
	for ctx.Err() == nil {
		n, err := io.CopyN(h, in, 16<<20)
		progress.at(partOf(in.read.Load(), in.size), "reading it through: "+in.percent())
		if err == io.EOF || n == 0 {
			break
		}
		if err != nil {
			return "", err
		}
	}
	if _, err := in.file.Seek(0, io.SeekStart); err != nil {
		return "", err
	}
	o := &in.options
	for _, from := range slices.Sorted(maps.Keys(o.Columns)) {
		fmt.Fprintf(h, "|%q=%q", from, o.Columns[from])
	}
	fmt.Fprintf(h, "|%q|%q|%q|%q|%v", o.App, o.Dedupe, o.Format, cmp.Or(o.Delimiter, ","), o.Exported)
	if in.users {
		fmt.Fprint(h, "|users")
	}
	return "import:" + hex.EncodeToString(h.Sum(nil)[:16]), ctx.Err()
}

func (in *importing) percent() string {
	if in.size == 0 {
		return fmt.Sprintf("%d MB", in.read.Load()>>20)
	}
	return fmt.Sprintf("%d of %d MB", in.read.Load()>>20, in.size>>20)
}

func (in *importing) close() error {
	var errs []error
	if in.lines != nil {
		in.lines.Close()
	}
	if in.rejected != nil {
		errs = append(errs, in.rejected.Close())
	}
	if in.record != nil {
		errs = append(errs, in.record.file.Close())
	}
	if in.file != nil {
		errs = append(errs, in.file.Close())
	}
	return errors.Join(errs...)
}

func (in *importing) run(ctx context.Context, into *imports.Into) error {
	progress := in.call.progress()
	in.started = time.Now()
	im := into.Import(&in.options)
	im.Source, im.Known, im.Reject, im.Waiting, im.Wrote = in.source, in.size > 0, in.reject, progress.say, in.wrote
	done, err := im.Run(ctx, in.lines.Next, func(d ingest.Imported) { progress.at(partOf(in.read.Load(), in.size), in.where(d)) })
	in.call.print("%s lines: %s %s, %s of an earlier run, %s rejected", grouped(done.Lines), grouped(done.Written), in.options.Kind, grouped(done.Known), grouped(done.Rejected))
	if err != nil {
		return fmt.Errorf("import %s, after line %d: %w", in.name, done.Lines, err)
	}
	in.refused = done.Rejected
	return nil
}

// end says what became of all that was written, and of what was not.
func (in *importing) end(ctx context.Context, running *engine.Running) error {
	err := in.awaitStored(ctx, running)
	if err == nil && in.refused > 0 {
		err = fmt.Errorf("import %s: %s lines were rejected, see %s", in.name, grouped(in.refused), in.rejected.Name())
	}
	return err
}

// wrote notes batches that are in the logs. Without a record the import goes on:
// it cannot be undone then.
func (in *importing) wrote(batches []store.ImportedBatch) error {
	for i := range batches {
		in.wroteOne(batches[i])
	}
	return nil
}

func (in *importing) wroteOne(b store.ImportedBatch) {
	if b.Items > 0 {
		in.batches = append(in.batches, b)
	} else {
		in.earlier = append(in.earlier, b)
	}
	if in.users || in.unrecorded {
		return
	}
	var err error
	if in.record == nil {
		name := in.name + recordSuffix
		if in.name == "-" {
			name = filepath.Join(in.call.main.Dir, strings.ReplaceAll(in.source, ":", "-")+recordSuffix)
		}
		in.record, err = openRecord(name, recordSource{ingest.EventSource(in.source), in.deployment})
	}
	if err == nil {
		err = in.record.add(b)
		if last := len(in.earlier) - 1; b.Items == 0 && err == nil { // if its run noted it, that is known better
			in.earlier[last] = in.record.known[batchPlace{b.Partition, b.Position}]
		}
	}
	if err != nil {
		in.unrecorded = true
		fmt.Fprintf(in.call.main.Stderr, "import %s: it cannot be undone later: note what it writes: %v\n", in.name, err)
	}
}

// where says how far an import has come, how fast, and how long it may take.
func (in *importing) where(d ingest.Imported) string {
	passed := time.Since(in.started)
	text := fmt.Sprintf("%s lines, %s, %s lines/s", grouped(d.Lines), in.percent(), grouped(int64(float64(d.Lines)/max(passed.Seconds(), 0.001))))
	if read := in.read.Load(); in.size > read && read > 0 {
		left := time.Duration(float64(passed) * float64(in.size-read) / float64(read))
		text += fmt.Sprintf(", %s left", left.Round(time.Second))
	}
	return text
}

// rejectedLine is a line of the report.
type rejectedLine struct {
	Line   int64  `json:"line"`
	Reason string `json:"reason"`
	Text   string `json:"text"`
}

// reject writes a line to the report, which is made for the first.
func (in *importing) reject(line store.Line, reason error) error {
	if in.rejected == nil {
		name := in.call.given.text("rejected")
		if name == "" {
			if name = in.name + ".rejected"; in.name == "-" {
				name = filepath.Join(in.call.main.Dir, "import.rejected")
			}
		}
		// The report of an earlier run goes; where it is a link, only the link.
		err := os.Remove(name)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			in.rejected, err = os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		}
		if err != nil {
			return fmt.Errorf("report a rejected line: %w; choose another file with --rejected", err)
		}
	}
	text, err := json.Marshal(rejectedLine{line.Number, reason.Error(), line.Text})
	if err == nil {
		_, err = in.rejected.Write(append(text, '\n'))
	}
	return err
}
