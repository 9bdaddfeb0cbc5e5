package spool_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice"
	"sluice/mail"
	"sluice/mail/spool"
	"sluice/mail/via/smtp"
	"sluice/test/sink"
)

// watched is a transport, and what it has said of each mail.
type watched struct {
	mail.Transport
	mu   sync.Mutex
	said []mail.Result
}

func (w *watched) Deliver(ctx context.Context, envelopes []mail.Envelope, done func(i int, r mail.Result)) {
	w.Transport.Deliver(ctx, envelopes, func(i int, r mail.Result) {
		w.mu.Lock()
		w.said = append(w.said, r)
		w.mu.Unlock()
		done(i, r)
	})
}

func (w *watched) results() []mail.Result {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.said)
}

// slowGreeting is a relay by one connection to a sink that does not greet before it may.
// It says when somebody waits for that.
func (b *bed) slowGreeting() (w *watched, taking *sink.Sink, waits *atomic.Bool, greet func()) {
	b.Helper()
	waits, may := new(atomic.Bool), make(chan struct{})
	greet = sync.OnceFunc(func() { close(may) })
	taking, err := sink.Start(sink.Options{Fault: func(at sink.At) sink.Act {
		if at.Step == sink.OnConnect {
			waits.Store(true)
			<-may
		}
		return sink.Act{}
	}})
	b.must(err)
	b.Cleanup(func() {
		greet()
		_ = taking.Close()
	})
	r, err := smtp.New(smtp.Options{Name: "slow", Address: taking.Addr(), TLS: smtp.TLSNone, Connections: 1})
	b.must(err)
	return &watched{Transport: r}, taking, waits, greet
}

// wantHeldOnce fails unless the first window was held back as a whole.
func (w *watched) wantHeldOnce(b *bed, why string) {
	b.Helper()
	if said := w.results(); len(said) == 0 || said[0].Kind != mail.ResultUntried || said[0].Blame != mail.BlameNobody || said[0].Text != why {
		b.Errorf("the relay says %+v, want untried: %s", said, why)
	}
}

// TestStopHoldsMailThatIsNotBegun: mail that is marked and waits for a connection is
// stopped like all other. It waits in its lane until it is resumed, and then leaves once.
func TestStopHoldsMailThatIsNotBegun(t *testing.T) {
	for _, stop := range []mail.Selector{{By: mail.SelectAll}, {By: mail.SelectRoute, Value: "slow"}, {By: mail.SelectTag, Value: "spring"}} {
		t.Run(stop.Name(), func(t *testing.T) {
			b := newBed(t)
			w, taking, waits, greet := b.slowGreeting()
			routes := b.router(w)
			o := b.open(routes, nil)
			o.sender.DoubtAfter = time.Hour
			o.run()
			for i := range 3 {
				d := draft(fmt.Sprintf("u%d@slow.example", i), mail.PriorityNormal, mail.ClassTransactional)
				d.Tags = []string{"spring"}
				o.submit(d)
			}
			b.eventually("a mail waits for the connection", waits.Load)
			b.eventually("all are in the ledger", func() bool { return o.totals() == "waiting 3" })
			api := &spool.Operator{Redis: o.redis, Kept: o.store, Clock: sluice.SystemClock{}}
			b.must(api.Stop(b.Context(), stop, ""))
			b.eventually("the process knows it", func() bool { return len(routes.Stopped()) == 1 })
			greet()
			b.eventually("the relay has answered", func() bool { return len(w.results()) > 0 })
			w.wantHeldOnce(b, "stopped since it was marked")
			if _, err := api.Resume(b.Context(), stop); err != nil {
				t.Fatal(err)
			}
			b.eventually("all have left", func() bool { return o.totals() == "sent 3" })
			if taking.Received() != 3 {
				t.Errorf("%d mails arrived", taking.Received())
			}
		})
	}
}

// listed is a Suppressor that suppresses all once it is set.
type listed struct{ all atomic.Bool }

func (l *listed) Check(string, mail.Class, string) (string, bool) {
	return "unsubscribed", l.all.Load()
}

func (*listed) Ready([]string) {}

func (*listed) Fresh(mail.Class) bool { return true }

// TestSuppressionHoldsMailThatIsNotBegun: who unsubscribes while a mail waits for its
// connection does not get it.
func TestSuppressionHoldsMailThatIsNotBegun(t *testing.T) {
	b := newBed(t)
	w, taking, waits, greet := b.slowGreeting()
	o := b.open(b.router(w), nil)
	list := &listed{}
	o.sender.Suppress, o.sender.DoubtAfter = list, time.Hour
	o.run()
	o.submit(draft("u@slow.example", mail.PriorityNormal, mail.ClassMarketing))
	b.eventually("it waits for the connection", waits.Load)
	list.all.Store(true)
	greet()
	b.eventually("it is decided", func() bool { return o.totals() == "suppressed 1" || o.totals() == "sent 1" })
	w.wantHeldOnce(b, "suppressed since it was marked")
	if taking.Received() != 0 || o.totals() != "suppressed 1" {
		t.Errorf("%d mails arrived; the ledger has %s", taking.Received(), o.totals())
	}
}

// TestMailIsNotBegunLongAfterItsMark: another process attempts it anew when DoubtAfter is
// over, if it takes this one for dead. So it is marked anew before it is begun.
func TestMailIsNotBegunLongAfterItsMark(t *testing.T) {
	b := newBed(t)
	w, taking, waits, greet := b.slowGreeting()
	o := b.open(b.router(w), nil)
	clock := &ahead{}
	o.sender.Clock, o.sender.DoubtAfter = clock, 605*time.Second
	o.run()
	o.submit(draft("u@slow.example", mail.PriorityNormal, mail.ClassTransactional))
	b.eventually("it waits for the connection", waits.Load)
	clock.hours.Add(1)
	greet()
	b.eventually("it has left", func() bool { return o.totals() == "sent 1" })
	w.wantHeldOnce(b, "not begun in time after it was marked")
	if taking.Received() != 1 {
		t.Errorf("%d mails arrived", taking.Received())
	}
}

// TestABegunMailIsNotTooLateForItsContent: a relay that takes longer for RCPT than a mail
// may wait behind its mark gets it all the same.
func TestABegunMailIsNotTooLateForItsContent(t *testing.T) {
	b := newBed(t)
	clock := &ahead{}
	taking, err := sink.Start(sink.Options{Without: []string{"CHUNKING"}, Fault: func(at sink.At) sink.Act {
		if at.Step == sink.OnRcpt {
			clock.hours.Add(1)
		}
		return sink.Act{}
	}})
	b.must(err)
	t.Cleanup(func() { _ = taking.Close() })
	relay, err := smtp.New(smtp.Options{Name: "slow", Address: taking.Addr(), TLS: smtp.TLSNone, Connections: 1})
	b.must(err)
	w := &watched{Transport: relay}
	o := b.open(b.router(w), nil)
	o.sender.Clock, o.sender.DoubtAfter = clock, time.Hour
	o.run()
	o.submit(draft("u@slow.example", mail.PriorityNormal, mail.ClassTransactional))
	b.eventually("the relay has answered", func() bool { return len(w.results()) > 0 })
	if said := w.results(); said[0].Kind != mail.ResultSent {
		t.Errorf("the relay says %+v", said[0])
	}
	b.eventually("it has left", func() bool { return o.totals() == "sent 1" })
}
