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

// factsPiece is about how many rows of a partition are deleted in one transaction.
// Those of one place go together.
const factsPiece = 1000

// Rows of facts that one statement reads: at first, and at most. One that is for a few facts
// does not read thousands of packs.
const (
	factRowsFirst = 8
	factRowsMost  = 2 * store.MinFacts
)

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
	facts = slices.CompactFunc(inOrder(facts, compareFacts), func(a, b journey.Fact) bool { return compareFacts(a, b) == 0 })
	for _, f := range packed(d, facts) {
		if err := checkPlace(&f.Place); err != nil {
			return fmt.Errorf("write facts: %w", err)
		}
		cells = t.factCells(cells, &f)
	}
	sec := &section{target: &into.target, table: &into, rows: &store.TableRows{Table: &into, Cells: cells}}
	if err := t.loadSection(ctx, sec); err != nil {
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
	return append(cells, number(int64(f.Place.Partition)), position(f.Place.Position.Major), position(f.Place.Position.Minor), number(int64(f.Place.Index)),
		number(f.Number), number(int64(f.Kind)), store.Cell{Kind: store.CellText, Text: d.text(f.Name)}, timeCell(d, f.TimeMillis), store.Cell{Kind: store.CellText, Text: d.text(f.Body)})
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

// factRows returns rows of facts behind a place, the whole of each place, and no more once
// they have store.FactsBytes. full: there may be more than these.
func (s *Store) factRows(ctx context.Context, partition int, after sluice.Place, limit int) (rows []journey.Fact, full bool, err error) {
	bytes := 0
	err = s.each(ctx, rawQuery(s.d, "journey_facts"), append(placeArgs(s.d, partition, after), limit), func(scan scanner) error {
		f := journey.Fact{Place: sluice.Place{Partition: partition}}
		err := scan((*number)(&f.Place.Position.Major), (*number)(&f.Place.Position.Minor), &f.Place.Index, &f.Number, &f.Kind, &f.Name, s.instant(&f.TimeMillis), &f.Body)
		if err == nil && bytes >= store.FactsBytes && f.Place != rows[len(rows)-1].Place {
			return errEnough
		}
		rows, bytes = append(rows, f), bytes+len(f.Body)
		return err
	})
	if errors.Is(err, errEnough) {
		return rows, true, nil
	}
	if err != nil || len(rows) < limit {
		return rows, false, err
	}
	whole := len(rows)
	for whole > 0 && rows[whole-1].Place == rows[len(rows)-1].Place {
		whole--
	}
	if whole == 0 && limit >= factRowsMost {
		return nil, true, tooManyFacts(&rows[0], limit)
	}
	return rows[:whole], true, nil
}

func tooManyFacts(of *journey.Fact, limit int) error {
	return fmt.Errorf("the item at %s, %d, has %d facts or more, and no item has so many", of.Place.Position, of.Place.Index, limit)
}

// Facts implements store.JourneyStore.
func (s *Store) Facts(ctx context.Context, partition int, after sluice.Place, limit int) ([]journey.Fact, error) {
	p := &factsPage{limit: max(limit, store.MinFacts), last: after}
	for n := factRowsFirst; ; n = min(2*n, factRowsMost) {
		rows, full, err := s.factRows(ctx, partition, after, n)
		if err == nil {
			err = p.take(rows)
		}
		if errors.Is(err, errEnough) || err == nil && (!full || p.bytes >= store.FactsBytes) {
			return p.all, nil
		}
		if err != nil {
			return nil, s.failed(err, "read facts of partition %d in", partition)
		}
		if len(rows) > 0 {
			after = rows[len(rows)-1].Place
		}
	}
}

// factsPage is what Facts returns, up to its limit and store.FactsBytes.
type factsPage struct {
	limit int
	all   []journey.Fact
	bytes int
	last  sluice.Place // of all, or behind which they begin
	whole int          // facts of all up to which a page may end
}

// take appends the facts of some rows, which end with the whole of a place. errEnough: the
// page is full, and ends behind the whole of a place.
func (p *factsPage) take(rows []journey.Fact) (err error) {
	for i := range rows {
		row := &rows[i]
		if row.Place != p.last {
			p.whole = len(p.all)
			if p.bytes >= store.FactsBytes {
				return errEnough
			}
		}
		before, behind := len(p.all), p.last
		if p.all, err = unpacked(p.all, row); err != nil {
			return err
		}
		if row.Kind == factPack {
			p.all = slices.Delete(p.all, before, before+passed(p.all[before:], behind))
		}
		if len(p.all) > p.limit {
			if p.all = p.all[:p.whole]; p.whole == 0 { // an empty page would mean that there are none
				return tooManyFacts(row, p.limit)
			}
			return errEnough
		}
		for i := range p.all[before:] {
			p.bytes += len(p.all[before+i].Body)
		}
		p.last = row.Place
	}
	return nil
}

// passed is how many facts of a pack are not behind a place.
func passed(facts []journey.Fact, place sluice.Place) int {
	n := 0
	for n < len(facts) && comparePlaces(facts[n].Place, place) <= 0 {
		n++
	}
	return n
}

// EraseFacts implements store.RetentionStore. No index has them by users: they are looked for
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
		n, err := s.eraseFacts(ctx, part, numbers[part])
		erased += n
		if err == nil {
			err = s.write(ctx, func(tx *txn) error {
				n, err = tx.eraseContexts(ctx, part, numbers[part])
				return err
			})
			erased += done(n, err)
		}
		if err != nil {
			return erased, s.failed(err, "erase facts of users in")
		}
	}
	return erased, nil
}

// eraseFacts erases the facts of users of a partition.
func (s *Store) eraseFacts(ctx context.Context, part int, numbers []any) (erased int, err error) {
	whose := make(map[int64]bool, len(numbers))
	for _, n := range numbers {
		whose[n.(int64)] = true
	}
	after := sluice.Place{Partition: part, Index: -1}
	for full := true; full; {
		var rows []journey.Fact
		if rows, full, err = s.factRows(ctx, part, after, factRowsMost); err != nil || len(rows) == 0 {
			return erased, err
		}
		found, err := erasedRows(rows, whose)
		n, again := 0, false
		if err == nil && len(found) > 0 {
			err = s.write(ctx, func(tx *txn) (err error) {
				n, again, err = tx.eraseFacts(ctx, found)
				return err
			})
		}
		if err != nil {
			return erased, err
		}
		erased += n
		if again {
			full = true
			continue
		}
		after = rows[len(rows)-1].Place
	}
	return erased, nil
}

// erasedRow is a row of facts of which an erasure takes some, and those that it leaves.
type erasedRow struct {
	row   *journey.Fact
	left  []journey.Fact
	taken int
}

// erasedRows finds the rows that have facts of users. It is done before the transaction: most
// rows have none, and the store waits for who writes.
func erasedRows(rows []journey.Fact, whose map[int64]bool) (found []erasedRow, err error) {
	for i := range rows {
		facts, err := unpacked(nil, &rows[i])
		if err != nil {
			return nil, err
		}
		many := len(facts)
		left := slices.DeleteFunc(facts, func(f journey.Fact) bool {
			return whose[f.Number] && !slices.Contains(journey.Lasting, f.Kind)
		})
		if len(left) < many {
			found = append(found, erasedRow{&rows[i], left, many - len(left)})
		}
	}
	return found, nil
}

// packArgs are the columns of a pack of facts that are not always the same: it goes with the
// last that is left.
func (t *txn) packArgs(facts []journey.Fact, bytes int) []any {
	d, pack := t.store.d, packOf(t.store.d, facts, bytes)
	return []any{d.number(pack.Place.Position.Major), d.number(pack.Place.Position.Minor), pack.Place.Index, pack.Number, d.millis(pack.TimeMillis), pack.Body}
}

// eraseFacts takes what is erased out of rows. again: a pack is no more as it was read, and
// they have to be read again.
func (t *txn) eraseFacts(ctx context.Context, found []erasedRow) (erased int, again bool, err error) {
	d := t.store.d
	for _, x := range found {
		at := &x.row.Place
		key := []any{at.Partition, d.number(at.Position.Major), d.number(at.Position.Minor), at.Index, x.row.Number, x.row.Kind}
		changed := 0
		if len(x.left) == 0 {
			changed, err = t.changed(ctx, "journey_fact_drop", key...)
		} else {
			changed, err = t.changed(ctx, "journey_fact_repack", append(t.packArgs(x.left, len(x.row.Body)), key...)...)
		}
		if err != nil {
			return 0, false, err
		}
		if changed > 0 {
			erased += x.taken
		} else if x.row.Kind == factPack {
			again = true
		}
	}
	return erased, again, nil
}
