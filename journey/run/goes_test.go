package run

import (
	"testing"

	"sluice/journey"
	"sluice/journey/plan"
	"sluice/store"
)

// People who came to a go step before its target was published go there as soon as it is,
// not when they are looked at again.
func TestGoWaitsForAPublish(t *testing.T) {
	b := newBed(t, 300)
	to, err := b.store.AddJourney(t.Context(), store.Journey{ID: "from2", Status: journey.StatusDraft, Draft: "{}"})
	if err != nil {
		t.Fatal(err)
	}
	from := b.publish(`
id: from
entry: {when: {event: signup}}
steps:
  - {id: over, go: {journey: from2}}
`)
	b.enterAll(300)
	b.passes(b.open())
	if r := b.records(from)[7]; r.State != journey.StateInside || r.Due <= uint32(b.clock.Now().Unix()) {
		t.Fatalf("before the target is there a person is %+v", r)
	}
	_, p, err := plan.LoadYAML(`
id: from2
entry: {when: {event: other}}
steps:
  - {id: hello, message: {template: x}}
`, b.loader().database().Env(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	to.Status = journey.StatusLive
	if _, _, err := b.store.Publish(t.Context(), to, p.Canonical(), p.Names()); err != nil {
		t.Fatal(err)
	}
	if b.all, b.published, err = b.loader().Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.passes(b.open()) // at the same moment
	if f := b.read(); len(f.ids) != 300 || f.counts["journey/from/over/passed"] != 300 {
		t.Errorf("%d mails, %d have passed, want 300", len(f.ids), f.counts["journey/from/over/passed"])
	}
	if r := b.records(from)[7]; r.State != journey.StateFinished {
		t.Errorf("behind it a person is %+v", r)
	}
}
