package mime

import (
	"encoding/base64"
	"strings"
	"unicode/utf8"
)

// Bodies travel in ASCII, whatever they say: SES and others do not offer
// 8BITMIME, and a server on the way that recodes breaks the signature.

// boundaryMark is in every boundary and in no encoded part: of quoted-printable
// each = is encoded, and base64 has no _ (RFC 2045, 6.7, 6.8). Text that goes out
// as it is does not contain it either, see isBare. So nothing that a recipient
// can write into a profile ends a part, even if the recipient knows the
// boundary from an earlier mail.
const boundaryMark = "=_"

// encoding of a part's body.
type encoding byte

const (
	bare encoding = iota // 7bit
	quoted
	base
)

// String returns the word of Content-Transfer-Encoding.
func (e encoding) String() string { return [...]string{"7bit", "quoted-printable", "base64"}[e] }

// encodingOf chooses for a text. It is sent as it is if that is possible.
// Otherwise it gets the shorter encoding, and quoted-printable as long as that
// is about the same.
func encodingOf(s string) encoding {
	escaped, ok := 0, true
	lineStart := 0
	for i := range len(s) {
		c := s[i]
		switch {
		case c == '\n' || c == '\r':
			ok = ok && i-lineStart <= MaxLineBytes
			lineStart = i + 1
		case c >= utf8.RuneSelf || c < ' ' && c != '\t' || c == 0x7f:
			escaped++
			ok = false
		case c == '=':
			escaped++
		}
	}
	switch {
	case ok && len(s)-lineStart <= MaxLineBytes && isBare(s):
		return bare
	case 6*escaped > len(s): // 3 octets each, beside 4/3 of everything
		return base
	}
	return quoted
}

// isBare reports whether a text of ASCII has nothing that needs hiding. It has
// no mark of a boundary, and no line that programs take for the beginning of
// another message.
func isBare(s string) bool {
	return !strings.Contains(s, boundaryMark) && !strings.HasPrefix(s, "From ") && !strings.Contains(s, "\nFrom ") && !strings.Contains(s, "\rFrom ")
}

// appendBody appends a text in an encoding.
func appendBody(b []byte, s string, e encoding) []byte {
	switch e {
	case bare:
		return appendLines(b, s)
	case quoted:
		return appendQuotedPrintable(b, s)
	}
	// RFC 2045, 6.8: ends of lines are CRLF before text is encoded.
	return appendBase64(b, appendLines(make([]byte, 0, len(s)+len(s)/16), s))
}

// qpLiteral are the characters that stand for themselves in quoted-printable
// inside a line (RFC 2045, 6.7).
var qpLiteral = func() (t [256]bool) {
	for c := ' '; c <= '~'; c++ {
		t[c] = c != '='
	}
	t['\t'] = true
	return t
}()

// appendQuotedPrintable appends a text in quoted-printable, with lines of at
// most 76 characters (RFC 2045, 6.7). A dot or "From " at the beginning of a
// line is encoded too, beyond what the RFC asks. Then neither a server that
// unstuffs wrongly nor a mailbox of the old sort can change a signed body.
func appendQuotedPrintable(b []byte, s string) []byte {
	return endQuoted(quotePiece(b, len(b), s, false))
}

// mostQuoted is how many characters a line has, and the = of a soft break.
const mostQuoted = 75

// quotePiece appends a piece of a text to a line that begins at start, and
// returns where the last one begins. exact: only CRLF ends a line, a CR or LF by
// itself is encoded.
func quotePiece(b []byte, start int, s string, exact bool) ([]byte, int) {
	const most = mostQuoted
	for i := 0; i < len(s); {
		c := s[i]
		crlfHere := c == '\r' && i+1 < len(s) && s[i+1] == '\n'
		if crlfHere || !exact && (c == '\r' || c == '\n') {
			b = endQuoted(b, start)
			i++
			if crlfHere {
				i++
			}
			b = append(b, crlf...)
			start = len(b)
			continue
		}
		room := most - (len(b) - start)
		begins := len(b) == start && (c == '.' || c == 'F' && strings.HasPrefix(s[i:], "From "))
		if !begins && qpLiteral[c] && room > 0 {
			n, end := 1, min(len(s)-i, room)
			for n < end && qpLiteral[s[i+n]] {
				n++
			}
			b = append(b, s[i:i+n]...)
			i += n
			continue
		}
		if room < 3 {
			b = append(b, "=\r\n"...)
			start = len(b)
			continue
		}
		b = append(b, '=', hexDigits[c>>4], hexDigits[c&15])
		i++
	}
	return b, start
}

// endQuoted encodes a space at the end of a line, which servers cut off.
func endQuoted(b []byte, start int) []byte {
	n := len(b)
	if n == start || b[n-1] != ' ' && b[n-1] != '\t' {
		return b
	}
	c := b[n-1]
	b = b[:n-1]
	if n-1-start > 72 {
		b = append(b, "=\r\n"...)
	}
	return append(b, '=', hexDigits[c>>4], hexDigits[c&15])
}

// appendBase64 appends octets in base64, in lines of 76 characters (RFC 2045,
// 6.8), without an end of the last one.
func appendBase64(b, data []byte) []byte {
	const line = 76 / 4 * 3
	for len(data) > line {
		b = append(base64.StdEncoding.AppendEncode(b, data[:line]), crlf...)
		data = data[line:]
	}
	return base64.StdEncoding.AppendEncode(b, data)
}

// clean returns a text as a body can have it. Bytes that are no UTF-8, and NUL,
// are shown as broken: they come from broken profiles more often than from
// senders.
func clean(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if strings.IndexByte(s, 0) >= 0 {
		s = strings.ReplaceAll(s, "\x00", "\uFFFD")
	}
	return s
}
