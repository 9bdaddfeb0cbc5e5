package desk

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice"
	"sluice/flow"
	"sluice/journey"
	"sluice/journey/env"
	"sluice/journey/plan"
	"sluice/mail"
	"sluice/store"
	"sluice/store/sqlstore"
	"sluice/test/clocktest"
	"sluice/test/tables"
	"sluice/user"
)

// bed is a desk on a database with one template.
type bed struct {
	*testing.T
	*Desk
	store *sqlstore.Store
	clock *clocktest.Clock
}

func newBed(t *testing.T) *bed {
	t.Helper()
	clock := clocktest.At(time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC))
	db := tables.Open(t, sqlstore.Options{Clock: clock})
	b := &bed{T: t, store: db, clock: clock, Desk: &Desk{Database: env.Database{Journeys: db, Templates: db, Segments: db}, Series: db, Clock: clock}}
	b.template("hello", "Shop <us@example.org>")
	b.template("nobody", "")
	return b
}

func (b *bed) template(id, from string) {
	b.Helper()
	err := b.store.AddTemplate(b.Context(), mail.Template{ID: id, Name: id, Current: 1}, mail.TemplateVersion{Template: id, Version: 1, Class: mail.ClassMarketing, Subject: "Hello", Text: "Hello", From: from})
	b.ok(err)
}

func (b *bed) ok(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func (b *bed) refused(err error, code sluice.Code, wants ...string) {
	b.Helper()
	e, ok := errors.AsType[*sluice.Error](err)
	if !ok || e.Code != code {
		b.Fatalf("got %v, want an error of code %s", err, code)
	}
	for _, want := range wants {
		if !strings.Contains(err.Error(), want) {
			b.Errorf("got %v, want %q in it", err, want)
		}
	}
}

func (b *bed) create(text string) store.Journey {
	b.Helper()
	j, err := b.Create(b.Context(), Written{Text: text, YAML: true})
	b.ok(err)
	return j
}

func (b *bed) get(id string) store.Journey {
	b.Helper()
	j, err := b.store.Journey(b.Context(), id)
	b.ok(err)
	return j
}

func (b *bed) published() int64 {
	b.Helper()
	r, err := b.store.Registered(b.Context())
	b.ok(err)
	return r.Published()
}

const hello = `
id: hello
name: Hello
entry: {when: {event: signup}}
steps:
  - {id: pause, delay: {for: 1h}, next: split}
  - {id: split, split: {if: {attribute: plan, is: equals, value: gold}, then: mail, else: exit}}
  - {id: mail, message: {template: hello}}
exit_when: {rule: {not: {journey: hello, step: split, is: passed}}}
`

// A draft is changed by a caller that has read the last one, and by no other; what is
// published is the draft, in its one form.
func TestDraftsAndVersions(t *testing.T) {
	b := newBed(t)
	text := strings.Replace(hello, "exit_when: {rule: {not: {journey: hello, step: split, is: passed}}}\n", "", 1)
	j := b.create(text)
	if j.Status != journey.StatusDraft || j.Name != "Hello" || j.Version != 0 {
		t.Fatalf("%+v", j)
	}
	_, err := b.Create(t.Context(), Written{Text: text, YAML: true})
	b.refused(err, sluice.CodeInvalid, "there is a journey")
	second := strings.Replace(text, "1h", "2h", 1)
	changed, err := b.Update(t.Context(), "hello", j.Revision, Written{Text: second, YAML: true})
	b.ok(err)
	if changed.Revision != j.Revision+1 || changed != b.get("hello") {
		t.Fatalf("%+v is kept as %+v", changed, b.get("hello"))
	}
	_, err = b.Update(t.Context(), "hello", j.Revision, Written{Text: text, YAML: true})
	b.refused(err, sluice.CodeConflict, "revision 0")
	_, err = b.Update(t.Context(), "hello", changed.Revision, Written{Text: strings.Replace(text, "id: hello", "id: other", 1), YAML: true})
	b.refused(err, sluice.CodeInvalid, "id: want hello")
	_, err = b.Publish(t.Context(), "hello", j.Revision)
	b.refused(err, sluice.CodeConflict)
	before := b.published()
	p, err := b.Publish(t.Context(), "hello", changed.Revision)
	b.ok(err)
	if p.Version != 1 || p.Journey.Status != journey.StatusLive || p.Journey != b.get("hello") || b.published() <= before {
		t.Fatalf("%+v is kept as %+v", p.Journey, b.get("hello"))
	}
	v, err := b.store.JourneyVersion(t.Context(), j.Number, 1)
	b.ok(err)
	if !strings.Contains(v.Document, `"for":"2h"`) || !slices.Equal(v.Names.Events, []string{"signup"}) {
		t.Fatalf("%+v", v)
	}
	for _, text := range []string{"", "[", "id: [", "id: a\nstepz: 1\n"} {
		_, err := b.Create(t.Context(), Written{Text: text, YAML: true})
		b.refused(err, sluice.CodeInvalid)
	}
}

// What could not be carried out is not published: all of it is said, each with its place.
func TestWhatCannotRunIsNotPublished(t *testing.T) {
	b := newBed(t)
	b.create(`
id: bad
entry: {when: {event: signup}}
steps:
  - {id: none, message: {template: missing}, next: nowhere}
  - {id: quiet, delay: {for: 3 hours}}
`)
	_, err := b.Publish(t.Context(), "bad", -1)
	b.refused(err, sluice.CodeInvalid, "things are wrong", "steps.none.message.template: there is no template missing", "steps.none.next: ", "steps.quiet.delay.for: ")
	r, ok := errors.AsType[*Refused](err)
	if !ok || len(r.Problems) < 3 {
		t.Fatalf("%v", err)
	}
	long := strings.Repeat("x", mail.MaxInlineBytes)
	b.create(`
id: unsendable
entry: {when: {event: signup}}
steps:
  - {id: nobody, message: {template: nobody}, next: changes}
  - {id: changes, message: {content: {from: "{{ a }}", subject: s, text: t}}, next: long}
  - {id: long, message: {from: us@example.org, content: {subject: s, text: ` + long + `}}, next: filled}
  - {id: filled, message: {template: hello, variables: {a: ` + long + `}}, next: fine}
  - {id: fine, message: {template: hello}}
`)
	before := b.published()
	_, err = b.Publish(t.Context(), "unsendable", -1)
	b.refused(err, sluice.CodeInvalid, "4 things", "steps.nobody.message: its mails have no sender", "steps.changes.message: ", "go with each mail: make it a template", "go with each mail: shorten its variables")
	if j := b.get("unsendable"); j.Status != journey.StatusDraft || j.Version != 0 || b.published() != before {
		t.Fatalf("%+v", j)
	}
}

// What is too long in its one form is not published: the version could never be read.
func TestAVersionThatCouldNotBeReadIsNotPublished(t *testing.T) {
	b := newBed(t)
	text := func(pad int) Written {
		var w strings.Builder
		w.WriteString(`{"id":"long","entry":{"when":[{"event":"e"}]},"steps":[`)
		for n := range 40 {
			fmt.Fprintf(&w, `{"id":"d%d","delay":{"for":"36h"},"next":"u%d"},{"id":"u%d","update":{"attributes":{"a":%q}},"next":"d%d"},`, n, n, n, strings.Repeat("x", 6_000), n+1)
		}
		fmt.Fprintf(&w, `{"id":"d40","update":{"attributes":{"a":%q}},"next":"exit"}]}`, strings.Repeat("x", pad))
		return Written{Text: w.String()}
	}
	doc, err := Read(text(0))
	b.ok(err)
	short, err := doc.Text()
	b.ok(err)
	_, err = b.Create(t.Context(), text(0))
	b.ok(err)
	pad := plan.MaxDocumentBytes - len(short) - 10
	j, err := b.Update(t.Context(), "long", -1, text(pad))
	b.ok(err)
	_, err = b.Publish(t.Context(), "long", -1)
	b.refused(err, sluice.CodeInvalid, "in its canonical form")
	_, err = b.ValidateDraft(t.Context(), "long")
	b.refused(err, sluice.CodeInvalid, "in its canonical form")
	_, err = b.Update(t.Context(), "long", j.Revision, text(pad-200))
	b.ok(err)
	p, err := b.Publish(t.Context(), "long", -1)
	b.ok(err)
	v, err := b.store.JourneyVersion(t.Context(), p.Journey.Number, p.Version)
	b.ok(err)
	if _, _, err := plan.LoadJSON(v.Document, b.Database.Env(t.Context())); err != nil {
		t.Fatal(err)
	}
}

const tiny = "id: tiny\nentry: {when: {event: e}}\nsteps: [{id: a, exit: {}}]\n"

// A version whose number ends in the same 8 bits as that of one in use is not given.
func TestVersionsInUseKeepTheirPlaces(t *testing.T) {
	b := newBed(t)
	j := b.create(tiny)
	for range 256 {
		b.clock.Move(time.Second)
		p, err := b.Publish(t.Context(), "tiny", -1)
		b.ok(err)
		if p.Version > 1 { // people stay inside the first alone
			b.ok(b.store.EndVersions(t.Context(), j.Number, []int{p.Version}, 1))
		}
	}
	_, err := b.Publish(t.Context(), "tiny", -1)
	b.refused(err, sluice.CodeConflict, "version 257", "version 1,")
	b.ok(b.store.EndVersions(t.Context(), j.Number, []int{1}, 1))
	p, err := b.Publish(t.Context(), "tiny", -1)
	b.ok(err)
	if p.Version != 257 {
		t.Errorf("version %d", p.Version)
	}
	of := b.versions(&p.Journey)
	for _, x := range []struct {
		place   uint8
		ago     time.Duration
		version int
	}{{1, 0, 257}, {1, time.Minute, 257}, {1, 256 * time.Second, 1}, {2, 0, 2}, {0, 0, 256}} {
		r := journey.Record{State: journey.StateFinished, Version: x.place, Entered: uint32(b.clock.Now().Add(-x.ago).Unix())}
		version, err := of.Number(t.Context(), &r)
		b.ok(err)
		if version != x.version {
			t.Errorf("who entered %s ago, by a version that ends in %d, was in version %d, want %d", x.ago, x.place, version, x.version)
		}
	}
	of.Newest = 3 // the database has gone back
	for place, want := range map[uint8]int{3: 3, 1: 1, 4: 0, 0: 0} {
		if version, err := of.Number(t.Context(), &journey.Record{State: journey.StateInside, Version: place}); err != nil || version != want {
			t.Errorf("behind version 3 a record of place %d is of version %d, want %d: %v", place, version, want, err)
		}
	}
}

// Each change of status is made from the statuses that the table names, is told to the
// processes that run, and is refused from others with what to do.
func TestStatuses(t *testing.T) {
	all := []Change{Publish, Pause, Resume, Stop, Archive}
	// What each change makes of a journey, by its status; empty: refused.
	want := map[string][]string{
		journey.StatusDraft:    {"live", "", "", "", "archived"},
		journey.StatusLive:     {"live", "paused", "live", "stopped", ""},
		journey.StatusPaused:   {"paused", "paused", "live", "stopped", ""},
		journey.StatusStopped:  {"", "", "", "stopped", "archived"},
		journey.StatusArchived: {"", "", "", "", "archived"},
	}
	b := newBed(t)
	b.create(tiny)
	for from, outcomes := range want {
		for i, change := range all {
			j := b.get("tiny")
			j.Status = from
			b.ok(b.store.PutJourney(t.Context(), j))
			before := b.published()
			var err error
			if change == Publish {
				_, err = b.Publish(t.Context(), "tiny", -1)
			} else {
				_, err = b.SetStatus(t.Context(), "tiny", change)
			}
			got := b.get("tiny").Status
			if outcomes[i] == "" {
				b.refused(err, sluice.CodeConflict, "journey tiny is "+from, hints[from])
				if got != from || b.published() != before {
					t.Errorf("%s of a %s journey was refused, and it is %s", change, from, got)
				}
				continue
			}
			b.ok(err)
			if told := b.published() > before; got != outcomes[i] || told != (got != from || change == Publish) {
				t.Errorf("%s of a %s journey: it is %s, want %s; told: %v", change, from, got, outcomes[i], told)
			}
		}
	}
	_, err := b.SetStatus(t.Context(), "no", Pause)
	b.refused(err, sluice.CodeNotFound)
	_, err = b.SetStatus(t.Context(), "No way", Pause)
	b.refused(err, sluice.CodeNotFound)
}

// A journey that is held is paused with the reason, once, and only if it is live.
func TestHold(t *testing.T) {
	b := newBed(t)
	b.create(tiny)
	for _, status := range []string{journey.StatusDraft, journey.StatusLive, journey.StatusPaused, journey.StatusStopped} {
		j := b.get("tiny")
		j.Status, j.Hold = status, ""
		_, err := b.store.PutStatus(t.Context(), j)
		b.ok(err)
		before := b.published()
		hold, paused, err := b.Hold(t.Context(), "tiny", "of "+status)
		b.ok(err)
		live := status == journey.StatusLive
		if again, _, err := b.Hold(t.Context(), "tiny", "again"); err != nil || again != hold || live && hold != "of live" {
			t.Errorf("a %s journey stands because of %q, then of %q: %v", status, hold, again, err)
		}
		if j = b.get("tiny"); paused != live || (b.published() > before) != live || live && (j.Status != journey.StatusPaused || j.Hold != "of live") || !live && j.Status != status {
			t.Errorf("a %s journey: paused %v, it is %s and stands because of %q", status, paused, j.Status, j.Hold)
		}
	}
	_, _, err := b.Hold(t.Context(), "no", "why")
	b.refused(err, sluice.CodeNotFound)
}

// A copy speaks of itself where the other spoke of itself, and is a draft.
func TestCopy(t *testing.T) {
	b := newBed(t)
	text := strings.Replace(hello, "steps:", "exceptions: [{mail: clicked, journey: hello, step: mail}, {mail: clicked, journey: tiny}]\nsteps:", 1)
	b.create(text)
	b.create(tiny)
	j, err := b.Copy(t.Context(), "hello", "hello-again", "")
	b.ok(err)
	if j.Name != "Hello" || j.Status != journey.StatusDraft || strings.Contains(j.Draft, `"journey":"hello"`) || strings.Count(j.Draft, `"journey":"hello-again"`) != 2 || !strings.Contains(j.Draft, `"journey":"tiny"`) {
		t.Fatalf("%s", j.Draft)
	}
	if j, err = b.Copy(t.Context(), "hello", "third", "Third"); err != nil || j.Name != "Third" {
		t.Fatal(j, err)
	}
	_, err = b.Copy(t.Context(), "hello", "third", "")
	b.refused(err, sluice.CodeInvalid, "there is a journey")
	_, err = b.Copy(t.Context(), "hello", "No", "")
	b.refused(err, sluice.CodeInvalid, "id: want")
}

// A copy whose id makes it longer than a document may be is refused: it could not be read.
func TestCopyOfALongDocument(t *testing.T) {
	b := newBed(t)
	text := func(pad int) string {
		return fmt.Sprintf(`{"id":"a","entry":{"when":[{"event":"e"}]},"steps":[{"id":"u","update":{"attributes":{"a":%q}}}]}`, strings.Repeat("x", pad))
	}
	_, err := b.Create(t.Context(), Written{Text: text(plan.MaxDocumentBytes - len(text(0)))})
	b.ok(err)
	_, err = b.Copy(t.Context(), "a", "longer", "")
	b.refused(err, sluice.CodeInvalid, "want at most 262144")
	_, err = b.Copy(t.Context(), "a", "b", "")
	b.ok(err)
	_, err = b.Show(t.Context(), "b", 0)
	b.ok(err)
}

// Lists leave archived journeys out, and are as long as was asked for.
func TestList(t *testing.T) {
	b := newBed(t)
	var live []string
	for i := range 2*listedAtOnce + 3 {
		id := "j" + string(rune('a'+i/26)) + string(rune('a'+i%26))
		b.create(strings.Replace(tiny, "tiny", id, 1))
		if i%3 == 0 {
			_, err := b.SetStatus(t.Context(), id, Archive)
			b.ok(err)
		} else {
			live = append(live, id)
		}
	}
	var got []string
	for after := ""; ; after = got[len(got)-1] {
		page, err := b.List(t.Context(), after, false, 20)
		b.ok(err)
		for i := range page {
			got = append(got, page[i].ID)
		}
		if len(page) < 20 {
			break
		}
	}
	if !slices.Equal(got, live) {
		t.Errorf("got %v, want %v", got, live)
	}
	all, err := b.List(t.Context(), "", true, store.MaxJourneys)
	b.ok(err)
	if len(all) != 2*listedAtOnce+3 {
		t.Errorf("%d with archived ones", len(all))
	}
}

// Counts of the series are shown by step and branch; who waits is who came and has not
// left.
func TestCounts(t *testing.T) {
	b := newBed(t)
	b.create(strings.Replace(hello, "exit_when: {rule: {not: {journey: hello, step: split, is: passed}}}", "conversions: {name: bought, when: {purchase: '*'}, within: 1d}", 1))
	b.create(tiny)
	var counts []sluice.Count
	for name, n := range map[string]int64{
		"hello/pause/entered": 10, "hello/pause/passed": 6, "hello/pause/exited": 1, "hello/split/entered": 6, "hello/split/passed/then": 2, "hello/split/passed": 4,
		"hello/mail/entered": 2, "hello/mail/passed": 2, "hello/mail/left_out": 1, "hello/gone/entered": 3, "hello/mail/sent": 4, "hello/mail/opened": 3, "hello/mail/clicked": 1, "hello/converted/bought": 5,
		"hello/pause/held": 7, "hello/held_converted/bought": 2, "hello-2/pause/entered": 99, "hell/pause/entered": 99,
	} {
		for i := range n { // of several hours and days
			counts = append(counts, sluice.Count{Kind: sluice.KindSystem, Name: "journey/" + name, TimeMillis: b.clock.Now().UnixMilli() + i*7*time.Hour.Milliseconds(), By: 1})
		}
	}
	counts = append(counts, sluice.Count{Kind: sluice.KindCounter, Name: "journey/hello/pause/entered", TimeMillis: b.clock.Now().UnixMilli(), By: 1000})
	e, err := b.store.Prepare(&store.Effect{Counts: counts})
	b.ok(err)
	_, err = b.store.Apply(t.Context(), e)
	b.ok(err)
	s, err := b.Show(t.Context(), "hello", 0)
	b.ok(err)
	want := []StepCounts{
		{Step: "pause", Entered: 10, Passed: 6, Exited: 1, Waiting: 3},
		{Step: "split", Entered: 6, Passed: 6, Branches: map[string]int64{"then": 2, "else": 4}},
		{Step: "mail", Entered: 2, Passed: 2, LeftOut: 1, Sent: 4, Opened: 3, Clicked: 1}, {Step: "gone", Entered: 3, Waiting: 3},
	}
	if !slices.EqualFunc(s.Counts.Steps, want, func(a, b StepCounts) bool {
		return a.Step == b.Step && a.Entered == b.Entered && a.Passed == b.Passed && a.Exited == b.Exited && a.Waiting == b.Waiting && a.LeftOut == b.LeftOut && a.Sent == b.Sent && a.Opened == b.Opened && a.Clicked == b.Clicked &&
			len(a.Branches) == len(b.Branches) && a.Branches["then"] == b.Branches["then"] && a.Branches["else"] == b.Branches["else"]
	}) {
		t.Errorf("%+v, want %+v", s.Counts.Steps, want)
	}
	if s.Counts.Control != 7 || s.Counts.Conversions["bought"] != 5 || s.Counts.ControlConversions["bought"] != 2 {
		t.Errorf("%+v", s.Counts)
	}
	if u := s.Counts.Uplift; len(u) != 1 || u[0].Entered != 10 || u[0].Converted != 5 || u[0].ControlEntered != 7 || u[0].ControlConverted != 2 || u[0].Shown {
		t.Errorf("%+v", u)
	}
	if s, err = b.Show(t.Context(), "tiny", 0); err != nil || s.Counts.Steps[0].Entered != 0 {
		t.Error(s, err)
	}
	_, err = b.Show(t.Context(), "hello", 1)
	b.refused(err, sluice.CodeNotFound)
}

// A person's record is shown with the step of the version that the person is in.
func TestPlacesOf(t *testing.T) {
	b := newBed(t)
	b.create(tiny)
	b.create(strings.Replace(tiny, "tiny", "other", 1))
	b.create(strings.Replace(tiny, "tiny", "draft", 1))
	for _, id := range []string{"tiny", "other"} {
		_, err := b.Publish(t.Context(), id, -1)
		b.ok(err)
	}
	j := b.get("tiny")
	_, err := b.Update(t.Context(), "tiny", j.Revision, Written{Text: strings.Replace(tiny, "id: a", "id: b", 1), YAML: true})
	b.ok(err)
	_, err = b.Publish(t.Context(), "tiny", -1)
	b.ok(err)
	record := journey.Record{State: journey.StateInside, Version: 1, Due: 2_000_000_000, Entered: 1_700_000_000, Occurrence: 3}
	b.Records = func(_ context.Context, id user.ID, number int64) (r flow.Record, err error) {
		if number == j.Number && id.Number == 7 {
			copy(r[:], record.Append(nil))
		}
		return r, nil
	}
	b.Ways = func(context.Context, user.ID, int64) ([]int, error) { return nil, nil }
	places, err := b.PlacesOf(t.Context(), user.ID{Number: 7})
	b.ok(err)
	want := Place{Journey: "tiny", Name: "tiny", Status: "live", Version: 1, State: journey.StateInside, Step: "a", DueMillis: 2_000_000_000_000, Entered: 1_700_000_000_000, Occurrence: 3, Path: []PathStep{{Step: "a"}}}
	if len(places) != 1 || !reflect.DeepEqual(places[0], want) {
		t.Fatalf("%+v, want %+v", places, want)
	}
	record.Version, record.State = 2, journey.StateExited
	if places, err = b.PlacesOf(t.Context(), user.ID{Number: 7}); err != nil || places[0].Step != "b" || places[0].DueMillis != 0 {
		t.Fatal(places, err)
	}
	b.ok(b.store.EndVersions(t.Context(), j.Number, []int{2}, 1))
	if places, err = b.PlacesOf(t.Context(), user.ID{Number: 7}); err != nil || places[0].Step != "b" {
		t.Fatal(places, err)
	}
	if places, err = b.PlacesOf(t.Context(), user.ID{Number: 8}); err != nil || len(places) != 0 {
		t.Fatal(places, err)
	}
}

// The examples can be published where their templates and journeys are, and are checked
// without a database, too.
func TestExamples(t *testing.T) {
	b := newBed(t)
	for _, id := range []string{"welcome", "tour", "first-order", "cart", "cart-again", "win-back-last"} {
		b.template(id, "Shop <us@example.org>")
	}
	files, err := filepath.Glob("../../docs/journeys/*.yaml")
	b.ok(err)
	if len(files) < 3 {
		t.Fatalf("%d examples", len(files))
	}
	slices.Reverse(files) // a journey that is named must be there
	for _, f := range files {
		text, err := os.ReadFile(f)
		b.ok(err)
		alone, err := ValidateAlone(Written{Text: string(text), YAML: true})
		b.ok(err)
		if strings.Contains(f, "win-back") {
			b.create(strings.Replace(tiny, "tiny", "welcome", 1))
		}
		checked, err := b.Validate(t.Context(), Written{Text: string(text), YAML: true})
		b.ok(err)
		if !slices.Equal(checked.Warnings, alone.Warnings) {
			t.Errorf("%s: %v, alone %v", f, checked.Warnings, alone.Warnings)
		}
	}
}

// What does what its author means is not warned of: triggers, rules, and the context behind a wait.
func TestWarnings(t *testing.T) {
	checked, err := ValidateAlone(Written{YAML: true, Text: `
id: much
entry:
  when: [{event: e}, {api: true}]
  who: {not: {journey: other, is: was_inside}}
  limit: {total: 5}
steps:
  - {id: early, split: {if: {context: a, is: exists}, then: pause, else: exit}}
  - {id: pause, delay: {until_date: {context: day}}, next: late}
  - {id: late, audiences: {paths: [{name: a, if: {and: [{context: a, is: exists}, {mail: opened, is: exists}]}, next: again}], otherwise: exit}}
  - {id: again, delay: {until_date: {context: day}}, next: wait}
  - {id: wait, wait_for: {within: 1d, paths: [{name: a, when: {mail: opened}, next: exit}, {name: b, when: {event: e}, next: exit}], otherwise: exit}}
exit_when: {mail: clicked}
limits: {per_minute: 5}
conversions: {name: c, when: {mail: clicked}, within: 1d}
`})
	if err != nil {
		t.Fatal(err)
	}
	if len(checked.Warnings) != 0 {
		t.Errorf("got %+v, want none", checked.Warnings)
	}
	if checked, err = ValidateAlone(Written{Text: tiny, YAML: true}); err != nil || len(checked.Warnings) != 0 {
		t.Errorf("%+v, %v", checked, err)
	}
}

// Sends that are not kept for as long as a rule looks back are named, where the settings
// are known.
func TestWarningsOfRetention(t *testing.T) {
	b := newBed(t)
	b.SendsDays = 7
	checked, err := b.Validate(t.Context(), Written{YAML: true, Text: `
id: short
entry: {when: {event: e}}
steps:
  - {id: week, split: {if: {mail: opened, is: less_than_x_days_ago, value: 7}, then: month, else: month}}
  - {id: month, split: {if: {not: {mail: clicked, journey: short, is: less_than_x_days_ago, value: 8}}, then: ever, else: ever}}
  - {id: ever, split: {if: {mail: received, tag: news, is: exists}, then: exit, else: exit}}
`})
	b.ok(err)
	var places []string
	for _, w := range checked.Warnings {
		places = append(places, w.Place)
		if !strings.Contains(w.Says, "7 days") || !strings.Contains(w.Says, "retention.sends") {
			t.Errorf("%s: %s", w.Place, w.Says)
		}
	}
	if want := []string{"steps.month.split.if", "steps.ever.split.if"}; !slices.Equal(places, want) {
		t.Errorf("warned of %v, want %v", places, want)
	}
}

// The mail of a step names what other steps have waited for where that is known alone.
func TestMailOfWhatWasWaitedForIsBehindIt(t *testing.T) {
	const text = `
id: asks
entry: {when: {event: e}}
steps:
  - {id: early, message: {content: {subject: a, text: EARLY, from: us@example.org}}, next: w}
  - id: w
    wait_for: {within: 1d, paths: [{name: a, when: {event: f}, next: late}], otherwise: exit}
  - {id: late, message: {content: {subject: a, text: LATE, from: us@example.org}}}
`
	b := newBed(t)
	with := func(early, late string) string {
		return strings.NewReplacer("EARLY", early, "LATE", late).Replace(text)
	}
	j := b.create(with("hello", `"{{waited.v.x}}"`))
	_, err := b.Publish(t.Context(), "asks", j.Revision)
	b.refused(err, sluice.CodeInvalid, "steps.late.message", `there is no step "v"`)
	j, err = b.Update(t.Context(), "asks", j.Revision, Written{Text: with(`"{{waited.w.x}}"`, "hello"), YAML: true})
	b.ok(err)
	_, err = b.Publish(t.Context(), "asks", j.Revision)
	b.refused(err, sluice.CodeInvalid, "steps.early.message", "want a step behind w")
	j, err = b.Update(t.Context(), "asks", j.Revision, Written{Text: with("hello", `"{{waited.w.x}}"`), YAML: true})
	b.ok(err)
	_, err = b.Publish(t.Context(), "asks", j.Revision)
	b.ok(err)
}
