package sqlstore

import (
	"context"
	"database/sql"
	"errors"

	"sluice/store"
)

var _ store.SecretStore = (*Store)(nil)

// Secret implements store.SecretStore.
func (s *Store) Secret(ctx context.Context, name string, fresh []byte) ([]byte, error) {
	data, err := s.readSecret(ctx, name)
	if errors.Is(err, sql.ErrNoRows) {
		if err = s.execSmall(ctx, "secret_add", name, fresh, s.now()); err == nil { // another process may have been first
			data, err = s.readSecret(ctx, name)
		}
	}
	return data, s.failed(err, "read or make the secret %s in", name)
}

func (s *Store) readSecret(ctx context.Context, name string) (data []byte, err error) {
	err = s.reads.QueryRowContext(ctx, query(s.d, "secret_get"), name).Scan(&data)
	return data, err
}
