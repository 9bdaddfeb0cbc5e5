package spool

import (
	"errors"
	"sync/atomic"
	"time"

	"sluice/mail"
)

// A transport may hold a marked mail for minutes before it writes its first octet. It
// connects and logs in, or waits for replies to the mails before it in its window.
// Meanwhile operators stop mail, and recipients unsubscribe. Another process may take this
// one for dead, and attempt the mail itself. So the transport asks again right before that
// octet, and before a content that has waited for replies (mail.Envelope.Go). The answer is
// from memory. A mail that is held back was not attempted: its mark is taken back, and it
// waits in its lane, where the rest is decided.

const (
	// answerWithin is how long a server may take for the last reply (RFC 5321, 4.5.3.2.6).
	// A mail that is begun so long before DoubtAfter is over is recorded by then, unless the
	// replies before the last one take minutes as well.
	answerWithin = 10 * time.Minute

	// beginWithin is how long after its mark a mail may be begun in any case, unless
	// DoubtAfter is shorter. A relay that takes longer to connect costs a second mark: its
	// connection stays, and takes the mail then.
	//
	// It holds for a process that is not cut off, too. One that begins a mail late may be
	// cut off behind that. The other process counts from the mark, and leaves it no time.
	beginWithin = 5 * time.Second
)

// Why a mail is held back.
var (
	errLate       = errors.New("not begun in time after it was marked")
	errStopped    = errors.New("stopped since it was marked")
	errStale      = errors.New("the suppression list is too old by now")
	errSuppressed = errors.New("suppressed since it was marked")
)

// beginUntil returns until when mails that are marked next may be begun.
func (s *Sender) beginUntil() (millis int64) {
	within := max(s.DoubtAfter-answerWithin, min(s.DoubtAfter, beginWithin))
	return s.Clock.Now().Add(within).UnixMilli()
}

// goes returns what a transport asks about a marked send: why it is not to be begun, or its
// content not to follow (mail.Envelope.Go). A mail that was begun in time is never too late
// for its content: a relay that takes seconds for each RCPT would never get any mail.
func (s *Sender) goes(t mail.Transport, send *mail.Send, untilMillis int64) func() error {
	var begun atomic.Bool
	return func() error {
		if !begun.Load() && s.Clock.Now().UnixMilli() >= untilMillis {
			return errLate
		}
		err := s.heldBack(t, send)
		if err == nil {
			begun.Store(true)
		}
		return err
	}
}

// heldBack returns why a marked send may not leave by a transport now; nil: it may. It
// may be called from several goroutines at once, and waits for nobody.
func (s *Sender) heldBack(t mail.Transport, send *mail.Send) error {
	switch {
	case s.Routes.Holds(t, send):
		return errStopped
	case !s.Suppress.Fresh(send.Class):
		return errStale
	}
	if _, suppressed := s.Suppress.Check(send.To, send.Class, send.App); suppressed {
		return errSuppressed
	}
	return nil
}
