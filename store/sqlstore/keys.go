package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"sluice"
)

var _ sluice.KeyStore = (*Store)(nil)

// AddKey stores a new key.
func (s *Store) AddKey(ctx context.Context, k sluice.APIKey) error {
	err := s.writeSmall(ctx, func(tx *txn) error {
		_, err := tx.exec(ctx, "key_add", k.ID, k.Name, strings.Join(k.Permissions, ","), k.Hash, s.d.millis(k.CreatedMillis))
		return err
	})
	if err != nil {
		return fmt.Errorf("add key %s in %s: %w", k.ID, s.where, err)
	}
	return nil
}

// APIKey returns one key.
func (s *Store) APIKey(ctx context.Context, id string) (sluice.APIKey, error) {
	k, err := s.scanKey(s.reads.QueryRowContext(ctx, query(s.d, "key_get"), id).Scan)
	if errors.Is(err, sql.ErrNoRows) {
		return k, &sluice.Error{Code: sluice.CodeNotFound, Message: fmt.Sprintf("there is no key %s", id), Index: -1}
	}
	if err != nil {
		return sluice.APIKey{}, fmt.Errorf("read key %s in %s: %w", id, s.where, err)
	}
	return k, nil
}

// APIKeys lists all keys, oldest first.
func (s *Store) APIKeys(ctx context.Context) ([]sluice.APIKey, error) {
	rows, err := s.reads.QueryContext(ctx, query(s.d, "key_list"))
	if err != nil {
		return nil, fmt.Errorf("list keys in %s: %w", s.where, err)
	}
	defer rows.Close()
	var all []sluice.APIKey
	for rows.Next() {
		k, err := s.scanKey(rows.Scan)
		if err != nil {
			return nil, fmt.Errorf("list keys in %s: %w", s.where, err)
		}
		all = append(all, k)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("list keys in %s: %w", s.where, err)
	}
	return all, nil
}

func (s *Store) scanKey(scan func(...any) error) (k sluice.APIKey, err error) {
	var permissions string
	var created, revoked any
	if err = scan(&k.ID, &k.Name, &permissions, &k.Hash, &created, &revoked); err != nil {
		return k, err
	}
	if permissions != "" {
		k.Permissions = strings.Split(permissions, ",")
	}
	if k.CreatedMillis, err = s.d.scanMillis(created); err == nil && revoked != nil {
		k.RevokedMillis, err = s.d.scanMillis(revoked)
	}
	return k, err
}

// RevokeKey revokes a key, for good.
func (s *Store) RevokeKey(ctx context.Context, id string) error {
	if _, err := s.APIKey(ctx, id); err != nil {
		return err
	}
	err := s.writeSmall(ctx, func(tx *txn) error {
		_, err := tx.exec(ctx, "key_revoke", s.now(), id)
		return err
	})
	if err != nil {
		return fmt.Errorf("revoke key %s in %s: %w", id, s.where, err)
	}
	return nil
}
