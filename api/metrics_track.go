package api

import (
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
func collectLanding(to sink, l *land.Snapshot) {
	if l == nil {
		return
	}
	to.counter(descTrack, l.Opens, sluice.EventOpened)
	to.counter(descTrack, l.Clicks, sluice.EventClicked)
	to.counter(descTrackMachine, l.Machines)
	to.counter(descTrackRefused, l.Refused)
	to.counter(descTrackSpilled, l.Spilled)
	to.counter(descTrackLost, l.Lost)
	to.histogram(descTrackTook, l.Seconds)
}
