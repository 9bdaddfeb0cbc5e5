package webhook

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"time"

	"sluice/store"
)

// endpoint returns what posts to an endpoint, for a test that has it work pass by pass.
func (k *kit) endpoint(s *Sender, w store.Webhook) *endpoint {
	k.t.Helper()
	secrets, err := s.Secrets(k.t.Context())
	if err != nil {
		k.t.Fatal(err)
	}
	e := &endpoint{s: s, hook: w, client: s.Guard.Client(), secrets: secrets}
	k.t.Cleanup(e.client.CloseIdleConnections)
	return e
}

// pass has an endpoint do one pass.
func (k *kit) pass(e *endpoint) {
	k.t.Helper()
	if _, err := e.pass(k.t.Context(), k.t.Context()); err != nil {
		k.t.Fatal(err)
	}
}

// more adds partitions up to a number of them.
func (k *kit) more(to int) {
	k.t.Helper()
	for part := partitions; part < to; part++ {
		at, err := k.store.Cursors(k.t.Context(), follower, []int{part})
		if err != nil {
			k.t.Fatal(err)
		}
		k.at[part] = at[part]
	}
}

// A receiver that is down for a moment, while many partitions have something, is asked by
// few requests, and gets all soon after it works again.
func TestShortFailure(t *testing.T) {
	const many = 16
	k := newKit(t)
	k.more(many)
	r := newReceiver(t, func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
	w, _ := k.add(r.URL, 10)
	for part := range many {
		k.put(part, "mail.sent")
	}
	e := k.endpoint(k.sender(), w)
	k.pass(e)
	if n := len(r.requests()); n < restAfter || n >= restAfter+maxRequests {
		t.Errorf("%d requests to a receiver that is down", n)
	}
	k.pass(e)
	before := len(r.requests())
	r.mu.Lock()
	r.answer = nil
	r.mu.Unlock()
	k.clock.Move(time.Minute)
	k.pass(e) // one request
	if n := len(r.requests()) - before; n != 1 {
		t.Errorf("%d requests at once to find out whether it works", n)
	}
	k.pass(e)
	if n := len(ids(r.requests()[before:])); n != many {
		t.Errorf("%d of %d events a minute later", n, many)
	}
}

// An endpoint that is removed while a post is under way gets nothing more, and leaves no
// lanes behind.
func TestRemovedUnderWay(t *testing.T) {
	k := newKit(t)
	k.put(0, "mail.sent") // before there is an endpoint
	id := make(chan string, 1)
	r := newReceiver(t, func(n int, _ http.ResponseWriter, _ *http.Request) {
		if n > 0 {
			return
		}
		if err := k.store.DropWebhook(t.Context(), <-id); err != nil {
			t.Error(err)
		}
	})
	w, _ := k.add(r.URL, 10)
	id <- w.ID
	k.put(0, "mail.opened")
	ctx, stop := context.WithCancel(t.Context())
	sender := k.sender()
	at := &endpoint{s: sender, hook: w, client: sender.Guard.Client(), stop: stop, ended: make(chan struct{})}
	go func() { defer close(at.ended); at.run(ctx, ctx) }()
	t.Cleanup(func() { stop(); <-at.ended; at.client.CloseIdleConnections() })
	until(t, "it ends by itself", func() bool {
		select {
		case <-at.ended:
			return true
		default:
			return false
		}
	})
	lanes, err := k.store.WebhookLanes(t.Context(), w.ID)
	if got := ids(r.requests()); err != nil || len(lanes) != 0 || !slices.Equal(got, k.written[0][1:]) {
		t.Errorf("lanes %v, %v; posted %v, all %v", lanes, err, got, k.written[0])
	}
}

// A log that nobody had read when the lanes were loaded is posted from its beginning.
func TestLaterPartition(t *testing.T) {
	k := newKit(t)
	r := newReceiver(t, nil)
	k.add(r.URL, 10)
	k.run(k.sender())
	k.put(0, "mail.sent")
	until(t, "the lanes are loaded", func() bool { return len(r.requests()) == 1 })
	at, err := k.store.Cursors(t.Context(), follower, []int{partitions})
	if err != nil {
		t.Fatal(err)
	}
	k.at[partitions] = at[partitions]
	k.put(partitions, "mail.sent", "mail.opened")
	until(t, "its events", func() bool { return len(ids(r.requests())) == 3 })
	if got := ids(r.requests())[1:]; !slices.Equal(got, k.written[partitions]) {
		t.Errorf("got %v, want %v", got, k.written[partitions])
	}
}
