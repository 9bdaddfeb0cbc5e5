package simulate

import (
	"container/heap"
	"math/rand/v2"
	"strings"
	"time"

	"sluice/journey"
)

// Reactions are what people do with the mail of the journey. Every mail is received at
// the moment at which it is made. The same seed makes the same people react.
type Reactions struct {
	Opens, Clicks float64 // shares of mails, 0 to 1; who clicks has opened
	Seed          uint64
}

// How long people take on average.
const (
	opensAfter  = 4 * time.Hour
	clicksAfter = 10 * time.Minute // after the opening
)

// reactions are facts about mail that are still to come, the earliest first.
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

// mailed notes what a person will do with the mail of a step.
func (r *runner) mailed(person int32, at int, now time.Time) {
	p := r.in.Plan
	m := journey.Mailed{Journey: p.ID, Step: p.Steps[at].ID}
	if of := p.Steps[at].Message; of != nil {
		m.Tags = strings.Join(of.Tags, ",")
	}
	body := m.Text()
	tell := func(what journey.MailEvent, when time.Time) {
		if when.After(r.in.Until) || r.reactions.Len() >= MaxHappenings {
			return
		}
		r.reactions.made++
		f := journey.Fact{Kind: journey.FactMail, Name: string(what), Body: body}
		heap.Push(&r.reactions, reaction{Happening{int(person), when, f}, r.reactions.made})
	}
	tell(journey.MailReceived, now)
	random := rand.New(rand.NewPCG(r.in.Reactions.Seed+uint64(now.Unix()), uint64(person)<<16|uint64(at)))
	likes, pause, more := random.Float64(), random.ExpFloat64(), random.ExpFloat64()
	opened := now.Add(time.Duration(pause * float64(opensAfter)))
	if clicks := r.in.Reactions.Clicks; likes < max(clicks, r.in.Reactions.Opens) {
		tell(journey.MailOpened, opened)
		if likes < clicks {
			tell(journey.MailClicked, opened.Add(time.Duration(more*float64(clicksAfter))))
		}
	}
}

// react tells what people do with mail by now.
func (r *runner) react(now time.Time) error {
	for r.reactions.Len() > 0 && !r.reactions.all[0].At.After(now) {
		h := heap.Pop(&r.reactions).(reaction).Happening
		if err := r.tell(&h, now); err != nil {
			return err
		}
	}
	return nil
}
