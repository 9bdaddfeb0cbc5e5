package run

import (
	"context"
	"fmt"
	"slices"
	"time"

	"sluice/flow"
	"sluice/journey"
	"sluice/journey/env"
	"sluice/journey/plan"
	"sluice/journey/step"
	"sluice/mail"
	"sluice/user"
)

// quiet says of mail that was made a while ago whether it would come in the hours without
// mail: then it waits for their end, or is left out, as its version of the journey says. What
// is cancelled is not looked at, nor is transactional mail, which no such hours hold. A version
// that has ended does not know the class of a template. All of it takes gateWait at most: the
// window has other mail.
func (g *Gate) quiet(ctx context.Context, partition int, j *plans, records []flow.Record, sends []*mail.Send, cancelled []string) ([]mail.Leave, error) {
	ctx, cancel := context.WithTimeout(ctx, gateWait)
	defer cancel()
	answers, now := make([]mail.Leave, len(sends)), g.clock.Now()
	asked := make(map[int]*quietStep)
	var people []user.ID // whose zones decide
	for i, s := range sends {
		if cancelled[i] != "" || s.Class == mail.ClassTransactional || now.Sub(time.UnixMilli(s.AcceptedMillis)) < quietAfter {
			continue
		}
		of, err := g.quietStep(ctx, j, &records[i], s)
		if err != nil {
			return nil, err
		}
		if of == nil {
			continue
		}
		if asked[i] = of; of.walk.Plan().Quiet.Zone.User {
			people = append(people, user.ID{Partition: partition, Number: s.Person})
		}
	}
	profiles, err := g.profiles(ctx, people)
	if err != nil {
		return nil, err
	}
	for i, of := range asked {
		id := user.ID{Partition: partition, Number: sends[i].Person}
		switch until, skip := of.walk.Quiet(of.at, &step.Person{ID: id, Profile: profiles[id]}, now); {
		case until.Equal(now):
		case skip:
			answers[i].Cancel = fmt.Sprintf("quiet %s/%s", sends[i].Journey, sends[i].Step)
		default:
			answers[i].AgainMillis = until.UnixMilli()
		}
	}
	return answers, nil
}

// quietStep is the message step of a mail, in the version of its person.
type quietStep struct {
	walk *step.Journey
	at   int
}

// quietStep finds that of a mail; nil: its version has no hours without mail, or no such step.
func (g *Gate) quietStep(ctx context.Context, j *plans, raw *flow.Record, s *mail.Send) (of *quietStep, err error) {
	var r journey.Record
	var walk *step.Journey
	if r.Decode(raw[:]) == nil && r.State != journey.StateNone {
		if walk, err = j.walkOf(ctx, g.store, env.Anything{}, &r); err != nil {
			return nil, err
		}
	} else if j.current != nil {
		walk = j.current.walk
	}
	if walk == nil || walk.Plan().Quiet == nil {
		return nil, nil
	}
	at := slices.IndexFunc(walk.Plan().Steps, func(p plan.PlanStep) bool { return p.ID == s.Step && p.Message != nil })
	if at < 0 || walk.Plan().Steps[at].Message.IgnoreQuiet {
		return nil, nil
	}
	return &quietStep{walk, at}, nil
}

// profiles reads those of people, goneAtOnce by one statement.
func (g *Gate) profiles(ctx context.Context, people []user.ID) (map[user.ID]string, error) {
	profiles := make(map[user.ID]string, len(people))
	for some := range slices.Chunk(people, goneAtOnce) {
		found, err := g.store.Users(ctx, user.Query{IDs: some})
		if err != nil {
			return nil, err
		}
		for _, id := range some {
			if row, ok := found.Owner(id); ok {
				profiles[id] = row.Profile
			}
		}
	}
	return profiles, nil
}
