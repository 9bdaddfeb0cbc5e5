package main

import (
	"context"

	"sluice"
	"sluice/api"
	"sluice/config"
	"sluice/smtpd"
)

// startSMTP starts the SMTP listener, if the configuration wants one. The keys
// are those of the HTTP server.
func (p *Program) startSMTP(ctx context.Context) error {
	cfg := &p.config.SMTPD
	if cfg.Listen == "" {
		return nil
	}
	clock := p.clock
	hostname := p.config.SMTPHostname()
	certificates, err := smtpCertificates(cfg, hostname, clock, p)
	if err != nil {
		return err
	}
	s := smtpd.New(smtpd.Options{
		Hostname: hostname, MaxMessageBytes: cfg.MaxMessageMB << 20, OpenLoopback: !cfg.RequireAuth, Certificates: certificates,
		Authority: p.server, Check: p.reaches, Submitter: p.Submitter, Clock: clock, Log: p.log,
	})
	if err := s.Start(ctx, cfg.Listen); err != nil {
		return err
	}
	p.mu.Lock()
	p.smtp = s
	p.mu.Unlock()
	p.log.Info("mail is taken in by SMTP", "smtp", s.Address(), "hostname", hostname, "tls", certificates != nil, "require_auth", cfg.RequireAuth)
	return nil
}

// smtpCertificates returns what the listener shows, nil for no TLS.
func smtpCertificates(cfg *config.SMTPD, hostname string, clock sluice.Clock, p *Program) (*smtpd.Certificates, error) {
	switch cfg.TLSCert {
	case "":
		return nil, nil
	case config.SelfSigned:
		p.log.Warn("the SMTP listener shows a certificate that it has made itself: clients that check it refuse it", "hostname", hostname)
		return smtpd.SelfSigned(hostname, clock)
	}
	return smtpd.LoadCertificates(cfg.TLSCert, cfg.TLSKey, clock, p.log)
}

// Submitter returns where messages go, nil while the program does not run.
func (p *Program) Submitter() sluice.Submitter {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.engine == nil {
		return nil
	}
	if p.engine.requiresDomains() {
		return gate{p.engine.sending.intake, p.engine.domains}
	}
	return p.engine.sending.intake
}

// reaches says why nobody can send to an address; while the program does not run
// nobody knows.
func (p *Program) reaches(to string) error {
	p.mu.Lock()
	e := p.engine
	p.mu.Unlock()
	if e == nil {
		return nil
	}
	return e.sending.reaches(to)
}

// SMTPAddress returns where mail is taken in, empty if it is not.
func (p *Program) SMTPAddress() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.smtp == nil {
		return ""
	}
	return p.smtp.Address()
}

// smtpStats returns what the listener has counted, nil without one.
func (p *Program) smtpStats() *api.SMTP {
	p.mu.Lock()
	s := p.smtp
	p.mu.Unlock()
	if s == nil {
		return nil
	}
	x := s.Stats()
	return &api.SMTP{Messages: x.Messages, Recipients: x.Recipients, Refused: x.Refused, Took: x.Seconds, Open: x.Open}
}
