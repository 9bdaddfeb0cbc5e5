package transfer

import (
	"context"
	"encoding/base64"
	"fmt"
	"strconv"

	"sluice/lib/faults"
	"sluice/lib/jsonscan"
	"sluice/store"
)

// putBackTable fills a table.
func (r *Restore) putBackTable(ctx context.Context, into store.Restore, table ManifestTable, done *Restored) error {
	row := newRowReader(table.Columns)
	var names []string
	for _, c := range table.Columns {
		names = append(names, c.Name)
	}
	var cells []store.Cell
	rows, bytes := 0, 0
	flush := func() error {
		if rows == 0 {
			return nil
		}
		if err := faults.Hit("restore-rows"); err != nil {
			return err
		}
		if err := into.Write(ctx, table.Name, names, cells); err != nil {
			return err
		}
		if done.Rows[table.Name] += int64(rows); r.Progress != nil {
			r.Progress(fmt.Sprintf("table %s: %d of %d rows", table.Name, done.Rows[table.Name], table.Rows))
		}
		cells, rows, bytes = cells[:0], 0, 0
		return nil
	}
	err := r.Archive.Lines("sql/"+table.Name, func(line string) (err error) {
		before := len(cells)
		if cells, err = row.read(cells, line); err != nil {
			return err
		}
		if table.Name == secretsTable {
			if err := r.unsealRow(table.Columns, cells[before:]); err != nil {
				return err
			}
		}
		if table.Name == "events" && row.time < r.EventsFromMillis {
			cells = cells[:before]
			done.LeftOut++
			return nil
		}
		rows++
		if bytes += len(line); rows >= restoreRows || bytes >= restoreBytes {
			return flush()
		}
		return nil
	})
	if err == nil {
		err = flush()
	}
	return err
}

// rowReader reads lines that appendRow wrote.
type rowReader struct {
	columns []store.DumpColumn
	time    int64 // of the column of that name
}

func newRowReader(columns []store.DumpColumn) *rowReader { return &rowReader{columns: columns} }

// read appends the cells of a row, in the order of the columns.
func (r *rowReader) read(cells []store.Cell, line string) ([]store.Cell, error) {
	start := len(cells)
	for range r.columns {
		cells = append(cells, store.Cell{})
	}
	row := cells[start:]
	m := jsonscan.Read(line)
	at := 0
	for m.Next() {
		for at < len(r.columns) && r.columns[at].Name != m.Key {
			at++
		}
		if at == len(r.columns) {
			return cells, fmt.Errorf("it has a value of %q, which is no column, or out of order", m.Key)
		}
		var err error
		if row[at], err = r.cell(r.columns[at], m.Value); err != nil {
			return cells, fmt.Errorf("column %s: %w", m.Key, err)
		}
		at++
	}
	return cells, m.Err()
}

func (r *rowReader) cell(c store.DumpColumn, v jsonscan.Value) (store.Cell, error) {
	cell := store.Cell{Kind: store.CellNumber, Text: v.Text()}
	want := jsonscan.Number
	switch c.Kind {
	case store.DumpText:
		cell.Kind, want = store.CellText, jsonscan.String
	case store.DumpBytes:
		cell.Kind, want = store.CellBytes, jsonscan.String
		data, err := base64.StdEncoding.DecodeString(cell.Text)
		if err != nil {
			return cell, err
		}
		cell.Text = string(data)
	case store.DumpTime:
		ms, err := strconv.ParseInt(cell.Text, 10, 64)
		if err != nil {
			return cell, err
		}
		if c.Name == "time" {
			r.time = ms
		}
	}
	if v.Kind != want {
		return cell, fmt.Errorf("it is %s, want %s", v.Kind, want)
	}
	return cell, nil
}

// appendRow appends a row as a JSON object. A cell that is NULL is left out.
func appendRow(b []byte, columns []store.DumpColumn, cells []store.Cell) []byte {
	b = append(b, '{')
	first := true
	for i, c := range cells {
		if c.Kind == store.CellNull {
			continue
		}
		if !first {
			b = append(b, ',')
		}
		first = false
		b = append(append(append(b, '"'), columns[i].Name...), '"', ':')
		switch c.Kind {
		case store.CellNumber:
			b = append(b, c.Text...)
		case store.CellBytes:
			b = append(b, '"')
			b = append(base64.StdEncoding.AppendEncode(b, []byte(c.Text)), '"')
		default:
			b = appendJSONText(b, c.Text)
		}
	}
	return append(b, '}')
}
