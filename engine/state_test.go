package engine

import (
	"errors"
	"testing"
	"time"

	"sluice"
	"sluice/ingest"
)

// The first event behind a quiet hour does not wait for an hour.
func TestAQuietLogIsNotBehind(t *testing.T) {
	var s storedAll
	applied := time.Date(2026, 1, 31, 10, 0, 0, 0, time.UTC)
	look := func(behind bool, after, want time.Duration) {
		t.Helper()
		if got := s.look(3, applied, behind, applied.Add(after)); got != want {
			t.Errorf("after %s it is %s behind, want %s", after, got, want)
		}
	}
	look(true, time.Minute, time.Minute) // of a process that has just begun nothing newer is known
	look(false, time.Hour, 0)
	look(true, time.Hour+time.Second, time.Second) // an event has come in since the last look
	look(true, time.Hour+time.Minute, time.Minute) // and nobody stores it
	applied = applied.Add(time.Hour + 50*time.Second)
	look(true, 20*time.Second, 20*time.Second) // what was applied is newer than the look
}

// A lag that the server does not tell is not over, and does not grow, until something is
// applied.
func TestALagThatIsNotToldStays(t *testing.T) {
	var l lastLags
	key := ingest.LagKey{Follower: "list:a"}
	applied := ingest.Lag{Position: sluice.Position{Major: 1}, Seconds: 2}
	look := func(waited float64, known bool, want float64) {
		t.Helper()
		if got := l.look(key, applied, waited, known); got != want {
			t.Errorf("it is %g s behind, want %g", got, want)
		}
	}
	look(0, false, 2) // nothing was told yet
	look(400, true, 400)
	look(0, false, 400)
	applied = ingest.Lag{Position: sluice.Position{Major: 2}, Seconds: 3}
	look(0, false, 3)
	look(0, true, 3)
}

// What stands still for all partitions is one reason.
func TestAReasonIsSaidOnce(t *testing.T) {
	gap, lane := errors.New("compare the lanes"), errors.New("partition 7: no route")
	if got, want := oneLine(errors.Join(gap, lane, gap, gap)), "compare the lanes (3 times); partition 7: no route"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
