// Package env is what there is beside a journey: templates, segments and other journeys,
// as the database has them. Who checks a journey before it is published and who carries
// it out ask here, so that what the one lets pass the other can do.
package env

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"sluice"
	"sluice/journey"
	"sluice/journey/plan"
	"sluice/lib/mime"
	"sluice/mail"
	"sluice/mail/template"
	"sluice/store"
	"sluice/user"
)

// Database is where it is looked up.
type Database struct {
	Journeys  store.JourneyStore
	Templates mail.TemplateStore
	Segments  user.SegmentStore
}

// Env returns what documents are compiled with. It asks the database within ctx.
func (d *Database) Env(ctx context.Context) plan.Env { return &env{ctx, d} }

// stillSubscribed is the audience of marketing mail (profile.IsAudience): it is asked
// again when the mail is made, since it may have waited.
const stillSubscribed = "subscribed"

// Mailing makes what the mails of a message step have in common: without recipient and
// times. with is not nil if their content has members of the context. The error says of a
// step that it has no mail that can be sent, or is one of the database.
func (d *Database) Mailing(ctx context.Context, m *plan.Mailing) (send mail.Send, with *Contextual, err error) {
	content := template.Content{Template: m.Template, Version: m.Version, Mail: m.Content, Variables: m.Variables, Group: m.Group}
	if m.Class == mail.ClassMarketing {
		content.State = stillSubscribed
	}
	from, source := m.From, m.Content
	if m.Content != nil && from == "" {
		from = m.Content.From
	}
	if m.Template != "" {
		v, err := d.Templates.TemplateVersion(ctx, m.Template, m.Version)
		if err != nil {
			return mail.Send{}, nil, err
		}
		if content.Version = v.Version; from == "" {
			from = v.From
		}
		source = &v
	}
	if from == "" {
		return mail.Send{}, nil, &Unsendable{errors.New("its mails have no sender: give the message, or its template, a `from`")}
	}
	box, err := mime.ParseMailbox(from)
	if err != nil {
		return mail.Send{}, nil, &Unsendable{fmt.Errorf("its mails have no sender that is the same for everybody: %w", err)}
	}
	text := string(content.Append(nil))
	if len(text) > mail.MaxInlineBytes {
		what := "its content has %d bytes, at most %d go with each mail: make it a template"
		if m.Template != "" {
			what = "the id of its template and its variables have %d bytes, at most %d go with each mail: shorten its variables"
		}
		return mail.Send{}, nil, &Unsendable{fmt.Errorf(what, len(text), mail.MaxInlineBytes)}
	}
	with = contextual(source, content)
	return mail.Send{
		Recipients: 1, Priority: m.Priority, Class: m.Class, Form: mail.ContentTemplate,
		From: box.Address.String(), Route: m.Route, Tags: strings.Join(m.Tags, ","), Content: text,
	}, with, nil
}

// Contextual is the content of mails that have members of the context.
type Contextual struct {
	Members plan.Members

	// Waited are steps wait_for: the content names properties of what they have waited for.
	Waited []string

	content template.Content
	entered bool // the content has members of what the person entered with
}

// contextual makes it of what a template names; nil: nothing of the context.
func contextual(source *mail.TemplateVersion, content template.Content) *Contextual {
	names, all := template.ContextMembers(source)
	c := &Contextual{content: content, entered: all || len(names) > 0}
	c.Members.Add(plan.Members{All: all, Names: names})
	waited, allWaited := template.WaitedMembers(source)
	for _, w := range waited {
		c.Members.Add(plan.Members{Names: []string{journey.WaitedMember(w.Step, w.Property)}})
		c.Waited = append(c.Waited, w.Step)
	}
	if c.Members.AllWaited = allWaited; !c.Members.Any() {
		return nil
	}
	return c
}

// With returns the content of a mail with what its person entered with, and with what steps
// have waited for.
func (c *Contextual) With(context string) string {
	content := c.content
	entered, waited := plan.SplitWaited(c.Members.Of(context))
	if c.entered {
		content.Variables = template.WithContext(content.Variables, entered)
	}
	if c.Members.AllWaited || len(c.Waited) > 0 {
		content.Variables = template.WithWaited(content.Variables, waited)
	}
	return string(content.Append(nil))
}

// Unsendable says why the mails of a step cannot be made, whatever the database says
// later.
type Unsendable struct{ why error }

// Error implements error.
func (e *Unsendable) Error() string { return e.why.Error() }

// Unwrap returns the cause.
func (e *Unsendable) Unwrap() error { return e.why }

type env struct {
	ctx context.Context
	d   *Database
}

// Template implements plan.Env.
func (e *env) Template(id string, version int) (mail.Class, bool, error) {
	v, err := e.d.Templates.TemplateVersion(e.ctx, id, version)
	found, err := isThere(err)
	return v.Class, found, err
}

// Segment implements plan.Env.
func (e *env) Segment(id string) (string, bool, error) {
	s, err := e.d.Segments.Segment(e.ctx, id)
	found, err := isThere(err)
	return s.Definition, found, err
}

// Journey implements plan.Env.
func (e *env) Journey(id string) (bool, error) {
	_, err := e.d.Journeys.Journey(e.ctx, id)
	return isThere(err)
}

// isThere says whether an answer was that something is not there.
func isThere(err error) (bool, error) {
	if sluice.IsNotFound(err) {
		return false, nil
	}
	return err == nil, err
}

// Anything is an Env in which everything is there: templates for marketing, segments of
// those who have an address. It checks a document where there is no database.
type Anything struct{}

// Template implements plan.Env.
func (Anything) Template(string, int) (mail.Class, bool, error) {
	return mail.ClassMarketing, true, nil
}

// Segment implements plan.Env.
func (Anything) Segment(string) (string, bool, error) { return anySegment, true, nil }

const anySegment = `{"field":"email","is":"exists"}`

// Journey implements plan.Env.
func (Anything) Journey(string) (bool, error) { return true, nil }
