package braze

import (
	"context"
	"fmt"

	"sluice"
	"sluice/profile"
)

// person is a user who was read.
type person struct {
	row     sluice.UserRow
	profile *profile.Profile
}

// maxMergeSteps bounds following those who were merged into another.
const maxMergeSteps = 8

// find reads users by keys of any kind; those of a key are in the order of
// their ids. Who was merged into another is that one.
func (r *Request) find(ctx context.Context, keys []sluice.UserKey) (map[sluice.UserKey][]person, error) {
	store, err := r.users()
	if err != nil {
		return nil, err
	}
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
		return nil, unread(err)
	}
	if err := follow(ctx, store, a.Users); err != nil {
		return nil, unread(err)
	}
	found := make(map[sluice.UserKey][]person, len(keys))
	for _, k := range keys {
		if _, ok := found[k]; ok {
			continue
		}
		ids := a.ByKey[k]
		if id, ok := sluice.ParseUserID(k.Name); ok && k.Kind == sluice.KeyUser {
			ids = []sluice.UserID{id}
		}
		for _, id := range ids {
			row, ok := a.Users[id]
			for range maxMergeSteps {
				if !ok || row.MergedInto.IsZero() {
					break
				}
				row, ok = a.Users[row.MergedInto]
			}
			if !ok || !row.MergedInto.IsZero() {
				continue
			}
			p, err := profile.Parse(row.Profile)
			if err != nil {
				return nil, fmt.Errorf("user %s: %w", row.ID, err)
			}
			found[k] = append(found[k], person{row, p})
		}
	}
	return found, nil
}

// follow adds the users into whom others were merged.
func follow(ctx context.Context, store sluice.UserStore, users map[sluice.UserID]sluice.UserRow) error {
	for range maxMergeSteps {
		var more []sluice.UserID
		for _, row := range users {
			if _, there := users[row.MergedInto]; !there && !row.MergedInto.IsZero() {
				more = append(more, row.MergedInto)
			}
		}
		if len(more) == 0 {
			return nil
		}
		a, err := store.Users(ctx, sluice.UserQuery{IDs: more})
		if err != nil {
			return err
		}
		if len(a.Users) == 0 {
			return nil // they were erased
		}
		for id, row := range a.Users {
			users[id] = row
		}
	}
	return nil
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
