package spool

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"sluice/mail"
)

// A mail may make this program panic, in its rendering, its signature or on its
// way. That must not end the process: the next process would take the mail up
// and end as well, and no other mail would leave. So a panic ends with the
// mail, which waits with the reason, and the process goes on.

// panicked is the panic of a mail, as an error.
type panicked struct {
	value any
	stack []byte
}

// Error implements error.
func (p *panicked) Error() string {
	return fmt.Sprintf("the program broke on this mail (panic: %v); its log has where", p.value)
}

// caught calls f and returns its panic, nil if there was none.
func caught(f func()) (p *panicked) {
	defer func() {
		if v := recover(); v != nil {
			p = &panicked{v, debug.Stack()}
		}
	}()
	f()
	return nil
}

// makeAll has the Maker make mails. If it panics, each is made by itself, of its
// content as it was, and parked if it panics again.
func (s *Sender) makeAll(ctx context.Context, mails []Mail, content func(i int) []byte) {
	if caught(func() { s.Maker.Make(ctx, mails) }) == nil {
		return
	}
	for i := range mails {
		m := &mails[i]
		*m = Mail{Send: m.Send, Content: content(i), Took: m.Took}
		if p := caught(func() { s.Maker.Make(ctx, mails[i:i+1]) }); p != nil {
			m.Err, m.Envelope = fmt.Errorf("%w: %w", ErrParked, p), mail.Envelope{}
			s.Log.Error("a mail could not be made: the program panicked on it, and parks it", "send", m.Send.ID(), "panic", p.value, "stack", string(p.stack))
		}
	}
}

// deliver has a transport attempt sends. If it panics, what it has not reported may
// have arrived: it is in doubt, with the reason. A mail that was in doubt goes alone,
// and is kept for an operator to decide if that happens again.
func (s *Sender) deliver(ctx context.Context, c *crew, ready []*item, envelopes []mail.Envelope) []mail.Result {
	results, times := make([]mail.Result, len(ready)), lap{began: time.Now()}
	done := func(i int, r mail.Result) {
		results[i] = r
		times.note(&r, time.Now())
		s.done(ctx, c.transport, ready[i], &r)
	}
	p := caught(func() { c.transport.Deliver(ctx, envelopes, done) })
	if p == nil {
		s.learn(c, len(ready), &times)
		return results
	}
	s.Log.Error("the program panicked while a window of mails was sent; mails without an answer are in doubt", "route", c.transport.Name(), "mails", len(ready),
		"first", ready[0].id(), "panic", p.value, "stack", string(p.stack))
	for i := range results {
		if results[i].Kind == 0 {
			done(i, mail.Result{Kind: mail.ResultInDoubt, Blame: mail.BlameMessage, Text: mail.ReplyText(p.Error())})
		}
	}
	return results
}
