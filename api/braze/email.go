package braze

import (
	"context"
	"errors"
	"slices"
	"strings"

	"sluice"
	"sluice/lib/jsonscan"
	"sluice/lib/mime"
	"sluice/mail"
	"sluice/mail/schedule"
	"sluice/mail/template"
)

const noMessage complaint = "No message to send"

// readMessages reads the object `messages`. What it has beside an email is not
// sent, and noted.
func (r *Request) readMessages(ctx context.Context, v jsonscan.Value, n *notes) (*schedule.Email, error) {
	if v.Kind != jsonscan.Object {
		return nil, noMessage
	}
	var given jsonscan.Value
	m := jsonscan.Read(v.Raw)
	for m.Next() {
		switch {
		case m.Value.Kind == jsonscan.Null:
		case m.Key == "email":
			given = m.Value
		default:
			n.add("messages.%.64s: only email is sent here", m.Key)
		}
	}
	if given.Kind == jsonscan.None {
		return nil, noMessage
	}
	if given.Kind != jsonscan.Object {
		return nil, wrongEmail("", "want an object, got %s", given.Kind)
	}
	e := &schedule.Email{}
	if err := r.readEmail(ctx, e, given.Raw, n); err != nil {
		return nil, err
	}
	_, err := template.Compile(&e.Mail)
	if wrong, ok := errors.AsType[*template.Error](err); ok {
		if field := emailFields[wrong.Part]; field != "" {
			wrong.Part = field
		}
		return nil, wrongEmail("", "%v", wrong)
	}
	if name := template.JourneyOutput(&e.Mail); name != "" {
		return nil, wrongEmail("", "%s is known in mails of journeys alone; give it a default: {{%s | default: \"...\"}}", name, name)
	}
	return e, err
}

// emailFields are what an email object calls the parts of a template.
var emailFields = map[string]string{"html": "body", "text": "plaintext_body"}

// wrongEmail is what is wrong with an email object, or with a field of it.
func wrongEmail(field, format string, args ...any) error {
	where := "messages.email"
	if field != "" {
		where += "." + field
	}
	var n notes
	n.add(where+": "+format, args...)
	return complaint(n[0])
}

// readEmail reads an email object. What stands in it beside a template replaces
// that of the template.
func (r *Request) readEmail(ctx context.Context, e *schedule.Email, raw string, n *notes) error {
	given := make(map[string]jsonscan.Value)
	m := jsonscan.Read(raw)
	for m.Next() {
		switch {
		case m.Value.Kind == jsonscan.Null:
			delete(given, m.Key)
		case slices.Contains(emailMembers, m.Key):
			given[m.Key] = m.Value
		default:
			n.add("messages.email.%.64s: is not known here, and was passed over", m.Key)
		}
	}
	if v, ok := given["bcc"]; ok && v.Raw != `""` {
		return wrongEmail("bcc", "blind copies are not sent here")
	}
	if v, ok := given["attachments"]; ok && (v.Kind != jsonscan.Array || len(list(v)) > 0) {
		return wrongEmail("attachments", "files are not fetched here; POST /v1/messages takes them with the message")
	}
	if _, _, err := flag("messages.email.should_inline_css", given["should_inline_css"]); err != nil {
		return err
	}
	e.Mail.Class = mail.ClassTransactional // that of the send counts
	if v, ok := given["email_template_id"]; ok {
		if err := r.readTemplate(ctx, e, v); err != nil {
			return err
		}
	} else if given["body"].Kind == jsonscan.None {
		return wrongEmail("body", "is required, unless there is an email_template_id")
	}
	for field, to := range map[string]*string{"subject": &e.Mail.Subject, "preheader": &e.Mail.Preheader, "from": &e.Mail.From,
		"body": &e.Mail.HTML, "plaintext_body": &e.Mail.Text, "app_id": &e.App, "message_variation_id": &e.Variation} {
		if v, ok := given[field]; ok {
			if v.Kind != jsonscan.String {
				return wrongEmail(field, "want a text, got %s", v.Kind)
			}
			*to = strings.Clone(v.Text())
		}
	}
	if e.App == "" || len(e.App) > sluice.MaxAppIDBytes || !nameFits(e.App) {
		return wrongEmail("app_id", "is required: a text of at most %d bytes without control characters", sluice.MaxAppIDBytes)
	}
	if !nameFits(e.Variation) {
		return wrongEmail("message_variation_id", "want at most 255 characters, none of them a control character")
	}
	if _, ok := given["from"]; !ok {
		return wrongEmail("from", "is required: Name <name@example.com>")
	}
	sender, err := fixedMailbox("from", e.Mail.From)
	if err != nil {
		return err
	}
	e.Sender = sender.Address.String()
	return readHeaders(e, given)
}

// emailMembers are those of an email object.
var emailMembers = []string{"app_id", "subject", "from", "reply_to", "bcc", "body", "plaintext_body", "preheader", "email_template_id",
	"message_variation_id", "extras", "headers", "should_inline_css", "attachments"}

// readTemplate takes over what a stored template says.
func (r *Request) readTemplate(ctx context.Context, e *schedule.Email, v jsonscan.Value) error {
	none := wrongEmail("email_template_id", "there is no template %.64s", v.Raw)
	if v.Kind != jsonscan.String || !mail.ValidTemplateID(v.Text()) {
		return none
	}
	version, err := r.Templates.TemplateVersion(ctx, strings.Clone(v.Text()), 0)
	if sluice.IsNotFound(err) {
		return none
	}
	if err != nil {
		return unread(err)
	}
	e.Mail = version
	return nil
}

// fixedMailbox reads an address, perhaps with a name, that is the same for
// everybody. It is in the envelope, and each recipient of the mail may answer
// to it.
func fixedMailbox(field, text string) (mime.Mailbox, error) {
	m, err := mime.ParseMailbox(text)
	if wrong, ok := errors.AsType[*mime.Error](err); ok {
		return m, wrongEmail(field, "%s", wrong.Reason)
	}
	if err == nil && strings.ContainsAny(m.Address.String(), "{}") {
		err = wrongEmail(field, "want an address that is the same for everybody; only the name before it may be made for each")
	}
	return m, err
}

// noReplyTo is what stands for no Reply-To at all.
const noReplyTo = "NO_REPLY_TO"

// readHeaders reads reply_to, headers and extras.
func readHeaders(e *schedule.Email, given map[string]jsonscan.Value) error {
	if v, ok := given["extras"]; ok {
		if v.Kind != jsonscan.Object {
			return wrongEmail("extras", "want an object, got %s", v.Kind)
		}
		e.Extras = strings.Clone(v.Raw)
	}
	if v, ok := given["headers"]; ok {
		if v.Kind != jsonscan.Object {
			return wrongEmail("headers", "want an object of texts, got %s", v.Kind)
		}
		m := jsonscan.Read(v.Raw)
		for m.Next() {
			if m.Value.Kind != jsonscan.String {
				return wrongEmail("headers", "%.64q is %s, want a text", m.Key, m.Value.Kind)
			}
			if strings.EqualFold(m.Key, replyTo) {
				return wrongEmail("headers", "reply_to says %s", replyTo)
			}
			if err := mime.CheckHeader(mime.Header{Name: m.Key, Value: "x"}); err != nil { // the value is checked as it is made
				return wrongEmail("headers", "%v", err)
			}
			setHeader(e, strings.Clone(m.Key), strings.Clone(m.Value.Text()))
		}
	}
	v, ok := given["reply_to"]
	switch {
	case !ok:
	case v.Kind != jsonscan.String:
		return wrongEmail("reply_to", "want a text, got %s", v.Kind)
	case v.Text() == noReplyTo:
		setHeader(e, replyTo, "")
	default:
		if _, err := fixedMailbox("reply_to", v.Text()); err != nil {
			return err
		}
		setHeader(e, replyTo, strings.Clone(v.Text()))
	}
	return nil
}

const replyTo = "Reply-To"

// setHeader puts a header in the place of one that has its name. An empty value
// leaves none.
func setHeader(e *schedule.Email, name, value string) {
	e.Mail.Headers = slices.DeleteFunc(slices.Clone(e.Mail.Headers), func(h mail.TemplateHeader) bool { return strings.EqualFold(h.Name, name) })
	if value != "" {
		e.Mail.Headers = append(e.Mail.Headers, mail.TemplateHeader{Name: name, Value: value})
	}
}
