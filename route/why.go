package route

import (
	"fmt"
	"log/slog"
	"time"

	"sluice"
)

// Down is why a route does not work.
type Down struct {
	Cause sluice.Cause // empty: it works
	Text  string       // what went wrong last, one line
	Since time.Time    // when it last worked or the cause was another
}

// String says so in a line; empty: it works.
func (d Down) String() string {
	if d.Cause == "" {
		return ""
	}
	return fmt.Sprintf("%s since %s: %s", d.Cause, d.Since.UTC().Format(time.RFC3339), d.Text)
}

// note notes what a result tells of a route: the first of a cause is logged, and
// that it works again. A direct route is many servers, of which some are always
// down: its breakers tell of them.
func (x *route) note(log *slog.Logger, r *sluice.Result, now time.Time) {
	before := x.why
	switch {
	case x.direct:
	case r.Blame == sluice.BlameRoute && r.Cause != "":
		x.why.Cause, x.why.Text = r.Cause, r.Text
		if before.Cause != r.Cause {
			x.why.Since = now
			log.Warn("a route does not work; its mail waits, or goes by others", "route", x.name, "cause", string(r.Cause), "error", r.Text, "remote", r.Remote)
		}
	case before.Cause != "" && r.Kind != sluice.ResultUntried && r.Kind != sluice.ResultInDoubt:
		x.why = Down{}
		log.Info("a route works again", "route", x.name, "cause", string(before.Cause), "after_seconds", now.Sub(before.Since).Seconds())
	}
}
