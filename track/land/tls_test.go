package land

import (
	"crypto/tls"
	"net/http"
	"testing"

	"sluice"
	"sluice/mail/smtpd"
)

// With a certificate the listener speaks TLS, 1.2 at least, and nothing else.
func TestCertificate(t *testing.T) {
	k := newKit(t)
	made, err := smtpd.SelfSigned("t.example.com", sluice.SystemClock{})
	if err != nil {
		t.Fatal(err)
	}
	o := k.o
	o.Certificate = made.Get
	k.Server = New(o)
	if err := k.Start(t.Context(), "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = k.Stop(t.Context()) })
	get := func(scheme string, most uint16) (*http.Response, error) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, scheme+"://"+k.Address()+k.pixel(t), nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("User-Agent", browser)
		res, err := (&http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true, MaxVersion: most}}).RoundTrip(req)
		if err == nil {
			_ = res.Body.Close()
		}
		return res, err
	}
	if res, err := get("https", tls.VersionTLS13); err != nil || res.StatusCode != 200 || res.ContentLength != 43 {
		t.Errorf("by TLS: %v %v", res, err)
	}
	if _, err := get("https", tls.VersionTLS11); err == nil {
		t.Error("TLS 1.1 is spoken")
	}
	if res, err := get("http", tls.VersionTLS13); err == nil && res.StatusCode == 200 {
		t.Error("plain HTTP is answered")
	}
	if len(k.logs.events) != 1 {
		t.Errorf("%d events", len(k.logs.events))
	}
}
