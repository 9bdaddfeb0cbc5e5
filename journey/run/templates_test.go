package run

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"sluice/flow"
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
		for deadline := time.After(time.Minute); int(f.Stats.Told.Load()) < entered; {
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
