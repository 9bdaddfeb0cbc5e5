package sqlstore

import (
	"context"
	"fmt"

	"sluice"
)

// retentionSends is about how many sends are deleted in one transaction. All of a
// message go together.
const retentionSends = 2000

// retentionStripe is the stripe of totals that no follower writes, so that deleting
// never waits for a follower that counts.
const retentionStripe = sluice.MaxPartitions

// DeleteSends implements store.RetentionStore. The ids of messages begin with the
// time, so old sends are the first of the key: no index is needed for them. The
// state and the time are looked at all the same, since ids may be made by others.
func (s *Store) DeleteSends(ctx context.Context, afterMessage string, beforeMillis int64) (deleted int, next string, err error) {
	before, last := s.d.millis(beforeMillis), fmt.Sprintf("%012x", max(0, beforeMillis))
	err = s.each(ctx, rawQuery(s.d, "sends_nth"), []any{afterMessage, last, before, retentionSends - 1}, func(scan scanner) error {
		err := scan(&next)
		last = next
		return err
	})
	var totals []sendTotal // that have old sends; nearly always none, and the writer has others to serve
	if err == nil {
		totals, err = list(ctx, s.d, s.reads, func(scan scanner, k *sendTotal) error { return scan(&k.class, &k.state) }, rawQuery(s.d, "sends_old"), afterMessage, last, before)
	}
	if err == nil && len(totals) > 0 {
		err = s.write(ctx, func(tx *txn) error {
			deleted, err = tx.deleteSends(ctx, afterMessage, last, totals, before)
			return err
		})
	}
	return done(deleted, err), next, s.failed(err, "delete old sends of")
}

// deleteSends deletes by class and state, so that the server itself says how
// many of each there were. A row may change until it is locked.
func (t *txn) deleteSends(ctx context.Context, after, last string, totals []sendTotal, before any) (deleted int, err error) {
	removed := make(map[sendTotal]int64)
	for _, k := range totals {
		n, err := t.changed(ctx, "sends_delete", after, last, k.class, k.state, before)
		if err != nil {
			return 0, err
		}
		removed[k] = int64(n)
		deleted += n
	}
	return deleted, t.putSendTotals(ctx, nil, removed, retentionStripe)
}
