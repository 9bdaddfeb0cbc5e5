package sluice

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// A life that grows too long keeps its beginning and its end, and says how many
// lines are missing.
func TestLongLife(t *testing.T) {
	row := NewSendRow(&StoredSend{Send: Send{Message: strings.Repeat("0", MessageIDBytes), AcceptedMillis: 1}})
	const outcomes = 500
	for i := range outcomes {
		o := Outcome{Was: SendWaiting, State: SendWaiting, DueMillis: 9, TimeMillis: int64(i), Attempts: i + 1, Reply: strings.Repeat("\x01", 10+i%MaxReplyBytes)}
		if got := row.Record(&o); got != RecordedChange {
			t.Fatalf("outcome %d: %d", i, got)
		}
		if len(row.Life) > MaxLifeBytes {
			t.Fatalf("outcome %d: a life of %d bytes", i, len(row.Life))
		}
	}
	lines := strings.Split(strings.TrimSuffix(row.Life, "\n"), "\n")
	missing, marks := 0, 0
	for _, line := range lines {
		var parsed struct {
			LeftOut *int `json:"left_out"`
		}
		if err := json.Unmarshal([]byte(line), &parsed); err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		if parsed.LeftOut != nil {
			missing, marks = missing+*parsed.LeftOut, marks+1
		}
	}
	if marks != 1 || len(lines)-1+missing != outcomes+1 {
		t.Errorf("%d lines, %d marks, %d left out", len(lines), marks, missing)
	}
	if !strings.HasPrefix(lines[0], `{"at":1,"event":"queued"`) || !strings.Contains(lines[len(lines)-1], fmt.Sprintf(`"attempt":%d,`, outcomes)) {
		t.Errorf("begins %q, ends %q", lines[0], lines[len(lines)-1])
	}
}

// Evidence has no number of an attempt, and takes nothing from the row.
func TestRecordEvidence(t *testing.T) {
	row := SendRow{State: SendInDoubt, Attempts: 2, Route: "relay", Reply: "the connection broke", UpdatedMillis: 50}
	if got := row.Record(&Outcome{Was: SendInDoubt, State: SendSent, TimeMillis: 40}); got != RecordedChange {
		t.Fatalf("recorded %d", got)
	}
	row.Life = ""
	if want := (SendRow{State: SendSent, Attempts: 2, Route: "relay", Reply: "the connection broke", UpdatedMillis: 50}); row != want {
		t.Errorf("got  %+v\nwant %+v", row, want)
	}
}
