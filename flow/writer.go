package flow

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"sluice"
	"sluice/lib/meter"
)

// Bounds of a Writer.
const (
	// maxCallBytes is how much goes to Redis in one call, and up to a batch
	// more: Redis answers no other client while a script runs.
	maxCallBytes = 1 << 20

	// appendTries bounds how often one batch is offered to Redis before its
	// waiters are told that its fate is open.
	appendTries = 5

	// maxBacklogEntries is the length at which a partition's log is full for a
	// Writer, beside the bytes that it is given. Entries of the log that are
	// not stored yet are in Redis's memory. With the preset backlog both are above
	// the bound of the router, so that a list that is drained at full speed does not keep
	// requests out.
	maxBacklogEntries = 65_536

	// LeastBacklogBytes is what a log may hold in any case.
	LeastBacklogBytes = 1 << 20

	// Expected callers are waited for as long as the write before took, within
	// these bounds. With enoughParts no caller is waited for: a call costs
	// little for each of so many.
	shortestWait = time.Millisecond
	longestWait  = 5 * time.Millisecond
	enoughParts  = 128

	// countEvery is how often Redis is asked how many entries the logs have. In
	// between each append counts as one more.
	countEvery = 100 * time.Millisecond

	// parallelAppends bounds the calls of AppendAll that run at once.
	parallelAppends = 16

	// meanOver is over how many batches their mean size is taken, roughly.
	meanOver = 8
)

// Part is what one request has for one partition: items, encoded
// (sluice.AppendEvent and the like, without the version byte). A request may
// have several parts for a partition; they keep their order. A part may be of
// any size: one too large for a batch is cut between two items.
type Part struct {
	Partition int
	Items     []byte
	Count     int
}

// LogFullError says that a log holds as many entries that are not stored yet as
// it may. Nothing of the request was written. It is a sluice.ErrFull.
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
// The idea. Items go to the open batch of their partition. All open batches of
// a group of partitions, on one Redis of all, leave together. They are swapped
// for empty ones under the lock and written outside it, in one call. Every
// caller with items in them waits for that one write. While it runs, the next
// batches fill: the slower the disk, the larger the batches, and `appendfsync
// always` costs next to nothing.
//
// After a write, its callers are answered and come again with their next
// request, some before and some after those that came during the write. Batches
// that left at once would hold half of them. The fixed cost of a write, above
// all the disk's part, would be paid twice as often. So both are expected, and
// waited for, about as long as the write took. A caller that comes alone
// expects no other and does not wait.
//
// The invariants. A partition has at most one write under way. Each batch has a
// seq of its own, random, and names the one before it. A write whose answer was
// lost is repeated with the same seq and the same bytes. The log answers with
// the earlier id. A waiter is told "written" only if it is, once. If its fate
// stays open, waiters get the error, and the partition's seq is read from the
// log before the next write. A failure of one log of a call is a failure for
// that log only.
//
// What was tried and dropped. A call for each partition's batch: 32 callers
// fill 16 batches of two items, and 16 such calls cost Redis 390 µs, all in one
// 210. To leave at once: see above; with 32 callers a write had 16 of them. To
// wait for a fixed time: it costs a caller that comes alone the same as all
// others.
//
// Back pressure. Ten times a second, and always when the log may be a quarter
// full, an append returns how many entries the log has now. In between each
// append adds one (to count costs Redis a fifth of the append). The number of
// entries by the mean size of this writer's batches is the backlog. Above the
// bound a request is refused before anything of it is written. Whether the
// backlog has fallen is seen when a caller wants to write. One such caller asks
// the log, and the others are refused meanwhile. So no timer runs, and a server
// that is overrun asks Redis one question at a time. Requests that were let in
// together may pass the bound by what they hold.
type Writer struct {
	// Replicas must have received what was written before its callers are told so.
	// ErrReplicas is told otherwise. Set it before the first write.
	Replicas Replicas

	source       string
	logs         []*Log
	open         []openBatch // by partition
	backlogBytes int         // what a log may hold that is not stored

	sizes meter.Sizes

	mu     sync.Mutex
	active int           // calls of Write and goroutines that write
	closed chan struct{} // not nil: closing; closed when active is 0
}

// group is the partitions that are written in one call (Redis.together).
type group struct {
	mu         sync.Mutex // guards the open batches of the partitions, too
	partitions []int
	waiting    *flight       // of the open batches; nil: all are empty
	writing    bool          // a goroutine is writing the group
	expected   int           // parts that are waited for
	patience   time.Duration // for so long
	together   chan struct{} // closed when they are there; nil: no flight waits for it
}

// openBatch is the batch of one partition that fills, and its writer's state.
type openBatch struct {
	group   *group
	data    []byte
	items   int
	entries int       // in the log, as far as is known
	mean    int       // bytes of a batch
	looking bool      // a caller is counting the log's entries
	counted time.Time // when an append asked for them last

	// Owned by the goroutine that writes.
	seq     string // of the last batch that is surely written
	unknown bool   // seq must be read from the log first
	retried bool   // an append was sent more than once
}

// flight is the batches of a group on their way; done is closed when failed is
// set.
type flight struct {
	done   chan struct{}
	parts  int
	failed map[int]error // by partition; those that are not there are written
}

// NewWriter returns a writer to the logs (one a partition, in order) under a
// source name that no other writer uses, now or ever. All logs together may
// hold so many bytes that are not stored, each its share, but LeastBacklogBytes at least.
func NewWriter(logs []*Log, source string, backlogBytes int) *Writer {
	share := max(LeastBacklogBytes, backlogBytes/max(1, len(logs)))
	w := &Writer{source: source, logs: logs, open: make([]openBatch, len(logs)), backlogBytes: share}
	if len(logs) > 0 {
		w.divide(logs[0].redis.together(len(logs)))
	}
	return w
}

// divide makes the groups.
func (w *Writer) divide(groups [][]int) {
	for _, partitions := range groups {
		g := &group{partitions: partitions}
		for _, p := range partitions {
			w.open[p].group = g
		}
	}
}

// Sizes returns how many items the batches had that were written.
func (w *Writer) Sizes() meter.Snapshot { return w.sizes.Snapshot() }

// Write adds the parts of a request to their partitions' open batches and
// returns when all are durably written. A *LogFullError or ErrClosed: nothing
// was. sluice.ErrFull otherwise: Redis takes nothing in, and some of several
// parts may have been written. ErrReplicas: all may be lost yet. Any other error, also the context's end, leaves
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
	parts = cutParts(parts)
	var few [4]*flight
	flights := few[:0] // of the parts
	var failed error
	for i := range parts {
		f, err := w.add(ctx, &parts[i])
		if failed = err; failed != nil {
			break
		}
		flights = append(flights, f)
	}
	for i := range flights { // now that all are there: they leave together
		w.start(w.open[parts[i].Partition].group)
	}
	if failed != nil {
		return failed
	}
	var first error
	for i, f := range flights {
		select {
		case <-f.done:
			if first == nil {
				first = f.failed[parts[i].Partition]
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
	o.group.mu.Lock()
	if !o.full(w.backlogBytes) {
		o.group.mu.Unlock()
		return nil
	}
	refusal := &LogFullError{Partition: partition, Entries: o.entries}
	if o.looking {
		o.group.mu.Unlock()
		return refusal
	}
	o.looking = true
	o.group.mu.Unlock()
	entries, err := w.logs[partition].Entries(ctx)
	o.group.mu.Lock()
	defer o.group.mu.Unlock()
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
	g := o.group
	for {
		g.mu.Lock()
		full := o.items > 0 && (len(o.data)+len(p.Items) > sluice.MaxBatchBytes || o.items+p.Count > sluice.MaxBatchItems)
		if !full {
			break
		}
		before := g.waiting
		g.leave() // it waits for no other caller
		g.mu.Unlock()
		w.start(g)
		select { // the open batch is full: wait until it has left
		case <-before.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	defer g.mu.Unlock()
	if g.waiting == nil {
		g.waiting = &flight{done: make(chan struct{})}
	}
	if len(o.data) == 0 {
		o.data = sluice.NewBatch(max(len(p.Items), o.mean))
	}
	o.data = append(o.data, p.Items...)
	o.items += p.Count
	g.joined()
	return g.waiting, nil
}

// start has the open batches of a group written, unless that is under way.
func (w *Writer) start(g *group) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.writing || g.waiting == nil {
		return
	}
	g.writing = true
	w.mu.Lock()
	w.active++ // the caller is inside, so it is not closed yet
	w.mu.Unlock()
	go w.write(g) // ends when the open batches are empty
}
