package engine

import (
	"context"

	"sluice"
	"sluice/config"
	"sluice/mail"
	"sluice/mail/smtpd"
)

// startSMTP starts the SMTP listener, if the configuration wants one. The keys
// are those of the HTTP server.
func (e *Engine) startSMTP(ctx context.Context) error {
	cfg := &e.config.SMTPD
	if cfg.Listen == "" {
		return nil
	}
	clock := e.clock
	hostname := e.config.SMTPHostname()
	certificates, err := smtpCertificates(cfg, hostname, clock, e)
	if err != nil {
		return err
	}
	s := smtpd.New(smtpd.Options{
		Hostname: hostname, MaxMessageBytes: cfg.MaxMessageMB << 20, OpenLoopback: !cfg.RequireAuth, Certificates: certificates,
		Authority: e.server, Check: e.reaches, Submitter: func() mail.Submitter { return e.Services().Submitter }, Clock: clock, Log: e.log,
	})
	if err := s.Start(ctx, cfg.Listen); err != nil {
		return err
	}
	e.mu.Lock()
	e.smtp = s
	e.mu.Unlock()
	e.log.Info("mail is taken in by SMTP", "smtp", s.Address(), "hostname", hostname, "tls", certificates != nil, "require_auth", cfg.RequireAuth)
	return nil
}

// smtpCertificates returns what the listener shows, nil for no TLS.
func smtpCertificates(cfg *config.SMTPD, hostname string, clock sluice.Clock, e *Engine) (*smtpd.Certificates, error) {
	switch cfg.TLSCert {
	case "":
		return nil, nil
	case config.SelfSigned:
		e.log.Warn("the SMTP listener shows a certificate that it has made itself: clients that check it refuse it", "hostname", hostname)
		return smtpd.SelfSigned(hostname, clock)
	}
	return smtpd.LoadCertificates(cfg.TLSCert, cfg.TLSKey, clock, e.log)
}

// reaches says why nobody can send to an address; while the program does not run
// nobody knows.
func (e *Engine) reaches(to string) error {
	if c, _ := e.current(); c != nil {
		return c.sending.reaches(to)
	}
	return nil
}

// smtpStats returns what the listener has counted, nil without one.
func (e *Engine) smtpStats() *smtpd.Snapshot {
	e.mu.Lock()
	s := e.smtp
	e.mu.Unlock()
	if s == nil {
		return nil
	}
	stats := s.Stats()
	return &stats
}
