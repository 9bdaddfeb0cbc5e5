package transfer

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"sluice"
	"sluice/flow"
	"sluice/mail"
	"sluice/mail/route"
	"sluice/store"
)

// Database is a database with all that this package asks of one.
type Database interface {
	store.Store
	store.DumpStore
	mail.StopStore
	SendTotals(ctx context.Context) ([]mail.SendTotal, error)
}

// Backup writes a whole deployment to an archive, beside a running program.
//
// The order is the point: it is that of an element's way. What is held of lists
// is copied first; then comes the dump, one snapshot of the database; the copy of
// the logs begins before both and ends after them. It keeps up what holds the trim
// of the logs, however long the lists take. So whatever was accepted before
// the backup began is in it, in the chunks, in the logs or in the tables, and
// cursors and seqs tell where it counts.
type Backup struct {
	Database Database
	Redis    *flow.Redis
	Lists    []*flow.List // of the configuration
	Missing  []string     // further lists of it, whose servers do not answer
	Clock    sluice.Clock
	Program  string // its version

	// Passphrase seals the secrets of the database; empty: they are left out.
	Passphrase string

	// Progress, if set, is told now and then what is being done.
	Progress func(what string)
}

// archiveSuffix is how the name of a new file ends. A name without it is meant to
// be a directory.
const archiveSuffix = ".tar"

// ArchiveName returns the file that a backup to path goes to: in a directory, one
// named after the time. A directory that is not there is an error: a file in its
// place would be written over by nothing, found by no clean-up, and not be where
// the next backup is.
func (b *Backup) ArchiveName(path string) (string, error) {
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		return filepath.Join(path, "sluice-"+b.Clock.Now().UTC().Format("20060102T150405Z")+archiveSuffix), nil
	case err == nil:
		return path, nil // it is there: createArchive says so
	case !errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("write backup: %w", err)
	case !strings.HasSuffix(path, archiveSuffix):
		return "", fmt.Errorf("write backup: there is no directory %s; make it (install -d -m 0700 %s), or name a new file that ends in %s", path, path, archiveSuffix)
	}
	return path, nil
}

// Run writes the archive. A file that is not whole is removed.
func (b *Backup) Run(ctx context.Context, path string) (*Manifest, error) {
	m, err := b.begin(ctx)
	if err != nil {
		return nil, err
	}
	w, err := createArchive(path)
	if err != nil {
		return nil, err
	}
	if err = b.write(ctx, w, m); err == nil {
		m.Ended = b.Clock.Now().UTC()
		err = w.finish(m)
	}
	if err != nil {
		return nil, errors.Join(err, w.abandon())
	}
	return m, nil
}

// begin looks whether there is one deployment to back up.
func (b *Backup) begin(ctx context.Context) (*Manifest, error) {
	d, err := flow.SameDeployment(ctx, b.Redis, b.Database)
	if err != nil {
		return nil, fmt.Errorf("back up: %w", err)
	}
	if err := route.KeepStops(ctx, b.Redis, b.Database); err != nil {
		return nil, fmt.Errorf("back up: %w", err)
	}
	return &Manifest{Program: b.Program, Deployment: strconv.FormatUint(d.ID, 16), Partitions: d.Partitions, Missing: b.Missing, Began: b.Clock.Now().UTC()}, nil
}

func (b *Backup) write(ctx context.Context, w *archiveWriter, m *Manifest) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	logs := flow.NewLogCopy(b.Redis, m.Partitions)
	from, err := logs.Begin(ctx)
	if err != nil {
		return err
	}
	entries := &logLines{to: lines{to: w, kind: "log"}, seen: make([]int64, m.Partitions)}
	copying, stop := context.WithCancel(ctx)
	copied := make(chan error, 1)
	go func() { // ends with copying
		err := logs.Run(copying, entries.add)
		if err != nil {
			cancel(err)
		}
		copied <- err
	}()
	var ends map[int]flow.LogEnd
	if err = b.copyHeld(ctx, w); err == nil {
		ends, err = b.dump(ctx, w, m, logs)
	}
	stop()
	if copyErr := <-copied; copyErr != nil {
		err = copyErr // why the rest ended
	}
	if err == nil {
		err = entries.to.flush()
	}
	if err != nil {
		return err
	}
	for p := range m.Partitions {
		m.Logs = append(m.Logs, ManifestLog{Partition: p, From: from[p].String(), To: ends[p].Position.String(), Entries: entries.seen[p]})
	}
	return b.writeSources(w, ends)
}

// dump writes the tables, then waits until the logs are copied up to now.
func (b *Backup) dump(ctx context.Context, w *archiveWriter, m *Manifest, logs *flow.LogCopy) (map[int]flow.LogEnd, error) {
	snapshot, err := b.Database.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	m.Snapshot, m.Dialect, m.Schema = b.Clock.Now().UTC(), snapshot.Dialect(), snapshot.SchemaVersion()
	for _, table := range snapshot.Tables() {
		if table.Name == secretsTable {
			err = b.dumpSecrets(ctx, w, m, snapshot, table)
		} else {
			err = b.dumpTable(ctx, w, m, snapshot, table)
		}
		if err != nil {
			break
		}
	}
	if err = errors.Join(err, snapshot.Close()); err != nil {
		return nil, err
	}
	return logs.End(ctx)
}

// tellEvery is after how many rows the progress is told.
const tellEvery = 100_000

func (b *Backup) dumpTable(ctx context.Context, w *archiveWriter, m *Manifest, snapshot store.Snapshot, table store.DumpTable) error {
	out := &lines{to: w, kind: "sql/" + table.Name}
	err := snapshot.Rows(ctx, table.Name, func(cells []store.Cell) error {
		if out.total%tellEvery == 0 && b.Progress != nil {
			b.Progress(fmt.Sprintf("table %s: %d rows; %d MB written", table.Name, out.total, w.written()>>20))
		}
		return out.add(func(line []byte) []byte { return appendRow(line, table.Columns, cells) })
	})
	if err == nil {
		err = out.flush()
	}
	m.Tables = append(m.Tables, ManifestTable{DumpTable: table, Rows: out.total})
	return err
}

// logLines writes entries of logs. Its add is called from several goroutines,
// for a partition from one.
type logLines struct {
	to   lines
	seen []int64 // by partition
}

func (l *logLines) add(batches []flow.Batch) error {
	for _, b := range batches {
		l.seen[b.Partition]++
		err := l.to.add(func(line []byte) []byte {
			line = append(line, `{"partition":`...)
			line = strconv.AppendInt(line, int64(b.Partition), 10)
			line = append(append(line, `,"id":"`...), b.Position.String()...)
			line = append(append(line, `","prev":"`...), b.Prev.String()...)
			line = append(line, `","batch":"`...)
			return append(base64.StdEncoding.AppendEncode(line, b.Data), `"}`...)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (b *Backup) writeSources(w *archiveWriter, ends map[int]flow.LogEnd) error {
	out := &lines{to: w, kind: "sources"}
	for _, p := range slices.Sorted(maps.Keys(ends)) {
		for _, name := range slices.Sorted(maps.Keys(ends[p].Sources)) {
			err := out.add(func(line []byte) []byte {
				line = strconv.AppendInt(append(line, `{"partition":`...), int64(p), 10)
				line = appendJSONText(append(line, `,"source":`...), name)
				return append(appendJSONText(append(line, `,"value":`...), ends[p].Sources[name]), '}')
			})
			if err != nil {
				return err
			}
		}
	}
	return out.flush()
}

// copyHeld writes what is held of the lists. Elements are one text: each is its
// length as uvarint and its bytes.
func (b *Backup) copyHeld(ctx context.Context, w *archiveWriter) error {
	held, states := &lines{to: w, kind: "held"}, &lines{to: w, kind: "lists"}
	for _, l := range b.Lists {
		if b.Progress != nil {
			b.Progress(fmt.Sprintf("list %s: what is held of it; %d MB written", l.Name(), w.written()>>20))
		}
		var packed []byte
		state, err := l.CopyHeld(ctx, func(p flow.HeldPage) error {
			packed = packed[:0]
			for _, e := range p.Elements {
				packed = append(binary.AppendUvarint(packed, uint64(len(e))), e...)
			}
			return held.add(func(line []byte) []byte {
				line = appendJSONText(append(line, `{"list":`...), l.Source())
				line = fmt.Appendf(line, `,"chunk":%d,"offset":%d,"fresh":%v,"elements":"`, p.Chunk, p.Offset, p.Fresh)
				return append(base64.StdEncoding.AppendEncode(line, packed), `"}`...)
			})
		})
		if err != nil {
			return err
		}
		if state == nil {
			continue
		}
		err = states.add(func(line []byte) []byte {
			line = appendJSONText(append(line, `{"list":`...), l.Source())
			return fmt.Appendf(line, `,"last":"%s","hole":"%s","raised":"%s"}`, state["last"], state["hole"], state["raised"])
		})
		if err != nil {
			return err
		}
	}
	return errors.Join(held.flush(), states.flush())
}
