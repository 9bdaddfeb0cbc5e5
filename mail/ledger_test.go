package mail

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"sluice"
)

// A life that grows too long keeps its beginning and its end, and says how many
// lines are missing.
func TestLongLife(t *testing.T) {
	row := NewSendRow(&StoredSend{Send: Send{Message: strings.Repeat("0", sluice.MessageIDBytes), AcceptedMillis: 1}})
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

// A send that has left is sent, also if it was cancelled before that is recorded: Redis had
// gone back. It is not cancelled after it was sent, nor sent because somebody decides so.
func TestSentWinsOverCancelled(t *testing.T) {
	sent := Outcome{Was: SendWaiting, State: SendSent, Attempts: 1, TimeMillis: 40, Route: "relay", Code: 250}
	for _, ended := range []SendState{SendCancelled, SendSuppressed} {
		for _, was := range []SendState{SendWaiting, SendInDoubt} {
			row, o := SendRow{State: SendWaiting}, sent
			o.Was = was
			never := Outcome{Was: SendWaiting, State: ended, TimeMillis: 50, Reason: "exited a/b"}
			if got := row.Record(&never); got != RecordedChange {
				t.Fatalf("%s is recorded as %d", ended, got)
			}
			decided := Outcome{Was: SendInDoubt, State: SendSent, TimeMillis: 60, Reason: ReasonDecided}
			if got := row.Record(&decided); got != RecordedLate || row.State != ended {
				t.Errorf("decided: recorded as %d, %+v", got, row)
			}
			if got := row.Record(&o); got != RecordedChange || row.State != SendSent || row.Attempts != 1 || row.Route != "relay" || row.Reason != "" {
				t.Errorf("sent behind %s: recorded as %d, %+v", ended, got, row)
			}
			never.TimeMillis = 70
			if got := row.Record(&never); got != RecordedLate || row.State != SendSent {
				t.Errorf("%s behind sent: recorded as %d, %+v", ended, got, row)
			}
			if got := row.Record(&o); got != RecordedNothing {
				t.Errorf("once more: recorded as %d", got)
			}
		}
	}
}

// Of who is erased a row tells nothing, and still what happened, and when.
func TestSendRowErase(t *testing.T) {
	s := StoredSend{Send: Send{Message: strings.Repeat("a", sluice.MessageIDBytes), To: "ann@example.com", User: "u-7", Metadata: `{"who":"ann"}`, Tags: "autumn", AcceptedMillis: 1}}
	r := NewSendRow(&s)
	outcome := func(was, state SendState, at int64, attempt int) {
		r.Record(&Outcome{Was: was, State: state, Event: sluice.EventDeferred, TimeMillis: at, Attempts: attempt, Route: "relay", Remote: "mx.ann.example", Code: 450, Reply: "4.2.1 <ann@example.com> is busy", Reason: "slow"})
	}
	outcome(SendWaiting, SendWaiting, 2, 1)
	outcome(SendSent, SendFailed, 3, 2) // too late
	for i := range 300 {
		outcome(SendWaiting, SendWaiting, int64(10+i), 3+i)
	}
	before := r
	r.Erase(900)
	if strings.Contains(fmt.Sprintf("%+v", r), "ann") || r.To+r.User+r.Metadata+r.Reply != "" {
		t.Errorf("left: %+v", r)
	}
	if r.State != before.State || r.Attempts != before.Attempts || r.Tags != "autumn" || r.Reason != "slow" || strings.Count(r.Life, "\n") != strings.Count(before.Life, "\n")+1 {
		t.Errorf("lost: %+v", r)
	}
	for _, want := range []string{`{"at":1,"event":"queued","state":"waiting"}`, `{"at":3,"event":"deferred","was":"sent","state":"failed","attempt":2,"route":"relay","code":450,"reason":"slow","late":true}`, `{"left_out":`, `{"at":900,"event":"erased","state":"waiting"}`} {
		if !strings.Contains(r.Life, want) {
			t.Errorf("no %s in\n%.600s", want, r.Life)
		}
	}
	once := r
	if r.Erase(901); r != once {
		t.Error("erased twice is something else")
	}
	// What becomes of it later is recorded, and what a server says of it is not.
	outcome(SendWaiting, SendFailed, 950, 400)
	outcome(SendWaiting, SendFailed, 951, 401)
	if r.State != SendFailed || r.Reply != "" || strings.Contains(r.Life, "ann") || !strings.Contains(r.Life, `"at":950,`) || !strings.Contains(r.Life, `"at":951,`) {
		t.Errorf("after it: %+v", r)
	}
}
