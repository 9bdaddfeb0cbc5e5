package mailhttp

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net/mail"
	"net/textproto"
	"slices"
	"strings"
	"unicode/utf8"

	"sluice"
	libmime "sluice/lib/mime"
)

// Bounds of a message's structure, whatever program wrote it.
const (
	maxParts  = 1000
	maxLevels = 16
)

// parts is what a provider that wants texts gets of a message: the first text
// and the first HTML that are no attachments.
type parts struct {
	header      mail.Header
	text, html  string
	attachments int

	seen             int
	hasText, hasHTML bool
}

// readParts reads a message.
func readParts(content []byte) (parts, error) {
	m, err := mail.ReadMessage(bytes.NewReader(content))
	if err != nil {
		return parts{}, err
	}
	p := parts{header: m.Header}
	return p, p.read(textproto.MIMEHeader(m.Header), m.Body, 0)
}

// read takes in a part (RFC 2045, RFC 2046).
func (p *parts) read(header textproto.MIMEHeader, body io.Reader, level int) error {
	if p.seen++; p.seen > maxParts || level > maxLevels {
		return fmt.Errorf("it has more than %d parts or %d levels of them", maxParts, maxLevels)
	}
	kind, params, err := mime.ParseMediaType(header.Get("Content-Type"))
	if err != nil {
		kind, params = "text/plain", nil // RFC 2045, 5.2
	}
	if strings.HasPrefix(kind, "multipart/") {
		if params["boundary"] == "" {
			return fmt.Errorf("a part of type %s has no boundary", kind)
		}
		r := multipart.NewReader(body, params["boundary"])
		for {
			part, err := r.NextRawPart() // not NextPart, which decodes quoted-printable by itself
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
			if err := p.read(part.Header, part, level+1); err != nil {
				return err
			}
		}
	}
	disposition, _, _ := mime.ParseMediaType(header.Get("Content-Disposition"))
	into, has := &p.text, &p.hasText
	if kind == "text/html" {
		into, has = &p.html, &p.hasHTML
	}
	if disposition == "attachment" || *has || (kind != "text/plain" && kind != "text/html") {
		p.attachments++
		return nil
	}
	*has = true
	*into, err = decode(header.Get("Content-Transfer-Encoding"), params["charset"], body)
	return err
}

// decode reads a body as UTF-8.
func decode(encoding, charset string, body io.Reader) (string, error) {
	switch strings.ToLower(strings.TrimSpace(encoding)) {
	case "quoted-printable":
		body = quotedprintable.NewReader(body)
	case "base64":
		body = base64.NewDecoder(base64.StdEncoding, body)
	}
	body, err := libmime.UTF8(charset, body)
	if err != nil {
		return "", err
	}
	b, err := io.ReadAll(io.LimitReader(body, sluice.MaxMessageBytes))
	return string(b), err
}

// ofAddresses are the headers that are lists of addresses (RFC 5322, 3.6.2, 3.6.3,
// 3.6.6), in the form of textproto.
var ofAddresses = []string{"From", "Sender", "Reply-To", "To", "Cc", "Resent-From", "Resent-Sender", "Resent-To", "Resent-Cc"}

// decoded returns a header of the message (RFC 2047), as it is if it cannot be
// decoded.
func (p *parts) decoded(name string) string {
	text := p.header.Get(name)
	d := mime.WordDecoder{CharsetReader: libmime.UTF8}
	out, err := d.DecodeHeader(text)
	switch {
	case err != nil || out == text:
		return text
	case slices.Contains(ofAddresses, textproto.CanonicalMIMEHeaderKey(name)):
		return decodedAddresses(&d, text)
	}
	return out
}

// decodedAddresses decodes the names in a list of addresses. A name is in
// quotes where it has more than words. What was one name, such as "Smith, Ann",
// must not become two addresses when its provider reads it. A list that cannot
// be read stays as it is, encoded.
func decodedAddresses(d *mime.WordDecoder, text string) string {
	all, err := (&mail.AddressParser{WordDecoder: d}).ParseList(text)
	if err != nil {
		return text
	}
	var b strings.Builder
	for i, a := range all {
		if i > 0 {
			b.WriteString(", ")
		}
		address := (&mail.Address{Address: a.Address}).String() // in angle brackets
		if a.Name == "" {
			b.WriteString(address[1 : len(address)-1])
			continue
		}
		appendName(&b, a.Name)
		b.WriteString(" " + address)
	}
	return b.String()
}

// appendName appends a name as a phrase in UTF-8 (RFC 5322, 3.2.5; RFC 6532, 3.2).
func appendName(b *strings.Builder, name string) {
	words := !strings.ContainsFunc(name, func(r rune) bool {
		return r < utf8.RuneSelf && (r < ' ' || r == 0x7f || strings.ContainsRune("()<>[]:;@\\,.\"", r))
	})
	if words && name == strings.Join(strings.Fields(name), " ") && !strings.Contains(name, "=?") {
		b.WriteString(name)
		return
	}
	b.WriteByte('"')
	for _, r := range name {
		switch {
		case r < ' ' || r == 0x7f: // CR and LF would end the header
			r = ' '
		case r == '"' || r == '\\':
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	b.WriteByte('"')
}
