package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"sluice"
	"sluice/journey/desk"
	"sluice/journey/env"
	"sluice/journey/plan"
	"sluice/journey/simulate"
	"sluice/store"
	"sluice/store/sqlstore"
)

const journeyLong = `
Journeys: what happens to a person in several steps over days. docs/journeys.md
describes the document that a journey is; a FILE is YAML, or JSON if its name ends in
.json; - is standard input.

    sluice journey validate FILE    say what is wrong with it; --alone: without a database
    sluice journey diff FILE        what apply would change of the draft
    sluice journey apply FILE       make the journey, or replace its draft; --publish: and publish
    sluice journey publish ID       the draft becomes a version, by which people enter
    sluice journey pause ID         nobody enters or moves until resume
    sluice journey resume ID        if people are overdue: --overdue send, or skip what was due
    sluice journey stop ID          take out all who are inside, for good
    sluice journey archive ID       lists leave it out; for drafts and stopped ones
    sluice journey copy ID NEW      a new draft, NEW, of that of ID; --name: as people call it
    sluice journey enter ID         let a person in: --user U, an external id; --context JSON
    sluice journey simulate FILE    a month with made-up people; ID: its draft
    sluice journey list             all of them; --archived: archived ones too
    sluice journey show ID          its draft as JSON, which apply takes; --version N: that version
    sluice journey status ID        how many entered, wait at, passed and left each step
    sluice journey people ID        who is or was in it; --step S: who is at that step
    sluice journey why ID           why --user U did or did not get mail of it, or of --step S

People who are inside keep their version when another is published. Running programs
see a change within a second. simulate FILE looks up no templates: a message without
class is taken for marketing, and named.
`

var journeyFlags = []flagSpec{
	{name: "alone", help: "validate: take templates, segments and other journeys to be there"},
	{name: "publish", help: "apply: publish the draft, too"},
	{name: "overdue", value: "send|skip", help: "resume: what becomes of messages that were due during the pause"},
	{name: "archived", help: "list: archived ones too"},
	{name: "name", value: "TEXT", help: "copy: what people call the new one; what they call the other if not said", more: true},
	{name: "user", value: "U", help: "enter, why: the external id of the person"},
	{name: "context", value: "JSON", help: "enter: an object that rules call context"},
	{name: "version", value: "N", help: "show: not the draft, but this version", check: wholeNumber(1, store.MaxVersions)},
	{name: "step", value: "S", help: "people, why: the step that is asked about"},
	{name: "people", value: "N", help: "simulate: so many people are made up, 10000 if not said", check: wholeNumber(1, simulate.MaxPeople), more: true},
	{name: "days", value: "N", help: "simulate: for so many days, 30 if not said", check: wholeNumber(1, simulate.MaxDays), more: true},
	{name: "from", value: "TIME", help: "simulate: when it begins, as 2026-12-01T00:00:00Z; now if not said", more: true},
	{name: "seed", value: "N", preset: "1", help: "simulate: another number makes up other people", check: wholeNumber(1, 1_000_000), more: true},
	{name: "often", value: "E=N,...", help: "simulate: made-up people do E, an event or a product, N times in 30 days on average; 1.5 if not said", more: true},
	{name: "opens", value: "P", help: "simulate: percent of the mails that are opened, 0 if not said", check: wholeNumber(0, 100), more: true},
	{name: "clicks", value: "P", help: "simulate: percent of the mails that are clicked, and so opened, 0 if not said", check: wholeNumber(0, 100), more: true},
	{name: "events", value: "FILE", help: "simulate: what people do, a JSON object a line with external_id, time, and name, product_id, context or attributes; without it, it is made up", more: true},
	{name: "sample", value: "N", help: "simulate: not made-up people, but so many users of the database by chance", check: wholeNumber(1, simulate.MaxSampled), more: true},
	{name: "who", value: "U", help: "simulate: not made-up people, but the user with this external id", more: true},
	{name: "json", help: "list, status, simulate: JSON"},
}

// journeyWords are what can be done, with how many arguments: run gets them with a space
// between them.
var journeyWords = []struct {
	word, want string
	args       int
	run        func(*call, context.Context, *desk.Desk, string) error
}{
	{"validate", "one FILE, or - for standard input", 1, nil}, // it may need no database
	{"diff", "one FILE, or - for standard input", 1, (*call).journeyDiff},
	{"apply", "one FILE, or - for standard input", 1, (*call).journeyApply},
	{"publish", "one ID", 1, (*call).journeyPublish},
	{"pause", "one ID", 1, journeySet(desk.Pause)},
	{"resume", "one ID", 1, (*call).journeyResume},
	{"stop", "one ID", 1, journeySet(desk.Stop)},
	{"archive", "one ID", 1, journeySet(desk.Archive)},
	{"copy", "the ID of a journey, and that of the new one", 2, (*call).journeyCopy},
	{"enter", "one ID", 1, (*call).journeyEnter},
	{"simulate", "one FILE, or - for standard input, or the ID of a journey", 1, nil}, // it may need no database
	{"list", "no arguments", 0, (*call).journeyList},
	{"show", "one ID", 1, (*call).journeyShow},
	{"status", "one ID", 1, (*call).journeyStatus},
	{"people", "one ID", 1, (*call).journeyPeople},
	{"why", "one ID", 1, (*call).journeyWhy},
}

// journeyActions returns the words of journeyWords.
func journeyActions() (words []string) {
	for _, w := range journeyWords {
		words = append(words, w.word)
	}
	return words
}

func runJourney(ctx context.Context, c *call) error {
	words := journeyActions()
	what, rest, err := c.word(words...)
	if err != nil {
		return err
	}
	w := journeyWords[slices.Index(words, what)]
	if len(rest) != w.args {
		return usagef("journey %s: want %s", what, w.want)
	}
	argument := strings.Join(rest, " ")
	if what == "validate" {
		return c.journeyValidate(ctx, argument)
	}
	if what == "simulate" { // of a file it needs no database
		return c.journeySimulate(ctx, argument)
	}
	db, err := c.store(ctx)
	if err != nil {
		return err
	}
	return w.run(c, ctx, c.desk(ctx, db), argument)
}

// desk is where journeys are written and published.
func (c *call) desk(ctx context.Context, db *sqlstore.Store) *desk.Desk {
	return &desk.Desk{Database: env.Database{Journeys: db, Templates: db, Segments: db}, Series: db, Clock: c.clock(ctx), SendsDays: c.config.Retention.Sends,
		Caps: c.config.JourneyCaps(), Control: c.config.GlobalControlPercent}
}

// journeyFile reads a document.
func (c *call) journeyFile(name string) (desk.Written, error) {
	text, err := c.readUpTo(name, "journey", 2*plan.MaxDocumentBytes, fmt.Sprintf("; a journey may have %d", plan.MaxDocumentBytes))
	return desk.Written{Text: text, YAML: filepath.Ext(name) != ".json"}, err
}

// ofFile says of which file something is wrong, one line for each.
func ofFile(name string, err error) error {
	r, ok := errors.AsType[*desk.Refused](err)
	if !ok {
		return err
	}
	lines := make([]error, len(r.Problems))
	for i, p := range r.Problems {
		lines[i] = fmt.Errorf("%s: %s", name, p)
	}
	return errors.Join(lines...)
}

func (c *call) journeyValidate(ctx context.Context, name string) error {
	w, err := c.journeyFile(name)
	if err != nil {
		return err
	}
	var checked *desk.Checked
	if c.given.has("alone") {
		checked, err = desk.ValidateAlone(w)
	} else {
		db, opened := c.store(ctx)
		if opened != nil {
			return fmt.Errorf("look up what the journey names: %w; without a database: sluice journey validate --alone %s", opened, name)
		}
		checked, err = c.desk(ctx, db).Validate(ctx, w)
	}
	if err != nil {
		return ofFile(name, err)
	}
	c.warn(checked.Warnings)
	looked := ""
	if c.given.has("alone") {
		looked = "; templates, segments and other journeys were not looked up"
	}
	c.print("journey %s: nothing is wrong%s", checked.Document.ID, looked)
	return nil
}

// warn names what of a journey may not do what its author means.
func (c *call) warn(warnings []desk.Warning) {
	for _, w := range warnings {
		fmt.Fprintf(c.main.Stderr, "sluice: %s: %s\n", safeText(w.Place), safeText(w.Says))
	}
}

func (c *call) journeyApply(ctx context.Context, d *desk.Desk, name string) error {
	w, err := c.journeyFile(name)
	if err != nil {
		return err
	}
	doc, err := desk.Read(w)
	if err != nil {
		return ofFile(name, err)
	}
	before, there, err := c.journeyThere(ctx, d, doc.ID)
	if err != nil {
		return err
	}
	var j store.Journey
	if there {
		j, err = d.Update(ctx, doc.ID, before.Revision, w)
	} else {
		j, err = d.Create(ctx, w)
	}
	if err != nil {
		return ofFile(name, err)
	}
	c.print("journey %s: the draft is written, revision %d", j.ID, j.Revision)
	if !c.given.has("publish") {
		return nil
	}
	return c.publishJourney(ctx, d, j.ID, j.Revision)
}

// journeyThere returns a journey, if there is one.
func (c *call) journeyThere(ctx context.Context, d *desk.Desk, id string) (j store.Journey, there bool, err error) {
	j, err = d.Database.Journeys.Journey(ctx, id)
	if e, ok := errors.AsType[*sluice.Error](err); ok && e.Code == sluice.CodeNotFound {
		return j, false, nil
	}
	return j, err == nil, err
}

func (c *call) journeyPublish(ctx context.Context, d *desk.Desk, id string) error {
	return c.publishJourney(ctx, d, id, -1)
}

func (c *call) publishJourney(ctx context.Context, d *desk.Desk, id string, revision int64) error {
	p, err := d.Publish(ctx, id, revision)
	if err != nil {
		return ofFile("journey "+id, err)
	}
	c.warn(p.Warnings)
	c.print("journey %s: version %d is published, it is %s", p.Journey.ID, p.Version, p.Journey.Status)
	return nil
}

// journeySet returns what pauses journeys, and the like.
func journeySet(change desk.Change) func(*call, context.Context, *desk.Desk, string) error {
	return func(c *call, ctx context.Context, d *desk.Desk, id string) error {
		j, err := d.SetStatus(ctx, id, change)
		if err != nil {
			return err
		}
		c.print("journey %s is %s", j.ID, j.Status)
		return nil
	}
}

// journeyResume has a paused journey go on. With a choice it needs no Redis.
func (c *call) journeyResume(ctx context.Context, d *desk.Desk, id string) error {
	choice := desk.Overdue(c.given.text("overdue"))
	if choice == desk.OverdueAsk {
		_, err := c.running(ctx) // an empty Redis, or another one, would say that nobody is overdue
		if err == nil {
			err = c.readsPlaces(ctx, d)
		}
		if err != nil {
			return fmt.Errorf("look how many people are overdue: %w; without a look: --overdue send, or skip", err)
		}
	}
	j, err := d.Resume(ctx, id, choice)
	if err != nil {
		return err
	}
	c.print("journey %s is %s", j.ID, j.Status)
	return nil
}

// journeyCopy makes a new draft of that of another journey.
func (c *call) journeyCopy(ctx context.Context, d *desk.Desk, ids string) error {
	id, to, _ := strings.Cut(ids, " ")
	j, err := d.Copy(ctx, id, to, c.given.text("name"))
	if err != nil {
		return ofFile("journey "+to, err)
	}
	c.print("journey %s: the draft is written, a copy of %s", j.ID, id)
	return nil
}

// listedJourney is a journey as --json shows it.
type listedJourney struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	Status  string `json:"status"`
	Version int    `json:"version"`
	Updated string `json:"updated"`
}

func (c *call) journeyList(ctx context.Context, d *desk.Desk, _ string) error {
	all, err := d.List(ctx, "", c.given.has("archived"), store.MaxJourneys)
	if err != nil {
		return err
	}
	for _, j := range all {
		s := listedJourney{j.ID, j.Name, j.Status, j.Version, keyTime(j.UpdatedMillis)}
		if err := c.row(s, "%s  %s  version %d  %s  %s", s.ID, s.Status, s.Version, s.Updated, safeText(s.Name)); err != nil {
			return err
		}
	}
	if len(all) == 0 {
		fmt.Fprintln(c.main.Stderr, "no journeys; `sluice journey apply FILE` makes one")
	}
	return nil
}

func (c *call) journeyShow(ctx context.Context, d *desk.Desk, id string) error {
	s, err := d.Show(ctx, id, c.given.number("version"))
	if err != nil {
		return err
	}
	lines, err := indented(s.Document)
	if err != nil {
		return err
	}
	_, err = io.WriteString(c.main.Stdout, strings.Join(lines, "\n")+"\n")
	return err
}

// indented is a document as JSON in lines that are safe for a terminal.
func indented(document string) ([]string, error) {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(json.RawMessage(document)); err != nil {
		return nil, fmt.Errorf("show a journey: %w", err)
	}
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	for i := range lines {
		lines[i] = safeLine(lines[i])
	}
	return lines, nil
}

func (c *call) journeyStatus(ctx context.Context, d *desk.Desk, id string) error {
	unread := c.readsPlaces(ctx, d) // without Redis all else is shown
	s, err := d.Show(ctx, id, 0)
	if err != nil {
		return err
	}
	if c.given.has("json") {
		return c.printJSON(s.Counts)
	}
	c.print("journey %s is %s, version %d, %d in use", s.Journey.ID, s.Journey.Status, s.Journey.Version, len(s.Used))
	if s.Journey.Hold != "" {
		c.print("it stands: %s", s.Journey.Hold)
	}
	if unread = errors.Join(unread, s.StaysUnknown); unread != nil {
		fmt.Fprintf(c.main.Stderr, "sluice: how many people stay is not known: %s\n", safeText(unread.Error()))
	}
	for i := range s.Stays.Steps {
		c.print("%s", stayLine(&s.Stays.Steps[i], s.Stays.More))
	}
	for _, x := range s.Counts.Steps {
		line := fmt.Sprintf("%s  entered %d  waiting %d  passed %d  exited %d", safeText(x.Step), x.Entered, x.Waiting, x.Passed, x.Exited)
		for _, of := range []struct {
			what string
			n    int64
		}{{"sent", x.Sent}, {"opened", x.Opened}, {"opened raw", x.OpenedRaw}, {"clicked", x.Clicked}, {"clicked raw", x.ClickedRaw}, {"left out", x.LeftOut}, {"capped", x.Capped}, {"withheld", x.Withheld}} {
			if of.n > 0 {
				line += fmt.Sprintf("  %s %d", of.what, of.n)
			}
		}
		for _, branch := range sortedNames(x.Branches) {
			line += fmt.Sprintf("  %s %d", safeText(branch), x.Branches[branch])
		}
		for _, name := range sortedNames(x.Converted) {
			line += fmt.Sprintf("  converted %s %d", safeText(name), x.Converted[name])
		}
		c.print("%s", line)
	}
	for _, name := range sortedNames(s.Counts.Conversions) {
		c.print("converted %s  %d", safeText(name), s.Counts.Conversions[name])
	}
	if s.Counts.Limited > 0 {
		c.print("left out by entry.limit  %d", s.Counts.Limited)
	}
	if s.Counts.Control > 0 {
		c.print("in the control group  %d", s.Counts.Control)
	}
	for _, u := range s.Counts.Uplift {
		c.print("%s", upliftLine(&u))
	}
	for _, u := range s.Counts.PathUplift {
		c.print("%s", upliftLine(&u))
	}
	for _, u := range s.Counts.GlobalUplift {
		c.print("%s", upliftLine(&u))
	}
	return nil
}

// stayLine says that people stay at a step. more: there may be others who were not looked at.
func stayLine(s *desk.Stay, more bool) string {
	who := fmt.Sprintf("%d people stay at %s", s.People, s.Step)
	switch {
	case s.People == 0:
		return safeText(fmt.Sprintf("who comes to %s stays there: %s", s.Step, s.Why))
	case more:
		who = "at least " + who
	}
	if s.SinceMillis != 0 {
		who += ", the first since " + keyTime(s.SinceMillis)
	}
	return safeText(fmt.Sprintf("%s: %s", who, s.Why))
}

// upliftLine tells what a journey is good for, by one conversion.
func upliftLine(u *desk.Uplift) string {
	share := func(n, of int64) float64 { return 100 * float64(n) / float64(of) }
	name := u.Conversion
	if u.Step != "" {
		name += " " + u.Step + "/" + u.Path
	}
	group := "in the control group"
	if u.Percent > 0 {
		group = fmt.Sprintf("in that of all journeys (%d %% of people)", u.Percent)
	}
	line := fmt.Sprintf("uplift %s  %.2f %% of %d, %.2f %% of %d %s: %+.2f points, from %+.2f to %+.2f with a confidence of 95 %%", safeText(name),
		share(u.Converted, u.Entered), u.Entered, share(u.ControlConverted, u.ControlEntered), u.ControlEntered, group, 100*u.Difference, 100*u.Low, 100*u.High)
	if !u.Shown {
		line += ": no difference shown"
	}
	return line
}
