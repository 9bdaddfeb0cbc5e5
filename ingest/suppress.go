package ingest

import (
	"strings"

	"sluice"
	"sluice/lib/jsonscan"
	"sluice/mail"
	"sluice/user/profile"
)

// suppress adds a suppression that a mail event asks for, or its removal, to
// the transaction that stores the event. bounce is what `bounced`, or `failed`,
// says of the address. Of two events the later one counts, whichever is stored
// first (Suppression).
//
// Times are claimed by producers, so none counts as later than when its event
// was accepted, by the clock of Redis. Otherwise a producer whose clock is
// ahead would make void what people say after it. What a person says on our own
// pages counts from when it was accepted. Of what others report, an opt-in
// counts OptOutWindowMillis before its time. So an opt-out within that window
// wins, whichever is stored first.
//
// An opt-in changes what a person gets against that person's word. A complaint
// about all mail can cut a person off from mail that was asked for. So both
// count only from an origin that is trusted with consent (Origin). From any
// other, a complaint stops marketing mail only, and an opt-in is stored and
// changes nothing.
//
// Soft bounces are mails that were given up, by a refusal or by their time. A
// further attempt of a deferred mail that may yet arrive is none: otherwise a
// receiver that greylists would be suppressed.
//
// A complaint that may be of one of several recipients is held against none of them.
// SES names all of a mail to a domain, as receivers hide which one it was.
//
// A complaint is about all mail: a receiver that judges our mail by it does not
// tell classes apart. An unsubscribe is about marketing, of the app that the
// event names.
func (t *storing) suppress(e *sluice.Event, bounce verdict, place sluice.Place) {
	accepted := acceptedMillis(place.Position)
	at := min(e.TimeMillis, accepted)
	own := e.Origin == sluice.OriginOwn || e.Origin == sluice.OriginOwnRepeat
	if own {
		at = accepted
	}
	s := mail.Suppression{TimeMillis: at, Source: "event"}
	switch e.Name {
	case sluice.EventComplained:
		if oneOfSeveral(e) {
			return
		}
		if s.Reason = mail.SuppressComplaint; e.Origin == sluice.OriginOther {
			s.Scope = mail.ScopeMarketing
		}
	case sluice.EventUnsubscribed:
		s.Reason, s.Scope, s.App, s.Own = mail.SuppressUnsubscribe, mail.ScopeMarketing, e.App, own
	case sluice.EventSubscribed:
		if e.Origin == sluice.OriginOther {
			return
		}
		if s.Reason, s.Scope, s.App, s.Removed = mail.SuppressUnsubscribe, mail.ScopeMarketing, e.App, true; !own {
			s.TimeMillis -= mail.OptOutWindowMillis
		}
	case sluice.EventBounced, sluice.EventFailed:
		switch bounce {
		case hard:
			s.Reason = mail.SuppressHardBounce
		case soft:
			s.Reason = mail.SuppressSoftBounces
		default:
			return
		}
	default:
		return
	}
	var ok bool
	if s.Entry, ok = profile.NormalAddress(e.Email); !ok {
		return // nobody is named
	}
	if e.ID != "" {
		s.Source += ":" + e.ID
	}
	s.Entry, s.App, s.Source = strings.Clone(s.Entry), strings.Clone(s.App), strings.Clone(s.Source) // they may share the memory of a batch
	t.addSuppression(s)
	t.consent(e, &s, place)
	if s.Removed { // bounces before somebody has asked for mail again say nothing about now
		s.Scope, s.App, s.TimeMillis = mail.ScopeAll, "", at
		for _, s.Reason = range []mail.SuppressReason{mail.SuppressHardBounce, mail.SuppressSoftBounces} {
			t.addSuppression(s)
		}
	}
}

// acceptedMillis is when an entry of a log was accepted, by the clock of Redis.
func acceptedMillis(entry sluice.Position) int64 {
	return int64(min(entry.Major, sluice.MaxEventTimeMillis))
}

// oneOfSeveral reports whether a complaint is of one of several people, nobody knows which
// (package track/hook, AppendElement).
func oneOfSeveral(e *sluice.Event) bool {
	if !strings.Contains(e.Properties, `"one_of"`) {
		return false
	}
	for m := jsonscan.Read(e.Properties); m.Next(); {
		if m.Key == "one_of" && m.Value.Kind == jsonscan.Number {
			return m.Value.Raw != "1"
		}
	}
	return false
}

// addReported adds what a mail event says that was reported to us: by a list, by
// /v1/events, by a webhook, by our pages.
func (t *storing) addReported(e *sluice.Event, place sluice.Place) {
	f, bounce := bounceFacts{address: e.Email}, silent
	if e.Name == sluice.EventBounced || e.Name == sluice.EventFailed {
		bounce = f.of(e)
	}
	t.suppress(e, bounce, place)
	if r, ok := reactionOf(e, &f, place); ok {
		t.effect.Reactions = append(t.effect.Reactions, r)
	}
	if !f.returned(e) && e.Name != sluice.EventComplained || t.s.Reported == nil || len(t.reported) == maxReported {
		return
	}
	var named mail.Reaction
	if readNamed(e, &named) {
		key := named.SendKey
		key.Message = strings.Clone(key.Message) // it may share the memory of a batch
		r := mail.Report{SendKey: key, Complaint: e.Name == sluice.EventComplained, TimeMillis: e.TimeMillis}
		if !r.Complaint {
			r.Class = f.class()
		}
		t.reported = append(t.reported, r)
	}
}

// maxReported bounds the reports of a transaction that are told (StoreFollower.Reported).
const maxReported = 10_000

func (t *storing) addSuppression(s mail.Suppression) {
	switch {
	case s.Check() != nil: // its time may be one that cannot be stored here
	case s.Reason == mail.SuppressSoftBounces && !s.Removed:
		t.effect.SoftBounces = append(t.effect.SoftBounces, mail.SoftBounce{Entry: s.Entry, Source: s.Source, TimeMillis: s.TimeMillis})
	default:
		t.effect.Suppress = append(t.effect.Suppress, s)
	}
}
