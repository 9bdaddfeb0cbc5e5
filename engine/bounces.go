package engine

import (
	"context"

	"sluice/api"
	"sluice/config"
	"sluice/mail"
	"sluice/mail/smtpd"
	"sluice/mail/via/smtp"
	"sluice/track/inbox"
	"sluice/track/verp"
)

// openReturnPaths prepares the keys of return paths, if a route has any.
func (e *core) openReturnPaths(ctx context.Context) error {
	if len(e.config.BounceDomains()) == 0 {
		return nil
	}
	tokens, err := e.tokenKeys(ctx)
	if err == nil {
		e.returnPaths, err = verp.New(tokens)
	}
	return err
}

// returnTo has the mail of a route come back to return paths. Other routes than those
// by SMTP have none (config.Route).
func (e *core) returnTo(r *config.Route, t mail.Transport) {
	relay, ok := t.(*smtp.Relay)
	if r.BounceDomain == "" || !ok {
		return
	}
	domain := "@" + r.BounceDomain
	relay.ReturnTo(func(envelope *mail.Envelope) string {
		message, number, ok := mail.ParseSendID(envelope.Send)
		if !ok {
			return ""
		}
		local, err := e.returnPaths.Local(verp.Send{Partition: envelope.Partition, Message: message, Number: number})
		if err != nil {
			e.log.Error("a mail leaves without a return path: what comes back is not known", "send", envelope.Send, "error", err)
			return ""
		}
		return local + domain
	})
}

// feedbackID names a send to feedback loops, as its return path does. A complaint does
// not go by the partition, which is that of a return path alone.
func (e *core) feedbackID(s *mail.Send) string {
	id, err := e.returnPaths.Local(verp.Send{Message: s.Message, Number: s.Number})
	if err != nil {
		e.log.Error("a mail leaves without an id for feedback loops: complaints may prove nothing", "send", s.ID(), "error", err)
		return ""
	}
	return id
}

// bounces is the listener for mail that comes back.
type bounces struct {
	inbox *inbox.Inbox
	smtp  *smtpd.Server
}

// startBounces starts that listener, if the configuration wants one.
func (e *Engine) startBounces(ctx context.Context, c *core) error {
	listen := e.config.Bounces.Listen
	if listen == "" {
		return nil
	}
	hostname := e.config.SMTPHostname()
	certificates, err := smtpCertificates(&e.config.SMTPD, hostname, e.clock, e)
	if err != nil {
		return err
	}
	in := &inbox.Inbox{
		Tokens: c.returnPaths, Domains: e.config.BounceDomains(), Feedback: e.config.Bounces.Feedback, Partitions: len(c.logs),
		Ledger: c.store, Events: c.intake(), Logs: c.writer, Once: c.redis.Once, Clock: e.clock, Log: e.log,
	}
	s := smtpd.New(smtpd.Options{Hostname: hostname, Certificates: certificates, Receiver: in, Clock: e.clock, Log: e.log})
	if err := s.Start(ctx, listen); err != nil {
		return err
	}
	e.mu.Lock()
	e.bounces = &bounces{in, s}
	e.mu.Unlock()
	e.log.Info("mail that comes back is taken in by SMTP", "bounces", s.Address(), "hostname", hostname, "domains", in.Domains, "tls", certificates != nil, "feedback", in.Feedback != "")
	return nil
}

// returnedStats returns what the listener has counted, nil without one.
func (e *Engine) returnedStats() *api.Returned {
	e.mu.Lock()
	b := e.bounces
	e.mu.Unlock()
	if b == nil {
		return nil
	}
	return &api.Returned{Results: b.inbox.Stats.Results(), SMTP: b.smtp.Stats()}
}

// BouncesAddress returns where mail that comes back is taken in, empty: nowhere.
func (e *Engine) BouncesAddress() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.bounces == nil {
		return ""
	}
	return e.bounces.smtp.Address()
}
