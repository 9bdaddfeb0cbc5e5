package flow

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"sluice"
	"sluice/meter"
)

// Bounds of a Writer.
const (
	// openBatchWait is how long an open batch waits for company at most, unless
	// it is large: see rounds. Batches that left as soon as they could held two
	// or three single events each and cost Redis half as much again, an event.
	// With 256 connections 2 and 3 ms take in as much, 4 ms a little less, and
	// 8 ms a quarter less: then everybody waits for the tick.
	openBatchWait = 3 * time.Millisecond

	// largeBatchBytes is what does not wait.
	largeBatchBytes = 32 << 10

	// appendTries bounds how often one batch is offered to Redis before its
	// waiters are told that its fate is open.
	appendTries = 5

	// maxBacklogEntries is where a partition's log is full for a Writer, beside
	// the bytes that it is given: what is in the log and not stored yet lies in
	// Redis's memory. Both are above the bound of the router, so that a list that
	// is drained at full speed does not keep requests out.
	maxBacklogEntries = 65_536

	// LeastBacklogBytes is what a log may hold in any case.
	LeastBacklogBytes = 1 << 20

	// meanOver is over how many batches their mean size is taken, roughly.
	meanOver = 8
)

// Part is what one request has for one partition: items, encoded
// (sluice.AppendEvent and the like, without the version byte). A request may
// have several parts for a partition; they keep their order.
type Part struct {
	Partition int
	Items     []byte
	Count     int
}

// LogFullError says that a log holds as much as it may of what is not stored
// yet. Nothing of the request was written. It is a sluice.ErrFull.
type LogFullError struct {
	Partition, Entries int
}

// Error names the log.
func (e *LogFullError) Error() string {
	return fmt.Sprintf("log of partition %d is full: %d entries are not stored yet", e.Partition, e.Entries)
}

// Is makes it a sluice.ErrFull.
func (e *LogFullError) Is(target error) bool { return target == sluice.ErrFull }

// ErrClosed says that the writer takes nothing in any more. Nothing was written.
var ErrClosed = errors.New("writer is closed")

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
// seq of its own, random, and names the one before it. A write whose answer was
// lost is repeated with the same seq and the same bytes, which the log answers
// with the earlier id: a waiter is told "written" only if it is, once. If its
// fate stays open, waiters get the error, and the partition's seq is read from
// the log before the next write.
//
// Back pressure. Every append tells how many entries the log has now; their
// number by the mean size of this writer's batches is the backlog. Above the
// bound a request is refused before anything of it is written. Whether the
// backlog has fallen is seen when somebody wants to write: one of those who do
// asks the log, the others are refused meanwhile; so no timer runs, and a
// server that is overrun asks Redis one question at a time. Requests that were
// let in together may pass the bound by what they hold.
type Writer struct {
	source       string
	logs         []*Log
	open         []openBatch // by partition
	backlogBytes int         // what a log may hold that is not stored

	rounds rounds
	sizes  meter.Sizes

	mu     sync.Mutex
	active int           // calls of Write and goroutines that write
	closed chan struct{} // not nil: closing; closed when active is 0
}

// openBatch is the batch of one partition that fills, and its writer's state.
type openBatch struct {
	mu      sync.Mutex
	data    []byte
	items   int
	waiting *flight // of the open batch; nil: it is empty
	writing bool    // a goroutine is writing this partition
	entries int     // in the log, as far as is known
	mean    int     // bytes of a batch
	looking bool    // somebody is counting the log's entries

	// Owned by the goroutine that writes.
	seq     string // of the last batch that is surely written
	unknown bool   // seq must be read from the log first
	retried bool   // an append was sent more than once
}

// flight is one batch on its way; done is closed when err is set.
type flight struct {
	round <-chan struct{}
	done  chan struct{}
	err   error
}

// NewWriter returns a writer to the logs (one a partition, in order) under a
// source name that no other writer uses, now or ever. All logs together may
// hold so many bytes that are not stored, each its share.
func NewWriter(logs []*Log, source string, backlogBytes int) *Writer {
	share := max(LeastBacklogBytes, backlogBytes/max(1, len(logs)))
	return &Writer{source: source, logs: logs, open: make([]openBatch, len(logs)), rounds: newRounds(), backlogBytes: share}
}

// Sizes returns how many items the batches had that were written.
func (w *Writer) Sizes() meter.Snapshot { return w.sizes.Snapshot() }

// Write adds the parts of a request to their partitions' open batches and
// returns when all are durably written. A *LogFullError or ErrClosed: nothing
// was. sluice.ErrFull otherwise: Redis takes nothing in, and some of several
// parts may have been written. Any other error, also the context's end, leaves
// open what was. The items' memory is free again when Write returns.
func (w *Writer) Write(ctx context.Context, parts ...Part) error {
	if !w.enter() {
		return ErrClosed
	}
	defer w.leave()
	for i := range parts {
		if err := w.room(ctx, parts[i].Partition); err != nil {
			return err
		}
	}
	var few [4]*flight
	flights := few[:0]
	for i := range parts {
		f, err := w.add(ctx, &parts[i])
		if err != nil {
			return err
		}
		flights = append(flights, f)
	}
	w.rounds.join()
	defer w.rounds.leave()
	var first error
	for _, f := range flights {
		select {
		case <-f.done:
			if first == nil {
				first = f.err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return first
}

// enter notes that something is under way, unless the writer is closing.
func (w *Writer) enter() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed != nil {
		return false
	}
	w.active++
	return true
}

func (w *Writer) leave() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.active--; w.active == 0 && w.closed != nil {
		close(w.closed)
	}
}

// Close takes nothing in any more, waits until what was taken in is written,
// and ends what the logs remember of this writer. It may be called once.
func (w *Writer) Close(ctx context.Context) error {
	w.mu.Lock()
	closed := make(chan struct{})
	w.closed = closed
	if w.active == 0 {
		close(closed)
	}
	w.mu.Unlock()
	select {
	case <-closed:
	case <-ctx.Done():
		return fmt.Errorf("close writer: requests are still being written: %w", ctx.Err())
	}
	for i := range w.open {
		// A batch that was sent twice may still lie in some buffer. While the
		// log knows the source it is a repeat; forgotten, the first is news.
		if o := &w.open[i]; o.seq != "" && !o.unknown && !o.retried {
			if err := w.logs[i].Forget(ctx, w.source); err != nil {
				return fmt.Errorf("close writer: %w", err)
			}
		}
	}
	return nil
}

// room reports whether a partition's log may take more.
func (w *Writer) room(ctx context.Context, partition int) error {
	o := &w.open[partition]
	o.mu.Lock()
	if !o.full(w.backlogBytes) {
		o.mu.Unlock()
		return nil
	}
	refusal := &LogFullError{Partition: partition, Entries: o.entries}
	if o.looking {
		o.mu.Unlock()
		return refusal
	}
	o.looking = true
	o.mu.Unlock()
	entries, err := w.logs[partition].Entries(ctx)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.looking = false
	if err == nil {
		o.entries = entries
	}
	if o.full(w.backlogBytes) {
		return refusal
	}
	return nil
}

func (o *openBatch) full(bytes int) bool {
	return o.entries >= maxBacklogEntries || o.entries*o.mean >= bytes
}

// add puts a part into its partition's open batch.
func (w *Writer) add(ctx context.Context, p *Part) (*flight, error) {
	o := &w.open[p.Partition]
	for {
		o.mu.Lock()
		full := o.items > 0 && (len(o.data)+len(p.Items) > sluice.MaxBatchBytes || o.items+p.Count > sluice.MaxBatchItems)
		if !full {
			break
		}
		before := o.waiting
		o.mu.Unlock()
		select { // the open batch is full: wait until it has left
		case <-before.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	defer o.mu.Unlock()
	if o.waiting == nil {
		o.waiting = &flight{round: w.rounds.current(), done: make(chan struct{})}
		o.data = sluice.NewBatch(max(len(p.Items), o.mean))
	}
	o.data = append(o.data, p.Items...)
	o.items += p.Count
	if !o.writing {
		o.writing = true
		w.mu.Lock()
		w.active++ // the caller is inside, so it is not closed yet
		w.mu.Unlock()
		go w.write(p.Partition) // ends when the open batch is empty
	}
	return o.waiting, nil
}

// write writes the partition's open batches until there is none.
func (w *Writer) write(partition int) {
	defer w.leave()
	o := &w.open[partition]
	for {
		o.mu.Lock()
		if o.waiting != nil && len(o.data) < largeBatchBytes {
			round := o.waiting.round
			o.mu.Unlock()
			w.rounds.wait(round)
			o.mu.Lock()
		}
		f, data, items := o.waiting, o.data, o.items
		o.waiting, o.data, o.items = nil, nil, 0
		if f == nil {
			o.writing = false
			o.mu.Unlock()
			return
		}
		o.mu.Unlock()
		if f.err = w.append(partition, data); f.err == nil {
			w.sizes.Observe(items)
		}
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
		var done Appended
		if done, err = log.Append(ctx, w.source, o.seq, next, data, false); err == nil {
			o.seq = next
			o.noteAppended(done.Entries, len(data))
			return nil
		}
		if errors.Is(err, sluice.ErrFull) || errors.Is(err, sluice.ErrConflict) {
			break
		}
		o.retried = true
		select {
		case <-ctx.Done():
		case <-time.After(backoffShortest << try):
		}
	}
	o.unknown = true
	return fmt.Errorf("write batch of %d bytes: %w", len(data), err)
}

func (o *openBatch) noteAppended(entries, size int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.entries = entries
	if o.mean == 0 {
		o.mean = size
	}
	o.mean += (size - o.mean) / meanOver
}
