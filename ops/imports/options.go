package imports

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"sluice"
	"sluice/flow"
	"sluice/ingest"
	"sluice/ops/transfer"
	"sluice/store"
	"sluice/user"
)

// idField has an event's own id, if no other field is said to have it.
const idField = "event_id"

// delimiterTab is what a tab is called as a delimiter.
const delimiterTab = "tab"

// Delimiter reads what is between the cells of a CSV: a character, or tab; 0: the header
// tells it.
func Delimiter(text string) (rune, error) {
	switch r := []rune(text); {
	case text == "":
		return 0, nil
	case text == delimiterTab:
		return '\t', nil
	case len(r) != 1 || strings.ContainsRune("\"\r\n\uFFFD", r[0]):
		return 0, fmt.Errorf("%.40q is no single character", text)
	default:
		return r[0], nil
	}
}

// Lines are the options by which the lines of an import's file are read.
func Lines(o *store.ImportOptions) (transfer.LineOptions, error) {
	lines := transfer.LineOptions{Format: transfer.Format(o.Format), Columns: o.Columns}
	var err error
	if lines.Delimiter, err = Delimiter(o.Delimiter); err != nil {
		return lines, fmt.Errorf("delimiter: %w", err)
	}
	if lines.Delimiter == 0 && o.Exported {
		lines.Delimiter = ','
	}
	if o.Kind == store.ImportUsers {
		lines.Cell = transfer.UserCell
	}
	return lines, nil
}

// Into is where an import's lines go.
type Into struct {
	Logs  []*flow.Log // by partition
	Kept  ingest.Retention
	Clock sluice.Clock

	// UserLine makes an update of a line of users.
	UserLine func(line string, u *user.Update) error

	BacklogBytes int           // as of ingest.Import
	Replicas     flow.Replicas // as of ingest.Import
}

// Import makes what reads lines into the logs, as the options say it. The caller sets its
// source, and who is told what.
func (i *Into) Import(o *store.ImportOptions) *ingest.Import {
	im := &ingest.Import{
		Logs: i.Logs, Kept: i.Kept, Clock: i.Clock, BacklogBytes: i.BacklogBytes, Replicas: i.Replicas,
		Options: ingest.EventOptions{App: o.App, Dedupe: cmp.Or(o.Dedupe, idField), Optional: o.Dedupe == ""},
	}
	if o.Exported {
		im.Parse = parseExported
	}
	if o.Kind == store.ImportUsers {
		im.Update = i.UserLine
	}
	return im
}

// parseExported reads a line of an export, which does not say who reported the event. It is
// trusted with consent, as all that an operator imports.
func parseExported(line string, e *sluice.Event) error {
	err := transfer.ParseExported(line, e)
	e.Origin = sluice.OriginTrusted
	return err
}

// Stored tells how far the store is.
type Stored interface {
	Cursors(ctx context.Context, follower string, partitions []int) (map[int]sluice.Position, error)
}

// Unstored counts the items of batches that the store has not reached.
func Unstored(ctx context.Context, s Stored, partitions int, batches []store.ImportedBatch) (left int64, err error) {
	cursors, err := cursorsOf(ctx, s, partitions)
	if err != nil {
		return 0, err
	}
	return unstored(cursors, batches), nil
}

// cursorsOf returns up to where each partition is stored.
func cursorsOf(ctx context.Context, s Stored, partitions int) (map[int]sluice.Position, error) {
	all := make([]int, partitions)
	for p := range all {
		all[p] = p
	}
	return s.Cursors(ctx, ingest.StoreRole, all)
}

func unstored(cursors map[int]sluice.Position, batches []store.ImportedBatch) (left int64) {
	for i := range batches {
		if cursors[batches[i].Partition].Before(batches[i].Position) {
			left += max(batches[i].Items, 1)
		}
	}
	return left
}

// SeriesFrom returns from when on the hours and days of the series are kept. What is undone
// is taken out of no older ones: they are gone.
func SeriesFrom(kept *ingest.Retention, now time.Time) (hoursMillis, daysMillis int64) {
	hoursMillis, _ = ingest.Cutoff(kept.SeriesHours, now)
	daysMillis, _ = ingest.Cutoff(kept.SeriesDays, now)
	return hoursMillis, daysMillis
}
