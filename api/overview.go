package api

import (
	"strings"
	"sync"
	"time"

	"sluice/mail"
)

// overviewPath is how all stands, for the first page of the dashboard.
const overviewPath = "/v1/overview"

// overviewKept is how long a look is shown after its end: many who ask once a second cost one.
const overviewKept = 500 * time.Millisecond

// Overview is the answer of GET /v1/overview: what this process knows of how all stands.
// It is put together of what /readyz, /v1/status and /metrics say.
type Overview struct {
	Time      string   `json:"time"`
	Version   string   `json:"version"`
	Process   string   `json:"process"`
	Processes int      `json:"processes"`
	Ready     bool     `json:"ready"`
	Reasons   []string `json:"reasons"`
	Warnings  []string `json:"warnings"`

	Redis    string `json:"redis"`    // why it does not answer; empty: it does
	Database string `json:"database"` // the same

	Accepted    int64   `json:"accepted"`
	Stored      int64   `json:"stored"`
	LagSeconds  float64 `json:"lag_seconds"`
	DeadLetters int64   `json:"dead_letters"`

	MarketingStopped bool          `json:"marketing_stopped"`
	Lanes            []LaneStatus  `json:"lanes"`
	Later            int64         `json:"later"`
	Routes           []RouteStatus `json:"routes"`
	Sends            []SendsTotal  `json:"sends"`
	InDoubt          int64         `json:"in_doubt"`
	Suppressed       int           `json:"suppressed"`

	DiskFreeBytes uint64 `json:"disk_free_bytes"`
	DiskSizeBytes uint64 `json:"disk_size_bytes"`
}

// SendsTotal is how many sends of a class are in a state, of all processes.
type SendsTotal struct {
	Class string `json:"class"`
	State string `json:"state"`
	Count int64  `json:"count"`
}

// overviews keeps the last look.
type overviews struct {
	mu   sync.Mutex
	last *Overview
	at   time.Time // when it had ended
}

// overview is GET /v1/overview.
func (q *request) overview() (any, error) {
	return q.s.lastOverview(), nil
}

// lastOverview is the last look, or a new one.
func (s *Server) lastOverview() *Overview {
	looks := &s.overviews
	looks.mu.Lock() // others wait for the look under way: up to a second for each question that a server leaves open
	defer looks.mu.Unlock()
	now := s.clock.Now() // those who have waited find a look that is new
	if age := now.Sub(looks.at); looks.last == nil || age < 0 || age >= overviewKept {
		looks.last = s.lookOver(now)
		looks.at = s.clock.Now()
	}
	return looks.last
}

// lookOver makes an overview of what the program says now.
func (s *Server) lookOver(now time.Time) *Overview {
	stats, ready := s.program.Stats(), s.program.Ready()
	st := s.statusOf(&stats, ready)
	o := &Overview{
		Time: timeText(now.UnixMilli()), Version: s.version, Process: st.Process, Processes: st.LiveProcesses, Ready: st.Ready, Reasons: st.Reasons, Warnings: []string{},
		Accepted: st.Accepted, Stored: st.Stored, LagSeconds: st.LagSeconds, DeadLetters: st.DeadLetters,
		MarketingStopped: st.MarketingStopped, Lanes: st.Lanes, Later: st.Later, Routes: st.Routes,
		Sends: []SendsTotal{}, InDoubt: stats.InDoubt, Suppressed: stats.Suppressed, DiskFreeBytes: stats.DiskFreeBytes, DiskSizeBytes: stats.DiskSizeBytes,
	}
	o.Warnings = append(o.Warnings, s.warnings()...)
	for _, reason := range st.Reasons {
		if what, why, ok := strings.Cut(reason, ": "); ok {
			switch what {
			case "redis":
				o.Redis = why
			case "database":
				o.Database = why
			}
		}
	}
	for _, t := range stats.Sends {
		o.Sends = append(o.Sends, SendsTotal{t.Class.String(), t.State.String(), t.Count})
	}
	return o
}

// statusOf is what /v1/status shows of a snapshot.
func (s *Server) statusOf(stats *Stats, ready error) Status {
	shown := Status{
		Process: stats.Process, Version: s.version, Ready: ready == nil, Reasons: []string{}, LiveProcesses: stats.Processes,
		Accepted: stats.Accepted, Stored: stats.Stored, DeadLetters: stats.Dead, MarketingStopped: stats.MarketingStopped,
		Lanes: []LaneStatus{}, Later: stats.Later, Routes: []RouteStatus{},
	}
	if ready != nil {
		shown.Reasons = reasons(ready)
	}
	for _, f := range stats.Followers {
		shown.LagSeconds = max(shown.LagSeconds, rounded(f.LagSeconds))
	}
	for p := mail.PriorityHigh; p <= mail.PriorityLow; p++ {
		if waiting, ok := stats.Waiting[p.String()]; ok {
			shown.Lanes = append(shown.Lanes, LaneStatus{p.String(), waiting.Sends, rounded(waiting.OldestSeconds)})
		}
	}
	for _, x := range stats.Routes {
		route := RouteStatus{Route: label(x.Name), Breaker: x.Breaker, PausedDomains: x.Paused, Mails: x.Taken, Throttled: x.Throttled, PaceShare: rounded(x.Share), Cause: string(x.Why.Cause), Why: x.Why.String()}
		if x.LeftToday >= 0 {
			route.LeftToday = &x.LeftToday
		}
		shown.Routes = append(shown.Routes, route)
	}
	return shown
}
