package ingest_test

import (
	"testing"

	"sluice"
	"sluice/flow"
	"sluice/ingest"
	"sluice/store"
)

// TestAGapThatIsMendedIsListedNoMore: a part of a log, and a chunk of a list, are missing,
// until a database is put in place that has them stored.
func TestAGapThatIsMendedIsListedNoMore(t *testing.T) {
	b := newBed(t, "sqlite")
	makeTarget(b)
	for chunk := 1; chunk <= 2; chunk++ {
		b.hold("q", chunk, `{"id":1}`)
	}
	b.do("DEL", "sluice:{q}:list:q:held:1")
	s := setup{lists: []listSetup{tableList("")}}
	e := newEngine(b, s)
	at := e.write(1, "test", named("1"), named("2"), named("3"))
	b.do("XTRIM", b.logKey(1), "MINID", at[2].String())
	e.run()
	listed := func() int {
		found, err := flow.Gaps{Redis: e.redis}.List(b.Context())
		b.must(err)
		return len(found)
	}
	b.eventually("both are told", func() bool { return listed() == 2 })
	e.stop()

	e = newEngine(b, s)
	p, err := e.store.Prepare(&store.Effect{Moves: []store.Move{
		{Follower: ingest.StoreRole, Partition: 1, To: at[1]},
		{Follower: "list:q", To: sluice.Position{Major: 2}},
	}})
	b.must(err)
	_, err = e.store.Apply(b.Context(), p)
	b.must(err)
	e.run()
	b.awaitSum("events", 1)
	b.awaitSum("target", 1)
	b.eventually("none is listed", func() bool { return listed() == 0 })
	e.stop()
}

// TestAChunkIsBroughtBack: the chunk of a list at which its follower stands still comes back
// while the program runs.
func TestAChunkIsBroughtBack(t *testing.T) {
	for name, l := range map[string]listSetup{"a list with a table": tableList(""), "a list": {name: "q"}} {
		t.Run(name, func(t *testing.T) {
			const chunk, away = "sluice:{q}:list:q:held:1", "{q}:away"
			b := newBed(t, "sqlite")
			makeTarget(b)
			for number := 1; number <= 2; number++ {
				b.hold("q", number, `{"id":1}`)
			}
			b.do("RENAME", chunk, away)
			e := newEngine(b, setup{lists: []listSetup{l}})
			e.run()
			listed := func() int {
				found, err := flow.Gaps{Redis: e.redis}.List(b.Context())
				b.must(err)
				return len(found)
			}
			b.eventually("it is told", func() bool { return listed() == 1 })
			b.do("RENAME", away, chunk)
			b.eventually("none is listed", func() bool { return listed() == 0 })
			e.stop()
		})
	}
}
