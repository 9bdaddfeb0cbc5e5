package clocktest

import "time"

const (
	shortestRest = 5 * time.Millisecond
	longestRest  = 100 * time.Millisecond
)

// Rest is between two looks at a condition that a test waits for since a time. What
// comes soon is seen at once, and what takes longer is looked at less often: to look
// means to ask a database or the program, which computes as well.
func Rest(since time.Time) {
	<-time.After(min(longestRest, shortestRest+time.Since(since)/20))
}
