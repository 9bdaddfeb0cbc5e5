package desk

import (
	"context"
	"strings"
	"testing"
	"time"

	"sluice"
	"sluice/flow"
	"sluice/journey"
)

// Who resumes a journey is asked about a run whose time has come, and which a partition has
// not finished: in the zone of the journey, or where it comes first.
func TestResumeAsksAboutARun(t *testing.T) {
	const text = "id: weekly\nentry: {when: {at: \"2026-03-03 08:00\", every: week}}\nsteps: [{id: mail, message: {template: hello}}]\n"
	at := time.Date(2026, 3, 3, 8, 0, 0, 0, time.UTC)
	for name, x := range map[string]struct {
		zone  string
		now   time.Duration // behind that time
		runs  []journey.Runs
		wants string // of the refusal; empty: there is none
	}{
		"yet to come":        {"", -time.Minute, make([]journey.Runs, 2), ""},
		"not begun":          {"", time.Hour, make([]journey.Runs, 2), "were to enter journey weekly at 2026-03-03T08:00:00Z"},
		"begun by one":       {"", time.Hour, []journey.Runs{{Last: at.Unix(), After: journey.RunsFinished}, {}}, "2026-03-03T08:00:00Z"},
		"under way":          {"", time.Hour, []journey.Runs{{Last: at.Unix(), After: journey.RunsFinished}, {Last: at.Unix(), After: 7}}, "2026-03-03T08:00:00Z"},
		"over":               {"", time.Hour, []journey.Runs{{Last: at.Unix(), After: journey.RunsFinished}, {Last: at.Unix(), After: journey.RunsFinished}}, ""},
		"yet to come to all": {", zone: user", -15 * time.Hour, make([]journey.Runs, 2), ""},
		"come in the east":   {", zone: user", -13 * time.Hour, make([]journey.Runs, 2), "2026-03-02T18:00:00Z"},
		"come in the west":   {", zone: user", 6 * time.Hour, []journey.Runs{{Last: at.Unix(), After: journey.RunsFinished}, {Last: at.Unix(), After: journey.RunsFinished}}, "2026-03-03T09:15:00Z"},
		"none in the west":   {", zone: user", time.Hour, []journey.Runs{{Last: at.Unix(), After: journey.RunsFinished}, {Last: at.Unix(), After: journey.RunsFinished}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			j := b.create(strings.Replace(text, ", every", x.zone+", every", 1))
			_, err := b.Publish(t.Context(), "weekly", -1)
			b.ok(err)
			b.at(1)
			b.Partitions = len(x.runs)
			b.Notes = func(_ context.Context, partition int) (map[string]string, error) {
				fields := make(map[string]string)
				flow.SetNote(fields, journey.InStepsKept, "1")
				if x.runs[partition].Last != 0 {
					flow.SetNote(fields, journey.RunsNote(j.Number), x.runs[partition].Text())
				}
				return fields, nil
			}
			_, err = b.SetStatus(t.Context(), "weekly", Pause)
			b.ok(err)
			b.clock.Move(at.Add(x.now).Sub(b.clock.Now()))
			if x.wants != "" {
				_, err = b.Resume(t.Context(), "weekly", OverdueAsk)
				b.refused(err, sluice.CodeConflict, x.wants)
				b.clock.Move(time.Second)
				_, err = b.Resume(t.Context(), "weekly", OverdueSkip)
				b.ok(err)
				_, err = b.SetStatus(t.Context(), "weekly", Pause)
				b.ok(err)
			}
			if _, err = b.Resume(t.Context(), "weekly", OverdueAsk); err != nil {
				t.Errorf("refused: %v", err)
			}
		})
	}
}

// A run that was begun before the pause goes on behind it, by whatever version was published
// meanwhile: who resumes the journey is asked about it.
func TestResumeAsksAboutARunOfBeforeAPublish(t *testing.T) {
	const text = "id: daily\nentry: {when: WHEN}\nsteps: [{id: mail, message: {template: hello}}]\n"
	daily := strings.Replace(text, "WHEN", `{at: "2026-03-03 09:00", every: day}`, 1)
	for name, then := range map[string]string{"the same times": daily, "no times": strings.Replace(text, "WHEN", "{event: signup}", 1)} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			j := b.create(daily)
			_, err := b.Publish(t.Context(), "daily", -1)
			b.ok(err)
			run := journey.Runs{Last: time.Date(2026, 3, 3, 9, 0, 0, 0, time.UTC).Unix(), After: 7}
			b.Partitions = 1
			b.at(1)
			b.Notes = func(context.Context, int) (map[string]string, error) {
				fields := make(map[string]string)
				flow.SetNote(fields, journey.InStepsKept, "1")
				flow.SetNote(fields, journey.RunsNote(j.Number), run.Text())
				return fields, nil
			}
			b.clock.Move(time.Unix(run.Last, 0).Add(time.Minute).Sub(b.clock.Now()))
			_, err = b.SetStatus(t.Context(), "daily", Pause)
			b.ok(err)
			b.clock.Move(10 * time.Minute)
			_, err = b.Update(t.Context(), "daily", b.get("daily").Revision, Written{Text: then, YAML: true})
			b.ok(err)
			_, err = b.Publish(t.Context(), "daily", -1)
			b.ok(err)
			b.clock.Move(time.Hour)
			_, err = b.Resume(t.Context(), "daily", OverdueAsk)
			b.refused(err, sluice.CodeConflict, "were to enter journey daily at 2026-03-03T09:00:00Z")
			_, err = b.Resume(t.Context(), "daily", OverdueSkip)
			b.ok(err)
			_, err = b.SetStatus(t.Context(), "daily", Pause)
			b.ok(err)
			_, err = b.Resume(t.Context(), "daily", OverdueAsk) // it was decided about
			b.ok(err)
		})
	}
}

// A time that came before another version was published is asked about too, if the journey was
// paused behind the publish and a partition has not come to it.
func TestResumeAsksAboutARunThatIsOwed(t *testing.T) {
	daily := "id: daily\nentry: {when: {at: \"2026-03-03 09:00\", every: day}}\nsteps: [{id: mail, message: {template: hello}}]\n"
	at := time.Date(2026, 3, 3, 9, 0, 0, 0, time.UTC)
	for name, x := range map[string]struct {
		then  string
		pause time.Duration // behind the time; the publish is 10 min behind it
		last  time.Duration // the last run
		wants bool
	}{
		"paused behind the publish":      {daily, 15 * time.Minute, -24 * time.Hour, true},
		"and no times any more":          {strings.Replace(daily, "at: \"2026-03-03 09:00\", every: day", "event: signup", 1), 15 * time.Minute, -24 * time.Hour, true},
		"it was made":                    {daily, 15 * time.Minute, 0, false},
		"paused before the publish":      {daily, 5 * time.Minute, -24 * time.Hour, false},
		"the version begins behind that": {strings.Replace(daily, "09:00", "08:00", 1), 15 * time.Minute, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			j := b.create(daily)
			_, err := b.Publish(t.Context(), "daily", -1)
			b.ok(err)
			b.Partitions = 1
			b.at(1)
			b.Notes = func(context.Context, int) (map[string]string, error) {
				fields := make(map[string]string)
				flow.SetNote(fields, journey.InStepsKept, "1")
				flow.SetNote(fields, journey.RunsNote(j.Number), journey.Runs{Last: at.Add(x.last).Unix(), After: journey.RunsFinished}.Text())
				return fields, nil
			}
			pause := func() {
				b.clock.Move(at.Add(x.pause).Sub(b.clock.Now()))
				_, err := b.SetStatus(t.Context(), "daily", Pause)
				b.ok(err)
			}
			if x.pause < 10*time.Minute {
				pause()
			}
			b.clock.Move(at.Add(10 * time.Minute).Sub(b.clock.Now()))
			_, err = b.Update(t.Context(), "daily", b.get("daily").Revision, Written{Text: x.then, YAML: true})
			b.ok(err)
			_, err = b.Publish(t.Context(), "daily", -1)
			b.ok(err)
			if x.pause > 10*time.Minute {
				pause()
			}
			b.clock.Move(time.Hour)
			if _, err = b.Resume(t.Context(), "daily", OverdueAsk); x.wants {
				b.refused(err, sluice.CodeConflict, "were to enter journey daily at 2026-03-03T09:00:00Z")
				_, err = b.Resume(t.Context(), "daily", OverdueSkip)
				b.ok(err)
				_, err = b.SetStatus(t.Context(), "daily", Pause)
				b.ok(err)
				_, err = b.Resume(t.Context(), "daily", OverdueAsk) // it was decided about
			}
			b.ok(err)
		})
	}
}
