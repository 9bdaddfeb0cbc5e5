package flow

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"sluice"
)

// closedBatch is an open batch that has left.
type closedBatch struct {
	partition int
	data      []byte
	items     int
}

// write writes a group's open batches until there are none.
func (w *Writer) write(g *group) {
	defer w.leave()
	for {
		g.gather()
		g.mu.Lock()
		f, batches := w.take(g)
		if f == nil {
			g.writing = false
			g.mu.Unlock()
			return
		}
		g.mu.Unlock()
		began := time.Now()
		f.failed = w.append(g, batches)
		g.expect(f, time.Since(began))
		for i := range batches {
			if f.failed[batches[i].partition] == nil {
				w.sizes.Observe(batches[i].items)
			}
		}
		close(f.done)
	}
}

// take closes the open batches. The group's lock is held.
func (w *Writer) take(g *group) (*flight, []closedBatch) {
	f := g.waiting
	if f == nil {
		return nil, nil
	}
	batches := make([]closedBatch, 0, len(g.partitions))
	for _, p := range g.partitions {
		if o := &w.open[p]; len(o.data) > 0 {
			batches = append(batches, closedBatch{partition: p, data: o.data, items: o.items})
			o.data, o.items = nil, 0
		}
	}
	g.waiting, g.together = nil, nil
	return f, batches
}

// gather waits for the expected callers, not for long.
func (g *group) gather() {
	g.mu.Lock()
	if g.waiting == nil || g.waiting.parts >= g.expected {
		g.mu.Unlock()
		return
	}
	together, patience := make(chan struct{}), g.patience
	g.together = together
	g.mu.Unlock()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-together:
	case <-timer.C:
	}
}

// joined notes that a part has come. The group's lock is held.
func (g *group) joined() {
	if g.waiting.parts++; g.waiting.parts >= g.expected {
		g.leave()
	}
}

// leave ends gather. The group's lock is held.
func (g *group) leave() {
	if g.together != nil {
		close(g.together)
		g.together = nil
	}
}

// expect notes which callers will come after a flight that took so long: those
// that were in it, and those that have come meanwhile.
func (g *group) expect(f *flight, took time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.expected = f.parts
	if g.waiting != nil {
		g.expected += g.waiting.parts
	}
	g.expected = min(g.expected, enoughParts)
	g.patience = min(max(took, shortestWait), longestWait)
}

// append writes batches of a group, in one call of Redis, or in several at once
// where they are many bytes. It returns those that failed.
func (w *Writer) append(g *group, batches []closedBatch) (failed map[int]error) {
	count := w.counts(g, batches)
	calls := cutCalls(batches, func(b *closedBatch) int { return len(b.data) })
	if len(calls) == 1 {
		return w.appendTogether(calls[0], count)
	}
	var wait sync.WaitGroup
	all := make([]map[int]error, len(calls))
	for i, call := range calls {
		wait.Go(func() { all[i] = w.appendTogether(call, count) })
	}
	wait.Wait()
	failed = make(map[int]error)
	for _, some := range all {
		maps.Copy(failed, some)
	}
	return failed
}

// counts reports whether Redis is to be asked for the number of entries in the
// logs of batches. It is if one of them was not counted for a while, or may be
// a quarter full. Between counts a log seems to fill, whatever is applied of it
// meanwhile.
func (w *Writer) counts(g *group, batches []closedBatch) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	now, count := time.Now(), false
	for i := range batches {
		o := &w.open[batches[i].partition]
		count = count || now.Sub(o.counted) >= countEvery ||
			o.entries >= maxBacklogEntries/4 || o.entries*o.mean >= w.backlogBytes/4
	}
	if count {
		for i := range batches {
			w.open[batches[i].partition].counted = now
		}
	}
	return count
}

// cutCalls cuts the batches to be written into calls of some maxCallBytes.
func cutCalls[T any](all []T, size func(*T) int) (calls [][]T) {
	from, bytes := 0, 0
	for i := range all {
		if bytes += size(&all[i]); bytes >= maxCallBytes || i == len(all)-1 {
			calls = append(calls, all[from:i+1])
			from, bytes = i+1, 0
		}
	}
	return calls
}

// appendTogether writes batches by one call and repeats those whose fate is
// open. It returns those that failed.
func (w *Writer) appendTogether(batches []closedBatch, count bool) (failed map[int]error) {
	ctx, cancel := context.WithTimeout(context.Background(), appendTries*callTimeout)
	defer cancel()
	failed = w.learnSeqs(ctx, batches)
	left := make([]Entry, 0, len(batches))
	for i := range batches {
		p := batches[i].partition
		if failed[p] != nil {
			continue
		}
		// Not a counter: bytes of a batch that was given up may still arrive, and
		// the next batch must not be taken for that one.
		left = append(left, Entry{Log: w.logs[p], PrevSeq: w.open[p].seq, Seq: newToken(), Batch: batches[i].data})
	}
	logs := make([]*Log, len(batches))
	for i := range batches {
		logs[i] = w.logs[batches[i].partition]
	}
	on, _ := w.Replicas.server(ctx, logs) // what it cannot raise, the append cannot, and says why
	for try := range appendTries {
		if left = w.try(ctx, left, failed, count); len(left) == 0 {
			break
		}
		_ = sluice.Pause(ctx, backoffShortest<<try)
	}
	if len(failed) < len(batches) {
		if err := w.Replicas.await(ctx, logs, on); err != nil {
			for i := range batches {
				if p := batches[i].partition; failed[p] == nil {
					failed[p] = err
				}
			}
		}
	}
	for p, err := range failed {
		failed[p] = fmt.Errorf("write batch: %w", err)
	}
	return failed
}

// learnSeqs reads the seqs of the partitions where the fate of the last write
// is open. It returns those that could not be read.
func (w *Writer) learnSeqs(ctx context.Context, batches []closedBatch) (failed map[int]error) {
	failed = make(map[int]error)
	var logs []*Log
	for i := range batches {
		if p := batches[i].partition; w.open[p].unknown {
			logs = append(logs, w.logs[p])
		}
	}
	if len(logs) == 0 {
		return failed
	}
	for i, stands := range logs[0].redis.seqs(ctx, w.source, logs) {
		p := logs[i].Partition()
		if stands.err != nil {
			failed[p] = stands.err
			continue
		}
		w.open[p].seq, w.open[p].unknown = stands.seq, false
	}
	return failed
}

// try offers entries to Redis once, notes in failed which are not written, and
// returns those of them that may be tried again.
func (w *Writer) try(ctx context.Context, entries []Entry, failed map[int]error, count bool) (left []Entry) {
	if len(entries) == 0 {
		return nil
	}
	done, err := entries[0].Log.redis.appendAll(ctx, w.source, entries, false, count)
	left = entries[:0]
	for i := range entries {
		e := entries[i]
		p := e.Log.Partition()
		o, failure := &w.open[p], err
		if err == nil {
			failure = done[i].Err
		}
		if o.unknown = failure != nil; !o.unknown {
			o.seq = e.Seq
			o.noteAppended(done[i].Entries, len(e.Batch))
			delete(failed, p)
			continue
		}
		failed[p] = failure
		if err != nil && !errors.Is(err, sluice.ErrFull) { // else Redis has said that this one is not written
			o.retried = true
			left = append(left, e)
		}
	}
	return left
}

// noteAppended notes how many entries the log has now; -1: it was not counted,
// it is one more.
func (o *openBatch) noteAppended(entries, size int) {
	o.group.mu.Lock()
	defer o.group.mu.Unlock()
	if entries < 0 {
		entries = o.entries + 1
	}
	o.entries = entries
	if o.mean == 0 {
		o.mean = size
	}
	o.mean += (size - o.mean) / meanOver
}
