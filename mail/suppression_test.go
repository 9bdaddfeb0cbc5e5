package mail

import (
	"strings"
	"testing"
)

func TestSuppressionChanges(t *testing.T) {
	at := func(millis int64, source string, removed bool) *Suppression {
		return &Suppression{Entry: "a.example", Reason: SuppressBadDomain, Source: source, TimeMillis: millis, Removed: removed}
	}
	ends := at(1, "cli", false)
	ends.EndMillis = 9
	said := func(s *Suppression) *Suppression { s.Said = true; return s }
	own := func(s *Suppression) *Suppression { s.Own = true; return s }
	const set, now = "set:bad", 1000
	const ahead = now + SuppressAheadMillis + 1
	for i, c := range []struct {
		stored, by *Suppression
		want       bool
	}{
		{at(9, "event", true), said(at(5, "cli", false)), true}, // what is said now is later than all that is stored
		{at(9, "event", false), said(at(5, "cli", true)), true},
		{at(9, "event", false), said(at(9, "cli", true)), true},
		{at(9, "event", false), said(at(5, "cli", false)), false}, // a repeat
		{at(9, "api", true), own(at(5, "event", false)), true},    // from a machine whose clock is ahead
		{at(6+SuppressAheadMillis, "api", true), own(at(5, "event", false)), false},
		{at(ahead, "event", true), at(now, "event", false), true}, // no time is still to come
		{at(ahead, "event", true), own(at(now, "event", false)), true},
		{at(ahead, "event", true), said(at(now, "cli", false)), true},
		{at(ahead, "event", false), said(at(now, "cli", true)), true},
		{at(ahead, "event", false), at(now, "event", true), false},
		{at(ahead-1, "event", true), at(now, "event", false), false}, // but clocks differ
		{nil, at(1, "cli", false), true},
		{nil, at(1, "cli", true), true}, // so that what is older comes too late
		{at(1, "cli", false), at(2, "api", false), true},
		{at(2, "cli", false), at(1, "api", false), false},
		{at(2, "cli", false), at(1, "api", true), false},
		{at(2, "cli", true), at(1, "api", false), false},
		{at(1, "cli", false), at(1, "api", false), false},
		{at(1, "cli", false), at(1, "api", true), false}, // at one moment what suppresses wins
		{at(1, "cli", true), at(1, "api", false), true},
		{at(1, "cli", false), ends, true},
		{at(1, "cli", false), at(2, set, false), false}, // a set takes nothing over
		{at(1, "cli", false), at(2, set, true), false},  // and removes only what is its own
		{at(1, set, false), at(2, set, true), true},
		{at(1, "cli", true), at(2, set, false), true},
		{at(1, "set:other", false), at(2, set, true), false},
		{at(1, set, false), at(2, "cli", false), true},
		{at(9, set, false), at(5, set, true), true}, // the follower's clock is behind that of the one before
		{at(9, set, true), at(9, set, false), true},
		{at(9, set, false), at(9, set, true), true},
		{at(9, "cli", true), at(5, set, false), true},
		{at(9, "cli", false), at(5, set, true), false},
		{at(9, "cli", false), at(5, set, false), false},
		{at(9, "set:other", false), at(5, set, true), false},
		{at(ahead, set, false), at(now, set, true), true},
		{at(ahead, "cli", false), at(now, set, true), false},
	} {
		c.by.Settle(c.stored, now)
		if got := c.by.Changes(c.stored, now); got != c.want {
			t.Errorf("case %d: %v, want %v", i, got, c.want)
		}
	}
	left := at(5, set, true) // by a clock that is behind: what happens then is later
	left.Settle(at(9, set, false), now)
	if bounced := at(7, "event", false); !bounced.Changes(left, now) {
		t.Errorf("a member has left at %d: what happens at 7 is taken for older", left.TimeMillis)
	}
}

func TestSuppressionCheck(t *testing.T) {
	good := Suppression{Entry: "a@example.com", Reason: SuppressHardBounce, TimeMillis: 1, EndMillis: 2}
	if err := good.Check(); err != nil {
		t.Error(err)
	}
	for what, change := range map[string]func(*Suppression){
		"entry": func(s *Suppression) { s.Entry = "" }, "app": func(s *Suppression) { s.App = strings.Repeat("a", 65) },
		"reason": func(s *Suppression) { s.Reason = 0 }, "scope": func(s *Suppression) { s.Scope = 7 },
		"time": func(s *Suppression) { s.TimeMillis = 0 }, "end": func(s *Suppression) { s.Reason = SuppressUnsubscribe },
	} {
		bad := good
		change(&bad)
		if err := bad.Check(); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for _, r := range SuppressReasons {
		if got, ok := ParseSuppressReason(r.String()); !ok || got != r {
			t.Errorf("reason %d is read as %d", r, got)
		}
	}
}
