package sqlstore

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"sluice"
	"sluice/store"
)

// copyForm is what COPY reads: positions are signed, and bytea is hexadecimal,
// behind a backslash that is escaped.
var copyForm = form{place: appendSignedPlace, bytes: appendHex}

func appendSignedPlace(dst []byte, p *sluice.Place, separator byte) []byte {
	dst = append(strconv.AppendInt(dst, int64(p.Partition), 10), separator)
	dst = append(strconv.AppendInt(dst, int64(p.Position.Major), 10), separator)
	dst = append(strconv.AppendInt(dst, int64(p.Position.Minor), 10), separator)
	return strconv.AppendInt(dst, int64(p.Index), 10)
}

func appendHex(dst, b []byte) []byte { return hex.AppendEncode(append(dst, `\\x`...), b) }

var errNUL = errors.New("a text holds the character U+0000, which PostgreSQL does not store")

// encode refuses what COPY would take for something else: it reads \0 as the
// begin of an octal number.
func (d *postgresDialect) encode(sec *section) error {
	if sec.dead != nil {
		sec.dead = d.letters(sec.dead)
	}
	if err := encodeSection(sec, &copyForm); err != nil {
		return err
	}
	if !bytes.Contains(*sec.buf, []byte(`\0`)) {
		return nil
	}
	for i := range sec.len() {
		if err := checkNUL(sec, i); err != nil {
			return fmt.Errorf("row %d: %w", i, err)
		}
	}
	return nil
}

// letters returns dead letters without U+0000 in their texts.
func (d *postgresDialect) letters(list []sluice.DeadLetter) []sluice.DeadLetter {
	copied := false
	for i := range list {
		l := &list[i]
		if !strings.Contains(l.Source, "\x00") && !strings.Contains(string(l.Form), "\x00") && !strings.Contains(l.Reason, "\x00") {
			continue
		}
		if !copied {
			list, copied = slices.Clone(list), true
			l = &list[i]
		}
		l.Source, l.Form, l.Reason = d.text(l.Source), sluice.Form(d.text(string(l.Form))), d.text(l.Reason)
	}
	return list
}

func checkNUL(sec *section, i int) error {
	return sec.checkTexts(i, func(s string) bool { return !strings.Contains(s, "\x00") }, errNUL)
}

// rawPostgres gives the connection below database/sql.
func rawPostgres(conn *sql.Conn, fn func(*pgconn.PgConn) error) error {
	return conn.Raw(func(c any) error { return fn(c.(*stdlib.Conn).Conn().PgConn()) })
}

// execPostgres runs statements and returns what the last one answered.
func execPostgres(ctx context.Context, pg *pgconn.PgConn, statements string) (pgconn.CommandTag, error) {
	results, err := pg.Exec(ctx, statements).ReadAll()
	if err != nil || len(results) == 0 {
		return pgconn.CommandTag{}, err
	}
	return results[len(results)-1].CommandTag, nil
}

// load writes a section by COPY. It goes straight into the table, behind a
// savepoint if duplicates are left out there. They are rare, and a table in
// between with ON CONFLICT costs nearly three times as much (5.9 and 16.4 us an
// event, BenchmarkPostgresEvents). Only when there is a duplicate does the
// section go through such a table. The next sections do too, until one is free
// of duplicates: after a restore all are.
func (d *postgresDialect) load(ctx context.Context, tx *txn, sec *section) (rows, duplicates int, err error) {
	err = rawPostgres(tx.conn, func(pg *pgconn.PgConn) error {
		rows, duplicates, err = d.loadRaw(ctx, pg, sec)
		if err == nil {
			return nil
		}
		if reason, refused := d.refusal(err); refused {
			return fmt.Errorf("%w: %s", sluice.ErrRefused, reason)
		}
		return err
	})
	return rows, duplicates, err
}

func (d *postgresDialect) loadRaw(ctx context.Context, pg *pgconn.PgConn, sec *section) (rows, duplicates int, err error) {
	t, count := sec.target, sec.len()
	if !t.dedupe {
		return count, 0, d.copyIn(ctx, pg, sec, t.name)
	}
	if !d.copies[t.name] {
		if _, err := execPostgres(ctx, pg, "SAVEPOINT bulk"); err != nil {
			return 0, 0, err
		}
		err := d.copyIn(ctx, pg, sec, t.name)
		if err == nil {
			_, err = execPostgres(ctx, pg, "RELEASE SAVEPOINT bulk")
			return count, 0, err
		}
		if !isPostgres(err, pgUniqueViolation) {
			return 0, 0, err
		}
		if _, err := execPostgres(ctx, pg, "ROLLBACK TO SAVEPOINT bulk"); err != nil {
			return 0, 0, err
		}
	}
	if !d.temp {
		return 0, 0, fmt.Errorf("%w: there are duplicates, and this user may not make temporary tables to leave them out: GRANT TEMPORARY ON DATABASE", sluice.ErrRefused)
	}
	inserted, err := d.loadThrough(ctx, pg, sec)
	if err != nil {
		return 0, 0, err
	}
	d.copies[t.name] = inserted < count
	return inserted, count - inserted, nil
}

// copyIn loads a section into a table, all of it.
func (d *postgresDialect) copyIn(ctx context.Context, pg *pgconn.PgConn, sec *section, table string) error {
	statement := "COPY " + table + " (" + strings.Join(sec.target.columns, ", ") + ") FROM STDIN"
	size := 0
	for _, c := range sec.cuts {
		size = c.end
	}
	tag, err := pg.CopyFrom(ctx, bytes.NewReader((*sec.buf)[:size]), statement)
	if err == nil && tag.RowsAffected() != int64(sec.len()) {
		err = fmt.Errorf("%w: of %d rows %d were copied", sluice.ErrRefused, sec.len(), tag.RowsAffected())
	}
	return err
}

// loadThrough loads by way of a temporary table, from where only what is new
// goes on. It is made for the one transaction, with the columns that the table
// has now.
func (d *postgresDialect) loadThrough(ctx context.Context, pg *pgconn.PgConn, sec *section) (inserted int, err error) {
	t := sec.target
	columns := strings.Join(t.columns, ", ")
	_, err = execPostgres(ctx, pg, "CREATE TEMPORARY TABLE sluice_bulk ON COMMIT DROP AS SELECT "+columns+" FROM "+t.name+" WITH NO DATA")
	if err != nil {
		return 0, err
	}
	if err := d.copyIn(ctx, pg, sec, "pg_temp.sluice_bulk"); err != nil {
		return 0, err
	}
	tag, err := execPostgres(ctx, pg, "INSERT INTO "+t.name+" ("+columns+") SELECT "+columns+" FROM pg_temp.sluice_bulk"+onConflict(t))
	if err != nil {
		return 0, err
	}
	_, err = execPostgres(ctx, pg, "DROP TABLE pg_temp.sluice_bulk")
	return int(tag.RowsAffected()), err
}

// onConflict names one key: the statement takes no more. A duplicate by another
// is an error, and then ApplyEach tells the rows apart.
func onConflict(t *target) string {
	if !t.dedupe {
		return ""
	}
	quoted := make([]string, len(t.keys[0].columns))
	for i, c := range t.keys[0].columns {
		quoted[i] = postgresQuote(c)
	}
	return " ON CONFLICT (" + strings.Join(quoted, ", ") + ") DO NOTHING"
}

// postgresInserter writes rows by a prepared INSERT, each behind a savepoint.
// Its values are texts of no type, so that they are read as COPY reads them.
type postgresInserter struct {
	d      *postgresDialect
	tx     *txn
	sec    *section
	values [][]byte
}

// rowStatement has a name, since a statement without one ends with the next
// SAVEPOINT.
const rowStatement = "sluice_row"

func (d *postgresDialect) inserter(ctx context.Context, tx *txn, sec *section) (inserter, error) {
	t := sec.target
	marks := make([]string, len(t.columns))
	for i := range marks {
		marks[i] = "$" + strconv.Itoa(i+1)
	}
	statement := "INSERT INTO " + t.name + " (" + strings.Join(t.columns, ", ") + ") VALUES (" + strings.Join(marks, ", ") + ")" + onConflict(t)
	err := rawPostgres(tx.conn, func(pg *pgconn.PgConn) error {
		// One of an effect that failed may be left; closing none is no error.
		if err := pg.Deallocate(ctx, rowStatement); err != nil {
			return err
		}
		_, err := pg.Prepare(ctx, rowStatement, statement, nil)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &postgresInserter{d: d, tx: tx, sec: sec}, nil
}

func (in *postgresInserter) insert(ctx context.Context, i int) (o outcome, err error) {
	if err := checkNUL(in.sec, i); err != nil {
		return outcome{refused: err.Error()}, nil
	}
	in.setValues(i)
	err = rawPostgres(in.tx.conn, func(pg *pgconn.PgConn) error {
		if _, err := execPostgres(ctx, pg, "SAVEPOINT one_row"); err != nil {
			return err
		}
		result := pg.ExecPrepared(ctx, rowStatement, in.values, nil, nil).Read()
		if result.Err == nil {
			if result.CommandTag.RowsAffected() == 0 {
				o.duplicate = in.sec.target.dedupe
				if !o.duplicate {
					o.refused = "the table's triggers left the row out"
				}
			}
			_, err := execPostgres(ctx, pg, "RELEASE SAVEPOINT one_row")
			return err
		}
		reason, refused := in.d.refusal(result.Err)
		if !refused || in.sec.events != nil && isDividing(result.Err) {
			return result.Err
		}
		if o.duplicate = duplicateKey(in.sec.target, result.Err); !o.duplicate {
			o.refused = reason
		}
		_, err := execPostgres(ctx, pg, "ROLLBACK TO SAVEPOINT one_row")
		return err
	})
	return o, err
}

// isDividing says whether a row of events waited for the partition without an
// end while its own day was made out of that (retention.go). It is too late for the
// one and was too early for the other. The next transaction knows the day.
func isDividing(err error) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && e.Code == pgCheckViolation && e.ConstraintName == ""
}

// duplicateKey says whether an error is about a key that tells duplicates.
func duplicateKey(t *target, err error) bool {
	var e *pgconn.PgError
	if !t.dedupe || !errors.As(err, &e) || e.Code != pgUniqueViolation {
		return false
	}
	return slices.ContainsFunc(t.keys, func(k key) bool { return k.name == e.ConstraintName })
}

// setValues makes the values of a row; nil is NULL.
func (in *postgresInserter) setValues(i int) {
	in.values = in.values[:0]
	if in.sec.rows != nil {
		for c, cell := range in.sec.cells(i) {
			switch cell.Kind {
			case store.CellNull:
				in.values = append(in.values, nil)
			case store.CellBool:
				in.values = append(in.values, []byte(boolText(in.sec.table.classes[c], cell.Text)))
			default:
				in.values = append(in.values, []byte(cell.Text))
			}
		}
		return
	}
	e := &in.sec.events[i]
	var clock datetime
	in.values = append(in.values, eventID(nil, e), []byte(e.Kind.String()), []byte(e.Name), []byte(e.App), clock.append(nil, e.TimeMillis))
	for _, s := range [...]string{e.Email, e.User, e.Message, e.Properties} {
		if s == "" {
			in.values = append(in.values, nil)
		} else {
			in.values = append(in.values, []byte(s))
		}
	}
	in.values = append(in.values, bytes.Split(appendSignedPlace(nil, &e.Place, '\t'), []byte{'\t'})...)
}

func (in *postgresInserter) close() {}
