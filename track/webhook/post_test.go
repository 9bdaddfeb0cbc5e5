package webhook

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"unicode/utf8"

	"sluice/store"
)

// What is kept of an error, and why an endpoint was switched off, is UTF-8 and not too
// long, wherever it is cut.
func TestReasonsAreText(t *testing.T) {
	for from := range 4 {
		text := strings.Repeat("x", store.MaxWebhookReason-from) + "ä€😀"
		if kept := reasonOf(&url.Error{Op: "Post", URL: "https://example.com/secret", Err: errors.New(text)}); !utf8.ValidString(kept) || len(kept) > store.MaxWebhookReason {
			t.Errorf("%d bytes before the limit: %q", from, kept)
		}
		k := newKit(t)
		w, _ := k.add("https://example.com", 1)
		if err := k.sender().stopped(t.Context(), &w, &ending{store.WebhookFailing, text, begin}); err != nil {
			t.Fatal(err)
		}
		if now, err := k.store.Webhook(t.Context(), w.ID); err != nil || !utf8.ValidString(now.Reason) || len(now.Reason) > store.MaxWebhookReason || now.Status != store.WebhookFailing {
			t.Errorf("%d bytes before the limit: %+v, %v", from, now, err)
		}
	}
}

// Endpoints that hang take no connection of another one on their host, however many of
// them there are.
func TestHangingNeighbours(t *testing.T) {
	k := newKit(t)
	var hanging atomic.Int64
	r := newReceiver(t, func(_ int, _ http.ResponseWriter, q *http.Request) {
		if strings.HasPrefix(q.URL.Path, "/hangs") {
			hanging.Add(1)
			<-q.Context().Done()
			hanging.Add(-1)
		}
	})
	for _, path := range []string{"/hangs/1", "/hangs/2", "/hangs/3"} {
		k.add(r.URL+path, 10, "mail.sent")
	}
	k.add(r.URL+"/good", 10, "mail.opened")
	for part := range partitions { // before it runs: a pass that found one alone would wait for its answer
		k.put(part, "mail.sent")
	}
	k.run(k.sender())
	until(t, "all of them hang", func() bool { return hanging.Load() == 3*partitions })
	k.put(0, "mail.opened")
	want := k.written[0][1:]
	until(t, "the event of another one", func() bool {
		return slices.ContainsFunc(r.requests(), func(g got) bool { return slices.Equal(g.events, want) })
	})
	if hanging.Load() != 3*partitions {
		t.Errorf("it waited until requests had ended: %d of %d hang", hanging.Load(), 3*partitions)
	}
}

// An error is told without the path and the query of the URL, which may be secret, also if
// the receiver repeats them in its answer.
func TestAnswersThatRepeatTheURL(t *testing.T) {
	r := newReceiver(t, func(_ int, w http.ResponseWriter, q *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte(`Cannot POST ` + q.URL.RequestURI() + ` {"path":"` + strings.ReplaceAll(q.URL.Path, "/", `\/`) + `"} no such hook`))
	})
	k := newKit(t)
	w, _ := k.add(r.URL+"/T0SECRET/b%C3%A4rSECRET?token=5SECRET5", 1)
	a := post(t.Context(), http.DefaultClient, &Secrets{Root: []byte("a root of 32 bytes, or thereabout")}, &w, "id", k.clock.Now(), []byte("{}"))
	if strings.Contains(a.failure, "SECRET") || !strings.Contains(a.failure, "404 Cannot POST /…/…?token=…") || !strings.Contains(a.failure, "no such hook") {
		t.Errorf("%q", a.failure)
	}
}
