package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"sluice"
	"sluice/mail"
)

// Bodies are cut like the payloads of dead letters, since max_allowed_packet
// bounds one value. Their piece 0 has what there is to know of them.

// orphansAtOnce is how many bodies DropOrphans removes in one transaction.
const orphansAtOnce = 500

// AddBodies implements mail.SendStore.
func (s *Store) AddBodies(ctx context.Context, bodies []mail.Body) error {
	err := s.write(ctx, func(tx *txn) error { return tx.addBodies(ctx, bodies) })
	return s.failed(err, "store %d bodies in", len(bodies))
}

func (t *txn) addBodies(ctx context.Context, bodies []mail.Body) error {
	sorted := slices.SortedFunc(slices.Values(bodies), func(a, b mail.Body) int { return strings.Compare(a.Message, b.Message) })
	var args []any
	bytes := 0
	flush := func() error {
		err := t.store.d.insertLarge(ctx, t, "body_add", 6, args)
		args, bytes = args[:0], 0
		return err
	}
	for i := range sorted {
		b := &sorted[i]
		if !sluice.ValidMessageID(b.Message) {
			return fmt.Errorf("%.64q is no id of a message", b.Message)
		}
		rest, created := b.Data, t.store.d.millis(b.CreatedMillis)
		for n := 0; n == 0 || len(rest) > 0; n++ {
			piece := rest[:min(len(rest), maxChunkBytes)]
			rest = rest[len(piece):]
			if bytes+len(piece) > maxChunkBytes {
				if err := flush(); err != nil {
					return err
				}
			}
			if piece == nil {
				piece = []byte{}
			}
			bytes += len(piece)
			args = append(args, b.Message, n, b.Recipients, b.Recipients, created, piece)
		}
	}
	return flush()
}

// insertLarge needs nothing of its own here.
func (plainSQL) insertLarge(ctx context.Context, t *txn, name string, columns int, args []any) error {
	_, err := t.rows(ctx, name, columns, args)
	return err
}

// maxPreparedRows bounds the rows of a prepared statement, of which there is one
// for each number of rows.
const maxPreparedRows = 32

// insertLarge goes by statements that stay prepared. In the text of one a body
// would be escaped, copied twice, and parsed by the server.
func (d *mysqlDialect) insertLarge(ctx context.Context, t *txn, name string, columns int, args []any) error {
	for piece := range slices.Chunk(args, columns*maxPreparedRows) {
		statement := withRows(query(d, name), columns, len(piece)/columns)
		stmt := d.prepared[statement]
		if stmt == nil {
			var err error
			if stmt, err = t.conn.PrepareContext(ctx, statement); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			if d.prepared == nil {
				d.prepared = make(map[string]*sql.Stmt)
			}
			d.prepared[statement] = stmt
		}
		if _, err := stmt.ExecContext(ctx, piece...); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// errEnough ends a reading of rows.
var errEnough = errors.New("there are enough rows")

// Bodies implements mail.SendStore.
func (s *Store) Bodies(ctx context.Context, messages []string, mostBytes int) (map[string][]byte, error) {
	found, bytes := make(map[string][]byte, len(messages)), 0
	for piece := range slices.Chunk(messages, maxUserKeys) {
		statement := named(rawQuery(s.d, "bodies_get"), len(piece))
		err := s.each(ctx, statement, anys(piece), func(scan scanner) error {
			var message string
			var data sql.RawBytes
			if err := scan(&message, &data); err != nil {
				return err
			}
			before, begun := found[message]
			if !begun && mostBytes > 0 && bytes >= mostBytes {
				return errEnough
			}
			found[message] = append(before, data...)
			bytes += len(data)
			return nil
		})
		if errors.Is(err, errEnough) {
			break
		}
		if err != nil {
			return nil, s.failed(err, "read %d bodies from", len(messages))
		}
	}
	return found, nil
}

// countDown notes which sends have no need of their bodies any more, and
// removes bodies that no send needs. A body that says that it belongs to a
// single send is not counted. A caller that cancels a message may not have seen
// all of its sends.
func (t *txn) countDown(ctx context.Context, added, changed []*ledgerRow) error {
	less := make(map[string]int)
	var alone, over []string
	for _, rows := range [][]*ledgerRow{added, changed} {
		for _, r := range rows {
			switch {
			case !r.body || r.ended == r.Ended():
			case !r.ended && r.recipients <= 1:
				alone = append(alone, r.Message)
			case !r.ended:
				less[r.Message]++
			default: // it had ended, and goes on
				less[r.Message]--
			}
		}
	}
	shared := slices.Sorted(maps.Keys(less))
	byLess := make(map[int][]string)
	for piece := range slices.Chunk(shared, maxUserRows) {
		err := t.each(ctx, named(rawQuery(t.store.d, "bodies_lock"), len(piece)), anys(piece), func(scan scanner) error {
			var message string
			var remaining int
			err := scan(&message, &remaining)
			if remaining <= less[message] {
				over = append(over, message)
			} else {
				byLess[less[message]] = append(byLess[less[message]], message)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	for _, n := range slices.Sorted(maps.Keys(byLess)) {
		for piece := range slices.Chunk(byLess[n], maxUserRows) {
			if err := t.eachName(ctx, "bodies_less", piece, n); err != nil {
				return err
			}
		}
	}
	if err := t.inPieces(ctx, "bodies_drop_alone", alone); err != nil {
		return err
	}
	return t.inPieces(ctx, "bodies_drop", over)
}

// inPieces runs a statement about names, in their order.
func (t *txn) inPieces(ctx context.Context, name string, names []string) error {
	slices.Sort(names)
	for piece := range slices.Chunk(names, maxUserRows) {
		if err := t.eachName(ctx, name, piece); err != nil {
			return err
		}
	}
	return nil
}

// eachName runs a statement about names.
func (t *txn) eachName(ctx context.Context, name string, names []string, args ...any) error {
	statement := named(rawQuery(t.store.d, name), len(names))
	if _, err := t.conn.ExecContext(ctx, t.store.d.placeholders(statement), append(args, anys(names)...)...); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// DropOrphans implements mail.SendStore. Whether a body is one is looked at
// before the transaction; in it, whether it was stored anew since.
func (s *Store) DropOrphans(ctx context.Context, beforeMillis int64) (dropped int, err error) {
	before := s.d.millis(beforeMillis)
	orphans, err := list(ctx, s.d, s.reads, cell[string], rawQuery(s.d, "bodies_orphaned"), before, orphansAtOnce)
	if err == nil && len(orphans) > 0 {
		err = s.write(ctx, func(tx *txn) error {
			for _, message := range orphans {
				n, err := tx.changed(ctx, "body_orphan_drop", message, before)
				if err != nil {
					return err
				}
				if n == 0 {
					continue
				}
				dropped++
				if err := tx.eachName(ctx, "bodies_drop", []string{message}); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return done(dropped, err), s.failed(err, "drop bodies that no send needs from")
}
