package template

import (
	"strings"
	"unicode/utf8"
	"unsafe"

	"sluice/lib/mime"
	"sluice/mail"
)

// Template is a compiled version of a template. It is never changed, and may be
// rendered by many goroutines at once.
type Template struct {
	id      string
	version int
	class   mail.Class
	strict  bool
	bytes   int // about what it takes in memory

	parts [5]part // in the order of partNames
	heads []part
}

// part is a text that is rendered by itself.
type part struct {
	name   string
	body   block
	length int // of its source
}

// The parts of a mail.
const (
	partSubject = iota
	partPreheader
	partFrom
	partHTML
	partText
)

var partNames = [...]string{"subject", "preheader", "from", "html", "text"}

const headerPart = "header "

// Message is what a template has become for a recipient: texts as they are
// read, not yet encoded for the wire. Subject, Preheader, From and the values
// of headers have one line.
type Message struct {
	Subject, Preheader string
	From               string // empty: who sends says it
	HTML, Text         string // one of them is empty if the template has none
	Headers            []mail.TemplateHeader
	Class              mail.Class
}

// bytesPerNode is about what a piece of a template takes when it is compiled.
const bytesPerNode = 250

// Compile makes a template of a version. The error is an *Error.
func Compile(v *mail.TemplateVersion) (*Template, error) {
	if err := check(v); err != nil {
		return nil, err
	}
	t := &Template{id: v.Template, version: v.Version, class: v.Class, strict: v.Strict}
	nodes := 0
	compile := func(name, source string) (part, *Error) {
		body, count, err := parse(source)
		if err != nil {
			err.Part = name
			return part{}, err
		}
		nodes += count
		t.bytes += len(source)
		return part{name, body, len(source)}, nil
	}
	for i, source := range sources(v) {
		var err *Error
		if t.parts[i], err = compile(partNames[i], source); err != nil {
			return nil, err
		}
	}
	for _, h := range v.Headers {
		p, err := compile(headerPart+h.Name, h.Value)
		if err != nil {
			return nil, err
		}
		t.heads = append(t.heads, p)
	}
	t.bytes += nodes * bytesPerNode
	return t, nil
}

func sources(v *mail.TemplateVersion) [5]string {
	return [5]string{v.Subject, v.Preheader, v.From, v.HTML, v.Text}
}

// check refuses what is no mail, whatever language it is in.
func check(v *mail.TemplateVersion) *Error {
	total := 0
	for i, source := range sources(v) {
		if err := checkText(source); err != nil {
			err.Part = partNames[i]
			return err
		}
		total += len(source)
	}
	if len(v.Headers) > mail.MaxTemplateHeaders {
		return newError(KindLimit, 0, "there are %d headers, at most %d are possible", len(v.Headers), mail.MaxTemplateHeaders)
	}
	for i, h := range v.Headers {
		if err := checkHeader(v.Headers[:i], h.Name); err != nil {
			return err
		}
		if err := checkText(h.Value); err != nil {
			err.Part = headerPart + h.Name
			return err
		}
		total += len(h.Name) + len(h.Value)
	}
	switch {
	case total > mail.MaxTemplateBytes:
		return newError(KindLimit, 0, "the template has %d bytes, at most %d are possible", total, mail.MaxTemplateBytes)
	case strings.Trim(v.Subject, blanks) == "":
		return &Error{Kind: KindSyntax, Part: partNames[partSubject], Message: "there is none; a mail needs one"}
	case v.HTML == "" && v.Text == "":
		return newError(KindSyntax, 0, "there is neither html nor text; a mail needs one of them")
	case v.Class != mail.ClassMarketing && v.Class != mail.ClassTransactional:
		return newError(KindSyntax, 0, "the class is none; want transactional or marketing")
	}
	return nil
}

// checkText refuses what no mail and no database has in its texts.
func checkText(text string) *Error {
	if !utf8.ValidString(text) {
		return newError(KindSyntax, 0, "it is not UTF-8")
	}
	for i, c := range text {
		if c < ' ' && c != '\t' && c != '\r' && c != '\n' || c >= 0x7f && c < 0xa0 {
			return newError(KindSyntax, 1+strings.Count(text[:i], "\n"), "there is a control character, 0x%02x", c)
		}
	}
	return nil
}

// ourHeaders are those that a template may not have: Sluice writes them itself, or servers do.
var ourHeaders = map[string]bool{
	"from": true, "sender": true, "to": true, "cc": true, "bcc": true, "subject": true, "date": true, "message-id": true,
	"mime-version": true, "received": true, "return-path": true, "dkim-signature": true,
	"list-unsubscribe": true, "list-unsubscribe-post": true,
}

// checkHeader refuses a name that is none (RFC 5322, 3.6.8), that is ours, or
// that is there twice.
func checkHeader(before []mail.TemplateHeader, name string) *Error {
	fits := name != "" && len(name) <= mail.MaxTemplateHeaderBytes
	for i := range len(name) {
		fits = fits && name[i] > ' ' && name[i] < 0x7f && name[i] != ':'
	}
	lower := strings.ToLower(name)
	switch {
	case !fits:
		return newError(KindSyntax, 0, "header %.64q: want a name of 1 to %d visible ASCII characters without a colon", name, mail.MaxTemplateHeaderBytes)
	case ourHeaders[lower] || strings.HasPrefix(lower, "content-") || strings.HasPrefix(lower, "resent-") || strings.HasPrefix(lower, "x-sluice-"):
		return newError(KindSyntax, 0, "header %s: Sluice writes it itself", name)
	}
	for _, h := range before {
		if strings.EqualFold(h.Name, name) {
			return newError(KindSyntax, 0, "header %s is there twice", name)
		}
	}
	return nil
}

// Render makes the mail for a recipient. The error is an *Error.
func (t *Template) Render(in *Input) (Message, error) {
	r, err := newRun(in, t.strict)
	if err != nil {
		return Message{}, err
	}
	if t.version > 0 { // else the id is that of the message
		r.template = t.id
	}
	var texts [len(partNames)]string
	for i := range t.parts {
		if texts[i], err = r.part(&t.parts[i], i == partHTML); err != nil {
			return Message{}, err
		}
	}
	// A value that has a line break must not break a header (RFC 5322, 2.2).
	m := Message{
		Subject: mime.OneLine(texts[partSubject]), Preheader: mime.OneLine(texts[partPreheader]), From: mime.OneLine(texts[partFrom]),
		HTML: texts[partHTML], Text: texts[partText], Class: t.class,
	}
	for i := range t.heads {
		text, err := r.part(&t.heads[i], false)
		if err != nil {
			return Message{}, err
		}
		m.Headers = append(m.Headers, mail.TemplateHeader{Name: strings.TrimPrefix(t.heads[i].name, headerPart), Value: mime.OneLine(text)})
	}
	return m, nil
}

// part renders a part. What is assigned in it is not known in the next one.
func (r *run) part(p *part, escape bool) (string, *Error) {
	if len(p.body) == 0 {
		return "", nil
	}
	r.out, r.escape, r.line = make([]byte, 0, min(p.length, r.limits.OutputBytes)+outputRoom), escape, 1
	r.locals, r.assigned, r.counters, r.cycles = nil, nil, nil, nil
	r.reached, r.changed = nil, ""
	err := protect(func() { p.body.render(r) })
	r.previous += len(r.out)
	if err != nil {
		err.Part = p.name
	}
	return unsafe.String(unsafe.SliceData(r.out), len(r.out)), err // nobody writes to it any more
}

// outputRoom is how much longer than its source a part may become before its
// memory is made anew.
const outputRoom = 512
