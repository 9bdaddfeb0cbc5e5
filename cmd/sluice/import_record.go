package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"sluice"
	"sluice/engine"
	"sluice/flow"
	"sluice/ingest"
	"sluice/ops/imports"
	"sluice/store"
)

// recordSuffix is of the file that says what an import of events has written, and
// undoneSuffix comes behind it when that was undone.
const (
	recordSuffix = ".imported"
	undoneSuffix = ".undone"
)

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

// recordSource is a content with its options, and where it was imported.
type recordSource struct {
	name       string
	deployment string // in hexadecimal; empty: a version before has noted it
}

// recordLine is a line of the record.
type recordLine struct {
	Source     string `json:"source,omitempty"`
	Deployment string `json:"deployment,omitempty"` // of the source
	Began      string `json:"began,omitempty"`
	At         string `json:"at,omitempty"` // the batch's position
	*store.ImportedBatch
}

// openRecord goes on with the record of a file, or begins it.
func openRecord(name string, source recordSource) (*importRecord, error) {
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
		err = r.write(recordLine{Source: source.name, Deployment: source.deployment, Began: time.Now().UTC().Format(time.RFC3339)})
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
func readRecord(name string) (sources map[recordSource]bool, batches []store.ImportedBatch, err error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, nil, err
	}
	defer file.Close()
	sources = make(map[recordSource]bool)
	lines := bufio.NewScanner(file)
	for number := 1; lines.Scan(); number++ {
		var line recordLine
		err := json.Unmarshal(lines.Bytes(), &line)
		if err == nil && line.Source != "" {
			sources[recordSource{line.Source, line.Deployment}] = true
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

// importUndo takes the events of a file's imports away again. The record is never removed:
// it alone says which rows are of the imports, here or in another deployment.
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
	others, err := c.warnOfDeployments(ctx, running, name, sources)
	if err != nil {
		return err
	}
	left, err := imports.Unstored(ctx, running.Store, running.Config.Partitions, batches)
	if err == nil && left > 0 {
		err = fmt.Errorf("%s events of it are still to be stored; undo it when they are", grouped(left))
	}
	rows := 0
	if err == nil {
		rows, err = c.undoBatches(ctx, running, batches)
	}
	yes := c.given.has("yes")
	if err == nil && yes {
		// An import that was broken off begins anew.
		var names []string
		for s := range sources {
			names = append(names, s.name)
		}
		err = ingest.Forget(ctx, engine.LogsOf(running.Redis, running.Config), names...)
	}
	switch {
	case err != nil:
		return fmt.Errorf("import undo %s: %w", name, err)
	case !yes:
		c.print("%s events were put in by it; --yes removes them, also from the series", grouped(int64(rows)))
		return nil
	case rows == 0:
		c.print("0 events removed: none of it is there. The record %s stays", name)
		return nil
	}
	c.print("%s events removed, also from the series", grouped(int64(rows)))
	c.print("what stays: suppressions, openings and clicks of mails, ways of journeys, counts of profiles that came of them; dead letters; what backups have")
	if others {
		c.print("the record %s stays: it is of imports into other deployments as well", name)
		return nil
	}
	aside, err := setAside(name)
	if err != nil {
		return fmt.Errorf("import undo: all is undone, and the record stays: %w", err)
	}
	c.print("the record is %s now", aside)
	return nil
}

// warnOfDeployments says that a record is of imports into other deployments than this, or
// into others as well. It is not refused: a restore gives a deployment another id, and its
// rows are still there.
func (c *call) warnOfDeployments(ctx context.Context, running *engine.Running, name string, sources map[recordSource]bool) (others bool, err error) {
	here, err := deploymentText(ctx, running)
	if err != nil {
		return false, err
	}
	var names []string
	for s := range sources {
		if s.deployment != "" && s.deployment != here && !slices.Contains(names, s.deployment) {
			names = append(names, s.deployment)
		}
	}
	if len(names) > 0 {
		slices.Sort(names)
		fmt.Fprintf(c.main.Stderr, "sluice: %s is of imports into deployment %s, and this is deployment %s; are --redis and --database right? Only a restore gives a deployment another id\n",
			name, safeText(strings.Join(names, ", ")), here)
	}
	return len(names) > 0, nil
}

// deploymentText is the deployment that a command works on, as a record and a backup have it.
func deploymentText(ctx context.Context, running *engine.Running) (string, error) {
	d, err := flow.DeploymentOf(ctx, running.Store)
	return strconv.FormatUint(d.ID, 16), err
}

// setAside gives the record of what was undone a name that no record has yet.
func setAside(name string) (aside string, err error) {
	aside = name + undoneSuffix
	for n := 2; err == nil; n++ {
		if _, err = os.Lstat(aside); err == nil {
			aside = name + undoneSuffix + "-" + strconv.Itoa(n)
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = os.Rename(name, aside)
	}
	return aside, err
}

// undoBatches counts events, or with --yes removes them. A repeat goes on.
func (c *call) undoBatches(ctx context.Context, running *engine.Running, batches []store.ImportedBatch) (rows int, err error) {
	kept, now := engine.Retention(running.Config), c.clockOf(ctx, running.Redis).Now()
	hours, days := imports.SeriesFrom(&kept, now)
	progress := c.progress()
	for i := range batches {
		var n int
		if c.given.has("yes") {
			n, err = running.Store.RemoveImported(ctx, batches[i], hours, days)
		} else {
			n, err = running.Store.CountImported(ctx, batches[i])
		}
		if rows += n; err != nil {
			return rows, fmt.Errorf("after %s events: %w; do it again: it goes on", grouped(int64(rows)), err)
		}
		progress.at(partOf(int64(i), int64(len(batches))), grouped(int64(rows))+" events")
	}
	progress.end()
	return rows, nil
}
