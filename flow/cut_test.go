package flow

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice"
)

// sized are events of so many bytes each, named a0, a1, ...
func sized(name string, bytesEach ...int) (items []byte) {
	for i, n := range bytesEach {
		items = sluice.AppendEvent(items, &sluice.Event{Name: name + string(rune('0'+i%10)), Properties: strings.Repeat("x", n)})
	}
	return items
}

// batchesOf reads a log to its end and returns its batches.
func batchesOf(t *testing.T, l *Log) (all [][]byte) {
	t.Helper()
	for at := (sluice.Position{}); ; {
		batches, err := l.Read(t.Context(), at, 10, 0)
		if err != nil {
			t.Fatal(err)
		}
		if len(batches) == 0 {
			return all
		}
		for _, b := range batches {
			at, all = b.Position, append(all, b.Data)
		}
	}
}

// However much is handed in for a partition, and by whichever call, it is
// written in batches within their bounds, whole and in order. A repeat with a
// name writes nothing.
func TestEveryWayInCuts(t *testing.T) {
	large := slices.Repeat([]int{60_000}, 100)
	for name, sizes := range map[string][]int{
		"bytes":               large,
		"items":               slices.Repeat([]int{1}, 3*sluice.MaxBatchItems+5),
		"one item":            {700_000},
		"a large one inside":  {10, 700_000, 10, 10},
		"exactly one batch":   slices.Repeat([]int{1}, sluice.MaxBatchItems),
		"one item more":       slices.Repeat([]int{1}, sluice.MaxBatchItems+1),
		"large, small, large": {250_000, 5, 250_000, 5, 5, 250_000},
	} {
		t.Run(name, func(t *testing.T) {
			logs := []*Log{NewLog(dial(t), Partitions(1)[0])}
			w := NewWriter(logs, "api:a", 64<<20)
			part := Part{Items: sized("a", sizes...), Count: len(sizes)}
			half := 0 // of the items, where the second name begins
			for range len(sizes) / 2 {
				half += 4 + int(binary.LittleEndian.Uint32(part.Items[half:]))
			}
			for way, write := range []func() error{
				func() error { return w.Write(t.Context(), part) },
				func() error { return w.WriteOnce(t.Context(), part, "request", "body", time.Hour) },
				func() error {
					names := []Named{{"first", half}, {"second", len(part.Items)}}
					_, err := w.WriteEach(t.Context(), part, "request", names, time.Hour)
					return err
				},
			} {
				before := len(batchesOf(t, logs[0]))
				if err := write(); err != nil {
					t.Fatal(err)
				}
				if way > 0 { // a repeat
					if err := write(); err != nil {
						t.Fatal(err)
					}
				}
				var got []byte
				for _, b := range batchesOf(t, logs[0])[before:] {
					if n := countItems(t, b); n > sluice.MaxBatchItems || n > 1 && len(b)-1 > sluice.MaxBatchBytes {
						t.Errorf("way %d: a batch of %d items and %d bytes", way, n, len(b))
					}
					got = append(got, b[1:]...)
				}
				if !bytes.Equal(got, part.Items) {
					t.Errorf("way %d: %d bytes were written of %d", way, len(got), len(part.Items))
				}
			}
		})
	}
}

// A position inside an entry is read as it was written; positions of before are.
func TestReached(t *testing.T) {
	for text, want := range map[string]Reached{
		"":      {},
		"0-0":   {},
		"7-3":   {Position: sluice.Position{Major: 7, Minor: 3}},
		"7-3/9": {Position: sluice.Position{Major: 7, Minor: 3}, Items: 9},
	} {
		got, err := ParseReached(text)
		if err != nil || got != want || text != "" && got.String() != text {
			t.Errorf("%q: %+v (%s), %v", text, got, got, err)
		}
	}
	for _, text := range []string{"7-3/", "7-3/0", "7-3/-1", "7-3/x", "7/1", "/1"} {
		if got, err := ParseReached(text); err == nil {
			t.Errorf("%q: %+v", text, got)
		}
	}
}
