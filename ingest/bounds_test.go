package ingest

import (
	"testing"
	"time"

	"sluice/flow"
	"sluice/test/clocktest"
)

// A process whose clock is a week wrong accepts every event of now: a client
// would drop a rejected one. With two clocks apart nobody knows which is wrong.
func TestAWrongClockRefusesNoEventOfNow(t *testing.T) {
	t.Parallel()
	const week = 7 * 24 * time.Hour
	now := time.Now().Round(0)
	bounds := TimeBounds{PastMillis: (24 * time.Hour).Milliseconds(), FutureMillis: time.Hour.Milliseconds()}
	for _, c := range []struct {
		wrong, at time.Duration // of the clock, of the event
		in        bool
	}{
		{0, 0, true}, {0, 2 * time.Hour, false}, {0, -2 * 24 * time.Hour, false},
		{-week, 0, true}, {-week, -week, true}, {-week, 2 * time.Hour, false}, {-week, -week - 2*24*time.Hour, false},
		{week, 0, true}, {week, week, true}, {week, -2 * 24 * time.Hour, false},
	} {
		clock := flow.NewClock(clocktest.At(now.Add(c.wrong)))
		clock.Heard(now, time.Now(), time.Now())
		early := clock.Now().UnixMilli()
		if err := bounds.Check(now.Add(c.at).UnixMilli(), early, laterMillis(clock, early)); (err == nil) != c.in {
			t.Errorf("the clock is %s ahead, the event is of %s from now: %v; want it taken: %t", c.wrong, c.at, err, c.in)
		}
	}
}
