package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strings"

	"sluice"
	"sluice/journey"
	"sluice/store"
	"sluice/user"
)

var _ store.MailHistory = (*Store)(nil)

// MailKnown implements store.MailHistory. The database answers each question of each
// person with a bit: however much mail somebody got, one row comes back.
func (s *Store) MailKnown(ctx context.Context, ids []user.ID, asked []store.MailAsked) (map[user.ID]uint64, error) {
	known := make(map[user.ID]uint64)
	if len(asked) > store.MaxMailQuestions {
		return nil, fmt.Errorf("answer %d questions about mail at once: at most %d", len(asked), store.MaxMailQuestions)
	}
	if len(ids) == 0 || len(asked) == 0 {
		return known, nil
	}
	var conditions []string
	var args []any
	for i := range asked {
		condition, values := s.mailCondition(&asked[i])
		conditions, args = append(conditions, condition), append(args, values...)
	}
	answers := ", MAX(CASE WHEN " + strings.Join(conditions, " THEN 1 ELSE 0 END), MAX(CASE WHEN ") + " THEN 1 ELSE 0 END)"
	statement := strings.NewReplacer("$ANSWERS", answers, "$ANY", "("+strings.Join(conditions, ") OR (")+")").Replace(rawQuery(s.d, "mail_known"))
	numbers := make(map[int][]any)
	for _, id := range ids {
		numbers[id.Partition] = append(numbers[id.Partition], id.Number)
	}
	for _, part := range slices.Sorted(maps.Keys(numbers)) {
		for piece := range slices.Chunk(numbers[part], store.MaxMailPeople) {
			values := slices.Concat(args, []any{part}, piece, args)
			err := s.each(ctx, named(statement, len(piece)), values, func(scan scanner) error {
				number, bits, err := scanInts(scan, len(asked))
				for i, bit := range bits {
					known[user.ID{Partition: part, Number: number}] |= uint64(bit) << i
				}
				return err
			})
			if err != nil {
				return nil, s.failed(err, "look what mail %d people got in", len(ids))
			}
		}
	}
	return known, nil
}

// scanInts reads a number and the numbers behind it.
func scanInts(scan scanner, n int) (first int64, rest []int64, err error) {
	rest = make([]int64, n)
	to := make([]any, 0, n+1)
	to = append(to, &first)
	for i := range rest {
		to = append(to, &rest[i])
	}
	return first, rest, scan(to...)
}

// mailCondition is a question about one send.
func (s *Store) mailCondition(a *store.MailAsked) (condition string, args []any) {
	var all []string
	add := func(condition string, values ...any) { all, args = append(all, condition), append(args, values...) }
	column := map[journey.MailEvent]string{journey.MailReceived: "updated", journey.MailOpened: "first_human_open", journey.MailClicked: "first_human_click"}[a.Event]
	if a.Event == journey.MailReceived {
		add("state = 'sent'")
	} else {
		add(column + " IS NOT NULL")
	}
	if a.SinceMillis > 0 {
		add(column+" >= ?", s.d.millis(a.SinceMillis))
	}
	if a.Of.Message != "" {
		add("message = ?", a.Of.Message)
	}
	if a.Of.Journey != "" {
		add("journey = ?", a.Of.Journey)
	}
	if a.Of.Step != "" {
		add("step = ?", a.Of.Step)
	}
	if a.Of.Tag != "" {
		add(s.d.hasTag(), a.Of.Tag)
	}
	return strings.Join(all, " AND "), args
}

// hasTag is a condition that a send has a tag: tags are separated by commas, and have
// none themselves.
func (*mysqlDialect) hasTag() string { return "FIND_IN_SET(?, tags) > 0" }
func (*sqliteDialect) hasTag() string {
	return "INSTR(',' || tags || ',', ',' || ? || ',') > 0"
}
func (*postgresDialect) hasTag() string { return "? = ANY(STRING_TO_ARRAY(tags, ','))" }

// MailCounts implements store.MailHistory. One statement sees one moment, of the counts
// and of the cursor. The cursor comes also where there is no mail.
func (s *Store) MailCounts(ctx context.Context, follower string, partition int, numbers []int64, counted []store.MailCounted) (counts map[int64][]int, applied sluice.Position, err error) {
	if len(numbers) > store.MaxMailPeople || len(counted) > store.MaxMailQuestions {
		return nil, applied, fmt.Errorf("count mail of %d people in %d ways at once: at most %d and %d", len(numbers), len(counted), store.MaxMailPeople, store.MaxMailQuestions)
	}
	numbers, counted = orOne(numbers), orOne(counted)
	var sums, names []string
	var args []any
	since := counted[0].SinceMillis
	for i := range counted {
		c := &counted[i]
		since = min(since, c.SinceMillis)
		condition := "accepted >= ?"
		args = append(args, s.d.millis(c.SinceMillis))
		if c.Tag != "" {
			condition += " AND " + s.d.hasTag()
			args = append(args, c.Tag)
		}
		if c.Class != 0 {
			condition += " AND class = ?"
			args = append(args, c.Class.String())
		}
		sums = append(sums, fmt.Sprintf("SUM(CASE WHEN %s THEN 1 ELSE 0 END) AS n%d", condition, i))
		names = append(names, fmt.Sprintf("m.n%d", i))
	}
	statement := strings.NewReplacer("$SUMS", strings.Join(sums, ", "), "$COUNTS", strings.Join(names, ", ")).Replace(named(rawQuery(s.d, "mail_counts"), len(numbers)))
	args = slices.Concat(args, []any{partition}, anys(numbers), []any{s.d.millis(since), follower, partition})
	counts = make(map[int64][]int)
	err = s.each(ctx, statement, args, func(scan scanner) error {
		var at [2]sql.Null[uint64]
		var number sql.NullInt64
		sums := make([]sql.NullInt64, len(counted))
		to := []any{(*nullNumber)(&at[0]), (*nullNumber)(&at[1]), &number}
		for i := range sums {
			to = append(to, &sums[i])
		}
		if err := scan(to...); err != nil {
			return err
		}
		applied = sluice.Position{Major: at[0].V, Minor: at[1].V}
		if number.Valid {
			all := make([]int, len(sums))
			for i := range sums {
				all[i] = int(sums[i].Int64)
			}
			counts[number.Int64] = all
		}
		return nil
	})
	if err != nil {
		return nil, applied, s.failed(err, "count the mail of %d people in", len(numbers))
	}
	return counts, applied, nil
}

// orOne returns a list, or one of a zero where it is empty: no user has the number 0.
func orOne[T any](list []T) []T {
	if len(list) == 0 {
		return make([]T, 1)
	}
	return list
}

// nullNumber is number for a value that may be NULL.
type nullNumber sql.Null[uint64]

// Scan implements sql.Scanner.
func (n *nullNumber) Scan(v any) error {
	if n.Valid = v != nil; !n.Valid {
		return nil
	}
	return (*number)(&n.V).Scan(v)
}
