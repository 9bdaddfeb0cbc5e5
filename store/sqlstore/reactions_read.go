package sqlstore

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"sluice"
	"sluice/mail"
	"sluice/store"
)

var _ store.ReactionStore = (*Store)(nil)

// reactionColumns are the columns as a query has them: their names, and what stands for
// one that is not told apart.
var reactionColumns = map[store.ReactionColumn]struct{ name, none string }{
	store.ReactionHour: {"bucket", "MIN(bucket)"}, store.ReactionCampaign: {"campaign", "''"}, store.ReactionJourney: {"journey", "''"},
	store.ReactionStep: {"step", "''"}, store.ReactionVariant: {"variant", "''"}, store.ReactionLink: {"link", "0"},
}

// Reactions implements store.ReactionStore. Counts are added up over the stripes in any
// case, and told apart by kind and machine.
func (s *Store) Reactions(ctx context.Context, q store.ReactionQuery) ([]store.ReactionRow, error) {
	statement, args := s.reactionStatement(q)
	all, err := addUp(ctx, s, func(scan scanner, r *store.ReactionRow) error {
		var kind string
		var machine int
		err := scan(s.instant(&r.HourMillis), &r.Campaign, &r.Journey, &r.Step, &r.Variant, &r.Link, &kind, &machine, &r.Count, &r.Firsts, &r.HumanFirsts)
		r.Kind, _ = mail.ParseReactionKind(kind)
		r.Machine = machine != 0
		return err
	}, statement, args)
	return all, s.failed(err, "read counts of reactions from")
}

func (s *Store) reactionStatement(q store.ReactionQuery) (string, []any) {
	to := min(q.ToMillis, sluice.MaxEventTimeMillis) // as in seriesStatement
	where, args := []string{"bucket >= ?", "bucket < ?"}, []any{s.d.millis(q.FromMillis), s.d.millis(to)}
	var columns, group []string
	for _, column := range store.ReactionColumns {
		c, ok := reactionColumns[column]
		if !ok {
			continue
		}
		if value, ok := q.Only[column]; ok {
			where, args = append(where, c.name+" = ?"), append(args, s.reactionValue(column, value))
		}
		if !q.By[column] {
			columns = append(columns, c.none)
			continue
		}
		columns, group = append(columns, c.name), append(group, c.name)
	}
	by := strings.Join(append(group, "kind", "machine"), ", ")
	var sums []string
	for _, sum := range []string{"count", "firsts", "human_firsts"} {
		sums = append(sums, strings.ReplaceAll(s.d.sumCount(), "count", sum))
	}
	return "SELECT " + strings.Join(columns, ", ") + ", kind, machine, " + strings.Join(sums, ", ") + " FROM reactions WHERE " + strings.Join(where, " AND ") +
		" GROUP BY " + by + " ORDER BY " + by + fmt.Sprintf(" LIMIT %d", q.Limit), args
}

// reactionValue is a value to compare a column with. A link that is no number is none.
func (s *Store) reactionValue(column store.ReactionColumn, value string) any {
	if column != store.ReactionLink {
		return s.d.text(value)
	}
	n, err := strconv.Atoi(value)
	if err != nil {
		return -1
	}
	return n
}
