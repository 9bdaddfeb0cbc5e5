package route

import (
	"fmt"
	"math/bits"
	"strings"
	"time"

	"sluice/lib/mime"
	"sluice/mail"
)

// Take says whether a mail may go by the transport that asks.
type Take struct {
	OK bool

	// Wait is after what time to ask again, never 0 unless OK.
	Wait time.Duration

	// Lane, if not empty, is where the mail is queued separately: the sublane
	// of its domain, or of the routes that take it. The spool moves it there.
	// Empty: it stays where it is.
	Lane string

	// Stopped says that an operator, or a journey that is paused, keeps it there.
	Stopped bool
}

const (
	// absentAfter is the time without a question after which all workers of a
	// route count as busy, so that mail does not wait for them. Idle ones ask
	// at least every maxWait.
	absentAfter = 2 * maxWait

	// busyAfter is after what time without a free worker the mail of a route is moved
	// aside by others. A relay that is fast has one free sooner; one that hangs has
	// none.
	busyAfter = 250 * time.Millisecond

	// nowhere is the lane of mail that no route takes: routes have gone from the
	// settings since it was accepted. It waits for their return, or expires.
	nowhere     = "no-route"
	nowhereWait = 10 * time.Second

	// Pauses of a route without a pace whose other side wants fewer.
	pauseFirst  = time.Second
	pauseLatest = time.Minute
)

// Takes says whether a mail may go by a transport now, and if so it is to be
// attempted: its tokens are taken. It takes less than a microsecond, and
// allocates nothing if the domain is known and in lower case. passed are those
// that have just turned it away: while another is up, it goes by none of them.
func (r *Router) Takes(t mail.Transport, s *mail.Send, passed []mail.Transport, now time.Time) Take {
	r.mu.Lock()
	defer r.mu.Unlock()
	me := r.byTransport(t)
	if me == nil || r.mode == Off {
		return Take{Wait: maxWait}
	}
	me.asked = now
	if r.stops == nil || r.stops.lane(s) {
		return Take{Wait: stopsEvery}
	}
	if lane := r.stops.apart(s); lane != "" {
		return Take{Wait: stopsEvery, Lane: lane, Stopped: true}
	}
	d := r.domain(mime.DomainOf(s.To), now)
	if r.intoSink(s.To, d) {
		switch {
		case r.sink.stopped && r.mode == AllowList:
			return Take{Wait: stopsEvery, Lane: r.sink.name} // other mail goes by the routes
		case r.sink.stopped:
			return Take{Wait: stopsEvery}
		case me != r.sink:
			return Take{Wait: maxWait}
		}
		me.taken++
		return Take{OK: true}
	}
	set := r.candidates(d, s.Class, s.Route)
	if set == 0 {
		return Take{Wait: nowhereWait, Lane: nowhere}
	}
	if open := set &^ r.stops.haltedFor(s.Class); open != 0 {
		set = open
	} else {
		return Take{Wait: stopsEvery, Lane: r.apart(set, d, s.Route, now)}
	}
	up := r.preferred(set, d, now)
	if others := r.others(set, passed, d, now); others != 0 {
		up = others
	}
	if ready := r.ready(me, up, d, now); ready != 0 {
		return r.among(me, up, ready, d, s, now)
	}
	return r.refuse(me, set, up, d, s.Route, now)
}

// Elsewhere reports whether a mail that some routes have just rejected may be
// asked of another at once.
func (r *Router) Elsewhere(s *mail.Send, passed []mail.Transport, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mode == Off || r.stops == nil || r.stops.lane(s) || r.stops.apart(s) != "" {
		return false
	}
	d := r.domain(mime.DomainOf(s.To), now)
	return !r.intoSink(s.To, d) && r.others(r.candidates(d, s.Class, s.Route)&^r.stops.haltedFor(s.Class), passed, d, now) != 0
}

// others returns those of a set that are up, without the routes that have just
// rejected a mail. Routes whose breaker is not closed are left out too: what
// one route has refused is no probe of another. None if no route has rejected
// it.
func (r *Router) others(set uint64, passed []mail.Transport, d *domain, now time.Time) uint64 {
	if len(passed) == 0 {
		return 0
	}
	for _, t := range passed {
		if x := r.byTransport(t); x != nil && x.place >= 0 {
			set &^= 1 << x.place
		}
	}
	var up uint64
	for rest := set; rest != 0; rest &= rest - 1 {
		i := bits.TrailingZeros64(rest)
		x := r.routes[i]
		if ls := x.lines(d); !x.stopped && ls[0].healthy(now) && ls[1].healthy(now) {
			up |= 1 << i
		}
	}
	return r.preferred(up, d, now)
}

func (r *Router) byTransport(t mail.Transport) *route {
	for _, x := range r.routes {
		if x.transport == t {
			return x
		}
	}
	if t == r.sink.transport {
		return r.sink
	}
	return nil
}

// preferred returns the routes of a set that are up: of the backups only if no
// other is. If none is, it is those that are no backups.
func (r *Router) preferred(set uint64, d *domain, now time.Time) uint64 {
	var first, second, up uint64
	for rest := set; rest != 0; rest &= rest - 1 {
		i := bits.TrailingZeros64(rest)
		x := r.routes[i]
		if !x.backup {
			first |= 1 << i
		}
		if ls := x.lines(d); x.stopped || ls[0].wait(now) > 0 || ls[1].wait(now) > 0 {
			continue
		}
		if up |= 1 << i; x.backup {
			second |= 1 << i
		}
	}
	switch {
	case up&first != 0:
		return up & first
	case second != 0:
		return second
	case first != 0:
		return first
	}
	return set
}

// ready returns those of a set that could take a mail now, and whose workers do
// ask.
func (r *Router) ready(me *route, set uint64, d *domain, now time.Time) (ready uint64) {
	for rest := set; rest != 0; rest &= rest - 1 {
		i := bits.TrailingZeros64(rest)
		x := r.routes[i]
		if x != me && (now.Sub(x.asked) > absentAfter || x.isBusy(now)) {
			continue
		}
		if wait, _ := x.wait(d, now); wait == 0 {
			ready |= 1 << i
		}
	}
	return ready
}

// among decides between routes that are ready, of those that are up.
func (r *Router) among(me *route, up, ready uint64, d *domain, s *mail.Send, now time.Time) Take {
	if r.choose(ready, s) != me {
		if me.place >= 0 && up&^ready&(1<<me.place) != 0 {
			r.noteWant(me, d, now) // so that it is ready for the next
		}
		return Take{Wait: maxWait} // the chosen one takes it, or is busy by then
	}
	for _, l := range me.lines(d) {
		if l != nil {
			r.take(l.bucket)
			l.breaker.take(s, now)
		}
	}
	me.taken++
	return Take{OK: true}
}

// noToken is the wait of a mail that lacks a token.
const noToken time.Duration = -1

// wait returns 0 if a mail to a domain may go now, else how long it may not, and
// whether it is for its domain.
func (x *route) wait(d *domain, now time.Time) (wait time.Duration, domain bool) {
	if x.stopped {
		return stopsEvery, false
	}
	ls := x.lines(d)
	for i, l := range ls {
		if w := l.wait(now); w > 0 {
			return w, i == 1
		}
	}
	for i, l := range ls {
		if l != nil && !l.bucket.ready(now) {
			return noToken, i == 1
		}
	}
	return 0, false
}

// noteWant asks for the tokens that a route lacks, and returns after what time
// there may be some.
func (r *Router) noteWant(x *route, d *domain, now time.Time) time.Duration {
	wait := time.Duration(0)
	for _, l := range x.lines(d) {
		if l != nil && !l.bucket.ready(now) {
			wait = max(wait, r.want(l.bucket, now))
		}
	}
	return wait
}

// refuse says when to ask again for a mail that no route takes now, and whether it
// is to wait apart from others. set are those whose settings take it, up those of
// them that are up.
func (r *Router) refuse(me *route, set, up uint64, d *domain, asked string, now time.Time) Take {
	if me.place < 0 || up&(1<<me.place) == 0 {
		if r.anyoneAsks(up, d, now) {
			return Take{Wait: busyAfter} // they say when, or are busy by then
		}
		return Take{Wait: maxWait, Lane: r.apart(set, d, asked, now)}
	}
	wait, _ := me.wait(d, now)
	if wait == noToken {
		wait = r.noteWant(me, d, now)
	}
	return Take{Wait: min(wait, maxWait), Lane: r.apart(set, d, asked, now)}
}

// anyoneAsks reports whether one of a set could take a mail, or would if it had a
// token, and has workers that ask for it.
func (r *Router) anyoneAsks(set uint64, d *domain, now time.Time) bool {
	for rest := set; rest != 0; rest &= rest - 1 {
		x := r.routes[bits.TrailingZeros64(rest)]
		if wait, _ := x.wait(d, now); wait <= 0 && !x.isBusy(now) {
			return true
		}
	}
	return false
}

// apart names the sublane for a mail that no route of a set takes now. It is
// the domain, if other mail may go by one of the routes, or else these routes,
// if there are more. Empty: nothing goes anyway. Only mails that may go by the
// same routes share a name: the domain's has the route behind it that a mail asks
// for. Otherwise a mail that may go would wait behind one that may not.
func (r *Router) apart(set uint64, d *domain, asked string, now time.Time) string {
	for rest := set; rest != 0; rest &= rest - 1 {
		if _, ofDomain := r.routes[bits.TrailingZeros64(rest)].wait(d, now); ofDomain {
			if asked != "" {
				return d.name + "+" + asked
			}
			return d.name
		}
	}
	if set == 1<<len(r.routes)-1 && r.mode != AllowList {
		return ""
	}
	name := r.apartNames[set]
	if name == "" {
		var names []string
		for rest := set; rest != 0; rest &= rest - 1 {
			names = append(names, r.routes[bits.TrailingZeros64(rest)].name)
		}
		if name = strings.Join(names, "+"); len(name) > maxApartName {
			name = fmt.Sprintf("%.*s+%x", maxApartName, name, set)
		}
		if len(r.apartNames) < maxApartNames {
			r.apartNames[set] = name
		}
	}
	return name
}

// Bounds of the names of routes with which mail waits: bytes, and how many are
// remembered.
const (
	maxApartName  = 100
	maxApartNames = 1000
)

// Busy tells that all workers of a transport are at work, or that one is free
// again.
func (r *Router) Busy(t mail.Transport, busy bool, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if x := r.byTransport(t); x != nil {
		if x.busy = (time.Time{}); busy {
			x.busy = now
		}
	}
}

// isBusy reports whether all workers of a route have been at work for a while.
func (x *route) isBusy(now time.Time) bool {
	return !x.busy.IsZero() && now.Sub(x.busy) >= busyAfter
}

// Report tells what has become of an attempt, for the pace.
func (r *Router) Report(t mail.Transport, s *mail.Send, result *mail.Result, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	x := r.byTransport(t)
	if x == nil || x == r.sink {
		return
	}
	d := r.domain(mime.DomainOf(s.To), now)
	if result.Kind == mail.ResultUntried || result.Closed {
		r.giveBack(x, d)
	}
	l := x.told(d)
	spared := l.senders.spares(s, result, now)
	if spared {
		l.senders.tell(r.log, x.named(d), result, now)
	} else {
		x.note(r.log, l, d, result, now)
	}
	l.senders.note(s, result, now)
	switch {
	case wantsFewer(result):
		x.throttled++
		l.throttle(result.RetryAfter, now)
		if l.paced() {
			r.slower(l.bucket)
		}
	case result.Blame != mail.BlameRoute && result.Kind != mail.ResultUntried && result.Kind != mail.ResultInDoubt:
		l.pauseFor = 0
	}
}

// NotAttempted tells of mails that a transport was to take (Takes) and was not given: their
// tokens go back, and a probe among them was none.
func (r *Router) NotAttempted(t mail.Transport, sends []*mail.Send, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	x := r.byTransport(t)
	if x == nil || x == r.sink {
		return
	}
	for _, s := range sends {
		d := r.domain(mime.DomainOf(s.To), now)
		r.giveBack(x, d)
		for _, l := range x.lines(d) {
			if l != nil {
				l.breaker.giveBack(s, now)
			}
		}
	}
}

// Ended tells how a call of Deliver has ended, for the breakers.
func (r *Router) Ended(t mail.Transport, sends []*mail.Send, results []mail.Result, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	x := r.byTransport(t)
	if x == nil || x == r.sink {
		return
	}
	endings := make(map[*line]*ending, 1)
	for i, s := range sends {
		l := x.told(r.domain(mime.DomainOf(s.To), now))
		if endings[l] == nil {
			endings[l] = &ending{}
		}
		endings[l].add(&results[i], l.senders.spares(s, &results[i], now))
	}
	for l, e := range endings {
		e.tell(&l.breaker, now)
	}
}

// told returns the line that hears what is said of us: the route's, or of a
// direct one, the domain's.
func (x *route) told(d *domain) *line {
	if x.direct {
		return d.lines[x.place]
	}
	return &x.line
}

// wantsFewer reports whether the other side wants fewer connections: it says
// so, it closes (421), or it throttles (454).
func wantsFewer(r *mail.Result) bool {
	return r.Throttled || r.Kind == mail.ResultDeferred && (r.Code == 421 || r.Code == 454)
}

// paced reports whether a line has a pace, which can fall.
func (l *line) paced() bool { return l.bucket != nil && !l.paceless }

// throttle pauses a line, for as long as the other side says; one that has no
// pace that could fall, for a time that grows.
func (l *line) throttle(after time.Duration, now time.Time) {
	if after == 0 && !l.paced() {
		if now.Before(l.pause) {
			return // the others of its window say the same
		}
		l.pauseFor = min(max(2*l.pauseFor, pauseFirst), pauseLatest)
		after = l.pauseFor
	}
	if until := now.Add(after); until.After(l.pause) {
		l.pause = until
	}
}
