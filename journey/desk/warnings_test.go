package desk

import (
	"fmt"
	"strings"
	"testing"
)

// Who may enter again after a day, or a week, misses the time on the day of 23 hours on which
// clocks are put forward: it is warned of, where clocks are. So is a conversion that counts as
// long.
func TestAgainAfterADayIsWarnedOf(t *testing.T) {
	for text, want := range map[string]string{
		"{every: day, zone: user}, again_after: 1d":                              "say 23h",
		"{every: day, zone: Europe/Vienna}, again_after: 24h":                    "say 23h",
		"{every: week, zone: user}, again_after: 1w":                             "say 167h",
		"{every: day, zone: user}, again_after: 23h":                             "",
		"{every: day, zone: user}, again_after: 0s":                              "",
		"{every: day, zone: user}":                                               "",
		"{every: day}, again_after: 1d":                                          "",
		"{every: week, zone: user}, again_after: 30d":                            "",
		"{every: week, zone: user, weekdays: [monday, friday]}, again_after: 1w": "",

		"{every: week, zone: user}, again_after: 6d, conversions: {name: c, when: {event: e}, within: 7d}":                                            "conversions[0].within a day is 24 hours here, and one of 23 comes when clocks are put forward: who has gone to the end is not out by the time behind it, and does not enter; say 167h",
		"{every: day, zone: user}, again_after: 0s, conversions: [{name: c, when: {event: e}, within: 1h}, {name: d, when: {event: e}, within: 24h}]": "conversions[1].within",
		"{every: week, zone: user}, again_after: 6d, conversions: {name: c, when: {event: e}, within: 167h}":                                          "",
		"{every: week, zone: user}, again_after: 6d, conversions: {name: c, when: {event: e}, within: 30d}":                                           "",
		"{every: week}, again_after: 6d, conversions: {name: c, when: {event: e}, within: 7d}":                                                        "",
		"{every: week, zone: user}, conversions: {name: c, when: {event: e}, within: 7d}":                                                             "",
	} {
		entry, conversions, _ := strings.Cut(text, ", conversions")
		if conversions != "" {
			conversions = ", conversions" + conversions
		}
		checked, err := ValidateAlone(Written{Text: "{id: a, entry: {when: " + strings.Replace(entry, "{", "{at: \"2026-12-01 09:00\", ", 1) + "}, steps: [{id: s, exit: {}}]" + conversions + "}", YAML: true})
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(checked.Warnings); len(checked.Warnings) > 0 != (want != "") || !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %q", text, got, want)
		}
	}
}
