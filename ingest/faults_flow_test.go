package ingest_test

import (
	"fmt"
	"strings"
	"testing"

	"sluice/lib/faults"
)

// A session that ends between any two steps doubles and loses nothing. Package
// chaos kills the program there; here the next session of the same process goes
// on.
func TestSessionsEndAnywhere(t *testing.T) {
	points := []string{"take", "taken", "read", "append", "appended", "load", "transaction", "commit", "committed", "drop", "trim"}
	const rounds, each = 2, 60
	onEachAlone(t, func(b *bed) {
		makeTarget(b)
		rows := tableList("")
		rows.name = "rows"
		e := start(b, setup{lists: []listSetup{eventList(""), rows}})
		n := 0
		for round := range rounds { // the first hit of each is the list's or the table's, by chance
			var spec []string
			for _, p := range points {
				spec = append(spec, fmt.Sprintf("%s=error,%d", p, round+1))
			}
			disarm, err := faults.Arm(strings.Join(spec, ";"))
			b.must(err)
			for range each {
				element := fmt.Sprintf(`{"event":"e","time":1700000000,"id":%d,"user_id":%d}`, n, n)
				b.push("q", element)
				b.push("rows", element)
				n++
			}
			b.awaitSum("events", n)
			b.awaitSum("target", n)
			disarm()
		}
		e.stop()
		b.checkCounts("events", n, 0)
		b.checkCounts("target", n, 0)
		if !e.log.has("injected failure") {
			b.Error("nothing failed: this test shows nothing")
		}
	})
}
