package route

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"sluice"
	"sluice/flow"
)

// How tokens are leased.
const (
	// leaseFor is how long leased tokens are good; then they go back.
	leaseFor = 100 * time.Millisecond

	// leaseEvery is how often a process asks. Each asks for as much as its
	// senders have asked it for, so a process that has nothing to send takes
	// nothing.
	leaseEvery = 50 * time.Millisecond

	// stopsEvery is how often a process looks what is stopped.
	stopsEvery = 500 * time.Millisecond

	// callFor bounds a call to Redis: a late token is none, and what is stopped is
	// asked again at once.
	callFor = 700 * time.Millisecond

	// maxWait bounds after what time to ask again where a route goes at all: what is known
	// may change.
	maxWait = time.Second

	// dayAgain is after what time a process asks again for which nothing is left of a warm-up's
	// day: others give back what they did not use.
	dayAgain = time.Minute

	maxWant = 100_000
)

// bucket is this process's part of a bucket that all share. It is guarded by the
// Router's lock.
type bucket struct {
	of    *flow.Bucket
	route *route

	tokens int       // that are leased
	until  time.Time // till when
	next   time.Time // when there may be more
	share  float64
	left   int // of the day, -1: there is no limit
	today  dayUse

	asked  int // since the last lease: taken, or wanted in vain
	slow   bool
	listed bool // in Router.asking
}

func newBucket(of *flow.Bucket, r *route) *bucket {
	if of == nil {
		return nil
	}
	return &bucket{of: of, route: r, share: 1, left: -1}
}

// ready reports whether there is a token.
func (b *bucket) ready(now time.Time) bool {
	return b == nil || b.tokens > 0 && now.Before(b.until)
}

// want notes that a token was asked for, and returns after what time to ask again
// if there is none.
func (r *Router) want(b *bucket, now time.Time) time.Duration {
	b.asked = min(b.asked+1, maxWant)
	r.list(b)
	return min(max(b.next.Sub(now), leaseEvery), maxWait)
}

// list enters a bucket to be asked about, and wakes the asking loop.
func (r *Router) list(b *bucket) {
	if !b.listed {
		b.listed = true
		r.asking = append(r.asking, b)
	}
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// take takes a token, of a bucket that is ready.
func (r *Router) take(b *bucket) {
	if b != nil {
		b.tokens--
		b.asked = min(b.asked+1, maxWant)
		r.list(b)
	}
}

// giveBack returns the tokens of a mail to a domain by a route that was not attempted.
// Where nobody asks for more of them, Redis gets them when their time is over.
func (r *Router) giveBack(x *route, d *domain) {
	for _, l := range x.lines(d) {
		if l != nil && l.bucket != nil {
			l.bucket.tokens++
			r.list(l.bucket)
		}
	}
}

// slower notes that the other side wants fewer.
func (r *Router) slower(b *bucket) {
	b.slow = true
	r.list(b)
}

// Lease asks for the tokens that are wanted, once, and waits for the answers.
func (r *Router) Lease(ctx context.Context) error {
	<-r.ask(ctx)
	return r.unleased()
}

// leaseOn is Lease for Run, which calls it again and again. A route whose server hangs is
// asked for no more before it has answered, and keeps no other waiting.
func (r *Router) leaseOn(ctx context.Context) error {
	select {
	case <-r.ask(ctx):
	case <-time.After(leaseEvery):
	}
	return r.unleased()
}

// unleased is why routes got no tokens.
func (r *Router) unleased() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var errs []error
	for _, x := range r.routes {
		errs = append(errs, x.unleased)
	}
	return errors.Join(errs...)
}

// ask asks for the tokens that are wanted, of each route by itself. What it returns is
// closed when all have answered.
func (r *Router) ask(ctx context.Context) <-chan struct{} {
	now := r.clock.Now()
	r.mu.Lock()
	byRoute := make(map[*route][]*bucket)
	asks := make(map[*bucket]flow.PaceAsk)
	var later []*bucket
	for _, b := range r.asking {
		if b.route.leasing {
			later = append(later, b)
			continue
		}
		ask := flow.PaceAsk{Bucket: b.of, Slow: b.slow}
		if !now.Before(b.until) || b.slow { // what is left is not good any more
			ask.Back, b.tokens = b.tokens, 0
		}
		// Half as much again as was asked for, so that what grows is not held up.
		if ask.Want = b.asked + b.asked/2 - b.tokens; ask.Want < 0 || now.Before(b.next) {
			ask.Want = 0
		}
		switch {
		case ask.Want == 0 && ask.Back == 0 && !b.slow && b.asked == 0 && b.tokens == 0:
			b.listed = false // nobody wants any, and it has none
			continue
		case ask.Want == 0 && ask.Back == 0 && !b.slow:
			later = append(later, b)
		case len(byRoute[b.route]) == flow.MaxPaceAsks:
			b.tokens += ask.Back // they go back the next time
			later = append(later, b)
			continue
		default:
			later = append(later, b)
			byRoute[b.route] = append(byRoute[b.route], b)
			asks[b] = ask
		}
		b.asked, b.slow = 0, false
	}
	r.asking = later
	for of := range byRoute {
		of.leasing = true
	}
	r.mu.Unlock()
	var group sync.WaitGroup
	for of, buckets := range byRoute {
		group.Go(func() {
			err := r.lease(ctx, of, buckets, asks)
			r.mu.Lock()
			defer r.mu.Unlock()
			of.leasing, of.unleased = false, err
		})
	}
	answered := make(chan struct{})
	r.leases.Go(func() {
		group.Wait()
		close(answered)
	})
	return answered
}

// lease asks for tokens of the buckets of one route.
func (r *Router) lease(ctx context.Context, of *route, buckets []*bucket, asks map[*bucket]flow.PaceAsk) error {
	list := make([]flow.PaceAsk, len(buckets))
	for i, b := range buckets {
		list[i] = asks[b]
	}
	failed := r.look(ctx, of, buckets, list)
	ctx, cancel := context.WithTimeout(ctx, callFor)
	defer cancel()
	grants, err := r.redis.Pace(ctx, of.name, list)
	now := r.clock.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, b := range buckets {
		if err != nil {
			b.slow = b.slow || list[i].Slow // that must not be lost
			b.doubt(now)
			continue
		}
		g := grants[i]
		b.tokens += g.Tokens
		b.today.granted(&g, list[i].Back)
		b.until, b.next, b.share, b.left = now.Add(leaseFor), now.Add(g.Wait), g.Share, g.LeftToday
		if g.LeftToday == 0 {
			b.next = now.Add(min(g.Wait, dayAgain))
		}
		if g.Unknown {
			b.doubt(now)
		}
	}
	return errors.Join(failed, err)
}

// Run leases tokens and looks what is stopped, until ctx ends. What Redis does not
// answer is asked again; meanwhile mail with a pace waits, and what was stopped
// stays so.
func (r *Router) Run(ctx context.Context, log *slog.Logger) {
	var beside sync.WaitGroup
	defer beside.Wait()
	defer r.leases.Wait()
	beside.Go(func() { r.repeat(ctx, log, "what is stopped could not be read", stopsEvery, nil, r.Look) })
	if r.kept != nil {
		beside.Go(func() {
			r.repeat(ctx, log, "what is stopped could not be compared with the database", keepEvery, nil, r.Keep)
		})
	}
	r.repeat(ctx, log, "tokens could not be leased", leaseEvery, r.wake, r.leaseOn)
}

// repeat calls turn at once and then every so often, after a call of wake too if
// that is given; while nobody calls, it rests. The first of several failures is
// told.
func (r *Router) repeat(ctx context.Context, log *slog.Logger, failed string, every time.Duration, wake <-chan struct{}, turn func(context.Context) error) {
	failing := false
	for ctx.Err() == nil {
		err := turn(ctx)
		if err != nil && !failing && ctx.Err() == nil {
			log.Warn(failed, "error", err)
		}
		failing = err != nil
		select {
		case <-time.After(sluice.Rest(time.Now(), every)):
		case <-ctx.Done():
			return
		}
		if wake != nil && r.resting() {
			select {
			case <-wake:
			case <-ctx.Done():
				return
			}
		}
	}
}

// resting reports whether no bucket is to be asked about.
func (r *Router) resting() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.asking) == 0
}
