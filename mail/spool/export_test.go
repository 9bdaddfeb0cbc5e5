package spool

import (
	"time"

	"sluice/flow"
)

// CancelWithin is how long a cancel or a decision waits for the ledger.
const CancelWithin = cancelWithin

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

// LookEvery has partitions looked through so often, until restore is called.
func LookEvery(d time.Duration) (restore func()) {
	every, again := lookEvery, lookAgain
	lookEvery, lookAgain = d, d
	return func() { lookEvery, lookAgain = every, again }
}

// Held returns how many sends have been read of the lanes and not taken by a
// worker yet.
func (s *Sender) Held() (n int) {
	for _, p := range s.held() {
		n += int(p.waiting.Load())
	}
	return n
}

// SayMarks has another process say what this one says of its marks.
func (s *Sender) SayMarks(l *flow.Leases) { l.Say(marksWord, s.oldestMark) }

// Looks returns how often a partition was looked through for such sends.
func (s *Stats) Looks() int64 { return s.looks.Load() }
