package route

import (
	"log/slog"
	"time"

	"sluice/lib/mime"
	"sluice/mail"
)

// senders is what a line knows of whose mail the other side takes.
//
// The idea. Many servers and providers refuse a sender that they do not know in the words
// by which they refuse all mail of ours: 403, or 550 5.7.1 at MAIL (Result.OfSender). One such sender must
// not stop a route for all mail. So the domain of the sender is remembered whose mail was
// taken last. While that is recent, what is refused to another domain says nothing of the
// route. What is refused to that domain, too, forgets it, and counts.
//
// What was dropped: a table of domains and their refusals, which would need a bound.
type senders struct {
	taken uint64    // the domain whose mail was taken last, by its hash; 0: none
	at    time.Time // when
	told  time.Time // when the log told last that a sender is refused
}

const (
	// senderFor is for how long mail that was taken says that a route works: so long
	// does a route that refuses all mail stay in use at most.
	senderFor = 10 * time.Minute

	// tellSender is how often the log tells that a sender is refused.
	tellSender = 10 * time.Minute
)

// spares reports whether a result says nothing of the route: a sender's mail is refused,
// and another's was taken.
func (m *senders) spares(s *mail.Send, r *mail.Result, now time.Time) bool {
	return m.taken != 0 && r.OfSender && now.Sub(m.at) < senderFor && m.taken != hashOfSender(s)
}

// note notes a result.
func (m *senders) note(s *mail.Send, r *mail.Result, now time.Time) {
	switch {
	case r.Kind == mail.ResultSent:
		m.taken, m.at = hashOfSender(s), now
	case r.OfSender && m.taken == hashOfSender(s):
		m.taken = 0
	}
}

// tell tells the log, once in a while, that a sender is refused.
func (m *senders) tell(log *slog.Logger, route string, r *mail.Result, now time.Time) {
	if now.Sub(m.told) < tellSender {
		return
	}
	m.told = now
	log.Warn("a route takes no mail of a sender: its other side may not know the sender; that mail waits, what it takes leaves",
		"route", route, "cause", string(r.Cause), "error", r.Text, "remote", r.Remote)
}

// hashOfSender is that of the domain in the sender's address; never 0.
func hashOfSender(s *mail.Send) uint64 { return hashText(fnvBasis, mime.DomainOf(s.From)) | 1 }
