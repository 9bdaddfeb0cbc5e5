package ingest_test

import (
	"testing"

	"sluice/flow"
)

// TestAGapThatCannotBeToldKeepsNoOtherWaiting: gaps are recorded on the server that has
// the beats. Where that one fails, a gap of one partition is not accepted, and the others
// are stored. It is told when that server answers again.
func TestAGapThatCannotBeToldKeepsNoOtherWaiting(t *testing.T) {
	b := newBed(t, "sqlite")
	e := newEngine(b, setup{})
	at := e.write(1, "test", named("1"), named("2"), named("3"))
	b.do("XTRIM", b.logKey(1), "MINID", at[2].String())
	const key = "sluice:{members}:gaps"
	b.do("SET", key, "no hash") // every call for it fails
	e.run()
	e.write(0, "test", named("4"))
	b.awaitSum("events", 1)

	b.do("DEL", key)
	gaps := flow.Gaps{Redis: e.redis}
	var found []flow.Gap
	b.eventually("it is told", func() bool {
		var err error
		found, err = gaps.List(b.Context())
		b.must(err)
		return len(found) == 1
	})
	b.must(gaps.Accept(b.Context(), &found[0]))
	b.awaitSum("events", 2)
	e.stop()
	b.checkCounts("events", 2, 0)
}
