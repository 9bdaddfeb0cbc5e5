package spool

import "time"

// ComparePage has pages of so many keys compared, until restore is called.
func ComparePage(keys int) (restore func()) {
	before := comparePage
	comparePage = keys
	return func() { comparePage = before }
}

// WindowTime has windows last so long, until restore is called.
func WindowTime(d time.Duration) (restore func()) {
	before := windowTime
	windowTime = d
	return func() { windowTime = before }
}
