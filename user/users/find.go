package users

import (
	"context"
	"fmt"

	"sluice/user"
	"sluice/user/profile"
)

// Person is a user who was read.
type Person struct {
	Row     user.Row
	Profile *profile.Profile
}

// Find reads users by keys of any kind, in the order of their ids: who was merged into
// another is that one. shared are the keys, addresses, that more users have than are
// read.
func Find(ctx context.Context, store user.Store, keys []user.Key) (found map[user.Key][]Person, shared map[user.Key]bool, err error) {
	q := user.Query{}
	ids := make(map[user.Key][]user.ID)
	for _, k := range keys {
		if id, ok := user.ParseID(k.Name); ok && k.Kind == user.KeyUser {
			q.IDs, ids[k] = append(q.IDs, id), []user.ID{id}
		} else {
			q.Keys = append(q.Keys, k)
		}
	}
	a, err := store.Users(ctx, q)
	if err != nil {
		return nil, nil, err
	}
	found = make(map[user.Key][]Person, len(keys))
	for _, k := range keys {
		if _, ok := found[k]; ok {
			continue
		}
		for _, id := range append(ids[k], a.ByKey[k]...) {
			row, ok := a.Owner(id)
			if !ok {
				continue
			}
			p, err := profile.Parse(row.Profile)
			if err != nil {
				return nil, nil, &UnreadableError{fmt.Errorf("user %s: %w", row.ID, err)}
			}
			found[k] = append(found[k], Person{row, p})
		}
	}
	return found, a.Shared, nil
}

// UnreadableError is a profile that nobody can read: it is no use to ask again.
type UnreadableError struct{ error }

// Unwrap returns why.
func (e *UnreadableError) Unwrap() error { return e.error }
