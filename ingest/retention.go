package ingest

import (
	"fmt"
	"time"

	"sluice"
)

const dayMillis = int64(24 * time.Hour / time.Millisecond)

// Retention says for how many days what is kept; 0: for ever.
type Retention struct {
	Events      map[sluice.EventKind]int // of all four kinds
	SeriesHours int
	SeriesDays  int
	DeadLetters int
	Sends       int
}

// EventKinds are the kinds of events.
var EventKinds = []sluice.EventKind{sluice.KindMail, sluice.KindCustom, sluice.KindPurchase, sluice.KindSystem}

// Cutoff returns the moment before which rows kept for so many days are
// deleted, or false if they are kept for ever. It is a midnight, UTC, so that
// days go as a whole. A row kept for 30 days is there for at least 30 days and
// at most 31.
func Cutoff(days int, now time.Time) (millis int64, ok bool) {
	if days <= 0 {
		return 0, false
	}
	ms := now.UnixMilli() - int64(days)*dayMillis
	return ms - ms%dayMillis, true
}

// CheckKept refuses an event that would be deleted again at once.
func (r Retention) CheckKept(e *sluice.Event, now time.Time) error {
	before, ok := Cutoff(r.Events[e.Kind], now)
	if !ok || e.TimeMillis >= before {
		return nil
	}
	return fmt.Errorf("time %s is past the retention of %s events, %d days: it would be deleted at once (setting retention.events.%s)",
		time.UnixMilli(e.TimeMillis).UTC().Format(time.RFC3339), e.Kind, r.Events[e.Kind], e.Kind)
}

// Longest returns before which moment no event is kept, whatever its kind.
func (r Retention) Longest(now time.Time) (millis int64, ok bool) {
	days := 0
	for _, kind := range EventKinds {
		if r.Events[kind] <= 0 {
			return 0, false
		}
		days = max(days, r.Events[kind])
	}
	return Cutoff(days, now)
}
