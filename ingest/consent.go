package ingest

import (
	"strings"
	"unicode/utf8"

	"sluice"
	"sluice/mail"
	"sluice/user"
	"sluice/user/users"
)

// consent has what a report says about mail reach the profiles of all who have the
// address. s is the suppression that it makes or removes, with its time: so profile and
// list judge one report by one rule. Our own pages bring updates of their own.
//
// What is about one app changes no profile, as email_subscribe is about the mail of all.
// Who is not trusted with consent has no user made who remembers what was said of an
// address that nobody has.
func (t *storing) consent(e *sluice.Event, s *mail.Suppression, place sluice.Place) {
	own := e.Origin == sluice.OriginOwn || e.Origin == sluice.OriginOwnRepeat
	said := s.Reason == mail.SuppressComplaint || s.Reason == mail.SuppressUnsubscribe
	if own || !said || s.App != "" || s.Check() != nil || !utf8.ValidString(s.Entry) {
		return
	}
	up := users.Update{Place: place, Update: user.Update{
		Op: user.OpSubscribe, Key: user.Key{Kind: user.KeyEmail, Name: s.Entry}, ExistingOnly: e.Origin == sluice.OriginOther,
		TimeMillis: s.TimeMillis, Name: user.Reported, Body: "unsubscribed",
	}}
	if s.Removed {
		up.Body = "subscribed"
	}
	t.updates = append(t.updates, up)
	t.keys[up.Key] = struct{}{}
	t.counted++
}

// timeOfConsent gives what somebody says to us about mail the moment of its acceptance,
// by the clock of Redis, as suppress does. The name tells where it is forwarded to that
// it has its time.
func timeOfConsent(u *user.Update, accepted sluice.Position) {
	if u.Name == "" && (u.Op == user.OpSubscribe || u.Op == user.OpAttributes && strings.Contains(u.Body, `"email_subscribe"`)) {
		u.Name, u.TimeMillis = user.Said, acceptedMillis(accepted)
	}
}
