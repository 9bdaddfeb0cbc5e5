package feedback

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"sluice"
	"sluice/flow"
	"sluice/mail"
)

// Redis has the counts of all processes. flow.Redis is one.
type Redis interface {
	AddFeedback(ctx context.Context, stretch int64, counts []flow.FeedbackCount, most int, ttl time.Duration) (left int64, err error)
	Feedback(ctx context.Context, stretches []int64) (map[string]int64, error)
	ForgetFeedback(ctx context.Context, stretches []int64, fields []string) error
}

// Ledger is where the sends of reports are looked up. mail.SendStore is one.
type Ledger interface {
	SendRows(ctx context.Context, keys []mail.SendKey) ([]mail.SendRow, error)
}

// Operator stops mail. spool.Operator is one.
type Operator interface {
	Stop(ctx context.Context, s mail.Selector, note string) error
	Stopped(ctx context.Context) (map[string]string, error)
}

// Limits say when mail is stopped. A limit of 0 is none.
type Limits struct {
	Complaints, Bounces, Blocks int // of a thousand mails
	Mails                       int // so many have to be answered within the window
	Window                      time.Duration
	Transactional               bool // transactional mail is counted and stopped, too
}

// any reports whether there is a limit.
func (l *Limits) any() bool { return l.Complaints+l.Bounces+l.Blocks > 0 }

// Watch counts what becomes of mail, for each route, each tag and each journey, and stops
// what is beyond a limit. A journey is paused: its people stay where they are.
//
// The idea. A process adds up what it learns and writes it into Redis each second, into
// the hash of the present stretch of time. stretches of them are the window. One
// process, which holds the lease, reads them every judgeEvery and stops what is beyond
// a limit as an operator would: it stays stopped until an operator lets it go on. The
// counts of what was stopped are forgotten, so that it then begins anew. Journeys, which
// are paused in the database, are judged beside mail, which is stopped in Redis.
//
// What is counted. A mail is answered when a server has taken it, or when its attempt has
// failed for good. It is answered, too, when a server refuses it because of us with a code
// from 500 on, and it is tried again. Of these it has bounced if the address is at fault
// (hard, soft), or is blocked if we are. What comes back later, by mail or by a provider's
// webhook, is counted when it is stored, if it happened within the window.
//
// The bounds. maxCells subjects and counts are kept in a process, and maxFields in a
// stretch of time. Routes and journeys always have a place; of tags those that come first.
//
// Dropped. Counting by rows of the ledger or the series: these have no route, and a
// query over an hour of mail costs more each time than the mail. A rate of each
// process: with twenty of them each sees too little.
type Watch struct {
	Redis    Redis
	Ledger   Ledger
	Operator Operator
	Limits   Limits
	Clock    sluice.Clock
	Log      *slog.Logger

	// Ignored is the route whose mail does not count: the built-in mailboxes.
	Ignored string

	// Judges reports whether this process has the lease.
	Judges func() bool

	// PauseJourney pauses a journey that is live, with the reason, until an operator
	// resumes it; paused is false if it is not live. hold is the reason with which it
	// stands then; empty: none. nil: no journey is judged.
	PauseJourney func(ctx context.Context, id, why string) (hold string, paused bool, err error)

	// Paused is told of what was stopped. It may be told again, with the same name and
	// the same At: the second in which it was stopped.
	Paused func(ctx context.Context, p *Pause) error

	mu      sync.Mutex
	cells   map[cell]int64
	reports []mail.Report
	known   known

	dropped atomic.Int64
	pauses  atomic.Int64
}

// Pause is what was stopped, and why.
type Pause struct {
	Selector mail.Selector // none if it is a journey
	Journey  string        // its id; empty: it is none
	At       time.Time
	What     string // bounced, blocked, complained
	Count    int64  // of these
	Mails    int64  // answered
	PerMille int    // the limit
	Window   time.Duration
}

const (
	flushEvery = time.Second
	judgeEvery = 5 * time.Second

	// stretches of time are the window.
	stretches = 12

	maxCells   = 4096 // of a process, until they are written
	maxFields  = 4096 // of a stretch of time, routes and journeys left out
	maxReports = 20_000
	lookAtOnce = 500 // rows of the ledger

	// leastCount is how many of a kind there have to be, however low the limit is.
	leastCount = 5

	// NoteMark is in the note of what was stopped by itself.
	NoteMark = "stopped by itself: "
)

// what became of a mail.
type what byte

const (
	answered what = iota
	bounced
	blocked
	complained
)

var whatWords = [...]string{"answered", "bounced", "blocked", "complained"}

// subject is whose mail is counted.
type subject byte

const (
	ofRoute subject = iota
	ofTag
	ofJourney
)

// cell is one count. It is comparable, so that counting a mail makes no text.
type cell struct {
	of    subject
	name  string
	class mail.Class // 0: any
	what  what
}

// Result counts the result of an attempt.
func (w *Watch) Result(s *mail.Send, route string, r *mail.Result) {
	if !w.counts(s.Class, route) {
		return
	}
	switch {
	case r.Kind == mail.ResultSent:
		w.add(s.Class, route, s.Tags, s.Journey, answered)
	case r.Kind == mail.ResultFailed, r.Kind == mail.ResultDeferred && r.Code >= 500 && r.Blame == mail.BlameRoute:
		w.add(s.Class, route, s.Tags, s.Journey, answered)
		if of, bad := whatOf(mail.BounceClassOf(r.Enhanced, r.Text)); bad {
			w.add(s.Class, route, s.Tags, s.Journey, of)
		}
	}
}

// counts reports whether a mail counts.
func (w *Watch) counts(c mail.Class, route string) bool {
	return w.Limits.any() && route != w.Ignored && route != "" && (w.Limits.Transactional || c == mail.ClassMarketing)
}

// whatOf says as what a class of bounces counts.
func whatOf(c mail.BounceClass) (of what, bad bool) {
	switch c {
	case mail.BounceHard, mail.BounceSoft:
		return bounced, true
	case mail.BounceBlock:
		return blocked, true
	}
	return 0, false
}

// add counts a mail for its route, its journey (empty: it has none) and each of its tags.
func (w *Watch) add(class mail.Class, route, tags, journey string, of what) {
	if w.Limits.Transactional {
		class = 0
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.one(cell{name: route, class: class, what: of})
	if journey != "" {
		w.one(cell{of: ofJourney, name: journey, what: of}) // a journey is paused as a whole
	}
	for tags != "" {
		var tag string
		tag, tags, _ = strings.Cut(tags, ",")
		w.one(cell{of: ofTag, name: tag, class: class, what: of})
	}
}

// one adds one to a cell. A new one gets a text of its own: that of a send may share
// the memory of a batch.
func (w *Watch) one(c cell) {
	if _, known := w.cells[c]; !known {
		if c.of == ofTag && len(w.cells) >= maxCells {
			w.dropped.Add(1)
			return
		}
		if w.cells == nil {
			w.cells = make(map[cell]int64)
		}
		c.name = strings.Clone(c.name)
	}
	w.cells[c]++
}

// known remembers which reports of which sends were counted: for a window at least, or
// the last maxKnown. Else somebody with one mail could report it until all mail of its
// route stops, and a provider posts again what it got no answer to. All reports of a send
// come by the log of one partition, so mostly to one process.
type known struct {
	now, before map[reported]struct{}
	since       time.Time // when now was begun
}

// maxKnown bounds one of the two maps of known.
const maxKnown = 65_536

type reported struct {
	send mail.SendKey
	of   what
}

// has reports whether a report was there before, and remembers it. Reports that name no
// single send are never known: they may be of different recipients.
func (k *known) has(r *mail.Report, now time.Time, window time.Duration) bool {
	if r.Number == mail.AnyNumber {
		return false
	}
	if k.now == nil || len(k.now) >= maxKnown || now.Sub(k.since) > window {
		k.before, k.now, k.since = k.now, make(map[reported]struct{}), now
	}
	name := reported{r.SendKey, complained}
	if !r.Complaint {
		name.of, _ = whatOf(r.Class)
	}
	_, then := k.before[name]
	_, there := k.now[name]
	k.now[name] = struct{}{}
	return there || then
}

// Reported takes reports to be looked up and counted, each of a send once. It does not block; beyond
// maxReports they are dropped.
func (w *Watch) Reported(all []mail.Report) {
	if !w.Limits.any() {
		return
	}
	since := w.Clock.Now().Add(-w.Limits.Window).UnixMilli()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range all {
		switch _, bad := whatOf(r.Class); {
		case r.TimeMillis < since || !bad && !r.Complaint: // it says nothing of now, or of us
		case len(w.reports) >= maxReports:
			w.dropped.Add(1)
		case w.known.has(&r, w.Clock.Now(), w.Limits.Window):
		default:
			w.reports = append(w.reports, r)
		}
	}
}

// Stats returns how much was stopped by this process, and how many counts were dropped.
func (w *Watch) Stats() (pauses, dropped int64) { return w.pauses.Load(), w.dropped.Load() }
