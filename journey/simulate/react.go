package simulate

import (
	"container/heap"
	"math/rand/v2"
	"time"

	"sluice/journey"
)

// Reactions are what people do with the mail of the journey. Every mail is received a
// second after it is made. The same seed makes the same people react.
type Reactions struct {
	Opens, Clicks float64 // shares of mails, 0 to 1; who clicks has opened
	Seed          uint64
}

// How long people take on average.
const (
	opensAfter  = 4 * time.Hour
	clicksAfter = 10 * time.Minute // after the opening
)

// reactions are facts about mail and updates that are still to come, the earliest first.
type reactions struct {
	all  []reaction
	made int // decides between equal times
}

type reaction struct {
	Happening
	made int
}

func (q *reactions) Len() int { return len(q.all) }
func (q *reactions) Less(i, j int) bool {
	a, b := &q.all[i], &q.all[j]
	return a.At.Before(b.At) || a.At.Equal(b.At) && a.made < b.made
}
func (q *reactions) Swap(i, j int) { q.all[i], q.all[j] = q.all[j], q.all[i] }

// Push and Pop are for package heap.
func (q *reactions) Push(x any) { q.all = append(q.all, x.(reaction)) }

// Pop removes the last.
func (q *reactions) Pop() any {
	last := len(q.all) - 1
	x := q.all[last]
	q.all = q.all[:last]
	return x
}

// follows has a fact told later, if the journey wants it.
func (r *runner) follows(person int32, at time.Time, f journey.Fact) {
	if !at.After(r.in.Until) && r.journey.Wants(&f) {
		r.reactions.made++
		heap.Push(&r.reactions, reaction{Happening{int(person), at, f}, r.reactions.made})
	}
}

// mail makes a mail, and what the person will do with it.
func (r *runner) mail(person int32, at int, now time.Time) {
	tell := func(what journey.MailEvent, when time.Time) {
		r.follows(person, when, journey.Fact{Kind: journey.FactMail, Name: string(what), Body: r.mailed[at].Text()})
	}
	received := now.Add(receivedAfter)
	tell(journey.MailReceived, received)
	random := rand.New(rand.NewPCG(r.in.Reactions.Seed+uint64(now.Unix()), uint64(person)<<16|uint64(at)))
	likes, pause, more := random.Float64(), random.ExpFloat64(), random.ExpFloat64()
	one := got{of: &r.mailed[at], made: now.UnixMilli(), caps: r.mailings[at].Counts}
	if clicks := r.in.Reactions.Clicks; likes < max(clicks, r.in.Reactions.Opens) {
		opened := received.Add(time.Duration(pause * float64(opensAfter)))
		one.opened = opened.UnixMilli()
		tell(journey.MailOpened, opened)
		if likes < clicks {
			clicked := opened.Add(time.Duration(more * float64(clicksAfter)))
			one.clicked = clicked.UnixMilli()
			tell(journey.MailClicked, clicked)
		}
	}
	if r.got != nil {
		r.got[person] = append(r.got[person], one)
	}
}

// react tells what follows by now. Profiles have it already.
func (r *runner) react(now time.Time) error {
	for r.reactions.Len() > 0 && !r.reactions.all[0].At.After(now) {
		h := heap.Pop(&r.reactions).(reaction).Happening
		if err := r.told(&h, now); err != nil {
			return err
		}
	}
	return nil
}
