package sluice

import (
	"testing"
	"time"
	_ "time/tzdata"
)

// Wherever a day begins within an hour of UTC, that hour is kept by quarters, and
// the day begins with one.
func TestHoursInWhichDaysBegin(t *testing.T) {
	for _, name := range []string{
		"Asia/Kolkata", "Asia/Kathmandu", "Asia/Yangon", "Asia/Tehran", "Asia/Kabul", "Asia/Colombo", "Australia/Adelaide", "Australia/Darwin", "Australia/Eucla",
		"Australia/Lord_Howe", "Pacific/Chatham", "Pacific/Marquesas", "Pacific/Norfolk", "America/St_Johns", "America/Caracas", "Asia/Pyongyang", "Europe/Vienna",
	} {
		zone, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		for n := range 20 * 365 {
			day := time.Date(2008, 1, 1+n, 0, 0, 0, 0, zone)
			at := day.UnixMilli()
			before, from := Count{TimeMillis: RoundCountTime(at - 1)}, Count{TimeMillis: RoundCountTime(at)}
			if at%millisPerHour != 0 && (before.Quarter() == 0 || from.Quarter() != before.Quarter()+1 || before.TimeMillis/millisPerHour != from.TimeMillis/millisPerHour) {
				t.Fatalf("%s begins within an hour that is not divided there: quarters %d and %d", day, before.Quarter(), from.Quarter())
			}
			if at%millisPerHour == 0 && before.TimeMillis/millisPerHour == from.TimeMillis/millisPerHour {
				t.Fatalf("%s is not told from the day before", day)
			}
		}
	}
	const hour = 18 * millisPerHour
	for millis, want := range map[int64]int{hour: 1, hour + millisPerQuarter - 1: 1, hour + millisPerQuarter: 2, hour + millisPerHour - 1: 4, 0: 0, millisPerHour - 1: 0} {
		if c := (Count{TimeMillis: RoundCountTime(millis)}); c.Quarter() != want || c.TimeMillis/millisPerHour != millis/millisPerHour {
			t.Errorf("%d is in quarter %d of %d, want %d", millis, c.Quarter(), c.TimeMillis, want)
		}
	}
	for _, millis := range []int64{hour, hour + 2*millisPerQuarter} { // as hashes and versions before say it
		if c := (Count{TimeMillis: millis}); c.Quarter() != 0 {
			t.Errorf("of %d a quarter is known: %d", millis, c.Quarter())
		}
	}
}
