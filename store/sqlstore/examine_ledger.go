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
	c, err := s.CheckLedger(ctx)
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
func (s *Store) CheckLedger(ctx context.Context) (c mail.LedgerCheck, err error) {
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
	err = eachOf(ctx, s.d, conn, "SELECT class, state, count, removed FROM send_totals", nil, func(scan scanner) error {
		var k sendTotal
		var count, removed int64
		err := scan(&k.class, &k.state, &count, &removed)
		of(k).Total += count
		of(k).Removed += removed
		return err
	})
	if err != nil {
		return c, err
	}
	statement := strings.NewReplacer("$DAY", s.d.dayOf("accepted"), "$LIMIT", strconv.Itoa(mail.MaxCountedSends+1)).Replace(rawQuery(s.d, "sends_by_day"))
	counted := int64(0)
	err = eachOf(ctx, s.d, conn, statement, nil, func(scan scanner) error {
		var day, n int64
		var k sendTotal
		err := scan(&day, &k.class, &k.state, &n)
		counted += n
		of(k).Rows += n
		c.Days = append(c.Days, mail.LedgerDay{Day: day, Class: parseClass(k.class), State: parseState(k.state), Rows: n})
		return err
	})
	c.Complete = counted <= mail.MaxCountedSends
	for _, k := range slices.SortedFunc(maps.Keys(sums), sendTotal.compare) {
		c.Sums = append(c.Sums, *sums[k])
	}
	slices.SortFunc(c.Days, func(a, b mail.LedgerDay) int {
		return cmp.Or(cmp.Compare(b.Day, a.Day), cmp.Compare(a.Class, b.Class), cmp.Compare(a.State, b.State))
	})
	return c, err
}
