package api

import (
	"sluice/mail"
	routing "sluice/mail/route"
)

// The metrics of mail on its way out.
var (
	descRouteMails = desc("route_mails_total", "Mails that a route was given to attempt.", "route")
	descRouteEnds  = desc("route_results_total", "How attempts by a route ended.", "route", "result")
	descSendStage  = desc("send_stage_seconds", "How long mails spent in each stage, from entering their lane until their result was recorded.", "route", "stage")
	descWaits      = desc("waiting_sends", "Pending sends in the lanes of the partitions that this process sends, including those under way.", "priority")
	descOldest     = desc("waiting_oldest_seconds", "Age of the oldest pending send that no worker has taken, in the lanes that this process sends; 0 if there is none.", "priority")
	descLater      = desc("later_sends", "Sends scheduled or deferred for later, in the partitions that this process sends.")
	descSends      = desc("sends", "Sends by their state in the ledger, of all processes together; each process shows the same.", "class", "state")
	descDoubts     = desc("in_doubt_sends", "Sends in doubt that an operator has to resolve, of all processes together; each process shows the same.")
	descScheduled  = desc("in_doubt_schedules", "Scheduled mails in doubt that an operator has to release or drop, of all processes together; each process shows the same.")
	descLost       = desc("sends_without_lane_total", "Sends that are pending in the ledger but were in no lane, found by this process since it began; they are in doubt.")
	descLostOpen   = desc("lost_sends", "Sends in doubt with reason lost that await a decision, 100,000 at most.")
	descRouteSlow  = desc("route_throttled_total", "Answers that asked a route for fewer mails.", "route")
	descRouteOpens = desc("route_openings_total", "How often a route, or a domain of one, was paused because its attempts failed.", "route")
	descRouteDown  = desc("route_down", "1 while a route is paused or only probed because its attempts fail; else 0.", "route")
	descRouteWhy   = desc("route_failing", "1 while a route does not work, by cause: dns, refused, unreachable, timeout, certificate, tls, login, rejected, lost.", "route", "cause")
	descRouteShare = desc("route_pace_share_ratio", "Share of its pace that a route has now, 0 to 1; lower while the other side asks for fewer mails.", "route")
	descRouteDay   = desc("route_day_left_mails", "Mails that a warm-up route may still send today, all processes together.", "route")
	descBounds     = desc("mail_bound_used_ratio", "Used share of a bound on pending mail or on remembered requests for mail, 0 to 1, of all processes together; each process shows the same. For a bound per key it is that of the key that uses most. 0 if there is no bound.", "setting")
	descStopped    = desc("marketing_stopped", "1 while all marketing mail is stopped (sluice sending stop), else 0.")
)

// collectLedger sends what the ledger says.
func collectLedger(to sink, s *Stats) {
	if s.LostDoubts >= 0 {
		to.gauge(descLostOpen, float64(s.LostDoubts))
	}
	if s.InDoubtSchedules >= 0 {
		to.gauge(descScheduled, float64(s.InDoubtSchedules))
	}
	if s.InDoubt < 0 {
		return // the database does not say
	}
	for _, t := range s.Sends {
		to.gauge(descSends, float64(t.Count), t.Class.String(), t.State.String())
	}
	to.gauge(descDoubts, float64(s.InDoubt))
}

// collectRoutes sends the state of the routes, and the mail pending for them.
func collectRoutes(to sink, s *Stats) {
	for setting, share := range s.Bounds {
		to.gauge(descBounds, share, setting)
	}
	if s.Routes == nil {
		return // this process does not send
	}
	for _, r := range s.Routes {
		to.counter(descRouteMails, r.Taken, label(r.Name))
		to.counter(descRouteSlow, r.Throttled, label(r.Name))
		to.counter(descRouteOpens, r.Opened, label(r.Name))
		to.gauge(descRouteDown, b2f(r.Breaker != routing.BreakerClosed), label(r.Name))
		if r.Why.Cause != "" {
			to.gauge(descRouteWhy, 1, label(r.Name), string(r.Why.Cause))
		}
		to.gauge(descRouteShare, r.Share, label(r.Name))
		if r.LeftToday >= 0 {
			to.gauge(descRouteDay, float64(r.LeftToday), label(r.Name))
		}
	}
	for i := range s.Mail {
		r := &s.Mail[i]
		for kind, n := range r.Results {
			to.counter(descRouteEnds, n, label(r.Route), kind.String())
		}
		for stage, h := range r.All.Stages {
			to.histogram(descSendStage, h, label(r.Route), mail.Stage(stage).String())
		}
	}
	for priority, w := range s.Waiting {
		if w.Sends >= 0 {
			to.gauge(descWaits, float64(w.Sends), priority)
		}
		to.gauge(descOldest, w.OldestSeconds, priority)
	}
	if s.Later >= 0 {
		to.gauge(descLater, float64(s.Later))
	}
	to.counter(descLost, s.Lost)
	to.gauge(descStopped, b2f(s.MarketingStopped))
}
