package sqlstore

import (
	"context"
	"encoding/json"
	"fmt"

	"sluice"
	"sluice/mail"
)

var _ mail.StopStore = (*Store)(nil)

// stopsFollower is the cursor that says in which epoch of Redis what is stopped was kept.
// Its minor half counts how often: so each write changes it.
const stopsFollower = "stops"

// KeptStops implements mail.StopStore. The epoch is read first: what is kept meanwhile then
// counts as of an earlier one, and is compared once more.
func (s *Store) KeptStops(ctx context.Context) (names map[string]string, epoch uint64, err error) {
	at, err := s.readCursors(ctx, stopsFollower)
	if err == nil {
		err = s.each(ctx, rawQuery(s.d, "mail_stops"), nil, func(scan scanner) error {
			var text string
			if err := scan(&text); err != nil {
				return err
			}
			return json.Unmarshal([]byte(text), &names)
		})
	}
	return names, at[0].Major, s.failed(err, "read what mail is stopped from")
}

// KeepStops implements mail.StopStore.
func (s *Store) KeepStops(ctx context.Context, names map[string]string, epoch uint64) error {
	text, err := json.Marshal(names)
	if err == nil {
		err = s.writeSmall(ctx, func(tx *txn) error {
			if err := tx.enterEpoch(ctx, epoch); err != nil {
				return err
			}
			return tx.exec(ctx, "mail_stops_put", s.d.text(string(text)), s.now())
		})
	}
	return s.failed(err, "keep what mail is stopped in")
}

// enterEpoch notes that what is stopped is of an epoch of Redis, if none of a later one was
// kept.
func (t *txn) enterEpoch(ctx context.Context, epoch uint64) error {
	number := t.store.d.number(epoch)
	for range 2 {
		n, err := t.changed(ctx, "mail_stops_epoch", number, t.store.now(), stopsFollower, number)
		if err != nil || n > 0 {
			return err
		}
		if err := t.exec(ctx, "cursor_create", stopsFollower, 0, t.store.now()); err != nil {
			return err
		}
	}
	return fmt.Errorf("this redis has been replaced, and what is stopped on the one that counts is kept already: %w", sluice.ErrConflict)
}
