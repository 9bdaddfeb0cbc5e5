package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"sluice"
)

var _ sluice.SegmentStore = (*Store)(nil)

// AddSegment implements sluice.SegmentStore.
func (s *Store) AddSegment(ctx context.Context, g sluice.Segment) error {
	return s.writeSegment(ctx, "add", g, func(tx *txn) error {
		var n int
		if err := tx.conn.QueryRowContext(ctx, query(s.d, "segment_count")).Scan(&n); err != nil {
			return err
		}
		if n >= sluice.MaxSegments {
			return &sluice.Error{Code: sluice.CodeInvalid, Index: -1, Message: fmt.Sprintf("there are %d segments, archived ones included, and no more are possible; change one that is not used", n)}
		}
		_, err := tx.exec(ctx, "segment_add", g.ID, g.Name, g.Definition, s.d.millis(g.CreatedMillis), s.d.millis(g.UpdatedMillis), s.archived(&g))
		return err
	})
}

// PutSegment implements sluice.SegmentStore.
func (s *Store) PutSegment(ctx context.Context, g sluice.Segment) error {
	if _, err := s.Segment(ctx, g.ID); err != nil {
		return err // none is ever removed, so it stays
	}
	return s.writeSegment(ctx, "write", g, func(tx *txn) error {
		_, err := tx.exec(ctx, "segment_put", g.Name, g.Definition, s.d.millis(g.UpdatedMillis), s.archived(&g), g.ID)
		return err
	})
}

// writeSegment makes sure that no other segment has the name. A caller that
// comes at the same time on another connection is refused by the table's key.
func (s *Store) writeSegment(ctx context.Context, what string, g sluice.Segment, write func(*txn) error) error {
	taken := &sluice.Error{Code: sluice.CodeInvalid, Index: -1, Message: fmt.Sprintf("another segment is called %.64q, perhaps an archived one; choose another name", g.Name)}
	err := s.writeSmall(ctx, func(tx *txn) error {
		var other string
		err := tx.conn.QueryRowContext(ctx, query(s.d, "segment_named"), g.Name, g.ID).Scan(&other)
		if err == nil {
			return taken
		}
		if !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		err = write(tx)
		if _, refused := s.d.refusal(err); refused {
			return errors.Join(taken, err)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("%s segment %s in %s: %w", what, g.ID, s.where, err)
	}
	return nil
}

// archived is the value of the column.
func (s *Store) archived(g *sluice.Segment) any {
	if g.ArchivedMillis == 0 {
		return nil
	}
	return s.d.millis(g.ArchivedMillis)
}

// Segment implements sluice.SegmentStore.
func (s *Store) Segment(ctx context.Context, id string) (sluice.Segment, error) {
	g, err := s.scanSegment(s.reads.QueryRowContext(ctx, query(s.d, "segment_get"), id).Scan)
	if errors.Is(err, sql.ErrNoRows) {
		return g, &sluice.Error{Code: sluice.CodeNotFound, Message: fmt.Sprintf("there is no segment %.64s", id), Index: -1}
	}
	if err != nil {
		return sluice.Segment{}, fmt.Errorf("read segment %s in %s: %w", id, s.where, err)
	}
	return g, nil
}

// Segments implements sluice.SegmentStore.
func (s *Store) Segments(ctx context.Context, q sluice.SegmentQuery) ([]sluice.Segment, error) {
	order := "ASC"
	if q.Newest {
		order = "DESC"
	}
	statement := strings.Replace(rawQuery(s.d, "segment_list"), "$ORDER", order, 1)
	var all []sluice.Segment
	err := s.each(ctx, statement, []any{q.After, b2i(q.Archived), q.Limit, q.Skip}, func(scan func(...any) error) error {
		g, err := s.scanSegment(scan)
		all = append(all, g)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list segments in %s: %w", s.where, err)
	}
	return all, nil
}

func (s *Store) scanSegment(scan func(...any) error) (g sluice.Segment, err error) {
	var times [3]any
	if err = scan(&g.ID, &g.Name, &g.Definition, &times[0], &times[1], &times[2]); err != nil {
		return g, err
	}
	for i, to := range []*int64{&g.CreatedMillis, &g.UpdatedMillis, &g.ArchivedMillis} {
		if times[i] == nil {
			continue // it is not archived
		}
		if *to, err = s.d.scanMillis(times[i]); err != nil {
			return g, err
		}
	}
	return g, nil
}
