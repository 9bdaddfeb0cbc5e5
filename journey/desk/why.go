package desk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"sluice"
	"sluice/journey"
	"sluice/journey/plan"
	"sluice/journey/step"
	"sluice/lib/nearest"
	"sluice/mail"
	"sluice/store"
	"sluice/user"
	"sluice/user/rule"
)

// Why says why a person did or did not get something of a journey.
//
// The idea. What is known for certain is where the person is, which branches it took and
// what the ledger has of its mail. What rules looked at is known as it is now: the
// profile, and mail. So the answer says in each sentence that is about now that it is.
type Why struct {
	Place *Place // nil: the person never entered
	Says  []string
	Rules []Explained
	Mail  []WhyMail // of this occurrence, of the step alone if one is named; the newest first
}

// Explained is a rule with what each of its conditions finds in the person now.
type Explained struct {
	Place   string // in the document
	Finding *rule.Finding
}

// WhyMail is a mail of the journey, as the ledger has it.
type WhyMail struct {
	Step, Variant, Message, State, Reason string
	AcceptedMillis                        int64
}

// sendsLookedAt bounds how many of a person's sends are looked through.
const sendsLookedAt = 1000

// why is one answer in the making.
type why struct {
	*Desk
	journey store.Journey
	person  user.Row
	doc     *plan.Document
	plan    *plan.Plan
	record  journey.Record
	branch  []int
	segment map[string]string // rules that the version keeps, by segment
	unread  bool              // the person may have more sends than were looked through
	Why
}

// Why explains where a person is in a journey and what mail of it the person got; with a
// step, of that step alone.
func (d *Desk) Why(ctx context.Context, id, stepID string, person user.Row) (*Why, error) {
	j, err := d.at(ctx, id, -1)
	if err != nil {
		return nil, err
	}
	w := &why{Desk: d, journey: j, person: person}
	if j.Version == 0 {
		w.say("journey %s was never published: nobody has entered it", id)
		return &w.Why, nil
	}
	if err := w.read(ctx); err != nil {
		return nil, err
	}
	at := -1
	if stepID != "" {
		if at = w.plan.Index(stepID); at < 0 {
			known := make([]string, len(w.plan.Steps))
			for i := range w.plan.Steps {
				known[i] = w.plan.Steps[i].ID
			}
			return nil, sluice.Refuse(sluice.CodeNotFound, "journey %s has no step %.64q in the version that counts for this person%s", id, stepID, nearest.Hint(stepID, known))
		}
	}
	if w.Place == nil {
		return &w.Why, w.neverEntered(ctx)
	}
	if err := w.sends(ctx, stepID); err != nil {
		return nil, err
	}
	if err := w.stands(ctx); err != nil {
		return nil, err
	}
	if at >= 0 && w.record.State != journey.StateControl && (w.Place == nil || w.Place.Version != 0) {
		err = w.step(ctx, at)
	}
	return &w.Why, err
}

func (w *why) say(format string, args ...any) { w.Says = append(w.Says, fmt.Sprintf(format, args...)) }

// read reads where the person is, and the version that this is in, or that people enter.
func (w *why) read(ctx context.Context) error {
	raw, err := w.Records(ctx, w.person.ID, w.journey.Number)
	if err != nil {
		return err
	}
	version := w.journey.Version
	if !raw.IsZero() {
		if err := w.record.Decode(raw[:]); err != nil {
			return fmt.Errorf("user %s in journey %s: %w", w.person.ID, w.journey.ID, err)
		}
		w.record = w.record.AsOf(w.Clock.Now())
		place, err := w.place(ctx, w.person.ID, &w.journey, &w.record)
		if err != nil {
			return err
		}
		if w.Place = &place; place.Version != 0 {
			version = place.Version
		} else {
			w.say("the person is in a version that the database has lost, because it has gone back; what follows is about version %d", version)
		}
		if w.branch, err = w.Ways(ctx, w.person.ID, w.journey.Number); err != nil {
			return err
		}
	}
	v, err := w.Database.Journeys.JourneyVersion(ctx, w.journey.Number, version)
	if err != nil {
		return err
	}
	_, w.segment = plan.SplitVersion(v.Document)
	if w.doc, w.plan, err = plan.LoadVersion(v.Document, w.Database.Env(ctx)); err != nil {
		return fmt.Errorf("read version %d of journey %s: %w", v.Version, w.journey.ID, err)
	}
	return nil
}

// neverEntered says what would have to happen, and whether the rule holds now.
func (w *why) neverEntered(ctx context.Context) error {
	known, err := w.isKnownIn(ctx, w.person.ID.Partition)
	if err != nil {
		return err
	}
	if !known {
		w.say("where people of partition %d are is not known yet: ask again when a program with the role journey has opened it", w.person.ID.Partition)
		return nil
	}
	w.say("this person never entered journey %s", w.journey.ID)
	if w.journey.Status != journey.StatusLive {
		w.say("it is %s: nobody enters it", w.journey.Status)
	}
	var on []string
	for i := range w.plan.Entry.When {
		x := &w.plan.Entry.When[i]
		on = append(on, strings.TrimSpace(x.Kind.String()+" "+x.Name))
	}
	w.say("people enter version %d by: %s", w.journey.Version, strings.Join(on, ", "))
	if w.doc.Entry.Who == "" {
		w.say("no rule says who enters: a trigger alone decides")
		return nil
	}
	return w.explain(ctx, "entry.who", string(w.doc.Entry.Who))
}

// stands says where the person is.
func (w *why) stands(ctx context.Context) error {
	p := w.Place
	entered, at := instantText(p.Entered), "step "+p.Step
	if p.Step == "" {
		at = "a step that is not known"
	}
	switch p.State {
	case journey.StateControl:
		w.say("the person entered at %s and is in the control group, which gets nothing", entered)
	case journey.StateInside:
		until := "until something happens"
		if p.DueMillis > 0 {
			until = "until " + instantText(p.DueMillis)
		}
		w.say("the person entered at %s and is at %s %s", entered, at, until)
		if p.Status == journey.StatusPaused {
			w.say("the journey is paused: nobody goes on")
		}
	case journey.StateExited:
		w.say("the person entered at %s and was taken out at %s", entered, at)
		if err := w.takenOut(ctx); err != nil {
			return err
		}
	default:
		w.say("the person entered at %s and went to the end, by %s", entered, at)
	}
	return w.again(ctx)
}

// step says what became of a step.
func (w *why) step(ctx context.Context, at int) error {
	s := &w.plan.Steps[at]
	way := w.plan.Trace(int(w.record.Step), w.branch)
	here := int(w.record.Step) == at
	left := w.record.State == journey.StateFinished || w.record.State == journey.StateWatching
	switch {
	case way == nil:
		w.say("which way the person went is not known: it went before branches were kept")
	case here && !left:
		w.say("the person has not gone on from step %s", s.ID)
	case slices.Contains(way, at):
		w.say("the person went on from step %s%s", s.ID, w.by(at))
		return w.leftOut(ctx, s)
	case w.record.State == journey.StateInside && w.leadsTo(int(w.record.Step), at):
		w.say("step %s is still to come, if the way leads there", s.ID)
	default:
		return w.turned(ctx, way, at)
	}
	return nil
}

// by names the branch that was taken at a step.
func (w *why) by(at int) string {
	if name := branchTaken(&w.plan.Steps[at], w.branch); name != "" {
		return " by " + name
	}
	return ""
}

// leftOut says why a step that was passed has no mail.
func (w *why) leftOut(ctx context.Context, s *plan.PlanStep) error {
	if s.Kind != plan.StepMessage {
		return nil
	}
	if len(w.Mail) > 0 {
		m := &w.Mail[0]
		w.say("its mail %s is %s %s", m.Message, m.State, m.Reason)
		return nil
	}
	if w.unread {
		w.say("among the newest %d mails of this person there is none of it: it was sent before them, or left out", sendsLookedAt)
	} else {
		w.say("the ledger has no mail of it: the mail was left out, or its row was not kept so long")
	}
	if w.journey.SkipUntilMillis >= int64(w.record.Entered)*1000 { // 0: it never was
		w.say("the journey was resumed at %s without the messages that were due by then", instantText(w.journey.SkipUntilMillis))
	}
	w.say("who comes to the step more than %s after its time gets none", plan.DurationText(int64(s.Message.LatestSeconds)))
	fields := profileOfMail(w.person.Profile, s.Message.Group)
	for _, reason := range fields.reasons(s.Message.Class == mail.ClassMarketing) {
		w.say("%s", reason)
	}
	if w.plan.Quiet != nil && w.plan.Quiet.Skip && !s.Message.IgnoreQuiet {
		w.say("quiet hours leave mail out")
	}
	return w.ofMarketing(ctx, s)
}

// turned says where the way turned off that leads to a step, and by which rule.
func (w *why) turned(ctx context.Context, way []int, to int) error {
	for i := len(way) - 2; i >= 0; i-- {
		s, next := &w.plan.Steps[way[i]], way[i+1]
		if w.leadsTo(next, to) {
			break // the way led there still
		}
		if !w.leadsTo(way[i], to) {
			continue
		}
		w.say("the person did not come to step %s: it went from step %s%s", w.plan.Steps[to].ID, s.ID, w.by(way[i]))
		doc := &w.doc.Steps[way[i]]
		switch {
		case doc.Split != nil:
			return w.explain(ctx, "steps."+s.ID+".split.if", string(doc.Split.If))
		case doc.Audiences != nil:
			for n := range doc.Audiences.Paths {
				if err := w.explain(ctx, fmt.Sprintf("steps.%s.audiences.paths[%d].if", s.ID, n), string(doc.Audiences.Paths[n].If)); err != nil {
					return err
				}
			}
		case doc.Random != nil:
			w.say("chance decided, the same for this person each time")
		}
		return nil
	}
	w.say("the person left before step %s", w.plan.Steps[to].ID)
	return nil
}

// leadsTo reports whether a way leads from one step to another behind it.
func (w *why) leadsTo(from, to int) bool {
	seen := make([]bool, len(w.plan.Steps))
	var visit func(at int) bool
	visit = func(at int) bool {
		if at == plan.Out || seen[at] {
			return false
		}
		seen[at] = true
		s := &w.plan.Steps[at]
		next := []int{s.Next}
		for i := range s.Paths {
			next = append(next, s.Paths[i].Next)
		}
		if s.Delay != nil && s.Delay.Date != nil {
			next = append(next, s.Delay.Date.Otherwise)
		}
		return slices.ContainsFunc(next, func(n int) bool { return n == to || visit(n) })
	}
	return visit(from)
}

// explain adds a rule with what it finds now.
func (w *why) explain(ctx context.Context, place, text string) error {
	r, err := rule.CompileFor(text, rule.Options{Allow: rule.Everything, Segment: func(id string) (*rule.Rule, error) { return w.segmentRule(ctx, id) }})
	if err != nil {
		w.say("%s cannot be shown: %v", place, err)
		return nil
	}
	set, err := rule.NewSet(r)
	if err != nil {
		return err
	}
	known, err := w.known(ctx, set.Needs())
	if err != nil {
		return err
	}
	given := rule.Given{Known: known}
	entered := "what the person entered with is not known any more"
	if asked := set.Context(); len(asked) == 0 {
		entered = ""
	} else if given.Context, err = w.context(ctx); err != nil {
		return err
	} else if given.Context != "" {
		entered = "what the person entered with is as it was"
	}
	f, err := r.ExplainGiven(w.person.Profile, w.person.ID.Hash(), w.Clock.Now().UnixMilli(), given)
	if err != nil {
		return err
	}
	word := "does not hold"
	if f.Holds {
		word = "holds"
	}
	w.say("%s", strings.TrimSuffix(fmt.Sprintf("%s %s now; the profile may have been another when it was asked; %s", place, word, entered), "; "))
	w.Rules = append(w.Rules, Explained{place, f})
	return nil
}

// segmentRule is the rule of a segment as the version keeps it, and as people go by it. A
// version of before they were kept goes by that of now.
func (w *why) segmentRule(ctx context.Context, id string) (*rule.Rule, error) {
	definition, found := w.segment[id]
	var err error
	if !found {
		definition, found, err = w.Database.Env(ctx).Segment(id)
	}
	if err == nil && !found {
		err = errors.New("there is no such segment now")
	}
	if err != nil {
		return nil, err
	}
	return rule.Compile(definition)
}

// context is what is kept of what the person entered with, the last time; empty: nothing.
func (w *why) context(ctx context.Context) (string, error) {
	kept, err := w.Database.Journeys.Contexts(ctx, w.person.ID.Partition, w.journey.Number, []int64{w.person.ID.Number})
	if err != nil || len(kept) == 0 || !kept[0].Of(&w.record) {
		return "", err
	}
	return kept[0].Body, nil
}

// known answers what a rule asks beside the profile, as of now.
func (w *why) known(ctx context.Context, needs []rule.Need) (bits uint64, err error) {
	for i := range needs {
		n := &needs[i]
		var holds bool
		if n.Journey != "" {
			holds, err = w.inJourney(ctx, n)
		} else {
			holds, err = w.gotMail(ctx, n)
		}
		if err != nil {
			return 0, err
		}
		if holds {
			bits |= 1 << i
		}
	}
	return bits, nil
}

func (w *why) inJourney(ctx context.Context, n *rule.Need) (bool, error) {
	other := &why{Desk: w.Desk, person: w.person}
	var err error
	if other.journey, err = w.Database.Journeys.Journey(ctx, n.Journey); err != nil || other.journey.Version == 0 {
		var gone *sluice.Error
		if errors.As(err, &gone) && gone.Code == sluice.CodeNotFound {
			err = nil
		}
		return false, err
	}
	if err := other.read(ctx); err != nil {
		return false, err
	}
	return other.plan.Answers(n, &other.record, other.branch), nil
}

func (w *why) gotMail(ctx context.Context, n *rule.Need) (bool, error) {
	asked := store.MailAsked{Event: n.Event, Of: n.Of}
	if n.Days > 0 {
		asked.SinceMillis = w.Clock.Now().Add(-time.Duration(n.Days) * 24 * time.Hour).UnixMilli()
	}
	found, err := w.History.MailKnown(ctx, append(w.formerly().Former(), w.person.ID), []store.MailAsked{asked})
	holds := false
	for _, bits := range found { // of each of them
		holds = holds || bits != 0
	}
	return holds, err
}

// formerly is the person with those who were merged into it.
func (w *why) formerly() *step.Person {
	return &step.Person{ID: w.person.ID, Profile: w.person.Profile}
}

// sends reads the mail of this occurrence: also of a former user whose place it was.
func (w *why) sends(ctx context.Context, stepID string) error {
	if former := w.formerly().NamedAs(w.record.Former); former != w.person.ID {
		if err := w.sendsOf(ctx, former, stepID); err != nil {
			return err
		}
	}
	if err := w.sendsOf(ctx, w.person.ID, stepID); err != nil {
		return err
	}
	slices.SortStableFunc(w.Mail, func(a, b WhyMail) int { return cmp.Compare(b.AcceptedMillis, a.AcceptedMillis) })
	return nil
}

// sendsOf adds those of one user, of the newest sendsLookedAt.
func (w *why) sendsOf(ctx context.Context, of user.ID, stepID string) error {
	var before mail.SendKey
	for range sendsLookedAt / listedAtOnce {
		page, err := w.Sends.UserSends(ctx, of, before, listedAtOnce)
		if err != nil {
			return err
		}
		for i := range page {
			r := &page[i]
			before = r.Key()
			if r.Journey == w.journey.ID && r.Occurrence == int(w.record.Occurrence) && (stepID == "" || r.Step == stepID) {
				w.Mail = append(w.Mail, WhyMail{r.Step, r.Variant, r.Message, r.State.String(), strings.TrimSpace(r.Reason + " " + r.Reply), r.AcceptedMillis})
			}
		}
		if len(page) < listedAtOnce {
			return nil
		}
	}
	w.unread = true
	return nil
}

func instantText(millis int64) string { return time.UnixMilli(millis).UTC().Format(time.RFC3339) }
