package ingest

import (
	"slices"
	"strings"

	"sluice"
	"sluice/profile"
)

// hardBounces are the enhanced codes (RFC 3463, 3.2 and 3.3) by which an address
// is no more: no such mailbox, no such domain, bad syntax, moved without a trace,
// null MX (RFC 7505), disabled. Not 5.7.x, which is about us, not a full mailbox,
// not a message that was not liked; nor a refusal that gives no such code.
var hardBounces = []string{"5.1.1", "5.1.2", "5.1.3", "5.1.6", "5.1.10", "5.2.1"}

// suppress adds what a mail event says of whom to mail no more, or again, to the
// transaction that stores it. reply is what the other side said, if anything. Of
// two events the later one counts, whichever is stored first (Suppression).
//
// A complaint is about all mail: whoever judges ours by it does not tell classes
// apart. An unsubscribe is about marketing, of the app that the event names.
func (t *storing) suppress(e *sluice.Event, reply string) {
	s := sluice.Suppression{TimeMillis: e.TimeMillis, Source: "event"}
	switch e.Name {
	case sluice.EventComplained:
		s.Reason = sluice.SuppressComplaint
	case sluice.EventUnsubscribed:
		s.Reason, s.Scope, s.App = sluice.SuppressUnsubscribe, sluice.ScopeMarketing, e.App
	case sluice.EventSubscribed:
		s.Reason, s.Scope, s.App, s.Removed = sluice.SuppressUnsubscribe, sluice.ScopeMarketing, e.App, true
	case sluice.EventBounced:
		code, _, _ := strings.Cut(reply, " ")
		if !slices.Contains(hardBounces, code) {
			return
		}
		s.Reason = sluice.SuppressHardBounce
	default:
		return
	}
	var ok bool
	if s.Entry, ok = profile.NormalEmail(e.Email); !ok {
		return // nobody is named
	}
	if e.ID != "" {
		s.Source += ":" + e.ID
	}
	s.Entry, s.App, s.Source = strings.Clone(s.Entry), strings.Clone(s.App), strings.Clone(s.Source) // they may share the memory of a batch
	t.addSuppression(s)
	if s.Removed { // a bounce before somebody has asked for mail again says nothing about now
		s.Reason, s.Scope, s.App = sluice.SuppressHardBounce, sluice.ScopeAll, ""
		t.addSuppression(s)
	}
}

func (t *storing) addSuppression(s sluice.Suppression) {
	if s.Check() == nil { // its time may be one that cannot be stored here
		t.effect.Suppress = append(t.effect.Suppress, s)
	}
}
