package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"time"

	"sluice"
	"sluice/bench/baseline"
	"sluice/mail"
	"sluice/mail/spool"
	"sluice/mail/via/ses"
	"sluice/mail/via/smtp"
	"sluice/test/sink"
)

// `bench send`: mails out, over a distance and without one.
const (
	sendRoundTrip = 50 * time.Millisecond
	sendSpan      = 30 * time.Second
	sendSpanQuick = 4 * time.Second
	sendBytes     = 2 << 10
	sendFillEach  = 10_000 // mails a second that are handed in before, at most

	wantOneConnection = 100
	wantPool          = 500
	wantAPI           = 100
)

var sendParts = []string{"distance", "cpu"}

// runSend is `sluice-bench send`.
func runSend(ctx context.Context, r *run) (err error) {
	e, err := openEnv(ctx, r, true)
	defer func() { err = errors.Join(err, e.close()) }()
	if err != nil {
		return err
	}
	if r.does("distance") {
		if err := sendFar(ctx, e); err != nil {
			return err
		}
	}
	if r.does("cpu") {
		if err := sendNear(ctx, e); err != nil {
			return err
		}
	}
	return nil
}

// mailOf is a mail of some size.
func mailOf(to string, bytes int) []byte {
	head := "From: Shop <shop@example.com>\r\nTo: <" + to + ">\r\nSubject: Your order\r\nDate: Sat, 21 Nov 2026 12:00:00 +0000\r\n" +
		"Message-ID: <bench@example.com>\r\nMIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n"
	line := strings.Repeat("0123456789", 7) + "\r\n"
	return []byte(head + strings.Repeat(line, max(1, (bytes-len(head))/len(line))))
}

// sendFar measures over a distance of one round trip.
func sendFar(ctx context.Context, e *env) (err error) {
	r := e.run
	span := pick(r, sendSpan, sendSpanQuick)
	r.report.Settings["distance"] = fmt.Sprintf("round trip %s by a delaying proxy, mails of %d bytes, %s a row", sendRoundTrip, sendBytes, span)
	relay, err := sink.Start(sink.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, relay.Close()) }()
	far, err := startDelayer(relay.Addr(), sendRoundTrip)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, far.close()) }()
	provider := httptest.NewServer(http.HandlerFunc(takeMail))
	defer provider.Close()
	farProvider, err := startDelayer(strings.TrimPrefix(provider.URL, "http://"), sendRoundTrip)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, farProvider.close()) }()

	message := mailOf("ann@example.net", sendBytes)
	if err := lockstepRow(ctx, r, "lockstep", "SMTP, lockstep, one connection", span, func(ctx context.Context) (int, error) {
		return baseline.Lockstep(ctx, far.address(), "shop@example.com", "ann@example.net", message)
	}); err != nil {
		return err
	}
	if err := lockstepRow(ctx, r, "lockstep_api", "API, lockstep, one connection", span, func(ctx context.Context) (int, error) {
		return baseline.LockstepAPI(ctx, "http://"+farProvider.address(), "shop@example.com", "ann@example.net", message)
	}); err != nil {
		return err
	}
	one, err := smtp.New(smtp.Options{Name: "one", Address: far.address(), TLS: smtp.TLSNone, Connections: 1, Trusted: true, Idle: time.Minute})
	if err != nil {
		return err
	}
	pool, err := smtp.New(smtp.Options{Name: "pool", Address: far.address(), TLS: smtp.TLSNone, Trusted: true, Idle: time.Minute})
	if err != nil {
		return err
	}
	api, err := ses.New(ses.Settings{Name: "api", Region: "eu-west-1", Endpoint: "http://" + farProvider.address(), Workers: 128,
		Credentials: ses.Credentials{AccessKey: "bench", SecretKey: "bench"}}, sluice.SystemClock{})
	if err != nil {
		return err
	}
	for _, x := range []struct {
		id, label string
		t         mail.Transport
	}{{"one_connection", "Sluice, one connection", one}, {"pool", "Sluice, its default pool", pool}, {"api", "Sluice, API", api}} {
		if err := sluiceRow(ctx, e, x.id, x.label, x.t, span); err != nil {
			return err
		}
	}
	r.report.divide("one_connection_vs_lockstep", "one_connection", "lockstep", wantOneConnection)
	r.report.divide("pool_vs_lockstep", "pool", "lockstep", wantPool)
	r.report.divide("api_vs_lockstep", "api", "lockstep_api", wantAPI)
	return nil
}

// takeMail is a provider that takes everything.
func takeMail(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body) // the sender counts it
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"MessageId":"0102018c"}`)
}

// lockstepRow measures a baseline.
func lockstepRow(ctx context.Context, r *run, id, label string, span time.Duration, send func(ctx context.Context) (int, error)) error {
	r.say("%s", label)
	timed, cancel := context.WithTimeout(ctx, span)
	defer cancel()
	started := time.Now()
	sent, err := send(timed)
	if err != nil {
		return err
	}
	addSent(r, id, label, float64(sent)/time.Since(started).Seconds())
	return nil
}

// addSent notes a rate, also as the published figures were given.
func addSent(r *run, id, label string, perSecond float64) {
	r.report.add(id, label, "mails/s", perSecond)
	r.report.add(id+"_5min", label+" (published: 700 by SMTP, 1,480 by the API)", "mails/5 min", perSecond*300)
}

// sluiceRow measures the whole spool with a transport: mails wait durably, are
// marked, sent, recorded and put into the ledger.
func sluiceRow(ctx context.Context, e *env, id, label string, t mail.Transport, span time.Duration) (err error) {
	r := e.run
	if err := errors.Join(e.maria.fresh(ctx), e.redis.Clear(ctx)); err != nil {
		return err
	}
	counted := &countingTransport{Transport: t}
	s, err := openSpool(ctx, e, e.maria, counted, spool.Plain{}, spoolMargin)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close(ctx), t.Close()) }()
	if err := s.fill(ctx, int(span.Seconds()*sendFillEach), mailOf("ann@example.net", sendBytes)); err != nil {
		return err
	}
	r.say("%s", label)
	stop := s.send(ctx)
	if err := pause(ctx, time.Second); err != nil { // connections are open
		return err
	}
	before, started := counted.sent.Load(), time.Now()
	if err := pause(ctx, span); err != nil {
		return err
	}
	rate := float64(counted.sent.Load()-before) / time.Since(started).Seconds()
	stop()
	addSent(r, id, label, rate)
	if failed := counted.other.Load(); failed > 0 {
		return fmt.Errorf("%s: %d mails were not taken", label, failed)
	}
	n, err := s.waiting(ctx)
	if err != nil {
		return err
	}
	r.report.add(id+"_left", label+": still waiting at the end (0: there were too few)", "mails", float64(n))
	return nil
}

// countingTransport counts what another one does.
type countingTransport struct {
	mail.Transport
	sent, other atomic.Int64
}

func (c *countingTransport) Deliver(ctx context.Context, envelopes []mail.Envelope, done func(i int, r mail.Result)) {
	c.Transport.Deliver(ctx, envelopes, func(i int, r mail.Result) {
		switch r.Kind {
		case mail.ResultSent:
			c.sent.Add(1)
		case mail.ResultUntried:
		default:
			c.other.Add(1)
		}
		done(i, r)
	})
}
