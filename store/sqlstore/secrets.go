package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"sluice"
)

var _ sluice.SecretStore = (*Store)(nil)

// Secret implements sluice.SecretStore.
func (s *Store) Secret(ctx context.Context, name string, fresh []byte) ([]byte, error) {
	data, err := s.readSecret(ctx, name)
	if errors.Is(err, sql.ErrNoRows) {
		err = s.writeSmall(ctx, func(tx *txn) error {
			_, err := tx.exec(ctx, "secret_add", name, fresh, s.now())
			return err
		})
		if err == nil { // another process may have been first
			data, err = s.readSecret(ctx, name)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read or make the secret %s in %s: %w", name, s.where, err)
	}
	return data, nil
}

func (s *Store) readSecret(ctx context.Context, name string) (data []byte, err error) {
	err = s.reads.QueryRowContext(ctx, query(s.d, "secret_get"), name).Scan(&data)
	return data, err
}
