package transfer

import (
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"strconv"
	"time"

	"sluice/store"
)

// seriesFields are the fields of an exported row of the series, in their order.
var seriesFields = []string{"app_id", "name", "kind", "time", "count"}

// SeriesTables are the tables of the series by the width of their buckets.
var SeriesTables = map[string]string{"hour": "series_hours", "day": "series_days"}

// seriesRow is one bucket: the rows of all stripes together.
type seriesRow struct {
	app, name, kind string
	bucket, count   int64
}

func (r *seriesRow) sameBucket(o *seriesRow) bool {
	return r.app == o.app && r.name == o.name && r.kind == o.kind && r.bucket == o.bucket
}

// add adds counts up, staying at the largest and smallest.
func (r *seriesRow) add(count int64) {
	switch sum := r.count + count; {
	case r.count > 0 && count > 0 && sum < 0:
		r.count = math.MaxInt64
	case r.count < 0 && count < 0 && sum >= 0:
		r.count = math.MinInt64
	default:
		r.count = sum
	}
}

// ExportSeries writes a table of the series, in the order of app, name, kind
// and time, and returns how many rows. The rows of a bucket, one for each stripe,
// follow one another in the table, so it needs the memory of one.
func ExportSeries(ctx context.Context, snapshot store.Snapshot, table string, filter store.EventFilter, format Format, to io.Writer) (rows int64, err error) {
	w := &seriesWriter{to: to}
	if format == CSV {
		w.csv = csv.NewWriter(to)
		if err := w.csv.Write(seriesFields); err != nil {
			return 0, err
		}
	}
	at := make(map[string]int)
	for _, t := range snapshot.Tables() {
		for i, c := range t.Columns {
			if t.Name == table {
				at[c.Name] = i
			}
		}
	}
	var last *seriesRow
	flush := func() error {
		if last == nil {
			return nil
		}
		rows++
		return w.write(last)
	}
	err = snapshot.Rows(ctx, table, func(cells []store.Cell) error {
		row, err := readSeries(cells, at)
		if err != nil || !lets(filter, &row) {
			return err
		}
		if last != nil && last.sameBucket(&row) {
			last.add(row.count)
			return nil
		}
		err = flush()
		last = &row
		return err
	})
	if err == nil {
		err = flush()
	}
	if err == nil && w.csv != nil {
		w.csv.Flush()
		err = w.csv.Error()
	}
	return rows, err
}

func readSeries(cells []store.Cell, at map[string]int) (row seriesRow, err error) {
	row = seriesRow{app: cells[at["app_id"]].Text, name: cells[at["name"]].Text, kind: cells[at["kind"]].Text}
	if row.bucket, err = strconv.ParseInt(cells[at["bucket"]].Text, 10, 64); err != nil {
		return row, fmt.Errorf("read a bucket: %w", err)
	}
	if row.count, err = strconv.ParseInt(cells[at["count"]].Text, 10, 64); err != nil {
		return row, fmt.Errorf("read a count: %w", err)
	}
	return row, nil
}

func lets(f store.EventFilter, r *seriesRow) bool {
	return (f.FromMillis == 0 || r.bucket >= f.FromMillis) && (f.ToMillis == 0 || r.bucket < f.ToMillis) &&
		(f.Kind == "" || r.kind == f.Kind) && (f.Name == "" || r.name == f.Name) && (f.App == "" || r.app == f.App)
}

type seriesWriter struct {
	to  io.Writer
	csv *csv.Writer // nil: NDJSON
	buf []byte
}

func (w *seriesWriter) write(r *seriesRow) error {
	when := time.UnixMilli(r.bucket).UTC().Format(timeLayout)
	if w.csv != nil {
		return w.csv.Write([]string{r.app, r.name, r.kind, when, strconv.FormatInt(r.count, 10)})
	}
	b := append(w.buf[:0], '{')
	for i, text := range []string{r.app, r.name, r.kind, when} {
		b = append(append(append(b, '"'), seriesFields[i]...), '"', ':')
		b = append(appendJSONText(b, text), ',')
	}
	b = strconv.AppendInt(append(b, `"count":`...), r.count, 10)
	w.buf = append(b, '}', '\n')
	_, err := w.to.Write(w.buf)
	return err
}
