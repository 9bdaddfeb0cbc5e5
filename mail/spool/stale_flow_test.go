package spool_test

import (
	"sync/atomic"
	"testing"

	"sluice/mail"
	"sluice/test/spooltest"
)

// aging is a list of the suppressed that is too old when asked again and again.
// The answers to Fresh are taken from a script, and then they are true.
type aging struct {
	nobody
	answers []bool
	asked   atomic.Int64
}

func (a *aging) Fresh(mail.Class) bool {
	n := a.asked.Add(1)
	return n > int64(len(a.answers)) || a.answers[n-1]
}

// TestAnOldListKeepsMailInItsLane: neither marked nor lost, and mail of the class
// for which the list is recent enough leaves.
func TestAnOldListKeepsMailInItsLane(t *testing.T) {
	b := newBed(t)
	w := newWire(nil)
	var recent atomic.Bool
	o := b.open(&spooltest.OneRoute{Transport: w}, nil)
	o.sender.Suppress = byClass{recent: &recent}
	o.run()
	o.submit(draft("ann@example.com", mail.PriorityHigh, mail.ClassMarketing))
	o.submit(draft("bob@example.com", mail.PriorityLow, mail.ClassTransactional))
	b.eventually("the transactional mail has left", func() bool { return o.totals() == "waiting 1, sent 1" })
	if came := w.came(); len(came) != 1 || came[0] != "bob@example.com" {
		t.Errorf("%v left while the list was too old for marketing mail", came)
	}
	if n := o.waiting(); n != 1 {
		t.Errorf("%d sends wait, want 1", n)
	}
	recent.Store(true)
	b.eventually("all have left", func() bool { return o.totals() == "sent 2" })
}

// byClass is recent enough for transactional mail, and for all when it is recent.
type byClass struct {
	nobody
	recent *atomic.Bool
}

func (c byClass) Fresh(class mail.Class) bool {
	return class == mail.ClassTransactional || c.recent.Load()
}

// TestAProcessThatStoodStillLooksFirst: one that was stopped after it had taken a
// mail, and marked it, does not let it go by what it knew before.
func TestAProcessThatStoodStillLooksFirst(t *testing.T) {
	b := newBed(t)
	w := newWire(nil)
	o := b.open(&spooltest.OneRoute{Transport: w}, nil)
	list := &aging{nobody: nobody{"ann@example.com": "unsubscribed"}, answers: []bool{true, false}}
	o.sender.Suppress = list
	o.run()
	o.submit(draft("bob@example.com", mail.PriorityNormal, mail.ClassMarketing))
	b.eventually("it has left", func() bool { return o.totals() == "sent 1" })
	if list.asked.Load() < 4 {
		t.Errorf("the list's age was asked %d times: it left by what was known before the process stood still", list.asked.Load())
	}
	if times := w.times(); len(times) != 1 {
		t.Errorf("%v left", times)
	}
}
