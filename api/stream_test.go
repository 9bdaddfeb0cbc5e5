package api

import (
	"bufio"
	"context"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"sluice"
	"sluice/store"
	"sluice/track/feed"
)

// A stream whose filter takes nothing tells how far it has read all the same: a client that
// connects again reads on from there.
func TestAStreamThatShowsNothingTellsItsPlace(t *testing.T) {
	db := openKeys(t)
	heads := &feed.Heads{Store: db, Follower: "store", Clock: sluice.SystemClock{}}
	p := &program{keys: db, feed: heads}
	s := New("127.0.0.1:0", p, slog.New(slog.DiscardHandler), Options{})
	s.heartbeat = time.Millisecond
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer stop(t, s)
	_, text := addKey(t, db, "events:read")
	from, err := db.Cursors(t.Context(), heads.Follower, []int{0})
	if err != nil {
		t.Fatal(err)
	}
	begin := &feed.Stream{Heads: heads}
	if err := begin.Begin(t.Context(), "", true); err != nil {
		t.Fatal(err)
	}
	if len(begin.ID()) <= 2 {
		t.Fatal("the beginning has no partition")
	}
	to := sluice.Position{Major: 1_780_000_000_000}
	prepared, err := db.Prepare(&store.Effect{
		Events: []store.StoredEvent{{Place: sluice.Place{Position: to}, Event: sluice.Event{Kind: sluice.KindCustom, Name: "n", ID: "e", User: "u", TimeMillis: 1_780_000_000_000}}},
		Moves:  []store.Move{{Follower: heads.Follower, From: from[0], To: to}},
	})
	if err == nil {
		_, err = db.Apply(t.Context(), prepared)
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.Address()+streamPath+"?types=mail", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+text)
	r.Header.Set("Last-Event-ID", begin.ID())
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	for lines := bufio.NewScanner(res.Body); ; {
		if !lines.Scan() {
			t.Fatalf("the stream ended before it told a place behind the event: %s, %v", res.Status, lines.Err())
		}
		id, ok := strings.CutPrefix(lines.Text(), "id: ")
		if !ok {
			continue
		}
		next := &feed.Stream{Heads: heads}
		if err := next.Begin(t.Context(), id, false); err != nil {
			t.Fatal(err)
		}
		if part, err := next.Next(t.Context()); err != nil || len(part.Events) == 0 {
			return // the test's time is the bound where it never is
		}
	}
}
