package flow

import (
	"testing"
	"testing/synctest"
	"time"

	"sluice"
	"sluice/test/clocktest"
)

// A clock goes by the earlier of both times, from the instant at which it is
// set wrong. It says how far it is from Redis's.
func TestClock(t *testing.T) {
	t.Parallel()
	const week = 7 * 24 * time.Hour
	for _, c := range []struct {
		name       string
		wrong      time.Duration // of the process's clock
		now, later time.Duration // from Redis's
		ahead      time.Duration
		apart      bool
	}{
		{name: "alike"},
		{name: "half a second ahead", wrong: time.Second / 2, now: time.Second / 2, later: time.Second / 2},
		{name: "a minute ahead", wrong: time.Minute, later: time.Minute, ahead: time.Minute},
		{name: "a week ahead", wrong: week, later: week, ahead: week, apart: true},
		{name: "a week behind", wrong: -week, now: -week, ahead: -week, apart: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				redis := time.Now().Round(0)
				own := clocktest.At(redis)
				clock := NewClock(own)
				if !clock.Now().Equal(redis) || clock.Ahead() != 0 || sluice.ClocksApart(clock) {
					t.Error("a clock that was never compared goes by another time than its own")
				}
				clock.Heard(redis, time.Now(), time.Now())
				own.Move(c.wrong) // while the process runs: nothing was heard since
				<-time.After(3 * time.Second)
				own.Move(3 * time.Second)
				redis = redis.Add(3 * time.Second)
				if now, later := clock.Now().Sub(redis), sluice.Later(clock).Sub(redis); now != c.now || later != c.later || clock.Ahead() != c.ahead || sluice.ClocksApart(clock) != c.apart {
					t.Errorf("now %v, later %v, ahead %v, apart %v", now, later, clock.Ahead(), sluice.ClocksApart(clock))
				}

				// What took long says nothing: the process may have stood still in it.
				clock.Heard(redis.Add(-time.Hour), time.Now().Add(-time.Hour), time.Now())
				if clock.Ahead() != c.ahead {
					t.Errorf("a call of an hour changes the difference to %v", clock.Ahead())
				}
				clock.Heard(redis, time.Now(), time.Now())
				if clock.Ahead() != c.ahead {
					t.Errorf("it is heard again: ahead %v", clock.Ahead())
				}
			})
		})
	}
}

func BenchmarkClock(b *testing.B) {
	clock := NewClock(sluice.SystemClock{})
	clock.Heard(time.Now(), time.Now(), time.Now())
	b.ReportAllocs()
	for b.Loop() {
		clock.Now()
	}
}
