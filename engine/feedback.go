package engine

import (
	"context"
	"encoding/json"
	"strings"

	"sluice"
	"sluice/config"
	"sluice/flow"
	"sluice/mail/feedback"
	"sluice/ops/alert"
)

// pausing is the role of judging what becomes of mail. It has one place.
const pausing = "pausing"

// openFeedback prepares what stops mail that receivers do not want.
func (e *core) openFeedback(s *sending, partitions []flow.Partition) {
	e.leases.AddPartitions(pausing, e.redis, partitions[:1])
	s.feedback = &feedback.Watch{
		Redis: e.redis, Ledger: e.store, Operator: s.operator, Limits: e.config.Pause.Limits(), Clock: e.clock, Log: e.log, Ignored: config.SinkRoute,
		Judges: func() bool { held, _ := e.leases.Held(pausing); return held[0] != nil },
		Paused: e.mailPaused, PauseJourney: e.pauseJourney,
	}
}

// pauseJourney pauses a journey as an operator would, with the reason.
func (e *core) pauseJourney(ctx context.Context, id, why string) (hold string, paused bool, err error) {
	hold, paused, err = e.desk().Hold(ctx, id, why)
	if sluice.IsNotFound(err) {
		return "", false, nil // it was removed from the database by hand
	}
	return hold, paused, err
}

// EventMailPaused is the event of the system that says that mail was stopped.
const EventMailPaused = "mail_paused"

// mailPaused writes that mail was stopped as an event of the system. Its id is that of
// this one stop: what is told again is stored once.
func (e *core) mailPaused(ctx context.Context, p *feedback.Pause) error {
	properties, _ := json.Marshal(map[string]any{ // texts and numbers always can be
		"mail": p.Name(), "what": p.What, "count": p.Count, "mails": p.Mails, "limit_per_mille": p.PerMille,
		"window_minutes": int(p.Window.Minutes()), "why": p.Why(),
	})
	event := sluice.Event{
		Kind: sluice.KindSystem, TimeMillis: p.At.UnixMilli(), ID: EventMailPaused + ":" + p.Name() + ":" + p.At.UTC().Format("20060102T150405Z"),
		Name: EventMailPaused, Properties: string(properties),
	}
	return e.writer.Write(ctx, flow.Part{Partition: 0, Items: sluice.AppendEvent(nil, &event), Count: 1})
}

// stoppedProblems are the mails that were stopped by themselves, until an operator lets
// them go on.
func (e *core) stoppedProblems(ctx context.Context) (found []alert.Problem, err error) {
	stopped, err := e.redis.Stops(ctx)
	for name, note := range stopped {
		if _, why, is := strings.Cut(note, feedback.NoteMark); is {
			found = append(found, alert.Problem{Kind: alert.Paused, Subject: name, Summary: name + " was stopped: " + why + "; `sluice sending show` has it, `sluice sending resume` lets it go on"})
		}
	}
	return found, err
}

// heldProblems are the journeys that were paused by themselves, until an operator lets
// them go on.
func (e *core) heldProblems(ctx context.Context) (found []alert.Problem, err error) {
	held, err := e.store.HeldJourneys(ctx)
	for id, why := range held {
		if _, why, is := strings.Cut(why, feedback.NoteMark); is {
			found = append(found, alert.Problem{Kind: alert.Paused, Subject: "journey:" + id, Summary: "the journey " + id + " was paused: " + why + "; `sluice journey resume " + id + "` has it go on"})
		}
	}
	return found, err
}
