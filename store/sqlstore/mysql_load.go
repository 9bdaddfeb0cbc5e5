package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"sluice"
	"sluice/store"
	"sluice/user"
)

// encode writes a section as LOAD DATA reads it. The rows are encoded also if
// the server does not take LOAD DATA: that finds out that one of them can never
// be stored.
func (d *mysqlDialect) encode(sec *section) error {
	return encodeSection(sec, &loadForm)
}

// load writes a section by LOAD DATA LOCAL, or by INSERT if the server or a
// proxy before it forbids that.
func (d *mysqlDialect) load(ctx context.Context, tx *txn, sec *section) (rows, duplicates int, err error) {
	if !d.noInfile.Load() {
		rows, duplicates, err = d.loadInfile(ctx, tx, sec)
		if !infileForbidden(err) {
			return rows, duplicates, err
		}
		d.noInfile.Store(true)
	}
	return d.loadInsert(ctx, tx, sec)
}

func (d *mysqlDialect) loadInfile(ctx context.Context, tx *txn, sec *section) (rows, duplicates int, err error) {
	statement := d.loadStatement(sec)
	start := 0
	defer func() { d.feed = nil }()
	for _, c := range sec.cuts {
		d.feed = (*sec.buf)[start:c.end]
		n, dup, err := d.bulk(ctx, tx, sec.target, c.rows, statement)
		if err != nil {
			return 0, 0, err
		}
		rows, duplicates, start = rows+n, duplicates+dup, c.end
	}
	return rows, duplicates, nil
}

func (d *mysqlDialect) loadStatement(sec *section) string {
	charset := "binary"
	if sec.target.foreign {
		charset = "utf8mb4"
	}
	columns, set := "", ""
	for i, name := range sec.target.columns {
		if i > 0 {
			columns += ", "
		}
		if sec.table == nil || sec.table.classes[i] != classBit {
			columns += name
			continue
		}
		// As a text, 1 would be the bits of the character 1.
		columns += fmt.Sprintf("@bit%d", i)
		set += fmt.Sprintf(", %s = CAST(@bit%d AS UNSIGNED)", name, i)
	}
	if set != "" {
		set = " SET" + set[1:]
	}
	return d.infile("INTO TABLE "+sec.target.name+" CHARACTER SET "+charset, columns) + set
}

// infile is LOAD DATA of what is fed. Into this program's own tables, which are utf8mb4,
// bytes are loaded as they are: MariaDB asks of no byte to which character it belongs,
// and computes a seventh less for each row of events. That texts are UTF-8 is checked before
// (appendText), and a payload of a dead letter may be none.
func (d *mysqlDialect) infile(into, columns string) string {
	return "LOAD DATA LOCAL INFILE 'Reader::" + d.reader + "' " + into + ` FIELDS TERMINATED BY '\t' ESCAPED BY '\\' LINES TERMINATED BY '\n' (` + columns + ")"
}

// putUsers writes users by LOAD DATA as well. REPLACE changes a row in its
// place, since the table has no second unique key, and the server parses no
// statement of megabytes.
func (d *mysqlDialect) putUsers(ctx context.Context, tx *txn, rows []user.Row) error {
	if d.noInfile.Load() {
		return d.plainSQL.putUsers(ctx, tx, rows)
	}
	for piece := range slices.Chunk(rows, maxLoadRows) {
		err := d.loadUsers(ctx, tx, piece)
		if infileForbidden(err) {
			d.noInfile.Store(true)
			return d.plainSQL.putUsers(ctx, tx, rows)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (d *mysqlDialect) loadUsers(ctx context.Context, tx *txn, rows []user.Row) error {
	buf := buffers.Get().(*[]byte)
	dst := (*buf)[:0]
	defer func() {
		d.feed, *buf = nil, dst
		buffers.Put(buf)
	}()
	var clock datetime
	valid := true
	for i := range rows {
		r := &rows[i]
		dst = append(strconv.AppendInt(dst, int64(r.ID.Partition), 10), '\t')
		dst = append(strconv.AppendInt(dst, r.ID.Number, 10), '\t')
		dst = append(clock.append(dst, r.UpdatedMillis), '\t')
		dst = append(strconv.AppendInt(dst, int64(r.MergedInto.Partition), 10), '\t')
		dst = append(strconv.AppendInt(dst, r.MergedInto.Number, 10), '\t')
		if dst, valid = appendText(dst, r.Profile); !valid {
			return fmt.Errorf("profile of user %s: %w", r.ID, errNotUTF8)
		}
		dst = append(dst, '\n')
	}
	d.feed = dst
	if _, err := tx.conn.ExecContext(ctx, d.infile("REPLACE INTO TABLE users CHARACTER SET binary", "part, number, updated, to_part, to_number, profile")); err != nil {
		return err
	}
	// LOCAL makes warnings of errors, and here none is expected.
	duplicates, err := d.warnings(ctx, tx, &target{name: "users"})
	if err == nil && duplicates > 0 {
		err = fmt.Errorf("%d rows were left out as duplicates", duplicates)
	}
	return err
}

// Bounds of a multi-row INSERT: rows, bytes of its cells, placeholders.
const (
	maxInsertRows  = 500
	maxInsertBytes = 1 << 20
)

func (d *mysqlDialect) loadInsert(ctx context.Context, tx *txn, sec *section) (rows, duplicates int, err error) {
	head, tuple := d.insertParts(sec, sec.target.dedupe)
	var args []any
	count, bytes := 0, 0
	flush := func() error {
		statement := head + tuple + strings.Repeat(", "+tuple, count-1)
		n, dup, err := d.bulk(ctx, tx, sec.target, count, statement, args...)
		rows, duplicates = rows+n, duplicates+dup
		args, count, bytes = args[:0], 0, 0
		return err
	}
	for i := range sec.len() {
		before := len(args)
		args = d.values(args, sec, i)
		for _, a := range args[before:] {
			switch a := a.(type) {
			case string:
				bytes += len(a)
			case []byte:
				bytes += len(a)
			}
		}
		if count++; count == maxInsertRows || bytes >= maxInsertBytes {
			if err := flush(); err != nil {
				return 0, 0, err
			}
		}
	}
	if count > 0 {
		err = flush()
	}
	return rows, duplicates, err
}

// insertParts returns an INSERT up to its VALUES, and the placeholders of a row.
// IGNORE turns all errors into warnings, as LOAD DATA LOCAL does.
func (d *mysqlDialect) insertParts(sec *section, ignore bool) (head, tuple string) {
	verb := "INSERT"
	if ignore {
		verb = "INSERT IGNORE"
	}
	marks := make([]string, len(sec.target.columns))
	for i := range marks {
		marks[i] = "?"
		if sec.table != nil && sec.table.classes[i] == classBit {
			marks[i] = "CAST(? AS UNSIGNED)"
		}
	}
	return verb + " INTO " + sec.target.name + " (" + strings.Join(sec.target.columns, ", ") + ") VALUES ", "(" + strings.Join(marks, ", ") + ")"
}

// values appends the values of a row, as texts: so an INSERT converts them as
// LOAD DATA does.
func (d *mysqlDialect) values(dst []any, sec *section, i int) []any {
	switch {
	case sec.rows != nil:
		for c, cell := range sec.cells(i) {
			switch cell.Kind {
			case store.CellNull:
				dst = append(dst, nil)
			case store.CellBool:
				dst = append(dst, boolText(sec.table.classes[c], cell.Text))
			case store.CellBytes:
				dst = append(dst, []byte(cell.Text))
			default:
				dst = append(dst, cell.Text)
			}
		}
	case sec.events != nil:
		e := &sec.events[i]
		dst = append(dst, string(eventID(nil, e)), e.Kind.String(), e.Name, e.App, d.millis(e.TimeMillis))
		for _, s := range [...]string{e.Email, e.User, e.Message, e.Properties} {
			dst = append(dst, nullIfEmpty(s))
		}
		dst = append(dst, e.Place.Partition, e.Place.Position.Major, e.Place.Position.Minor, e.Place.Index)
	default:
		l := storable(&sec.dead[i], sec.nowMillis)
		p := l.Place
		payload := l.Payload
		if payload == nil {
			payload = []byte{}
		}
		dst = append(dst, l.Source, string(l.Form), p.Partition, p.Position.Major, p.Position.Minor, p.Index,
			l.Reason, len(l.Payload), payload, d.millis(l.TimeMillis))
	}
	return dst
}

func nullIfEmpty(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// bulk runs a statement that sends count rows, and checks the sum that makes
// the bulk path safe. Rows inserted and duplicates warned of must be all rows,
// and there must be no other warning.
//
// SHOW WARNINGS is sent at once, without SELECT @@warning_count before it. It
// is one round trip either way, and on MySQL that SELECT empties the list.
func (d *mysqlDialect) bulk(ctx context.Context, tx *txn, t *target, count int, statement string, args ...any) (rows, duplicates int, err error) {
	result, err := tx.conn.ExecContext(ctx, statement, args...)
	if err != nil {
		if reason, refused := d.refusal(err); refused {
			return 0, 0, fmt.Errorf("%w: %s", sluice.ErrRefused, reason)
		}
		return 0, 0, err
	}
	inserted, err := result.RowsAffected()
	if err != nil {
		return 0, 0, err
	}
	duplicates, err = d.warnings(ctx, tx, t)
	if err != nil {
		return 0, 0, err
	}
	if int(inserted)+duplicates != count {
		return 0, 0, fmt.Errorf("%w: of %d rows %d were inserted and %d are duplicates", sluice.ErrRefused, count, inserted, duplicates)
	}
	return int(inserted), duplicates, nil
}

// warnings counts the duplicates among the warnings of the last statement. Any
// other warning means that a row was changed or left out: ErrRefused.
func (d *mysqlDialect) warnings(ctx context.Context, tx *txn, t *target) (duplicates int, err error) {
	var other error
	err = tx.each(ctx, "SHOW WARNINGS", nil, func(scan scanner) error {
		var level, message sql.RawBytes
		var code int
		if err := scan(&level, &code, &message); err != nil || string(level) == "Note" {
			return err
		}
		if code != errDuplicate || !duplicateOf(t, message) {
			other = fmt.Errorf("%w: %s (%d)", sluice.ErrRefused, message, code)
			return other
		}
		duplicates++
		return nil
	})
	if err != nil && other == nil {
		err = fmt.Errorf("read warnings: %w", err)
	}
	return duplicates, err
}

// mysqlInserter writes rows by a prepared INSERT without IGNORE: a statement
// that fails leaves the transaction as it was.
type mysqlInserter struct {
	d    *mysqlDialect
	sec  *section
	stmt *sql.Stmt
	args []any
}

func (d *mysqlDialect) inserter(ctx context.Context, tx *txn, sec *section) (inserter, error) {
	head, tuple := d.insertParts(sec, false)
	stmt, err := tx.conn.PrepareContext(ctx, head+tuple)
	if err != nil {
		return nil, err
	}
	return &mysqlInserter{d: d, sec: sec, stmt: stmt}, nil
}

func (in *mysqlInserter) insert(ctx context.Context, i int) (outcome, error) {
	in.args = in.d.values(in.args[:0], in.sec, i)
	_, err := in.stmt.ExecContext(ctx, in.args...)
	if err == nil {
		return outcome{}, nil
	}
	if isDuplicate(in.sec.target, err) {
		return outcome{duplicate: true}, nil
	}
	if reason, refused := in.d.refusal(err); refused {
		return outcome{refused: reason}, nil
	}
	return outcome{}, err
}

func (in *mysqlInserter) close() { _ = in.stmt.Close() }
