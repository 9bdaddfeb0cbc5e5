package spool_test

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice"
	"sluice/flow"
	"sluice/mail"
	"sluice/mail/route"
	"sluice/mail/spool"
	"sluice/mail/via/smtp"
	"sluice/test/sink"
)

// brokenMails is how many mails of broken routes wait in TestBrokenRoutes. With
// many, the 99th percentile of the live route's mail is judged too:
//
//	go test ./spool -run TestBrokenRoutes -v -args -broken-mails 100000
var brokenMails = flag.Int("broken-mails", 4000, "how many mails of broken routes wait")

// routed makes Routes of a Router, as cmd/sluice does.
type routed struct{ *route.Router }

func (r routed) Takes(t mail.Transport, s *mail.Send, passed []mail.Transport, now time.Time) spool.Take {
	return spool.Take(r.Router.Takes(t, s, passed, now))
}

// silent is a listener that accepts connections and never says anything.
func silent(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var open []net.Conn
	var accepting sync.WaitGroup
	accepting.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open = append(open, c)
			mu.Unlock()
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		accepting.Wait()
		mu.Lock()
		defer mu.Unlock()
		for _, c := range open {
			_ = c.Close()
		}
	})
	return l.Addr().String()
}

// refusing is an address at which nobody listens.
func refusing(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// stopwatch is a relay, and when it has sent what.
type stopwatch struct {
	mail.Transport
	mu   sync.Mutex
	sent map[string]time.Time // by address
}

func (w *stopwatch) Deliver(ctx context.Context, envelopes []mail.Envelope, done func(i int, r mail.Result)) {
	w.Transport.Deliver(ctx, envelopes, func(i int, r mail.Result) {
		if r.Kind == mail.ResultSent {
			w.mu.Lock()
			w.sent[envelopes[i].To] = time.Now()
			w.mu.Unlock()
		}
		done(i, r)
	})
}

func (w *stopwatch) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.sent)
}

// router builds a Router of routes by their domains: each transport takes NAME.example.
func (b *bed) router(transports ...mail.Transport) routed {
	b.Helper()
	redis, err := flow.Dial(b.Context(), b.redis)
	b.must(err)
	o := route.Options{Mode: route.On, Sink: newWire(nil), Redis: redis, Clock: sluice.SystemClock{}}
	for _, t := range transports {
		o.Routes = append(o.Routes, route.Settings{Transport: t, Domains: []string{t.Name() + ".example"}})
	}
	r, err := route.New(o)
	b.must(err)
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { r.Run(ctx, slog.New(slog.DiscardHandler)) })
	b.Cleanup(func() {
		stop()
		running.Wait()
		redis.Close()
	})
	return routed{r}
}

// TestBrokenRoutes: mails of a route that refuses and of one that hangs stand
// before those of a live route, in the same lanes. More mails come, and the
// live route's leave.
func TestBrokenRoutes(t *testing.T) {
	b := newBed(t)
	taking, err := sink.Start(sink.Options{})
	b.must(err)
	t.Cleanup(func() { _ = taking.Close() })
	relay := func(name, address string) *smtp.Relay {
		r, err := smtp.New(smtp.Options{Name: name, Address: address, TLS: smtp.TLSNone})
		b.must(err)
		return r
	}
	live := &stopwatch{Transport: relay("live", taking.Addr()), sent: make(map[string]time.Time)}
	o := b.startRoutes(b.router(relay("dead", refusing(t)), relay("hanging", silent(t)), live), nil)
	defer o.abort() // what hangs need not be waited for

	const each = 200 // mails of broken routes beside one of the live one
	began := time.Now()
	handed := make(map[string]time.Time)
	hand := func(n, broken int) {
		one := draft("x@live.example", mail.PriorityNormal, mail.ClassTransactional)
		one.To = nil
		for i := range broken {
			one.To = append(one.To, fmt.Sprintf("u%d-%d@%s.example", n, i, []string{"dead", "hanging"}[i%2]))
		}
		to := fmt.Sprintf("u%d@live.example", n)
		one.To = append(one.To, to)
		o.submit(one)
		handed[to] = time.Now()
	}
	n := 0
	for ; n*each < *brokenMails; n++ {
		hand(n, each)
	}
	b.eventually("they are in the lanes, and what came among them for the live route has left", func() bool { return o.waiting() >= int64(*brokenMails) && live.count() == n })
	took := time.Since(began)
	first := n
	for range 300 {
		hand(n, 2)
		n++
		<-time.After(time.Millisecond)
	}
	b.eventually("all mail of the live route has left", func() bool { return live.count() == n })
	var all []time.Duration // of those that came when the others were in the lanes
	for i := first; i < n; i++ {
		to := fmt.Sprintf("u%d@live.example", i)
		all = append(all, live.sent[to].Sub(handed[to]))
	}
	slices.Sort(all)
	p99 := all[len(all)*99/100]
	t.Logf("%d mails of broken routes waited after %v; %d of the live one left within %v (p50), %v (p99), %v (the last)", *brokenMails, took, len(all), all[len(all)/2], p99, all[len(all)-1])
	if *brokenMails >= 100_000 && p99 >= time.Second {
		t.Errorf("p99 is %v, want less than a second", p99)
	}
	b.eventually("the ledger has all", func() bool { return strings.Contains(o.totals(), fmt.Sprintf("sent %d", n)) })
}
