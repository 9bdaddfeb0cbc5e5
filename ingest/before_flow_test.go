package ingest_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"sluice"
	"sluice/flow"
	"sluice/ingest"
	"sluice/lib/faults"
	"sluice/store"
)

// beforeElement is the i-th element of these tests. It has no id: who writes it
// twice makes two rows.
func beforeElement(i int) string {
	return fmt.Sprintf(`{"event":"e","time":1700000000,"user_id":"u%d","i":%d}`, i%97, i)
}

// appendBefore does what the program of 0.1 did with the first elements of a page,
// for one partition.
func appendBefore(b *bed, log *flow.Log, source, from, to string, elements []string) {
	b.Helper()
	batch := sluice.NewBatch(0)
	for _, raw := range elements {
		var e sluice.Event
		b.must(ingest.ParseEvent(raw, &ingest.EventOptions{}, &e))
		if ingest.PartitionBefore(&e, raw, testPartitions) == log.Partition() {
			batch = sluice.AppendEvent(batch, &e)
		}
	}
	_, err := log.Append(b.Context(), source, from, to, batch, true)
	b.must(err)
}

// The program of 0.1 was killed when it had brought a page to some logs, by
// other partitions than today's. The page is in once. Elements behind it go to
// the partition of their person, however often the program is killed meanwhile.
func TestAPageThatAnOlderVersionHasHalfRouted(t *testing.T) {
	const held, border, more, rounds = 1000, 600, 700, 4
	onEachAlone(t, func(b *bed) {
		var elements []string
		for i := range held + rounds*more {
			elements = append(elements, beforeElement(i))
		}
		b.push("q", elements[:held]...)
		file := filepath.Join(t.TempDir(), "go on")
		disarm, err := faults.Arm("append=pause:" + file)
		b.must(err)
		s := setup{lists: []listSetup{eventList("")}, noStore: true}
		e := start(b, s) // only to have the list held
		b.eventually("the list is held", func() bool { _, err := os.Stat(file + ".reached"); return err == nil })
		e.stopWork()
		b.must(os.WriteFile(file, nil, 0o600))
		e.abort()
		disarm()
		if n := heldElements(b); n != held {
			b.Fatalf("%d elements are held", n)
		}

		old := newEngine(b, setup{noStore: true})
		appendBefore(b, old.logs[0], "list:q", "", fmt.Sprintf("1-%d", border), elements[:border])
		appendBefore(b, old.logs[1], "list:q", "", "1-300", elements[:300])
		appendBefore(b, old.logs[2], "list:q", "", "1-300", elements[:300])
		appendBefore(b, old.logs[2], "list:q", "1-300", fmt.Sprintf("1-%d", border), elements[300:border])
		old.stop()

		s.noStore = false
		for round := range rounds {
			for _, point := range []string{"append=error,2", "appended=error,1", "append=error,3"} {
				disarm, err := faults.Arm(point)
				b.must(err)
				e := start(b, s)
				if point == "append=error,2" {
					from := held + round*more
					b.push("q", elements[from:from+more]...)
				}
				b.eventually("it has begun", func() bool {
					return e.stats.Stored.Load()+e.stats.Accepted.Load() > 0 || b.count("events") == held+(round+1)*more
				})
				e.abort()
				disarm()
			}
		}
		e = start(b, s)
		b.awaitSum("events", len(elements))
		e.stop()
		b.checkCounts("events", len(elements), 0)
		part := make(map[string]string)
		for _, row := range b.query("SELECT properties, part FROM events") {
			var i, p int
			if _, err := fmt.Sscanf(row, `{"i":%d}|%d`, &i, &p); err != nil {
				b.Fatalf("%s: %v", row, err)
			}
			e := sluice.Event{User: fmt.Sprintf("u%d", i%97)}
			want := ingest.PartitionOf(&e, "", testPartitions)
			if i < border {
				want = ingest.PartitionBefore(&e, "", testPartitions)
			}
			if _, twice := part[row]; twice || p != want {
				b.Errorf("element %d is in partition %d (twice: %v), want %d", i, p, twice, want)
			}
			part[row] = ""
		}
	})
}

// An import that the program of 0.1 had begun is finished as it was begun: what is in
// is known. One that is begun today is as well.
func TestAnImportThatAnOlderVersionHasBegun(t *testing.T) {
	const lines, before = 900, 400
	b := newBed(t, "sqlite")
	e := newEngine(b, setup{noStore: true})
	var elements []string
	for i := range lines {
		elements = append(elements, beforeElement(i))
	}
	appendBefore(b, e.logs[1], "import:x", "", fmt.Sprint(before), elements[:before])
	known := 0
	for _, raw := range elements[:before] {
		var event sluice.Event
		b.must(ingest.ParseEvent(raw, &ingest.EventOptions{}, &event))
		if ingest.PartitionBefore(&event, raw, testPartitions) == 1 {
			known++
		}
	}
	run := func(source string, stopAt int) (ingest.Imported, error) {
		im := ingest.Import{Logs: e.logs, Source: source, Known: true, Clock: sluice.SystemClock{},
			Reject: func(_ store.Line, reason error) error { return reason }}
		n := 0
		return im.Run(b.Context(), func() (store.Line, error) {
			switch {
			case n == stopAt:
				return store.Line{}, errors.New("broken off")
			case n == lines:
				return store.Line{}, io.EOF
			}
			n++
			return store.Line{Number: int64(n), Text: elements[n-1]}, nil
		}, func(ingest.Imported) {})
	}
	done, err := run("import:x", -1)
	b.must(err)
	if int(done.Known) != known || int(done.Written) != lines-known {
		b.Errorf("%+v, want %d known", done, known)
	}
	if done, err = run("import:y", -1); err != nil || done.Known != 0 || done.Written != lines {
		b.Errorf("a new one: %+v, %v", done, err)
	}
	for p, log := range e.logs {
		for _, source := range []string{"import:x", "events:import:x", "import:y", "events:import:y"} {
			if seq, err := log.Seq(b.Context(), source); err != nil || seq != "" {
				b.Errorf("partition %d remembers %s: %q, %v", p, source, seq, err)
			}
		}
	}
}

// linesOf are lines of a file.
func linesOf(texts ...string) func() (store.Line, error) {
	n := 0
	return func() (store.Line, error) {
		if n == len(texts) {
			return store.Line{}, io.EOF
		}
		n++
		return store.Line{Number: int64(n), Text: texts[n-1]}, nil
	}
}
