package alert

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"
)

// Bounds of what is remembered and told.
const (
	maxProblems     = 200 // problems at a time; those beyond are not told, and come when others have ended
	maxSummaryBytes = 500
)

// Rules say when something is told.
type Rules struct {
	Hold   time.Duration // a problem has lasted so long before it is told, and been gone so long before its end is
	Repeat time.Duration // while it lasts, it is told again so often; 0: it is not
}

// openProblem is a problem that is there, or was a moment ago.
type openProblem struct {
	Problem Problem   `json:"problem"`
	Since   time.Time `json:"since"`
	Seen    time.Time `json:"seen"`
	Told    time.Time `json:"told"` // zero: not yet
}

// state decides what is told. It is the whole of the state that a process
// needs to go on where another has stopped, and kept as JSON (Watcher).
//
// The invariants. A problem is told only after each look has seen it for Hold, and
// its end only after it has not been seen for Hold: what comes and goes in
// between is told neither time. Its end is told if and only if it was. What
// could not be looked at is neither there nor gone.
type state struct {
	Open     map[string]*openProblem `json:"standing"`
	Outboxes map[string]*outbox      `json:"outboxes"` // by channel
}

// outbox is what a channel has not delivered yet, by problem: a later notice
// of a problem takes the earlier one's place.
type outbox struct {
	Notices map[string]Notice `json:"notices"`
	Tries   int               `json:"tries"`
	Next    time.Time         `json:"next"` // not before
}

func newState() *state {
	return &state{Open: make(map[string]*openProblem), Outboxes: make(map[string]*outbox)}
}

// readState reads what a process has kept, this one or another. What lies in
// the future was written by a clock that was wrong, and counts as now: else
// nothing would be told, or be gone, until that time has come.
func readState(text []byte, now time.Time) (*state, error) {
	j := newState()
	if err := json.Unmarshal(text, j); err != nil {
		return nil, err
	}
	for _, s := range j.Open {
		s.Since, s.Seen, s.Told = earlier(s.Since, now), earlier(s.Seen, now), earlier(s.Told, now)
	}
	for _, o := range j.Outboxes {
		o.Next = earlier(o.Next, now.Add(retryLatest))
	}
	return j, nil
}

// takeOver takes in what was told before, by a state that was read when this one had
// begun already: it is older. Problems since when that state knew them are told no second
// time, and its notices are delivered, unless this one has told of the same. They are tried at
// once, as a start may have mended the channel; the pause behind another failure goes on.
func (j *state) takeOver(before *state) {
	for channel, o := range before.Outboxes {
		mine := j.Outboxes[channel]
		if mine == nil {
			mine = &outbox{Notices: make(map[string]Notice), Tries: o.Tries}
			j.Outboxes[channel] = mine
		}
		for name, n := range o.Notices {
			_, newer := mine.Notices[name]
			if s := j.Open[name]; !newer && (s == nil || s.Told.IsZero()) {
				mine.Notices[name] = n
			}
		}
	}
	for name, s := range before.Open {
		mine := j.Open[name]
		if mine == nil {
			j.Open[name] = s
			continue
		}
		mine.Since = s.Since
		if mine.Told.IsZero() {
			mine.Told = s.Told
		}
	}
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// look takes in what is wrong now, and puts what is to be told into the
// channels' outboxes. all: every process was asked; else nothing counts as gone.
func (j *state) look(now time.Time, problems []Problem, all bool, rules Rules, channels []Channel) {
	maps.DeleteFunc(j.Outboxes, func(name string, _ *outbox) bool { // of a channel that is set no more
		return !slices.ContainsFunc(channels, func(c Channel) bool { return c.Name() == name })
	})
	for _, p := range problems {
		s := j.Open[p.name()]
		if p.Unknown {
			if s != nil {
				s.Seen = now
			}
			continue
		}
		if s == nil {
			if len(j.Open) >= maxProblems {
				continue
			}
			s = &openProblem{Since: now}
			j.Open[p.name()] = s
		}
		p.Summary = oneLine(p.Summary)
		s.Problem, s.Seen = p, now
	}
	for name, s := range j.Open {
		switch gone := s.Seen.Before(now); {
		case gone && !all:
		case gone && s.Told.IsZero():
			delete(j.Open, name)
		case gone && now.Sub(s.Seen) >= rules.Hold:
			j.tell(name, s, Resolved, channels)
			delete(j.Open, name)
		case gone:
		case s.Told.IsZero() && now.Sub(s.Since) >= rules.Hold,
			!s.Told.IsZero() && rules.Repeat > 0 && now.Sub(s.Told) >= rules.Repeat:
			s.Told = now
			j.tell(name, s, Firing, channels)
		}
	}
}

func (j *state) tell(name string, s *openProblem, status string, channels []Channel) {
	n := Notice{Alert: s.Problem.Kind, Subject: s.Problem.Subject, Status: status, Since: s.Since.UTC(),
		Summary: s.Problem.Summary, Runbook: runbook(s.Problem.Kind)}
	if status == Resolved {
		until := s.Seen.UTC()
		n.Until = &until
	}
	for _, c := range channels {
		o := j.Outboxes[c.Name()]
		if o == nil {
			o = &outbox{Notices: make(map[string]Notice)}
			j.Outboxes[c.Name()] = o
		}
		if o.Notices == nil { // as JSON's null
			o.Notices = make(map[string]Notice)
		}
		o.Notices[name] = n
	}
}

// due returns what a channel has to deliver now, in order of the names.
func (j *state) due(channel string, now time.Time) []Notice {
	o := j.Outboxes[channel]
	if o == nil || now.Before(o.Next) {
		return nil
	}
	var notices []Notice
	for _, name := range slices.Sorted(maps.Keys(o.Notices)) {
		notices = append(notices, o.Notices[name])
	}
	return notices
}

// Pauses between tries to deliver.
const (
	retrySoonest = 15 * time.Second
	retryLatest  = 15 * time.Minute
)

// delivered empties an outbox, or, after a failure, sets when it is tried again.
func (j *state) delivered(channel string, now time.Time, err error) {
	o := j.Outboxes[channel]
	if err == nil {
		delete(j.Outboxes, channel)
		return
	}
	o.Next = now.Add(min(retrySoonest<<min(o.Tries, 10), retryLatest))
	o.Tries++
}

// oneLine makes a text safe for a line: names of lists and errors of servers
// come from elsewhere.
func oneLine(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
	if len(s) > maxSummaryBytes {
		s = strings.ToValidUTF8(s[:maxSummaryBytes], "") + "..."
	}
	return s
}
