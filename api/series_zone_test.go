package api

import (
	"strings"
	"testing"
	"time"

	"sluice/store"
)

// Days that begin within an hour of UTC are added up of its quarters, and refused
// with the reason where only the hour is known of what was counted.
func TestDaysWithinHours(t *testing.T) {
	at := func(text string) time.Time {
		when, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		return when
	}
	row := func(hour string, quarter int, count int64) store.SeriesRow {
		return store.SeriesRow{Millis: at(hour).UnixMilli(), Quarter: quarter, Name: "n", Count: count}
	}
	for _, c := range []struct {
		zone string
		rows []store.SeriesRow
		want map[string]int64 // by the beginning of the day; nil: refused
	}{
		{"Asia/Kolkata", []store.SeriesRow{row("2026-01-30T18:00:00Z", 2, 1000), row("2026-01-30T18:00:00Z", 3, 1), row("2026-01-31T05:00:00Z", 0, 2), row("2026-01-31T18:00:00Z", 1, 4), row("2026-01-31T18:00:00Z", 3, 8), row("2026-01-31T19:00:00Z", 4, 16)},
			map[string]int64{"2026-01-30T18:30:00Z": 7, "2026-01-31T18:30:00Z": 24}},
		{"Asia/Kathmandu", []store.SeriesRow{row("2026-01-31T18:00:00Z", 1, 1), row("2026-01-31T18:00:00Z", 2, 2), row("2026-01-31T18:00:00Z", 4, 4)},
			map[string]int64{"2026-01-30T18:15:00Z": 1, "2026-01-31T18:15:00Z": 6}},
		{"Asia/Kolkata", []store.SeriesRow{row("2026-01-31T05:00:00Z", 0, 2), row("2026-01-31T18:00:00Z", 0, 1)}, nil},
		{"Asia/Kolkata", []store.SeriesRow{row("2026-01-31T05:00:00Z", 0, 2), row("2026-01-31T18:00:00Z", 0, 0)}, map[string]int64{"2026-01-30T18:30:00Z": 2}},
	} {
		zone, err := time.LoadLocation(c.zone)
		if err != nil {
			t.Fatal(err)
		}
		wanted := &seriesRequest{zone: zone, from: time.Date(2026, 1, 31, 0, 0, 0, 0, zone), to: time.Date(2026, 2, 2, 0, 0, 0, 0, zone)}
		if !wanted.withinHours() {
			t.Errorf("days of %s begin within hours", c.zone)
		}
		days, err := addUpDays(c.rows, wanted)
		if c.want == nil {
			if err == nil || !strings.Contains(err.Error(), "within the hour from 2026-01-31T18:00:00Z") {
				t.Errorf("%v: %v, %v", c.rows, days, err)
			}
			continue
		}
		if err != nil || len(days) != len(c.want) {
			t.Errorf("%v: %v, %v", c.rows, days, err)
		}
		for _, d := range days {
			if begins := time.UnixMilli(d.Millis).UTC().Format(time.RFC3339); c.want[begins] != d.Count || d.Quarter != 0 {
				t.Errorf("%s from %s: %+v, want %d", c.zone, begins, d, c.want[begins])
			}
		}
	}
}
