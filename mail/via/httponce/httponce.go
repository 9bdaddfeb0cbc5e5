// Package httponce sends one HTTP request, once, and says what is known of it: for
// transports that carry mail to a provider. Whether a request that got no answer
// may have been taken is the difference between mail sent twice and mail sent
// again.
package httponce

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync"
	"time"

	"sluice/mail"
)

// Limits of a request.
const (
	// MaxAnswerBytes is what is read of an answer.
	MaxAnswerBytes = 64 << 10

	connectTimeout = 10 * time.Second

	// idleTimeout ends a connection before its other side does: a request that
	// meets a connection being closed is in doubt.
	idleTimeout = 20 * time.Second

	// http2PingTimeout finds out about a connection that is dead: HTTP/2 has one
	// for all, which else would be believed until the kernel gives up.
	http2PingTimeout = 15 * time.Second
)

// Options are what a client is made of.
type Options struct {
	Workers int           // how many requests at once, each on a connection of its own over HTTP/1
	Timeout time.Duration // of a request, from the dial to the last byte of its answer
	Roots   *x509.CertPool
}

// Client sends requests. Its methods may be called from several goroutines.
//
// It repeats nothing: a repeat is the sender's decision. net/http repeats by
// itself what it holds for harmless if it can get the body again (GetBody).
// With a header Idempotency-Key that is any request whose connection ends. So
// the body is a reader of our own that cannot be had again, and that knows
// whether it was read. What was not read was not sent.
type Client struct {
	http    *http.Client
	timeout time.Duration
}

// NewClient returns a client.
func NewClient(o Options) *Client {
	dialer := &net.Dialer{Timeout: connectTimeout, KeepAlive: 15 * time.Second}
	return &Client{timeout: o.Timeout, http: &http.Client{
		// A redirect leads where nobody has said that mail may go.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			DialContext:            dialer.DialContext,
			TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: o.Roots}, // always verified
			TLSHandshakeTimeout:    connectTimeout,
			ForceAttemptHTTP2:      true,
			HTTP2:                  &http.HTTP2Config{SendPingTimeout: http2PingTimeout, PingTimeout: http2PingTimeout},
			MaxIdleConns:           o.Workers,
			MaxIdleConnsPerHost:    o.Workers, // less than the workers, and each burst repeats the handshakes
			IdleConnTimeout:        idleTimeout,
			MaxResponseHeaderBytes: MaxAnswerBytes,
			DisableCompression:     true,
		},
	}}
}

// Close ends connections that are idle.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Answer is what is known of a request.
type Answer struct {
	Status int // 0: there was none, and Err says why
	Header http.Header
	Body   []byte // at most MaxAnswerBytes of it
	Remote string // address of the server; empty: none was reached
	Err    error

	// Begun says that some of the body was handed to a connection, so that
	// without an answer nobody knows whether it was taken. Connected says that there
	// was one.
	Begun, Connected bool

	Took [mail.Stages]time.Duration
}

// Do sends a request. What has an empty body has none.
func (c *Client) Do(ctx context.Context, method, address string, header http.Header, body []byte) Answer {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	var w watch
	r, err := http.NewRequestWithContext(httptrace.WithClientTrace(ctx, w.trace()), method, address, nil)
	if err != nil {
		return Answer{Err: withoutURL(err)}
	}
	out := &once{rest: body}
	r.Body, r.ContentLength, r.Header = out, int64(len(body)), header
	if len(body) == 0 {
		r.Body = http.NoBody
	}
	answer := Answer{}
	response, err := c.http.Do(r)
	if err == nil {
		answer.Status, answer.Header = response.StatusCode, response.Header
		// An answer that is cut short is one: the status says what was done.
		answer.Body, _ = io.ReadAll(io.LimitReader(response.Body, MaxAnswerBytes))
		_ = response.Body.Close() // one that is longer ends its connection
	}
	answer.Err, answer.Begun = withoutURL(err), out.end()
	w.into(&answer)
	return answer
}

// Cause returns the cause that the status of an answer tells of, which refuses a
// request for our sake.
func (a *Answer) Cause() mail.Cause {
	switch a.Status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusProxyAuthRequired:
		return mail.CauseLogin
	}
	return mail.CauseRejected
}

// Lost returns the result of a request that got no answer. ctx is the caller's:
// what it ended was no route's fault.
func (a *Answer) Lost(ctx context.Context) mail.Result {
	r := mail.Result{Kind: mail.ResultUntried, Blame: mail.BlameRoute, Cause: mail.CauseOf(a.Err), Text: mail.ReplyText(a.Err.Error()), Remote: a.Remote, Took: a.Took}
	if a.Begun {
		r.Kind = mail.ResultInDoubt
	}
	r.Closed = !a.Begun && !a.Connected
	if ctx.Err() != nil {
		r.Blame, r.Closed = mail.BlameNobody, false
	}
	return r
}

// withoutURL drops what *url.Error repeats: a URL may hold a secret, which must
// not be logged.
func withoutURL(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}

// once is a body that is read once, and not after the request has been given up:
// some of net/http's goroutines outlive Do.
type once struct {
	mu    sync.Mutex
	rest  []byte
	begun bool
	over  bool
}

var errOver = errors.New("the request was given up")

func (b *once) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.over:
		return 0, errOver
	case len(b.rest) == 0:
		return 0, io.EOF
	}
	b.begun = true
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

func (*once) Close() error { return nil }

// end keeps the body from being read on, and reports whether it was begun.
func (b *once) end() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.over = true
	return b.begun
}

// watch notes what takes how long. The trace is called by the transport's own
// goroutines, some of them after the request has ended.
type watch struct {
	mu                   sync.Mutex
	remote               string
	connected, shaken    time.Duration
	dialling, handshakes time.Time
	ready                time.Time
}

func (w *watch) trace() *httptrace.ClientTrace {
	locked := func(f func(now time.Time)) {
		w.mu.Lock()
		defer w.mu.Unlock()
		f(time.Now())
	}
	return &httptrace.ClientTrace{
		ConnectStart: func(_, _ string) { locked(func(now time.Time) { w.dialling = now }) },
		ConnectDone: func(_, address string, _ error) {
			locked(func(now time.Time) { w.connected, w.remote = now.Sub(w.dialling), address })
		},
		TLSHandshakeStart: func() { locked(func(now time.Time) { w.handshakes = now }) },
		TLSHandshakeDone:  func(tls.ConnectionState, error) { locked(func(now time.Time) { w.shaken = now.Sub(w.handshakes) }) },
		GotConn: func(i httptrace.GotConnInfo) {
			locked(func(now time.Time) { w.ready, w.remote = now, i.Conn.RemoteAddr().String() })
		},
	}
}

func (w *watch) into(a *Answer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	a.Remote = w.remote
	a.Took[mail.StageConnect], a.Took[mail.StageTLS] = w.connected, w.shaken
	if a.Connected = !w.ready.IsZero(); a.Connected {
		a.Took[mail.StageWait] = time.Since(w.ready)
	}
}
