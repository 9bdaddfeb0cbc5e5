package spool

import (
	"fmt"
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
			p.gave[mail.PriorityNormal] = q.main
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

// Mail in a sublane goes before the main lane of its own class, and takes turns with the
// other class: a backlog of one class in a sublane keeps no mail of the other waiting.
func TestASublaneTakesTurnsWithTheOtherClass(t *testing.T) {
	for _, wave := range []mail.Class{mail.ClassMarketing, mail.ClassTransactional} {
		one := mail.ClassTransactional + mail.ClassMarketing - wave
		main, single := newQueue(flow.LaneName(mail.PriorityNormal, wave)), newQueue(flow.LaneName(mail.PriorityNormal, one))
		backlog := newQueue(flow.Sublane(main.lane, "tag:spring"))
		p := &part{queues: map[string]*queue{main.lane: main, backlog.lane: backlog, single.lane: single}}
		for range 10 {
			backlog.push([]*item{{}})
			main.push([]*item{{}})
		}
		take := func(stopped map[*queue]bool) *queue {
			q := p.next(mail.PriorityNormal, stopped)
			q.pop(0)
			p.gave[mail.PriorityNormal] = q.main
			return q
		}
		take(nil)
		for range 3 {
			single.push([]*item{{}})
			if take(nil) != single {
				t.Errorf("a single mail waits behind the backlog of %s mail", wave)
			}
			if q := take(nil); q != backlog {
				t.Errorf("%s gives, and the backlog of %s mail has no turn", q.lane, wave)
			}
		}
		if q := take(map[*queue]bool{backlog: true}); q != main {
			t.Errorf("%s gives while the sublane is stopped, want its lane", q.lane)
		}
	}
}

func BenchmarkNext(b *testing.B) {
	for _, sublanes := range []int{0, 32} {
		b.Run(fmt.Sprint(sublanes), func(b *testing.B) {
			p := &part{queues: make(map[string]*queue)}
			add := func(lane string) {
				q := newQueue(lane)
				q.push([]*item{{}})
				p.queues[lane] = q
			}
			for _, lane := range flow.LaneNames {
				add(lane)
			}
			for i := range sublanes {
				add(flow.Sublane(flow.LaneName(mail.PriorityNormal, mail.ClassMarketing), fmt.Sprint(i)))
			}
			b.ReportAllocs()
			for b.Loop() {
				p.gave[mail.PriorityNormal] = p.next(mail.PriorityNormal, nil).main
			}
		})
	}
}
