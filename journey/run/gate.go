package run

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"sluice"
	"sluice/flow"
	"sluice/journey"
	"sluice/mail"
)

const (
	// gateEvery is how old what is known of journeys may be when their mail leaves, or
	// gateWait where the database took that long to say it.
	gateEvery = 500 * time.Millisecond

	// publishedWithin is how long the database has to say whether journeys have changed, and
	// loadWithin how long to say what they are. No mail of other kinds waits for either.
	publishedWithin = 10 * time.Second
	loadWithin      = 5 * time.Minute

	// gateWait is how long a caller waits for a look: its window has mail of no journey.
	gateWait = time.Second

	// slowAgain is after what time mail is asked about again while the database is slow.
	// Each look that fails doubles it, up to slowAgainMost. So is the rest before a look.
	slowAgain     = 2 * time.Second
	slowAgainMost = 10 * time.Second

	// pausedAgain is after what time mail of a paused journey is asked about again. By
	// then the routes know of the pause, and the mail waits in a sublane (route.Router).
	pausedAgain = 2 * time.Second

	// quietAfter is how old mail is that is asked about the hours without mail once more.
	quietAfter = 10 * time.Minute
)

// Gate says of mail of journeys whether it may leave.
//
// The idea. Mail waits in lanes: for a route, for a pace, for a night. Meanwhile its
// person buys, or leaves the journey for another reason, and then the mail must not
// leave. The person's record says so, and it is in the partition of the mail. So the
// sender asks just before it marks a window, which is one call to Redis for the records
// of up to 32 people. Nobody keeps a list of mails by person, and an exit costs nothing.
//
// The invariants. Mail that could not be asked about waits. Of what becomes of a person only
// StateExited cancels, or a journey that was stopped: who has gone a way to its end gets the
// last mail of it, also if the person is inside once more by then. Mail belongs to its
// occurrence, and so does the exit (journey.Record.HasExited). Beside that these cancel: a
// resume without what was due, hours without mail that skip it, and mail of the same step for
// the user into whom its person was merged (cancels). What is known of the journeys is
// gateEvery or gateWait old at most, by this process's own clock: one that was frozen asks
// first. Run alone asks the database which journeys there are. Callers wait gateWait for
// that, and as long for each question about people of a journey. So the windows of a
// partition go on while it is slow, and the mail of journeys in them waits in later.
//
// The price. A record says of eight occurrences before its own how they ended: mail of an
// older one leaves. Between the question and the mark a few milliseconds pass; who leaves in
// them gets the mail. Who has taken over a place, and was taken out of the journey before,
// gets the mail of before: the record speaks of the occurrences of that place.
//
// Mail that leaves more than quietAfter after it was made is asked about the hours without
// mail again: the step has asked for the moment in which it was made.
//
// What was dropped. Cancelling at the exit: the mails of a person would have to be found
// by name of each step and occurrence, and each exit would write to the log. Asking when
// the mail is taken of its lane: making it takes time, a profile is read in between.
type Gate struct {
	logs   []*flow.Log // by partition
	store  Store
	loader *Loader
	clock  sluice.Clock
	log    *slog.Logger

	looks chan *gateLook // for Run; there is one at a time

	mu        sync.Mutex
	asked     time.Time // zero: never
	published int64
	journeys  map[string]*plans
	look      *gateLook     // under way; nil: none
	again     time.Duration // after the last look failed; 0: it did not
}

// NewGate returns a gate. Run looks for it.
func NewGate(logs []*flow.Log, db Store, loader *Loader, clock sluice.Clock, log *slog.Logger) *Gate {
	return &Gate{logs: logs, store: db, loader: loader, clock: clock, log: log, looks: make(chan *gateLook, 1)}
}

// gateLook is one look at the journeys. Its answer is read when done is closed.
type gateLook struct {
	done     chan struct{}
	journeys map[string]*plans
	err      error
}

// errGateSlow is the answer while the database is slow.
var errGateSlow = errors.New("the database has not said yet which journeys there are")

// known returns the journeys as they were gateEvery, or gateWait, ago at most. It waits
// gateWait for that. If the last look failed it does not wait.
func (g *Gate) known(ctx context.Context) (map[string]*plans, error) {
	g.mu.Lock()
	if !g.asked.IsZero() && time.Since(g.asked) < gateEvery {
		defer g.mu.Unlock()
		return g.journeys, nil
	}
	if g.look == nil {
		g.look = &gateLook{done: make(chan struct{})}
		g.looks <- g.look
	}
	l, failed := g.look, g.again > 0
	g.mu.Unlock()
	if failed {
		return nil, errGateSlow
	}
	timer := time.NewTimer(gateWait)
	defer timer.Stop()
	select {
	case <-l.done:
		if l.err != nil {
			return nil, errGateSlow
		}
		return l.journeys, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-timer.C:
		return nil, errGateSlow
	}
}

// Run looks whenever a caller needs it, until ctx ends. After a look that failed it rests.
func (g *Gate) Run(ctx context.Context) {
	for {
		select {
		case l := <-g.looks:
			again := g.lookNow(ctx, l)
			if ctx.Err() == nil && again > 0 {
				g.log.Warn("the database did not say which journeys there are; their mail waits", "again_seconds", again.Seconds(), "error", l.err)
			}
			select {
			case <-time.After(again):
			case <-ctx.Done():
			}
		case <-ctx.Done():
			return
		}
	}
}

// lookNow carries a look out, and tells those who wait for it. It returns for how long to
// rest then.
func (g *Gate) lookNow(ctx context.Context, l *gateLook) time.Duration {
	began := time.Now()
	published, journeys, err := g.read(ctx)
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.look, g.again = nil, min(max(2*g.again, slowAgain), slowAgainMost); err == nil {
		g.again = 0
		g.asked, g.published, g.journeys = began, published, journeys
	}
	if l.journeys, l.err = journeys, err; err == nil && time.Since(began) > gateWait {
		l.err = errGateSlow // it is old: a journey may have been stopped since. The next look is quick
	}
	close(l.done)
	return g.again
}

// read asks the database for the journeys, if they have changed. Only lookNow, one at a
// time, changes what it knows.
func (g *Gate) read(ctx context.Context) (int64, map[string]*plans, error) {
	asking, cancel := context.WithTimeout(ctx, publishedWithin)
	defer cancel()
	now, err := g.store.Published(asking)
	if err != nil || now == g.published {
		return g.published, g.journeys, err
	}
	loading, stop := context.WithTimeout(ctx, loadWithin)
	defer stop()
	all, published, err := g.loader.Load(loading)
	journeys := make(map[string]*plans, len(all))
	for _, j := range all {
		journeys[j.id] = j
	}
	return published, journeys, err
}

// Paused lists the journeys that are paused.
func (g *Gate) Paused(ctx context.Context) (ids []string, err error) {
	journeys, err := g.known(ctx)
	for id, j := range journeys {
		if j.paused {
			ids = append(ids, id)
		}
	}
	return ids, err
}

// MayLeave implements spool.Journeys. Mail of a journey that is not known, or cannot be
// read, waits for that, until it expires.
func (g *Gate) MayLeave(ctx context.Context, partition int, sends []*mail.Send) ([]mail.Leave, error) {
	answers := make([]mail.Leave, len(sends))
	journeys, err := g.known(ctx)
	if errors.Is(err, errGateSlow) {
		for i := range answers {
			answers[i].AgainMillis = g.slowUntil().UnixMilli()
		}
		return answers, nil
	}
	if err != nil {
		return nil, err
	}
	asked := make(map[*plans][]int, 1) // by journey
	for i, s := range sends {
		switch j := journeys[s.Journey]; {
		case j == nil, j.paused:
			answers[i].AgainMillis = g.clock.Now().Add(pausedAgain).UnixMilli()
		case j.stopped:
			answers[i].Cancel = exitedReason(s)
		case s.AcceptedMillis <= j.skip:
			answers[i].Cancel = fmt.Sprintf("overdue %s/%s", s.Journey, s.Step)
		default:
			asked[j] = append(asked[j], i)
		}
	}
	for j, some := range asked {
		numbers, these := make([]int64, len(some)), make([]*mail.Send, len(some))
		for n, i := range some {
			numbers[n], these[n] = sends[i].Person, sends[i]
		}
		records, err := g.logs[partition].RecordsOf(ctx, int(j.number), numbers)
		if err != nil {
			return nil, err
		}
		why, unasked, err := g.cancels(ctx, partition, j, records, these)
		if err != nil {
			return nil, err
		}
		quiet, err := g.quiet(ctx, partition, j, records, these, why)
		if err != nil {
			return nil, err
		}
		for n, i := range some {
			if answers[i] = quiet[n]; why[n] != "" {
				answers[i].Cancel = why[n]
			}
		}
		for _, n := range unasked {
			answers[some[n]] = mail.Leave{AgainMillis: g.slowUntil().UnixMilli()}
		}
	}
	return answers, nil
}

// slowUntil is when mail is asked about again that could not be asked about.
func (g *Gate) slowUntil() time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.clock.Now().Add(max(g.again, slowAgain))
}

// hasExited reports whether the person of a mail was taken out of the journey. A record
// that cannot be read is a newer program's, which knows.
func hasExited(raw *flow.Record, s *mail.Send) bool {
	var r journey.Record
	if r.Decode(raw[:]) != nil {
		return false
	}
	return r.HasExited(s.Occurrence)
}

// exitedReason is the reason of a mail that was cancelled because its person has left.
func exitedReason(s *mail.Send) string { return fmt.Sprintf("exited %s/%s", s.Journey, s.Step) }
