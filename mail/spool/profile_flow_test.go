package spool_test

import (
	"fmt"
	"testing"
	"time"

	"sluice/mail"
	"sluice/mail/spool"
)

// TestWhereTheTimeGoes: each attempt is in each stage once, and pending mail is
// seen by its priority. Windows in flight together have no more time than has
// passed for their mails.
func TestWhereTheTimeGoes(t *testing.T) {
	b := newBed(t)
	gate := make(chan struct{})
	w := newWire(func(*mail.Envelope, int) mail.Result {
		<-gate
		return mail.Result{Kind: mail.ResultSent}
	})
	w.workers, w.window = 2, 8
	began := time.Now()
	o := b.start(w, nil)
	const mails = 100
	for i := range mails {
		o.submit(draft(fmt.Sprintf("u%d@example.com", i), mail.PriorityLow, mail.ClassMarketing))
	}
	later := draft("later@example.com", mail.PriorityNormal, mail.ClassTransactional)
	later.DueMillis = time.Now().Add(time.Hour).UnixMilli()
	o.submit(later)
	var waiting spool.Waiting
	b.eventually("all wait", func() bool {
		var err error
		waiting, err = o.sender.Waiting(t.Context())
		b.must(err)
		return waiting.Sends[mail.PriorityLow] == mails && waiting.Later == 1 && len(waiting.Oldest) > 0 && len(w.came()) > 0
	})
	if oldest := waiting.Oldest[mail.PriorityLow]; oldest.Before(began.Add(-time.Second)) || oldest.After(time.Now().Add(time.Second)) {
		t.Errorf("the oldest waits since %v, the test began at %v", oldest, began)
	}
	if len(waiting.Oldest) != 1 || waiting.Sends[mail.PriorityNormal] != 0 {
		t.Errorf("of other priorities waits %v", waiting)
	}
	close(gate)
	b.eventually("all are recorded", func() bool { return o.waiting() == 1 })
	b.eventually("all are counted", func() bool {
		routes := o.sender.Stats.Routes(time.Now())
		return len(routes) == 1 && routes[0].All.Mails == mails
	})
	passed := time.Since(began).Seconds()
	p := o.sender.Stats.Routes(time.Now())[0]
	sum := 0.0
	for stage, h := range p.All.Stages {
		if h.Count != mails {
			t.Errorf("%d of %d mails were in the stage %s", h.Count, mails, mail.Stage(stage))
		}
		sum += h.Sum
	}
	if sum <= 0 || sum > mails*(passed+1) { // a second for Redis's clock
		t.Errorf("%d mails have %v s together, and %v s have passed", mails, sum, passed)
	}
	for _, stage := range []mail.Stage{mail.StageLane, mail.StageMark, mail.StageRecord, mail.StageOther} {
		if p.All.Stages[stage].Sum <= 0 {
			t.Errorf("the stage %s took no time", stage)
		}
	}
	if p.Route != "wire" || p.Results[mail.ResultSent] != mails || p.Recent.Mails != mails {
		t.Errorf("%s: %v, %d of them in the last minute", p.Route, p.Results, p.Recent.Mails)
	}
}
