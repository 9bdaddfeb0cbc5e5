package ingest_test

import (
	"fmt"
	"strings"
	"testing"

	"sluice"
	"sluice/flow"
	"sluice/user"
)

// toBoth returns elements for both of two partitions.
func toBoth() []string {
	var all []string
	for p := range 2 {
		name := ""
		for n := 0; name == "" || (user.Key{Kind: user.KeyExternal, Name: name}).Partition(2) != p; n++ {
			name = fmt.Sprint("user ", n)
		}
		all = append(all, fmt.Sprintf(`{"event":"e","time":1700000000,"user_id":%q}`, name))
	}
	return all
}

// large returns a batch of some bytes, one event.
func large(bytes int) []byte {
	return sluice.AppendEvent(sluice.NewBatch(bytes), &sluice.Event{
		Kind: sluice.KindCustom, TimeMillis: 1700000000000, Name: "large", Properties: `{"x":"` + strings.Repeat("x", bytes) + `"}`})
}

// A partition that stands still at a gap keeps a list from no other partition, as long
// as its log may hold what comes for it. Then the list is held, and says for which
// partition; a process that stops does not wait for it; and the list goes on when the
// gap is accepted.
func TestAPartitionAtAGapKeepsNoOtherWaiting(t *testing.T) {
	const filling, units = 64, 4 // entries of a log that is full
	b := newBed(t, "sqlite")
	s := setup{partitions: 2, lists: []listSetup{eventList("")}}
	e := newEngine(b, s)
	batches := [][]byte{named("before"), named("lost")}
	for range filling {
		batches = append(batches, named("behind"))
	}
	at := e.write(0, "test", batches...)
	b.do("XDEL", b.logKey(0), at[1].String())
	e.run()
	b.eventually("the gap is told", func() bool { return e.log.has("ERROR", "gap", "log of partition 0") })
	of1 := func(n int) func() bool {
		return func() bool { return len(b.query("SELECT 1 FROM events WHERE part = 1")) == n }
	}
	for n := range units {
		b.push("q", toBoth()...)
		b.eventually("the other partition is stored", of1(n+1))
	}
	if held := e.failing("route:q"); held != "" {
		t.Errorf("the list is held: %s", held)
	}

	e.write(0, "large", large(600<<10), large(600<<10)) // as much as the log may hold
	b.push("q", toBoth()...)
	held := func() bool { return strings.Contains(e.failing("route:q"), "log of partition 0 is full") }
	b.eventually("the list is held", held)
	stop := func() {
		stopped := make(chan struct{})
		go func() {
			e.stop()
			close(stopped)
		}()
		b.eventually("it stops", func() bool {
			select {
			case <-stopped:
				return true
			default:
				return false
			}
		})
		if e.log.has("stopped in the middle") {
			t.Error("the router was ended in the middle of its work")
		}
	}
	stop()

	e = start(b, s)
	b.push("q", toBoth()...)
	b.eventually("the list is held", held)
	gaps := flow.Gaps{Redis: e.redis}
	found, err := gaps.List(b.Context())
	b.must(err)
	if len(found) != 1 || found[0].What != e.logs[0].String() {
		t.Fatalf("gaps: %+v", found)
	}
	b.must(gaps.Accept(b.Context(), &found[0]))
	b.push("q", toBoth()...)
	b.eventually("all of both is stored", of1(units+3))
	b.awaitSum("events", 1+filling+2+2*(units+3))
	b.eventually("the list is well", func() bool { return e.failing("route:q") == "" })
	stop()
	b.checkCounts("events", 1+filling+2+2*(units+3), 0)
}
