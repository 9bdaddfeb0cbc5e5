package flow

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"sync"
	"testing"

	"sluice"
)

// Many small batches of several logs come in order, by few reads for all logs.
func TestPullReadsLogsTogether(t *testing.T) {
	const partitions, batches = 8, 200
	r := dial(t)
	var logs []*Log
	for _, p := range Partitions(partitions) {
		logs = append(logs, NewLog(r, p))
	}
	for n := range batches {
		var entries []Entry
		for _, l := range logs {
			entries = append(entries, Entry{Log: l, PrevSeq: seqText(n), Seq: seqText(n + 1), Batch: oneEvent(fmt.Sprintf("%d/%d", l.Partition(), n))})
		}
		done, err := r.appendAll(t.Context(), "s", entries, false, false)
		if err != nil || done[0].Err != nil {
			t.Fatal(err, done[0].Err)
		}
	}
	do(t, r, "CONFIG", "RESETSTAT")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var mu sync.Mutex
	got, all := make(map[int]int), 0
	err := Pull(ctx, logs, map[int]sluice.Position{}, func(_ context.Context, some []Batch) error {
		mu.Lock()
		defer mu.Unlock()
		for _, b := range some {
			if want := oneEvent(fmt.Sprintf("%d/%d", b.Partition, got[b.Partition])); string(b.Data) != string(want) {
				return fmt.Errorf("partition %d: batch %d is %q", b.Partition, got[b.Partition], b.Data)
			}
			got[b.Partition]++
			all++
		}
		if all == partitions*batches {
			stop()
		}
		return nil
	})
	if !errors.Is(err, context.Canceled) || all != partitions*batches {
		t.Fatalf("%d batches were pulled of %d: %v", all, partitions*batches, err)
	}
	calls := regexp.MustCompile(`cmdstat_xread:calls=(\d+)`).FindStringSubmatch(do(t, r, "INFO", "commandstats"))
	// A busy machine needs more than batches/manyBatches. Each log by itself needs at least so many.
	const apart = partitions * batches / manyBatches
	if n, err := strconv.Atoi(calls[1]); err != nil || n >= apart {
		t.Fatalf("%d reads for %d batches of %d logs (%v), want some %d, and less than %d", n, batches, partitions, err, batches/manyBatches, apart)
	}
}

// A log whose batches are not taken is not read on, and all others are.
func TestPullPassesByALogThatIsHeldUp(t *testing.T) {
	r := dial(t)
	var logs []*Log
	for _, p := range Partitions(3) {
		logs = append(logs, NewLog(r, p))
	}
	write := func(p, n int) {
		if _, err := logs[p].Append(t.Context(), "s", seqText(n), seqText(n+1), oneEvent("a"), false); err != nil {
			t.Error(err)
		}
	}
	write(0, 0)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var mu sync.Mutex
	got := make(map[int]int)
	others := make(chan struct{})
	tell := sync.OnceFunc(func() { close(others) })
	err := Pull(ctx, logs, map[int]sluice.Position{}, func(_ context.Context, some []Batch) error {
		p := some[0].Partition
		mu.Lock()
		got[p] += len(some)
		n, all := got[p], got[1] == 3 && got[2] == 3
		mu.Unlock()
		if p == 0 && n == 1 { // the others' come now, one after the other
			write(0, 1)
			write(1, 0)
			write(2, 0)
			select {
			case <-others:
			case <-ctx.Done():
			}
			return nil
		}
		if p > 0 && n < 3 {
			write(p, n)
		}
		if all {
			tell()
		}
		if p == 0 {
			stop()
		}
		return nil
	})
	if !errors.Is(err, context.Canceled) || got[0] != 2 || got[1] != 3 || got[2] != 3 {
		t.Fatalf("pulled %v: %v; want 2, 3 and 3", got, err)
	}
}

// A log with a gap ends the reading, and names itself.
func TestPullMeetsAGap(t *testing.T) {
	r := dial(t)
	var logs []*Log
	var lost sluice.Position
	for _, p := range Partitions(2) {
		l := NewLog(r, p)
		logs = append(logs, l)
		for n := range 3 {
			a, err := l.Append(t.Context(), "s", seqText(n), seqText(n+1), oneEvent("a"), false)
			if err != nil {
				t.Fatal(err)
			}
			if n == 1 {
				lost = a.Position
			}
		}
	}
	do(t, r, "XDEL", logs[1].partition.logKey(), lost.String())
	var mu sync.Mutex
	got := make(map[int]int)
	err := Pull(t.Context(), logs, map[int]sluice.Position{}, func(_ context.Context, some []Batch) error {
		mu.Lock()
		defer mu.Unlock()
		got[some[0].Partition] += len(some)
		return nil
	})
	var gap *GapError
	if !errors.As(err, &gap) || gap.What != "log of partition 1" || got[0] != 3 || got[1] != 1 {
		t.Fatalf("pulled %v, then %v; want 3 and 1, then the gap of partition 1", got, err)
	}
}
