package smtp

import "fmt"

// flights carries messages by DATA to a server that offers PIPELINING. DATA has
// to be the last command of a group, but a content may be the first thing of
// the next one (RFC 2920, 3.1). So the content of a message and MAIL, RCPT,
// DATA of the next go out together, and each message waits once. One goroutine
// is enough. While it is written to, a server has to say the reply to the
// content and to the three or four commands behind it. Those fit into any
// buffer.
func (s *session) flights(w *window) {
	open := -1 // whose DATA was answered with 354
	for i := w.first; i <= w.last; i++ {
		if s.unasked() || open >= 0 && s.withholds(w, open) {
			return
		}
		var p plan
		if i < w.last {
			how, refused := s.begin(&w.envelopes[i])
			if refused != nil {
				w.settle(i, *refused)
				continue
			}
			p = how
		}
		if open >= 0 {
			s.addContent(w, open)
		}
		reset := false
		if i < w.last {
			if reset = s.reset.Swap(false) || s.relay.resets.Load(); reset {
				s.out.say("RSET\r\n")
			}
			s.addMail(&w.envelopes[i], p)
			s.addRcpt(&w.envelopes[i])
			s.out.say("DATA\r\n")
		}
		s.push()
		if open >= 0 && !s.readEnd(w, open) {
			return
		}
		open = -1
		if i == w.last {
			return
		}
		if reset && !s.swallow() {
			return
		}
		more, ok := s.readStart(w, i)
		if !ok {
			return
		}
		if more {
			open = i
		}
	}
}

// withholds asks the sender again right before a content: the replies before it may have
// taken minutes. Only the end of the connection takes DATA back, so the session is over.
func (s *session) withholds(w *window, i int) bool {
	if w.mails[i].said {
		return false
	}
	r, held := w.envelopes[i].Held()
	if held {
		r.Connected = true
		w.settle(i, r)
		s.halt(withheld{r.Held}, 0)
	}
	return held
}

// withheld is why a session ends whose mail was held back between DATA and its content.
type withheld struct{ why error }

func (w withheld) Error() string {
	return "the connection was closed, since a mail before it was held back: " + w.why.Error()
}

// addContent adds the content of a message. It adds a dot alone if the server
// asks for content although it has refused the recipient (RFC 2920, 3.1).
func (s *session) addContent(w *window, i int) {
	m := &w.mails[i]
	if m.said {
		s.addDotted(nil)
		return
	}
	s.addDotted(w.envelopes[i].Content)
	m.end = s.out.added
}

// push hands over what is waiting. If that fails, what the server has said
// before it stopped taking can still be read.
func (s *session) push() bool {
	err := s.out.flush()
	if err != nil {
		s.halt(fmt.Errorf("write to %s: %w", s.remote, err), s.relay.opt.Timeouts.Closing)
	}
	s.need = s.out.added
	return err == nil
}

// readStart reads the replies to MAIL, RCPT and DATA. more: it waits for the
// content, or a dot.
func (s *session) readStart(w *window, i int) (more, ok bool) {
	t := &s.relay.opt.Timeouts
	for _, at := range [...]step{stepMail, stepRcpt, stepData} {
		wait := t.Command
		if at == stepData {
			wait = t.Data
		}
		r, err := s.reply(wait)
		if err != nil || !s.answered(w, i, at, r) {
			return false, false
		}
		more = r.code < 400
	}
	if m := &w.mails[i]; m.said {
		w.settle(i, m.verdict) // whatever a dot alone is answered
	}
	return more, true
}

// readEnd reads the reply to the content.
func (s *session) readEnd(w *window, i int) bool {
	r, err := s.reply(s.relay.opt.Timeouts.End)
	if err != nil {
		return false
	}
	if r.positive() && s.out.handed.Load() < w.mails[i].end {
		return s.takesNothing()
	}
	return s.answered(w, i, stepEnd, r)
}

// takesNothing ends a session whose server has taken a content before it had it.
func (s *session) takesNothing() bool {
	s.halt(fmt.Errorf("%w: %s takes a content that it does not have", errDesync, s.remote), 0)
	return false
}

// lockstep carries messages to a server that wants to be asked one thing at a
// time. There is no RSET after a success: the end of the content ends the
// transaction (RFC 5321, 4.1.1.4).
func (s *session) lockstep(w *window) {
	for i := w.first; i < w.last; i++ {
		if !s.step(w, i) || s.broken() {
			return
		}
	}
}

// step carries one message. False: the session is over.
func (s *session) step(w *window, i int) bool {
	t := &s.relay.opt.Timeouts
	if s.reset.Swap(false) || s.relay.resets.Load() {
		if _, err := s.ask(t.Command, "RSET"); err != nil {
			return false
		}
	}
	p, refused := s.begin(&w.envelopes[i])
	if refused != nil {
		w.settle(i, *refused)
		return true
	}
	for _, at := range [...]step{stepMail, stepRcpt, stepData} {
		if s.unasked() {
			return false
		}
		wait := t.Command
		switch at {
		case stepMail:
			s.addMail(&w.envelopes[i], p)
		case stepRcpt:
			s.addRcpt(&w.envelopes[i])
		case stepData:
			wait = t.Data
			s.out.say("DATA\r\n")
		}
		s.push()
		r, err := s.reply(wait)
		if err != nil || !s.answered(w, i, at, r) {
			return false
		}
		if m := &w.mails[i]; m.said {
			w.settle(i, m.verdict)
			return true
		}
	}
	if s.withholds(w, i) {
		return false
	}
	s.addContent(w, i)
	s.push()
	return s.readEnd(w, i)
}
