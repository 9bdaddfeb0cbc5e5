package mailhttp

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"sluice/mail"
)

// A template is JSON in which placeholders stand inside texts:
//
//	{{from}} {{to}}        the envelope's addresses
//	{{id}}                 of the send, the same for each attempt
//	{{tag_id}}             the same with a hyphen for its dot, which Resend's tags may not have
//	{{tags}}               separated by commas; "{{tags}}" alone becomes a list
//	{{raw_base64}}         the whole message
//	{{subject}}            decoded
//	{{text}} {{html}}      the bodies, decoded, empty if there is none
//	{{header:NAME}}        a header of the message, decoded, empty if there is none
//
// It must be JSON as it stands. Since {{ can be nowhere else in JSON, every
// placeholder then is in a text, and what is put there is escaped as such. So
// no mail can make more of it than a text. Only what the template asks for is
// looked for in the message.

// maxTemplateBytes bounds a template.
const maxTemplateBytes = 64 << 10

// piece is a part of a template: a text as it is, or a placeholder.
type piece struct {
	literal string
	name    string // empty: the literal
	header  string // of {{header:NAME}}
	list    bool   // {{tags}} instead of its text and the quotes
}

// template is a template, read.
type template struct {
	pieces []piece
	parsed bool // it needs what is inside the message
	raw    bool // it has the whole message
}

var placeholders = []string{"from", "to", "id", "tag_id", "tags", "raw_base64", "subject", "text", "html", "header:NAME"}

// parseTemplate reads a template.
func parseTemplate(text string) (*template, error) {
	switch {
	case text == "":
		return nil, errors.New("is missing; want JSON with placeholders, such as {\"to\": \"{{to}}\", \"raw\": \"{{raw_base64}}\"}")
	case len(text) > maxTemplateBytes:
		return nil, fmt.Errorf("has %d bytes, the most is %d", len(text), maxTemplateBytes)
	case !json.Valid([]byte(text)):
		return nil, errors.New("is no JSON; a placeholder is part of a text: \"{{to}}\"")
	}
	t := &template{}
	recipient := false
	for text != "" {
		before, rest, found := strings.Cut(text, "{{")
		if !found {
			t.pieces = append(t.pieces, piece{literal: text})
			break
		}
		name, after, closed := strings.Cut(rest, "}}")
		if !closed {
			return nil, errors.New("has {{ without }}")
		}
		p := piece{name: strings.TrimSpace(name)}
		if header, ok := strings.CutPrefix(p.name, "header:"); ok && headerName.MatchString(header) {
			p.name, p.header = "header:NAME", header
		}
		if !slices.Contains(placeholders, p.name) || (p.name == "header:NAME" && p.header == "") {
			return nil, fmt.Errorf("has {{%s}}, want one of {{%s}}", name, strings.Join(placeholders, "}} {{"))
		}
		if p.name == "tags" && strings.HasSuffix(before, `"`) && !strings.HasSuffix(before, `\"`) && strings.HasPrefix(after, `"`) {
			p.list, before, after = true, before[:len(before)-1], after[1:]
		}
		recipient = recipient || p.name == "to"
		t.raw = t.raw || p.name == "raw_base64"
		t.parsed = t.parsed || slices.Contains([]string{"subject", "text", "html", "header:NAME"}, p.name)
		t.pieces = append(t.pieces, piece{literal: before}, p)
		text = after
	}
	if !recipient {
		return nil, errors.New("has no {{to}}: nobody would get the mail")
	}
	return t, nil
}

// fill returns the body for an envelope.
func (t *template) fill(e *mail.Envelope) ([]byte, error) {
	var m parts
	if t.parsed {
		var err error
		if m, err = readParts(e.Content); err != nil {
			return nil, fmt.Errorf("read the message for its provider: %w", err)
		}
		if m.attachments > 0 && !t.raw {
			// Better refused than sent without what it says is attached.
			return nil, fmt.Errorf("it has %d attachments, and the provider gets only its texts; send it by another route, or use {{raw_base64}}", m.attachments)
		}
	}
	b := make([]byte, 0, 1024+2*len(e.Content))
	for i := range t.pieces {
		p := &t.pieces[i]
		switch p.name {
		case "":
			b = append(b, p.literal...)
		case "raw_base64":
			b = base64.StdEncoding.AppendEncode(b, e.Content)
		case "tags":
			if p.list {
				list, _ := json.Marshal(append([]string{}, e.Tags...)) // texts always can be
				b = append(b, list...)
				break
			}
			b = appendInside(b, strings.Join(e.Tags, ","))
		default:
			b = appendInside(b, m.value(p, e))
		}
	}
	return b, nil
}

func (p *parts) value(at *piece, e *mail.Envelope) string {
	switch at.name {
	case "from":
		return e.From
	case "to":
		return e.To
	case "id":
		return e.Send
	case "tag_id":
		return strings.ReplaceAll(e.Send, ".", "-") // package track/hook puts it back
	case "subject":
		return p.decoded("Subject")
	case "text":
		return p.text
	case "html":
		return p.html
	}
	return p.decoded(at.header)
}

// appendInside appends what stands between the quotes of a JSON text.
func appendInside(b []byte, s string) []byte {
	quoted, _ := json.Marshal(s) // a string always can be
	return append(b, quoted[1:len(quoted)-1]...)
}
