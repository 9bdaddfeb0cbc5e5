package bench

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"sluice"
	"sluice/flow"
	"sluice/ingest"
	"sluice/journey"
	"sluice/mail"
	"sluice/mail/spool"
	"sluice/test/spooltest"
	"sluice/user"
)

// What comes by calls in the midst of the wave: people who enter another journey, and
// transactional mail. It takes the same logs, store and Redis as the wave.
const (
	callsEvery   = 50 * time.Millisecond // one of each
	callsLeast   = 40                    // of each, also if the wave is over before
	callsMost    = 64                    // that are waited for at a time
	callsLooked  = 5 * time.Millisecond
	callsBacklog = 256 << 20 // bytes that wait to be stored
	callsWithin  = time.Minute
)

// calledJourney has a first step that takes people at once.
const calledJourney = "id: called\nentry: {when: {api: true}}\nsteps:\n  - {id: first, delay: {for: 1h}}\n"

// calls are what takes calls and sends mail, as the program has it.
type calls struct {
	b       *journeyBench
	number  int // of the journey that people enter by calls
	intake  *spool.Intake
	updates *ingest.Intake
	wire    *swallower

	mu      sync.Mutex
	entered []latency
	mailed  []latency
}

// openCalls publishes the journey, and sends until stop is called.
func (b *journeyBench) openCalls(ctx context.Context) (c *calls, stop func(), err error) {
	number, err := publish(ctx, b.store, calledJourney, noEnv{})
	if err != nil {
		return nil, nil, err
	}
	writer := flow.NewWriter(b.logs, "api:"+b.leases.ID(), callsBacklog)
	bodies := &spool.FreshBodies{Store: b.store}
	clock := sluice.SystemClock{}
	c = &calls{
		b: b, number: int(number), wire: &swallower{},
		intake:  &spool.Intake{Writer: writer, Bodies: &spool.BodyWriter{Store: bodies}, Partitions: journeyPartitions, Clock: clock},
		updates: &ingest.Intake{Writer: writer, Redis: b.redis, Partitions: journeyPartitions, Clock: clock, Stats: &ingest.Stats{}},
	}
	sender := &spool.Sender{
		Process: b.leases.ID(), Lanes: b.lanes(), Leases: b.leases, Bodies: bodies, Record: b.store, StoredBy: ingest.StoreRole, Suppress: everybody{}, Routes: &spooltest.OneRoute{Transport: c.wire},
		Maker: spool.Plain{}, Clock: clock, Log: slog.New(slog.DiscardHandler), Stats: &spool.Stats{}, DoubtAfter: time.Minute,
	}
	running, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() { defer close(done); sender.Run(running, ctx) }() // until stop
	return c, func() { cancel(); <-done }, nil
}

// lanes are those of all partitions.
func (b *journeyBench) lanes() (all []*flow.Lanes) {
	for _, l := range b.logs {
		all = append(all, l.Lanes())
	}
	return all
}

// watch calls until the wave is over, and notes how long what was called for takes.
func (c *calls) watch(ctx context.Context, over <-chan struct{}) error {
	group, waiting := errgroup.WithContext(ctx)
	group.SetLimit(callsMost)
	for n := int64(0); ; n++ {
		select {
		case <-over:
			if n >= callsLeast {
				return c.done(group.Wait())
			}
		default:
		}
		group.Go(func() error { return c.enter(waiting, n) })
		group.Go(func() error { return c.mail(waiting, n) })
		if pause(waiting, callsEvery) != nil {
			return c.done(group.Wait())
		}
	}
}

// enter lets the n-th person in, and waits until the person is at the first step.
func (c *calls) enter(ctx context.Context, n int64) error {
	id, began := c.b.id(c.b.users-n), time.Now()
	err := c.updates.Update(ctx, []user.Update{{Op: user.OpEnter, Key: user.Key{Kind: user.KeyUser, Name: id.String()}, Name: "called", TimeMillis: began.UnixMilli(), ExistingOnly: true}})
	if err != nil {
		return fmt.Errorf("let user %s in: %w", id, err)
	}
	for time.Since(began) < callsWithin {
		raw, err := c.b.logs[id.Partition].RecordOf(ctx, c.number, id.Number)
		if err != nil {
			return err
		}
		var r journey.Record
		if err := r.Decode(raw[:]); err != nil {
			return err
		}
		if r.State == journey.StateInside {
			c.note(&c.entered, began)
			return nil
		}
		if err := pause(ctx, callsLooked); err != nil {
			return err
		}
	}
	return fmt.Errorf("user %s is not in the journey %s after the call", id, callsWithin)
}

// mail hands the n-th transactional mail in, and waits until it is sent.
func (c *calls) mail(ctx context.Context, n int64) error {
	to, sent, began := fmt.Sprintf("urgent%d@example.com", n), make(chan struct{}), time.Now()
	c.wire.urgent.Store(to, func() { close(sent) })
	d := spoolDraft(to, mail.PriorityHigh, []byte("Your code is 1234."))
	d.Class = mail.ClassTransactional
	if _, err := c.intake.Submit(ctx, "", []mail.Draft{d}); err != nil {
		return fmt.Errorf("hand in a transactional mail: %w", err)
	}
	select {
	case <-sent:
		c.note(&c.mailed, began)
		return nil
	case <-time.After(callsWithin):
		return fmt.Errorf("a transactional mail is not sent %s after the call", callsWithin)
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *calls) note(all *[]latency, began time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	*all = append(*all, latency{seconds: time.Since(began).Seconds(), count: 1})
}

// done notes what was found.
func (c *calls) done(err error) error {
	if err != nil {
		return err
	}
	c.b.add("called_p99", "somebody enters by a call in the midst of the wave and is at the first step, p99", "s", percentile(c.entered, 0.99))
	c.b.add("transactional_p99", "a transactional mail in the midst of the wave, from the call to the wire, p99", "s", percentile(c.mailed, 0.99))
	return nil
}
