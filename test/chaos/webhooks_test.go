package chaos

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

// hooked is what a receiver of webhooks has got: the message that each event was in.
type hooked struct {
	mu       sync.Mutex
	messages map[string]string // by event
	repeats  int               // requests that were there already
	renamed  int               // events that came in another message
}

// ServeHTTP implements http.Handler.
func (h *hooked) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Data struct {
			Events []struct {
				ID   string `json:"event_id"`
				Time string `json:"time"`
			}
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	message, again := r.Header.Get("webhook-id"), false
	for _, e := range body.Data.Events {
		before, known := h.messages[e.Time+e.ID]
		again = again || known
		if known && before != message {
			h.renamed++
		}
		h.messages[e.Time+e.ID] = message
	}
	if again {
		h.repeats++
	}
}

func (h *hooked) count() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return int64(len(h.messages))
}

// TestWebhooksAreKilled kills the program that posts events before and behind a post, and
// then the other one that takes over, again and again. Every event arrives; what arrives
// again does so in the same message.
func TestWebhooksAreKilled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.writeConfig("webhooks: {allow_hosts: [127.0.0.1]}\n" + inputLists)
	h := &hooked{messages: make(map[string]string)}
	receiver := httptest.NewServer(h)
	t.Cleanup(receiver.Close)
	first := w.start("")
	w.awaitListen()
	w.command("", "webhook", "add", receiver.URL, "--batch", "300")
	first.kill()
	w.startPushing()
	for _, failpoint := range []string{"webhook-marked=kill,3", "webhook-posted=kill,2", "webhook-posted=kill,5"} {
		one, other := w.start(failpoint), w.start(failpoint)
		w.exits(one, "the program has killed itself at "+failpoint)
		w.exits(other, "the program has killed itself at "+failpoint)
	}
	w.start("")
	w.stopPushing()
	w.checkElements()
	w.eventually("every event has arrived", func() bool { return h.count() == w.pushed })
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.renamed > 0 || h.repeats == 0 {
		t.Errorf("%d messages came again, %d events in another one", h.repeats, h.renamed)
	}
	t.Logf("%d events, %d messages came again", len(h.messages), h.repeats)
}
