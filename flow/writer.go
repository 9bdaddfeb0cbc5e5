package flow

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"sluice"
)

// Bounds of a Writer.
const (
	// openBatchWait is how long an open batch waits for company. The write
	// before it usually takes longer, so under load nobody waits for this.
	openBatchWait = 2 * time.Millisecond

	// appendTries bounds how often one batch is offered to Redis before its
	// waiters are told that its fate is open.
	appendTries = 5
)

// Writer takes items from many requests and writes them to the logs in few,
// large batches: group commit.
//
// The idea. Items go to the open batch of their partition. When the partition
// has no write under way, the open batch is swapped for an empty one under the
// lock and written outside it; everybody whose items are in it waits for that
// one write. While it runs, the next batch fills: the slower the disk, the
// larger the batches, and `appendfsync always` costs next to nothing.
//
// The invariants. A partition has at most one write under way. Each batch has a
// seq of its own, random, and names the one before it. A write whose answer was lost is repeated with
// the same seq and the same bytes, which the log answers with the earlier id:
// a waiter is told "written" only if it is, once. If its fate stays open,
// waiters get the error, and the partition's seq is read from the log before
// the next write.
type Writer struct {
	source string
	logs   []*Log
	open   []openBatch // by partition
}

// openBatch is the batch of one partition that fills, and its writer's state.
type openBatch struct {
	mu      sync.Mutex
	data    []byte
	items   int
	waiting *flight // of the open batch; nil: it is empty
	writing bool    // a goroutine is writing this partition

	// Owned by the goroutine that writes.
	seq     string // of the last batch that is surely written
	unknown bool   // seq must be read from the log first
}

// flight is one batch on its way; done is closed when err is set.
type flight struct {
	done chan struct{}
	err  error
}

// NewWriter returns a writer to the logs (one a partition, in order) under a
// source name that no other writer uses, now or ever.
func NewWriter(logs []*Log, source string) *Writer {
	return &Writer{source: source, logs: logs, open: make([]openBatch, len(logs))}
}

// Write adds items, encoded (sluice.AppendEvent and the like, without the
// version byte), to the partition's open batch and returns when they are
// durably written. ErrFull: Redis takes nothing in. Any other error, also the
// context's end, leaves open whether they were written.
func (w *Writer) Write(ctx context.Context, partition int, items []byte, count int) error {
	o := &w.open[partition]
	var f *flight
	for {
		o.mu.Lock()
		full := o.items > 0 && (len(o.data)+len(items) > sluice.MaxBatchBytes || o.items+count > sluice.MaxBatchItems)
		if !full {
			break
		}
		before := o.waiting
		o.mu.Unlock()
		select { // the open batch is full: wait until it has left
		case <-before.done:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if o.waiting == nil {
		o.waiting = &flight{done: make(chan struct{})}
		o.data = sluice.NewBatch(len(items))
	}
	o.data = append(o.data, items...)
	o.items += count
	f = o.waiting
	if !o.writing {
		o.writing = true
		go w.write(partition) // ends when the open batch is empty
	}
	o.mu.Unlock()
	select {
	case <-f.done:
		return f.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// write writes the partition's open batches until there is none.
func (w *Writer) write(partition int) {
	o := &w.open[partition]
	time.Sleep(openBatchWait)
	for {
		o.mu.Lock()
		f, data := o.waiting, o.data
		o.waiting, o.data, o.items = nil, nil, 0
		if f == nil {
			o.writing = false
			o.mu.Unlock()
			return
		}
		o.mu.Unlock()
		f.err = w.append(partition, data)
		close(f.done)
	}
}

// append writes one batch, repeating it while its fate is open.
func (w *Writer) append(partition int, data []byte) error {
	o, log := &w.open[partition], w.logs[partition]
	ctx, cancel := context.WithTimeout(context.Background(), appendTries*callTimeout)
	defer cancel()
	if o.unknown {
		seq, err := log.Seq(ctx, w.source)
		if err != nil {
			return fmt.Errorf("write batch: %w", err)
		}
		o.seq, o.unknown = seq, false
	}
	// Not a counter: bytes of a batch that was given up may still arrive, and
	// the next batch must not be taken for that one.
	next := newToken()
	var err error
	for try := range appendTries {
		if _, err = log.Append(ctx, w.source, o.seq, next, data, false); err == nil {
			o.seq = next
			return nil
		}
		if errors.Is(err, sluice.ErrFull) || errors.Is(err, sluice.ErrConflict) {
			break
		}
		select {
		case <-ctx.Done():
		case <-time.After(backoffShortest << try):
		}
	}
	o.unknown = true
	return fmt.Errorf("write batch of %d bytes: %w", len(data), err)
}
