package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"maps"
	"slices"
	"strings"

	"sluice"
)

// maxCountedSends bounds the rows of sends that are counted for an examination.
const maxCountedSends = 1_000_000

// totalsRemedy makes the totals those of the rows.
const totalsRemedy = "stop every sluice; DELETE FROM send_totals; INSERT INTO send_totals (class, state, stripe, count, removed) SELECT class, state, 0, COUNT(*), 0 FROM sends GROUP BY class, state"

// ledger compares the totals of sends with their rows, both at one moment.
func (x *Examiner) ledger(ctx context.Context, e *sluice.Examination, s *Store) {
	totals, rows, err := s.compareSends(ctx)
	if err != nil {
		e.Unknown(fmt.Errorf("compare the totals of sends with their rows: %w", err), sluice.CheckLedger)
		return
	}
	keys := slices.Collect(maps.Keys(totals))
	for k := range rows {
		if _, ok := totals[k]; !ok {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, func(a, b sendTotal) int { return strings.Compare(a.class+" "+a.state, b.class+" "+b.state) })
	var wrong []string
	sum := int64(0)
	for _, k := range keys {
		sum += rows[k]
		if totals[k] != rows[k] {
			wrong = append(wrong, fmt.Sprintf("%s %s: %d by the totals, %d rows", k.class, k.state, totals[k], rows[k]))
		}
	}
	if len(wrong) > 0 {
		e.Fail(sluice.CheckLedger, totalsRemedy, "the totals of sends are not those of the rows (%s): were rows changed by hand?", strings.Join(wrong, "; "))
		return
	}
	e.Fine(sluice.CheckLedger, "the totals of sends are those of their %d rows", sum)
}

// compareSends returns how many sends are in each state by the totals, but for
// those that have no row any more, and by the rows.
func (s *Store) compareSends(ctx context.Context) (totals, rows map[sendTotal]int64, err error) {
	conn, err := s.reads.Conn(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer func() { // with its transaction
		_ = conn.Raw(func(any) error { return driver.ErrBadConn })
		_ = conn.Close()
	}()
	for _, statement := range s.d.snapshot() {
		if _, err := conn.ExecContext(ctx, statement); err != nil {
			return nil, nil, err
		}
	}
	totals, rows = make(map[sendTotal]int64), make(map[sendTotal]int64)
	sum := int64(0)
	err = eachTotal(ctx, conn, "SELECT class, state, count - removed FROM send_totals", func(k sendTotal, n int64) { totals[k] += n; sum += n })
	if err != nil {
		return nil, nil, err
	}
	if sum > maxCountedSends {
		return nil, nil, fmt.Errorf("there are %d sends, and no more than %d are counted for this", sum, maxCountedSends)
	}
	err = eachTotal(ctx, conn, "SELECT class, state, COUNT(*) FROM sends GROUP BY class, state", func(k sendTotal, n int64) { rows[k] = n })
	return totals, rows, err
}

func eachTotal(ctx context.Context, conn *sql.Conn, statement string, f func(k sendTotal, n int64)) error {
	rows, err := conn.QueryContext(ctx, statement)
	if err != nil {
		return err
	}
	return eachRow(rows, func(scan func(...any) error) error {
		var k sendTotal
		var n int64
		err := scan(&k.class, &k.state, &n)
		f(k, n)
		return err
	})
}
