package plan

import (
	"strings"
	"testing"
	"time"
)

func scheduleOf(t *testing.T, trigger string) *Schedule {
	t.Helper()
	return compiled(t, "{id: a, entry: {when: {"+trigger+"}}, steps: [{id: s, exit: {}}]}").Entry.When[0].At
}

func TestSchedules(t *testing.T) {
	for _, c := range []struct {
		trigger, after string
		want           string // moments, one after the other, as clocks show them there
	}{
		{"at: 2026-03-02 09:00", "2026-03-01T00:00:00Z", "2026-03-02T09:00:00Z"},
		{"at: 2026-03-02 09:00", "2026-03-02T09:00:00Z", ""},
		{"at: 2026-03-02 09:00, zone: Asia/Tokyo", "2026-03-01T00:00:00Z", "2026-03-02T09:00:00+09:00"},
		{"at: 2026-03-28 02:30, every: day, until: 2026-03-31 02:30, zone: Europe/Berlin", "2026-01-01T00:00:00Z",
			"2026-03-28T02:30:00+01:00 2026-03-29T03:00:00+02:00 2026-03-30T02:30:00+02:00 2026-03-31T02:30:00+02:00"}, // one never comes
		{"at: 2026-10-24 02:30, every: day, until: 2026-10-26 02:30, zone: Europe/Berlin", "2026-01-01T00:00:00Z",
			"2026-10-24T02:30:00+02:00 2026-10-25T02:30:00+02:00 2026-10-26T02:30:00+01:00"}, // one comes twice
		{"at: 2011-12-29 09:00, every: day, until: 2011-12-31 09:00, zone: Pacific/Apia", "2011-01-01T00:00:00Z",
			"2011-12-29T09:00:00-10:00 2011-12-31T09:00:00+14:00"}, // a day that was left out
		{"at: 2026-03-27 23:30, every: day, until: 2026-03-29 23:30, zone: America/Nuuk", "2026-01-01T00:00:00Z",
			"2026-03-27T23:30:00-02:00 2026-03-29T00:00:00-01:00 2026-03-29T23:30:00-01:00"}, // the last hour of a day never comes
		{"at: 2026-03-04 09:00, every: week, weekdays: [friday, monday], until: 2026-03-14 00:00", "2026-03-04T10:00:00Z",
			"2026-03-06T09:00:00Z 2026-03-09T09:00:00Z 2026-03-13T09:00:00Z"},
		{"at: 2026-03-04 09:00, every: week, until: 2026-03-19 00:00", "2026-03-04T09:00:00Z", "2026-03-11T09:00:00Z 2026-03-18T09:00:00Z"},
		{"at: 2026-01-31 09:00, every: month, until: 2026-05-01 00:00", "2026-01-01T00:00:00Z",
			"2026-01-31T09:00:00Z 2026-02-28T09:00:00Z 2026-03-31T09:00:00Z 2026-04-30T09:00:00Z"},
		{"at: 2028-01-01 09:00, every: month, days: [1, 29, 30], until: 2028-03-02 00:00", "2028-01-01T08:59:59Z",
			"2028-01-01T09:00:00Z 2028-01-29T09:00:00Z 2028-01-30T09:00:00Z 2028-02-01T09:00:00Z 2028-02-29T09:00:00Z 2028-03-01T09:00:00Z"},
	} {
		s := scheduleOf(t, c.trigger)
		at, err := time.Parse(time.RFC3339, c.after)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for range 20 {
			next, ok := s.Next(at, nil)
			if !ok {
				break
			}
			if !next.After(at) {
				t.Fatalf("%s: after %v comes %v", c.trigger, at, next)
			}
			at = next
			got = append(got, at.In(s.Zone.Location).Format(time.RFC3339))
		}
		if text := strings.Join(got, " "); text != c.want {
			t.Errorf("%s\nis due %s\nwant   %s", c.trigger, text, c.want)
		}
	}
}

// A schedule in the zone of each person is due when clocks there show it.
func TestScheduleOfEachZone(t *testing.T) {
	s := scheduleOf(t, "at: 2026-03-02 09:00, zone: user")
	for name, want := range map[string]string{"": "2026-03-02T09:00:00Z", "Asia/Tokyo": "2026-03-02T00:00:00Z", "America/New_York": "2026-03-02T14:00:00Z"} {
		var own *time.Location
		if name != "" {
			zone, err := time.LoadLocation(name)
			if err != nil {
				t.Fatal(err)
			}
			own = zone
		}
		if at, ok := s.Next(time.Unix(0, 0), own); !ok || at.UTC().Format(time.RFC3339) != want {
			t.Errorf("in %q it is due %v, %v; want %s", name, at, ok, want)
		}
	}
}
