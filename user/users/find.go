package users

import (
	"context"
	"fmt"

	"sluice"
	"sluice/user/profile"
)

// Person is a user who was read.
type Person struct {
	Row     sluice.UserRow
	Profile *profile.Profile
}

// Find reads users by keys of any kind, in the order of their ids: who was merged into
// another is that one. shared are the keys, addresses, that more users have than are
// read.
func Find(ctx context.Context, store sluice.UserStore, keys []sluice.UserKey) (found map[sluice.UserKey][]Person, shared map[sluice.UserKey]bool, err error) {
	q := sluice.UserQuery{}
	ids := make(map[sluice.UserKey][]sluice.UserID)
	for _, k := range keys {
		if id, ok := sluice.ParseUserID(k.Name); ok && k.Kind == sluice.KeyUser {
			q.IDs, ids[k] = append(q.IDs, id), []sluice.UserID{id}
		} else {
			q.Keys = append(q.Keys, k)
		}
	}
	a, err := store.Users(ctx, q)
	if err != nil {
		return nil, nil, err
	}
	found = make(map[sluice.UserKey][]Person, len(keys))
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
