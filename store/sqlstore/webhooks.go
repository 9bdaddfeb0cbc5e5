package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"slices"

	"sluice"
	"sluice/store"
)

var _ store.WebhookStore = (*Store)(nil)

// AddWebhook implements store.WebhookStore.
func (s *Store) AddWebhook(ctx context.Context, w store.Webhook, follower string) error {
	err := s.writeSmall(ctx, func(tx *txn) error {
		if err := tx.below(ctx, store.MaxWebhooks, "there are %d webhooks, and no more are possible; delete one that is not needed", "webhook_count"); err != nil {
			return err
		}
		types, err := json.Marshal(w.Types)
		if err == nil {
			err = tx.exec(ctx, "webhook_add", w.ID, w.URL, string(types), w.Format, w.Batch, w.Status, w.Reason, w.Revision, w.Secret, w.SecretMark,
				s.millisOrNull(w.RotatedMillis), s.millisOrNull(w.FailingMillis), s.d.millis(w.CreatedMillis), s.d.millis(w.UpdatedMillis))
		}
		if err != nil {
			return err
		}
		return tx.addLanes(ctx, w.ID, follower, func(part int, stored sluice.Position) sluice.Place { return store.EndOf(part, stored) })
	})
	return s.failed(err, "add webhook %s in", w.ID)
}

// addLanes begins the lanes of a webhook, each at a place that is made of a follower's
// cursor.
func (t *txn) addLanes(ctx context.Context, id, follower string, place func(part int, stored sluice.Position) sluice.Place) error {
	d := t.store.d
	type head struct {
		part int
		at   sluice.Position
	}
	heads, err := list(ctx, d, t.conn, func(scan scanner, h *head) error {
		return scan(&h.part, (*number)(&h.at.Major), (*number)(&h.at.Minor))
	}, rawQuery(d, "cursors_get"), follower)
	if err != nil || len(heads) == 0 {
		return err
	}
	var args []any
	for _, h := range heads {
		at := place(h.part, h.at)
		args = append(args, id, h.part, d.number(at.Position.Major), d.number(at.Position.Minor), at.Index, 0, 0, 0, 0, nil, nil)
	}
	columns := columnNames(standardTableOf("webhook_lanes").columns)
	_, err = d.insertRows(ctx, t, d.insertNew("webhook_lanes", columns), len(columns), args)
	return err
}

// Webhook implements store.WebhookStore.
func (s *Store) Webhook(ctx context.Context, id string) (store.Webhook, error) {
	return one(ctx, s, s.scanWebhook, noWebhook(id), "webhook "+id, "webhook_get", id)
}

// Webhooks implements store.WebhookStore.
func (s *Store) Webhooks(ctx context.Context) ([]store.Webhook, error) {
	all, err := list(ctx, s.d, s.reads, s.scanWebhook, rawQuery(s.d, "webhook_list"))
	return all, s.failed(err, "list webhooks in")
}

func (s *Store) scanWebhook(scan scanner, w *store.Webhook) error {
	var types string
	err := scan(&w.ID, &w.URL, &types, &w.Format, &w.Batch, &w.Status, &w.Reason, &w.Revision, &w.Secret, &w.SecretMark,
		s.instant(&w.RotatedMillis), s.instant(&w.FailingMillis), s.instant(&w.CreatedMillis), s.instant(&w.UpdatedMillis))
	if err != nil {
		return err
	}
	return json.Unmarshal([]byte(types), &w.Types)
}

// ChangeWebhook implements store.WebhookStore.
func (s *Store) ChangeWebhook(ctx context.Context, w store.Webhook) error {
	types, err := json.Marshal(w.Types)
	if err != nil {
		return err
	}
	err = s.writeSmall(ctx, func(tx *txn) error {
		return tx.oneChanged(ctx, "webhook_put", w.URL, string(types), w.Format, w.Batch, w.Status, w.Reason, w.Revision+1, w.Secret, w.SecretMark,
			s.millisOrNull(w.RotatedMillis), s.millisOrNull(w.FailingMillis), s.d.millis(w.UpdatedMillis), w.ID, w.Revision)
	})
	return s.failed(err, "write webhook %s in", w.ID)
}

// oneChanged runs a named statement that changes one row; ErrConflict: there is none.
func (t *txn) oneChanged(ctx context.Context, name string, args ...any) error {
	n, err := t.changed(ctx, name, args...)
	if err == nil && n != 1 {
		err = sluice.ErrConflict
	}
	return err
}

// StopWebhook implements store.WebhookStore.
func (s *Store) StopWebhook(ctx context.Context, w store.Webhook, status, reason string) error {
	err := s.writeSmall(ctx, func(tx *txn) error {
		return tx.oneChanged(ctx, "webhook_stop", status, s.d.text(reason), s.now(), w.ID, w.Revision)
	})
	return s.failed(err, "switch webhook %s off in", w.ID)
}

// DropWebhook implements store.WebhookStore.
func (s *Store) DropWebhook(ctx context.Context, id string) error {
	err := s.writeSmall(ctx, func(tx *txn) error {
		return tx.execEach(ctx, []string{"webhook_drop", "webhook_lanes_drop", "webhook_deliveries_drop"}, id)
	})
	return s.failed(err, "remove webhook %s from", id)
}

// WebhookLanes implements store.WebhookStore.
func (s *Store) WebhookLanes(ctx context.Context, id string) (map[int]store.WebhookLane, error) {
	all, err := list(ctx, s.d, s.reads, func(scan scanner, l *store.WebhookLane) error {
		l.Webhook = id
		at, to := &l.At, &l.To
		err := scan(&at.Partition, (*number)(&at.Position.Major), (*number)(&at.Position.Minor), &at.Index,
			(*number)(&to.Position.Major), (*number)(&to.Position.Minor), &to.Index, &l.Attempts, s.instant(&l.SinceMillis), s.instant(&l.DueMillis))
		if !to.Position.IsZero() {
			to.Partition = at.Partition
		}
		return err
	}, rawQuery(s.d, "webhook_lanes"), id)
	lanes := make(map[int]store.WebhookLane, len(all))
	for _, l := range all {
		lanes[l.At.Partition] = l
	}
	return lanes, s.failed(err, "read how far webhook %s is in", id)
}

// FillWebhookLanes implements store.WebhookStore.
func (s *Store) FillWebhookLanes(ctx context.Context, id, follower string) error {
	err := s.writeSmall(ctx, func(tx *txn) error {
		if err := tx.lockWebhook(ctx, id); err != nil {
			return err
		}
		return tx.addLanes(ctx, id, follower, func(part int, _ sluice.Position) sluice.Place { return sluice.Place{Partition: part} })
	})
	return s.failed(err, "begin lanes of webhook %s in", id)
}

// lockWebhook makes sure that a webhook is still there when this commits, or returns an
// *sluice.Error with CodeNotFound. Without it, lanes begun beside DropWebhook stay for ever.
func (t *txn) lockWebhook(ctx context.Context, id string) error {
	var revision int64
	err := t.conn.QueryRowContext(ctx, query(t.store.d, "webhook_stay"), id).Scan(&revision)
	if errors.Is(err, sql.ErrNoRows) {
		return noWebhook(id)
	}
	return err
}

func noWebhook(id string) error { return notFound("there is no webhook %.64q", id) }

// MoveWebhook implements store.WebhookStore.
func (s *Store) MoveWebhook(ctx context.Context, m store.WebhookMove) error {
	placed := func(p sluice.Place) []any {
		return []any{s.d.number(p.Position.Major), s.d.number(p.Position.Minor), p.Index}
	}
	from, to := &m.From, &m.To
	err := s.writeSmall(ctx, func(tx *txn) error {
		args := slices.Concat(placed(to.At), placed(to.To), []any{to.Attempts, s.millisOrNull(to.SinceMillis), s.millisOrNull(to.DueMillis), to.Webhook, to.At.Partition},
			placed(from.At), placed(from.To), []any{from.Attempts})
		if err := tx.oneChanged(ctx, "webhook_lane_put", args...); err != nil {
			return err
		}
		if m.Failing != nil {
			if err := tx.exec(ctx, "webhook_failing", s.millisOrNull(*m.Failing), to.Webhook); err != nil {
				return err
			}
		}
		return tx.noteDelivery(ctx, to.Webhook, m.Note)
	})
	return s.failed(err, "move webhook %s in", to.Webhook)
}

// noteDelivery keeps an attempt in its slot, in the place of an older one.
func (t *txn) noteDelivery(ctx context.Context, id string, n *store.WebhookDelivery) error {
	if n == nil {
		return nil
	}
	if err := t.exec(ctx, "webhook_delivery_drop", id, n.Slot); err != nil {
		return err
	}
	return t.exec(ctx, "webhook_delivery_add", id, n.Slot, n.Number, n.Message, t.store.d.millis(n.AtMillis), n.Partition, n.Events, n.Attempt, n.Outcome, n.Status, t.store.d.text(n.Error), n.TookMillis)
}

// RewindWebhook implements store.WebhookStore.
func (s *Store) RewindWebhook(ctx context.Context, id, follower string, sinceMillis int64) error {
	err := s.writeSmall(ctx, func(tx *txn) error {
		err := tx.lockWebhook(ctx, id)
		if err == nil {
			err = tx.exec(ctx, "webhook_lanes_drop", id)
		}
		if err != nil {
			return err
		}
		return tx.addLanes(ctx, id, follower, func(part int, stored sluice.Position) sluice.Place {
			if int64(stored.Major) < sinceMillis {
				return store.EndOf(part, stored)
			}
			return sluice.Place{Partition: part, Position: sluice.Position{Major: uint64(sinceMillis)}, Index: -1}
		})
	})
	return s.failed(err, "set webhook %s back in", id)
}

// WebhookDeliveries implements store.WebhookStore.
func (s *Store) WebhookDeliveries(ctx context.Context, id string, limit int) ([]store.WebhookDelivery, error) {
	all, err := list(ctx, s.d, s.reads, func(scan scanner, n *store.WebhookDelivery) error {
		return scan(&n.Slot, &n.Number, &n.Message, s.instant(&n.AtMillis), &n.Partition, &n.Events, &n.Attempt, &n.Outcome, &n.Status, &n.Error, &n.TookMillis)
	}, rawQuery(s.d, "webhook_deliveries"), id, limit)
	return all, s.failed(err, "list what was posted to webhook %s in", id)
}

// restoredWebhook is why webhooks are off behind a restore: this may be a copy, and the
// receivers may belong to the original.
const restoredWebhook = "a backup was restored: events since it was made that are still there are posted again; switch it on if the receiver is to get the events of this database"
