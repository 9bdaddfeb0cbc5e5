package sqlstore

import (
	"context"
	"strings"

	"sluice/store"
)

var _ store.KeyStore = (*Store)(nil)

// AddKey stores a new key.
func (s *Store) AddKey(ctx context.Context, k store.APIKey) error {
	err := s.execSmall(ctx, "key_add", k.ID, k.Name, strings.Join(k.Permissions, ","), k.Hash, s.d.millis(k.CreatedMillis))
	return s.failed(err, "add key %s in", k.ID)
}

// APIKey returns one key.
func (s *Store) APIKey(ctx context.Context, id string) (store.APIKey, error) {
	return one(ctx, s, s.scanKey, notFound("there is no key %s", id), "key "+id, "key_get", id)
}

// APIKeys lists all keys, oldest first.
func (s *Store) APIKeys(ctx context.Context) ([]store.APIKey, error) {
	all, err := list(ctx, s.d, s.reads, s.scanKey, rawQuery(s.d, "key_list"))
	return all, s.failed(err, "list keys in")
}

func (s *Store) scanKey(scan scanner, k *store.APIKey) error {
	var permissions string
	err := scan(&k.ID, &k.Name, &permissions, &k.Hash, s.instant(&k.CreatedMillis), s.instant(&k.RevokedMillis))
	if permissions != "" {
		k.Permissions = strings.Split(permissions, ",")
	}
	return err
}

// RevokeKey revokes a key, for good.
func (s *Store) RevokeKey(ctx context.Context, id string) error {
	if _, err := s.APIKey(ctx, id); err != nil {
		return err
	}
	return s.failed(s.execSmall(ctx, "key_revoke", s.now(), id), "revoke key %s in", id)
}
