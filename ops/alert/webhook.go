package alert

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"sluice/lib/netaddr"
)

// maxAnswerBytes is what is read of a webhook's answer.
const maxAnswerBytes = 64 << 10

// SignatureHeader carries t=SECONDS,v1=HEX: the HMAC-SHA256 of SECONDS, a dot
// and the body. The time keeps an old body from being sent again.
const SignatureHeader = "X-Sluice-Signature"

// Webhook posts messages as JSON.
type Webhook struct {
	url    string
	secret string
	client *http.Client
}

// NewWebhook returns a channel to an address that CheckWebhook takes. With a
// secret, messages are signed.
func NewWebhook(address, secret string) *Webhook {
	// Redirects are not followed: the address was checked, and where it leads
	// was not. Each delivery is a connection of its own: there are few.
	return &Webhook{url: address, secret: secret, client: &http.Client{
		Transport:     &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true, MaxResponseHeaderBytes: maxAnswerBytes},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// CheckWebhook refuses an address to which problems would go unencrypted, but
// for this machine itself. The error does not show it: it may hold a secret.
func CheckWebhook(address string) error {
	u, err := url.Parse(address)
	if err != nil || u.Opaque != "" || u.Hostname() == "" {
		return errors.New("cannot be read as a URL; want https://HOST/PATH")
	}
	if u.Scheme == "https" || u.Scheme == "http" && netaddr.IsLoopback(u.Hostname()) {
		return nil
	}
	return fmt.Errorf("has the scheme %s, want https:// (http:// only to 127.0.0.1, [::1] and localhost)", u.Scheme)
}

// Name implements Channel.
func (*Webhook) Name() string { return "webhook" }

// Send implements Channel.
func (h *Webhook) Send(ctx context.Context, m *Message) error {
	body, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("encode a webhook's body: %w", err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, h.url, bytes.NewReader(body))
	if err != nil {
		return errors.New("post to the webhook: its URL cannot be read")
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "sluice")
	if h.secret != "" {
		r.Header.Set(SignatureHeader, sign(h.secret, m.At, body))
	}
	answer, err := h.client.Do(r)
	if err != nil {
		if e, ok := errors.AsType[*url.Error](err); ok {
			err = e.Err // without the URL, which may hold a secret
		}
		return fmt.Errorf("post to the webhook: %w", err)
	}
	_, err = io.Copy(io.Discard, io.LimitReader(answer.Body, maxAnswerBytes))
	err = errors.Join(err, answer.Body.Close())
	switch {
	case answer.StatusCode >= 300 && answer.StatusCode < 400:
		return fmt.Errorf("post to the webhook: it answers %s, and redirects are not followed; set alerts.webhook to where it leads", answer.Status)
	case answer.StatusCode < 200 || answer.StatusCode >= 300:
		return fmt.Errorf("post to the webhook: it answers %s", answer.Status)
	case err != nil:
		return fmt.Errorf("post to the webhook: read its answer: %w", err)
	}
	return nil
}

// sign returns the value of SignatureHeader.
func sign(secret string, at time.Time, body []byte) string {
	seconds := strconv.FormatInt(at.Unix(), 10)
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(seconds + "."))
	mac.Write(body)
	return "t=" + seconds + ",v1=" + hex.EncodeToString(mac.Sum(nil))
}
