package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"sluice"
	"sluice/journey"
	"sluice/store"
	"sluice/user"
)

// Facts for journeys: the store's transactional outbox. They are written, and deleted
// when all have read them, in the transactions of the store follower, whose connection
// they share. What was tried and dropped: to delete them on a connection of its own. In
// SQLite, which has one writer, that halved the speed of the store.

// factsPiece is about how many facts of a partition are deleted in one transaction.
// Those of one place go together.
const factsPiece = 10_000

var journeyFacts = factTarget()

func factTarget() *table {
	t := standardTableOf("journey_facts")
	columns := columnNames(t.columns)
	return &table{
		target: target{name: t.name, columns: columns, dedupe: true, keys: []key{{name: "PRIMARY", columns: t.key}}},
		spec:   store.TableSpec{Table: t.name, Columns: columns},
	}
}

// addJourneyFacts goes by the bulk path, in the order of the key.
func (t *txn) addJourneyFacts(ctx context.Context, facts []journey.Fact) error {
	if len(facts) == 0 {
		return nil
	}
	d := t.store.d
	into := *journeyFacts
	into.classes = classesOf(d, standardTableOf(into.name).columns)
	columns := into.columns
	cells := make([]store.Cell, 0, len(columns)*len(facts))
	for _, f := range inOrder(facts, compareFacts) {
		if err := checkPlace(&f.Place); err != nil {
			return fmt.Errorf("write facts: %w", err)
		}
		cells = t.factCells(cells, &f)
	}
	sec := &section{target: &into.target, table: &into, rows: &store.TableRows{Table: &into, Cells: cells}}
	defer d.release(sec)
	err := d.encode(sec)
	if err == nil {
		_, _, err = d.load(ctx, t, sec)
	}
	if err != nil {
		return fmt.Errorf("insert %d facts: %w", len(facts), err)
	}
	return nil
}

func comparePlaces(a, b sluice.Place) int {
	return cmp.Or(cmp.Compare(a.Partition, b.Partition), a.Position.Compare(b.Position), cmp.Compare(a.Index, b.Index))
}

func compareFacts(a, b journey.Fact) int {
	return cmp.Or(comparePlaces(a.Place, b.Place), cmp.Compare(a.Number, b.Number), cmp.Compare(a.Kind, b.Kind))
}

// factCells appends the cells of a fact, in the order of the columns.
func (t *txn) factCells(cells []store.Cell, f *journey.Fact) []store.Cell {
	d := t.store.d
	number := func(n int64) store.Cell { return store.Cell{Kind: store.CellNumber, Text: strconv.FormatInt(n, 10)} }
	position := func(n uint64) store.Cell { return store.Cell{Kind: store.CellNumber, Text: fmt.Sprint(d.number(n))} }
	happened := number(f.TimeMillis)
	if d.timeClass() == classText {
		var clock datetime
		happened = store.Cell{Kind: store.CellText, Text: string(clock.append(nil, f.TimeMillis))}
	}
	return append(cells, number(int64(f.Place.Partition)), position(f.Place.Position.Major), position(f.Place.Position.Minor), number(int64(f.Place.Index)),
		number(f.Number), number(int64(f.Kind)), store.Cell{Kind: store.CellText, Text: d.text(f.Name)}, happened, store.Cell{Kind: store.CellText, Text: d.text(f.Body)})
}

// dropFacts deletes facts up to a place in each partition, a piece of them.
func (t *txn) dropFacts(ctx context.Context, upTo map[int]sluice.Place) error {
	for _, part := range slices.Sorted(maps.Keys(upTo)) {
		last := upTo[part]
		args := placeArgs(t.store.d, part, last)
		var piece sluice.Place
		err := t.conn.QueryRowContext(ctx, query(t.store.d, "journey_facts_nth"), append(args, factsPiece-1)...).
			Scan((*number)(&piece.Position.Major), (*number)(&piece.Position.Minor), &piece.Index)
		switch {
		case errors.Is(err, sql.ErrNoRows): // there are fewer
		case err != nil:
			return fmt.Errorf("look for facts of partition %d that were read: %w", part, err)
		default:
			args = placeArgs(t.store.d, part, piece)
		}
		if err := t.exec(ctx, "journey_facts_drop", args...); err != nil {
			return fmt.Errorf("delete facts of partition %d that were read: %w", part, err)
		}
	}
	return nil
}

// placeArgs are the values of a comparison with a place, which the statements write so
// that every database finds its begin or end in the key.
func placeArgs(d dialect, part int, p sluice.Place) []any {
	major, minor := d.number(p.Position.Major), d.number(p.Position.Minor)
	return []any{part, major, major, minor, minor, p.Index}
}

// Facts implements store.JourneyStore. A full page may end among the facts of a place:
// these are left to the next one.
func (s *Store) Facts(ctx context.Context, partition int, after sluice.Place, limit int) (all []journey.Fact, err error) {
	limit = max(limit, store.MinFacts)
	bytes := 0
	err = s.each(ctx, rawQuery(s.d, "journey_facts"), append(placeArgs(s.d, partition, after), limit), func(scan scanner) error {
		var f journey.Fact
		f.Place.Partition = partition
		err := scan((*number)(&f.Place.Position.Major), (*number)(&f.Place.Position.Minor), &f.Place.Index, &f.Number, &f.Kind, &f.Name, s.instant(&f.TimeMillis), &f.Body)
		if err == nil && bytes >= store.FactsBytes && f.Place != all[len(all)-1].Place {
			return errEnough
		}
		all, bytes = append(all, f), bytes+len(f.Body)
		return err
	})
	if err != nil && !errors.Is(err, errEnough) {
		return nil, s.failed(err, "read facts of partition %d in", partition)
	}
	if err != nil || len(all) < limit {
		return all, nil
	}
	whole := len(all)
	for whole > 0 && all[whole-1].Place == all[len(all)-1].Place {
		whole--
	}
	if whole == 0 {
		return nil, fmt.Errorf("read facts of partition %d in %s: the item at %s, %d, has %d of them or more, and no item has so many", partition, s.where, all[0].Place.Position, all[0].Place.Index, limit)
	}
	return all[:whole], nil
}

// EraseFacts implements store.KeepStore. No index has them by users: they are looked for
// in the partitions of those who are named, by a read without locks.
func (s *Store) EraseFacts(ctx context.Context, names []store.Erasure) (erased int, err error) {
	if len(names) > store.MaxErasures {
		return 0, fmt.Errorf("erase the facts of %d users at once: at most %d", len(names), store.MaxErasures)
	}
	numbers := make(map[int][]any) // by partition
	for _, n := range names {
		if id, ok := user.ParseID(n.Name); ok {
			numbers[id.Partition] = append(numbers[id.Partition], id.Number)
		}
	}
	for _, part := range slices.Sorted(maps.Keys(numbers)) {
		for more := true; more && err == nil; {
			var n int
			n, err = s.eraseFacts(ctx, part, numbers[part])
			erased, more = erased+n, n == erasePieceRows
		}
		if err == nil {
			var n int
			err = s.write(ctx, func(tx *txn) error {
				n, err = tx.eraseContexts(ctx, part, numbers[part])
				return err
			})
			erased += done(n, err)
		}
	}
	return erased, s.failed(err, "erase facts of users in")
}

// eraseFacts erases a piece of the facts of users of a partition.
func (s *Store) eraseFacts(ctx context.Context, part int, numbers []any) (erased int, err error) {
	args := append(append(append([]any{part}, numbers...), anys(journey.Lasting)...), erasePieceRows)
	found, err := list(ctx, s.d, s.reads, func(scan scanner, f *journey.Fact) error {
		return scan((*number)(&f.Place.Position.Major), (*number)(&f.Place.Position.Minor), &f.Place.Index, &f.Number, &f.Kind)
	}, named(rawQuery(s.d, "journey_facts_of"), len(numbers)), args...)
	if err != nil || len(found) == 0 {
		return 0, err
	}
	err = s.write(ctx, func(tx *txn) error {
		for i := range found {
			f := &found[i]
			if err := tx.exec(ctx, "journey_fact_drop", part, s.d.number(f.Place.Position.Major), s.d.number(f.Place.Position.Minor), f.Place.Index, f.Number, f.Kind); err != nil {
				return err
			}
		}
		return nil
	})
	return done(len(found), err), err
}
