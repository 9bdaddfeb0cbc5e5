package ingest_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"sluice"
	"sluice/flow"
	"sluice/ingest"
	"sluice/store"
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

// importPiece has a piece of a file written into the logs, as an import by HTTP does.
func (e *engine) importPiece(source string) error {
	lines := toBoth()
	im := &ingest.Import{
		Logs: e.logs, Source: "import:" + source, Known: true, Part: &ingest.ImportPoint{}, Clock: sluice.SystemClock{},
		Reject: func(_ store.Line, reason error) error { return reason },
	}
	n := 0
	_, err := im.Run(e.b.Context(), func() (store.Line, error) {
		if n == len(lines) {
			return store.Line{}, io.EOF
		}
		n++
		return store.Line{Number: int64(n), Text: lines[n-1]}, nil
	}, func(ingest.Imported) {})
	return err
}

// A piece of an import is refused while a log is full, but not for the log of a partition
// that stands still at a gap, as long as that one may hold what comes for it.
func TestAPartitionAtAGapKeepsNoImportWaiting(t *testing.T) {
	const filling = 64 // entries of a log that is full
	b := newBed(t, "sqlite")
	e := newEngine(b, setup{partitions: 2})
	batches := [][]byte{named("before"), named("lost")}
	for range filling {
		batches = append(batches, named("behind"))
	}
	at := e.write(0, "test", batches...)
	full := func(when string) {
		t.Helper()
		err := e.importPiece(when)
		if of, is := errors.AsType[*flow.LogFullError](err); !is || of.Partition != 0 {
			t.Errorf("%s: %v; want that the log of partition 0 is full", when, err)
		}
	}
	full("before the store runs")
	b.do("XDEL", b.logKey(0), at[1].String())
	e.run()
	b.eventually("the gap is told", func() bool { return e.log.has("ERROR", "gap", "log of partition 0") })
	if err := e.importPiece("at a gap"); err != nil {
		t.Errorf("while partition 0 stands still: %v", err)
	} else {
		b.eventually("the other partition is stored", func() bool { return len(b.query("SELECT 1 FROM events WHERE part = 1")) == 1 })
	}
	e.write(0, "large", large(600<<10), large(600<<10)) // as much as the log may hold
	full("with as much as it may hold")
	e.stop()
}
