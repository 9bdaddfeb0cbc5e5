package hook

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// ErrRefused is what an error of Verify wraps if the request is not the provider's. Any
// other error says that this could not be found out now.
var ErrRefused = errors.New("the request is not authenticated")

// ErrStale is what an error of Verify wraps as well if the signed time does not hold.
var ErrStale = errors.New("the signed time does not hold")

// refuse returns an error that wraps ErrRefused.
func refuse(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrRefused, fmt.Sprintf(format, args...))
}

// MaxSecrets is how many secrets hold at a time: while one is replaced, the old and the
// new one.
const MaxSecrets = 2

// Access is what requests of one provider are verified by.
type Access struct {
	// Secrets are what the provider signs with, MaxSecrets at most. Any of them will do.
	// SendGrid: the public key, in base64. Mailgun: the signing key. Resend: the secret
	// that begins with whsec_. Mandrill: the key of the webhook. For a provider that signs
	// nothing: USER:PASSWORD, or a text of one's own.
	Secrets []string

	// Topics are the ARNs of the SNS topics that may post. Without one, SNS is refused.
	Topics []string

	// Certificates returns the PEM text that a URL of SNS has. The URL has passed
	// SNSCertificateURL. It must come from that host, by verified TLS and without a
	// redirect: nothing else vouches for it. Nil: no request of SNS is authentic.
	Certificates func(ctx context.Context, url string) ([]byte, error)

	// FirstBody reports whether a signature of Mailgun, made at a time, is new or came with
	// this body before. Nil: it is not asked.
	FirstBody func(ctx context.Context, signature string, body []byte, made time.Time) (bool, error)

	Now time.Time
}

// maxAge is how far a signed time may be from now, in both directions.
const maxAge = 5 * time.Minute

// checkSeconds checks a signed time, in seconds since the epoch, which may be back before
// now, and returns it.
func (a *Access) checkSeconds(seconds string, back time.Duration) (time.Time, error) {
	n, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return time.Time{}, refuse("its time %.40q is no number of seconds", seconds)
	}
	at := time.Unix(n, 0)
	return at, a.checkTime(at, back)
}

// checkTime checks that a signed time is at most back before now and at most maxAge
// after it.
func (a *Access) checkTime(at time.Time, back time.Duration) error {
	if at.Before(a.Now.Add(-back)) || at.After(a.Now.Add(maxAge)) {
		return fmt.Errorf("%w: %w", ErrStale, refuse("its time %s is more than %s before or %s after now", at.UTC().Format(time.RFC3339), back, maxAge))
	}
	return nil
}

// secrets are those that hold.
func (a *Access) secrets() []string { return a.Secrets[:min(len(a.Secrets), MaxSecrets)] }

// anySecret reports whether good says so of a secret. All are tried, so that the time it
// takes does not tell which one it was. An empty secret is none.
func (a *Access) anySecret(good func(secret string) bool) bool {
	found := false
	for _, secret := range a.secrets() {
		if secret != "" && good(secret) {
			found = true
		}
	}
	return found
}

// equal compares in a time that does not depend on where two texts differ.
func equal(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// SecretParameter is the parameter of the query by which a provider that signs nothing,
// and sends no header either, tells the secret.
const SecretParameter = "key"

// verifyShared is the Verify of a provider that signs nothing. It tells a secret: as
// user and password (RFC 7617), as a bearer (RFC 6750, 2.1), or in the URL.
func verifyShared(_ context.Context, r *Request, a *Access) error {
	told := make([]string, 0, 3)
	if user, password, ok := (&http.Request{Header: r.Header}).BasicAuth(); ok {
		told = append(told, user+":"+password)
	}
	if token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		told = append(told, token)
	}
	if token := parameter(r.URL, SecretParameter); token != "" {
		told = append(told, token)
	}
	good := a.anySecret(func(secret string) bool {
		found := false
		for _, s := range told {
			if equal(s, secret) {
				found = true
			}
		}
		return found
	})
	if !good {
		return refuse("it tells no secret that holds")
	}
	return nil
}

// parameter returns a parameter of the query of a URL, or "".
func parameter(address, name string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Query().Get(name)
}
