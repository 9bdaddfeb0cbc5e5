// Package desk is where journeys are written, checked, published and stopped, for the
// API and the command alike:
//
//	d := &desk.Desk{Database: env.Database{...}, Series: store, Clock: clock}
//	j, err := d.Create(ctx, desk.Written{Text: text, YAML: true})
//	p, err := d.Publish(ctx, j.ID, j.Revision)
//
// Nothing here moves anybody. A status that is set is read by the processes that do.
package desk

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"sluice"
	"sluice/journey"
	"sluice/journey/env"
	"sluice/journey/plan"
	"sluice/journey/step"
	"sluice/mail"
	"sluice/store"
	"sluice/user"
)

// Desk is the service. Its errors are *sluice.Error where the caller is to blame
// (*Refused where a document is), else those of the database. It may be used by many
// goroutines at once.
type Desk struct {
	Database env.Database
	Series   store.SeriesStore
	Clock    sluice.Clock

	// What PlacesOf and Why ask; nil: they are not called.
	Records Records
	Ways    Ways
	Sends   Sends             // Why alone
	History store.MailHistory // Why alone

	// What People, Show and Resume ask; nil: People and Resume are not called.
	Page       PageOfRecords
	Partitions int

	// Lanes says how much mail waits in the lanes of a partition (flow.Lanes.Waiting). With
	// Page it says where people stay; nil: not why, if it is for want of room.
	Lanes func(ctx context.Context, partition int) (map[string]int64, error)

	// Notes are what is noted of journeys in a partition (flow.Log.JourneyFields). With them
	// Show says how many are in a step by where people are; nil: by what was counted.
	Notes func(ctx context.Context, partition int) (map[string]string, error)

	// SendsDays is for how many days sends are kept (retention.sends); 0: for ever.
	SendsDays int

	// Caps and Control are what simulations and Why know of the settings: how much mail a person
	// gets, and the percentage of people who get no marketing mail of any journey.
	Caps    []journey.Cap
	Control int
}

// Sends has the mails of a user (mail.LedgerStore).
type Sends interface {
	UserSends(ctx context.Context, user user.ID, before mail.SendKey, limit int) ([]mail.SendRow, error)
}

// Written is a document as somebody has written it.
type Written struct {
	Text string
	YAML bool // else JSON
}

// Refused is a document of which something is wrong. Mails, and times of entry, are looked at
// only in a document of which nothing else is wrong; these problems have no line.
type Refused struct {
	Problems plan.Problems // in the order of the document, one at least
	err      *sluice.Error
}

// Error says how many problems there are, and each.
func (r *Refused) Error() string { return r.err.Message }

// Unwrap returns the refusal.
func (r *Refused) Unwrap() error { return r.err }

func refused(p plan.Problems) error {
	what := "1 thing is wrong with the journey"
	if len(p) != 1 {
		what = fmt.Sprintf("%d things are wrong with the journey", len(p))
	}
	return &Refused{p, sluice.Refuse(sluice.CodeInvalid, "%s:\n%s", what, p.Error())}
}

// judged returns an error of package plan as one of this package.
func judged(err error) error {
	if p, ok := errors.AsType[plan.Problems](err); ok {
		return refused(p)
	}
	return err
}

// read reads a draft: it need not be complete, but has no unknown members.
func read(w Written) (doc *plan.Document, draft string, err error) {
	parse := plan.ParseJSON
	if w.YAML {
		parse = plan.ParseYAML
	}
	if doc, err = parse(w.Text); err != nil {
		return nil, "", judged(err)
	}
	draft, err = draftOf(doc)
	return doc, draft, err
}

// draftOf is a document as a draft is kept: one that is longer could not be read again.
func draftOf(doc *plan.Document) (draft string, err error) {
	draft, err = doc.Text()
	if err == nil && len(draft) > plan.MaxDocumentBytes {
		err = sluice.Refuse(sluice.CodeInvalid, "the journey has %d bytes as JSON, want at most %d", len(draft), plan.MaxDocumentBytes)
	}
	return draft, err
}

// Read reads a document without checking more than Create and Update do.
func Read(w Written) (*plan.Document, error) {
	doc, _, err := read(w)
	return doc, err
}

// Create stores a new journey: a draft, which need not be complete yet.
func (d *Desk) Create(ctx context.Context, w Written) (store.Journey, error) {
	doc, draft, err := read(w)
	if err != nil {
		return store.Journey{}, err
	}
	return d.create(ctx, doc, draft)
}

func (d *Desk) create(ctx context.Context, doc *plan.Document, draft string) (store.Journey, error) {
	if !journey.ValidID(doc.ID) {
		return store.Journey{}, refused(plan.Problems{{Place: "id", Want: fmt.Sprintf("want the id of a journey: 1 to %d lower-case letters, digits and hyphens", journey.MaxIDBytes)}})
	}
	name, err := nameOf(doc)
	if err != nil {
		return store.Journey{}, err
	}
	now := d.Clock.Now().UnixMilli()
	return d.Database.Journeys.AddJourney(ctx, store.Journey{ID: doc.ID, Name: name, Status: journey.StatusDraft, Draft: draft, CreatedMillis: now, UpdatedMillis: now})
}

// nameOf is what a journey is listed as.
func nameOf(doc *plan.Document) (string, error) {
	if want := plan.LabelWanted(doc.Name, plan.MaxNameRunes); want != "" {
		return "", refused(plan.Problems{{Place: "name", Want: want}})
	}
	if doc.Name == "" {
		return doc.ID, nil
	}
	return doc.Name, nil
}

// Update replaces the draft. revision is that of the journey as the caller has read it:
// if it was changed since, the error has CodeConflict and nothing is written. People
// inside notice nothing before a publish.
func (d *Desk) Update(ctx context.Context, id string, revision int64, w Written) (store.Journey, error) {
	doc, draft, err := read(w)
	if err != nil {
		return store.Journey{}, err
	}
	j, err := d.at(ctx, id, revision)
	if err != nil {
		return j, err
	}
	if doc.ID != id {
		return j, refused(plan.Problems{{Place: "id", Want: fmt.Sprintf("want %s, which is the journey's and never changes; got %.64q", id, doc.ID)}})
	}
	if j.Status == journey.StatusStopped || j.Status == journey.StatusArchived {
		return j, sluice.Refuse(sluice.CodeConflict, "journey %s is %s and is never published again: copy it, and change the copy", id, j.Status)
	}
	if j.Name, err = nameOf(doc); err != nil {
		return j, err
	}
	j.Draft, j.UpdatedMillis = draft, d.Clock.Now().UnixMilli()
	if err = told(&j, d.Database.Journeys.PutJourney(ctx, j)); err != nil {
		return j, err
	}
	j.Revision++
	return j, nil
}

// at returns a journey, if it stands at a revision; negative: whatever it is.
func (d *Desk) at(ctx context.Context, id string, revision int64) (store.Journey, error) {
	if !journey.ValidID(id) {
		return store.Journey{}, sluice.Refuse(sluice.CodeNotFound, "there is no journey %.64q", id)
	}
	j, err := d.Database.Journeys.Journey(ctx, id)
	if err == nil && revision >= 0 && revision != j.Revision {
		err = changed(&j, revision)
	}
	return j, err
}

func changed(j *store.Journey, revision int64) error {
	return sluice.Refuse(sluice.CodeConflict, "journey %s was changed since revision %d was read; read it again, and decide anew", j.ID, revision)
}

// told turns the store's word for a change in between into the caller's.
func told(j *store.Journey, err error) error {
	if errors.Is(err, sluice.ErrConflict) {
		return changed(j, j.Revision)
	}
	return err
}

// Checked is what a document is found to be.
type Checked struct {
	Document *plan.Document
	Plan     *plan.Plan
	Warnings []Warning // what of it may not do what its author means
}

// Validate checks a document as a publish of the journey with its id does, and stores
// nothing. The error has what is wrong with it (Refused).
func (d *Desk) Validate(ctx context.Context, w Written) (*Checked, error) {
	return d.validateAt(ctx, w, d.Clock.Now(), func(id string) (version int, err error) {
		if !journey.ValidID(id) {
			return 0, nil
		}
		j, err := d.Database.Journeys.Journey(ctx, id)
		if e, ok := errors.AsType[*sluice.Error](err); ok && e.Code == sluice.CodeNotFound {
			return 0, nil
		}
		return j.Version, err
	})
}

// validateAt is Validate for a publish at a time; zero: no time of entry has passed.
// version is the last one of the journey with an id. Times that have passed are an error
// for the first: nobody would enter. Of others people may be on the way.
func (d *Desk) validateAt(ctx context.Context, w Written, now time.Time, version func(id string) (int, error)) (*Checked, error) {
	var late []Warning
	checked, err := validate(w, d.Database.Env(ctx), d.SendsDays, func(p *plan.Plan) (plan.Problems, error) {
		last, err := version(p.ID)
		if err != nil {
			return nil, err
		}
		problems, err := d.unsendable(ctx, p)
		for _, x := range passed(p, now) { // a time stands alone: there is one at most
			if last > 0 {
				late = append(late, Warning{x.place, x.says + ": nobody enters by it any more, but who was due before this publish"})
			} else {
				problems = slices.Insert(problems, 0, plan.Problem{Place: x.place, Want: "want a time that is to come: " + x.says + ", and nobody would enter"})
			}
		}
		return problems, err
	})
	if err != nil {
		return nil, err
	}
	checked.Warnings = slices.Insert(checked.Warnings, 0, late...)
	return checked, nil
}

// ValidateDraft is Validate of a journey's draft.
func (d *Desk) ValidateDraft(ctx context.Context, id string) (*Checked, error) {
	j, err := d.at(ctx, id, -1)
	if err != nil {
		return nil, err
	}
	return d.validateDraft(ctx, &j, d.Clock.Now())
}

// validateDraft is ValidateDraft at a time.
func (d *Desk) validateDraft(ctx context.Context, j *store.Journey, now time.Time) (*Checked, error) {
	return d.validateAt(ctx, Written{Text: j.Draft}, now, func(string) (int, error) { return j.Version, nil })
}

// ValidateAlone is Validate without a database: templates, segments and other journeys
// are taken to be there. What their mails have for a sender is not looked at, and neither
// is whether times of entry have passed.
func ValidateAlone(w Written) (*Checked, error) {
	return validate(w, env.Anything{}, 0, func(*plan.Plan) (plan.Problems, error) { return nil, nil })
}

func validate(w Written, e plan.Env, sendsDays int, further func(*plan.Plan) (plan.Problems, error)) (*Checked, error) {
	load := plan.LoadJSON
	if w.YAML {
		load = plan.LoadYAML
	}
	doc, p, err := load(w.Text, e)
	if err != nil {
		return nil, judged(err)
	}
	if _, err := step.New(p); err != nil {
		return nil, refused(plan.Problems{{Place: "steps", Want: err.Error()}})
	}
	problems, err := further(p)
	if err != nil {
		return nil, err
	}
	if len(problems) > 0 {
		return nil, refused(problems)
	}
	return &Checked{doc, p, warningsOf(doc, sendsDays)}, nil
}

// unsendable are the steps whose mails could not be made when people are there.
func (d *Desk) unsendable(ctx context.Context, p *plan.Plan) (all plan.Problems, err error) {
	for i := range p.Steps {
		s := &p.Steps[i]
		if s.Message == nil {
			continue
		}
		_, with, err := d.Database.Mailing(ctx, s.Message)
		bad, ok := errors.AsType[*env.Unsendable](err)
		switch {
		case with != nil && p.NotWaited(i, with.Waited) != "":
			all = append(all, plan.Problem{Place: "steps." + s.ID + ".message", Want: "its mail names what a step has waited for: " + p.NotWaited(i, with.Waited)})
		case ok:
			all = append(all, plan.Problem{Place: "steps." + s.ID + ".message", Want: bad.Error()})
		case err != nil:
			return nil, err
		}
	}
	return all, nil
}

// Published is what a publish has made.
type Published struct {
	Journey  store.Journey
	Version  int
	Warnings []Warning
}

// Publish makes the draft a version. People enter it from then on, those inside keep
// theirs. A journey that is paused stays so. revision is as for Update; negative: the
// draft is published whatever it is by now.
func (d *Desk) Publish(ctx context.Context, id string, revision int64) (*Published, error) {
	j, err := d.at(ctx, id, revision)
	if err == nil {
		_, err = allowed(&j, Publish)
	}
	if err != nil {
		return nil, err
	}
	// One moment for both: a time of entry behind it is still to come for the version.
	now := d.Clock.Now()
	checked, err := d.validateDraft(ctx, &j, now)
	if err != nil {
		return nil, err
	}
	if err := d.hasPlace(ctx, &j); err != nil {
		return nil, err
	}
	if j.Status != journey.StatusPaused {
		j.Status = journey.StatusLive
	}
	j.UpdatedMillis = now.UnixMilli()
	text, err := checked.Plan.Version()
	if err != nil {
		return nil, err
	}
	version, _, err := d.Database.Journeys.Publish(ctx, j, text, checked.Plan.Names())
	if err != nil {
		return nil, told(&j, err)
	}
	j.Version = version
	j.Revision++
	return &Published{j, version, checked.Warnings}, nil
}

// hasPlace refuses a version that a record could not tell from one in use: records keep
// the last 8 bits of a version's number.
func (d *Desk) hasPlace(ctx context.Context, j *store.Journey) error {
	used, err := d.used(ctx, j)
	if err != nil {
		return err
	}
	for _, v := range used {
		if uint8(v.Version) == uint8(j.Version+1) {
			return sluice.Refuse(sluice.CodeConflict, "version %d of journey %s cannot be told from version %d, which people are inside: wait until they are out, or stop this journey and go on with a copy", j.Version+1, j.ID, v.Version)
		}
	}
	return nil
}

// used are the versions of a journey that are in use.
func (d *Desk) used(ctx context.Context, j *store.Journey) (versions []store.JourneyVersion, err error) {
	all, err := d.Database.Journeys.VersionsInUse(ctx)
	for _, v := range all {
		if v.Journey == j.Number {
			versions = append(versions, v)
		}
	}
	return versions, err
}
