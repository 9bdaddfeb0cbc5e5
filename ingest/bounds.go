package ingest

import (
	"fmt"
	"time"

	"sluice"
)

// TimeBounds says how far from now an event's or a count's time may be. The
// zero value lets every time pass. Beyond the bounds a clock is wrong, or a
// repeat comes after the row that it repeats was dropped with its day.
type TimeBounds struct {
	PastMillis   int64 // 0: any
	FutureMillis int64 // 0: any
}

// Check returns an error that says why a time is out of bounds. It compares
// with two clocks: this process's and the one that all share
// (sluice.SharedClock). now is the earlier of the two and later the later. So
// while one clock is wrong, an event that is in bounds by the other is
// accepted.
func (b TimeBounds) Check(millis, now, later int64) error {
	switch {
	case b.PastMillis > 0 && millis < now-b.PastMillis:
		return fmt.Errorf("time out of bounds: %s is more than %s back (setting event_time.past_days)", timeText(millis), boundText(b.PastMillis))
	case b.FutureMillis > 0 && millis > later+b.FutureMillis:
		return fmt.Errorf("time out of bounds: %s is more than %s ahead (setting event_time.future_minutes)", timeText(millis), boundText(b.FutureMillis))
	}
	return nil
}

// laterMillis is the later time of a clock, but not before now.
func laterMillis(c sluice.Clock, now int64) int64 { return max(now, sluice.Later(c).UnixMilli()) }

func timeText(millis int64) string { return time.UnixMilli(millis).UTC().Format(time.RFC3339) }

func boundText(millis int64) string {
	if day := (24 * time.Hour).Milliseconds(); millis%day == 0 {
		return fmt.Sprintf("%d days", millis/day)
	}
	return fmt.Sprintf("%d minutes", millis/time.Minute.Milliseconds())
}
