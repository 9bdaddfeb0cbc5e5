package run

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"sluice"
	"sluice/flow"
	"sluice/journey"
	"sluice/journey/plan"
	"sluice/journey/step"
	"sluice/mail"
	"sluice/user"
)

const (
	// gateEvery is how old what is known of journeys may be when their mail leaves.
	gateEvery = 500 * time.Millisecond

	// gateWithin is how long the database has for the answer, and gateWait how long other
	// callers wait for one: their windows have mail that is of no journey.
	gateWithin = 10 * time.Second
	gateWait   = time.Second

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
// The invariants. Mail that could not be asked about waits. Only StateExited cancels, or
// a journey that was stopped: who has gone a way to its end gets the last mail of it,
// also if the person is inside once more by then. What is known of the journeys is at most
// gateEvery old by this process's own clock, gateWithin while the database is slow: one that
// was frozen asks first. A slow database keeps one caller for gateWithin, and the others for
// gateWait once: their mail of journeys waits in later.
//
// The price. Who exits and enters again while a mail waits gets it: the record speaks of
// the last occurrence alone. Between the question and the mark a few milliseconds pass; who leaves in
// them gets the mail. A place that went to another user, with a merge, is not followed:
// mail that was made before the merge leaves.
//
// Mail that leaves more than quietAfter after it was made is asked about the hours without
// mail again: the step has asked for the moment in which it was made.
//
// What was dropped. Cancelling at the exit: the mails of a person would have to be found
// by name of each step and occurrence, and each exit would write to the log. Asking when
// the mail is taken of its lane: making it takes time, a profile is read in between.
type Gate struct {
	Logs   []*flow.Log // by partition
	Store  Store
	Loader *Loader
	Clock  sluice.Clock

	mu        sync.Mutex
	asked     time.Time // zero: never
	published int64
	journeys  map[string]*plans
	look      *gateLook // under way; nil: none
	failed    bool      // the last look failed: others do not wait for the next
}

// gateLook is one look at the journeys. Its answer is read when done is closed.
type gateLook struct {
	began    time.Time
	done     chan struct{}
	journeys map[string]*plans
	err      error
}

// errGateSlow is the answer while the database is slow.
var errGateSlow = errors.New("the database has not said yet which journeys there are")

// known returns the journeys as they were gateEvery ago at most. One caller looks, for
// gateWithin at most. Others wait for its answer until gateWait after it began. If the
// last look failed they do not wait.
func (g *Gate) known(ctx context.Context) (map[string]*plans, error) {
	g.mu.Lock()
	began := time.Now()
	if !g.asked.IsZero() && began.Sub(g.asked) < gateEvery {
		defer g.mu.Unlock()
		return g.journeys, nil
	}
	l := g.look
	if l == nil {
		l = &gateLook{began: began, done: make(chan struct{}), err: errGateSlow}
		g.look = l
		g.mu.Unlock()
		g.lookNow(ctx, l)
		return l.journeys, l.err
	}
	failed := g.failed
	g.mu.Unlock()
	if failed {
		return nil, errGateSlow
	}
	timer := time.NewTimer(gateWait - time.Since(l.began))
	defer timer.Stop()
	select {
	case <-l.done:
		return l.journeys, l.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-timer.C:
		return nil, errGateSlow
	}
}

// lookNow carries a look out, and tells those who wait for it.
func (g *Gate) lookNow(ctx context.Context, l *gateLook) {
	ctx, cancel := context.WithTimeout(ctx, gateWithin)
	defer cancel()
	g.mu.Lock()
	published, journeys := g.published, g.journeys
	g.mu.Unlock()
	defer func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.look, g.failed = nil, l.err != nil; l.err == nil {
			l.journeys = journeys
			g.asked, g.published, g.journeys = l.began, published, journeys
		}
		close(l.done)
	}()
	now, err := g.Store.Published(ctx)
	if err == nil && now != published {
		var all []*plans
		all, published, err = g.Loader.Load(ctx)
		journeys = make(map[string]*plans, len(all))
		for _, j := range all {
			journeys[j.id] = j
		}
	}
	l.err = err
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
	journeys, err := g.known(ctx)
	if err != nil {
		return nil, err
	}
	answers := make([]mail.Leave, len(sends))
	asked := make(map[*plans][]int, 1) // by journey
	for i, s := range sends {
		switch j := journeys[s.Journey]; {
		case j == nil, j.paused:
			answers[i].AgainMillis = g.Clock.Now().Add(pausedAgain).UnixMilli()
		case j.stopped:
			answers[i].Cancel = exitedReason(s)
		case s.AcceptedMillis <= j.skip:
			answers[i].Cancel = fmt.Sprintf("overdue %s/%s", s.Journey, s.Step)
		default:
			asked[j] = append(asked[j], i)
		}
	}
	for j, some := range asked {
		numbers := make([]int64, len(some))
		for n, i := range some {
			numbers[n] = sends[i].Person
		}
		records, err := g.Logs[partition].RecordsOf(ctx, int(j.number), numbers)
		if err != nil {
			return nil, err
		}
		for n, i := range some {
			if hasExited(&records[n], sends[i]) {
				answers[i].Cancel = exitedReason(sends[i])
			} else if answers[i], err = g.quiet(ctx, partition, j, &records[n], sends[i]); err != nil {
				return nil, err
			}
		}
	}
	return answers, nil
}

// hasExited reports whether the person of a mail was taken out of the journey. A record
// that cannot be read is a newer program's, which knows.
func hasExited(raw *flow.Record, s *mail.Send) bool {
	var r journey.Record
	if r.Decode(raw[:]) != nil {
		return false
	}
	return r.State == journey.StateExited && int(r.Occurrence) == s.Occurrence
}

// exitedReason is the reason of a mail that was cancelled because its person has left.
func exitedReason(s *mail.Send) string { return fmt.Sprintf("exited %s/%s", s.Journey, s.Step) }

// quiet says of mail that was made a while ago whether it would come in the hours without
// mail: then it waits for their end, or is left out, as its version of the journey says.
func (g *Gate) quiet(ctx context.Context, partition int, j *plans, raw *flow.Record, s *mail.Send) (l mail.Leave, err error) {
	now := g.Clock.Now()
	if now.Sub(time.UnixMilli(s.AcceptedMillis)) < quietAfter {
		return l, nil
	}
	var r journey.Record
	var walk *step.Journey
	if r.Decode(raw[:]) == nil && r.State != journey.StateNone {
		if walk, err = j.walkOf(ctx, g.Store, g.Loader.database().Env(ctx), &r); err != nil {
			return l, err
		}
	} else if j.current != nil {
		walk = j.current.walk
	}
	if walk == nil || walk.Plan().Quiet == nil {
		return l, nil
	}
	at := slices.IndexFunc(walk.Plan().Steps, func(p plan.PlanStep) bool { return p.ID == s.Step && p.Message != nil })
	if at < 0 {
		return l, nil
	}
	person := step.Person{ID: user.ID{Partition: partition, Number: s.Person}}
	if walk.Plan().Quiet.Zone.User {
		asking, cancel := context.WithTimeout(ctx, gateWait) // the window has other mail
		defer cancel()
		found, err := g.Store.Users(asking, user.Query{IDs: []user.ID{person.ID}})
		if err != nil {
			return l, err
		}
		if row, ok := found.Owner(person.ID); ok {
			person.Profile = row.Profile
		}
	}
	switch until, skip := walk.Quiet(at, &person, now); {
	case until.Equal(now):
	case skip:
		l.Cancel = fmt.Sprintf("quiet %s/%s", s.Journey, s.Step)
	default:
		l.AgainMillis = until.UnixMilli()
	}
	return l, nil
}
