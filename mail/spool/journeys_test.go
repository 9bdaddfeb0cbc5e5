package spool

import (
	"context"
	"log/slog"
	"testing"

	"sluice"
	"sluice/mail"
)

// answering says the same of all mail, and notes what it was asked about.
type answering struct {
	mail.Leave
	asked []string
}

func (a *answering) MayLeave(_ context.Context, _ int, sends []*mail.Send) ([]mail.Leave, error) {
	answers := make([]mail.Leave, len(sends))
	for i, s := range sends {
		a.asked, answers[i] = append(a.asked, s.Message), a.Leave
	}
	return answers, nil
}

// Mail that was in doubt is asked about before it is attempted once more, and mail that
// cannot be made now. What is cancelled is not attempted; what may have arrived stays in
// doubt. What is over is not asked about.
func TestMailInDoubtIsAskedAbout(t *testing.T) {
	for _, x := range []struct {
		name  string
		leave mail.Leave
	}{{"cancelled", mail.Leave{Cancel: "exited a/b"}}, {"held", mail.Leave{AgainMillis: 5}}, {"free", mail.Leave{}}} {
		says := &answering{Leave: x.leave}
		s := &Sender{Journeys: says, Clock: sluice.SystemClock{}, Log: slog.New(slog.DiscardHandler)}
		of := func(name string, doubted bool) *item {
			return &item{part: &part{}, send: mail.Send{Message: name, Journey: "a", Step: "b", Doubted: doubted, ExpiresMillis: 1 << 50}}
		}
		fresh, doubted, later, over := of("fresh", false), of("doubted", true), of("later", false), of("over", false)
		made := map[*item]*envelope{
			fresh: {}, doubted: {}, later: {verdict: notNow(&later.send, ErrNotNow, 1)}, over: fault(&over.send, reasonExpired, "", 1),
		}
		s.askJourneys(t.Context(), []*item{fresh, doubted, later, over}, made)
		if len(says.asked) != 3 {
			t.Errorf("%s: it was asked about %v, want all but what is over", x.name, says.asked)
		}
		for it, state := range map[*item]mail.SendState{fresh: mail.SendCancelled, doubted: mail.SendInDoubt, later: mail.SendCancelled} {
			v := made[it].verdict
			switch x.name {
			case "cancelled":
				if v.outcome == nil || v.outcome.State != state || v.outcome.Reason != x.leave.Cancel || v.outcome.DueMillis != 0 || v.again != nil {
					t.Errorf("%s, %s: outcome %+v, again %v", x.name, it.send.Message, v.outcome, v.again)
				}
			case "held":
				if v.again == nil || it != later && (v.again.DueMillis != 5 || v.again.Doubted != it.send.Doubted) {
					t.Errorf("%s, %s: again %+v", x.name, it.send.Message, v.again)
				}
			case "free":
				if it != later && (v.outcome != nil || v.again != nil) {
					t.Errorf("%s, %s: outcome %+v, again %v", x.name, it.send.Message, v.outcome, v.again)
				}
			}
		}
		if v := made[over].verdict; v.outcome.State != mail.SendFailed {
			t.Errorf("%s: what was over is %s", x.name, v.outcome.State)
		}
	}
}
