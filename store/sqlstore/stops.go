package sqlstore

import (
	"context"
	"encoding/json"

	"sluice/mail"
)

var _ mail.StopStore = (*Store)(nil)

// KeptStops implements mail.StopStore.
func (s *Store) KeptStops(ctx context.Context) (names map[string]string, err error) {
	err = s.each(ctx, rawQuery(s.d, "mail_stops"), nil, func(scan scanner) error {
		var text string
		if err := scan(&text); err != nil {
			return err
		}
		return json.Unmarshal([]byte(text), &names)
	})
	return names, s.failed(err, "read what mail is stopped from")
}

// KeepStops implements mail.StopStore.
func (s *Store) KeepStops(ctx context.Context, names map[string]string) error {
	text, err := json.Marshal(names)
	if err == nil {
		err = s.writeSmall(ctx, func(tx *txn) error { return tx.exec(ctx, "mail_stops_put", s.d.text(string(text)), s.now()) })
	}
	return s.failed(err, "keep what mail is stopped in")
}
