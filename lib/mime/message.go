package mime

import (
	"crypto/rand"
	"slices"
	"strconv"
	"time"

	"sluice"
)

// A mail is built in two steps, since most mails differ from others in little.
// Compile does once what is the same for all recipients (the sender, headers,
// files: base64 of megabytes). Append adds the parts of each recipient.
//
// The parts stand as readers expect them (RFC 2046, 5.1; RFC 2387):
//
//	mixed                       only with files
//	    alternative             only with HTML
//	        text/plain
//	        related             only with images in the HTML
//	            text/html
//	            image ...
//	    file ...
//
// Tried and dropped: to encode a template's text between its fields in advance.
// Lines of quoted-printable break where they are full, so every field moves all
// breaks behind it, and the encoder takes 10 µs for 10 KB.

// Bounds of a mail beside those of its parts.
const (
	MaxMailboxes = sluice.MaxRecipients // in one of From's fellows: To, Cc, Reply-To
	MaxHeaders   = 100
	MaxBodyBytes = 4 << 20 // text or HTML
)

// Common is what a mail has for all of its recipients.
type Common struct {
	From        Mailbox
	ReplyTo     []Mailbox
	Headers     []Header // CheckHeader says which
	Attachments []Attachment
}

// Fields are the parts of one recipient.
type Fields struct {
	To, Cc  []Mailbox
	Subject string

	// Text and HTML are the two forms of the content. If there is only HTML, the
	// text is derived from it.
	Text, HTML string

	// Preheader is what programs show behind the subject; it is put into the HTML.
	Preheader string

	ID      string // Message-ID without its brackets: ID@DOMAIN
	Date    time.Time
	Headers []Header // beside those of Common
}

// Compiled is what Compile has prepared. It may be used from several goroutines
// at once.
type Compiled struct {
	head     []byte // headers
	images   []byte // parts of related, each with its delimiter
	files    []byte // parts of mixed
	boundary string // what those of this mail end with
}

// Compile prepares mails. Errors are *Error.
func Compile(c *Common) (*Compiled, error) {
	m := &Compiled{boundary: rand.Text()}
	if c.From.Address == (Address{}) {
		return nil, wrong("from", "is missing: who sends it?")
	}
	if err := checkMailboxes("from", []Mailbox{c.From}); err != nil {
		return nil, err
	}
	if err := checkMailboxes("reply_to", c.ReplyTo); err != nil {
		return nil, err
	}
	m.head = appendMailboxes(m.head, "From", []Mailbox{c.From})
	m.head = appendMailboxes(m.head, "Reply-To", c.ReplyTo)
	var err error
	if m.head, err = appendHeaders(m.head, c.Headers); err != nil {
		return nil, err
	}
	if len(c.Attachments) > MaxAttachments {
		return nil, wrong("attachments", "are %d, at most %d are possible", len(c.Attachments), MaxAttachments)
	}
	bytes := 0
	for i := range c.Attachments {
		if bytes += len(c.Attachments[i].Data); bytes > sluice.MaxMessageBytes {
			return nil, wrong("attachments", "have more than %d octets together", sluice.MaxMessageBytes)
		}
	}
	for i := range c.Attachments {
		a := &c.Attachments[i]
		parts, kind := &m.files, "mixed"
		if a.ContentID != "" {
			parts, kind = &m.images, "related"
		}
		*parts = m.appendDelimiter(*parts, kind)
		if *parts, err = a.appendPart(*parts); err != nil {
			return nil, within(err, "attachments["+strconv.Itoa(i)+"]")
		}
	}
	return m, nil
}

// within names the thing that has the field which an error is about.
func within(err error, outer string) error {
	e, ok := err.(*Error)
	if !ok {
		return err
	}
	if e.Field == "" {
		return &Error{Field: outer, Reason: e.Reason}
	}
	return &Error{Field: outer + "." + e.Field, Reason: e.Reason}
}

func checkMailboxes(field string, all []Mailbox) error {
	if len(all) > MaxMailboxes {
		return wrong(field, "has %d addresses, at most %d are possible", len(all), MaxMailboxes)
	}
	for i := range all {
		if err := all[i].check(); err != nil {
			if len(all) > 1 {
				field += "[" + strconv.Itoa(i) + "]"
			}
			return within(err, field)
		}
	}
	return nil
}

func appendHeaders(b []byte, all []Header) ([]byte, error) {
	if len(all) > MaxHeaders {
		return b, wrong("headers", "are %d, at most %d are possible", len(all), MaxHeaders)
	}
	for _, h := range all {
		if err := CheckHeader(h); err != nil {
			return b, err
		}
		b = appendText(b, h.Name, h.Value)
	}
	return b, nil
}

// Build returns one mail.
func Build(c *Common, f *Fields) ([]byte, error) {
	m, err := Compile(c)
	if err != nil {
		return nil, err
	}
	return m.Append(nil, f)
}

// Append appends a mail as it goes out: lines end in CRLF, at most 998 octets
// long. Its body is ASCII; its headers are, unless an address is not
// (Address.UTF8). Errors are *Error, and what was appended to is returned as it
// was.
func (m *Compiled) Append(b []byte, f *Fields) ([]byte, error) {
	if err := f.check(); err != nil {
		return b, err
	}
	// Quoted-printable of a mail in Latin letters is a tenth longer.
	start, grown := len(b), len(m.head)+len(m.files)+len(m.images)+2*len(f.Text)+(len(f.HTML)+len(f.Text))*9/8+2048
	out := append(slices.Grow(b, grown), m.head...)
	out = appendMailboxes(out, "To", f.To)
	out = appendMailboxes(out, "Cc", f.Cc)
	out = appendText(out, "Subject", f.Subject)
	out = appendID(appendDate(out, f.Date), f.ID)
	out, err := appendHeaders(out, f.Headers)
	if err != nil {
		return b, err
	}
	out = append(out, "MIME-Version: 1.0\r\n"...)
	out = m.appendMixed(out, f)
	if n := len(out); out[n-1] != '\n' {
		out = append(out, crlf...)
	}
	if n := len(out) - start; n > sluice.MaxMessageBytes {
		return b, wrong("message", "has %d octets with its attachments, at most %d are possible", n, sluice.MaxMessageBytes)
	}
	return out, nil
}

func (f *Fields) check() error {
	if err := checkMailboxes("to", f.To); err != nil {
		return err
	}
	if err := checkMailboxes("cc", f.Cc); err != nil {
		return err
	}
	for _, one := range [...]struct{ field, text string }{{"subject", f.Subject}, {"preheader", f.Preheader}} {
		if len(one.text) > MaxValueBytes {
			return wrong(one.field, "has %d octets, at most %d are possible", len(one.text), MaxValueBytes)
		}
		if err := checkText(one.text); err != nil {
			return wrong(one.field, "%s", err)
		}
	}
	for _, one := range [...]struct{ field, text string }{{"text", f.Text}, {"html", f.HTML}} {
		if len(one.text) > MaxBodyBytes {
			return wrong(one.field, "has %d octets, at most %d are possible", len(one.text), MaxBodyBytes)
		}
	}
	return CheckID(f.ID)
}

// appendMixed appends the content with its headers.
func (m *Compiled) appendMixed(b []byte, f *Fields) []byte {
	if len(m.files) == 0 {
		return m.appendAlternative(b, f)
	}
	b = m.appendMultipart(b, "mixed", "")
	b = m.appendAlternative(m.appendDelimiter(b, "mixed"), f)
	b = append(b, m.files...)
	return m.appendClose(b, "mixed")
}

func (m *Compiled) appendAlternative(b []byte, f *Fields) []byte {
	if f.HTML == "" {
		if len(m.images) == 0 {
			return appendTextPart(b, "text/plain", f.Text)
		}
		// Nothing shows the images: they are files then, in the order of parts.
		b = m.appendMultipart(b, "related", "text/plain")
		b = appendTextPart(m.appendDelimiter(b, "related"), "text/plain", f.Text)
		return m.appendClose(append(b, m.images...), "related")
	}
	text := f.Text
	if text == "" {
		text = Text(clean(f.HTML))
	}
	b = m.appendMultipart(b, "alternative", "")
	b = appendTextPart(m.appendDelimiter(b, "alternative"), "text/plain", text)
	b = m.appendRelated(m.appendDelimiter(b, "alternative"), f)
	return m.appendClose(b, "alternative")
}

func (m *Compiled) appendRelated(b []byte, f *Fields) []byte {
	source := addPreheader(f.HTML, f.Preheader)
	if len(m.images) == 0 {
		return appendTextPart(b, "text/html", source)
	}
	b = m.appendMultipart(b, "related", "text/html")
	b = appendTextPart(m.appendDelimiter(b, "related"), "text/html", source)
	return m.appendClose(append(b, m.images...), "related")
}

// appendTextPart appends a part of text: its headers and its content.
func appendTextPart(b []byte, kind, text string) []byte {
	text = clean(text)
	e := encodingOf(text)
	b = append(append(append(b, "Content-Type: "...), kind...), "; charset=utf-8\r\nContent-Transfer-Encoding: "...)
	b = append(append(b, e.String()...), "\r\n\r\n"...)
	return appendBody(b, text, e)
}

// appendMultipart appends the headers of parts; root is the type of the first,
// where it has to be said (RFC 2387, 3.1).
func (m *Compiled) appendMultipart(b []byte, kind, root string) []byte {
	b = append(append(append(b, "Content-Type: multipart/"...), kind...), `; boundary="`...)
	b = append(m.appendBoundary(b, kind), '"')
	if root != "" {
		b = append(append(append(b, ";\r\n type=\""...), root...), '"')
	}
	return append(b, crlf...)
}

// appendBoundary appends a boundary: the kind's first letter keeps those of one
// mail apart.
func (m *Compiled) appendBoundary(b []byte, kind string) []byte {
	return append(append(append(b, boundaryMark...), kind[0]), m.boundary...)
}

// appendDelimiter ends what is before and begins a part (RFC 2046, 5.1.1).
func (m *Compiled) appendDelimiter(b []byte, kind string) []byte {
	return append(m.appendBoundary(append(b, "\r\n--"...), kind), crlf...)
}

func (m *Compiled) appendClose(b []byte, kind string) []byte {
	return append(m.appendBoundary(append(b, "\r\n--"...), kind), "--"...)
}
