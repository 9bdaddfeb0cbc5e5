package spool

import (
	"time"

	"sluice"
	"sluice/lib/mime"
	"sluice/mail"
	"sluice/mail/template"
)

// What tells a mail that somebody has sent to look at it from those that were
// meant for their readers.
const (
	TrialTag     = "template-test"
	trialSubject = "[Test] "
)

// Trial is a mail of a template to one address, to be looked at there. It is
// rendered when it is handed in, so that what is wrong is said at once, and goes
// the way of all mail.
type Trial struct {
	Version  *mail.TemplateVersion
	Input    template.Input
	From, To string // From is an address; empty: the template's own
}

// Draft makes the message, and returns its subject. What is wrong with the
// template, its values or the addresses is a *template.Error, a *mime.Error or an
// *sluice.Error.
func (t *Trial) Draft(now time.Time) (draft mail.Draft, subject string, err error) {
	compiled, err := template.Compile(t.Version)
	if err != nil {
		return draft, "", err
	}
	id := sluice.NewMessageID(now.UnixMilli())
	t.Input.Origin.Message = id
	made, err := compiled.Render(&t.Input)
	if err != nil {
		return draft, "", err
	}
	made.Subject = trialSubject + made.Subject
	to, err := mime.ParseAddress(t.To)
	if err != nil {
		return draft, "", err
	}
	from := t.From
	if from == "" {
		from = made.From
	}
	if from == "" {
		return draft, "", &sluice.Error{Code: sluice.CodeInvalid, Index: -1, Message: "from: is needed, the template has none"}
	}
	sender, err := mime.ParseMailbox(from)
	if err != nil {
		return draft, "", err
	}
	draft = mail.Draft{
		ID: id, Priority: mail.PriorityHigh, Class: mail.ClassTransactional, Form: mail.ContentMIME,
		From: sender.Address.String(), To: []string{to.String()}, Tags: []string{TrialTag},
	}
	draft.Content, _, err = buildMail(&made, draft.From, draft.To[0], draft.ID, now)
	return draft, made.Subject, err
}
