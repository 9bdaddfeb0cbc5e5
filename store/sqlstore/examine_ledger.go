package sqlstore

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"sluice/lib/doctor"
	"sluice/mail"
)

// ledger compares the totals of sends with their rows.
func (x *Examiner) ledger(ctx context.Context, e *doctor.Examination, s *Store) {
	c, err := s.CompareLedger(ctx)
	if err == nil && !c.Complete {
		err = fmt.Errorf("there are more than %d sends, and no more are counted for this", mail.MaxCountedSends)
	}
	if err != nil {
		e.Unknown(fmt.Errorf("compare the totals of sends with their rows: %w", err), doctor.CheckLedger)
		return
	}
	rows := int64(0)
	for i := range c.Sums {
		rows += c.Sums[i].Rows
	}
	if wrong := c.Differences(); len(wrong) > 0 {
		e.Fail(doctor.CheckLedger, mail.LedgerRemedy, "the totals of sends are not those of the rows (%s): were rows changed by hand?", strings.Join(wrong, "; "))
		return
	}
	e.Fine(doctor.CheckLedger, "the totals of sends are those of their %d rows", rows)
}

var _ mail.LedgerStore = (*Store)(nil)

// CheckLedger implements mail.LedgerStore.
func (s *Store) CheckLedger(ctx context.Context) (mail.LedgerCheck, error) {
	return s.checkLedger(ctx, mail.MaxCountedSends, true)
}

// CompareLedger is CheckLedger for who asks only whether the ledger adds up: where there are
// more rows than are counted, it returns no days, and needs no order of the rows.
func (s *Store) CompareLedger(ctx context.Context) (mail.LedgerCheck, error) {
	return s.checkLedger(ctx, mail.MaxCountedSends, false)
}

// checkLedger is CheckLedger of at most so many rows. The newest are asked for where there
// are more, by the totals: to read rows by an index takes longer than to read the table.
// Without days none are asked for.
func (s *Store) checkLedger(ctx context.Context, most int, days bool) (c mail.LedgerCheck, err error) {
	conn, err := s.reads.Conn(ctx)
	if err != nil {
		return c, err
	}
	defer discard(conn) // with its transaction
	for _, statement := range s.d.snapshot() {
		if _, err := conn.ExecContext(ctx, statement); err != nil {
			return c, err
		}
	}
	sums := make(map[sendTotal]*mail.LedgerSum)
	of := func(k sendTotal) *mail.LedgerSum {
		if sums[k] == nil {
			sums[k] = &mail.LedgerSum{Class: parseClass(k.class), State: parseState(k.state)}
		}
		return sums[k]
	}
	expected, counted := int64(0), int64(0) // rows, by the totals and in the table
	err = eachOf(ctx, s.d, conn, "SELECT class, state, count, removed FROM send_totals", nil, func(scan scanner) error {
		var k sendTotal
		var count, removed int64
		err := scan(&k.class, &k.state, &count, &removed)
		of(k).Total += count
		of(k).Removed += removed
		expected += count - removed
		return err
	})
	if err != nil {
		return c, err
	}
	const all, newest = "sends_by_day", "sends_newest_by_day"
	name := all
	if days && expected > int64(most) {
		name = newest
	}
	c.Days, err = s.sendDays(ctx, conn, name, most+1, func(k sendTotal, n int64) {
		counted += n
		of(k).Rows += n
	})
	c.Complete = counted <= int64(most)
	for _, k := range slices.SortedFunc(maps.Keys(sums), sendTotal.compare) {
		c.Sums = append(c.Sums, *sums[k])
	}
	switch {
	case err != nil || c.Complete || name == newest:
	case !days:
		c.Days = nil
	default: // the totals are wrong
		c.Days, err = s.sendDays(ctx, conn, newest, most+1, func(sendTotal, int64) {})
	}
	return c, err
}

// sendDays counts up to limit rows by day, newest first, and calls each with every count.
func (s *Store) sendDays(ctx context.Context, from rowsQuerier, name string, limit int, each func(k sendTotal, n int64)) ([]mail.LedgerDay, error) {
	statement := strings.NewReplacer("$DAY", s.d.dayOf("accepted"), "$LIMIT", strconv.Itoa(limit)).Replace(rawQuery(s.d, name))
	days, err := list(ctx, s.d, from, func(scan scanner, d *mail.LedgerDay) error {
		var k sendTotal
		err := scan(&d.Day, &k.class, &k.state, &d.Rows)
		each(k, d.Rows)
		d.Class, d.State = parseClass(k.class), parseState(k.state)
		return err
	}, statement)
	slices.SortFunc(days, func(a, b mail.LedgerDay) int {
		return cmp.Or(cmp.Compare(b.Day, a.Day), cmp.Compare(a.Class, b.Class), cmp.Compare(a.State, b.State))
	})
	return days, err
}
