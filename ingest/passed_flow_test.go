package ingest_test

import (
	"strings"
	"testing"

	"sluice"
	"sluice/flow"
	"sluice/ingest"
	"sluice/store"
)

// passOver moves the cursor of partition 0 in SQL as a process does beside a Redis that is
// cut off: beyond what this one's log has.
func (e *engine) passOver() {
	e.b.Helper()
	cursors, err := e.store.Cursors(e.b.Context(), ingest.StoreRole, []int{0})
	e.b.must(err)
	last, err := e.logs[0].Last(e.b.Context())
	e.b.must(err)
	p, err := e.store.Prepare(&store.Effect{Moves: []store.Move{{Follower: ingest.StoreRole, From: cursors[0], To: sluice.Position{Major: last.Major + 500}}}})
	if err == nil {
		_, err = e.store.Apply(e.b.Context(), p)
	}
	e.b.must(err)
}

// TestTwoMasters: a process has stored of a Redis that was cut off, while others wrote to
// the one that was promoted. What they wrote is stored, and what may be stored is counted.
func TestTwoMasters(t *testing.T) {
	b := newBed(t, "sqlite")
	first := newEngine(b, setup{partitions: 1})
	first.write(0, "test", named("1"), named("2"))
	first.passOver()
	first.run()
	b.awaitSum("events", 2)
	first.stop()
	if names := b.storedNames(); names != "1 2" {
		t.Errorf("stored are %q", names)
	}

	second := newEngine(b, setup{partitions: 1})
	second.write(0, "other", named("3"), named("4"))
	second.passOver()
	second.run()
	gaps := flow.Gaps{Redis: second.redis}
	var found []flow.Gap
	b.eventually("it is listed", func() bool {
		var err error
		found, err = gaps.List(b.Context())
		b.must(err)
		return len(found) == 1
	})
	if lost := found[0].Lost.String(); !strings.HasPrefix(lost, "2 entries") {
		t.Errorf("lost are %s, want 2 entries", lost)
	}
	b.must(gaps.Accept(b.Context(), &found[0]))
	second.write(0, "third", named("5"))
	b.awaitSum("events", 3)
	second.stop()
	b.checkCounts("events", 3, 0)
}
