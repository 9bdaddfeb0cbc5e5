package timetext

import (
	"testing"
	"time"
)

// Days that begin at one o'clock, twice, or not at all.
func TestStartOfDay(t *testing.T) {
	for _, c := range []struct{ zone, at, start, after string }{
		{"UTC", "2026-09-06T12:00:00Z", "2026-09-06T00:00:00Z", "2026-09-07T00:00:00Z"},
		{"Europe/Berlin", "2026-03-29T12:00:00+02:00", "2026-03-29T00:00:00+01:00", "2026-03-30T00:00:00+02:00"},
		{"America/Santiago", "2026-09-05T23:30:00-04:00", "2026-09-05T00:00:00-04:00", "2026-09-06T01:00:00-03:00"},
		{"America/Santiago", "2026-09-06T12:00:00-03:00", "2026-09-06T01:00:00-03:00", "2026-09-07T00:00:00-03:00"},
		{"America/Santiago", "2026-04-04T23:30:00-04:00", "2026-04-04T00:00:00-03:00", "2026-04-05T00:00:00-04:00"},
		{"America/Havana", "2026-11-01T12:00:00-05:00", "2026-11-01T00:00:00-04:00", "2026-11-02T00:00:00-05:00"},
		{"Antarctica/Casey", "2023-03-09T12:00:00+08:00", "2023-03-09T00:00:00+11:00", "2023-03-10T00:00:00+08:00"},
		{"Pacific/Apia", "2011-12-29T12:00:00-10:00", "2011-12-29T00:00:00-10:00", "2011-12-31T00:00:00+14:00"},
	} {
		zone, err := time.LoadLocation(c.zone)
		if err != nil {
			t.Fatal(err)
		}
		at, err := time.Parse(time.RFC3339, c.at)
		if err != nil {
			t.Fatal(err)
		}
		at = at.In(zone)
		if got := StartOfDay(at).Format(time.RFC3339); got != c.start {
			t.Errorf("%s, %s: the day begins at %s, want %s", c.zone, c.at, got, c.start)
		}
		if got := DayAfter(at).Format(time.RFC3339); got != c.after {
			t.Errorf("%s, %s: the next begins at %s, want %s", c.zone, c.at, got, c.after)
		}
	}
}

func TestParseIn(t *testing.T) {
	for _, c := range []struct{ text, zone, want string }{
		{"2026-11-01", "Europe/Berlin", "2026-11-01T00:00:00+01:00"},
		{"20261101", "Europe/Berlin", "2026-11-01T00:00:00+01:00"},
		{" 2026-11-01 10:20 ", "Europe/Berlin", "2026-11-01T10:20:00+01:00"},
		{"2026-11-01T10:20:30.5", "Europe/Berlin", "2026-11-01T10:20:30+01:00"},
		{"2026-11-01T10:20Z", "Europe/Berlin", "2026-11-01T11:20:00+01:00"},
		{"2026-11-01T10:20-05:00", "Europe/Berlin", "2026-11-01T16:20:00+01:00"},
		{"1793527200", "Europe/Berlin", "2026-11-01T11:00:00+01:00"},
		{"2026-09-06", "America/Santiago", "2026-09-06T01:00:00-03:00"},
		{"2026-03-29T02:30", "Europe/Berlin", "2026-03-29T03:00:00+02:00"},
		{"2026-10-25T02:30", "Europe/Berlin", "2026-10-25T02:30:00+02:00"},
	} {
		zone, err := time.LoadLocation(c.zone)
		if err != nil {
			t.Fatal(err)
		}
		ms, err := ParseIn(c.text, zone)
		if got := time.UnixMilli(ms).In(zone).Format(time.RFC3339); err != nil || got != c.want {
			t.Errorf("%q in %s: %s, %v, want %s", c.text, c.zone, got, err, c.want)
		}
	}
	if ms, err := ParseIn("soon", time.UTC); err == nil {
		t.Errorf("soon is %d", ms)
	}
}

// What is no event's time may be older than events: birthdays are.
func TestParseAnyIn(t *testing.T) {
	vienna, err := time.LoadLocation("Europe/Vienna")
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"1958-03-30": "1958-03-30T00:00:00+01:00", "19580330": "1958-03-30T00:00:00+01:00", "1969-12-31T23:59:59.999Z": "1970-01-01T00:59:59+01:00",
		"0001-01-02T00:00:00Z": "0001-01-02T01:05:21+01:05", "2026-11-01": "2026-11-01T00:00:00+01:00", "86400": "1970-01-02T01:00:00+01:00",
	} {
		ms, err := ParseAnyIn(text, vienna)
		if got := time.UnixMilli(ms).In(vienna).Format(time.RFC3339); err != nil || got != want {
			t.Errorf("%q: %s, %v, want %s", text, got, err, want)
		}
		if _, err := ParseIn(text, vienna); (err == nil) != (ms >= 0) && text != "19580330" {
			t.Errorf("%q as an event's time: %v", text, err)
		}
	}
	for _, text := range []string{"0000-12-31", "10000-01-01", "-1", "soon"} {
		if ms, err := ParseAnyIn(text, vienna); err == nil {
			t.Errorf("%q is %d", text, ms)
		}
	}
}
