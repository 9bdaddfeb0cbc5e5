package sqlstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"sluice"
	"sluice/lib/faults"
	"sluice/store"
)

// prepared is an effect encoded for the bulk path. It belongs to one goroutine
// at a time. Its memory goes back when it has been applied, and is made again
// if it is applied once more.
type prepared struct {
	store    *Store
	effect   *store.Effect
	sections []*section
	large    []sluice.DeadLetter // too large for the bulk path
	refused  error               // a row that can never be stored

	late map[int]sluice.Position // of events far from their time, the last by partition (late.go)
}

// Effect returns what was prepared.
func (p *prepared) Effect() *store.Effect { return p.effect }

// Prepare encodes an effect. It fails only for an effect that no caller should
// make: a cursor that stays where it is, rows of another store's table.
func (s *Store) Prepare(effect *store.Effect) (store.Prepared, error) {
	p := &prepared{store: s, effect: effect}
	if err := checkMoves(effect.Moves); err != nil {
		return nil, fmt.Errorf("prepare effect: %w", err)
	}
	if len(effect.Events) > 0 {
		sec := &section{target: eventTarget, events: inKeyOrder(effect.Events)}
		sec.tally = sec.tallyAll()
		p.late = lateOnes(effect.Events)
		p.sections = append(p.sections, sec)
	}
	for i := range effect.Rows {
		sec, err := rowSection(&effect.Rows[i])
		if err != nil {
			return nil, fmt.Errorf("prepare effect: rows %d: %w", i, err)
		}
		if sec.len() > 0 {
			p.sections = append(p.sections, sec)
		}
	}
	if len(effect.Dead) > 0 {
		var small []sluice.DeadLetter
		small, p.large = splitDead(effect.Dead)
		if len(small) > 0 {
			p.sections = append(p.sections, &section{target: deadTarget, dead: small, nowMillis: s.clock.Now().UnixMilli()})
		}
	}
	p.encode()
	return p, nil
}

// inKeyOrder returns the events in the order of the table's primary key: so two
// transactions that have the same events wait for each other and never in a circle. And
// events come partition by partition. Inserted like that, each transaction goes over its
// span of time once for every partition. It splits pages in their middle, which loads at
// half the speed (measured).
func inKeyOrder(events []store.StoredEvent) []store.StoredEvent {
	order := make([]int32, len(events))
	sorted := true
	for i := range events {
		order[i] = int32(i)
		sorted = sorted && (i == 0 || compareEvents(&events[i-1], &events[i]) <= 0)
	}
	if sorted {
		return events
	}
	slices.SortStableFunc(order, func(a, b int32) int { return compareEvents(&events[a], &events[b]) })
	out := make([]store.StoredEvent, len(events))
	for i, from := range order {
		out[i] = events[from]
	}
	return out
}

// compareEvents compares events by their keys. Those without an id have one of their place
// (eventID), which no other transaction has: they come first of their time, in any order.
func compareEvents(a, b *store.StoredEvent) int {
	if a.TimeMillis != b.TimeMillis { // nearly always
		return cmp.Compare(a.TimeMillis, b.TimeMillis)
	}
	return strings.Compare(a.ID, b.ID)
}

func checkMoves(moves []store.Move) error {
	type cursor struct {
		follower  string
		partition int
	}
	seen := make(map[cursor]struct{}, len(moves))
	for _, m := range moves {
		if m.From == m.To {
			return fmt.Errorf("the cursor of %q in partition %d does not move from %s", m.Follower, m.Partition, m.From)
		}
		c := cursor{m.Follower, m.Partition}
		if _, twice := seen[c]; twice {
			return fmt.Errorf("the cursor of %q in partition %d moves twice", m.Follower, m.Partition)
		}
		seen[c] = struct{}{}
	}
	return nil
}

func rowSection(rows *store.TableRows) (*section, error) {
	t, ok := rows.Table.(*table)
	if !ok {
		return nil, fmt.Errorf("their table is a %T, not one that this store has opened", rows.Table)
	}
	n := len(rows.Cells) / len(t.spec.Columns)
	if n*len(t.spec.Columns) != len(rows.Cells) || len(rows.Raw) != n || (rows.Places != nil && len(rows.Places) != n) {
		return nil, fmt.Errorf("table %q: %d cells, %d elements and %d places do not make rows of %d columns",
			t.spec.Table, len(rows.Cells), len(rows.Raw), len(rows.Places), len(t.spec.Columns))
	}
	return &section{target: &t.target, rows: rows, table: t}, nil
}

// encode encodes what is not encoded. A row that can never be stored makes the
// bulk path pointless: Apply will say so without asking the server.
func (p *prepared) encode() {
	for _, sec := range p.sections {
		if sec.encoded {
			continue
		}
		if err := p.store.d.encode(sec); err != nil {
			p.refused = err
			p.release()
			return
		}
		sec.encoded = true
	}
}

func (p *prepared) release() {
	for _, sec := range p.sections {
		p.store.d.release(sec)
		sec.encoded = false
	}
}

// Apply moves the cursors and writes the rows by the bulk path.
func (s *Store) Apply(ctx context.Context, prep store.Prepared) (store.Applied, error) {
	p, err := s.own(prep)
	if err != nil {
		return store.Applied{}, err
	}
	p.encode()
	if p.refused != nil {
		return store.Applied{}, fmt.Errorf("apply effect to %s: %w: %w", s.where, sluice.ErrRefused, p.refused)
	}
	if err := s.names.fill(ctx, s); err != nil {
		return store.Applied{}, s.failed(err, "apply effect to")
	}
	var applied store.Applied
	err = s.write(ctx, func(tx *txn) error {
		applied = store.Applied{}
		return tx.stages(ctx, p, &applied, func() ([]sluice.DeadLetter, error) {
			applied.Dead = len(p.effect.Dead) - len(p.large)
			return p.large, tx.loadAll(ctx, p, &applied)
		})
	})
	if err != nil {
		return store.Applied{}, s.failed(err, "apply effect to")
	}
	p.release()
	return applied, nil
}

// stages carries out an effect, one part after the other: what Apply and ApplyEach have
// in common. write writes the rows of the sections, and returns the dead letters that
// are still to be written. A new part of an effect is one more stage here.
//
// The order. The cursors come first: they say whether the effect is still ours. Users
// come before what names them. Suppressions come after all that is written but the
// publish number (suppressions.go), which is compared last (published.go).
func (t *txn) stages(ctx context.Context, p *prepared, applied *store.Applied, write func() ([]sluice.DeadLetter, error)) error {
	e := p.effect
	if err := t.moveCursors(ctx, e.Moves); err != nil {
		return err
	}
	noted := t.store.noteBounces(ctx, e.SoftBounces)
	if noted != nil {
		defer func() { _, _ = noted() }() // it is not left behind by an error
	}
	if err := faults.Hit("transaction"); err != nil {
		return err
	}
	if err := t.applyUsers(ctx, e.Users); err != nil {
		return err
	}
	letters, err := write()
	if err != nil {
		return err
	}
	if err := t.noteLate(ctx, p.late); err != nil {
		return err
	}
	orphans, err := t.applySends(ctx, e, applied)
	if err != nil {
		return fmt.Errorf("write the ledger of sends: %w", err)
	}
	letters = append(slices.Clip(letters), orphans...)
	applied.Dead += len(letters)
	if err := t.addDead(ctx, letters); err != nil {
		return err
	}
	if err := t.addFacts(ctx, e.Facts); err != nil {
		return err
	}
	if err := t.addJourneyFacts(ctx, slices.Concat(e.JourneyFacts, t.mailFacts)); err != nil {
		return err
	}
	if err := t.keepContexts(ctx, e.Contexts); err != nil {
		return err
	}
	if err := t.dropFacts(ctx, e.FactsUpTo); err != nil {
		return err
	}
	if err := t.applySuppressions(ctx, e, noted); err != nil {
		return err
	}
	if err := t.checkPublished(ctx, e.Published); err != nil {
		return err
	}
	return faults.Hit("commit")
}

// loadAll writes the sections by the bulk path, and what they add to the series.
func (t *txn) loadAll(ctx context.Context, p *prepared, applied *store.Applied) error {
	counts := p.effect.Counts
	for _, sec := range p.sections {
		rows, duplicates, err := t.store.d.load(ctx, t, sec)
		if err != nil {
			return fmt.Errorf("load into %s: %w", sec.target.name, err)
		}
		if sec.dead == nil {
			applied.Rows += rows
			applied.Duplicates += duplicates
		}
		if sec.events != nil {
			inserted, err := t.tallyInserted(ctx, sec, rows)
			if err != nil {
				return err
			}
			counts = inserted.counts(counts)
		}
	}
	return t.addCounts(ctx, counts, p.effect.Stripe)
}

func (s *Store) own(prep store.Prepared) (*prepared, error) {
	p, ok := prep.(*prepared)
	if !ok || p.store != s {
		return nil, fmt.Errorf("apply effect to %s: it was prepared by another store", s.where)
	}
	return p, nil
}

// moveCursors is the compare-and-set, in one statement for all: a cursor that
// is not at its From is not changed, and the count tells.
func (t *txn) moveCursors(ctx context.Context, moves []store.Move) error {
	if len(moves) == 0 {
		return nil
	}
	d := t.store.d
	var major, minor, where strings.Builder
	var majors, minors, wheres []any
	for i, m := range moves {
		major.WriteString(" WHEN follower = ? AND part = ? THEN ?")
		majors = append(majors, m.Follower, m.Partition, d.number(m.To.Major))
		minor.WriteString(" WHEN follower = ? AND part = ? THEN ?")
		minors = append(minors, m.Follower, m.Partition, d.number(m.To.Minor))
		if i > 0 {
			where.WriteString(" OR ")
		}
		where.WriteString("(follower = ? AND part = ? AND pos_major = ? AND pos_minor = ?)")
		wheres = append(wheres, m.Follower, m.Partition, d.number(m.From.Major), d.number(m.From.Minor))
	}
	statement := "UPDATE cursors SET updated = ?, pos_major = CASE" + major.String() + " ELSE pos_major END, pos_minor = CASE" + minor.String() + " ELSE pos_minor END WHERE " + where.String()
	args := append(append(append([]any{t.store.now()}, majors...), minors...), wheres...)
	result, err := t.conn.ExecContext(ctx, d.placeholders(statement), args...)
	if err != nil {
		d.unblock(ctx, t.store, moves, err)
		return fmt.Errorf("move cursors: %w", err)
	}
	moved, err := result.RowsAffected()
	if err != nil {
		return fmt.Errorf("move cursors: %w", err)
	}
	if moved != int64(len(moves)) {
		return fmt.Errorf("move cursors: %d of %d (the first is %q, partition %d, from %s) were where they should be: %w",
			moved, len(moves), moves[0].Follower, moves[0].Partition, moves[0].From, sluice.ErrConflict)
	}
	return nil
}
