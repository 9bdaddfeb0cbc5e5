package ingest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"sluice"
)

// fullLanes is a Queue whose lanes cannot note that they are to be compared.
type fullLanes struct {
	queued
	tried chan time.Time
}

func (q *fullLanes) GoneBack(context.Context, int) error {
	q.tried <- time.Now()
	return errors.New("it takes nothing in")
}

// TestAnAcceptedGapThatCannotBePassedIsTriedNowAndThen: each try ends the session of all
// partitions, so it is made again after a pause, as an acceptance is asked for.
func TestAnAcceptedGapThatCannotBePassedIsTriedNowAndThen(t *testing.T) {
	b := newBed(t, "sqlite")
	q := &fullLanes{queued: queued{at: make(map[int]sluice.Position)}, tried: make(chan time.Time, 1)}
	e := newEngine(b, setup{acceptGaps: true, queue: q})
	at := e.write(1, "test", named("1"), named("2"), named("3"))
	b.do("XTRIM", b.logKey(1), "MINID", at[2].String())
	e.run()
	first, next := <-q.tried, <-q.tried
	if pause := next.Sub(first); pause < time.Second {
		t.Errorf("it was tried again after %s", pause)
	}
	go func() { // until the test has ended
		for range q.tried {
		}
	}()
	e.write(0, "test", named("4"))
	b.awaitSum("events", 1)
	e.stop()
	close(q.tried)
}
