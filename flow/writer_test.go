package flow

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice"
)

func eventOf(size int) []byte {
	return sluice.AppendEvent(nil, &sluice.Event{Name: "a", Properties: string(make([]byte, size))})
}

const testBacklogBytes = 16 << 20

// While Redis does not write, no caller is told that it has written.
func TestWriterAnswersOnlyAfterTheWrite(t *testing.T) {
	r, other := dial(t), dial(t)
	w := NewWriter([]*Log{NewLog(r, Partitions(1)[0])}, "api:1", testBacklogBytes)
	if err := w.Write(t.Context(), Part{0, eventOf(1), 1}); err != nil { // loads the script
		t.Fatal(err)
	}
	do(t, other, "CLIENT", "PAUSE", "60000", "WRITE")
	answered := make(chan error, 1)
	go func() { answered <- w.Write(t.Context(), Part{0, eventOf(1), 1}) }()
	eventually(t, "the write waits in Redis", func() bool {
		info, err := other.Info(t.Context(), "clients")
		return err == nil && info["blocked_clients"] == "1"
	})
	select {
	case err := <-answered:
		t.Errorf("answered (%v) before it was written", err)
	default:
	}
	do(t, other, "CLIENT", "UNPAUSE")
	if err := <-answered; err != nil {
		t.Error(err)
	}
}

// A log that nothing drains is refused to writers at a bound, before anything
// of the request is written. It is open again as soon as it has been drained.
func TestWriterRefusesWhenTheLogIsFullAndNoticesWhenItIsNot(t *testing.T) {
	r := dial(t)
	parts := Partitions(2)
	logs := []*Log{NewLog(r, parts[0]), NewLog(r, parts[1])}
	w := NewWriter(logs, "api:1", testBacklogBytes)
	item := eventOf(sluice.MaxBatchBytes)
	var err error
	wrote := 0
	for ; err == nil && wrote <= 2*w.backlogBytes/len(item); wrote++ {
		err = w.Write(t.Context(), Part{0, item, 1})
	}
	var full *LogFullError
	if !errors.As(err, &full) || !errors.Is(err, sluice.ErrFull) || full.Partition != 0 {
		t.Fatalf("after %d writes: %v, want a full log", wrote, err)
	}
	if n := w.backlogBytes / len(item); wrote < n || wrote > n+2 {
		t.Errorf("refused after %d writes of %d bytes, want about %d", wrote, len(item), n)
	}
	if err := w.Write(t.Context(), Part{1, item, 1}, Part{0, item, 1}); !errors.As(err, &full) {
		t.Errorf("a request with a part for the full log: %v", err)
	}
	if n, err := logs[1].Entries(t.Context()); err != nil || n != 0 {
		t.Errorf("a refused request left %d entries in the other log (%v)", n, err)
	}
	if err := w.Write(t.Context(), Part{1, item, 1}); err != nil {
		t.Errorf("the other log: %v", err)
	}
	last, err := logs[0].Last(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := logs[0].Trim(t.Context(), leaseOn(t, r, parts[0].leaseKey("store")), last); err != nil {
		t.Fatal(err)
	}
	if err := w.Write(t.Context(), Part{0, item, 1}); err != nil {
		t.Errorf("after the log was drained: %v", err)
	}
}

// Batches that leave in one call fail one by one. A log that cannot be written,
// or that another process has written to, keeps none of the others out. Each is
// written again when it can be.
func TestWriterFailsLogByLog(t *testing.T) {
	r := dial(t)
	parts := Partitions(3)
	logs := []*Log{NewLog(r, parts[0]), NewLog(r, parts[1]), NewLog(r, parts[2])}
	w := NewWriter(logs, "api:1", testBacklogBytes)
	item := eventOf(1)
	all := []Part{{0, item, 1}, {1, item, 1}, {2, item, 1}}
	if err := w.Write(t.Context(), all...); err != nil {
		t.Fatal(err)
	}
	do(t, r, "RENAME", parts[1].logKey(), "kept")
	do(t, r, "SET", parts[1].logKey(), "no stream")
	if _, err := logs[2].Append(t.Context(), "api:1", w.open[2].seq, "elsewhere", oneEvent("a"), false); err != nil {
		t.Fatal(err)
	}
	err := w.Write(t.Context(), all...)
	if err == nil || !strings.Contains(err.Error(), "partition 1") || !strings.Contains(err.Error(), "WRONGTYPE") {
		t.Errorf("a log that is no stream: %v", err)
	}
	if err := w.Write(t.Context(), all[0]); err != nil {
		t.Errorf("a log beside it: %v", err)
	}
	do(t, r, "DEL", parts[1].logKey())
	do(t, r, "RENAME", "kept", parts[1].logKey())
	if err := w.Write(t.Context(), all...); err != nil {
		t.Errorf("when all can be written: %v", err)
	}
	for p, want := range []int{4, 2, 3} { // of partition 2, one is the other's
		if n, err := logs[p].Entries(t.Context()); err != nil || n != want {
			t.Errorf("log %d has %d entries (%v), want %d", p, n, err, want)
		}
	}
}

// Where logs are in different slots, each batch is a call; and batches of many
// bytes are several calls.
func TestWriterGroupsAndCalls(t *testing.T) {
	r := dial(t)
	logs := []*Log{NewLog(r, Partitions(2)[0]), NewLog(r, Partitions(2)[1])}
	w := NewWriter(logs, "api:1", testBacklogBytes)
	if w.open[0].group != w.open[1].group {
		t.Error("one server's logs are not written together")
	}
	w.divide([][]int{{0}, {1}}) // as on a cluster
	for range 3 {
		if err := w.Write(t.Context(), Part{0, eventOf(1), 1}, Part{1, eventOf(1), 1}); err != nil {
			t.Fatal(err)
		}
	}
	for p, l := range logs {
		if n, err := l.Entries(t.Context()); err != nil || n != 3 {
			t.Errorf("log %d has %d entries (%v), want 3", p, n, err)
		}
	}
	for _, c := range []struct {
		sizes []int
		want  string
	}{
		{[]int{1, 1, 1}, "[3]"},
		{[]int{maxCallBytes, 1, 1}, "[1 2]"},
		{[]int{maxCallBytes / 2, maxCallBytes / 2, maxCallBytes}, "[2 1]"},
		{[]int{maxCallBytes - 1, 1}, "[2]"},
	} {
		batches := make([]closedBatch, len(c.sizes))
		for i, n := range c.sizes {
			batches[i] = closedBatch{partition: i, data: make([]byte, n)}
		}
		var got []int
		for _, call := range cutCalls(batches, func(b *closedBatch) int { return len(b.data) }) {
			got = append(got, len(call))
		}
		if fmt.Sprint(got) != c.want {
			t.Errorf("batches of %v bytes in calls of %v, want %s", c.sizes, got, c.want)
		}
	}
}

// Many small entries are bounded by their number.
func TestWriterBoundsEntriesToo(t *testing.T) {
	o := &openBatch{group: &group{}}
	o.noteAppended(maxBacklogEntries-1, 100)
	if o.full(1 << 30) {
		t.Error("full below the bound")
	}
	o.noteAppended(maxBacklogEntries, 100)
	if !o.full(1 << 30) {
		t.Error("not full at the bound")
	}
}

// All parts of requests by one writer keep their order in a partition, also
// across batches.
func TestWriterKeepsOrder(t *testing.T) {
	r := dial(t)
	log := NewLog(r, Partitions(1)[0])
	w := NewWriter([]*Log{log}, "api:1", testBacklogBytes)
	names := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
	want := ""
	for range 4 {
		var parts []Part
		for _, name := range names {
			parts = append(parts, Part{0, sluice.AppendEvent(nil, &sluice.Event{Name: name, Properties: string(make([]byte, sluice.MaxBatchBytes/3))}), 1})
			want += name
		}
		if err := w.Write(t.Context(), parts...); err != nil {
			t.Fatal(err)
		}
	}
	batches, err := log.Read(t.Context(), sluice.Position{}, 1000, 0)
	if err != nil {
		t.Fatal(err)
	}
	got := ""
	for _, b := range batches {
		if len(b.Data) > sluice.MaxBatchBytes {
			t.Errorf("a batch of %d bytes", len(b.Data))
		}
		br, err := sluice.ReadBatch(b.Data)
		if err != nil {
			t.Fatal(err)
		}
		var e sluice.Event
		for br.Next() {
			if err := sluice.DecodeEvent(br.Item.Payload, &e); err != nil {
				t.Fatal(err)
			}
			got += e.Name
		}
	}
	if got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// Close waits for writes under way, refuses new ones, and leaves nothing of the
// writer behind in the logs.
func TestWriterClose(t *testing.T) {
	r := dial(t)
	log := NewLog(r, Partitions(1)[0])
	w := NewWriter([]*Log{log}, "api:1", testBacklogBytes)
	item := eventOf(10)
	var wait sync.WaitGroup
	var mu sync.Mutex
	written := 0
	if err := w.Write(t.Context(), Part{0, item, 1}); err != nil {
		t.Fatal(err)
	}
	for range 100 {
		wait.Go(func() {
			err := w.Write(t.Context(), Part{0, item, 1})
			if err != nil && !errors.Is(err, ErrClosed) {
				t.Error(err)
			}
			if err == nil {
				mu.Lock()
				written++
				mu.Unlock()
			}
		})
	}
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	items := 0
	batches, err := log.Read(t.Context(), sluice.Position{}, 1000, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range batches {
		items += countItems(t, b.Data)
	}
	wait.Wait()
	if items != written+1 {
		t.Errorf("%d items in the log, %d were answered", items, written+1)
	}
	if seq, err := log.Seq(t.Context(), "api:1"); err != nil || seq != "" {
		t.Errorf("the log remembers seq %q (%v)", seq, err)
	}
}

func TestWriterCloseIsBounded(t *testing.T) {
	w := NewWriter(nil, "api:1", testBacklogBytes)
	w.enter()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.Close(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestOnce(t *testing.T) {
	r := dial(t)
	for _, value := range []string{"first", "second", "third"} {
		got, err := r.Once(t.Context(), "n", value, time.Hour)
		if err != nil || got != "first" {
			t.Errorf("%s: %q %v, want first", value, got, err)
		}
	}
	if ttl := do(t, r, "PTTL", onceKey("n")); ttl == "-1" {
		t.Error("it is remembered for ever")
	}
	do(t, r, "CONFIG", "SET", "maxmemory", "1")
	if _, err := r.Once(t.Context(), "m", "x", time.Hour); !errors.Is(err, sluice.ErrFull) {
		t.Errorf("full redis: %v", err)
	}
}

// Items written once are written once, by any caller, until their name is
// forgotten. A full Redis takes none of them.
func TestWriteOnce(t *testing.T) {
	r := dial(t)
	logs := []*Log{NewLog(r, Partitions(1)[0])}
	w, other := NewWriter(logs, "api:a", testBacklogBytes), NewWriter(logs, "api:b", testBacklogBytes)
	part := Part{Items: oneEvent("a")[1:], Count: 1}
	for i, writer := range []*Writer{w, w, other} {
		if err := writer.WriteOnce(t.Context(), part, "request", "body", time.Hour); err != nil {
			t.Fatalf("call %d: %v", i, err)
		}
	}
	if err := w.WriteOnce(t.Context(), part, "request", "another body", time.Hour); !errors.Is(err, ErrOtherBody) {
		t.Errorf("another body: %v", err)
	}
	if err := w.WriteOnce(t.Context(), part, "next", "body", time.Hour); err != nil {
		t.Fatal(err)
	}
	if n, err := logs[0].Entries(t.Context()); err != nil || n != 2 {
		t.Errorf("%d entries, %v; want 2", n, err)
	}
	// The batches are links of the log's chain as any other's are.
	if err := w.Write(t.Context(), part); err != nil {
		t.Fatal(err)
	}
	at, read := sluice.Position{}, 0
	for read < 3 {
		batches, err := logs[0].Read(t.Context(), at, 10, time.Second)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range batches {
			at, read = b.Position, read+1
		}
	}
	do(t, r, "CONFIG", "SET", "maxmemory", "1")
	defer do(t, r, "CONFIG", "SET", "maxmemory", "0")
	if err := w.WriteOnce(t.Context(), part, "full", "body", time.Hour); !errors.Is(err, sluice.ErrFull) {
		t.Errorf("redis is full: %v", err)
	}
	if n := do(t, r, "EXISTS", Partitions(1)[0].onceKey("full")); n != "0" {
		t.Error("what was not written is remembered")
	}
}

// A request comes again with more items, and others than before. The items not
// yet written are written, each once. A full Redis takes none of them.
func TestWriteEach(t *testing.T) {
	r := dial(t)
	logs := []*Log{NewLog(r, Partitions(1)[0])}
	w, other := NewWriter(logs, "api:a", testBacklogBytes), NewWriter(logs, "api:b", testBacklogBytes)
	fresh := 0
	write := func(w *Writer, request, names string) error {
		var p Part
		var named []Named
		for name := range strings.FieldsSeq(names) {
			p.Items = append(p.Items, oneEvent(name)[1:]...)
			p.Items = append(p.Items, oneEvent(name + "2")[1:]...)
			p.Count += 2
			named = append(named, Named{name, len(p.Items)})
		}
		n, err := w.WriteEach(t.Context(), p, request, named, time.Hour)
		fresh += n
		return err
	}
	for i, names := range []string{"a c", "a c", "a b c d", "d", "b e"} {
		if err := write([]*Writer{w, other}[i%2], "request", names); err != nil {
			t.Fatalf("%s: %v", names, err)
		}
	}
	if err := write(w, "another", "a"); err != nil {
		t.Fatal(err)
	}
	if fresh != 6 {
		t.Errorf("%d names are new", fresh)
	}
	var got []string
	at := sluice.Position{}
	for len(got) < 12 {
		batches, err := logs[0].Read(t.Context(), at, 10, time.Second)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range batches {
			at = b.Position
			br, err := sluice.ReadBatch(b.Data)
			if err != nil {
				t.Fatal(err)
			}
			for br.Next() {
				var e sluice.Event
				if err := sluice.DecodeEvent(br.Item.Payload, &e); err != nil {
					t.Fatal(err)
				}
				got = append(got, e.Name)
			}
		}
	}
	if names := strings.Join(got, " "); names != "a a2 c c2 b b2 d d2 e e2 a a2" {
		t.Errorf("the log has %s", names)
	}
	if n, err := logs[0].Entries(t.Context()); err != nil || n != 4 { // what has nothing new is no entry
		t.Errorf("%d entries, %v", n, err)
	}
	for request, want := range map[string]string{"request": "a c e", "another": "a", "none": ""} {
		if taken, err := w.Taken(t.Context(), 0, request, []string{"a", "x", "c", "e"}); err != nil || strings.Join(taken, " ") != want {
			t.Errorf("%s: %q are taken, %v; want %q", request, taken, err, want)
		}
	}
	key := Partitions(1)[0].takenKey("request")
	if ttl := do(t, r, "PTTL", key); ttl == "-1" {
		t.Error("it is remembered for ever")
	}
	do(t, r, "CONFIG", "SET", "maxmemory", "1")
	defer do(t, r, "CONFIG", "SET", "maxmemory", "0")
	if err := write(w, "request", "f"); !errors.Is(err, sluice.ErrFull) {
		t.Errorf("redis is full: %v", err)
	}
	if n := do(t, r, "HEXISTS", key, "f"); n != "0" {
		t.Error("what was not written is remembered")
	}
}
