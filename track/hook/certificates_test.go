package hook

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"sluice/test/clocktest"
)

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A certificate is fetched once, from where it may be, without redirects and within bounds.
func TestCertificates(t *testing.T) {
	const address = "https://sns.eu-west-1.amazonaws.com/SimpleNotificationService-0.pem"
	s := newSNS(t, "sns.amazonaws.com")
	calls, clock := 0, clocktest.At(testNow)
	answering := func(status int, body string) *Certificates {
		calls = 0
		return NewCertificates(roundTrip(func(r *http.Request) (*http.Response, error) {
			calls++
			return &http.Response{StatusCode: status, Status: http.StatusText(status), Header: http.Header{"Location": {"https://example.com/"}}, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
		}), clock)
	}
	c := answering(http.StatusOK, string(s.certificate))
	for range 3 {
		if text, err := c.Get(context.Background(), address); err != nil || string(text) != string(s.certificate) {
			t.Fatalf("%d bytes, %v", len(text), err)
		}
	}
	if calls != 1 {
		t.Errorf("fetched %d times", calls)
	}
	a := s.access()
	a.Certificates = c.Get
	if !verify(t, "ses", s.message(t, nil, nil), a) {
		t.Error("a good message is refused")
	}
	if _, err := c.Get(context.Background(), "https://example.com/SimpleNotificationService-0.pem"); !errors.Is(err, ErrRefused) {
		t.Errorf("another host: %v", err)
	}
	for name, c := range map[string]*Certificates{
		"a redirect":    answering(http.StatusFound, ""),
		"no PEM":        answering(http.StatusOK, "hello"),
		"too long":      answering(http.StatusOK, strings.Repeat(string(s.certificate), 100)),
		"not there":     answering(http.StatusNotFound, string(s.certificate)),
		"broken inside": answering(http.StatusOK, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"),
	} {
		calls = 0
		for range 2 {
			if _, err := c.Get(context.Background(), address); err == nil || errors.Is(err, ErrRefused) {
				t.Errorf("%s: %v", name, err)
			}
			clock.Move(certificateRest)
		}
		if calls != 2 {
			t.Errorf("%s: asked %d times, want one a call and no more", name, calls)
		}
	}
	ended, end := context.WithCancel(context.Background())
	end()
	busy := answering(http.StatusOK, string(s.certificate))
	for range maxCertificateFetching {
		busy.slots <- struct{}{}
	}
	if _, err := busy.Get(ended, address); !errors.Is(err, context.Canceled) {
		t.Errorf("with all slots held: %v", err)
	}
}

// While a certificate cannot be fetched, those who wait for it fail together, and the next
// at once: one at a time tries again.
func TestCertificatesAway(t *testing.T) {
	const address = "https://sns.eu-west-1.amazonaws.com/SimpleNotificationService-0.pem"
	s := newSNS(t, "sns.amazonaws.com")
	clock, away := clocktest.At(testNow), errors.New("away")
	asked := make(chan chan error) // each fetch waits for what the test says
	c := NewCertificates(roundTrip(func(r *http.Request) (*http.Response, error) {
		answer := make(chan error)
		asked <- answer
		if err := <-answer; err != nil {
			return nil, err
		}
		return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(string(s.certificate))), Request: r}, nil
	}), clock)
	c.client.Timeout = 0 // however slow the machine is
	get := func() <-chan error {
		done := make(chan error, 1)
		go func() { // ends with the fetch, if there is one
			_, err := c.Get(t.Context(), address)
			done <- err
		}()
		return done
	}
	fails := func(what string, done <-chan error) {
		t.Helper()
		select {
		case err := <-done:
			if !errors.Is(err, away) || errors.Is(err, ErrRefused) {
				t.Errorf("%s: %v", what, err)
			}
		case <-asked:
			t.Fatalf("%s: SNS is asked again", what)
		}
	}
	all := make([]<-chan error, maxCertificateFetching+3)
	for i := range all {
		all[i] = get()
	}
	under := make([]chan error, maxCertificateFetching)
	for i := range under {
		under[i] = <-asked
	}
	for _, answer := range under {
		answer <- away
	}
	for _, done := range all {
		fails("one that waited", done)
	}
	fails("one that comes then", get())
	for _, outcome := range []error{away, nil} {
		clock.Move(certificateRest)
		trying := get()
		answer := <-asked
		for range 3 {
			fails("one that comes while it is tried again", get())
		}
		answer <- outcome
		if err := <-trying; !errors.Is(err, outcome) {
			t.Errorf("what is tried again: %v, want %v", err, outcome)
		}
	}
	select {
	case err := <-get():
		if err != nil {
			t.Error(err)
		}
	case <-asked:
		t.Error("a certificate that is there is fetched again")
	}
}
