package desk

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"sluice"
)

// A time of entry that has passed, or is now, is refused by validate and publish alike;
// one that comes again is refused behind its last occurrence only. A journey that was
// published before is warned of. It is 09:00 of UTC on the second of March.
func TestPassedTimesAreRefused(t *testing.T) {
	b := newBed(t)
	text := "{id: timed, entry: {when: [TIMES]}, steps: [{id: s, exit: {}}]}"
	b.create(strings.Replace(text, "[TIMES]", `{at: "2026-03-02 09:01"}`, 1))
	_, err := b.Publish(t.Context(), "timed", -1)
	b.ok(err)
	const passed, none = "has passed", "no time of the schedule is left up to 2026-03-03 08:00"
	for n, c := range []struct{ times, place string }{
		{`{at: "2026-03-02 09:01"}`, ""},
		{`{at: "2026-03-02 09:00"}`, "entry.when[0].at"}, // now
		{`{at: "2026-03-02 08:59"}`, "entry.when[0].at"},
		{`{at: "2026-03-02 10:00", zone: Europe/Berlin}`, "entry.when[0].at"}, // now
		{`{at: "2026-03-02 10:01", zone: Europe/Berlin}`, ""},
		{`{at: "2026-03-01 21:00", zone: user}`, "entry.when[0].at"}, // now, where days begin last
		{`{at: "2026-03-01 21:01", zone: user}`, ""},
		{`{at: "2025-01-01 09:00", every: day}`, ""},
		{`{at: "2025-01-01 09:00", every: day, until: "2026-03-03 09:00"}`, ""},
		{`{at: "2025-01-01 09:00", every: day, until: "2026-03-02 09:00"}`, "entry.when[0].until"},
		{`{at: "2026-02-24 09:00", every: week, until: "2026-03-03 08:00"}`, "entry.when[0].until"}, // on Tuesdays at nine
	} {
		w := Written{Text: strings.Replace(text, "TIMES", c.times, 1), YAML: true}
		_, updating := b.Update(t.Context(), "timed", -1, w)
		b.ok(updating)
		again, later := b.Publish(t.Context(), "timed", -1)
		b.ok(later) // people may be on the way
		known, later := b.Validate(t.Context(), w)
		b.ok(later) // as a publish does
		why := passed
		if strings.Contains(c.times, "2026-03-03 08:00") {
			why = none
		}
		warned := len(again.Warnings) == 1 && again.Warnings[0].Place == c.place && strings.Contains(again.Warnings[0].Says, why)
		if warned != (c.place != "") || !slices.Equal(known.Warnings, again.Warnings) {
			t.Errorf("%s: the later publish warns %+v, and validate %+v", c.times, again.Warnings, known.Warnings)
		}
		id := fmt.Sprintf("timed-%d", n)
		w.Text = strings.Replace(w.Text, "id: timed", "id: "+id, 1)
		_, err := b.Validate(t.Context(), w)
		b.create(w.Text) // a draft may say it
		_, publishing := b.Publish(t.Context(), id, -1)
		if c.place == "" {
			b.ok(err)
			b.ok(publishing)
			continue
		}
		b.refused(err, sluice.CodeInvalid, c.place, why)
		b.refused(publishing, sluice.CodeInvalid, c.place, why)
		_, err = b.Simulated(t.Context(), id, Written{})
		b.ok(err)
	}
}
