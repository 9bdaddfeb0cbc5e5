package sqlstore

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"sluice/store"
)

// placeColumns are the key of every table of facts.
var placeColumns = []store.DumpColumn{
	{Name: "part", Kind: store.DumpNumber}, {Name: "pos_major", Kind: store.DumpPosition},
	{Name: "pos_minor", Kind: store.DumpPosition}, {Name: "item", Kind: store.DumpNumber},
}

// factTable is a table of facts as dumps see it.
func factTable(of *store.FactTable) standardTable {
	return standardTable{name: of.Name, key: columnNames(placeColumns), columns: append(slices.Clip(placeColumns), of.Columns...)}
}

// addFacts writes facts, those of each table together. One that is there already
// changes nothing.
func (t *txn) addFacts(ctx context.Context, facts []store.Fact) error {
	rows := make(map[*store.FactTable][]any)
	for i := range facts {
		f := &facts[i]
		if !slices.Contains(store.FactTables, f.Table) {
			return fmt.Errorf("write facts into %s: it is not among the tables of facts", f.Table.Name)
		}
		if len(f.Cells) != len(f.Table.Columns) {
			return fmt.Errorf("write facts into %s: %d cells for %d columns", f.Table.Name, len(f.Cells), len(f.Table.Columns))
		}
		args := append(rows[f.Table], f.Place.Partition, t.store.d.number(f.Place.Position.Major), t.store.d.number(f.Place.Position.Minor), f.Place.Index)
		for c := range f.Cells {
			value, err := t.store.cellValue(f.Table.Columns[c].Kind, &f.Cells[c])
			if err != nil {
				return fmt.Errorf("write facts into %s: column %s: %w", f.Table.Name, f.Table.Columns[c].Name, err)
			}
			args = append(args, value)
		}
		rows[f.Table] = args
	}
	for _, table := range store.FactTables { // in one order, so that nobody waits in a circle
		if args := rows[table]; len(args) > 0 {
			columns := append(columnNames(placeColumns), columnNames(table.Columns)...)
			statement := t.store.d.insertNew(table.Name, columns)
			if _, err := t.store.d.insertRows(ctx, t, statement, len(columns), args); err != nil {
				return fmt.Errorf("write facts into %s: %w", table.Name, err)
			}
		}
	}
	return nil
}

// cellValue is a cell as a statement takes it.
func (s *Store) cellValue(kind store.DumpKind, c *store.Cell) (any, error) {
	if c.Kind == store.CellNull {
		return nil, nil
	}
	switch kind {
	case store.DumpBytes:
		return []byte(c.Text), nil
	case store.DumpNumber:
		return strconv.ParseInt(c.Text, 10, 64)
	case store.DumpPosition:
		n, err := strconv.ParseUint(c.Text, 10, 64)
		return s.d.number(n), err
	case store.DumpTime:
		ms, err := strconv.ParseInt(c.Text, 10, 64)
		return s.d.millis(ms), err
	}
	return s.d.text(c.Text), nil
}

// insertNew is a statement that inserts the rows whose keys are new.
func (plainSQL) insertNew(table string, columns []string) string {
	return "INSERT INTO " + table + " (" + strings.Join(columns, ", ") + ") VALUES $ROWS ON CONFLICT DO NOTHING"
}

func (d *mysqlDialect) insertNew(table string, columns []string) string {
	return "INSERT IGNORE INTO " + table + " (" + strings.Join(columns, ", ") + ") VALUES $ROWS"
}
