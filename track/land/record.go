package land

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"fmt"
	"sync/atomic"
	"time"

	"sluice"
	"sluice/flow"
	"sluice/mail"
)

// itemBytes is what an open or a click takes in a log, nearly always.
const itemBytes = 512

// Appender writes items to the logs of partitions and returns when they are
// durable. flow.Writer is one.
type Appender interface {
	Write(ctx context.Context, parts ...flow.Part) error
}

// Recorder makes events of opens and clicks durable. Record may be called by
// several goroutines at once; Run once.
//
// The idea. An event has its id and its time before it is offered to anything.
// An append of unknown fate, the copy of it in a file and the replay of that
// file are then one event to the store, which knows events by time and id. All
// of them go to one log, which the id names: the transaction that sees a repeat
// is the one that knows the first.
type Recorder struct {
	Spillway

	Writer Appender

	// Accepted counts the events that the logs have taken.
	Accepted *atomic.Int64

	prefix string // of ids: no other process has it
	made   atomic.Int64
	lost   atomic.Int64
	lostAt atomic.Int64 // in ms; 0: nothing was lost
}

// NewRecorder returns a recorder; its fields are filled in by the caller.
func NewRecorder() *Recorder {
	random := make([]byte, 10)
	_, _ = rand.Read(random) // never fails (crypto/rand)
	r := &Recorder{prefix: base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").EncodeToString(random)}
	r.ready("opens and clicks")
	return r
}

// nextID returns an id for an event in a partition's log.
func (r *Recorder) nextID(partition int) string {
	return mail.ReactionID(partition, r.prefix, r.made.Add(1))
}

// Record makes an event durable, in the log of a partition or in a file, or
// counts it as lost. It has an id of nextID, and its time is now.
func (r *Recorder) Record(e *sluice.Event, partition int) {
	err := r.offer(time.UnixMilli(e.TimeMillis), func(ctx context.Context) error { // its own time: a look at the clock less
		item := sluice.AppendEvent(make([]byte, 0, itemBytes), e)
		return r.Writer.Write(ctx, flow.Part{Partition: partition, Items: item, Count: 1})
	})
	if err == nil {
		r.Accepted.Add(1)
		return
	}
	if failed := r.Spill.Write(*e); failed != nil {
		r.lost.Add(1)
		r.lostAt.Store(r.Clock.Now().UnixMilli())
		r.say("an open or a click is lost: neither Redis nor the disk takes it", failed, "lost", r.lost.Load())
		return
	}
	r.kept(err)
}

// Lost returns how many events were lost, and when the last one was; the zero
// time: none was.
func (r *Recorder) Lost() (n int64, last time.Time) {
	if at := r.lostAt.Load(); at != 0 {
		last = time.UnixMilli(at)
	}
	return r.lost.Load(), last
}

// LostSummary says what was lost in a line; empty: nothing was since a moment.
func (r *Recorder) LostSummary(since time.Time) string {
	n, last := r.Lost()
	if n == 0 || last.Before(since) {
		return ""
	}
	return fmt.Sprintf("%d opens and clicks were lost, the last at %s: Redis did not take them, nor did the disk", n, last.UTC().Format(time.RFC3339))
}
