package braze

import (
	"context"
	"errors"

	"sluice"
	"sluice/user"
	"sluice/user/users"
)

// people are users by their keys, in the order of their ids. Of shared keys, which
// are addresses, there are more.
type people struct {
	by     map[user.Key][]users.Person
	shared map[user.Key]bool
}

// find reads users by keys of any kind. Who was merged into another is that one.
func (r *Request) find(ctx context.Context, keys []user.Key) (found people, err error) {
	found.by, found.shared, err = users.Find(ctx, r.Users, keys)
	return found, unreadUsers(err)
}

// unreadUsers is unread of an error of users.Find.
func unreadUsers(err error) error {
	if _, bad := errors.AsType[*users.UnreadableError](err); err == nil || bad {
		return err
	}
	return unread(err)
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

// TakenError is why a call has no answer although it was taken in: its caller is told not to
// send it again. Its text is for the log.
type TakenError struct{ err error }

// Error says why.
func (e *TakenError) Error() string { return e.err.Error() }

// Unwrap returns what the caller is told, and why.
func (e *TakenError) Unwrap() []error { return []error{errTaken, e.err} }

var errTaken = &sluice.Error{Code: sluice.CodeUnavailable, Index: -1,
	Message: "the object was taken in and will be applied, but the user as it is then could not be read within 10 s; do not send it again, export the user later"}

// personKey is the key of a user who was read.
func personKey(p users.Person) user.Key {
	return user.Key{Kind: user.KeyUser, Name: p.Row.ID.String()}
}
