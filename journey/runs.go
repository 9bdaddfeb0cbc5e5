package journey

import (
	"fmt"
	"strconv"
	"strings"
)

// Runs is how far a partition is with the runs of a journey that people enter at times. It is
// a note beside the records.
type Runs struct {
	Last  int64 // the second of the last run
	After int64 // the number of the last person looked at by it; RunsFinished: it is over
	From  int64 // of a run in each person's zone the second from which on it looks; 0: others
}

// RunsFinished is what After is when a run is over.
const RunsFinished = -1

// UnderWay reports whether the last run was begun and is not over. One of before a second, up to
// which what was due is left out, is over: see the resume of a journey.
func (r Runs) UnderWay(skipUntil int64) bool {
	return r.Last > 0 && r.After != RunsFinished && r.Last >= skipUntil
}

// RunsNote names the note of a journey. Before the first run there is none.
func RunsNote(journey int64) string { return "scan:" + strconv.FormatInt(journey, 10) }

// Text is the note.
func (r Runs) Text() string {
	text := fmt.Sprintf("%d/%d", r.Last, r.After)
	if r.From != 0 {
		text += fmt.Sprintf("/%d", r.From)
	}
	return text
}

// ReadRuns reads what Text returned; empty: false.
func ReadRuns(text string) (r Runs, found bool, err error) {
	if text == "" {
		return r, false, nil
	}
	all := [3]int64{0, 0, 0}
	for i, part := range strings.SplitN(text, "/", len(all)) {
		if all[i], err = strconv.ParseInt(part, 10, 64); err != nil {
			return r, false, fmt.Errorf("read how far the last run is: %q: %w", text, err)
		}
	}
	return Runs{all[0], all[1], all[2]}, true, nil
}
