package engine

import (
	"strings"
	"testing"
	"time"

	"sluice/flow"
	"sluice/test/clocktest"
)

// A process says that its clock is wrong only if mail stands still for it.
func TestClockApart(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		ahead time.Duration
		want  string
	}{
		{0, ""},
		{4 * time.Minute, ""},
		{7 * 24 * time.Hour, "clock: this process is 168h0m"},
		{-time.Hour, "behind Redis, more than 5m0s: it releases no mail"},
	} {
		now := time.Now().Round(0)
		e := &core{clock: flow.NewClock(clocktest.At(now.Add(c.ahead)))}
		e.clock.Heard(now, time.Now(), time.Now())
		err := e.clockApart()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v ahead: %v, want %q", c.ahead, err, c.want)
		}
	}
}
