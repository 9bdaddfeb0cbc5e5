package bounce

import (
	"bytes"
	"encoding/base64"
	"io"
	"mime"
	"mime/quotedprintable"
	"strings"
)

const (
	maxParts  = 200 // of one mail, over all levels; what is behind them is not read
	maxLevels = 10  // of multiparts in multiparts; a deeper one is one part without parts
)

// part is a mail, or a part of one.
type part struct {
	head   header
	kind   string // its media type, in lower case
	params map[string]string
	body   []byte // as it came
	parts  []*part
}

// readPart reads a part, with its parts. budget is how many parts may still be read.
func readPart(b []byte, level int, budget *int) *part {
	p := &part{}
	p.head, p.body = cutHeader(b)
	p.kind, p.params = mediaType(p.head.get("content-type"))
	if !strings.HasPrefix(p.kind, "multipart/") || level >= maxLevels {
		return p
	}
	for _, raw := range split(p.body, p.params["boundary"], *budget) {
		if *budget <= 0 {
			break
		}
		*budget--
		p.parts = append(p.parts, readPart(raw, level+1, budget))
	}
	return p
}

// mediaType reads a Content-Type. Of one that is broken the parameters are taken
// that have the form NAME=VALUE, the first of each name. Without any it is text.
func mediaType(value string) (kind string, params map[string]string) {
	kind, params, err := mime.ParseMediaType(value)
	if err == nil && kind != "" {
		return kind, params
	}
	first, rest, _ := strings.Cut(stripComments(value), ";")
	if kind = strings.ToLower(strings.TrimSpace(first)); kind == "" {
		return "text/plain", nil
	}
	params = make(map[string]string)
	for _, p := range strings.Split(rest, ";") {
		name, v, _ := strings.Cut(p, "=")
		name = strings.ToLower(strings.TrimSpace(name))
		if _, known := params[name]; !known {
			params[name] = strings.Trim(strings.TrimSpace(v), `"`)
		}
	}
	return kind, params
}

// split cuts the body of a multipart into at most this many parts. A boundary that
// is missing, or that no line has, is guessed: it is that of the first line that
// begins with two dashes. A last part that no boundary ends goes to the end.
func split(body []byte, boundary string, most int) [][]byte {
	if boundary != "" {
		if parts := splitBy(body, boundary, most); parts != nil {
			return parts
		}
	}
	for rest := body; len(rest) > 0; {
		var line []byte
		line, rest = cutLine(rest)
		if guess, found := bytes.CutPrefix(bytes.TrimRight(line, " \t"), []byte("--")); found && len(guess) > 0 {
			return splitBy(body, string(guess), most)
		}
	}
	return nil
}

// splitBy returns the parts between the lines of a boundary (RFC 2046, 5.1.1).
func splitBy(body []byte, boundary string, most int) (parts [][]byte) {
	begin := -1 // of the part that is being read
	for at := 0; at < len(body) && len(parts) < most; {
		line, rest := cutLine(body[at:])
		next := len(body) - len(rest)
		mark, found := bytes.CutPrefix(bytes.TrimRight(line, " \t"), []byte("--"+boundary))
		if found && (len(mark) == 0 || string(mark) == "--") {
			if begin >= 0 {
				parts = append(parts, withoutEnd(body[begin:at]))
			}
			if begin = next; len(mark) > 0 {
				return parts
			}
		}
		at = next
	}
	if begin >= 0 && len(parts) < most {
		parts = append(parts, body[begin:])
	}
	return parts
}

// withoutEnd takes the end of the last line off, which belongs to the boundary.
func withoutEnd(b []byte) []byte {
	return bytes.TrimSuffix(bytes.TrimSuffix(b, []byte{'\n'}), []byte{'\r'})
}

// content returns the body, decoded. Of broken base64 that is taken which can be
// read; broken quoted-printable stays as it came.
func (p *part) content() []byte {
	switch strings.ToLower(stripComments(p.head.get("content-transfer-encoding"))) {
	case "base64":
		return fromBase64(p.body)
	case "quoted-printable":
		if b, err := io.ReadAll(quotedprintable.NewReader(bytes.NewReader(p.body))); err == nil {
			return b
		}
	}
	return p.body
}

// fromBase64 decodes what is of the alphabet, up to the first "=".
func fromBase64(b []byte) []byte {
	kept := make([]byte, 0, len(b))
	for _, c := range b {
		if c == '=' {
			break
		}
		if 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '+' || c == '/' {
			kept = append(kept, c)
		}
	}
	out := make([]byte, base64.RawStdEncoding.DecodedLen(len(kept)))
	n, _ := base64.RawStdEncoding.Decode(out, kept) // it fails at a last character alone, which is no whole byte
	return out[:n]
}

// find returns the first part of one of some kinds, or nil. It does not look into
// mails that are parts: what they report is not reported to us.
func (p *part) find(kinds ...string) *part {
	for _, k := range kinds {
		if p.kind == k {
			return p
		}
	}
	for _, inner := range p.parts {
		if found := inner.find(kinds...); found != nil {
			return found
		}
	}
	return nil
}
