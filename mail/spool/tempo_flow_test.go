package spool_test

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/mail"
	"sluice/mail/spool"
	"sluice/mail/via/smtp"
	"sluice/test/sink"
)

// slowReply is how long the relay of TestUrgentMailBySlowRelay needs for a mail. With
// a second, how long urgent mail takes is judged too:
//
//	go test ./spool -run TestUrgentMailBySlowRelay -v -args -slow-reply 1s
var slowReply = flag.Duration("slow-reply", 100*time.Millisecond, "how long a slow relay needs for a mail")

// windowSizes is a transport, and how many mails its windows had.
type windowSizes struct {
	mail.Transport
	mu    sync.Mutex
	sizes []int
	of    map[string][]int // by Envelope.Send
}

func (w *windowSizes) Deliver(ctx context.Context, envelopes []mail.Envelope, done func(i int, r mail.Result)) {
	w.mu.Lock()
	w.sizes = append(w.sizes, len(envelopes))
	for i := range envelopes {
		w.of[envelopes[i].Send] = append(w.of[envelopes[i].Send], len(envelopes))
	}
	w.mu.Unlock()
	w.Transport.Deliver(ctx, envelopes, done)
}

// relayTo is a relay to a sink with a fault.
func (b *bed) relayTo(fault func(sink.At) sink.Act) *smtp.Relay {
	b.Helper()
	taking, err := sink.Start(sink.Options{Fault: fault})
	b.must(err)
	b.Cleanup(func() { _ = taking.Close() })
	r, err := smtp.New(smtp.Options{Name: "slow", Address: taking.Addr(), TLS: smtp.TLSNone})
	b.must(err)
	return r
}

// toMany is a message to so many addresses.
func toMany(d mail.Draft, n int) mail.Draft {
	d.To = nil
	for i := range n {
		d.To = append(d.To, fmt.Sprintf("u%d@example.com", i))
	}
	return d
}

// TestUrgentMailBySlowRelay: a relay that needs long for each mail gets few at
// once. So urgent mail waits for two replies and its own at most.
func TestUrgentMailBySlowRelay(t *testing.T) {
	t.Cleanup(spool.WindowTime(*slowReply / 2))
	b := newBed(t)
	relay := b.relayTo(func(at sink.At) sink.Act {
		if at.Step == sink.OnEnd {
			return sink.Act{Delay: *slowReply}
		}
		return sink.Act{}
	})
	sizes := &windowSizes{Transport: relay, of: make(map[string][]int)}
	timed := &stopwatch{Transport: sizes, sent: make(map[string]time.Time)}
	o := b.start(timed, nil)
	defer o.abort()
	o.submit(toMany(draft("", mail.PriorityNormal, mail.ClassTransactional), 600))
	b.eventually("its speed is known", func() bool { return timed.count() > 40 })
	sizes.mu.Lock()
	before := len(sizes.sizes)
	sizes.mu.Unlock()
	handed := make(map[string]time.Time)
	for i := range 40 {
		to := fmt.Sprintf("urgent%d@example.com", i)
		handed[to] = time.Now()
		o.submit(draft(to, mail.PriorityHigh, mail.ClassTransactional))
		<-time.After(*slowReply / 8)
	}
	b.eventually("all urgent mail has left", func() bool {
		timed.mu.Lock()
		defer timed.mu.Unlock()
		for to := range handed {
			if timed.sent[to].IsZero() {
				return false
			}
		}
		return true
	})
	var took []time.Duration
	timed.mu.Lock()
	for to, at := range handed {
		took = append(took, timed.sent[to].Sub(at))
	}
	timed.mu.Unlock()
	slices.Sort(took)
	t.Logf("a reply takes %v: %d urgent mails left within %v (p50), %v (p99)", *slowReply, len(took), took[len(took)/2], took[len(took)-1])
	if *slowReply >= time.Second && took[len(took)-1] > 3**slowReply {
		t.Errorf("p99 of urgent mail is %v, want 3 replies", took[len(took)-1])
	}
	sizes.mu.Lock()
	defer sizes.mu.Unlock()
	mails, windows := 0, sizes.sizes[before:]
	for _, n := range windows {
		mails += n
	}
	if mails > 3*len(windows) {
		t.Errorf("windows of a slow relay: %v", windows)
	}
}

// TestFastRelaysGetLargeWindows: what waits goes in full windows soon.
func TestFastRelaysGetLargeWindows(t *testing.T) {
	b := newBed(t)
	sizes := &windowSizes{Transport: b.relayTo(nil), of: make(map[string][]int)}
	o := b.start(sizes, nil)
	o.submit(toMany(draft("", mail.PriorityNormal, mail.ClassTransactional), 1000))
	b.eventually("all have left", func() bool { return o.totals() == "sent 1000" })
	sizes.mu.Lock()
	defer sizes.mu.Unlock()
	if !slices.Contains(sizes.sizes, smtp.DefaultWindow) {
		t.Errorf("windows: %v", sizes.sizes)
	}
}

// TestDoubtedMailGoesAlone: one reply of ten is lost with its connection. Then
// mail is in doubt for good only if its own reply is lost again, not with a
// window.
func TestDoubtedMailGoesAlone(t *testing.T) {
	const mails = 300
	b := newBed(t)
	var ends atomic.Int64
	relay := b.relayTo(func(at sink.At) sink.Act {
		if at.Step == sink.OnEnd && ends.Add(1)%10 == 0 {
			return sink.Act{Cut: sink.Unsaid}
		}
		return sink.Act{}
	})
	sizes := &windowSizes{Transport: relay, of: make(map[string][]int)}
	o := b.start(sizes, nil)
	o.submit(toMany(draft("", mail.PriorityNormal, mail.ClassTransactional), mails))
	b.eventually("all are decided", func() bool {
		var sent, doubt int
		_, err := fmt.Sscanf(o.totals(), "sent %d, in_doubt %d", &sent, &doubt)
		return o.waiting() == 0 && err == nil && sent+doubt == mails
	})
	forGood := 0
	doubted := make(map[string]bool)
	for _, out := range b.outcomes() {
		s := mail.Send{Message: out.Message, Number: out.Number}
		if out.State == mail.SendInDoubt && doubted[s.ID()] {
			forGood++
		}
		doubted[s.ID()] = doubted[s.ID()] || out.State == mail.SendInDoubt
	}
	together := 0
	sizes.mu.Lock()
	defer sizes.mu.Unlock()
	for id := range doubted {
		if of := sizes.of[id]; len(of) > 0 && doubted[id] && of[len(of)-1] != 1 {
			together++
		}
	}
	t.Logf("%d mails: %s; in doubt twice %d", mails, o.totals(), forGood)
	if together > 0 || forGood > mails/6 {
		t.Errorf("%d second attempts were not alone; %d of %d mails are in doubt for good", together, forGood, mails)
	}
}
