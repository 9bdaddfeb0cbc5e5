package smtp

import (
	"context"
	"fmt"
	"strings"
	"time"

	"sluice"
	"sluice/mail"
)

// window is one call of Deliver.
type window struct {
	clock     sluice.Clock
	envelopes []mail.Envelope
	done      func(i int, r mail.Result)
	mails     []flying
	first     int // not settled before, and on this session: first to last
	last      int
	began     time.Time

	connect, secure time.Duration // what it took to have the session
}

// mail is where one message of a window stands.
type flying struct {
	settled bool
	end     int64 // how many octets the session has written with its last one; 0: it is not in the outlet
	said    bool  // the verdict is known, though more replies will come
	verdict mail.Result
	rcptOK  bool
}

func newWindow(clock sluice.Clock, envelopes []mail.Envelope, done func(int, mail.Result)) *window {
	return &window{clock: clock, envelopes: envelopes, done: done, mails: make([]flying, len(envelopes)), began: clock.Now()}
}

// settle reports a message's result, once.
func (w *window) settle(i int, r mail.Result) {
	m := &w.mails[i]
	if m.settled {
		return
	}
	m.settled = true
	r.Took[mail.StageConnect], r.Took[mail.StageTLS] = w.connect, w.secure
	if r.Kind != mail.ResultUntried {
		r.Took[mail.StageWait] = max(0, w.clock.Now().Sub(w.began))
	}
	w.done(i, r)
}

// abandon settles all that are not.
func (w *window) abandon(r mail.Result) {
	for i := range w.mails {
		w.settle(i, r)
	}
}

// deliver carries the messages w.first to w.last. Afterwards all of them are
// settled, if the session is broken or not.
func (s *session) deliver(ctx context.Context, w *window) {
	w.began = w.clock.Now()
	s.carried += w.last - w.first
	stop := context.AfterFunc(ctx, func() { s.halt(ctx.Err(), 0) })
	switch {
	case s.unasked():
	case s.offers.pipelining && s.offers.chunking && !s.relay.noChunk.Load():
		s.chunks(w)
	case s.offers.pipelining:
		s.flights(w)
	default:
		s.lockstep(w)
	}
	stop()
	for i := w.first; i < w.last; i++ {
		if m := &w.mails[i]; !m.settled {
			w.settle(i, s.unanswered(m))
		}
	}
}

// unanswered says what is known of a message whose last reply has not come. It
// is called when nobody writes any more.
func (s *session) unanswered(m *flying) mail.Result {
	r := s.untried()
	switch {
	case m.said:
		return m.verdict
	case m.end == 0 || s.out.handed.Load() < m.end:
	case s.over: // 421, and then it closed: it has told us that it goes no further
	default:
		r.Kind, r.Closed = mail.ResultInDoubt, false
	}
	return r
}

// sent is a message that the writer has put into the outlet, or has not: then
// refused says why.
type sent struct {
	i       int
	reset   bool // RSET goes before it
	refused *mail.Result
}

// chunks carries messages without waiting for anything: MAIL, RCPT and BDAT of
// one after the other, as they come (RFC 2920, RFC 3030).
//
// A second goroutine writes while this one reads. A server may stop reading
// until its replies are read. So a client that writes a whole window first
// waits for a server that waits for the client, however large the buffers
// between them are. The writer tells of each message before it writes it; there
// is room in the channel for all, so it never waits for the reader. Each
// message has three replies, whatever they say, or four with RSET; they come in
// order, and are counted. Dropped: one goroutine that writes without blocking
// and reads in between, which needs the raw socket and cannot have TLS.
//
// A refusal. With the window under way nobody can take back what follows a
// refused MAIL or RCPT. The server discards the chunk and refuses it too (RFC
// 3030, 2), and that reply is read like the others. Whether the refused
// transaction still lies open then, so that the next MAIL is refused for it, is
// not said everywhere alike. So RSET goes before the next message that is not
// yet written; what is in flight already relies on LAST ending it. A server
// where it does not, and which therefore answers a MAIL with 503, gets RSET
// before every message from then on (relay.resets). The messages are deferred.
// A chunk that is answered as an unknown command, or as one that is wrong, was
// read as commands. That session is over, and the relay gets no chunks any more
// (relay.noChunk).
func (s *session) chunks(w *window) {
	written := make(chan sent, w.last-w.first)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer close(written)
		defer s.writerBroke()
		s.writeChunks(w, written)
	}()
	for next := range written {
		if next.refused != nil {
			w.settle(next.i, *next.refused)
			continue
		}
		if !s.readChunk(w, next) {
			break
		}
	}
	<-ended
}

// writerBroke ends the session if its writer has panicked: that would end the
// program. What was handed over and is not answered is in doubt then.
func (s *session) writerBroke() {
	if p := recover(); p != nil {
		s.halt(fmt.Errorf("write to %s: panic: %v", s.remote, p), 0)
	}
}

// writeChunks is the writer of chunks.
func (s *session) writeChunks(w *window, written chan<- sent) {
	always := s.relay.resets.Load()
	for i := w.first; i < w.last; i++ {
		e := &w.envelopes[i]
		p, refused := s.begin(e)
		if refused != nil {
			written <- sent{i: i, refused: refused}
			continue
		}
		next := sent{i: i, reset: s.reset.Swap(false) || always}
		if next.reset {
			s.out.say("RSET\r\n")
		}
		s.addMail(e, p)
		s.addRcpt(e)
		s.addBdat(e)
		w.mails[i].end = s.out.added + int64(len(e.Content))
		written <- next
		s.out.put(e.Content)
		if s.out.failed != nil {
			break
		}
	}
	if err := s.out.flush(); err != nil {
		s.halt(fmt.Errorf("write to %s: %w", s.remote, err), s.relay.opt.Timeouts.Closing)
	}
}

// readChunk reads the replies of one message. False: there will be no more.
func (s *session) readChunk(w *window, next sent) bool {
	t := &s.relay.opt.Timeouts
	s.need = w.mails[next.i].end
	if next.reset && !s.swallow() {
		return false
	}
	for _, at := range [...]step{stepMail, stepRcpt, stepEnd} {
		wait := t.Command
		if at == stepEnd {
			wait = t.End
		}
		r, err := s.reply(wait)
		if err != nil || at == stepEnd && s.refusesChunks(w, next.i, r) {
			return false
		}
		// What is being handed over may have been taken; what was not begun, not.
		if at == stepEnd && r.positive() && s.out.begun.Load() < w.mails[next.i].end {
			return s.takesNothing()
		}
		if !s.answered(w, next.i, at, r) {
			return false
		}
	}
	return true
}

// refusesChunks reports whether a server that offers CHUNKING shows that it has
// none. It does not know BDAT, or does not like how or when it is said,
// although it has taken the recipient. Nothing is wrong with the mail then.
func (s *session) refusesChunks(w *window, i int, r reply) bool {
	m := &w.mails[i]
	enhanced, _ := cutEnhanced(r.code, r.text)
	command := enhanced == "" || strings.HasPrefix(enhanced, "5.5.")
	odd := command && m.rcptOK && !m.said && (r.code == 501 || r.code == 503 || r.code == 504)
	if !odd && !unknownCommand(r.code, enhanced) {
		return false
	}
	if !m.said {
		m.said, m.verdict = true, s.refused(stepEnd, r)
		m.verdict.Kind, m.verdict.Blame = mail.ResultDeferred, mail.BlameNobody
	}
	w.settle(i, m.verdict)
	s.relay.noChunk.Store(true)
	s.halt(fmt.Errorf("%s offers CHUNKING and does not know BDAT", s.remote), 0)
	return true
}

// swallow reads a reply that decides nothing: that of RSET.
func (s *session) swallow() bool {
	_, err := s.reply(s.relay.opt.Timeouts.Command)
	return err == nil
}

// answered takes one of a message's replies, and settles it if it is the one
// that counts. False: replies and commands do not fit, and the session is over.
//
// What the server says of the content is its word, with one exception. A
// content without recipients is nobody's: a recipient refused at RCPT stays
// refused. A MAIL that was refused, behind which RCPT and the content were
// taken, was taken.
func (s *session) answered(w *window, i int, at step, r reply) bool {
	m := &w.mails[i]
	if (r.code/100 == 3) != (at == stepData && r.code < 400) {
		s.halt(fmt.Errorf("%w: %s answers %s with %d", errDesync, s.remote, at, r.code), 0)
		return false
	}
	if r.code < 400 {
		m.rcptOK = m.rcptOK || at == stepRcpt
		if at == stepEnd {
			w.settle(i, s.taken(r)) // unless it is settled
		}
		return true
	}
	if at != stepMail || r.code == 503 {
		s.reset.Store(true) // the refused transaction may still lie open
	}
	if at == stepMail && r.code == 503 {
		s.relay.resets.Store(true)
	}
	if !m.said {
		m.said, m.verdict = true, s.refused(at, r)
	}
	if at != stepMail && (at != stepRcpt || !m.rcptOK) {
		w.settle(i, m.verdict)
	}
	return true
}
