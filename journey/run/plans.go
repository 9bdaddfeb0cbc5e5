package run

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"sluice"
	"sluice/journey"
	"sluice/journey/plan"
	"sluice/journey/step"
	"sluice/lib/mime"
	"sluice/mail"
	"sluice/mail/template"
	"sluice/store"
	"sluice/user"
)

// plans are the versions of a journey that people are in.
type plans struct {
	number   int64
	id       string
	current  *version           // that people enter; nil: nobody enters
	versions map[uint8]*version // by their place in records
}

// version is one of them. Its place in records is its number without what is above 8
// bits: 255 at most are in use at a time (store.MaxVersionsInUse), and a number that
// shares its place with one in use is not given.
type version struct {
	place uint8
	walk  *step.Journey
	mails map[int]*mailing // by step
}

// mailing is what the mails of a step have in common.
type mailing struct {
	send         mail.Send // without recipient and times
	latestMillis int64     // how long after it is due a mail may leave
}

// wants reports whether a fact may change where anybody is.
func (j *plans) wants(f *journey.Fact) bool {
	for _, v := range j.versions {
		if v.walk.Wants(f) {
			return true
		}
	}
	return false
}

// Loader reads the versions of journeys that are in use, and compiles them.
type Loader struct {
	Journeys  store.JourneyStore
	Templates mail.TemplateStore
	Segments  user.SegmentStore
	Log       *slog.Logger
}

// Load returns the journeys, and the publish number under which they were read. A
// journey that cannot be read stands still and says so; others are not kept waiting.
func (l *Loader) Load(ctx context.Context) (all []*plans, published int64, err error) {
	names, err := l.Journeys.Registered(ctx) // before the versions: what changes between is seen by the next look
	if err != nil {
		return nil, 0, err
	}
	versions, err := l.Journeys.VersionsInUse(ctx)
	if err != nil {
		return nil, 0, err
	}
	byNumber := make(map[int64][]store.JourneyVersion)
	for _, v := range versions {
		byNumber[v.Journey] = append(byNumber[v.Journey], v)
	}
	for after := ""; ; {
		page, err := l.Journeys.Journeys(ctx, after, journeysAtOnce)
		if err != nil {
			return nil, 0, err
		}
		for i := range page {
			in := byNumber[page[i].Number]
			if len(in) == 0 {
				continue
			}
			one, err := l.one(ctx, &page[i], in)
			if err != nil {
				l.Log.Error("journey stands still: one of its versions cannot be read", "journey", page[i].ID, "error", err)
				continue
			}
			all = append(all, one)
		}
		if len(page) < journeysAtOnce {
			return all, names.Published(), nil
		}
		after = page[len(page)-1].ID
	}
}

// journeysAtOnce are read by one statement.
const journeysAtOnce = 100

func (l *Loader) one(ctx context.Context, j *store.Journey, versions []store.JourneyVersion) (*plans, error) {
	one := &plans{number: j.Number, id: j.ID, versions: make(map[uint8]*version)}
	for i := range versions {
		v, err := l.version(ctx, &versions[i])
		if err != nil {
			return nil, fmt.Errorf("version %d: %w", versions[i].Version, err)
		}
		one.versions[v.place] = v
		if versions[i].Version == j.Version && j.Status == journey.StatusLive {
			one.current = v
		}
	}
	return one, nil
}

func (l *Loader) version(ctx context.Context, stored *store.JourneyVersion) (*version, error) {
	_, p, err := plan.LoadJSON(stored.Document, &env{ctx, l})
	if err != nil {
		return nil, err
	}
	walk, err := step.New(p)
	if err != nil {
		return nil, err
	}
	v := &version{place: uint8(stored.Version), walk: walk, mails: make(map[int]*mailing)}
	for i := range p.Steps {
		if m := p.Steps[i].Message; m != nil {
			if v.mails[i], err = l.mailing(ctx, m); err != nil {
				return nil, fmt.Errorf("step %s: %w", p.Steps[i].ID, err)
			}
		}
	}
	return v, nil
}

// mailing prepares the mails of a step.
func (l *Loader) mailing(ctx context.Context, m *plan.Mailing) (*mailing, error) {
	content := template.Content{Template: m.Template, Version: m.Version, Mail: m.Content, Variables: m.Variables}
	from := m.From
	if m.Content != nil && from == "" {
		from = m.Content.From
	}
	if m.Template != "" {
		v, err := l.Templates.TemplateVersion(ctx, m.Template, m.Version)
		if err != nil {
			return nil, err
		}
		if content.Version = v.Version; from == "" {
			from = v.From
		}
	}
	box, err := mime.ParseMailbox(from)
	if err != nil {
		return nil, fmt.Errorf("its mails have no sender that is the same for everybody: %w", err)
	}
	text := string(content.Append(nil))
	if len(text) > mail.MaxInlineBytes {
		return nil, fmt.Errorf("its content has %d bytes, at most %d go with each mail: make it a template", len(text), mail.MaxInlineBytes)
	}
	return &mailing{latestMillis: m.LatestSeconds * 1000, send: mail.Send{
		Recipients: 1, Priority: m.Priority, Class: m.Class, Form: mail.ContentTemplate,
		From: box.Address.String(), Route: m.Route, Tags: strings.Join(m.Tags, ","), Content: text,
	}}, nil
}

// env answers what a document asks of the database.
type env struct {
	ctx context.Context
	l   *Loader
}

// Template implements plan.Env.
func (e *env) Template(id string, version int) (mail.Class, bool, error) {
	v, err := e.l.Templates.TemplateVersion(e.ctx, id, version)
	found, err := isThere(err)
	return v.Class, found, err
}

// Segment implements plan.Env.
func (e *env) Segment(id string) (string, bool, error) {
	s, err := e.l.Segments.Segment(e.ctx, id)
	found, err := isThere(err)
	return s.Definition, found, err
}

// Journey implements plan.Env.
func (e *env) Journey(id string) (bool, error) {
	_, err := e.l.Journeys.Journey(e.ctx, id)
	return isThere(err)
}

// isThere says whether an answer was that something is not there.
func isThere(err error) (bool, error) {
	var e *sluice.Error
	if errors.As(err, &e) && e.Code == sluice.CodeNotFound {
		return false, nil
	}
	return err == nil, err
}
