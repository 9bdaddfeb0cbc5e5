package engine

import (
	"context"
	"time"

	"sluice/flow"
	"sluice/ingest/spill"
	"sluice/mail/smtpd"
	"sluice/ops/alert"
	"sluice/track/land"
)

// lostAlert is for how long an open or click that was lost is a problem to tell of.
const lostAlert = 10 * time.Minute

// openLanding prepares what makes opens and clicks durable, and what people choose on
// the pages of mails; without a listener for them there is none.
func (e *core) openLanding() {
	if e.config.Track.Listen == "" {
		return
	}
	// A writer of its own with half of the backlog: who repeats a pixel without end
	// fills the files, and the requests of others are still taken.
	e.landings = flow.NewWriter(e.logs, "land:"+e.leases.ID(), e.config.BacklogMB<<20/2)
	ping := func(ctx context.Context) error { return e.redis.PingLogs(ctx, e.logs) }
	e.landings.Replicas = Replicas(e.config)
	e.recorder = land.NewRecorder()
	e.recorder.Writer, e.recorder.Accepted = e.landings, &e.stats.Accepted
	e.recorder.Ping, e.recorder.Clock, e.recorder.Log = ping, e.clock, e.log
	e.recorder.Spill = spill.Open(SpillDir(e.config), e.deployment, e.clock)
	e.choices = land.NewChoices()
	e.choices.To = e.intake()
	e.choices.Ping, e.choices.Clock, e.choices.Log = ping, e.clock, e.log
	e.choices.Spill = spill.OpenItems(SpillDir(e.config), e.deployment, e.clock)
}

// startLanding starts the listener for opens and clicks, if the configuration wants
// one.
func (e *Engine) startLanding(ctx context.Context, c *core) error {
	cfg := &e.config.Track
	if cfg.Listen == "" {
		return nil
	}
	o := land.Options{
		Keys: c.links, Recorder: c.recorder, Choices: c.choices, Targets: c.store, Judge: land.NewJudge(cfg.Networks()), Page: e.server.SubscriptionPages(c.links, c.choices),
		Partitions: e.config.Partitions, Proxies: e.config.ProxyPrefixes(), Clock: e.clock, Log: e.log,
	}
	if cfg.TLSCertificate != "" {
		certificates, err := smtpd.LoadCertificates(cfg.TLSCertificate, cfg.TLSKey, e.clock, e.log)
		if err != nil {
			return err
		}
		o.Certificate = certificates.Get
	}
	s := land.New(o)
	if err := s.Start(ctx, cfg.Listen); err != nil {
		return err
	}
	e.mu.Lock()
	e.landing = s
	e.mu.Unlock()
	e.log.Info("opens and clicks are taken in", "track", s.Address(), "url", cfg.URL, "tls", o.Certificate != nil)
	return nil
}

func (e *Engine) landingServer() *land.Server {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.landing
}

// landingStats returns what the listener has counted, nil without one.
func (e *Engine) landingStats() *land.Snapshot {
	s := e.landingServer()
	if s == nil {
		return nil
	}
	stats := s.Stats()
	return &stats
}

// landingProblems returns whether opens and clicks were lost lately.
func (e *core) landingProblems(host string) []alert.Problem {
	if e.recorder == nil {
		return nil
	}
	summary := e.recorder.LostSummary(e.clock.Now().Add(-lostAlert))
	if summary == "" {
		return nil
	}
	return []alert.Problem{{Kind: alert.Tracking, Subject: host, Summary: host + ": " + summary}}
}
