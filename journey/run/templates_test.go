package run

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"sluice/flow"
	"sluice/journey"
	"sluice/mail"
)

// A step that names no version of its template uses the one that is in use when the mail
// is made, also where that changes while people move.
func TestATemplateChanges(t *testing.T) {
	const people = 2000
	b := newBed(t, people)
	b.publish(`
id: hello
entry: {when: {event: signup}}
steps:
  - {id: hello, message: {template: x, tags: latest}, next: first}
  - {id: first, message: {template: x, version: 1, tags: first}}
`)
	f := &Follower{Logs: []*flow.Log{b.log, flow.NewLog(b.redis, flow.Partitions(bedPartitions)[1])}, Leases: b.leases, Store: b.store, Clock: b.clock, Log: slog.New(slog.DiscardHandler), Health: &heard{}, Loader: b.loader()}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	defer func() { stop(); <-done }()
	entered := 0
	tell := func() {
		t.Helper()
		entered++
		b.tell(uint64(entered), "signup", entered, entered)
	}
	enter := func() {
		t.Helper()
		for deadline := time.After(3 * time.Minute); int(f.Stats.Told.Load()) < entered; {
			select {
			case <-time.After(time.Millisecond):
			case <-deadline:
				t.Fatal("a person is not let in")
			}
		}
	}
	tell() // behind its mail the log has entries, and facts are looked for
	go func() { defer close(done); f.Run(ctx, ctx) }()
	versions := func() (latest, first string) {
		t.Helper()
		for _, s := range b.sends()[2*(entered-1):] {
			if s.Tags == "latest" {
				latest = s.Content
			} else {
				first = s.Content
			}
		}
		return latest, first
	}
	enter()
	if latest, first := versions(); !strings.Contains(latest, `"version":1`) || !strings.Contains(first, `"version":1`) {
		t.Fatalf("before: %s, %s", latest, first)
	}
	if _, err := b.store.AddTemplateVersion(t.Context(), "", mail.TemplateVersion{Template: "x", Class: mail.ClassMarketing, Subject: "Other", Text: "Other", From: "us@example.org"}); err != nil {
		t.Fatal(err)
	}
	for {
		tell()
		enter()
		latest, first := versions()
		if !strings.Contains(first, `"version":1`) {
			t.Fatalf("the step that names a version has %s", first)
		}
		if strings.Contains(latest, `"version":2`) {
			return
		}
		if entered == people {
			t.Fatalf("after the change: %s", latest)
		}
	}
}

// Where the version of a template that comes to be in use has no sender that is the same for
// everybody, people stay at the step, with a rate as without one, and others of the journey
// go on. They get their mail when there is a version that has one.
func TestPeopleStayWhereMailCannotBeMade(t *testing.T) {
	for _, limits := range []string{"", "limits: {per_minute: 60000}\n"} {
		const people = 30
		b := newBed(t, people)
		add := func(from string) {
			t.Helper()
			if _, err := b.store.AddTemplateVersion(t.Context(), "", mail.TemplateVersion{Template: "x", Class: mail.ClassMarketing, Subject: "s", Text: "t", From: from}); err != nil {
				t.Fatal(err)
			}
		}
		reads := func() *part {
			t.Helper()
			var err error
			if b.all, b.published, err = b.loader().Load(t.Context()); err != nil {
				t.Fatal(err)
			}
			return b.open()
		}
		j := b.publish(limits + `
id: hello
entry: {when: {event: signup}}
steps:
  - {id: pause, delay: {for: 1h}, next: split}
  - {id: split, split: {if: {attribute: plan, is: equals, value: gold}, then: hello, else: note}}
  - {id: hello, message: {template: x, latest: 1d}}
  - {id: note, update: {attributes: {seen: true}}}
`)
		b.enterAll(people)
		b.passes(b.open())
		add("{{ sender }}")
		b.clock.Move(time.Hour)
		p := reads()
		b.passes(p)
		commits := p.stats.Commits.Load()
		for range 5 {
			b.clock.Move(time.Minute)
			b.passes(p)
		}
		f, at := b.read(), b.records(j)
		if len(f.ids) != 0 || f.counts["journey/hello/hello/left_out"] != 0 || f.counts["journey/hello/hello/entered"] != people/3 || f.counts["journey/hello/note/passed"] != people-people/3 || at[3].State != journey.StateInside {
			t.Fatalf("%d mails, %v, a person is %+v", len(f.ids), f.counts, at[3])
		}
		if n := p.stats.Commits.Load() - commits; n != 0 {
			t.Errorf("%d commits move nobody", n)
		}
		l := b.loader()
		inUse, err := l.inUse(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if changed, err := l.templatesChanged(t.Context(), b.all, inUse); changed || err != nil {
			t.Fatal(changed, err)
		}
		p.stats.stay(b.all)
		if got := p.stats.Unsendable(); len(got) != 1 || !strings.HasPrefix(got[0], "hello/hello: ") {
			t.Errorf("told of %q", got)
		}
		add("us@example.org")
		p = reads()
		b.passes(p)
		if n := len(b.read().ids); n != people/3 {
			t.Errorf("%d mails, want %d", n, people/3)
		}
	}
}

// askedVersions counts what the database is asked for.
type askedVersions struct {
	mail.TemplateStore
	asked int
}

func (a *askedVersions) TemplateVersion(ctx context.Context, id string, version int) (mail.TemplateVersion, error) {
	a.asked++
	return a.TemplateStore.TemplateVersion(ctx, id, version)
}

// A version of a template is read once, however many steps have it and however often journeys
// are read; of another version in use it is that one.
func TestTemplatesAreReadOnce(t *testing.T) {
	b := newBed(t, 1)
	b.publish(welcome)
	b.publish(strings.Replace(welcome, "id: welcome", "id: other", 1))
	asked := &askedVersions{TemplateStore: b.store}
	l := b.loader()
	l.Templates = asked
	load := func(want, version int) {
		t.Helper()
		asked.asked = 0
		all, _, err := l.Load(t.Context())
		if err != nil || len(all) != 2 || asked.asked != want {
			t.Errorf("%d journeys, %d versions were asked for, want %d; %v", len(all), asked.asked, want, err)
		}
		if v := l.kept.all[templateKey{"x", version}]; v.Version != version {
			t.Errorf("kept %+v, want version %d", v, version)
		}
	}
	load(1, 1)
	load(0, 1)
	if _, err := b.store.AddTemplateVersion(t.Context(), "", mail.TemplateVersion{Template: "x", Class: mail.ClassMarketing, Subject: "2", Text: "2", From: "us@example.org"}); err != nil {
		t.Fatal(err)
	}
	load(1, 2)
}

// What is kept is bounded, and forgotten in a while.
func TestVersionsKeptAreBounded(t *testing.T) {
	var k versionsKept
	now := time.Now()
	text := strings.Repeat("x", keptVersionBytes/4)
	for n := range 20 {
		key := templateKey{"x", n + 1}
		if _, ok := k.get(key, now); ok {
			t.Errorf("version %d is there before it was put", n+1)
		}
		k.put(key, mail.TemplateVersion{Version: n + 1, HTML: text})
		if v, ok := k.get(key, now); !ok || v.Version != n+1 || len(k.all) > 4 {
			t.Errorf("version %d: %v, of %d", n+1, ok, len(k.all))
		}
	}
	k.put(templateKey{"y", 1}, mail.TemplateVersion{HTML: text + text + text + text + "x"})
	if _, ok := k.get(templateKey{"y", 1}, now); ok {
		t.Error("one that is too large is kept")
	}
	if _, ok := k.get(templateKey{"x", 20}, now.Add(versionsKeptFor+time.Second)); ok {
		t.Error("it is kept for good")
	}
}
