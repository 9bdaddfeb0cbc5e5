package sluice

// Days begin within an hour of UTC where a zone's offset is no whole number of
// hours: in India at 18:30, in Nepal at 18:15. Of those hours the series keep by
// quarters of an hour what was counted, so that days of such a zone can be added
// up. A count says so by its time: 1 ms into its quarter. Times that are rounded
// to an hour, as those of versions before 0.2.0 and of hashes are, have no such
// end, so nothing else has to be written into the logs, and no quarter is guessed.
const (
	millisPerHour    = 60 * 60 * 1000
	millisPerQuarter = 15 * 60 * 1000
	quarterMark      = 1
)

// Quarters is how many quarters an hour has.
const Quarters = millisPerHour / millisPerQuarter

// dividedHours are the hours of a UTC day in which days of a zone begin, or did
// since 1970. The offsets:
//
// -3:30 and -2:30 (Newfoundland), -4:30 (Venezuela), -9:30 (Marquesas).
// +13:45 and +12:45 (Chatham), +11:30 (Norfolk), +10:30, +9:30 (Australia), +8:45 and +8:30 (Eucla,
// Korea). +6:30 (Myanmar), +5:45 and +5:30 (Nepal, India), +4:30 and +3:30
// (Afghanistan, Iran).
var dividedHours = [24]bool{2: true, 3: true, 4: true, 9: true, 10: true, 11: true, 12: true, 13: true, 14: true, 15: true, 17: true, 18: true, 19: true, 20: true}

// RoundCountTime rounds the time at which something was counted, in ms, not
// before 1970: to its hour, or to its quarter where days may begin within the hour.
func RoundCountTime(millis int64) int64 {
	hour := millis - millis%millisPerHour
	if !dividedHours[hour/millisPerHour%24] {
		return hour
	}
	return millis - millis%millisPerQuarter + quarterMark
}

// Quarter returns the quarter of the hour that a count belongs to, from 1 to
// Quarters; 0: only the hour is known, or kept.
func (c *Count) Quarter() int {
	if c.TimeMillis < 0 || c.TimeMillis%millisPerQuarter != quarterMark {
		return 0
	}
	return int(c.TimeMillis%millisPerHour/millisPerQuarter) + 1
}
