// Package webhook posts events to endpoints of others, signed, until each has answered.
package webhook

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"sluice"
	"sluice/flow"
	"sluice/lib/outbound"
	"sluice/store"
	"sluice/track/feed"
)

// Role is the role of posting. It has one place.
const Role = "webhook"

// Store is what a Sender reads and writes. The stores of sqlstore are ones.
type Store interface {
	store.FeedStore
	store.WebhookStore
	store.SeriesStore
}

const (
	// listEvery is how often endpoints are looked for that were added or changed.
	listEvery = time.Second

	// endPatience is how long a post that is under way when the role ends may go on.
	endPatience = 2 * time.Second
)

// Sender posts events to the endpoints that are on.
//
// The idea. Events are read from SQL, behind the store, in the order of their places
// (store.FeedStore). Each endpoint has a lane for each partition: up to which place all
// is delivered. A batch is marked before it is posted, by the place where it ends, and
// the lane moves when it was answered. So what is posted again after a crash, or by the
// next holder of the lease, is the same batch under the same name (webhook-id): receivers
// leave repeats out by it. Events of a partition arrive in order, at least once.
//
// An endpoint has a goroutine, and connections, of its own: one that is down delays no
// other, and keeps nothing but its places. What it has not got lies in the table events.
//
// The invariants. Two processes may work at once, one of which has lost the lease: a lane
// moves only from where it is believed to be. What that loses is said by ErrConflict, and
// the lanes are read again.
//
// What was tried and dropped: an outbox that the store writes for the types that are
// wanted, as facts of journeys are. It costs a second write of each event, and a lock
// between the store and a change of endpoints; the index of events by place is there.
type Sender struct {
	Store   Store
	Heads   *feed.Heads
	Leases  *flow.Leases
	Clock   sluice.Clock
	Log     *slog.Logger
	Guard   *outbound.Guard // of all requests
	Secrets func(ctx context.Context) (*Secrets, error)

	// GiveUp is how long a batch is tried, and how long an endpoint may fail.
	GiveUp time.Duration

	// Kept is for how many days events of each kind are kept; 0: for ever.
	Kept map[sluice.EventKind]int

	// Announce writes an event of the system's; nil: none is.
	Announce func(ctx context.Context, e *sluice.Event) error

	Stats *Stats

	working map[string]*endpoint
}

// Stats are counters of a sender. Their zero value is ready.
type Stats struct {
	Delivered, Failed, GivenUp atomic.Int64 // requests; the last: batches
	Events                     atomic.Int64 // delivered
	Lag                        atomic.Int64 // milliseconds, of the endpoint that is furthest behind
}

// Run posts while this process has the lease, until fetch ends.
func (s *Sender) Run(fetch, work context.Context) {
	for fetch.Err() == nil {
		held, _ := s.Leases.Held(Role)
		if len(held) == 0 {
			s.Stats.Lag.Store(0)
			s.Leases.WaitForChange(fetch, Role, held)
			continue
		}
		ctx, stop := s.Leases.While(fetch, Role, held)
		s.session(ctx, work)
		stop()
	}
}

// session works until ctx ends. What is being posted then may go on for a while.
func (s *Sender) session(ctx, work context.Context) {
	posting, stop := context.WithCancel(work)
	defer stop()
	context.AfterFunc(ctx, func() { time.AfterFunc(endPatience, stop) })
	s.working = make(map[string]*endpoint)
	var running sync.WaitGroup
	defer running.Wait()
	for ctx.Err() == nil {
		all, err := s.Store.Webhooks(ctx)
		switch {
		case err == nil:
			s.turn(ctx, posting, all, &running)
		case ctx.Err() == nil:
			s.Log.Warn("webhooks could not be read; it is tried again", "in", listEvery, "error", err)
		}
		_ = sluice.Pause(ctx, listEvery)
	}
}

// turn starts what was added or changed, and stops what is off, was changed or removed.
// One that is stopped ends by itself: nobody waits for its receiver.
func (s *Sender) turn(ctx, posting context.Context, all []store.Webhook, running *sync.WaitGroup) {
	revisions := make(map[string]int64)
	for _, w := range all {
		if w.Status == store.WebhookOn {
			revisions[w.ID] = w.Revision
		}
	}
	lag := int64(0)
	for id, at := range s.working {
		if revision, on := revisions[id]; !on || revision != at.hook.Revision {
			at.stop()
		}
		select {
		case <-at.ended:
			delete(s.working, id)
		default:
			lag = max(lag, at.lag.Load())
		}
	}
	s.Stats.Lag.Store(lag)
	for _, w := range all {
		if _, on := revisions[w.ID]; !on || s.working[w.ID] != nil {
			continue
		}
		own, stop := context.WithCancel(ctx)
		at := &endpoint{s: s, hook: w, client: s.Guard.Client(), stop: stop, ended: make(chan struct{})}
		s.working[w.ID] = at
		running.Go(func() { // ends with ctx, or when the endpoint is stopped
			defer close(at.ended)
			defer stop()
			defer at.client.CloseIdleConnections() // nothing is under way any more
			at.run(own, posting)
		})
	}
}

// ending is why and since when an endpoint is off.
type ending struct {
	status, reason string
	millis         int64
}

// stopped switches an endpoint off, and says so before: else nobody would, after an error.
// It may be called again then. The event has the same name and time each time, by which it
// is stored once.
func (s *Sender) stopped(ctx context.Context, w *store.Webhook, why *ending) error {
	reason := cut(why.reason)
	if s.Announce != nil {
		e := &sluice.Event{Kind: sluice.KindSystem, TimeMillis: why.millis, Name: EventDisabled, ID: EventDisabled + ":" + w.ID + ":" + strconv.FormatInt(w.Revision, 10),
			Properties: `{"webhook":` + string(feed.Quote(w.ID)) + `,"status":` + string(feed.Quote(why.status)) + `,"reason":` + string(feed.Quote(reason)) + `}`}
		if err := s.Announce(ctx, e); err != nil {
			return fmt.Errorf("write the event that webhook %s is switched off: %w", w.ID, err)
		}
	}
	err := s.Store.StopWebhook(ctx, *w, why.status, reason)
	if errors.Is(err, sluice.ErrConflict) {
		return nil // people have changed it meanwhile
	}
	if err == nil {
		s.Log.Error("a webhook was switched off: it gets nothing until it is switched on; `sluice webhook show` says more", "webhook", w.ID, "status", why.status, "reason", reason)
	}
	return err
}

// EventDisabled is the name of the event that an endpoint was switched off.
const EventDisabled = "webhook_disabled"
