package api

import (
	"context"
	"encoding/base64"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"sluice"
	"sluice/lib/jsonscan"
	"sluice/lib/mime"
	"sluice/mail"
	"sluice/mail/template"
)

// maxMessageAhead is how far ahead a message may be handed in.
const maxMessageAhead = 366 * 24 * time.Hour

// maxRouteBytes bounds the name of a route.
const maxRouteBytes = 64

// messageReader reads the messages of one request.
type messageReader struct {
	ctx       context.Context
	now       time.Time
	templates mail.TemplateStore // nil: there are none
	tracks    bool
	found     map[string]*mail.TemplateVersion
}

// messageFields are what a message may have: of all forms, of one that is built
// here, of one that comes ready, and of a template.
var (
	messageFields = []string{"from", "to", "priority", "class", "send_at", "expires_at", "tags", "metadata", "app_id", "route", "track"}
	builtFields   = []string{"subject", "html", "text", "preheader", "cc", "bcc", "reply_to", "headers", "attachments"}
	allFields     = fieldsOf(slices.Concat([]string{"raw", "template"}, messageFields, builtFields)...)
)

// incoming is a message on its way to a draft.
type incoming struct {
	given map[string]jsonscan.Value
	draft mail.Draft
	from  mime.Mailbox
	seen  map[string]bool // addresses in draft.To

	template *template.Content // of a message with one
	track    mail.Track        // what is to be known of it, until it says otherwise
}

// read makes a draft of a message's text. An *sluice.Error says what is wrong
// with the message; any other error, that a template could not be looked up.
func (m *messageReader) read(text, id string) (mail.Draft, error) {
	if len(text) > maxEventsBytes {
		return mail.Draft{}, errBodyTooLarge()
	}
	given, err := decode(text, allFields...)
	if err != nil {
		return mail.Draft{}, err
	}
	in := &incoming{given: given, seen: map[string]bool{}, draft: mail.Draft{
		ID: id, Priority: mail.PriorityNormal, Class: mail.ClassTransactional, Form: mail.ContentMIME}}
	_, raw := given["raw"]
	_, templated := given["template"]
	switch {
	case raw && templated:
		err = refusal(sluice.CodeInvalid, "raw and template are two forms of a message, want one of them")
	case raw:
		err = m.readRaw(in)
	case templated:
		err = m.readTemplate(in)
	default:
		err = m.readBuilt(in)
	}
	if err == nil {
		err = in.readRest(m.now)
	}
	if err == nil {
		err = in.readTrack(m.tracks)
	}
	if e, ok := errors.AsType[*mime.Error](err); ok {
		return mail.Draft{}, refusal(sluice.CodeInvalid, "%s", e)
	}
	return in.draft, err
}

// without refuses fields that a form of message does not have.
func (in *incoming) without(form string, fields []string) error {
	for _, name := range fields {
		if _, ok := in.given[name]; ok {
			return refusal(sluice.CodeInvalid, "%s: a message with %s cannot have it", name, form)
		}
	}
	return nil
}

// readFrom reads from: who sends, in the envelope too.
func (in *incoming) readFrom() error {
	all, _, err := in.mailboxes("from")
	if err != nil {
		return err
	}
	if len(all) != 1 {
		return refusal(sluice.CodeInvalid, `from: want one address, "ann@example.com" or {"email": "ann@example.com", "name": "Ann"}`)
	}
	in.from = all[0]
	in.draft.From = in.from.Address.String()
	return nil
}

// recipients reads one of to, cc and bcc: each address gets the message once.
func (in *incoming) recipients(field string) ([]mime.Mailbox, error) {
	all, users, err := in.mailboxes(field)
	if err != nil {
		return nil, err
	}
	for i := range all {
		address := all[i].Address.String()
		if key := strings.ToLower(address); !in.seen[key] {
			in.seen[key] = true
			in.draft.To, in.draft.Users = append(in.draft.To, address), append(in.draft.Users, users[i])
		}
	}
	if len(in.draft.To) > sluice.MaxRecipients {
		return nil, refusal(sluice.CodeInvalid, "%s: the message has more than %d recipients", field, sluice.MaxRecipients)
	}
	return all, nil
}

// needTo reads to, which each message has.
func (in *incoming) needTo() ([]mime.Mailbox, error) {
	to, err := in.recipients("to")
	if err == nil && len(to) == 0 {
		err = refusal(sluice.CodeInvalid, "to: want at least one address")
	}
	return to, err
}

// mailboxes reads a field with addresses: one, or a list; each a text or an
// object with email, name and user_id.
func (in *incoming) mailboxes(field string) (all []mime.Mailbox, users []string, err error) {
	v, ok := in.given[field]
	if !ok {
		return nil, nil, nil
	}
	if v.Kind != jsonscan.Array {
		m, user, err := mailboxOf(field, v)
		return []mime.Mailbox{m}, []string{user}, err
	}
	e := jsonscan.ReadArray(v.Raw)
	for e.Next() {
		if len(all) == sluice.MaxRecipients {
			return nil, nil, refusal(sluice.CodeInvalid, "%s: there are more than %d addresses", field, sluice.MaxRecipients)
		}
		m, user, err := mailboxOf(field+"["+strconv.Itoa(len(all))+"]", e.Value)
		if err != nil {
			return nil, nil, err
		}
		all, users = append(all, m), append(users, user)
	}
	return all, users, nil
}

func mailboxOf(place string, v jsonscan.Value) (m mime.Mailbox, person string, err error) {
	switch v.Kind {
	case jsonscan.String:
		if m, err = mime.ParseMailbox(v.Text()); err != nil {
			return m, "", under(place, err)
		}
		return m, "", nil
	case jsonscan.Object:
		email, name := "", ""
		if _, err := decode(v.Raw, field{"email", &email}, field{"name", &name}, field{"user_id", &person}); err != nil {
			return m, "", under(place, err)
		}
		if m.Address, err = mime.ParseAddress(email); err != nil {
			return m, "", under(place+".email", err)
		}
		if len(person) > sluice.MaxReferenceBytes || hasControl(person) { // its events name the user so
			return m, "", refusal(sluice.CodeInvalid, "%s.user_id: want a text of at most %d bytes without control characters", place, sluice.MaxReferenceBytes)
		}
		m.Name = name // checked where the message is built
		return m, person, nil
	}
	return m, "", refusal(sluice.CodeInvalid, "%s: want an address, or an object with email and name, got %s", place, v.Kind)
}

// under puts the name of a field before what is wrong with it.
func under(field string, err error) error {
	if e, ok := errors.AsType[*mime.Error](err); ok {
		return refusal(sluice.CodeInvalid, "%s: %s", field, e.Reason)
	}
	if e, ok := errors.AsType[*sluice.Error](err); ok {
		return refusal(sluice.CodeInvalid, "%s: %s", field, e.Message)
	}
	return err
}

func hasControl(s string) bool { return strings.ContainsFunc(s, unicode.IsControl) }

// readBuilt builds a message of its parts.
func (m *messageReader) readBuilt(in *incoming) error {
	var c mime.Common
	f := mime.Fields{Date: m.now}
	err := in.readFrom()
	if err != nil {
		return err
	}
	c.From = in.from
	f.ID = in.draft.ID + "@" + in.from.Domain
	if f.To, err = in.needTo(); err != nil {
		return err
	}
	if f.Cc, err = in.recipients("cc"); err != nil {
		return err
	}
	if _, err = in.recipients("bcc"); err != nil {
		return err
	}
	if c.ReplyTo, _, err = in.mailboxes("reply_to"); err != nil {
		return err
	}
	if err = take(in.given, field{"subject", &f.Subject}, field{"html", &f.HTML}, field{"text", &f.Text}, field{"preheader", &f.Preheader}); err != nil {
		return err
	}
	if c.Headers, err = headersOf(in.given["headers"]); err != nil {
		return err
	}
	if c.Attachments, err = attachmentsOf(in.given["attachments"]); err != nil {
		return err
	}
	if f.HTML == "" && f.Text == "" && len(c.Attachments) == 0 {
		return refusal(sluice.CodeInvalid, "the message is empty: want html, text, raw or template")
	}
	in.track = mail.TrackAll
	in.draft.Content, err = mime.Build(&c, &f)
	return err
}

// headersOf reads a list of objects with name and value, as templates have it.
func headersOf(v jsonscan.Value) ([]mime.Header, error) {
	if v.Kind == jsonscan.None {
		return nil, nil
	}
	given, err := parseHeaders(v)
	if err != nil {
		return nil, err
	}
	all := make([]mime.Header, len(given))
	for i, h := range given {
		all[i] = mime.Header{Name: h.Name, Value: h.Value}
	}
	return all, nil
}

// attachmentsOf reads a list of objects with name, type, content_id and content.
func attachmentsOf(v jsonscan.Value) (all []mime.Attachment, err error) {
	if v.Kind == jsonscan.None {
		return nil, nil
	}
	if v.Kind != jsonscan.Array {
		return nil, refusal(sluice.CodeInvalid, "attachments: want a list of objects, got %s", v.Kind)
	}
	e := jsonscan.ReadArray(v.Raw)
	for e.Next() {
		place := "attachments[" + strconv.Itoa(len(all)) + "]"
		if len(all) == mime.MaxAttachments {
			return nil, refusal(sluice.CodeInvalid, "attachments: there are more than %d", mime.MaxAttachments)
		}
		var a mime.Attachment
		content := ""
		given, err := decode(e.Value.Raw, field{"name", &a.Name}, field{"type", &a.Type}, field{"content_id", &a.ContentID}, field{"content", &content})
		if err != nil {
			return nil, under(place, err)
		}
		if _, ok := given["content"]; !ok {
			return nil, refusal(sluice.CodeInvalid, "%s.content: want the file in base64, there is none", place)
		}
		if a.Data, err = base64.StdEncoding.DecodeString(content); err != nil {
			return nil, refusal(sluice.CodeInvalid, "%s.content: want base64 (RFC 4648, 4): %v", place, err)
		}
		all = append(all, a)
	}
	return all, nil
}

// readRaw takes a message that is ready.
func (m *messageReader) readRaw(in *incoming) error {
	err := in.without("raw", builtFields)
	if err == nil {
		err = in.readFrom()
	}
	if err == nil {
		_, err = in.needTo()
	}
	text := ""
	if err == nil {
		err = take(in.given, field{"raw", &text})
	}
	if err != nil {
		return err
	}
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return refusal(sluice.CodeInvalid, "raw: want base64 (RFC 4648, 4) of a message: %v", err)
	}
	scanned, err := mime.Scan(raw, in.draft.ID+"@"+in.from.Domain, m.now)
	if e, ok := errors.AsType[*mime.Error](err); ok {
		return refusal(sluice.CodeInvalid, "raw: %s", e)
	}
	if err != nil {
		return err
	}
	if len(scanned.Control) > 0 {
		return refusal(sluice.CodeInvalid, "raw: the header %.64s means nothing here: the fields of the message say it", scanned.Control[0].Name)
	}
	in.draft.Content = scanned.Message
	return nil
}

// readTemplate takes the name of a template and its variables. It is rendered
// for each recipient when the mail is attempted.
func (m *messageReader) readTemplate(in *incoming) error {
	if err := in.without("template", builtFields); err != nil {
		return err
	}
	content := template.Content{}
	given, err := decode(in.given["template"].Raw, field{"id", &content.Template}, field{"version", number{&content.Version, mail.MaxTemplateVersions}}, field{"variables", nil})
	if err != nil {
		return under("template", err)
	}
	if v, ok := given["variables"]; ok {
		if v.Kind != jsonscan.Object || len(v.Raw) > template.MaxVariablesBytes {
			return refusal(sluice.CodeInvalid, "template.variables: want an object of at most %d bytes", template.MaxVariablesBytes)
		}
		content.Variables = strings.Clone(v.Raw)
	}
	version, err := m.version(content.Template, content.Version)
	if err != nil {
		return under("template", err)
	}
	in.draft.Form, in.draft.Class = mail.ContentTemplate, version.Class
	if _, ok := in.given["from"]; ok {
		in.draft.Author = version.From
		err = in.readFrom()
		if err == nil && in.from.Name != "" {
			err = refusal(sluice.CodeInvalid, "from: with a template it is an address without a name; the template's own from may have one")
		}
	} else if in.from, err = mime.ParseMailbox(version.From); err != nil {
		err = refusal(sluice.CodeInvalid, "from: is needed, the template has none that is the same for everybody")
	} else {
		in.draft.From = in.from.Address.String()
	}
	if err != nil {
		return err
	}
	content.Version = version.Version
	in.template = &content
	in.track = mail.TrackAll
	_, err = in.needTo()
	return err
}

// version looks up a version of a template, once a request.
func (m *messageReader) version(id string, number int) (*mail.TemplateVersion, error) {
	if m.templates == nil || !mail.ValidTemplateID(id) {
		return nil, refusal(sluice.CodeInvalid, "there is no template %.64q", id)
	}
	name := id + " " + strconv.Itoa(number)
	if v := m.found[name]; v != nil {
		return v, nil
	}
	v, err := m.templates.TemplateVersion(m.ctx, id, number)
	if err != nil {
		return nil, err
	}
	if m.found == nil {
		m.found = make(map[string]*mail.TemplateVersion)
	}
	m.found[name] = &v
	return &v, nil
}
