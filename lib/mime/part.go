package mime

import (
	"bytes"
	"encoding/base64"
	"io"
	stdmime "mime"
	"mime/quotedprintable"
	"strings"
)

// The HTML of a message that is ready to go can be replaced by other HTML, with
// gaps that differ from recipient to recipient: so the message is read once, and
// each recipient costs a copy. What is signed or encrypted is left alone, and so
// are parts that are files.

// Bounds of the search for HTML in a message. Where one is reached nothing is found.
const (
	maxPartDepth     = 8
	maxParts         = 200 // of one multipart
	maxBoundaryBytes = 70  // RFC 2046, 5.1.1
)

// HTMLPart is the HTML of a message.
type HTMLPart struct {
	Text string // decoded

	// ASCII says that it is in a charset in which other characters are not known to
	// be UTF-8.
	ASCII bool

	message          []byte
	head, start, end int // in the message: its headers, its content
	encoding         encoding
}

// signedBy are headers of a message that is signed, so that it must not be changed.
var signedBy = [...]string{"DKIM-Signature", "ARC-Seal", "Content-MD5"}

// FindHTML returns the first part of a message that is HTML and is shown, not a
// file; nil: there is none, or it must not be changed.
func FindHTML(message []byte) *HTMLPart {
	for _, name := range signedBy {
		if HasField(message, name) {
			return nil
		}
	}
	p := &HTMLPart{message: message}
	if !p.find(0, len(message), 0) || strings.Contains(p.Text, "-----BEGIN PGP ") {
		return nil
	}
	return p
}

// find looks into a part, which is the message from a place to another.
func (p *HTMLPart) find(from, to, depth int) bool {
	part := p.message[from:to]
	_, body := cutHead(part)
	value, _ := fieldOf(part, "Content-Type")
	kind, params, err := stdmime.ParseMediaType(unfold(value))
	if err != nil || body == nil {
		return false
	}
	start := to - len(body)
	switch kind {
	case "text/html":
		p.head, p.start, p.end = from, start, to
		return p.read(part, params["charset"])
	case "multipart/mixed", "multipart/alternative", "multipart/related":
		if boundary := params["boundary"]; depth < maxPartDepth && boundary != "" && len(boundary) <= maxBoundaryBytes {
			return p.findIn(start, to, "--"+boundary, depth)
		}
	}
	return false
}

// findIn looks into the parts of a multipart (RFC 2046, 5.1.1).
func (p *HTMLPart) findIn(from, to int, delimiter string, depth int) bool {
	began := -1
	for range maxParts {
		at := nextLine(p.message[from:to], delimiter)
		if at < 0 {
			return false // it has no end: who knows what else it lacks
		}
		if began >= 0 && p.find(began, max(began, from+at-len(crlf)), depth+1) {
			return true
		}
		from += at + len(delimiter)
		end := bytes.IndexByte(p.message[from:to], '\n')
		if end < 0 || bytes.HasPrefix(p.message[from:to], []byte("--")) {
			return false
		}
		from += end + 1
		began = from
	}
	return false
}

// nextLine returns where a line of a text begins with a delimiter, -1: nowhere.
func nextLine(text []byte, delimiter string) int {
	for at := 0; ; {
		i := bytes.Index(text[at:], []byte(delimiter))
		if i < 0 {
			return -1
		}
		at += i
		if rest := bytes.TrimLeft(bytes.TrimPrefix(text[at+len(delimiter):], []byte("--")), " \t"); at == 0 || text[at-1] == '\n' {
			if len(rest) == 0 || rest[0] == '\r' || rest[0] == '\n' {
				return at
			}
		}
		at += len(delimiter)
	}
}

// read decodes the part.
func (p *HTMLPart) read(part []byte, charset string) bool {
	disposition, _ := fieldOf(part, "Content-Disposition")
	if word, _, _ := strings.Cut(unfold(disposition), ";"); strings.EqualFold(strings.TrimSpace(word), "attachment") {
		return false
	}
	charset = strings.ToLower(charset)
	p.ASCII = charset != "utf-8" && charset != "utf8"
	if p.ASCII && charset != "" && charset != "us-ascii" && !strings.HasPrefix(charset, "iso-8859-") && !strings.HasPrefix(charset, "windows-125") {
		return false // in others the bytes of < and " may be parts of characters
	}
	body := p.message[p.start:p.end]
	value, _ := fieldOf(part, "Content-Transfer-Encoding")
	var err error
	switch strings.ToLower(unfold(value)) {
	case "", "7bit", "8bit", "binary":
		p.encoding = bare
	case "quoted-printable":
		p.encoding = quoted
		body, err = io.ReadAll(quotedprintable.NewReader(bytes.NewReader(body)))
	case "base64":
		p.encoding = base
		p.end = p.start + len(bytes.TrimRight(body, "\r\n")) // it is written without the end of its last line
		body, err = io.ReadAll(base64.NewDecoder(base64.StdEncoding, bytes.NewReader(body)))
	default:
		return false
	}
	p.Text = string(body)
	return err == nil
}

// Layout is a message with gaps in its HTML, each for a text of the same length
// without characters that need an encoding.
type Layout struct {
	before, text, behind []byte
	gaps                 []int // where they begin in text, ascending
	encode               bool  // text is to be in base64
}

// Layout returns the message with other HTML, which has gaps of a length, where they
// begin, ascending. What stands in them goes out where they are not filled.
func (p *HTMLPart) Layout(html string, gaps []int, length int) *Layout {
	l := &Layout{text: []byte(html), gaps: gaps, behind: bytes.Clone(p.message[p.end:])}
	head := p.message[p.head:p.start]
	e := p.encoding
	if e == bare && encodingOf(html) != bare {
		e = quoted
	}
	if e == quoted {
		l.text, l.gaps = appendWithGaps(make([]byte, 0, len(html)+len(html)/8), html, gaps, length)
	}
	if e != p.encoding {
		head = withEncoding(head, e)
	}
	l.before = append(append(make([]byte, 0, p.head+len(head)), p.message[:p.head]...), head...)
	l.encode = e == base
	return l
}

// appendWithGaps appends a text in quoted-printable. No gap goes over the end of a
// line.
func appendWithGaps(b []byte, s string, gaps []int, length int) (text []byte, moved []int) {
	from, start := 0, len(b)
	for _, at := range gaps {
		b, start = quotePiece(b, start, s[from:at], true)
		if len(b)-start+length > mostQuoted {
			b = append(b, "=\r\n"...)
			start = len(b)
		}
		moved = append(moved, len(b))
		b = append(b, s[at:at+length]...)
		from = at + length
	}
	return endQuoted(quotePiece(b, start, s[from:], true)), moved
}

// withEncoding returns the headers of a part, and the empty line behind, with
// another encoding.
func withEncoding(head []byte, e encoding) []byte {
	fields, _ := cutHead(head)
	made := make([]byte, 0, len(head)+48)
	for len(fields) > 0 {
		field, _ := cutField(fields)
		fields = fields[len(field):]
		name, _, _ := bytes.Cut(field, []byte{':'})
		if !bytes.EqualFold(bytes.TrimRight(name, " \t"), []byte("Content-Transfer-Encoding")) {
			made = append(made, field...)
		}
	}
	return append(append(append(made, "Content-Transfer-Encoding: "...), e.String()...), "\r\n\r\n"...)
}

// Bytes is how much memory it takes.
func (l *Layout) Bytes() int { return len(l.before) + len(l.text) + len(l.behind) + 8*len(l.gaps) }

// Gaps returns where the gaps begin in the text that Append hands out, ascending.
func (l *Layout) Gaps() []int { return l.gaps }

// Append appends the message. fill writes into the gaps of the text that it gets.
func (l *Layout) Append(b []byte, fill func(text []byte) error) ([]byte, error) {
	b = append(b, l.before...)
	text := l.text
	start := len(b)
	if l.encode {
		text = bytes.Clone(l.text)
		if err := fill(text); err != nil {
			return b, err
		}
		return append(appendBase64(b, text), l.behind...), nil
	}
	b = append(b, text...)
	if err := fill(b[start:]); err != nil {
		return b, err
	}
	return append(b, l.behind...), nil
}
