package mime

import (
	"errors"
	"strings"
	"unicode/utf8"
)

// Lengths of lines, without their CRLF.
const (
	// MaxLineBytes is the longest line there may be (RFC 5322, 2.1.1).
	MaxLineBytes = 998

	// foldBytes is where headers are folded (RFC 5322, 2.1.1: should be 78).
	foldBytes = 78
)

const crlf = "\r\n"

// Header is one header of a mail, its value neither folded nor encoded.
type Header struct {
	Name, Value string
}

// errControl: R4.
var errControl = errors.New("has a line break or another control character: that is not possible in a header")

// checkText says what is wrong with a text that ends up in a header.
func checkText(s string) error {
	ascii := true
	for i := range len(s) {
		c := s[i]
		if c < ' ' && c != '\t' || c == 0x7f {
			return errControl
		}
		ascii = ascii && c < utf8.RuneSelf
	}
	if ascii {
		return nil
	}
	for i, r := range s {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], "\uFFFD"):
			return errors.New("is no UTF-8")
		case r >= 0x80 && r < 0xa0 || r == '\u2028' || r == '\u2029': // C1, and Unicode's own line breaks
			return errControl
		}
	}
	return nil
}

// appendQuoted appends a quoted-string (RFC 5322, 3.2.4).
func appendQuoted(b []byte, s string) []byte {
	b = append(b, '"')
	for i := range len(s) {
		if s[i] == '"' || s[i] == '\\' {
			b = append(b, '\\')
		}
		b = append(b, s[i])
	}
	return append(b, '"')
}
