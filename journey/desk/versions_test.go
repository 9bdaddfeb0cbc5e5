package desk

import (
	"strings"
	"testing"

	"sluice/journey/plan"
	"sluice/user"
)

// What is published has the rules of its segments, which its document does not show. A
// change of a segment changes nothing in the version, and is in the next one.
func TestVersionsKeepTheirSegments(t *testing.T) {
	b := newBed(t)
	put := func(definition string) user.Segment {
		return user.Segment{ID: "11111111-1111-4111-8111-111111111111", Name: "gold", Definition: definition, CreatedMillis: 1, UpdatedMillis: 1}
	}
	b.ok(b.store.AddSegment(t.Context(), put(`{"attribute":"plan","is":"equals","value":"gold"}`)))
	b.create("{id: a, entry: {when: {api: true}, who: {segment: 11111111-1111-4111-8111-111111111111}}, steps: [{id: s, exit: {}}]}")
	holds := func(version int) bool {
		t.Helper()
		v, err := b.store.JourneyVersion(t.Context(), b.get("a").Number, version)
		b.ok(err)
		_, p, err := plan.LoadVersion(v.Document, b.Database.Env(t.Context()))
		b.ok(err)
		out := []uint64{0}
		_, err = p.Entry.Who.Match([]string{`{"custom":{"plan":"gold"}}`}, []uint64{1}, 0, out)
		b.ok(err)
		return out[0] == 1
	}
	_, err := b.Publish(t.Context(), "a", -1)
	b.ok(err)
	many := `{"or":[` + strings.Repeat(`{"attribute":"plan","is":"equals","value":"other"},`, 199) + `{"attribute":"plan","is":"equals","value":"more"}]}`
	b.ok(b.store.PutSegment(t.Context(), put(many)))
	if !holds(1) {
		t.Error("a change of the segment has changed the version")
	}
	shown, err := b.Show(t.Context(), "a", 1)
	b.ok(err)
	if strings.Contains(shown.Document, "segments") {
		t.Errorf("the version is shown as %s", shown.Document)
	}
	_, err = b.Publish(t.Context(), "a", -1)
	b.ok(err)
	if !holds(1) || holds(2) {
		t.Error("the next version has not the rule of its publish")
	}
}
