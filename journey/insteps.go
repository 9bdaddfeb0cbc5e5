package journey

import (
	"encoding/json"
	"fmt"
	"strconv"
)

// InSteps is how many people of one partition are in each step of a journey, by the ids of
// steps. The process that moves them keeps it as a note beside their records, and changes it
// in the commit that changes these. Counts of what has happened are stored for good, but
// records may go back to a checkpoint: then steps are taken again, and counted again.
type InSteps map[string]int64

// InStepsNote names the note of a journey. Without people in steps there is none.
func InStepsNote(journey int64) string { return "steps/" + strconv.FormatInt(journey, 10) }

// InStepsKept is the note which says that a partition keeps such notes, as older programs do
// not.
const InStepsKept = "steps"

// Text is the note; empty: nobody is in a step.
func (s InSteps) Text() string {
	if len(s) == 0 {
		return ""
	}
	raw, err := json.Marshal(s)
	if err != nil {
		panic(err) // texts and numbers
	}
	return string(raw)
}

// ReadInSteps reads what Text returned.
func ReadInSteps(text string) (s InSteps, err error) {
	if text == "" {
		return nil, nil
	}
	if err = json.Unmarshal([]byte(text), &s); err != nil {
		return nil, fmt.Errorf("read how many people are in steps of a journey: %w", err)
	}
	return s, nil
}
