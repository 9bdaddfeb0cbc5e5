package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"sluice"
	"sluice/store"
)

var _ store.DumpStore = (*Store)(nil)

// snapshot reads the standard tables in one transaction, on a connection of its
// own. Rows are streamed, one statement a table, so it needs the memory of a
// row. The transaction sees what was committed before it began. Meanwhile the
// server cannot clear up old versions of rows (SQLite: the write-ahead log
// grows).
type snapshot struct {
	store  *Store
	conn   *sql.Conn
	schema int
}

// DumpTables implements store.DumpStore.
func (s *Store) DumpTables() []store.DumpTable { return dumpTables() }

// Snapshot begins to read.
func (s *Store) Snapshot(ctx context.Context) (store.Snapshot, error) {
	snap, err := s.snapshot(ctx)
	if err != nil {
		return nil, fmt.Errorf("begin to read %s as it is now: %w", s.where, err)
	}
	return snap, nil
}

func (s *Store) snapshot(ctx context.Context) (*snapshot, error) {
	conn, err := s.reads.Conn(ctx)
	if err != nil {
		return nil, err
	}
	snap := &snapshot{store: s, conn: conn}
	for _, statement := range s.d.snapshot() {
		if _, err := conn.ExecContext(ctx, statement); err != nil {
			return nil, errors.Join(err, snap.Close())
		}
	}
	list, err := migrations(s.d)
	if err == nil {
		snap.schema, err = s.version(ctx, conn) // the first read fixes the moment
	}
	if err == nil && snap.schema != len(list) {
		err = fmt.Errorf("its schema has version %d, this program's is %d: use the program that runs on it, or `sluice migrate`", snap.schema, len(list))
	}
	if err == nil {
		err = snap.holdEvents(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, snap.Close())
	}
	return snap, nil
}

// holdEvents keeps the partitions of events as they are while the transaction
// lasts. One that is dropped between its begin and its first look at the table
// ends it on MariaDB ("table definition has changed").
func (s *snapshot) holdEvents(ctx context.Context) error {
	_, err := exists(ctx, s.conn, "SELECT 1 FROM events LIMIT 1")
	return err
}

// Close ends the connection with the transaction: its session has settings
// that other readers do not want.
func (s *snapshot) Close() error {
	discard(s.conn)
	return nil
}

// Dialect names the kind of database.
func (s *snapshot) Dialect() string { return s.store.d.name() }

// SchemaVersion returns the version of its schema.
func (s *snapshot) SchemaVersion() int { return s.schema }

// Tables lists the standard tables.
func (s *snapshot) Tables() []store.DumpTable { return dumpTables() }

// Rows hands all rows of a table to fn.
func (s *snapshot) Rows(ctx context.Context, name string, fn func([]store.Cell) error) error {
	t := standardTableOf(name)
	if t == nil {
		return fmt.Errorf("read table %s: it is not a standard table", name)
	}
	return s.read(ctx, t, "", nil, fn)
}

// Events hands events to fn.
func (s *snapshot) Events(ctx context.Context, filter store.EventFilter, fn func(*store.StoredEvent) error) error {
	d := s.store.d
	var conditions []string
	var args []any
	where := func(condition string, arg any) {
		conditions, args = append(conditions, condition), append(args, arg)
	}
	if filter.FromMillis != 0 {
		where("time >= ?", d.millis(filter.FromMillis))
	}
	if filter.ToMillis != 0 {
		where("time < ?", d.millis(filter.ToMillis))
	}
	for column, value := range map[string]string{"kind": filter.Kind, "name": filter.Name, "app_id": filter.App} {
		if value != "" {
			where(column+" = ?", value)
		}
	}
	clause := ""
	if len(conditions) > 0 {
		clause = " WHERE " + strings.Join(conditions, " AND ")
	}
	var e store.StoredEvent
	return s.read(ctx, standardTableOf("events"), d.placeholders(clause), args, func(cells []store.Cell) error {
		if err := eventOf(cells, &e); err != nil {
			return err
		}
		return fn(&e)
	})
}

// eventOf makes an event of a row of the table, in the order of its columns.
func eventOf(cells []store.Cell, e *store.StoredEvent) error {
	kind, ok := sluice.ParseEventKind(cells[1].Text)
	if !ok {
		return fmt.Errorf("read event %q: its kind is %q", cells[0].Text, cells[1].Text)
	}
	e.Event = sluice.Event{
		ID: cells[0].Text, Kind: kind, Name: cells[2].Text, App: cells[3].Text,
		Email: cells[5].Text, User: cells[6].Text, Message: cells[7].Text, Properties: cells[8].Text,
	}
	var err [5]error
	e.TimeMillis, err[0] = strconv.ParseInt(cells[4].Text, 10, 64)
	e.Place.Partition, err[1] = strconv.Atoi(cells[9].Text)
	e.Place.Position.Major, err[2] = strconv.ParseUint(cells[10].Text, 10, 64)
	e.Place.Position.Minor, err[3] = strconv.ParseUint(cells[11].Text, 10, 64)
	e.Place.Index, err[4] = strconv.Atoi(cells[12].Text)
	return errors.Join(err[:]...)
}

// dumpStatement reads the rows of a table in the order of its key.
func dumpStatement(d dialect, t *standardTable, where string) string {
	return "SELECT " + strings.Join(columnNames(t.columns), ", ") + " FROM " + t.name + where + " ORDER BY " + strings.Join(d.keyOf(t), ", ")
}

func (s *snapshot) read(ctx context.Context, t *standardTable, where string, args []any, fn func([]store.Cell) error) error {
	rows, err := s.conn.QueryContext(ctx, dumpStatement(s.store.d, t, where), args...)
	if err != nil {
		return fmt.Errorf("read table %s in %s: %w", t.name, s.store.where, err)
	}
	defer rows.Close()
	values, to := make([]any, len(t.columns)), make([]any, len(t.columns))
	for i := range values {
		to[i] = &values[i]
	}
	cells := make([]store.Cell, len(t.columns))
	for rows.Next() {
		if err := rows.Scan(to...); err != nil {
			return fmt.Errorf("read table %s in %s: %w", t.name, s.store.where, err)
		}
		for i, v := range values {
			if cells[i], err = s.cell(t.columns[i].Kind, v); err != nil {
				return fmt.Errorf("read table %s in %s: column %s: %w", t.name, s.store.where, t.columns[i].Name, err)
			}
		}
		if err := fn(cells); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("read table %s in %s: %w", t.name, s.store.where, err)
	}
	return nil
}

// cell makes a cell of what a driver returns.
func (s *snapshot) cell(kind store.DumpKind, v any) (store.Cell, error) {
	if v == nil {
		return store.Cell{}, nil
	}
	number := func(n int64) store.Cell {
		return store.Cell{Kind: store.CellNumber, Text: strconv.FormatInt(n, 10)}
	}
	switch kind {
	case store.DumpTime:
		ms, err := s.store.d.scanMillis(v)
		return number(ms), err
	case store.DumpPosition:
		n, err := asUnsigned(v)
		return store.Cell{Kind: store.CellNumber, Text: strconv.FormatUint(n, 10)}, err
	case store.DumpNumber:
		n, err := asSigned(v)
		return number(n), err
	}
	c := store.Cell{Kind: store.CellText}
	if kind == store.DumpBytes {
		c.Kind = store.CellBytes
	}
	switch v := v.(type) {
	case string:
		c.Text = v
	case []byte:
		c.Text = string(v)
	default:
		return c, fmt.Errorf("it came as %T", v)
	}
	return c, nil
}

func asUnsigned(v any) (uint64, error) {
	var n number
	err := n.Scan(v)
	return uint64(n), err
}

func asSigned(v any) (int64, error) {
	var n sql.Null[int64]
	err := n.Scan(v)
	return n.V, err
}
