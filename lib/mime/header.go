package mime

import (
	"encoding/base64"
	"errors"
	"strings"
	"unicode/utf8"
)

// Lengths of lines, without their CRLF.
const (
	// MaxLineBytes is the longest line there may be (RFC 5322, 2.1.1).
	MaxLineBytes = 998

	// foldBytes is where headers are folded (RFC 5322, 2.1.1: should be 78), if
	// there is a place to. codedBytes is the same for lines with encoded words
	// (RFC 2047, 2), each of which has wordBytes at most.
	foldBytes  = 78
	codedBytes = 76
	wordBytes  = 75

	// MaxValueBytes bounds the value of one header that a caller gives.
	MaxValueBytes = 64 << 10
)

const crlf = "\r\n"

// Header is one header of a mail, its value neither folded nor encoded.
type Header struct {
	Name, Value string
}

var errControl = errors.New("has a line break or another control character: that is not possible in a header")

// checkText says what is wrong with a text that ends up in a header.
func checkText(s string) error {
	for i, r := range s {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], "\uFFFD"):
			return errors.New("is no UTF-8")
		case isControl(r):
			return errControl
		}
	}
	return nil
}

// isControl reports whether a character is impossible in a header: a CR, LF or NUL in a
// value could end its header and begin another. So are C1 and Unicode's own line breaks.
func isControl(r rune) bool {
	return r < ' ' && r != '\t' || r >= 0x7f && r < 0xa0 || r == '\u2028' || r == '\u2029'
}

// OneLine returns a text as it can be in a header: tabs, line breaks and control
// characters become spaces, and those at its ends go.
func OneLine(text string) string {
	text = strings.Map(func(r rune) rune {
		if r == '\t' || isControl(r) {
			return ' '
		}
		return r
	}, text)
	return strings.Trim(text, " ")
}

// line writes one header, folded: b is what there is, start where its last line
// begins.
type line struct {
	b     []byte
	start int
}

func newLine(b []byte, name string) line {
	l := line{b: b, start: len(b)}
	l.b = append(append(l.b, name...), ':')
	return l
}

// fold begins another line.
func (l *line) fold() {
	l.b = append(l.b, crlf...)
	l.start = len(l.b)
}

// token writes what must not be cut, behind a space or a fold.
func (l *line) token(s string) {
	if len(l.b)-l.start+1+len(s) > foldBytes {
		l.fold()
	}
	l.b = append(append(l.b, ' '), s...)
}

// end ends the header and returns everything.
func (l *line) end() []byte { return append(l.b, crlf...) }

// appendText appends a header whose value is any text: as it is if it can be,
// and in encoded words if not. A text is folded at its spaces, so unfolding it
// (RFC 5322, 2.2.3) brings back exactly what it was.
func appendText(b []byte, name, value string) []byte {
	value = strings.Trim(value, " \t")
	l := newLine(b, name)
	if !isPlain(value) {
		l.words(value, " ")
		return l.end()
	}
	for value != "" {
		// A run of spaces and the word behind it.
		n := len(value) - len(strings.TrimLeft(value, " \t"))
		end := strings.IndexAny(value[n:], " \t")
		if end < 0 {
			end = len(value) - n
		}
		part := value[:n+end]
		value = value[n+end:]
		if n == 0 { // never folded: some read such a fold as a space
			l.b = append(append(l.b, ' '), part...)
			continue
		}
		if len(l.b)-l.start+len(part) > foldBytes {
			l.fold()
		}
		l.b = append(l.b, part...)
	}
	return l.end()
}

// isPlain reports whether a text may stand in a header as it is: ASCII, nothing
// that looks like an encoded word, and spaces often enough.
func isPlain(s string) bool {
	word, spaces := 0, 0 // how long the word is, and the run of spaces before it
	for i := range len(s) {
		switch c := s[i]; {
		case c == ' ' || c == '\t':
			if word > 0 {
				word, spaces = 0, 0
			}
			spaces++
		case c < ' ' || c > '~' || c == '=' && strings.HasPrefix(s[i:], "=?"):
			return false
		default:
			word++
		}
		if word+spaces > MaxLineBytes-foldBytes || spaces > foldBytes {
			return false
		}
	}
	return true
}

// qLiteral are the characters that stand for themselves in the encoding Q, also
// inside a phrase (RFC 2047, 5).
var qLiteral = func() (t [256]bool) {
	for _, c := range []byte("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789!*+-/") {
		t[c] = true
	}
	return t
}()

const hexDigits = "0123456789ABCDEF"

// qLength is how long a text is in the encoding Q.
func qLength(s string) (n int) {
	for i := range len(s) {
		if n++; !qLiteral[s[i]] && s[i] != ' ' {
			n += 2
		}
	}
	return n
}

// words writes a text as encoded words (RFC 2047), in the shorter of the two
// encodings, behind a space or nothing. No character is cut in two (5), which
// readers would show broken.
func (l *line) words(s, before string) {
	const frame = len("=?utf-8?q?") + len("?=")
	q := qLength(s) <= base64.StdEncoding.EncodedLen(len(s))
	for s != "" {
		room := min(wordBytes, codedBytes-(len(l.b)-l.start)-1) - frame
		if room < 24 { // a few characters of any sort
			l.fold()
			room = min(wordBytes, codedBytes-1) - frame
		}
		l.b = append(l.b, before...)
		before = " "
		n := 0
		for n < len(s) {
			_, size := utf8.DecodeRuneInString(s[n:])
			cost := base64.StdEncoding.EncodedLen(n + size)
			if q {
				cost = qLength(s[:n+size])
			}
			if cost > room {
				break
			}
			n += size
		}
		if q {
			l.b = appendQ(append(l.b, "=?utf-8?q?"...), s[:n])
		} else {
			l.b = base64.StdEncoding.AppendEncode(append(l.b, "=?utf-8?b?"...), []byte(s[:n]))
		}
		l.b = append(l.b, "?="...)
		s = s[n:]
	}
}

func appendQ(b []byte, s string) []byte {
	for i := range len(s) {
		switch c := s[i]; {
		case qLiteral[c]:
			b = append(b, c)
		case c == ' ':
			b = append(b, '_')
		default:
			b = append(b, '=', hexDigits[c>>4], hexDigits[c&15])
		}
	}
	return b
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

// appendMailboxes appends a header with addresses, or nothing if there are none.
func appendMailboxes(b []byte, name string, all []Mailbox) []byte {
	if len(all) == 0 {
		return b
	}
	l := newLine(b, name)
	var room [MaxAddressBytes + 3]byte
	for i := range all {
		m := &all[i]
		l.name(m.Name)
		spec := room[:0]
		if m.Name == "" {
			spec = m.append(spec)
		} else {
			spec = append(m.append(append(spec, '<')), '>')
		}
		if i < len(all)-1 {
			spec = append(spec, ',')
		}
		l.token(string(spec))
	}
	return l.end()
}

// name writes a display name: a phrase (RFC 5322, 3.2.5).
func (l *line) name(s string) {
	const longestQuoted = 50
	atoms, ascii := s != "", isPlain(s)
	for i := range len(s) {
		atoms = atoms && (s[i] == ' ' || s[i] != '.' && isAtom(rune(s[i])))
	}
	switch {
	case s == "":
	case ascii && atoms && strings.Join(strings.Fields(s), " ") == s:
		for word := range strings.SplitSeq(s, " ") {
			l.token(word)
		}
	case ascii && len(s) <= longestQuoted:
		l.token(string(appendQuoted(nil, s)))
	default:
		l.words(s, " ")
	}
}

// ours are the headers that only this program and servers on the way set, in
// lower case. Some are made of other fields, and servers write the others.
var ours = map[string]bool{
	"from": true, "sender": true, "to": true, "cc": true, "bcc": true, "reply-to": true, "subject": true, "date": true,
	"message-id": true, "mime-version": true, "return-path": true, "received": true, "delivered-to": true,
	"dkim-signature": true, "domainkey-signature": true, "authentication-results": true, "received-spf": true,
}

// oursBefore are what such headers begin with.
var oursBefore = []string{"content-", "resent-", "arc-", "x-sluice-"}

// CheckHeader says what is wrong with a header that a caller wants to add.
func CheckHeader(h Header) error {
	field := "headers." + clip(h.Name)
	if !isFieldName(h.Name) {
		return wrong("headers", "%q is no name of a header, want letters, digits and hyphens", clip(h.Name))
	}
	lower := strings.ToLower(h.Name)
	refused := ours[lower]
	for _, prefix := range oursBefore {
		refused = refused || strings.HasPrefix(lower, prefix)
	}
	if refused {
		return wrong(field, "this header is made from other fields, or set by servers on the way; leave it out")
	}
	if len(h.Value) > MaxValueBytes {
		return wrong(field, "has %d octets, at most %d are possible", len(h.Value), MaxValueBytes)
	}
	if err := checkText(h.Value); err != nil {
		return wrong(field, "%s", err)
	}
	if strings.Trim(h.Value, " \t") == "" {
		return wrong(field, "is empty")
	}
	return nil
}

// isFieldName reports whether a text can be a header's name. RFC 5322, 2.2
// allows any visible character but the colon; servers on the way do not.
func isFieldName(s string) bool {
	if s == "" || len(s) > 76 {
		return false
	}
	for i := range len(s) {
		if c := s[i]; (c|0x20 < 'a' || c|0x20 > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' {
			return false
		}
	}
	return true
}

// AppendUnsubscribe appends the headers by which programs unsubscribe a reader
// with one click: one https URI and List-Unsubscribe-Post (RFC 2369, 3.2; RFC
// 8058, 3.1). page is an https URL that takes the POST, mailto an address as
// the other way, or empty. They are of use only where DKIM signs both, and dkim
// does.
func AppendUnsubscribe(b []byte, page, mailto string) ([]byte, error) {
	if !strings.HasPrefix(page, "https://") || !isURL(page) {
		return b, wrong("unsubscribe", "%q is not possible here, want an https URL of at most %d visible ASCII characters", clip(page), MaxLineBytes-foldBytes)
	}
	l := newLine(b, "List-Unsubscribe")
	if mailto == "" {
		l.token("<" + page + ">")
	} else {
		if !isURL(mailto) {
			return b, wrong("unsubscribe", "%q is no address for a mailto", clip(mailto))
		}
		l.token("<" + page + ">,")
		l.token("<mailto:" + mailto + ">")
	}
	return append(l.end(), "List-Unsubscribe-Post: List-Unsubscribe=One-Click\r\n"...), nil
}

// isURL reports whether a text can stand between the brackets of a header.
func isURL(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' || s[i] == '<' || s[i] == '>' {
			return false
		}
	}
	return len(s) <= MaxLineBytes-foldBytes
}
