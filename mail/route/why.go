package route

import (
	"fmt"
	"log/slog"
	"math/bits"
	"time"

	"sluice/lib/mime"
	"sluice/mail"
)

// Down is why a route does not work.
type Down struct {
	Cause mail.Cause // empty: it works
	Text  string     // what went wrong last, one line
	Since time.Time  // when it first failed for this cause
}

// String says so in a line; empty: it works.
func (d Down) String() string {
	if d.Cause == "" {
		return ""
	}
	return fmt.Sprintf("%s since %s: %s", d.Cause, d.Since.UTC().Format(time.RFC3339), d.Text)
}

// note notes what a result tells of a line: the first of a cause is logged, and
// that it works again. A direct route is many servers, of which some are always
// down: it has a line for each domain.
func (x *route) note(log *slog.Logger, l *line, d *domain, r *mail.Result, now time.Time) {
	before := l.why
	switch {
	case r.Blame == mail.BlameRoute && r.Cause != "":
		l.why.Cause, l.why.Text = r.Cause, r.Text
		if before.Cause != r.Cause {
			l.why.Since = now
			log.Warn("a route does not work; its mail waits, or goes by others", "route", x.named(d), "cause", string(r.Cause), "error", r.Text, "remote", r.Remote)
		}
	case before.Cause != "" && r.Kind != mail.ResultUntried && r.Kind != mail.ResultInDoubt:
		l.why = Down{}
		log.Info("a route works again", "route", x.named(d), "cause", string(before.Cause), "after_seconds", now.Sub(before.Since).Seconds())
	}
}

// named names a route in the log, and of a direct one the domain as well.
func (x *route) named(d *domain) string {
	if x.direct {
		return x.name + " to " + d.name
	}
	return x.name
}

// addDirect adds a domain to which a direct route does not work: the one for
// which that is so the longest stands for all.
func (s *Snapshot) addDirect(name string, why Down) {
	s.Failing++
	if s.Why.Cause == "" || why.Since.Before(s.Why.Since) || why.Since.Equal(s.Why.Since) && name < s.longest {
		s.Why, s.longest = why, name
	}
}

// Why returns why the routes that would take a mail do not work: all that may, or the one
// that it asks for. They are in the order of the settings, as far as this process has tried
// them.
func (r *Router) Why(to string, class mail.Class, asked string) (all []NamedDown) {
	now := r.clock.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	d := r.domain(mime.DomainOf(to), now)
	if r.mode == Off || r.intoSink(to, d) {
		return nil
	}
	for set := r.candidates(d, class, asked); set != 0; set &= set - 1 {
		x := r.routes[bits.TrailingZeros64(set)]
		if l := x.told(d); l.why.Cause != "" {
			all = append(all, NamedDown{x.name, l.why})
		}
	}
	return all
}

// NamedDown is a route that does not work.
type NamedDown struct {
	Route string
	Down
}

// String says so in a line.
func (d NamedDown) String() string { return d.Route + " " + d.Down.String() }
