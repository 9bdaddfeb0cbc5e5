package httponce

import (
	"context"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sluice/mail"
)

const patience = 90 * time.Second

func do(t *testing.T, c *Client, address string) Answer {
	t.Helper()
	// The header makes net/http take the request for one that may be repeated.
	return c.Do(t.Context(), http.MethodPost, address, http.Header{"Idempotency-Key": {"k"}}, []byte("body"))
}

// hangUp answers the first request of each connection and ends the connection in
// the middle of the next, when it has read the body.
func hangUp(t *testing.T) (address string, bodies *atomic.Int64) {
	t.Helper()
	bodies = new(atomic.Int64)
	requests := make(map[string]int) // by connection; one at a time
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadAll(r.Body); err != nil {
			t.Error(err)
		}
		bodies.Add(1)
		if requests[r.RemoteAddr]++; requests[r.RemoteAddr] > 1 {
			panic(http.ErrAbortHandler)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL, bodies
}

// A connection that dies with a request on it leaves that in doubt, and the
// request is not made again. net/http would, on a kept connection.
func TestNothingIsRepeated(t *testing.T) {
	address, bodies := hangUp(t)
	c := NewClient(Options{Workers: 1, Timeout: patience})
	defer c.Close()
	if a := do(t, c, address); a.Status != 200 || !a.Begun || a.Took[mail.StageConnect] <= 0 {
		t.Fatalf("%+v", a)
	}
	a := do(t, c, address)
	if a.Status != 0 {
		t.Fatalf("answered %d, the server has got %d bodies: it was repeated", a.Status, bodies.Load())
	}
	if r := a.Lost(t.Context()); r.Kind != mail.ResultInDoubt || r.Blame != mail.BlameRoute || r.Remote == "" || r.Text == "" || r.Closed {
		t.Fatalf("%+v %+v", a, r)
	}
	if n := bodies.Load(); n != 2 {
		t.Fatalf("the server got %d bodies, want 2", n)
	}
}

// A redirect is an answer: mail and secrets go to no other place.
func TestRedirectsAreNotFollowed(t *testing.T) {
	var elsewhere atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	defer other.Close()
	for _, status := range []int{301, 302, 303, 307, 308} {
		server := httptest.NewServer(http.RedirectHandler(other.URL, status))
		c := NewClient(Options{Workers: 1, Timeout: patience})
		if a := c.Do(t.Context(), http.MethodPost, server.URL, http.Header{"Authorization": {"Bearer secret"}}, []byte("mail")); a.Status != status {
			t.Errorf("%d: %+v", status, a)
		}
		c.Close()
		server.Close()
	}
	if n := elsewhere.Load(); n != 0 {
		t.Errorf("%d requests went elsewhere", n)
	}
}

// Where nobody listens nothing was taken.
func TestUntried(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := "http://" + l.Addr().String() + "/?token=s3cret"
	_ = l.Close()
	c := NewClient(Options{Workers: 1, Timeout: patience})
	a := do(t, c, address)
	if r := a.Lost(t.Context()); a.Begun || r.Kind != mail.ResultUntried || r.Blame != mail.BlameRoute || !r.Closed || strings.Contains(r.Text, "s3cret") {
		t.Fatalf("%+v %+v", a, r)
	}
	had := Answer{Err: io.ErrUnexpectedEOF, Connected: true} // perhaps it is the request
	if r := had.Lost(t.Context()); r.Kind != mail.ResultUntried || r.Closed {
		t.Errorf("%+v", r)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	a = c.Do(ctx, http.MethodPost, address, nil, []byte("body"))
	if r := a.Lost(ctx); r.Kind != mail.ResultUntried || r.Blame != mail.BlameNobody || r.Closed {
		t.Fatalf("%+v", r)
	}
}

// A server whose certificate is not good gets nothing either.
func TestCertificatesAreVerified(t *testing.T) {
	s := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("was asked") }))
	defer s.Close()
	c := NewClient(Options{Workers: 1, Timeout: patience})
	a := do(t, c, s.URL)
	if r := a.Lost(t.Context()); a.Begun || r.Kind != mail.ResultUntried || !strings.Contains(r.Text, "certificate") {
		t.Fatalf("%+v", r)
	}
}

// HTTP/2 is spoken with who speaks it; a stream that ends leaves its request in
// doubt, once.
func TestHTTP2(t *testing.T) {
	var asked atomic.Int64
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
		if asked.Add(1) == 2 {
			panic(http.ErrAbortHandler)
		}
		_, _ = io.WriteString(w, r.Proto)
	}))
	s.EnableHTTP2 = true
	s.StartTLS()
	defer s.Close()
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	c := NewClient(Options{Workers: 4, Timeout: patience, Roots: roots})
	defer c.Close()
	if a := do(t, c, s.URL); string(a.Body) != "HTTP/2.0" || a.Took[mail.StageTLS] <= 0 {
		t.Fatalf("%+v", a)
	}
	a := do(t, c, s.URL)
	if a.Status != 0 {
		t.Fatalf("answered %d, asked %d times: it was repeated", a.Status, asked.Load())
	}
	if r := a.Lost(t.Context()); r.Kind != mail.ResultInDoubt || asked.Load() != 2 {
		t.Fatalf("%+v, asked %d times", r, asked.Load())
	}
}

// An answer is waited for so long, a redirect is not followed, and a huge body
// is not read.
func TestBounds(t *testing.T) {
	ended := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
		switch r.URL.Path {
		case "/slow":
			<-ended
		case "/redirect":
			http.Redirect(w, r, "/slow", http.StatusTemporaryRedirect)
		default:
			_, _ = w.Write(make([]byte, 2*MaxAnswerBytes))
		}
	}))
	defer s.Close()
	defer close(ended)
	c := NewClient(Options{Workers: 1, Timeout: time.Second}) // in which a busy machine sends the request
	defer c.Close()
	a := do(t, c, s.URL+"/slow")
	if r := a.Lost(t.Context()); r.Kind != mail.ResultInDoubt || r.Blame != mail.BlameRoute {
		t.Fatalf("%+v", r)
	}
	c = NewClient(Options{Workers: 1, Timeout: patience})
	defer c.Close()
	if a := do(t, c, s.URL+"/redirect"); a.Status != http.StatusTemporaryRedirect {
		t.Fatalf("%+v", a)
	}
	if a := do(t, c, s.URL+"/huge"); a.Status != 200 || len(a.Body) != MaxAnswerBytes {
		t.Fatalf("%d bytes, %v", len(a.Body), a.Err)
	}
}

// What is held back is not sent, and nobody is to blame. The next one is.
func TestHeldBack(t *testing.T) {
	var sent []string
	b := NewBase("test", Options{Workers: 1}, func(_ context.Context, e *mail.Envelope) mail.Result {
		sent = append(sent, e.To)
		return mail.Result{Kind: mail.ResultSent}
	})
	all := []mail.Envelope{{To: "a@example.com", Go: func() error { return errors.New("stopped since") }}, {To: "b@example.com", Go: func() error { return nil }}, {To: "c@example.com"}}
	var results []mail.Result
	b.Deliver(t.Context(), all, func(_ int, r mail.Result) { results = append(results, r) })
	if len(sent) != 2 || sent[0] != "b@example.com" || results[0].Kind != mail.ResultUntried || results[0].Blame != mail.BlameNobody || results[0].Text != "stopped since" {
		t.Errorf("sent %v: %+v", sent, results)
	}
}
