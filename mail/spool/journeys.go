package spool

import (
	"context"
	"time"

	"sluice/mail"
)

// Journeys is asked about mail of journeys before it leaves: its person may have left
// the journey since the mail was made, or the journey is paused. An answer is for each
// send; all are of one partition.
type Journeys interface {
	MayLeave(ctx context.Context, partition int, sends []*mail.Send) ([]mail.Leave, error)
}

// journeysAgain is after what time mail of journeys is looked at again of which it could
// not be known whether it may leave.
const journeysAgain = 2 * time.Second

// askJourneys asks about the mail of journeys in a window, just before it is marked. The
// answer becomes the verdict: what must not leave is cancelled, and what must not leave
// yet waits in later, where it keeps nothing else. So does what cannot be asked about.
//
// One that was in doubt is asked about as well, before it is attempted once more. If it
// must not leave it stays in doubt, for it may have arrived, and the reason says why there
// was no further attempt. One that could not be made now is asked about too: else it would
// be tried until it expires for a person who is gone.
func (s *Sender) askJourneys(ctx context.Context, window []*item, made map[*item]*envelope) {
	var of map[*part][]*item
	for _, it := range window {
		if it.send.Journey == "" || it.broken != nil || s.Journeys == nil || made[it].verdict.over() {
			continue
		}
		if of == nil {
			of = make(map[*part][]*item, 1)
		}
		of[it.part] = append(of[it.part], it)
	}
	for p, items := range of {
		sends := make([]*mail.Send, len(items))
		for i, it := range items {
			sends[i] = &it.send
		}
		answers, err := s.Journeys.MayLeave(ctx, p.number, sends)
		now := s.Clock.Now()
		if err != nil {
			if ctx.Err() == nil {
				s.Log.Warn("it could not be asked whether mail of journeys may leave; it waits", "partition", p.number, "sends", len(items), "error", err)
			}
			answers = make([]mail.Leave, len(items))
			for i := range answers {
				answers[i].AgainMillis = now.Add(journeysAgain).UnixMilli()
			}
		}
		for i, it := range items {
			switch a := &answers[i]; {
			case a.Cancel != "":
				made[it].verdict = verdict{outcome: outcomeOf(&it.send, mail.SendCancelled, "", now.UnixMilli())}
				made[it].verdict.outcome.Reason = a.Cancel
			case a.AgainMillis != 0 && made[it].verdict.again == nil:
				again := it.send
				again.DueMillis = a.AgainMillis
				made[it].verdict.again = &again
			}
		}
	}
}
