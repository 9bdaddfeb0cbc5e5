package webhook

import (
	"context"
	"net/http"
	"slices"
	"testing"
)

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
