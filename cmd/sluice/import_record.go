package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"sluice"
	"sluice/engine"
	"sluice/ingest"
	"sluice/ops/imports"
	"sluice/store"
)

// recordSuffix is of the file that says what an import of events has written.
const recordSuffix = ".imported"

// importRecord notes the batches that imports of a file have written to the
// logs: by their places the rows are found that these imports, and no others,
// have put into the table. A line is a source, or a batch.
type importRecord struct {
	file  *os.File
	known map[batchPlace]store.ImportedBatch // batches that are in it
}

type batchPlace struct {
	partition int
	position  sluice.Position
}

// recordLine is a line of the record.
type recordLine struct {
	Source string `json:"source,omitempty"`
	Began  string `json:"began,omitempty"`
	At     string `json:"at,omitempty"` // the batch's position
	*store.ImportedBatch
}

// openRecord goes on with the record of a file, or begins it.
func openRecord(name, source string) (*importRecord, error) {
	if err := dropCutLine(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	sources, batches, err := readRecord(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	r := &importRecord{known: make(map[batchPlace]store.ImportedBatch, len(batches))}
	for i := range batches {
		r.known[batchPlace{batches[i].Partition, batches[i].Position}] = batches[i]
	}
	if r.file, err = os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err != nil {
		return nil, err
	}
	if !sources[source] {
		err = r.write(recordLine{Source: source, Began: time.Now().UTC().Format(time.RFC3339)})
	}
	return r, err
}

// dropCutLine takes away what a crash has left of a last line: the next line would be
// glued to it, and nobody could read either. The next run tells of that batch again.
func dropCutLine(name string) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	whole := bytes.LastIndexByte(text, '\n') + 1
	if whole == len(text) {
		return nil
	}
	return os.Truncate(name, int64(whole))
}

func (r *importRecord) write(line recordLine) error {
	text, err := json.Marshal(line)
	if err == nil {
		_, err = r.file.Write(append(text, '\n'))
	}
	return err
}

// add notes a batch, once.
func (r *importRecord) add(b store.ImportedBatch) error {
	place := batchPlace{b.Partition, b.Position}
	if _, ok := r.known[place]; ok {
		return nil
	}
	r.known[place] = b
	return r.write(recordLine{At: b.Position.String(), ImportedBatch: &b})
}

// readRecord reads a record: the sources of the imports, and their batches. A
// last line that was cut off by a crash is left out.
func readRecord(name string) (sources map[string]bool, batches []store.ImportedBatch, err error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, nil, err
	}
	defer file.Close()
	sources = make(map[string]bool)
	lines := bufio.NewScanner(file)
	for number := 1; lines.Scan(); number++ {
		var line recordLine
		err := json.Unmarshal(lines.Bytes(), &line)
		if err == nil && line.Source != "" {
			sources[line.Source] = true
			continue
		}
		if err == nil && line.ImportedBatch == nil {
			err = errors.New("it is neither a source nor a batch")
		}
		if err == nil {
			line.Position, err = sluice.ParsePosition(line.At)
		}
		if err != nil {
			if !lines.Scan() && lines.Err() == nil && len(batches) > 0 {
				break
			}
			return nil, nil, fmt.Errorf("read %s, line %d, as the record of an import: %w", name, number, err)
		}
		batches = append(batches, *line.ImportedBatch)
	}
	return sources, batches, lines.Err()
}

// importUndo takes the events of a file's imports away again.
func (c *call) importUndo(ctx context.Context, name string) error {
	if !strings.HasSuffix(name, recordSuffix) {
		name += recordSuffix
	}
	sources, batches, err := readRecord(name)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("import undo: there is no record %s of an import of events. Imports of users have none: what a profile was before is kept nowhere. Delete the users by /users/delete, or restore a backup of before", name)
	}
	if err != nil {
		return fmt.Errorf("import undo: %w", err)
	}
	running, err := c.running(ctx)
	if err != nil {
		return err
	}
	left, err := imports.Unstored(ctx, running.Store, running.Config.Partitions, batches)
	if err == nil && left > 0 {
		err = fmt.Errorf("%s events of it are still to be stored; undo it when they are", grouped(left))
	}
	if err == nil {
		err = c.undoBatches(ctx, running, batches)
	}
	if err == nil && c.given.has("yes") {
		// An import that was broken off begins anew.
		err = ingest.Forget(ctx, engine.LogsOf(running.Redis, running.Config), slices.Collect(maps.Keys(sources))...)
	}
	if err != nil {
		return fmt.Errorf("import undo %s: %w", name, err)
	}
	if !c.given.has("yes") {
		return nil
	}
	if err := os.Remove(name); err != nil {
		return fmt.Errorf("import undo: all is undone, and the record stays: %w", err)
	}
	return nil
}

// undoBatches counts, or with --yes removes. A repeat goes on.
func (c *call) undoBatches(ctx context.Context, running *engine.Running, batches []store.ImportedBatch) error {
	kept, now := engine.Retention(running.Config), c.clockOf(ctx, running.Redis).Now()
	hours, days := imports.SeriesFrom(&kept, now)
	progress, rows := c.progress(), 0
	for i := range batches {
		var n int
		var err error
		if c.given.has("yes") {
			n, err = running.Store.RemoveImported(ctx, batches[i], hours, days)
		} else {
			n, err = running.Store.CountImported(ctx, batches[i])
		}
		if rows += n; err != nil {
			return fmt.Errorf("after %s events: %w; do it again: it goes on", grouped(int64(rows)), err)
		}
		progress.at(partOf(int64(i), int64(len(batches))), grouped(int64(rows))+" events")
	}
	progress.end()
	if !c.given.has("yes") {
		c.print("%s events were put in by it; --yes removes them, also from the series", grouped(int64(rows)))
		return nil
	}
	c.print("%s events removed, also from the series", grouped(int64(rows)))
	c.print("what stays: suppressions, openings and clicks of mails, ways of journeys, counts of profiles that came of them; dead letters; what backups have")
	return nil
}
