package api

import (
	"github.com/prometheus/client_golang/prometheus"

	"sluice"
	routing "sluice/mail/route"
)

// The metrics of mail on its way out.
var (
	descRouteMails = desc("route_mails_total", "Mails that a route was given to attempt.", "route")
	descRouteEnds  = desc("route_results_total", "How attempts by a route ended.", "route", "result")
	descSendStage  = desc("send_stage_seconds", "How long mails spent in each stage, from when they came into their lane to when their result was recorded.", "route", "stage")
	descWaits      = desc("waiting_sends", "Sends in the lanes of the partitions that this process sends, those under way among them.", "priority")
	descOldest     = desc("waiting_oldest_seconds", "How long the oldest send waits that nobody has taken, in the lanes that this process sends; 0: there is none.", "priority")
	descLater      = desc("later_sends", "Sends that wait for a time: scheduled, or deferred; of the partitions that this process sends.")
	descSends      = desc("sends", "Sends by where they stand in the ledger, of all processes together: the same from each.", "class", "state")
	descDoubts     = desc("in_doubt_sends", "Sends in doubt about which somebody has to decide, of all processes together: the same from each.")
	descLost       = desc("sends_without_lane_total", "Sends that were to leave by the ledger and that were in no lane, found by this process's looks since it began; they are in doubt.")
	descLostOpen   = desc("lost_sends", "Sends in doubt with reason lost that await a decision, 100,000 at most.")
	descRouteSlow  = desc("route_throttled_total", "Answers to a route that wanted fewer mails.", "route")
	descRouteOpens = desc("route_openings_total", "How often a route, or a domain of one, was left alone because its attempts failed.", "route")
	descRouteDown  = desc("route_down", "1 while a route is left alone because its attempts fail, or only tried; else 0.", "route")
	descRouteWhy   = desc("route_failing", "1 while a route does not work, by why: dns, refused, unreachable, timeout, certificate, tls, login, rejected, lost.", "route", "cause")
	descRouteShare = desc("route_pace_share_ratio", "How much of its pace a route has now, 0 to 1: less while the other side wants fewer.", "route")
	descRouteDay   = desc("route_day_left_mails", "What a route that is warmed up may still send today, all processes together.", "route")
	descBounds     = desc("mail_bound_used_ratio", "How much is taken of a bound of mail that waits, or of what is remembered of requests for mail, 0 to 1, of all processes together: the same from each. Of a bound for each key: by the key that takes the most. 0: there is no bound.", "setting")
	descStopped    = desc("marketing_stopped", "1 while all marketing mail is stopped (sluice sending stop), else 0.")
)

// collectLedger sends what the ledger says.
func (m metrics) collectLedger(ch chan<- prometheus.Metric, s *Stats) {
	if s.LostDoubts >= 0 {
		ch <- prometheus.MustNewConstMetric(descLostOpen, prometheus.GaugeValue, float64(s.LostDoubts))
	}
	if s.InDoubt < 0 {
		return // the database does not say
	}
	for _, t := range s.Sends {
		ch <- prometheus.MustNewConstMetric(descSends, prometheus.GaugeValue, float64(t.Count), t.Class.String(), t.State.String())
	}
	ch <- prometheus.MustNewConstMetric(descDoubts, prometheus.GaugeValue, float64(s.InDoubt))
}

// collectRoutes sends how the ways out for mail stand, and what waits for them.
func (m metrics) collectRoutes(ch chan<- prometheus.Metric, s *Stats) {
	for setting, share := range s.Bounds {
		ch <- prometheus.MustNewConstMetric(descBounds, prometheus.GaugeValue, share, setting)
	}
	if s.Routes == nil {
		return // this process does not send
	}
	send := func(d *prometheus.Desc, kind prometheus.ValueType, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, kind, v, labels...)
	}
	for _, r := range s.Routes {
		send(descRouteMails, prometheus.CounterValue, float64(r.Taken), label(r.Name))
		send(descRouteSlow, prometheus.CounterValue, float64(r.Throttled), label(r.Name))
		send(descRouteOpens, prometheus.CounterValue, float64(r.Opened), label(r.Name))
		send(descRouteDown, prometheus.GaugeValue, b2f(r.Breaker != routing.BreakerClosed), label(r.Name))
		if r.Why.Cause != "" {
			send(descRouteWhy, prometheus.GaugeValue, 1, label(r.Name), string(r.Why.Cause))
		}
		send(descRouteShare, prometheus.GaugeValue, r.Share, label(r.Name))
		if r.LeftToday >= 0 {
			send(descRouteDay, prometheus.GaugeValue, float64(r.LeftToday), label(r.Name))
		}
	}
	for i := range s.Mail {
		r := &s.Mail[i]
		for kind, n := range r.Results {
			send(descRouteEnds, prometheus.CounterValue, float64(n), label(r.Route), kind.String())
		}
		for stage, h := range r.All.Stages {
			ch <- prometheus.MustNewConstHistogram(descSendStage, h.Count, h.Sum, h.Buckets, label(r.Route), sluice.Stage(stage).String())
		}
	}
	for priority, w := range s.Waiting {
		if w.Sends >= 0 {
			send(descWaits, prometheus.GaugeValue, float64(w.Sends), priority)
		}
		send(descOldest, prometheus.GaugeValue, w.OldestSeconds, priority)
	}
	if s.Later >= 0 {
		send(descLater, prometheus.GaugeValue, float64(s.Later))
	}
	send(descLost, prometheus.CounterValue, float64(s.Lost))
	send(descStopped, prometheus.GaugeValue, b2f(s.MarketingStopped))
}
