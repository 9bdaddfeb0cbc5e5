package domain

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"sluice"
	"sluice/lib/doctor"
)

// Bounds of a Watcher.
const (
	// MaxWatched is how many domains are remembered; the one met longest ago makes
	// room for the next.
	MaxWatched = 1000

	parallelLooks = 2
	lookTimeout   = 20 * time.Second

	// boardTimeout bounds a question to the board.
	boardTimeout = 2 * time.Second

	// What was found is believed for goodFor. Where something is wrong or could
	// not be looked at, it is believed for badFor: a person who has fixed it
	// expects a prompt check.
	goodFor = 6 * time.Hour
	badFor  = 10 * time.Minute

	// renewEvery is how often old errors are looked for that no mail has renewed.
	renewEvery = time.Minute

	// forgottenAfter is when a domain that sends nothing is no longer told of.
	forgottenAfter = 7 * 24 * time.Hour
)

// Result is what was found about a domain, and when.
type Result struct {
	Domain        string           `json:"domain"`
	CheckedMillis int64            `json:"checked_ms"`
	Findings      []doctor.Finding `json:"findings"`

	// Carried are the checks that DNS did not answer, so that Findings also has the
	// problems of an earlier look. They refuse no mail.
	Carried []doctor.Check `json:"carried,omitempty"`
}

// carry takes over the problems that were found before, of checks that could not be made now:
// what DNS does not say is not mended.
func (r *Result) carry(before *Result) {
	now := r.Findings
	for _, f := range before.Findings {
		unknown, known := false, false
		for i := range now {
			unknown = unknown || now[i].Check == f.Check && now[i].Severity == doctor.SeverityUnknown && !strings.Contains(now[i].Found, notSeenHere)
			known = known || now[i].Check == f.Check && (now[i].Severity == f.Severity || now[i].Severity == doctor.SeverityError)
		}
		if !isProblem(&f) || !unknown || known {
			continue
		}
		r.Findings = append(slices.Clip(r.Findings), f)
		if !slices.Contains(r.Carried, f.Check) {
			r.Carried = append(slices.Clip(r.Carried), f.Check)
		}
	}
}

// isProblem reports whether a finding asks somebody to do something.
func isProblem(f *doctor.Finding) bool {
	return f.Severity == doctor.SeverityError || f.Severity == doctor.SeverityWarning
}

// Checked is when it was looked at.
func (r *Result) Checked() time.Time { return time.UnixMilli(r.CheckedMillis) }

// Worst returns the first finding of a severity, nil if there is none.
func (r *Result) Worst(s doctor.Severity) *doctor.Finding {
	i := slices.IndexFunc(r.Findings, func(f doctor.Finding) bool { return f.Severity == s })
	if i < 0 {
		return nil
	}
	return &r.Findings[i]
}

// Refusal is why mail of the domain is not to be accepted, nil if it may be.
func (r *Result) Refusal() *sluice.Error {
	i := slices.IndexFunc(r.Findings, func(f doctor.Finding) bool {
		return f.Severity == doctor.SeverityError && !slices.Contains(r.Carried, f.Check)
	})
	if i < 0 {
		return nil
	}
	f := &r.Findings[i]
	return sluice.Refuse(sluice.CodeInvalid, "mail from %s is not accepted, for receivers would refuse it: %s: %s; %s", r.Domain, f.Check, f.Found, f.Remedy)
}

// fresh reports whether it is still believed.
func (r *Result) fresh(now time.Time) bool {
	age := now.Sub(r.Checked())
	if r.CheckedMillis == 0 || age < 0 { // a clock that was ahead
		return false
	}
	if r.Worst(doctor.SeverityError) != nil || r.Worst(doctor.SeverityUnknown) != nil {
		return age < badFor
	}
	return age < goodFor
}

// problems are the findings that ask somebody to do something, as one text.
func (r *Result) problems() string {
	var all []string
	for _, f := range r.Findings {
		if isProblem(&f) {
			all = append(all, string(f.Check)+" "+string(f.Severity))
		}
	}
	return strings.Join(all, ", ")
}

// Board is where processes keep what they have found for each other, by domain.
// senderdomains.Domains is one.
type Board interface {
	// Found returns what is kept of a domain, empty if nothing is.
	Found(ctx context.Context, domain string) (string, error)

	// Keep keeps it, and forgets what was kept before a time.
	Keep(ctx context.Context, domain, text string, atMillis, forgetMillis int64) error
}

// Watcher has sender domains looked at when mail of theirs is met for the first
// time, and again when what was found has grown old. It works in the
// background: mail waits for DNS only where domains must be good to be accepted, for some
// seconds (Await). Its methods may be called from
// several goroutines.
type Watcher struct {
	Look  func(ctx context.Context, domain string) doctor.Examination
	Board Board
	Clock sluice.Clock
	Log   *slog.Logger

	mu      sync.Mutex
	watched map[string]*watched
	queue   chan string
}

// watched is a domain that was met.
type watched struct {
	name   string
	met    time.Time
	queued bool          // it waits, or is being looked at
	looked chan struct{} // closed when it is looked at next; nil: what is known is fresh
	result Result
	told   string // the problems that the log has
}

// NewWatcher returns a watcher; what is met before Run waits for it.
func NewWatcher(look func(context.Context, string) doctor.Examination, board Board, clock sluice.Clock, log *slog.Logger) *Watcher {
	return &Watcher{Look: look, Board: board, Clock: clock, Log: log, watched: make(map[string]*watched), queue: make(chan string, MaxWatched)}
}

// Meet notes that mail of a domain, in lower case, is on its way. It waits for
// nothing.
func (w *Watcher) Meet(domain string) {
	if domain == "" { // the null reverse-path
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.meet(domain)
}

func (w *Watcher) meet(domain string) *watched {
	now := w.Clock.Now()
	d := w.watched[domain]
	if d == nil {
		if len(w.watched) >= MaxWatched {
			w.forgetOne()
		}
		// The name may share the memory of a batch, which would be kept whole.
		d = &watched{name: strings.Clone(domain)}
		w.watched[d.name] = d
	}
	d.met = now
	if d.result.fresh(now) {
		return d
	}
	if d.looked == nil {
		d.looked = make(chan struct{})
	}
	if !d.queued {
		select {
		case w.queue <- d.name:
			d.queued = true
		default: // it is met again
		}
	}
	return d
}

// forgetOne forgets the domain that was met longest ago.
func (w *Watcher) forgetOne() {
	oldest := ""
	for name, d := range w.watched {
		if oldest == "" || d.met.Before(w.watched[oldest].met) {
			oldest = name
		}
	}
	delete(w.watched, oldest)
}

// Await returns what was found about a domain. It waits for a look where nothing is
// known yet, or an error that is too old to be believed: until ctx ends, then false.
func (w *Watcher) Await(ctx context.Context, domain string) (Result, bool) {
	w.mu.Lock()
	d := w.meet(domain)
	known, looked := d.result, d.looked
	w.mu.Unlock()
	if looked == nil || known.CheckedMillis != 0 && known.Worst(doctor.SeverityError) == nil { // also where ctx has ended
		return known, true
	}
	select {
	case <-looked:
	case <-ctx.Done():
		return Result{}, false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return d.result, true
}

// Results returns what was found about the domains that are met, by name.
func (w *Watcher) Results() []Result {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.Clock.Now()
	var all []Result
	for _, name := range slices.Sorted(maps.Keys(w.watched)) {
		if d := w.watched[name]; d.result.CheckedMillis != 0 && now.Sub(d.met) < forgottenAfter {
			all = append(all, d.result)
		}
	}
	return all
}

// Run looks at domains until fetch ends.
func (w *Watcher) Run(fetch, _ context.Context) {
	var running sync.WaitGroup
	for range parallelLooks {
		running.Go(func() {
			for {
				select {
				case <-fetch.Done():
					return
				case domain := <-w.queue:
					w.one(fetch, domain)
				}
			}
		})
	}
	running.Go(func() { w.renew(fetch) })
	running.Wait()
}

// renew looks again at domains with an error that is not believed any more, until ctx
// ends. Perhaps nobody sends mail from them now, and the alert has to end when they are
// mended. It does so beside the queue: mail waits for looks of the queue.
func (w *Watcher) renew(ctx context.Context) {
	tick := time.NewTicker(renewEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for domain := w.oldError(); domain != "" && ctx.Err() == nil; domain = w.oldError() {
			w.one(ctx, domain)
		}
	}
}

// oldError returns a domain whose error is old and which nobody is about to look at: from
// now on it counts as queued. Empty: there is none.
func (w *Watcher) oldError() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.Clock.Now()
	for name, d := range w.watched {
		if !d.queued && now.Sub(d.met) < forgottenAfter && d.result.Worst(doctor.SeverityError) != nil && !d.result.fresh(now) {
			d.queued = true
			return name
		}
	}
	return ""
}

// one finds out about a domain: from the board, or by a look.
func (w *Watcher) one(ctx context.Context, domain string) {
	if r, found := w.kept(ctx, domain); found {
		w.note(&r)
		return
	}
	w.Refresh(ctx, domain)
}

// Refresh looks at a domain now. Of one that mail is sent from it keeps what was
// found.
func (w *Watcher) Refresh(ctx context.Context, domain string) Result {
	looking, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	e := w.Look(looking, domain)
	r := Result{Domain: domain, CheckedMillis: w.Clock.Now().UnixMilli(), Findings: e.Findings}
	if ctx.Err() == nil && w.note(&r) { // otherwise the caller has gone, and this is no finding
		w.keep(ctx, &r)
	}
	return r
}

func (w *Watcher) kept(ctx context.Context, domain string) (r Result, found bool) {
	ctx, cancel := context.WithTimeout(ctx, boardTimeout)
	defer cancel()
	text, err := w.Board.Found(ctx, domain)
	if err != nil || text == "" {
		return r, false // then this process looks for itself
	}
	if err := json.Unmarshal([]byte(text), &r); err != nil || r.Domain != domain {
		return r, false
	}
	return r, r.fresh(w.Clock.Now())
}

func (w *Watcher) keep(ctx context.Context, r *Result) {
	text, err := json.Marshal(r)
	if err == nil {
		ctx, cancel := context.WithTimeout(ctx, boardTimeout)
		defer cancel()
		err = w.Board.Keep(ctx, r.Domain, string(text), r.CheckedMillis, r.Checked().Add(-forgottenAfter).UnixMilli())
	}
	if err != nil {
		w.Log.Warn("the findings about a sender domain could not be stored; other processes check it themselves", "domain", r.Domain, "error", err)
	}
}

// note takes over what was found, completes it (carry), and tells the log what has
// changed. false: the domain is none that is met.
func (w *Watcher) note(r *Result) bool {
	w.mu.Lock()
	d := w.watched[r.Domain]
	if d == nil {
		w.mu.Unlock()
		return false
	}
	d.queued = false
	if d.looked != nil {
		close(d.looked)
		d.looked = nil
	}
	r.carry(&d.result)
	d.result = *r
	before, now := d.told, r.problems()
	d.told = now
	w.mu.Unlock()
	switch {
	case now == before:
	case now == "":
		w.Log.Info("sender domain has no problems any more", "domain", r.Domain)
	default:
		for _, f := range r.Findings {
			if isProblem(&f) {
				w.Log.Warn("sender domain has problems; `sluice domain check` says more", "domain", r.Domain, "check", f.Check, "severity", f.Severity, "found", f.Found, "remedy", f.Remedy)
			}
		}
	}
	return true
}

// maxWait is how long the acceptance of mails may wait for looks at their domains,
// where good ones are required. It is for all domains of a request together.
const maxWait = 5 * time.Second

// Refusals returns why mail of domains, in lower case, is not to be accepted.
// Mail of a domain that is not in it may be accepted: what DNS did not say in
// time is no reason, and neither is an error that is too old to be believed.
func (w *Watcher) Refusals(ctx context.Context, domains []string) map[string]*sluice.Error {
	ctx, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	for _, name := range domains {
		w.Meet(name) // so that the looks run side by side
	}
	refused := make(map[string]*sluice.Error)
	for _, name := range domains {
		if name == "" || refused[name] != nil { // the null reverse-path
			continue
		}
		if r, ok := w.Await(ctx, name); ok {
			if err := r.Refusal(); err != nil {
				refused[name] = err
			}
		}
	}
	return refused
}
