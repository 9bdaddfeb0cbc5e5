package run

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"sluice"
	"sluice/flow"
	"sluice/journey"
	"sluice/journey/env"
	"sluice/journey/plan"
	"sluice/journey/step"
	"sluice/mail"
	"sluice/store"
	"sluice/user"
)

// plans are the versions of a journey that people are in.
type plans struct {
	number   int64
	id       string
	newest   int                // the number of the version that was published last
	current  *version           // that people enter; nil: nobody enters
	versions map[uint8]*version // by their place in records
	lanes    map[string]string  // of their mails, with all tags that these bear there, separated by commas

	perMinute  int64           // mails that it makes at most, as its newest version says; 0: no bound
	templates  map[string]bool // of which steps name no version
	unsendable []unsendable    // steps at which people stay

	circle   bool   // a decision that lets people in may lead back to it
	past     past   // versions that have ended
	paused   bool   // nobody gets mail, and nobody whose time has come goes on
	restored uint64 // the millisecond of the restore that has paused it; 0: none has
	updated  int64  // the millisecond of the last publish or change of status; a change of the draft counts too
	skip     int64  // messages that were due up to this millisecond are left out; 0: none are
	stopped  bool   // all who are inside are taken out
}

// version is one of them. Its place in records is its number without what is above 8
// bits: 255 at most are in use at a time (store.MaxVersionsInUse), and a number that
// shares its place with one in use is not given.
type version struct {
	number int
	place  uint8
	walk   *step.Journey
	holds  *step.Journey    // the same, but that people stay at message steps
	held   *step.Journey    // the same, but that they stay at updates too
	skips  *step.Journey    // the same, but that they pass these without mail
	mails  map[int]*mailing // by step
	stay   map[int]bool     // message steps whose mail cannot be made now: people stay there
	asks   mailNeeds        // what its rules ask about mail
	where  []placeNeed      // and about where people are
	keeps  plan.Members     // what of the context it looks at after waits
	atOnce int              // how many people are decided about at once

	mostBytes int // that one person comes to by one decision, about

	publishedMillis int64
}

// mailing is what the mails of a step have in common.
type mailing struct {
	step.Mailing
	send         mail.Send       // without recipient and times
	lane         string          // that the mails are queued in
	latestMillis int64           // how long after it is due a mail may leave
	with         *env.Contextual // the content, if it has members of the context; else nil
}

// unsendable is a message step at which people stay, for its mail cannot be made now.
type unsendable struct {
	step string
	mail *plan.Mailing
	why  error
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

// entered is the version that a fact may let people in by; nil: none.
//
// Behind a restore the journey is paused, and people are where the last checkpoint in the
// backup has them. Those who entered after it are in none: what let them in is told again in
// the pause, and nothing tells of it a third time. How many a limit has let in by then is not
// known in a pause, so nobody enters a limited journey.
func (j *plans) entered(f *journey.Fact) *version {
	if j.current != nil || !j.paused || f.Place.Position.Major > j.restored {
		return j.current
	}
	if v := j.versions[uint8(j.newest)]; v != nil && !v.limited() {
		return v
	}
	return nil
}

// Loader reads the versions of journeys that are in use, and compiles them.
type Loader struct {
	Journeys  store.JourneyStore
	Templates mail.TemplateStore
	Segments  user.SegmentStore
	Caps      []journey.Cap
	Control   int // percent of all people who get no marketing mail of any journey
	Log       *slog.Logger

	kept versionsKept
}

// loadsAtMost is how often journeys are read to have them as of one publish number.
const loadsAtMost = 5

// Load returns the journeys, and the publish number under which they were read. A
// journey that cannot be read stands still and says so; others are not kept waiting.
//
// Where others are published each time that journeys are read, what was read last is used:
// each journey is whole (since), and the session ends when it sees the number of now. Until
// then people move who are due.
func (l *Loader) Load(ctx context.Context) (all []*plans, published int64, err error) {
	for range loadsAtMost {
		if all, published, err = l.load(ctx); err != nil {
			return nil, 0, err
		}
		now, err := l.Journeys.Published(ctx)
		if err != nil {
			return nil, 0, err
		}
		if now == published {
			break
		}
	}
	return all, published, nil
}

// since reads the versions that were published of a journey after its versions were read and
// before it was read itself. Without the one that people enter, who goes there from another
// journey would be told that it was stopped.
func (l *Loader) since(ctx context.Context, j *store.Journey, versions []store.JourneyVersion) ([]store.JourneyVersion, error) {
	last := 0
	for i := range versions {
		last = max(last, versions[i].Version)
	}
	for number := j.Version; number > last; number-- {
		v, err := l.Journeys.JourneyVersion(ctx, j.Number, number)
		if err != nil {
			return nil, err
		}
		if v.EndedMillis != 0 {
			break // so have those before
		}
		versions = append(versions, v)
	}
	slices.SortFunc(versions, func(a, b store.JourneyVersion) int { return a.Version - b.Version })
	return versions, nil
}

func (l *Loader) load(ctx context.Context) (all []*plans, published int64, err error) {
	names, err := l.Journeys.Registered(ctx) // before the versions: what changes between is seen by the next look
	if err != nil {
		return nil, 0, err
	}
	versions, err := l.Journeys.VersionsInUse(ctx)
	if err != nil {
		return nil, 0, err
	}
	current, err := l.inUse(ctx)
	if err != nil {
		return nil, 0, err
	}
	db := &env.Database{Journeys: l.Journeys, Templates: &loadTemplates{l.Templates, &l.kept, current}, Segments: l.Segments}
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
			if len(in) == 0 && page[i].Version == 0 {
				continue
			}
			if page[i].Status == journey.StatusLive || page[i].Status == journey.StatusPaused {
				if in, err = l.since(ctx, &page[i], in); err != nil {
					return nil, 0, err
				}
			}
			one, err := l.one(ctx, db, &page[i], in)
			if err != nil && !lasting(err) {
				return nil, 0, err
			}
			if err != nil {
				l.Log.Error("journey stands still: one of its versions cannot be read", "journey", page[i].ID, "error", err)
				continue
			}
			all = append(all, one)
		}
		if len(page) < journeysAtOnce {
			findCircles(all)
			return all, names.Published(), nil
		}
		after = page[len(page)-1].ID
	}
}

// lasting reports whether an error is about the journey. Others are of the database, and
// the session is tried again: without a journey its facts would be passed over.
func lasting(err error) bool {
	var problems plan.Problems
	var unreadable *unreadableError
	return errors.As(err, &problems) || errors.As(err, &unreadable)
}

// unreadableError is a version that cannot be walked.
type unreadableError struct{ error }

// journeysAtOnce are read by one statement.
const journeysAtOnce = 100

func (l *Loader) one(ctx context.Context, db *env.Database, j *store.Journey, versions []store.JourneyVersion) (*plans, error) {
	one := &plans{number: j.Number, id: j.ID, newest: j.Version, versions: make(map[uint8]*version), lanes: make(map[string]string), templates: make(map[string]bool)}
	one.skip, one.updated = j.SkipUntilMillis, j.UpdatedMillis
	one.paused, one.restored = j.Status == journey.StatusPaused, uint64(max(0, j.RestoredMillis))
	one.stopped = j.Status == journey.StatusStopped || j.Status == journey.StatusArchived
	for i := range versions {
		v, stays, err := l.version(ctx, db, &versions[i])
		if err != nil {
			return nil, fmt.Errorf("version %d: %w", versions[i].Version, err)
		}
		one.unsendable = append(one.unsendable, stays...)
		if one.paused {
			v.walk, v.holds, v.held = v.walk.Paused().Standing(), v.holds.Standing(), v.held.Standing()
		}
		one.versions[v.place] = v
		v.lanesOf(one.lanes)
		v.templatesOf(one.templates)
		one.perMinute = v.walk.Plan().PerMinute
		if versions[i].Version == j.Version && j.Status == journey.StatusLive {
			one.current = v
		}
	}
	return one, nil
}

func (l *Loader) version(ctx context.Context, db *env.Database, stored *store.JourneyVersion) (v *version, stays []unsendable, err error) {
	_, p, err := plan.LoadVersion(stored.Document, db.Env(ctx))
	if err != nil {
		return nil, nil, err
	}
	walk, err := step.New(p)
	if err != nil {
		return nil, nil, &unreadableError{err}
	}
	stay := make(map[int]bool)
	keeps := p.Context()
	walk = walk.Staying(stay).Keeping(&keeps)
	v = &version{number: stored.Version, place: uint8(stored.Version), walk: walk, holds: walk.Paused(), held: walk.Held(), skips: walk.Skipping(), stay: stay, mails: make(map[int]*mailing), asks: mailNeedsOf(p.Needs), where: placeNeedsOf(p.Needs), publishedMillis: stored.CreatedMillis}
	for i := range p.Steps {
		m := p.Steps[i].Message
		if m == nil {
			continue
		}
		one, err := l.mailing(ctx, db, m)
		if isUnsendable(err) {
			l.Log.Error("a step of a journey has no mail that can be made: people stay at it", "journey", p.ID, "step", p.Steps[i].ID, "error", err)
			stay[i] = true
			stays = append(stays, unsendable{p.Steps[i].ID, m, err})
			continue
		}
		if err != nil {
			return nil, nil, fmt.Errorf("step %s: %w", p.Steps[i].ID, err)
		}
		if v.mails[i] = one; one.with != nil {
			keeps.Add(one.with.Members)
		}
	}
	v.keeps = keeps
	v.weigh()
	return v, stays, nil
}

// isUnsendable reports whether the mails of a step cannot be made as templates are now.
func isUnsendable(err error) bool {
	var e *env.Unsendable
	return errors.As(err, &e) || sluice.IsNotFound(err)
}

// mailing prepares the mails of a step.
func (l *Loader) mailing(ctx context.Context, db *env.Database, m *plan.Mailing) (*mailing, error) {
	send, with, err := db.Mailing(ctx, m)
	if err != nil {
		return nil, err
	}
	one := &mailing{with: with, Mailing: step.MailingOf(m, l.Caps), lane: flow.LaneName(send.Priority, send.Class), latestMillis: m.LatestSeconds * 1000, send: send}
	one.send.IgnoresCaps = m.IgnoreCaps
	return one, nil
}

// database is where it looks up what journeys are made of.
func (l *Loader) database() *env.Database {
	return &env.Database{Journeys: l.Journeys, Templates: l.Templates, Segments: l.Segments}
}

// lanesOf are the lanes that mails of a version are queued in, with their tags.
func (v *version) lanesOf(lanes map[string]string) {
	for _, m := range v.mails {
		tags := lanes[m.lane]
		for tag := range strings.SplitSeq(m.send.Tags, ",") {
			if !mail.HasTag(tags, tag) {
				tags = strings.Trim(tags+","+tag, ",")
			}
		}
		lanes[m.lane] = tags
	}
}

// templatesOf are the templates of which steps name no version.
func (v *version) templatesOf(templates map[string]bool) {
	for _, s := range v.walk.Plan().Steps {
		if s.Message != nil && s.Message.Template != "" && s.Message.Version == 0 {
			templates[s.Message.Template] = true
		}
	}
}
