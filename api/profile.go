package api

import (
	"math"
	"net/http"

	"sluice/mail"
	"sluice/mail/spool"
)

// Paths of what a process does now.
const (
	profilePath = "/v1/profile"
	statusPath  = "/v1/status"
)

// watches reads the request of somebody who watches: it has no query.
func (s *Server) watches(w http.ResponseWriter, r *http.Request) error {
	if _, err := readQuery(r, nil); err != nil {
		return err
	}
	return s.mayWatch(w, r)
}

// Profile is the answer of GET /v1/profile: where the time of mails went, in one
// process.
type Profile struct {
	Process       string         `json:"process"`
	LiveProcesses int            `json:"live_processes"`
	Routes        []RouteProfile `json:"routes"`
}

// RouteProfile is what is known of the attempts by a route.
type RouteProfile struct {
	Route      string           `json:"route"`
	Results    map[string]int64 `json:"results"` // since the process began
	LastMinute SpanProfile      `json:"last_minute"`
	SinceStart SpanProfile      `json:"since_start"`
}

// SpanProfile is where the time of the attempts of a while went.
type SpanProfile struct {
	Seconds        float64        `json:"seconds"`
	Mails          int64          `json:"mails"`
	MailsPerSecond float64        `json:"mails_per_second"`
	Stages         []StageProfile `json:"stages"`
}

// StageProfile is a stage's part of it.
type StageProfile struct {
	Stage               string  `json:"stage"`
	SharePercent        float64 `json:"share_percent"`
	AttemptSharePercent float64 `json:"attempt_share_percent"` // without the lane
	MeanSeconds         float64 `json:"mean_seconds"`
	P50Seconds          float64 `json:"p50_seconds"`
	P99Seconds          float64 `json:"p99_seconds"`
}

// profile is GET /v1/profile.
func (s *Server) profile(w http.ResponseWriter, r *http.Request) {
	if err := s.watches(w, r); err != nil {
		s.writeError(w, r, err)
		return
	}
	stats := s.program.Stats()
	shown := Profile{Process: stats.Process, LiveProcesses: stats.Processes, Routes: []RouteProfile{}}
	for i := range stats.Mail {
		m := &stats.Mail[i]
		route := RouteProfile{Route: label(m.Route), Results: make(map[string]int64), LastMinute: shownSpan(&m.Recent), SinceStart: shownSpan(&m.All)}
		for _, kind := range mail.ResultKinds {
			route.Results[kind.String()] = m.Results[kind]
		}
		shown.Routes = append(shown.Routes, route)
	}
	s.writeJSON(w, http.StatusOK, shown)
}

func shownSpan(p *spool.StageProfile) SpanProfile {
	span := SpanProfile{Seconds: rounded(p.Seconds), Mails: p.Mails, Stages: make([]StageProfile, mail.Stages)}
	if p.Seconds > 0 {
		span.MailsPerSecond = rounded(float64(p.Mails) / p.Seconds)
	}
	all, attempt := p.Shares()
	for i := range p.Stages {
		h := &p.Stages[i]
		span.Stages[i] = StageProfile{
			Stage: mail.Stage(i).String(), SharePercent: rounded(all[i]), AttemptSharePercent: rounded(attempt[i]),
			MeanSeconds: rounded(h.Mean()), P50Seconds: rounded(h.Quantile(0.5)), P99Seconds: rounded(h.Quantile(0.99)),
		}
	}
	return span
}

// rounded is a number to six digits behind the point: microseconds.
func rounded(v float64) float64 { return math.Round(v*1e6) / 1e6 }

// Status is the answer of GET /v1/status: what a process does now. What it counts
// began with it.
type Status struct {
	Process          string        `json:"process"`
	Version          string        `json:"version"`
	Ready            bool          `json:"ready"`
	Reasons          []string      `json:"reasons"`
	LiveProcesses    int           `json:"live_processes"`
	Accepted         int64         `json:"accepted"`
	Stored           int64         `json:"stored"`
	LagSeconds       float64       `json:"lag_seconds"`
	DeadLetters      int64         `json:"dead_letters"`
	MarketingStopped bool          `json:"marketing_stopped"`
	Lanes            []LaneStatus  `json:"lanes"`
	Later            int64         `json:"later"`
	Routes           []RouteStatus `json:"routes"`
}

// LaneStatus is what is pending with a priority.
type LaneStatus struct {
	Priority      string  `json:"priority"`
	Waiting       int64   `json:"waiting"`
	OldestSeconds float64 `json:"oldest_seconds"`
}

// RouteStatus is how a route stands.
type RouteStatus struct {
	Route         string  `json:"route"`
	Breaker       string  `json:"breaker"`
	PausedDomains int     `json:"paused_domains"`
	Mails         int64   `json:"mails"`
	Throttled     int64   `json:"throttled"`
	PaceShare     float64 `json:"pace_share"`
	Cause         string  `json:"cause,omitempty"`
	Why           string  `json:"why,omitempty"`
	LeftToday     *int    `json:"left_today,omitempty"`
}

// status is GET /v1/status.
func (s *Server) status(w http.ResponseWriter, r *http.Request) {
	if err := s.watches(w, r); err != nil {
		s.writeError(w, r, err)
		return
	}
	stats := s.program.Stats()
	s.writeJSON(w, http.StatusOK, s.statusOf(&stats, s.program.Ready()))
}
