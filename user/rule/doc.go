// Package rule is the one language of conditions about a user: for segments,
// audiences, splits and triggers. INTERFACES.md has the table of it.
//
// A rule is JSON, compiled once and matched against many profiles:
//
//	r, err := rule.Compile(`{"and":[{"attribute":"plan","is":"equals","value":"gold"},
//	                                {"event":"login","of":"last","is":"less_than_x_days_ago","value":7}]}`)
//	set, err := rule.NewSet(r, ...)
//	unread, err := set.Match(texts, ids, nowMillis, out)
//
// Nothing here does I/O, but for the zone database, or looks at a clock.
package rule
