package spool_test

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"sluice"
	"sluice/flow"
	"sluice/mail"
	"sluice/mail/spool"
	"sluice/mail/via/mailhttp"
	"sluice/test/spooltest"
)

// provider is one by HTTP that hangs up on the first request for each mail,
// which it has read by then.
type provider struct {
	*httptest.Server
	mu   sync.Mutex
	came map[string]int // by what names a mail
}

func startProvider(t *testing.T) *provider {
	t.Helper()
	p := &provider{came: make(map[string]int)}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		p.mu.Lock()
		name := string(body) + " " + r.Header.Get("Idempotency-Key")
		p.came[name]++
		first := p.came[name] == 1
		p.mu.Unlock()
		if first {
			panic(http.ErrAbortHandler)
		}
		w.WriteHeader(http.StatusAccepted)
	}))
	t.Cleanup(p.Close)
	return p
}

func (p *provider) transport(header string) *mailhttp.Transport {
	return must(mailhttp.New(mailhttp.Settings{Name: "provider", URL: p.URL, Body: `{"to":"{{to}}"}`, IdempotencyHeader: header}, sluice.SystemClock{}))
}

func (p *provider) requests() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.came)
}

// bound is a route that notes by which route sends in doubt are to go.
type bound struct {
	spooltest.OneRoute
	mu     sync.Mutex
	routes []string
}

func (r *bound) Takes(t mail.Transport, s *mail.Send, passed []mail.Transport, now time.Time) spool.Take {
	if s.Doubted {
		r.mu.Lock()
		r.routes = append(r.routes, s.Route)
		r.mu.Unlock()
	}
	return r.OneRoute.Takes(t, s, passed, now)
}

// A provider that knows mails again is asked again, of whatever class they are,
// and no other route may be.
func TestAProviderThatKnowsMailsAgain(t *testing.T) {
	b, p := newBed(t), startProvider(t)
	routes := &bound{OneRoute: spooltest.OneRoute{Transport: p.transport("Idempotency-Key")}}
	o := b.startRoutes(routes, nil)
	var want []string
	for i := range 10 {
		to := fmt.Sprintf("u%d@example.com", i)
		id := o.submit(draft(to, mail.PriorityNormal, mail.Class(1+i%2)))[0]
		want = append(want, fmt.Sprintf(`{"to":"%s"} %s.0`, to, id))
	}
	b.eventually("all are sent", func() bool { return o.waiting() == 0 && o.totals() == "sent 10" })
	came := p.requests()
	for _, name := range want {
		if came[name] != 2 {
			t.Errorf("%s came %d times, want 2", name, came[name])
		}
	}
	if len(came) != len(want) {
		t.Errorf("%d names came of %d mails", len(came), len(want))
	}
	routes.mu.Lock()
	defer routes.mu.Unlock()
	if len(routes.routes) == 0 || slices.ContainsFunc(routes.routes, func(r string) bool { return r != "provider" }) {
		t.Errorf("sends in doubt may go by %q", routes.routes)
	}
}

// One that does not is asked again for transactional mail alone.
func TestAProviderThatForgetsMails(t *testing.T) {
	b, p := newBed(t), startProvider(t)
	o := b.start(p.transport(""), nil)
	o.submit(draft("ann@example.com", mail.PriorityNormal, mail.ClassMarketing), draft("bob@example.com", mail.PriorityNormal, mail.ClassTransactional))
	b.eventually("nothing waits", func() bool { return o.waiting() == 0 && o.totals() == "sent 1, in_doubt 1" })
	if came := p.requests(); came[`{"to":"ann@example.com"} `] != 1 || came[`{"to":"bob@example.com"} `] != 2 {
		t.Errorf("%v", came)
	}
}

// knowing is a wire whose other side knows mails again.
type knowing struct{ *wire }

func (knowing) Repeatable() bool { return true }

// TestAProviderThatHasForgottenByNow: the machines stood still over a weekend, with mails on
// the wire. What the provider may have forgotten is not sent again for what it was.
func TestAProviderThatHasForgottenByNow(t *testing.T) {
	for ago, want := range map[time.Duration]string{19 * time.Hour: "sent 1", 62 * time.Hour: "in_doubt 1"} {
		b := newBed(t)
		w := knowing{newWire(nil)}
		o := b.open(&spooltest.OneRoute{Transport: w}, nil)
		at := time.Now().Add(-ago).UnixMilli()
		s := mail.Send{Message: sluice.NewMessageID(at), Recipients: 1, Priority: mail.PriorityNormal, Class: mail.ClassMarketing, Form: mail.ContentMIME, From: "shop@example.com",
			To: "ann@example.com", AcceptedMillis: at, ExpiresMillis: at + mail.DefaultExpiryMillis, Content: "Subject: hello\r\n\r\nhello\r\n"}
		b.must(o.writer.Write(t.Context(), flow.Part{Partition: 0, Items: mail.AppendKnown(nil, &s), Count: 1}))
		o.packMarked(flow.LaneName(s.Priority, s.Class), mail.AppendSend(sluice.NewBatch(0), &s), fmt.Sprintf("gone|%d|wire|1", at), func(*flow.LaneBatch) string { return s.ID() })
		o.run()
		b.eventually("it is decided", func() bool {
			return o.waiting() == 0 && (o.totals() == "sent 1" || len(w.came()) == 0 && o.totals() == "in_doubt 1")
		})
		if got := o.totals(); got != want {
			t.Errorf("%s later the ledger has %s, want %s", ago, got, want)
		}
		o.stop()
	}
}

// The same holds for what a process had on the wire when it died.
func TestKnownMailsOfAProcessThatDied(t *testing.T) {
	b := newBed(t)
	hang := make(chan struct{})
	w := knowing{newWire(func(*mail.Envelope, int) mail.Result {
		<-hang
		return mail.Result{Kind: mail.ResultSent}
	})}
	first := b.start(w, nil)
	const mails = 20
	for i := range mails {
		first.submit(draft(fmt.Sprintf("u%d@example.com", i), mail.PriorityNormal, mail.ClassMarketing))
	}
	b.eventually("all workers are at work", func() bool { return len(w.came()) == w.workers })
	dying := make(chan struct{})
	go func() { first.abort(); close(dying) }()
	<-first.working.Done() // it records nothing any more
	close(hang)
	<-dying

	again := knowing{newWire(nil)}
	second := b.start(again, nil)
	b.eventually("all are sent", func() bool { return second.waiting() == 0 && second.totals() == fmt.Sprintf("sent %d", mails) })
	before, after := w.times(), again.times()
	for send := range before {
		if after[send] != 1 {
			t.Errorf("mail %s was on the wire when the process died, and %d times after", send, after[send])
		}
	}
	if len(after) > mails || len(before) == 0 {
		t.Errorf("%d and %d mails were on the wire, of %d", len(before), len(after), mails)
	}
}
