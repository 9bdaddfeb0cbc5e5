package webhook

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"sluice/lib/outbound"
	"sluice/store"
)

// Bounds of a request.
const (
	postTimeout    = 15 * time.Second
	maxAnswerBytes = 4 << 10 // that are read
	toldAnswer     = 200     // bytes that are kept of a refusal
	leastSecret    = 6       // bytes of what could be one
)

// answer is what is known of a request.
type answer struct {
	status     int
	failure    string // empty: it was delivered
	gone       bool
	retryAfter time.Duration
	took       time.Duration
}

// post makes one request. 2xx is a delivery and nothing else is: redirects are refusals,
// and 410 says that the receiver wants no more (Standard Webhooks).
func post(ctx context.Context, client *http.Client, secrets *Secrets, w *store.Webhook, id string, now time.Time, body []byte) (a answer) {
	ctx, cancel := context.WithTimeout(ctx, postTimeout)
	defer cancel()
	began := time.Now()
	defer func() { a.took = time.Since(began) }()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.URL, bytes.NewReader(body))
	if err != nil {
		return answer{failure: "its URL cannot be read"}
	}
	r.Header = secrets.headers(w, id, now, body)
	got, err := client.Do(r)
	if err != nil {
		return answer{failure: reasonOf(err)}
	}
	text, _ := io.ReadAll(io.LimitReader(got.Body, maxAnswerBytes)) // an answer that is cut is one
	_ = got.Body.Close()                                            // one that is longer ends its connection
	a.status, a.gone = got.StatusCode, got.StatusCode == http.StatusGone
	switch {
	case got.StatusCode >= 200 && got.StatusCode < 300:
		return a
	case got.StatusCode >= 300 && got.StatusCode < 400:
		a.failure = "it answered " + strconv.Itoa(got.StatusCode) + ", and redirects are not followed: set the URL to where it leads"
	default:
		a.failure = strings.TrimSpace("it answered " + strconv.Itoa(got.StatusCode) + " " + printable(withoutSecrets(text, r.URL)))
		a.retryAfter = outbound.RetryAfter(got.Header, now, retryLast)
	}
	return a
}

// reasonOf is an error without the URL, whose path may be a secret.
func reasonOf(err error) string {
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return "it did not answer within " + postTimeout.String()
	}
	text := err.Error()
	if errors.Is(err, outbound.ErrRefused) {
		text += "; webhooks.allow_hosts allows named hosts inside"
	}
	return cut(text)
}

// withoutSecrets is an answer without what may be secret in the URL that was posted to: its
// path and its query, which many a server repeats in its page of an error.
func withoutSecrets(text []byte, u *url.URL) []byte {
	words := strings.FieldsFunc(u.EscapedPath()+"/"+u.Path+"/"+u.RawQuery, func(r rune) bool { return strings.ContainsRune("/?&=;", r) })
	slices.SortFunc(words, func(a, b string) int { return len(b) - len(a) })
	for _, word := range words {
		if len(word) >= leastSecret {
			text = bytes.ReplaceAll(text, []byte(word), []byte("…"))
		}
	}
	return text
}

// cut returns at most MaxWebhookReason bytes of a text, as UTF-8: PostgreSQL refuses a row
// with a part of a character.
func cut(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), store.MaxWebhookReason)], "?")
}

// printable is the beginning of an answer, on one line.
func printable(text []byte) string {
	text = text[:min(len(text), toldAnswer)]
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == '\uFFFD' {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(string(text), " "))
}
