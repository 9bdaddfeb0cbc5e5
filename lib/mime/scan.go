package mime

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"sluice"
)

// Scan makes a message that can go out of one that was submitted, or says why
// it cannot. Careless writing is put right: ends of lines in the body, a
// missing Date or Message-ID, a Bcc that would tell everybody. Text that
// another server might read differently is refused: NUL, a CR or LF by itself
// in the headers, lines that are too long. So is a header twice that may be
// there once. A body with long lines is not folded: that would break its
// signature, and HTML as well. The body's parts are not looked into.
//
// Most messages need nothing but what is prepended, so the body is looked at
// with the fast functions of package bytes and copied once.

// MaxHeaderBytes bounds the headers of a submitted message together.
const MaxHeaderBytes = 256 << 10

// controlPrefix begins the headers by which a submitter says how to send a
// mail; they do not go out.
const controlPrefix = "x-sluice-"

// Scanned is a submitted message, as it goes out.
type Scanned struct {
	Message  []byte // lines end in CRLF
	ID       string // what its Message-ID has between its brackets
	EightBit bool   // it has octets above 127 in its body (RFC 6152)
	UTF8     bool   // it has them in its headers (RFC 6531)

	// Control are the X-Sluice-* headers that it had, unfolded, in their order.
	Control []Header
}

// Scan checks a message. It gets id (without brackets, as ID@DOMAIN) and now if
// it has no Message-ID and no Date. raw is not changed. Errors are *Error, the
// field "message" or a header ("headers.Subject").
func Scan(raw []byte, id string, now time.Time) (*Scanned, error) {
	return ScanBehind(nil, raw, id, now)
}

// ScanBehind is Scan for a message that goes out behind other headers. They are
// the trace of the server that took it in (RFC 5321, 4.4), and their lines end
// in CRLF.
func ScanBehind(trace, raw []byte, id string, now time.Time) (*Scanned, error) {
	if len(raw) > sluice.MaxMessageBytes {
		return nil, wrong("message", "has %d octets, at most %d are possible", len(raw), sluice.MaxMessageBytes)
	}
	if i := bytes.IndexByte(raw, 0); i >= 0 {
		return nil, wrong("message", "has a NUL, in line %d: encode binary content (base64)", lineOf(raw, i))
	}
	head, body := cutHead(raw)
	s := &scanner{Scanned: Scanned{EightBit: !IsASCIIBytes(body)}}
	s.Message = append(make([]byte, 0, len(trace)+len(raw)+512), trace...)
	if err := s.fields(head); err != nil {
		return nil, err
	}
	if !s.has("from") {
		return nil, wrong("headers.From", "is missing: each message needs one (RFC 5322, 3.6)")
	}
	if !s.has("date") {
		s.Message = appendDate(s.Message, now)
	}
	if !s.has("message-id") {
		if err := CheckID(id); err != nil {
			return nil, err
		}
		s.ID = id
		s.Message = appendID(s.Message, id)
	}
	s.Message = append(s.Message, crlf...)
	if err := s.body(body, bytes.Count(head, []byte{'\n'})+2); err != nil {
		return nil, err
	}
	if len(s.Message) > sluice.MaxMessageBytes {
		return nil, wrong("message", "has %d octets as it would go out, at most %d are possible", len(s.Message), sluice.MaxMessageBytes)
	}
	return &s.Scanned, nil
}

// cutHead cuts a message into its headers, with the end of the last, and its
// body. The empty line between them belongs to neither.
func cutHead(raw []byte) (head, body []byte) {
	for at := 0; at < len(raw); {
		end := bytes.IndexByte(raw[at:], '\n')
		if end < 0 {
			break
		}
		if end == 0 || end == 1 && raw[at] == '\r' {
			return raw[:at], raw[at+end+1:]
		}
		at += end + 1
	}
	return raw, nil
}

// once are the headers that may be there once (RFC 5322, 3.6; RFC 2045, 3), in
// lower case, each with its bit in scanner.seen.
var once = func() map[string]uint {
	m := make(map[string]uint)
	for i, name := range [...]string{"from", "sender", "reply-to", "to", "cc", "bcc", "subject", "date", "message-id",
		"in-reply-to", "references", "mime-version", "content-type", "content-transfer-encoding"} {
		m[name] = 1 << i
	}
	return m
}()

type scanner struct {
	Scanned
	seen uint // bits of once
}

func (s *scanner) has(name string) bool { return s.seen&once[name] != 0 }

// fields takes over the headers that go out. Their lines all end in CRLF or all
// in LF: where both occur, foreign text has come into a header.
func (s *scanner) fields(head []byte) error {
	if len(head) > MaxHeaderBytes {
		return wrong("headers", "have %d octets together, at most %d are possible", len(head), MaxHeaderBytes)
	}
	if len(head) > 0 && head[len(head)-1] != '\n' { // there is no body
		head = slices.Concat(bytes.TrimSuffix(head, []byte{'\r'}), []byte(endOf(head)))
	}
	if crs, lfs, both := bytes.Count(head, []byte{'\r'}), bytes.Count(head, []byte{'\n'}), bytes.Count(head, []byte(crlf)); crs != both || both != 0 && both != lfs {
		return wrong("headers", "have a CR or LF by itself: lines end in CRLF")
	}
	for number := 1; len(head) > 0; {
		field, lines := cutField(head)
		if err := s.field(field, number); err != nil {
			return err
		}
		head = head[len(field):]
		number += lines
	}
	return nil
}

// endOf returns how the lines of headers end.
func endOf(head []byte) string {
	if i := bytes.IndexByte(head, '\n'); i > 0 && head[i-1] == '\r' || i < 0 {
		return crlf
	}
	return "\n"
}

// cutField returns the first header with all its lines.
func cutField(head []byte) (field []byte, lines int) {
	at := 0
	for {
		end := bytes.IndexByte(head[at:], '\n')
		if end < 0 {
			return head, lines + 1
		}
		at += end + 1
		lines++
		if at == len(head) || head[at] != ' ' && head[at] != '\t' {
			return head[:at], lines
		}
	}
}

// HasField reports whether a message that is ready to go has a header of a name.
func HasField(message []byte, name string) bool {
	_, ok := fieldOf(message, name)
	return ok
}

// fieldOf returns the value, as it is folded, of the first header of a name that
// a message has which is ready to go.
func fieldOf(message []byte, name string) (value []byte, ok bool) {
	head, _ := cutHead(message)
	for len(head) > 0 {
		field, _ := cutField(head)
		if colon := bytes.IndexByte(field, ':'); colon >= 0 && bytes.EqualFold(bytes.TrimRight(field[:colon], " \t"), []byte(name)) {
			return field[colon+1:], true
		}
		head = head[max(len(field), 1):] // what has no end is no header
	}
	return nil, false
}

// field takes over one header.
func (s *scanner) field(field []byte, number int) error {
	colon := bytes.IndexByte(field, ':')
	if colon < 0 {
		return wrong("message", "line %d is no header, and no empty line was before it", number)
	}
	name := bytes.TrimRight(field[:colon], " \t") // RFC 5322, 4.5: spaces were possible there
	if !isFieldText(name) {
		return wrong("message", "line %d is no header: %q is no name", number, clip(string(name)))
	}
	var room [longestKnown]byte
	lower := appendLower(room[:0], name)
	if bit := once[string(lower)]; bit != 0 {
		if s.seen&bit != 0 {
			return wrong("headers."+string(name), "is there twice, in line %d again: it may be there once (RFC 5322, 3.6)", number)
		}
		s.seen |= bit
	}
	switch {
	case bytes.HasPrefix(lower, []byte(controlPrefix)):
		s.Control = append(s.Control, Header{Name: string(name), Value: unfold(field[colon+1:])})
		return nil
	case string(lower) == "bcc", string(lower) == "resent-bcc", string(lower) == "return-path": // RFC 5322, 3.6.3; RFC 5321, 4.4
		return nil
	case string(lower) == "message-id":
		s.ID = strings.Trim(unfold(field[colon+1:]), "<>")
	}
	if !IsASCIIBytes(field) {
		if !utf8.Valid(field) {
			return wrong("headers."+string(name), "has octets above 127 that are no UTF-8: encode it (RFC 2047)")
		}
		s.UTF8 = true
	}
	return s.lines(name, field[colon+1:], number)
}

// lines takes over the value of a header, as it is folded.
func (s *scanner) lines(name, value []byte, number int) error {
	start := len(s.Message)
	s.Message = append(append(s.Message, name...), ':')
	for first := true; len(value) > 0; first = false {
		end := bytes.IndexByte(value, '\n')
		text := bytes.TrimSuffix(value[:end], []byte{'\r'})
		value = value[end+1:]
		if !first && len(bytes.TrimLeft(text, " \t")) == 0 {
			continue // a line of spaces is none (RFC 5322, 3.2.2)
		}
		s.Message = append(s.Message, text...)
		if len(s.Message)-start > MaxLineBytes {
			return wrong("headers."+string(name), "has a line of more than %d octets, in line %d of the message or below: fold it (RFC 5322, 2.1.1)", MaxLineBytes, number)
		}
		s.Message = append(s.Message, crlf...)
		start = len(s.Message)
	}
	return nil
}

// isFieldText reports whether a text is a header's name (RFC 5322, 2.2).
func isFieldText(s []byte) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return len(s) > 0 && len(s) <= MaxLineBytes-foldBytes
}

// longestKnown bounds the names that mean something here.
const longestKnown = 32

// appendLower appends the beginning of a name in lower case; no known name is as
// long as longestKnown.
func appendLower(b, name []byte) []byte {
	for _, c := range name[:min(len(name), longestKnown)] {
		if c >= 'A' && c <= 'Z' {
			c |= 0x20
		}
		b = append(b, c)
	}
	return b
}

// unfold returns a header's value without its folds (RFC 5322, 2.2.3).
func unfold(value []byte) string {
	return strings.TrimSpace(strings.ReplaceAll(strings.ReplaceAll(string(value), "\r", ""), "\n", ""))
}

// body takes over the body, which begins in a line of the message.
func (s *scanner) body(body []byte, number int) error {
	if crs := bytes.Count(body, []byte{'\r'}); crs != bytes.Count(body, []byte(crlf)) || crs != bytes.Count(body, []byte{'\n'}) {
		body = appendLines(make([]byte, 0, len(body)+len(body)/16), body)
	}
	for at := 0; at < len(body); number++ {
		end := bytes.IndexByte(body[at:], '\n')
		length := end - 1
		if end < 0 {
			end = len(body) - at - 1
			length = end + 1
		}
		if length > MaxLineBytes {
			return wrong("message", "line %d has %d octets, at most %d are possible (RFC 5322, 2.1.1): encode it (quoted-printable or base64)", number, length, MaxLineBytes)
		}
		at += end + 1
	}
	s.Message = append(s.Message, body...)
	if n := len(s.Message); n > 0 && s.Message[n-1] != '\n' {
		s.Message = append(s.Message, crlf...)
	}
	return nil
}

// appendLines appends a text with every end of a line made CRLF. A CR or LF by
// itself ends one as well: a server could read a bare one as the end of the
// message.
func appendLines[T string | []byte](b []byte, text T) []byte {
	from := 0
	for i := range len(text) {
		switch c := text[i]; {
		case c == '\n' && (i == 0 || text[i-1] != '\r'), c == '\r' && (i+1 == len(text) || text[i+1] != '\n'):
			b = append(append(b, text[from:i]...), crlf...)
			from = i + 1
		}
	}
	return append(b, text[from:]...)
}

// Octets returns what a server must support to take a message that is ready to
// go: 8BITMIME for its body, SMTPUTF8 for its headers.
func Octets(message []byte) (eightBit, utf8 bool) {
	head, body := cutHead(message)
	return !IsASCIIBytes(body), !IsASCIIBytes(head)
}

// IsASCIIBytes is IsASCII of octets.
func IsASCIIBytes(b []byte) bool {
	for ; len(b) >= 32; b = b[32:] {
		x := binary.LittleEndian.Uint64(b) | binary.LittleEndian.Uint64(b[8:]) | binary.LittleEndian.Uint64(b[16:]) | binary.LittleEndian.Uint64(b[24:])
		if x&0x8080808080808080 != 0 {
			return false
		}
	}
	for _, c := range b {
		if c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

func lineOf(text []byte, at int) int { return bytes.Count(text[:at], []byte{'\n'}) + 1 }

// appendDate appends the header Date (RFC 5322, 3.3), in UTC: that hides where
// the program runs.
func appendDate(b []byte, t time.Time) []byte {
	b = append(b, "Date: "...)
	return append(t.UTC().AppendFormat(b, "Mon, 02 Jan 2006 15:04:05 -0700"), crlf...)
}

func appendID(b []byte, id string) []byte {
	return append(append(append(b, idBefore...), id...), idBehind+crlf...)
}

// What stands around a Message-ID, on one line.
const (
	idBefore   = "Message-ID: <"
	idBehind   = ">"
	maxIDBytes = MaxLineBytes - len(idBefore+idBehind)
)

// CheckID says what is wrong with a Message-ID, without its brackets: ID@DOMAIN
// (RFC 5322, 3.6.4).
func CheckID(id string) error {
	left, right, ok := strings.Cut(id, "@")
	for i := range len(id) {
		ok = ok && (id[i] == '.' || id[i] == '@' || id[i] < utf8.RuneSelf && isAtom(rune(id[i])))
	}
	if !ok || left == "" || right == "" || strings.Contains(right, "@") || len(id) > maxIDBytes {
		return wrong("message_id", "%s is not a message id, want ID@DOMAIN", strconv.Quote(clip(id)))
	}
	return nil
}
