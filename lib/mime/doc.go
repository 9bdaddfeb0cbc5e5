// Package mime builds mails, and checks those that other programs have built.
// It knows RFC 5322 with MIME (RFC 2045 to 2047, 2231) and addresses beyond
// ASCII (RFC 6531, 6532). It is pure: bytes in, bytes out.
//
// Whatever it returns has lines of at most 998 octets that end in CRLF, no CR
// or LF by itself, and no NUL. A character that could end a header from inside
// is refused with an *Error, never repaired: its sender is broken, or means
// harm. Such are CR, LF and NUL in a name, an address, a header's value or the
// name of a file.
package mime

import "fmt"

// Error says why something cannot be a part of a mail. Field is the part, as a
// caller would name it ("to[3]", "headers.X-Campaign"). Reason is what is wrong
// with it and what would be right. The part of a single address or header is
// not known here: its Field is empty.
type Error struct {
	Field  string
	Reason string
}

// Error returns the field, if it is known, and the reason.
func (e *Error) Error() string {
	if e.Field == "" {
		return e.Reason
	}
	return e.Field + ": " + e.Reason
}

// wrong returns an *Error.
func wrong(field, reason string, args ...any) error {
	return &Error{Field: field, Reason: fmt.Sprintf(reason, args...)}
}
