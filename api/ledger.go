package api

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"sluice/mail"
	"sluice/mail/spool"
	"sluice/user/profile"
)

// Paths of the ledger of sends.
const (
	ledgerPath     = "/v1/ledger"
	doubtsPath     = ledgerPath + "/doubts"
	doubtPath      = doubtsPath + "/{send}"
	ledgerPagePath = "/ledger"
)

// Bounds of looking at the ledger.
const (
	// ledgerKept is how long a look is shown: it may read a million rows.
	ledgerKept = 30 * time.Second

	// ledgerTimeout bounds a look.
	ledgerTimeout = 30 * time.Second

	defaultDoubts = 50
	maxDoubts     = 500

	// ledgerDays bounds the days that are shown.
	ledgerDays = 62

	maxDecisionBytes = 4 << 10
)

// Decider takes what somebody decides about a send in doubt. A spool.Decider is
// one.
type Decider interface {
	Decide(ctx context.Context, send string, what spool.Decision, by, note string) (row mail.SendRow, settled bool, err error)
}

// Ledger is the answer of GET /v1/ledger.
type Ledger struct {
	AddsUp      bool               `json:"adds_up"`
	OffBy       int64              `json:"off_by"`
	Compared    bool               `json:"compared"`
	Statement   string             `json:"statement"`
	Remedy      string             `json:"remedy,omitempty"`
	LookedAt    string             `json:"looked_at"`
	LastAddedUp string             `json:"last_added_up,omitempty"`
	Undecided   int64              `json:"undecided"`
	DeadLetters int64              `json:"dead_letters"`
	Classes     []LedgerLine       `json:"classes"`
	Differences []LedgerDifference `json:"differences"`
	Days        []LedgerLine       `json:"days"`
}

// LedgerLine is the sums of a class, of one day or of all.
type LedgerLine struct {
	Day        string `json:"day,omitempty"`
	Class      string `json:"class"`
	Accepted   int64  `json:"accepted"`
	Waiting    int64  `json:"waiting"`
	Sent       int64  `json:"sent"`
	Failed     int64  `json:"failed"`
	Suppressed int64  `json:"suppressed"`
	InDoubt    int64  `json:"in_doubt"`
	Cancelled  int64  `json:"cancelled"`
}

// LedgerDifference is a sum that is not that of its rows.
type LedgerDifference struct {
	Class  string `json:"class"`
	State  string `json:"state"`
	Totals int64  `json:"totals"`
	Rows   int64  `json:"rows"`
}

// sum is the sum of a state.
func (l *LedgerLine) sum(state mail.SendState) *int64 {
	switch state {
	case mail.SendWaiting:
		return &l.Waiting
	case mail.SendSent:
		return &l.Sent
	case mail.SendFailed:
		return &l.Failed
	case mail.SendSuppressed:
		return &l.Suppressed
	case mail.SendInDoubt:
		return &l.InDoubt
	case mail.SendCancelled:
		return &l.Cancelled
	}
	return new(int64) // there is no such state
}

// ledgerLooks keeps the last look at the ledger, and when it was last seen to add
// up.
type ledgerLooks struct {
	group singleflight.Group

	mu    sync.Mutex
	last  *Ledger
	at    time.Time
	first time.Time // look
	good  time.Time // the last look at which it added up
}

// lookAtLedger returns a look of at most ledgerKept ago. All who ask at a time
// wait for one.
func (s *Server) lookAtLedger(ctx context.Context, store mail.LedgerStore) (*Ledger, error) {
	looks := &s.ledgerLooks
	looks.mu.Lock()
	last, at := looks.last, looks.at
	looks.mu.Unlock()
	if now := s.clock.Now(); last != nil && now.Sub(at) < ledgerKept && !now.Before(at) {
		return last, nil
	}
	found, err, _ := looks.group.Do("", func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), ledgerTimeout)
		defer cancel()
		return s.readLedger(ctx, store)
	})
	if err != nil {
		return nil, err
	}
	return found.(*Ledger), nil
}

// readLedger looks.
func (s *Server) readLedger(ctx context.Context, store mail.LedgerStore) (*Ledger, error) {
	c, err := store.CheckLedger(ctx)
	if err != nil {
		return nil, err
	}
	now := s.clock.Now()
	l := &Ledger{OffBy: c.OffBy(), Compared: c.Complete, LookedAt: profile.TimeText(now.UnixMilli()),
		Classes: []LedgerLine{}, Differences: []LedgerDifference{}, Days: daysOf(&c)}
	if l.Undecided, err = store.OpenDoubts(ctx); err != nil {
		return nil, err
	}
	if l.DeadLetters, err = store.CountDeadLetters(ctx); err != nil {
		return nil, err
	}
	l.AddsUp = l.Compared && l.OffBy == 0
	for i := range c.Sums {
		sum := &c.Sums[i]
		line := lineOf(&l.Classes, "", sum.Class)
		*line.sum(sum.State) += sum.Total
		if c.Complete {
			line.Accepted += sum.Rows + sum.Removed
		} else {
			line.Accepted += sum.Total
		}
		if c.Off(sum) != 0 {
			l.Differences = append(l.Differences, LedgerDifference{sum.Class.String(), sum.State.String(), sum.Total - sum.Removed, sum.Rows})
		}
	}
	looks := &s.ledgerLooks
	looks.mu.Lock()
	defer looks.mu.Unlock()
	if looks.first.IsZero() {
		looks.first = now
	}
	if l.AddsUp {
		looks.good = now
	}
	l.say(looks.first, looks.good)
	looks.last, looks.at = l, now
	return l, nil
}

// lineOf returns the line of a day and a class, made if there is none.
func lineOf(lines *[]LedgerLine, day string, class mail.Class) *LedgerLine {
	i := slices.IndexFunc(*lines, func(l LedgerLine) bool { return l.Day == day && l.Class == class.String() })
	if i < 0 {
		i = len(*lines)
		*lines = append(*lines, LedgerLine{Day: day, Class: class.String()})
	}
	return &(*lines)[i]
}

// daysOf are the rows by day and class, newest first. Of the oldest day some may
// not have been counted, so it is left out then.
func daysOf(c *mail.LedgerCheck) []LedgerLine {
	days := []LedgerLine{}
	oldest, shown, last := int64(-1), 0, int64(-1)
	if !c.Complete && len(c.Days) > 0 {
		oldest = c.Days[len(c.Days)-1].Day
	}
	for i := range c.Days {
		d := &c.Days[i]
		if d.Day != last {
			last = d.Day
			shown++
		}
		if d.Day == oldest || shown > ledgerDays {
			break
		}
		line := lineOf(&days, time.Unix(d.Day*24*60*60, 0).UTC().Format(time.DateOnly), d.Class)
		line.Accepted += d.Rows
		*line.sum(d.State) += d.Rows
	}
	return days
}

// say puts what was found in words.
func (l *Ledger) say(first, good time.Time) {
	all := LedgerLine{}
	for i := range l.Classes {
		c := &l.Classes[i]
		all.Accepted += c.Accepted
		for _, state := range mail.SendStates {
			*all.sum(state) += *c.sum(state)
		}
	}
	var parts []string
	for _, state := range mail.SendStates {
		parts = append(parts, fmt.Sprintf("%d %s", *all.sum(state), strings.ReplaceAll(state.String(), "_", " ")))
	}
	sum := fmt.Sprintf("%d accepted, %s", all.Accepted, strings.Join(parts, " + "))
	if !good.IsZero() {
		l.LastAddedUp = profile.TimeText(good.UnixMilli())
	}
	switch {
	case l.OffBy != 0:
		since := "it has not since this process first looked, at " + profile.TimeText(first.UnixMilli())
		if !good.IsZero() {
			since = "it last did at " + l.LastAddedUp
		}
		l.Statement = fmt.Sprintf("The ledger does NOT add up: by %d, %s: %s", l.OffBy, since, sum)
		l.Remedy = "Somebody has changed rows by hand, or it is a fault of Sluice: tell us if nobody did. To make the totals those of the rows: " + mail.LedgerRemedy
	case !l.Compared:
		l.Statement = fmt.Sprintf("The ledger was NOT compared with its rows, for there are more than %d; whether it adds up is not known. Its totals: %s", mail.MaxCountedSends, sum)
	default:
		l.Statement = "The ledger adds up: " + sum
	}
}

// ledger is GET /v1/ledger.
func (q *request) ledger() (any, error) {
	return q.s.lookAtLedger(q.Context(), q.Ledger)
}
