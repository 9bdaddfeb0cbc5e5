package api

import "sluice/mail/smtpd"

// Returned is what the listener for mail that comes back has counted.
type Returned struct {
	Results map[string]int64 // reports, by what they came to
	SMTP    smtpd.Snapshot
}

// The metrics of mail that comes back.
var (
	descReturned     = desc("returned_reports_total", "Reports by mail that were taken in, by their event, ignored or repeated.", "result")
	descReturnedNot  = desc("returned_refused_total", "Senders, recipients, mails and commands that the listener for returned mail refused.", "reason")
	descReturnedOpen = desc("returned_connections", "Open connections of the listener for returned mail.")
)

// The metrics of mail that is stopped by itself.
var (
	descPauses       = desc("mail_pauses_total", "How often this process stopped mail by itself: too much of it bounced, was blocked or complained of.")
	descStops        = desc("mail_stops", "How many selections of mail are stopped, by an operator or by itself.")
	descFeedbackLost = desc("feedback_dropped_total", "Results and reports of mail that were not counted, as there were too many names.")
)

// collectReturned sends the metrics of a listener; nil: there is none.
func collectReturned(to sink, r *Returned) {
	if r == nil {
		return
	}
	for result, n := range r.Results {
		to.counter(descReturned, n, result)
	}
	for reason, n := range r.SMTP.Refused {
		to.counter(descReturnedNot, n, reason)
	}
	to.gauge(descReturnedOpen, float64(r.SMTP.Open))
}
