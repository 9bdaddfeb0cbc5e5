package sqlstore

import (
	"context"
	"database/sql/driver"
	"fmt"
	"strconv"
	"strings"

	"sluice"
	"sluice/store"
)

// Rows go in by INSERTs of several rows, straight through the driver: past
// database/sql's checking of every argument, and with fewer steps of the
// driver. It gains until a statement has some 128 values (rows of 2 columns:
// 2.2 us a row one by one, 0.7 us by 64). It loses far beyond it (rows of 13
// columns: 8.6 us, by 8 5.7 us, by 32 8.8 us). BenchmarkSQLiteRows compares.
var insertValues = 128

const (
	maxCachedStmts  = 64
	cancelCheckRows = 1024
)

// encode only checks: the driver wants Go values, which the effect has.
func (d *sqliteDialect) encode(sec *section) error {
	if sec.dead != nil {
		return nil
	}
	for i := range sec.len() {
		if err := d.check(sec, i); err != nil {
			return fmt.Errorf("row %d: %w", i, err)
		}
	}
	return nil
}

// check refuses also whole numbers that a numeric column would make a float
// of: they would come back as others.
func (d *sqliteDialect) check(sec *section, i int) error {
	if err := sec.check(i); err != nil || sec.rows == nil {
		return err
	}
	for c, cell := range sec.cells(i) {
		if sec.table.classes[c] == classInteger && beyondInt64(&cell) {
			return fmt.Errorf("column %q: %.40s does not fit into 64 bits", sec.table.spec.Columns[c], cell.Text)
		}
	}
	return nil
}

// beyondInt64 reports whether a cell is a whole number of more than 64 bits.
func beyondInt64(cell *store.Cell) bool {
	if len(cell.Text) < 19 || cell.Kind != store.CellNumber && cell.Kind != store.CellText {
		return false
	}
	_, err := strconv.ParseInt(cell.Text, 10, 64)
	return err != nil && digits(strings.TrimLeft(cell.Text, "+-"))
}

func digits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return len(s) > 0
}

// cellValue is a cell as it is bound. What is not bound as a number is
// converted by the column's affinity, which keeps texts that it cannot read.
func cellValue(c class, cell *store.Cell) driver.Value {
	switch cell.Kind {
	case store.CellNull:
		return nil
	case store.CellBytes:
		return []byte(cell.Text)
	case store.CellBool:
		if c == classText {
			return cell.Text
		}
		return int64(b2i(cell.Text == "true"))
	case store.CellNumber:
		if c == classText {
			return cell.Text
		}
		if n, err := strconv.ParseInt(cell.Text, 10, 64); err == nil {
			return n
		}
		if c == classAny && !digits(strings.TrimLeft(cell.Text, "+-")) {
			if f, err := strconv.ParseFloat(cell.Text, 64); err == nil {
				return f
			}
		}
	}
	return cell.Text
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// bind appends the values of a row.
func (d *sqliteDialect) bind(sec *section, i int) {
	switch {
	case sec.rows != nil:
		cells := sec.cells(i)
		for c := range cells {
			d.add(cellValue(sec.table.classes[c], &cells[c]))
		}
	case sec.events != nil:
		e := &sec.events[i]
		id := e.ID
		if id == "" {
			id = string(appendPlaceID(nil, &e.Place))
		}
		d.add(id)
		d.add(e.Kind.String())
		d.add(e.Name)
		d.add(e.App)
		d.add(e.TimeMillis)
		for _, s := range [...]string{e.Email, e.User, e.Message, e.Properties} {
			d.add(nullIfEmpty(s))
		}
		d.place(&e.Place)
	default:
		l := storable(&sec.dead[i], sec.nowMillis)
		d.add(l.Source)
		d.add(string(l.Form))
		d.place(&l.Place)
		d.add(l.Reason)
		d.add(int64(len(l.Payload)))
		payload := l.Payload
		if payload == nil {
			payload = []byte{}
		}
		d.add(payload)
		d.add(l.TimeMillis)
	}
}

func (d *sqliteDialect) add(v driver.Value) {
	d.args = append(d.args, driver.NamedValue{Ordinal: len(d.args) + 1, Value: v})
}

func (d *sqliteDialect) place(p *sluice.Place) {
	d.add(int64(p.Partition))
	d.add(int64(p.Position.Major))
	d.add(int64(p.Position.Minor))
	d.add(int64(p.Index))
}

func (d *sqliteDialect) load(ctx context.Context, tx *txn, sec *section) (rows, duplicates int, err error) {
	many := max(1, insertValues/len(sec.target.columns))
	checked := 0
	err = tx.conn.Raw(func(c any) error {
		for i := 0; i < sec.len(); {
			if i >= checked {
				if ctx.Err() != nil {
					return context.Cause(ctx)
				}
				checked = i + cancelCheckRows
			}
			n := 1
			if sec.len()-i >= many {
				n = many
			}
			inserted, err := d.insert(c, sec, i, n)
			if err != nil {
				if reason, refused := d.refusal(err); refused {
					return fmt.Errorf("%w: %s", sluice.ErrRefused, reason)
				}
				return err
			}
			if inserted != n && !sec.target.dedupe {
				return fmt.Errorf("%w: of %d rows %d were inserted", sluice.ErrRefused, n, inserted)
			}
			rows, duplicates, i = rows+inserted, duplicates+n-inserted, i+n
		}
		return nil
	})
	return rows, duplicates, err
}

// insert writes n rows from row i on. The driver gets no context: for each
// statement it would start a goroutine to watch it.
func (d *sqliteDialect) insert(c any, sec *section, i, n int) (int, error) {
	stmt, err := d.statement(c, insertStatement(sec.target, n))
	if err != nil {
		return 0, err
	}
	d.args = d.args[:0]
	for row := range n {
		d.bind(sec, i+row)
	}
	result, err := stmt.(driver.StmtExecContext).ExecContext(context.Background(), d.args)
	if err != nil {
		return 0, err
	}
	inserted, err := result.RowsAffected()
	return int(inserted), err
}

// insertRows goes through the driver, as load does, and for the same reasons.
func (d *sqliteDialect) insertRows(ctx context.Context, tx *txn, statement string, columns int, args []any) (changed int64, err error) {
	many := max(1, insertValues/columns)
	statement = strings.Replace(statement, "INSERT INTO ", "INSERT OR FAIL INTO ", 1)
	texts := map[int]string{1: withRows(statement, columns, 1), many: withRows(statement, columns, many)}
	checked := 0
	err = tx.conn.Raw(func(c any) error {
		for i := 0; i < len(args); {
			if i >= checked {
				if ctx.Err() != nil {
					return context.Cause(ctx)
				}
				checked = i + cancelCheckRows*columns
			}
			n := 1
			if len(args)-i >= many*columns {
				n = many
			}
			stmt, err := d.statement(c, texts[n])
			if err != nil {
				return err
			}
			d.args = d.args[:0]
			for _, v := range args[i : i+n*columns] {
				if small, ok := v.(int); ok {
					v = int64(small)
				}
				d.add(v)
			}
			result, err := stmt.(driver.StmtExecContext).ExecContext(context.Background(), d.args)
			if err != nil {
				return err
			}
			inserted, err := result.RowsAffected()
			if err != nil {
				return err
			}
			changed, i = changed+inserted, i+n*columns
		}
		return nil
	})
	return changed, err
}

// statement returns a prepared statement of the driver's connection c.
func (d *sqliteDialect) statement(c any, text string) (driver.Stmt, error) {
	if d.owner != c || len(d.stmts) >= maxCachedStmts {
		d.forget()
		d.stmts, d.owner = map[string]driver.Stmt{}, c
	}
	if s, ok := d.stmts[text]; ok {
		return s, nil
	}
	s, err := c.(driver.ConnPrepareContext).PrepareContext(context.Background(), text)
	if err != nil {
		return nil, err
	}
	d.stmts[text] = s
	return s, nil
}

// forget ends the statements: a connection with open ones never quite closes.
func (d *sqliteDialect) forget() {
	for _, s := range d.stmts {
		_ = s.Close()
	}
	d.stmts, d.owner = nil, nil
}

// insertStatement says OR FAIL, against what a table may say otherwise
// (UNIQUE ... ON CONFLICT REPLACE): a refused row changes nothing. The rows before it in
// the statement stay, until the caller takes back all it has written (Apply, loadPiece).
//
// With OR ABORT, which is usual, SQLite takes them back itself. So it copies each page that
// a statement of several rows changes to a file first. Rows of 16 partitions go to 16
// places of an index: that was an eighth of what a store computes that is saturated.
func insertStatement(t *target, n int) string {
	tuple := "(?" + strings.Repeat(", ?", len(t.columns)-1) + ")"
	text := "INSERT OR FAIL INTO " + t.name + " (" + strings.Join(t.columns, ", ") + ") VALUES " + tuple + strings.Repeat(", "+tuple, n-1)
	for _, k := range t.keys {
		quoted := make([]string, len(k.columns))
		for i, c := range k.columns {
			quoted[i] = sqliteQuote(c)
		}
		text += " ON CONFLICT (" + strings.Join(quoted, ", ") + ") DO NOTHING"
	}
	return text
}

// sqliteInserter puts a savepoint before each row: a trigger that says
// RAISE(ROLLBACK) ends the transaction, and what came after would be written
// without it. The savepoint is then gone, which shows, as errEnded.
type sqliteInserter struct {
	d   *sqliteDialect
	tx  *txn
	sec *section
}

func (d *sqliteDialect) inserter(_ context.Context, tx *txn, sec *section) (inserter, error) {
	return &sqliteInserter{d: d, tx: tx, sec: sec}, nil
}

func (in *sqliteInserter) insert(ctx context.Context, i int) (o outcome, err error) {
	if err := in.d.check(in.sec, i); err != nil {
		return outcome{refused: err.Error()}, nil
	}
	if err := ctx.Err(); err != nil {
		return o, err
	}
	err = in.tx.conn.Raw(func(c any) error {
		if err := in.d.run(c, "SAVEPOINT one_row"); err != nil {
			return err
		}
		inserted, err := in.d.insert(c, in.sec, i, 1)
		if err != nil {
			reason, refused := in.d.refusal(err)
			if !refused {
				return err
			}
			o.refused = reason
			if err := in.d.run(c, "ROLLBACK TO one_row"); err != nil {
				if strings.Contains(err.Error(), "no such savepoint") {
					return errEnded
				}
				return err
			}
			return nil
		}
		if inserted == 0 && !in.sec.target.dedupe {
			o.refused = "the table's triggers left the row out"
		}
		o.duplicate = inserted == 0 && in.sec.target.dedupe
		return in.d.run(c, "RELEASE one_row")
	})
	return o, err
}

func (d *sqliteDialect) run(c any, text string) error {
	stmt, err := d.statement(c, text)
	if err == nil {
		_, err = stmt.(driver.StmtExecContext).ExecContext(context.Background(), nil)
	}
	return err
}

func (in *sqliteInserter) close() {}
