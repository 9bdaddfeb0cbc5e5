package api

import (
	"github.com/prometheus/client_golang/prometheus"

	"sluice"
	"sluice/track/land"
)

// The metrics of opens and clicks.
var (
	descTrack        = desc("track_events_total", "Opens and clicks that were answered, those of machines included.", "event")
	descTrackMachine = desc("track_machine_events_total", "Of these, those that a sign of the request itself shows to be a machine's.")
	descTrackRefused = desc("track_refused_total", "Requests for pixels and links that were not made here, or were changed.")
	descTrackSpilled = desc("track_spilled_total", "Opens, clicks and choices of people that went to a file because Redis did not take them within 250 ms.")
	descTrackLost    = desc("track_lost_total", "Opens and clicks that neither Redis nor the disk took: they are lost.")
	descTrackTook    = desc("track_answer_seconds", "How long answers to opens and clicks took.")
)

// collectLanding sends what the listener for opens and clicks has done; nil: there is
// none.
func collectLanding(ch chan<- prometheus.Metric, l *land.Snapshot) {
	if l == nil {
		return
	}
	counter := func(d *prometheus.Desc, n int64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
	}
	counter(descTrack, l.Opens, sluice.EventOpened)
	counter(descTrack, l.Clicks, sluice.EventClicked)
	counter(descTrackMachine, l.Machines)
	counter(descTrackRefused, l.Refused)
	counter(descTrackSpilled, l.Spilled)
	counter(descTrackLost, l.Lost)
	ch <- prometheus.MustNewConstHistogram(descTrackTook, l.Seconds.Count, l.Seconds.Sum, l.Seconds.Buckets)
}
