package sluice

import (
	"errors"
	"fmt"
)

// Errors on which callers decide. They are wrapped with what was tried.
var (
	// ErrConflict: the cursor, lease or sequence was not where the caller
	// believed. Nothing was written. Somebody else did the work, or an earlier
	// attempt whose answer was lost did: read the cursor again.
	ErrConflict = errors.New("position moved by someone else")

	// ErrRefused: the store looked at the data and will never take it as it is.
	// Nothing was written. Apply it item by item, so that only the bad ones
	// become dead letters.
	ErrRefused = errors.New("data refused by the store")

	// ErrLeaseLost: another process holds the lease now. Stop at once.
	ErrLeaseLost = errors.New("lease lost")

	// ErrGap: a log no longer holds what lies between a follower's cursor and
	// its oldest entry. Reading on would lose it silently; an operator decides.
	ErrGap = errors.New("gap in the log")

	// ErrFull: Redis has reached its memory limit. Input is refused, draining
	// goes on; try again later.
	ErrFull = errors.New("redis is full")

	// ErrNewer: a newer program has written what this one does not read, or has
	// changed the schema so that this one cannot use it. What was written is left
	// alone; a process of the newer program goes on with it.
	ErrNewer = errors.New("a newer program has been here")
)

// Code names the kind of a failure for machines, in the API's error shape.
type Code string

// The codes of the /v1 error shape.
const (
	CodeInvalid      Code = "invalid"
	CodeUnauthorized Code = "unauthorized"
	CodeForbidden    Code = "forbidden"
	CodeNotFound     Code = "not_found"
	CodeConflict     Code = "conflict"
	CodeTooLarge     Code = "too_large"
	CodeTooFast      Code = "too_fast"
	CodeUnavailable  Code = "unavailable"
	CodeInternal     Code = "internal"
)

// Error is a refusal that a caller of Sluice sees: a code for machines, a
// message for people. Index is the item's place in the request, -1 for none.
type Error struct {
	Code    Code
	Message string
	Index   int
}

// Refuse makes the error of a request as a whole.
func Refuse(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...), Index: -1}
}

// IsNotFound reports whether an error says that there is no such thing.
func IsNotFound(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Code == CodeNotFound
}

// Refusals are why some items of a request are no good, an Error for each, in the
// order of the items. Nothing was done for any; without these it can be.
type Refusals []*Error

// Error tells the first of them, and how many there are.
func (r Refusals) Error() string {
	if len(r) == 1 {
		return r[0].Error()
	}
	return fmt.Sprintf("%d items are refused, the first: %v", len(r), r[0])
}

// Unwrap returns the first.
func (r Refusals) Unwrap() error { return r[0] }

// Error returns the message with its code.
func (e *Error) Error() string {
	if e.Index >= 0 {
		return fmt.Sprintf("%s: item %d: %s", e.Code, e.Index, e.Message)
	}
	return fmt.Sprintf("%s: %s", e.Code, e.Message)
}
