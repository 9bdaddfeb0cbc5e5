package hook

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A certificate is fetched once, from where it may be, without redirects and within bounds.
func TestCertificates(t *testing.T) {
	const address = "https://sns.eu-west-1.amazonaws.com/SimpleNotificationService-0.pem"
	s := newSNS(t, "sns.amazonaws.com", testNow.Add(time.Hour))
	calls := 0
	answering := func(status int, body string) *Certificates {
		calls = 0
		return NewCertificates(roundTrip(func(r *http.Request) (*http.Response, error) {
			calls++
			return &http.Response{StatusCode: status, Status: http.StatusText(status), Header: http.Header{"Location": {"https://example.com/"}}, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
		}))
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
			if _, err := c.Get(context.Background(), address); err == nil {
				t.Errorf("%s is taken", name)
			}
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
