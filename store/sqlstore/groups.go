package sqlstore

import (
	"context"

	"sluice/store"
)

var _ store.GroupStore = (*Store)(nil)

// Groups implements store.GroupStore.
func (s *Store) Groups(ctx context.Context) ([]store.Group, error) {
	all, err := list(ctx, s.d, s.reads, s.scanGroup, rawQuery(s.d, "group_list"))
	return all, s.failed(err, "list subscription groups in")
}

func (s *Store) scanGroup(scan scanner, g *store.Group) error {
	var public int
	err := scan(&g.ID, &g.Name, &g.Description, &public, &g.Order, s.instant(&g.CreatedMillis), s.instant(&g.UpdatedMillis))
	g.Public = public != 0
	return err
}

// PutGroup implements store.GroupStore. They are counted beside other transactions, so
// the bound is a rough one.
func (s *Store) PutGroup(ctx context.Context, g store.Group) error {
	if err := g.Check(); err != nil {
		return err
	}
	public := 0
	if g.Public {
		public = 1
	}
	err := s.writeSmall(ctx, func(tx *txn) error {
		if err := tx.below(ctx, store.MaxGroups, "there are %d subscription groups, and no more are possible; delete one that is not needed", "group_others", g.ID); err != nil {
			return err
		}
		return tx.exec(ctx, "group_put", g.ID, g.Name, g.Description, public, g.Order, s.d.millis(g.CreatedMillis), s.d.millis(g.UpdatedMillis))
	})
	return s.failed(err, "write subscription group %.64q in", g.ID)
}

// DropGroup implements store.GroupStore.
func (s *Store) DropGroup(ctx context.Context, id string) error {
	err := s.writeSmall(ctx, func(tx *txn) error {
		n, err := tx.changed(ctx, "group_drop", id)
		if err == nil && n == 0 {
			err = notFound("there is no subscription group %.64q", id)
		}
		return err
	})
	return s.failed(err, "remove subscription group %.64q from", id)
}
