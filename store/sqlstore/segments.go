package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"strings"

	"sluice/user"
)

var _ user.SegmentStore = (*Store)(nil)

// AddSegment implements user.SegmentStore.
func (s *Store) AddSegment(ctx context.Context, g user.Segment) error {
	return s.writeSegment(ctx, "add", g, func(tx *txn) error {
		if err := tx.below(ctx, user.MaxSegments, "there are %d segments, archived ones included, and no more are possible; change one that is not used", "segment_count"); err != nil {
			return err
		}
		return tx.exec(ctx, "segment_add", g.ID, g.Name, g.Definition, s.d.millis(g.CreatedMillis), s.d.millis(g.UpdatedMillis), s.millisOrNull(g.ArchivedMillis))
	})
}

// PutSegment implements user.SegmentStore.
func (s *Store) PutSegment(ctx context.Context, g user.Segment) error {
	if _, err := s.Segment(ctx, g.ID); err != nil {
		return err // none is ever removed, so it stays
	}
	return s.writeSegment(ctx, "write", g, func(tx *txn) error {
		return tx.exec(ctx, "segment_put", g.Name, g.Definition, s.d.millis(g.UpdatedMillis), s.millisOrNull(g.ArchivedMillis), g.ID)
	})
}

// writeSegment makes sure that no other segment has the name. A caller that
// comes at the same time on another connection is refused by the table's key.
func (s *Store) writeSegment(ctx context.Context, what string, g user.Segment, write func(*txn) error) error {
	taken := invalid("another segment is called %.64q, perhaps an archived one; choose another name", g.Name)
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
	return s.failed(err, "%s segment %s in", what, g.ID)
}

// Segment implements user.SegmentStore.
func (s *Store) Segment(ctx context.Context, id string) (user.Segment, error) {
	return one(ctx, s, s.scanSegment, notFound("there is no segment %.64s", id), "segment "+id, "segment_get", id)
}

// Segments implements user.SegmentStore.
func (s *Store) Segments(ctx context.Context, q user.SegmentQuery) ([]user.Segment, error) {
	order := "ASC"
	if q.Newest {
		order = "DESC"
	}
	statement := strings.Replace(rawQuery(s.d, "segment_list"), "$ORDER", order, 1)
	all, err := list(ctx, s.d, s.reads, s.scanSegment, statement, q.After, b2i(q.Archived), q.Limit, q.Skip)
	return all, s.failed(err, "list segments in")
}

func (s *Store) scanSegment(scan scanner, g *user.Segment) error {
	return scan(&g.ID, &g.Name, &g.Definition, s.instant(&g.CreatedMillis), s.instant(&g.UpdatedMillis), s.instant(&g.ArchivedMillis))
}
