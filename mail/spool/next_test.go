package spool

import (
	"testing"

	"sluice/flow"
	"sluice/mail"
)

// The classes of a priority take turns: a transactional mail is the next but one at the
// latest, however much marketing mail came before it, and the other way round.
func TestClassesTakeTurns(t *testing.T) {
	for _, wave := range []mail.Class{mail.ClassMarketing, mail.ClassTransactional} {
		one := mail.ClassTransactional + mail.ClassMarketing - wave
		many, single := newQueue(flow.LaneName(mail.PriorityNormal, wave)), newQueue(flow.LaneName(mail.PriorityNormal, one))
		p := &part{queues: map[string]*queue{many.lane: many, single.lane: single}}
		for range 10 {
			many.push([]*item{{}})
		}
		take := func() *queue {
			q := p.next(mail.PriorityNormal, nil)
			q.pop(0)
			p.gave[mail.PriorityNormal] = q.lane
			return q
		}
		take()
		for range 3 {
			single.push([]*item{{}})
			if take() != single {
				t.Errorf("a single mail waits behind the wave of %s mail", wave)
			}
			if take() != many {
				t.Errorf("the wave of %s mail has no turn", wave)
			}
		}
	}
}
