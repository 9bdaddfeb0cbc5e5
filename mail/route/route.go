package route

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/bits"
	"slices"
	"strings"
	"sync"
	"time"

	"sluice"
	"sluice/flow"
	"sluice/lib/mime"
	"sluice/mail"
)

// Redis is what all processes share.
type Redis interface {
	Pace(ctx context.Context, route string, asks []flow.PaceAsk) ([]flow.PaceGrant, error)
	Stops(ctx context.Context) (map[string]string, error)
	StopsHere(ctx context.Context) (names map[string]string, epoch uint64, err error)
	StopAgain(ctx context.Context, names map[string]string, epoch uint64) error
}

// Router says by which route mail goes.
//
// The idea. Each transport's workers ask for the mail at the head of a lane.
// Routes can take it now if they are up, have a token, and their workers are
// asking. One of them is chosen by weight and by the mail's own number. So
// every transport comes to the same answer without talking to the others. If
// that route is not the one that asks, it leaves the mail; if none can, each
// says when to ask again. So no mail is ever assigned: what waits when a route
// fails goes by another.
//
// The invariants. What is not allowed goes into the mailboxes or nowhere, before
// anything else is looked at. A route never takes mail that its settings deny,
// even if all others are down. A token is taken for each mail that may go, of
// the route and of its domain both, or of none.
//
// Dropped. Assigning a route when the mail is queued: a route that dies keeps
// its mail. A random choice at each question: two transports may both leave a
// mail to the other.
type Router struct {
	mode      Mode
	addresses map[string]bool
	allowed   patterns
	routes    []*route // the sink is not among them
	sink      *route
	redis     Redis
	paused    func(ctx context.Context) ([]string, error)
	days      Days
	kept      Kept
	copied    map[string]string // what it is known to have; Keep's
	copiedAs  uint64            // its epoch
	clock     sluice.Clock
	wake      chan struct{}

	log *slog.Logger

	mu      sync.Mutex
	domains map[string]*domain
	stops   *stops // nil: it is not known yet what is stopped
	asking  []*bucket

	leases sync.WaitGroup // calls for tokens

	apartNames map[uint64]string // by set of routes
}

// route is a route, guarded by the Router's lock but for what is set once.
type route struct {
	name      string
	transport mail.Transport
	place     int // in Router.routes; the sink has none
	weight    uint64
	backup    bool
	direct    bool
	classes   [3]bool
	patterns  patterns
	takesRest bool // what no pattern fits
	perDomain Pace
	paces     map[string]Pace

	line
	stopped   bool      // by an operator
	asked     time.Time // when its workers last did
	busy      time.Time // since when all of them are at work; zero: one is free
	taken     int64
	throttled int64
	leasing   bool  // it is asking for tokens
	unleased  error // why it got none when it asked last
}

// line is what mail goes along: a route, or a domain of one.
type line struct {
	bucket   *bucket // nil: there is no pace
	paceless bool    // nor is that of its bucket one, which counts the mails of days
	breaker  breaker
	pause    time.Time // before when the other side wants nothing
	pauseFor time.Duration
	why      Down // it does not work; its Cause is empty while it does
	senders  senders
}

// domain is what is known of a domain.
type domain struct {
	name    string
	takers  [3]uint64 // by class: routes whose settings take it
	allowed bool      // by a list
	lines   []*line   // by route; nil: that of the route alone
	asked   time.Time
}

// New returns a router. Its Run leases tokens; until it has read what is stopped,
// nothing goes.
func New(o Options) (*Router, error) {
	r := &Router{
		mode: o.Mode, addresses: make(map[string]bool), redis: o.Redis, paused: o.Paused, days: o.Days, kept: o.Kept, clock: o.Clock, log: o.Log, wake: make(chan struct{}, 1),
		domains: make(map[string]*domain), apartNames: make(map[uint64]string), sink: &route{name: o.Sink.Name(), transport: o.Sink, place: -1},
	}
	if r.log == nil {
		r.log = slog.New(slog.DiscardHandler)
	}
	if !slices.Contains([]Mode{Off, Sink, AllowList, On}, o.Mode) {
		return nil, fmt.Errorf("prepare routes: sending is %q, want off, sink, allow-list or on", o.Mode)
	}
	if len(o.Routes) > MaxRoutes {
		return nil, fmt.Errorf("prepare routes: there are %d, the most is %d", len(o.Routes), MaxRoutes)
	}
	var domains []string
	for _, a := range o.Allow {
		if strings.Contains(a, "@") {
			r.addresses[strings.ToLower(a)] = true
			continue
		}
		if err := CheckDomain(a); err != nil {
			return nil, fmt.Errorf("prepare routes: allow: %w", err)
		}
		domains = append(domains, a)
	}
	r.allowed = newPatterns(domains)
	names := map[string]bool{o.Sink.Name(): true}
	for i := range o.Routes {
		s := &o.Routes[i]
		name := s.Transport.Name()
		if err := s.Check(); err != nil {
			return nil, fmt.Errorf("prepare route %s: %w", name, err)
		}
		if names[name] {
			return nil, fmt.Errorf("prepare route %s: another has that name", name)
		}
		names[name] = true
		r.routes = append(r.routes, newRoute(s, i))
	}
	return r, nil
}

func newRoute(s *Settings, place int) *route {
	x := &route{
		name: s.Transport.Name(), transport: s.Transport, place: place, weight: uint64(max(s.Weight, 1)), backup: s.Backup, direct: s.Direct,
		patterns: newPatterns(s.Domains, s.Except), takesRest: len(s.Domains) == 0, perDomain: s.PerDomain, paces: s.Paces,
	}
	for c := range x.classes {
		x.classes[c] = len(s.Classes) == 0 || slices.Contains(s.Classes, mail.Class(c))
	}
	b := bucketOf(s.Pace, s.Transport.Window(), "")
	if len(s.Warmup) > 0 {
		if b == nil { // the days' limits need a bucket
			b = bucketOf(Pace{PerSecond: MaxPerSecond}, s.Transport.Window(), "")
			x.paceless = true
		}
		b.FirstDay = s.WarmupFrom.UTC().Unix() / 86_400
		b.DayLimits = strings.Trim(strings.Join(strings.Fields(fmt.Sprint(s.Warmup)), ","), "[]")
	}
	x.bucket = newBucket(b, x)
	return x
}

// Transports returns those that have something to do.
func (r *Router) Transports() []mail.Transport {
	var all []mail.Transport
	if r.mode == Sink || r.mode == AllowList {
		all = append(all, r.sink.transport)
	}
	if r.mode == AllowList || r.mode == On {
		for _, x := range r.routes {
			all = append(all, x.transport)
		}
	}
	return all
}

// TransportOf returns that of a route by its name, whatever the mode; nil: there is no such
// route.
func (r *Router) TransportOf(name string) mail.Transport {
	if x := r.byName(name); x != nil {
		return x.transport
	}
	return nil
}

// ErrNoRoute says that no route ever takes a mail.
var ErrNoRoute = errors.New("no route takes it")

// Check says whether a mail would find a route, now or later: before it is
// accepted. asked is the route that it asks for; empty: whichever.
func (r *Router) Check(to string, class mail.Class, asked string) error {
	if asked != "" && r.byName(asked) == nil {
		return fmt.Errorf("%w: there is no route %.64q", ErrNoRoute, asked)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	d := r.domain(mime.DomainOf(to), r.clock.Now())
	if r.mode == Off || r.intoSink(to, d) {
		return nil
	}
	switch {
	case r.candidates(d, class, asked) != 0:
		return nil
	case asked != "":
		return fmt.Errorf("%w: by the settings of the route %s it takes no %s mail to %s", ErrNoRoute, asked, class, d.name)
	}
	return fmt.Errorf("%w: by their settings none takes %s mail to %s", ErrNoRoute, class, d.name)
}

// Meant returns the one route that a mail goes by that was not tried yet, by the
// settings alone; empty: none takes it, or several do, of which one is chosen when
// the mail leaves. A backup counts if only backups take the mail.
func (r *Router) Meant(to string, class mail.Class, asked string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	d := r.domain(mime.DomainOf(to), r.clock.Now())
	if r.intoSink(to, d) {
		return r.sink.name
	}
	set := r.candidates(d, class, asked)
	first := set
	for rest := set; rest != 0; rest &= rest - 1 {
		if i := bits.TrailingZeros64(rest); r.routes[i].backup {
			first &^= 1 << i
		}
	}
	if first == 0 {
		first = set
	}
	if bits.OnesCount64(first) != 1 {
		return ""
	}
	return r.routes[bits.TrailingZeros64(first)].name
}

func (r *Router) byName(name string) *route {
	for _, x := range r.routes {
		if x.name == name {
			return x
		}
	}
	if name == r.sink.name {
		return r.sink
	}
	return nil
}

// candidates returns the routes whose settings take a mail, a bit each.
func (r *Router) candidates(d *domain, class mail.Class, asked string) uint64 {
	set := d.takers[min(int(class), len(d.takers)-1)]
	if asked == "" {
		return set
	}
	x := r.byName(asked)
	if x == nil || x.place < 0 {
		return 0
	}
	return set & (1 << x.place)
}

// intoSink reports whether a mail goes into the mailboxes.
func (r *Router) intoSink(to string, d *domain) bool {
	return r.mode == Sink || r.mode == AllowList && !d.allowed && !r.addresses[strings.ToLower(to)]
}

// domain returns what is known of a domain.
func (r *Router) domain(name string, now time.Time) *domain {
	if d := r.domains[name]; d != nil {
		d.asked = now
		return d
	}
	if len(r.domains) >= MaxDomains {
		r.forget()
	}
	name = strings.Clone(name) // it may share the memory of a batch, which would be kept whole
	d := &domain{name: name, asked: now, lines: make([]*line, len(r.routes))}
	d.allowed, _ = r.allowed.find(name)
	for i, x := range r.routes {
		takes, found := x.patterns.find(name)
		for class := range d.takers {
			if x.classes[class] && (takes || !found && x.takesRest) {
				d.takers[class] |= 1 << i
			}
		}
		pace, own := x.paces[name]
		if !own {
			pace = x.perDomain
		}
		if b := newBucket(bucketOf(pace, x.transport.Window(), name), x); b != nil || x.direct {
			d.lines[i] = &line{bucket: b}
		}
	}
	r.domains[name] = d
	return d
}

// forget forgets the half of the domains that was asked about longest ago. One
// that is paused is forgotten like the others: it is asked about soon enough.
func (r *Router) forget() {
	all := make([]time.Time, 0, len(r.domains))
	for _, d := range r.domains {
		all = append(all, d.asked)
	}
	slices.SortFunc(all, time.Time.Compare)
	middle := all[len(all)/2]
	for name, d := range r.domains {
		if !d.asked.After(middle) {
			delete(r.domains, name)
		}
	}
}

// lines returns what a mail to a domain by a route goes along: the route's, and
// the domain's if it has one.
func (x *route) lines(d *domain) [2]*line {
	return [2]*line{&x.line, d.lines[x.place]}
}

// wait returns how long nothing may go along a line that is not up; 0: it is up.
func (l *line) wait(now time.Time) time.Duration {
	if l == nil {
		return 0
	}
	wait := l.breaker.wait(now)
	if now.Before(l.pause) {
		wait = max(wait, l.pause.Sub(now))
	}
	return wait
}

// healthy reports whether a line is up, and its breaker closed.
func (l *line) healthy(now time.Time) bool {
	return l == nil || l.breaker.length == 0 && l.wait(now) == 0
}

// choose returns one of a set of routes, by weight and by a mail's number: each
// caller gets the same.
func (r *Router) choose(set uint64, s *mail.Send) *route {
	if bits.OnesCount64(set) == 1 {
		return r.routes[bits.TrailingZeros64(set)]
	}
	total := uint64(0)
	for rest := set; rest != 0; rest &= rest - 1 {
		total += r.routes[bits.TrailingZeros64(rest)].weight
	}
	at := hash(s) % total
	for rest := set; ; rest &= rest - 1 {
		x := r.routes[bits.TrailingZeros64(rest)]
		if at < x.weight {
			return x
		}
		at -= x.weight
	}
}

// hash mixes the message's id and the number of the recipient (FNV-1a).
func hash(s *mail.Send) uint64 {
	h := hashText(fnvBasis, s.Message)
	h = (h ^ uint64(s.Number)) * fnvPrime
	h ^= h >> 33 // the low bits are the least mixed
	return h * 0xff51afd7ed558ccd >> 11
}

// FNV-1a, of 64 bits.
const (
	fnvBasis = uint64(14695981039346656037)
	fnvPrime = 1099511628211
)

// hashText goes on with a hash.
func hashText(h uint64, text string) uint64 {
	for i := range len(text) {
		h = (h ^ uint64(text[i])) * fnvPrime
	}
	return h
}
