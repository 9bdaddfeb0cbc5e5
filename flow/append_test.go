package flow

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"sluice"
)

// A broken entry of one log fails for that log only, whatever it is. The
// counter of entries learns nothing from it, and does not read it as a failed
// write.
func TestAppendAllFailsLogByLog(t *testing.T) {
	for bad, command := range map[string][]string{
		"type":    {"SET", "", "x"},
		"slot":    {"HSET", "", "list:x", "no bar"},
		"applied": {"HSET", "", appliedField, "x"},
	} {
		t.Run(bad, func(t *testing.T) {
			r := dial(t)
			var logs []*Log
			for _, p := range Partitions(3) {
				logs = append(logs, NewLog(r, p))
			}
			all := func(prev, seq string) []Outcome {
				var entries []Entry
				for _, l := range logs {
					entries = append(entries, Entry{Log: l, PrevSeq: prev, Seq: seq, Batch: oneEvent("a")})
				}
				return AppendAll(t.Context(), "list:x", entries, true)
			}
			for _, o := range all("", "1") {
				if o.Err != nil || o.Entries != 1 {
					t.Fatalf("%+v", o)
				}
			}
			key := logs[1].partition.sourcesKey()
			if bad == "type" {
				do(t, r, "DEL", key)
			}
			command[1] = key
			do(t, r, command...)
			for p, o := range all("1", "2") {
				entries, _ := strconv.Atoi(do(t, r, "XLEN", logs[p].partition.logKey()))
				if written := p != 1 || bad == "applied"; written != (o.Err == nil) || written != (entries == 2) || p != 1 && o.Entries != 2 {
					t.Errorf("partition %d: %d entries, outcome %+v", p, entries, o)
				}
			}
		})
	}
}

// A log that is applied as fast as it is written is not full, though it is not
// counted at each append.
func TestALogThatIsAppliedIsNotFull(t *testing.T) {
	r := dial(t)
	l, lease := NewLog(r, Partitions(1)[0]), leaseOn(t, r, Partitions(1)[0].leaseKey("store"))
	w := NewWriter([]*Log{l}, "api:1", LeastBacklogBytes)
	w.open[0].looking = true // another caller asks already, so this one does not
	item := eventOf(100 << 10)
	for n := range 60 {
		if err := w.Write(t.Context(), Part{0, item, 1}); err != nil {
			t.Fatalf("write %d: %v", n, err)
		}
		last, err := l.Last(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Trim(t.Context(), lease, sluice.Position{Major: last.Major, Minor: last.Minor + 1}); err != nil {
			t.Fatal(err)
		}
	}
}

// A log that others fill is counted, whichever log was written when the last count
// was made.
func TestEachLogIsCounted(t *testing.T) {
	r := dial(t)
	var logs []*Log
	for _, p := range Partitions(2) {
		logs = append(logs, NewLog(r, p))
	}
	w := NewWriter(logs, "api:1", LeastBacklogBytes)
	item := eventOf(100)
	if err := w.Write(t.Context(), Part{0, item, 1}, Part{1, item, 1}); err != nil {
		t.Fatal(err)
	}
	do(t, r, "EVAL", fmt.Sprintf("for i = 1, 60000 do redis.call('XADD', '%s', '*', 'prev', '0-0', 'batch', 'x') end return 1", logs[1].partition.logKey()), "0")
	w.open[1].counted = time.Now().Add(-countEvery)
	if err := errors.Join(w.Write(t.Context(), Part{0, item, 1}), w.Write(t.Context(), Part{1, item, 1})); err != nil {
		t.Fatal(err)
	}
	if err := w.Write(t.Context(), Part{1, item, 1}); !errors.Is(err, sluice.ErrFull) {
		t.Errorf("a log with 60,000 entries takes more: %v", err)
	}
}

// readThree has a reader that keeps nothing read three chunks of a list, of an element
// each, and calls each behind every one.
func readThree(t *testing.T, r *Redis, l *List, reader *ListReader, each func()) {
	t.Helper()
	for i := range 3 {
		do(t, r, "RPUSH", l.Name(), fmt.Sprint(i))
		page, err := reader.Next(t.Context(), false)
		if err != nil {
			t.Fatal(err)
		}
		reader.Committed(page.To)
		each()
	}
}

// A follower that keeps nothing tells Redis once of what it drops.
func TestDropIsToldOnce(t *testing.T) {
	r := dial(t)
	l, lease := newList(t, r, Left)
	reader, err := l.OpenOldest(t.Context(), lease, sluice.Position{})
	if err != nil {
		t.Fatal(err)
	}
	readThree(t, r, l, reader, func() {
		do(t, r, "CONFIG", "RESETSTAT")
		if err := reader.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if stats := do(t, r, "INFO", "commandstats"); strings.Count(stats, "cmdstat_evalsha:calls=1,")+strings.Count(stats, "cmdstat_eval:calls=1,") == 0 || strings.Contains(stats, "cmdstat_evalsha:calls=2") {
			t.Error(stats)
		}
	})
}

// A Redis that has gone back holds chunks again that were gone. They are not
// taken for committed ones, and its word about chunks beyond them is not
// believed.
func TestChunksThatComeBackAreRead(t *testing.T) {
	r := dial(t)
	l, lease := newList(t, r, Left)
	reader, err := l.OpenOldest(t.Context(), lease, sluice.Position{})
	if err != nil {
		t.Fatal(err)
	}
	readThree(t, r, l, reader, func() {})
	if err := reader.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	do(t, r, "HSET", l.keys.stateKey(), "first", "1", "base", "0", "last", "2", "done", "9-0")
	for i := 1; i <= 2; i++ {
		do(t, r, "RPUSH", l.keys.heldKey(uint64(i)), fmt.Sprint("again ", i))
	}
	if err := reader.dropHead(t.Context(), sluice.Position{Major: 5}, sluice.Position{Major: 5}, nil); err == nil || !strings.Contains(err.Error(), "ORDER") {
		t.Errorf("a reader of before drops from what came back: %v", err)
	}
	again, err := l.OpenOldest(t.Context(), lease, sluice.Position{})
	if err != nil {
		t.Fatal(err)
	}
	page, err := again.Next(t.Context(), false)
	if err != nil || len(page.Elements) == 0 || page.Elements[0] != "again 1" {
		t.Errorf("what came back is read as %v: %v", page.Elements, err)
	}
}
