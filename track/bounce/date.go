package bounce

import (
	netmail "net/mail"
	"slices"
	"strings"
	"time"

	"sluice"
)

// maxDateBytes is the bound of a date. A longer one is none.
const maxDateBytes = 200

// zones are the names that RFC 5322, 4.3 gives an offset to.
var zones = map[string]string{
	"UT": "+0000", "GMT": "+0000",
	"EST": "-0500", "EDT": "-0400", "CST": "-0600", "CDT": "-0500",
	"MST": "-0700", "MDT": "-0600", "PST": "-0800", "PDT": "-0700",
}

// noZone is the offset of a time whose zone is not known (RFC 5322, 4.3).
const noZone = "-0000"

// offsetOf returns the offset of the name of a zone. Single letters, and other names
// of three to five, are not known (RFC 5322, 4.3). What is no name stays as it is.
func offsetOf(zone string) string {
	for _, c := range zone {
		if c|0x20 < 'a' || c|0x20 > 'z' {
			return zone
		}
	}
	if offset := zones[strings.ToUpper(zone)]; offset != "" {
		return offset
	}
	if len(zone) == 2 || len(zone) > 5 { // PM is no zone
		return zone
	}
	return noZone
}

// fromAsctime puts the words of a date of C's asctime into the order of RFC 5322. A
// zone stands before the year, as date(1) writes it, or behind it, or nowhere. The
// words of another date stay as they are.
func fromAsctime(words []string) []string {
	if len(words) < 5 || len(words) > 6 || !strings.Contains(words[3], ":") || len(words[0]) < 3 || len(words[1]) != 3 {
		return words
	}
	if _, err := time.Parse("Jan", words[1]); err != nil {
		return words
	}
	year, zone := words[4], noZone
	if len(words) == 6 {
		zone = words[5]
		if len(zone) == 4 && zone[0] >= '1' && zone[0] <= '9' {
			year, zone = zone, year
		}
	}
	return []string{strings.TrimSuffix(words[0], ",") + ",", words[2], words[1], year, words[3], zone}
}

// date reads a date of RFC 5322 or of asctime and returns it as of RFC 3339 in UTC. It
// is "" if it is none, or before or after the times that events may have. The zone of
// this machine has no say: net/mail would give names the offsets that they have here.
func date(value string) string {
	if len(value) > maxDateBytes {
		return ""
	}
	words := fromAsctime(strings.Fields(stripComments(value)))
	if at := slices.IndexFunc(words, func(w string) bool { return strings.Contains(w, ":") }) + 1; at > 0 && at < len(words) {
		words[at] = offsetOf(words[at])
	}
	t, err := netmail.ParseDate(strings.Join(words, " "))
	if err != nil || t.UnixMilli() < sluice.MinEventTimeMillis || t.UnixMilli() > sluice.MaxEventTimeMillis {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// firstDate returns the first of some values that is a date, or "".
func firstDate(values ...string) string {
	for _, v := range values {
		if d := date(v); d != "" {
			return d
		}
	}
	return ""
}
