package braze

import (
	"context"
	"fmt"

	"sluice"
	"sluice/user/profile"
)

// person is a user who was read.
type person struct {
	row     sluice.UserRow
	profile *profile.Profile
}

// people are users by their keys, in the order of their ids. Of shared keys, which
// are addresses, there are more.
type people struct {
	by     map[sluice.UserKey][]person
	shared map[sluice.UserKey]bool
}

// find reads users by keys of any kind. Who was merged into another is that one.
func (r *Request) find(ctx context.Context, keys []sluice.UserKey) (found people, err error) {
	store, err := r.users()
	if err != nil {
		return found, err
	}
	return findIn(ctx, store, keys)
}

// findIn is find for who has a store and no call.
func findIn(ctx context.Context, store sluice.UserStore, keys []sluice.UserKey) (found people, err error) {
	q := sluice.UserQuery{}
	for _, k := range keys {
		if id, ok := sluice.ParseUserID(k.Name); ok && k.Kind == sluice.KeyUser {
			q.IDs = append(q.IDs, id)
		} else {
			q.Keys = append(q.Keys, k)
		}
	}
	a, err := store.Users(ctx, q)
	if err != nil {
		return found, unread(err)
	}
	found = people{make(map[sluice.UserKey][]person, len(keys)), a.Shared}
	for _, k := range keys {
		if _, ok := found.by[k]; ok {
			continue
		}
		ids := a.ByKey[k]
		if id, ok := sluice.ParseUserID(k.Name); ok && k.Kind == sluice.KeyUser {
			ids = []sluice.UserID{id}
		}
		for _, id := range ids {
			row, ok := a.Owner(id)
			if !ok {
				continue
			}
			p, err := profile.Parse(row.Profile)
			if err != nil {
				return found, fmt.Errorf("user %s: %w", row.ID, err)
			}
			found.by[k] = append(found.by[k], person{row, p})
		}
	}
	return found, nil
}

// UnreadError is that users or series could not be read. It is an *sluice.Error,
// by which the caller is told to ask again; its text is for the log.
type UnreadError struct{ err error }

func unread(err error) error { return &UnreadError{err} }

// Error says why.
func (e *UnreadError) Error() string { return e.err.Error() }

// Unwrap returns what the caller is told, and why.
func (e *UnreadError) Unwrap() []error { return []error{errUnread, e.err} }

var errUnread = &sluice.Error{Code: sluice.CodeUnavailable, Index: -1,
	Message: "the database does not answer, or not in time; nothing was done, send it again"}

// personKey is the key of a user who was read.
func personKey(p person) sluice.UserKey {
	return sluice.UserKey{Kind: sluice.KeyUser, Name: p.row.ID.String()}
}
