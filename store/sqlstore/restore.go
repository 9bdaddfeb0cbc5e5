package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strconv"

	"sluice"
	"sluice/mail"
	"sluice/store"
	"sluice/user"
)

// restoringFollower is the name of the cursor that marks a database as half
// restored. It is 1 from before the first table is emptied until the
// transaction that sets the cursors.
const restoringFollower = "restoring"

// leaseJump is how far a restore raises the lease numbers: beyond what was
// given out since the dump, however long ago that was.
const leaseJump = 1 << 32

// restore writes a dump's rows.
//
// The idea. Tables are emptied and filled in many transactions, by the bulk
// path. Cursors and lease numbers are written by the last one, which also
// raises the numbers of users and takes the mark away. So a restore that was
// killed leaves a database that says so, and the next restore begins again.
//
// The cursors stay until then, for those of users' own tables: these tables are
// not touched, and a cursor belongs to its table. One that went back without
// it would have the rows in between stored a second time.
//
// The secrets stay until others are written in their place. Backups leave them
// out, and with another secret the links in earlier mails would not work.
type restore struct {
	store       *Store
	keptSecrets bool // what is in that table is of before
}

const secretsTable = "secrets"

// Restoring reports whether a restore was begun and not finished.
func (s *Store) Restoring(ctx context.Context) (bool, error) {
	found, err := s.readCursors(ctx, restoringFollower)
	if err != nil {
		return false, fmt.Errorf("look whether %s is being restored: %w", s.where, err)
	}
	return !found[0].IsZero(), nil
}

// BeginRestore marks the database and empties it.
func (s *Store) BeginRestore(ctx context.Context, replace bool) (store.Restore, error) {
	r := &restore{store: s, keptSecrets: true}
	if err := r.begin(ctx, replace); err != nil {
		return nil, s.failed(err, "begin to restore")
	}
	return r, nil
}

func (r *restore) begin(ctx context.Context, replace bool) error {
	s := r.store
	half, err := s.Restoring(ctx)
	if err != nil {
		return err
	}
	if !half && !replace {
		for _, t := range allTables() {
			if has, err := s.hasRows(ctx, t); err != nil {
				return err
			} else if has {
				return fmt.Errorf("its table %s has rows, which would be lost: restore into an empty database, or say --replace", t.name)
			}
		}
	}
	err = s.write(ctx, func(tx *txn) error {
		if _, err := tx.conn.ExecContext(ctx, s.d.placeholders("DELETE FROM cursors WHERE follower = ?"), restoringFollower); err != nil {
			return err
		}
		return tx.addCursor(ctx, store.DumpCursor{Follower: restoringFollower, Position: sluice.Position{Major: 1}})
	})
	if err != nil {
		return fmt.Errorf("mark it: %w", err)
	}
	for _, t := range allTables() {
		if t.held || t.name == secretsTable {
			continue // until Finish, or until others are written
		}
		if err := s.write(ctx, func(tx *txn) error { return s.d.empty(ctx, tx.conn, t.name) }); err != nil {
			return fmt.Errorf("empty table %s: %w", t.name, err)
		}
	}
	// Now, while there is nothing in them: else today's events would have to be
	// moved into their days later.
	_, err = s.MakeEventDays(ctx, s.clock.Now().UnixMilli())
	return err
}

// hasRows reports whether a table has something to lose. A cursor that never
// moved has not, nor have a lease number and the publish number: they are only raised.
func (s *Store) hasRows(ctx context.Context, t standardTable) (bool, error) {
	where := ""
	switch t.name {
	case "cursors":
		where = " WHERE pos_major <> 0 OR pos_minor <> 0"
	case "leases", "journey_publish":
		return false, nil
	}
	return exists(ctx, s.reads, "SELECT 1 FROM "+t.name+where+" LIMIT 1")
}

// OwnTableCursors returns the cursors of followers that fill users' tables.
func (s *Store) OwnTableCursors(ctx context.Context) ([]store.DumpCursor, error) {
	all, err := list(ctx, s.d, s.reads, func(scan scanner, c *store.DumpCursor) error {
		return scan(&c.Follower, &c.Partition, (*number)(&c.Position.Major), (*number)(&c.Position.Minor))
	}, "SELECT follower, part, pos_major, pos_minor FROM cursors")
	return slices.DeleteFunc(all, func(c store.DumpCursor) bool { return !c.OwnTable() || c.Position.IsZero() }), s.failed(err, "read cursors in")
}

// Tables lists the standard tables.
func (r *restore) Tables() []store.DumpTable { return dumpTables() }

// Write adds rows to a table.
func (r *restore) Write(ctx context.Context, name string, columns []string, cells []store.Cell) error {
	sec, err := r.section(name, columns, cells)
	if err == nil && name == secretsTable && r.keptSecrets && sec.len() > 0 {
		r.keptSecrets = false
		err = r.store.write(ctx, func(tx *txn) error { return r.store.d.empty(ctx, tx.conn, name) })
	}
	if err == nil && sec.len() > 0 {
		err = r.load(ctx, sec)
	}
	if err != nil {
		return fmt.Errorf("restore table %s of %s: %w", name, r.store.where, err)
	}
	return nil
}

func (r *restore) load(ctx context.Context, sec *section) error {
	s := r.store
	defer s.d.release(sec)
	if err := s.d.encode(sec); err != nil {
		return err
	}
	return s.write(ctx, func(tx *txn) error {
		_, _, err := s.d.load(ctx, tx, sec)
		return err
	})
}

// section makes rows ready for the bulk path: times and positions as this
// database has them.
func (r *restore) section(name string, columns []string, cells []store.Cell) (*section, error) {
	t := standardTableOf(name)
	if t == nil || t.held {
		return nil, fmt.Errorf("it is not a table that a restore fills")
	}
	own := &table{target: target{name: name, columns: columns}, spec: store.TableSpec{Table: name, Columns: columns}}
	chosen := make([]store.DumpColumn, len(columns))
	for i, c := range columns {
		at := slices.IndexFunc(t.columns, func(d store.DumpColumn) bool { return d.Name == c })
		if at < 0 {
			return nil, fmt.Errorf("it has no column %s", c)
		}
		chosen[i] = t.columns[at]
	}
	own.classes = classesOf(r.store.d, chosen)
	if len(columns) == 0 || len(cells)%len(columns) != 0 {
		return nil, fmt.Errorf("%d cells do not make rows of %d columns", len(cells), len(columns))
	}
	for i := range cells {
		if err := r.convert(chosen[i%len(columns)].Kind, &cells[i]); err != nil {
			return nil, fmt.Errorf("row %d, column %s: %w", i/len(columns), columns[i%len(columns)], err)
		}
	}
	cells, err := r.store.d.restored(own, cells)
	if err != nil {
		return nil, err
	}
	return &section{target: &own.target, table: own, rows: &store.TableRows{Table: own, Cells: cells}}, nil
}

// convert makes a cell of a dump one of this database.
func (r *restore) convert(kind store.DumpKind, c *store.Cell) error {
	if c.Kind == store.CellNull {
		return nil
	}
	switch kind {
	case store.DumpText:
		c.Text = r.store.d.text(c.Text)
	case store.DumpTime:
		ms, err := strconv.ParseInt(c.Text, 10, 64)
		if err != nil {
			return err
		}
		if r.store.d.timeClass() == classText {
			*c = timeCell(r.store.d, ms)
		}
	case store.DumpPosition:
		n, err := strconv.ParseUint(c.Text, 10, 64)
		if err != nil {
			return err
		}
		c.Text = fmt.Sprint(r.store.d.number(n))
	}
	return nil
}

// Finish sets the cursors and lease numbers and takes the mark away.
func (r *restore) Finish(ctx context.Context, cursors []store.DumpCursor, leases []store.DumpLease) error {
	s := r.store
	err := s.write(ctx, func(tx *txn) error {
		if _, err := tx.conn.ExecContext(ctx, "DELETE FROM cursors"); err != nil {
			return err
		}
		for _, c := range cursors {
			if c.Follower == mirrorFollower || c.Follower == suppressionFollower {
				continue // the mirror has what came after the dump: it is made anew; the other counts rows
			}
			if err := tx.addCursor(ctx, c); err != nil {
				return fmt.Errorf("set the cursor of %s: %w", c.Follower, err)
			}
		}
		// It is unknown whether schedules that were due after the dump were
		// released: mail that may have been sent is not sent again.
		if err := tx.exec(ctx, "schedules_doubt", string(mail.ScheduleInDoubt), string(mail.ScheduleWaiting), string(mail.ScheduleReleasing), s.d.millis(s.clock.Now().UnixMilli())); err != nil {
			return fmt.Errorf("set schedules in doubt: %w", err)
		}
		if err := tx.recountSuppressions(ctx); err != nil {
			return fmt.Errorf("count the changes of suppressions: %w", err)
		}
		if err := tx.raiseLeases(ctx, leases); err != nil {
			return fmt.Errorf("raise the lease numbers: %w", err)
		}
		if err := tx.raiseUserNumbers(ctx, cursors); err != nil {
			return fmt.Errorf("raise the numbers of users: %w", err)
		}
		if err := tx.holdJourneys(ctx, restoredHold); err != nil {
			return fmt.Errorf("pause the journeys: %w", err)
		}
		if err := tx.exec(ctx, "webhooks_hold", restoredWebhook, s.now()); err != nil {
			return fmt.Errorf("switch the webhooks off: %w", err)
		}
		if err := tx.execEach(ctx, []string{"restore_sessions_end", "restore_setups_end", "restore_late_events"}); err != nil {
			return fmt.Errorf("end the sessions, and note which events may be late: %w", err)
		}
		if _, err := tx.raisePublished(ctx); err != nil { // the names may be others than before
			return fmt.Errorf("raise the publish number: %w", err)
		}
		return s.d.afterRestore(ctx, tx.conn)
	})
	return s.failed(err, "finish the restore of")
}

// raiseUserNumbers makes sure that a number given to a user after the dump is
// not given to another. A system that has written it down would mean the wrong
// user. A partition that had no user by then may have issued numbers too.
func (t *txn) raiseUserNumbers(ctx context.Context, cursors []store.DumpCursor) error {
	d := t.store.d
	if _, err := t.conn.ExecContext(ctx, d.placeholders("UPDATE user_numbers SET last_user = last_user + ?"), user.NumberJump); err != nil {
		return err
	}
	var parts []int
	for _, c := range cursors {
		parts = append(parts, c.Partition)
	}
	slices.Sort(parts)
	for _, p := range slices.Compact(parts) {
		has, err := exists(ctx, t.conn, d.placeholders("SELECT 1 FROM user_numbers WHERE part = ?"), p)
		if err == nil && !has {
			_, err = t.rows(ctx, "user_numbers_put", 3, []any{p, int64(user.NumberJump), int64(0)})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// raiseLeases makes every lease number larger than any was, here or in the dump.
func (t *txn) raiseLeases(ctx context.Context, leases []store.DumpLease) error {
	d := t.store.d
	highest := uint64(0)
	if err := t.conn.QueryRowContext(ctx, "SELECT COALESCE(MAX(number), 0) FROM leases").Scan((*number)(&highest)); err != nil {
		return err
	}
	for _, l := range leases {
		highest = max(highest, l.Number)
	}
	highest += leaseJump
	if _, err := t.conn.ExecContext(ctx, d.placeholders("UPDATE leases SET number = ?"), d.number(highest)); err != nil {
		return err
	}
	remove := d.placeholders("DELETE FROM leases WHERE role = ? AND part = ?")
	insert := d.placeholders("INSERT INTO leases (role, part, number, taken_at) VALUES (?, ?, ?, ?)")
	for _, l := range leases {
		if _, err := t.conn.ExecContext(ctx, remove, l.Role, l.Partition); err != nil {
			return err
		}
		if _, err := t.conn.ExecContext(ctx, insert, l.Role, l.Partition, d.number(highest), t.store.now()); err != nil {
			return err
		}
	}
	return nil
}

func (t *txn) addCursor(ctx context.Context, c store.DumpCursor) error {
	d := t.store.d
	insert := d.placeholders("INSERT INTO cursors (follower, part, pos_major, pos_minor, updated) VALUES (?, ?, ?, ?, ?)")
	_, err := t.conn.ExecContext(ctx, insert, c.Follower, c.Partition, d.number(c.Position.Major), d.number(c.Position.Minor), t.store.now())
	return err
}

func (d *sqliteDialect) empty(ctx context.Context, conn *sql.Conn, table string) error {
	_, err := conn.ExecContext(ctx, "DELETE FROM "+table)
	return err
}

func (plainSQL) afterRestore(context.Context, *sql.Conn) error { return nil }

// empty drops the rows with their pages: DELETE of a large table takes hours.
func (plainSQL) empty(ctx context.Context, conn *sql.Conn, table string) error {
	_, err := conn.ExecContext(ctx, "TRUNCATE TABLE "+table)
	return err
}

// afterRestore has the numbers of dead letters go on behind those restored.
func (d *postgresDialect) afterRestore(ctx context.Context, conn *sql.Conn) error {
	_, err := conn.ExecContext(ctx, "SELECT setval(pg_get_serial_sequence('dead_letters', 'id'), COALESCE((SELECT MAX(id) FROM dead_letters), 0) + 1, false)")
	return err
}

func (d *sqliteDialect) timeClass() class { return classInteger }
func (plainSQL) timeClass() class         { return classText }
