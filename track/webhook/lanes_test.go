package webhook

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sluice"
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

// waitForHeads waits until a sender sees what is stored: heads are read now and then.
func (k *kit) waitForHeads(s *Sender) {
	k.t.Helper()
	until(k.t, "it is seen what is stored", func() bool {
		heads, err := s.Heads.Get(k.t.Context())
		return err == nil && !slices.ContainsFunc(slices.Collect(maps.Keys(k.at)), func(part int) bool { return heads[part] != k.at[part] })
	})
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

// unlucky is a store that fails to write the next answers of receivers.
type unlucky struct {
	Store
	fails int
}

func (u *unlucky) MoveWebhook(ctx context.Context, m store.WebhookMove) error {
	if m.Note != nil && u.fails > 0 {
		u.fails--
		return errors.New("away")
	}
	return u.Store.MoveWebhook(ctx, m)
}

// What is stored of since when an endpoint fails is what is so, also if the answer that
// changes it could not be written the first time.
func TestFailingIsStored(t *testing.T) {
	k := newKit(t)
	r := newReceiver(t, nil)
	w, _ := k.add(r.URL, 10)
	k.put(0, "mail.sent")
	sender := k.sender()
	db := &unlucky{Store: k.store}
	sender.Store = db
	e := k.endpoint(sender, w)
	for _, c := range []struct {
		down  bool
		fails int
	}{{true, 0}, {false, 1}, {true, 1}, {true, 0}, {false, 0}, {false, 1}} {
		r.mu.Lock()
		if r.answer = nil; c.down {
			r.answer = func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }
		}
		r.mu.Unlock()
		k.put(0, "mail.sent")
		k.clock.Move(time.Hour)
		k.waitForHeads(sender)
		if db.fails = c.fails; c.fails > 0 {
			if _, err := e.pass(t.Context(), t.Context()); err == nil {
				t.Fatal("an answer that could not be written is no error")
			}
			e.lanes = nil
		}
		k.pass(e)
		if now, err := k.store.Webhook(t.Context(), w.ID); err != nil || (now.FailingMillis != 0) != c.down {
			t.Errorf("%+v: it fails since %d, %v", c, now.FailingMillis, err)
		}
	}
}

// An endpoint fails for as long as a batch of its does. One that was given up, is wanted no
// more or was set back has no part in what fails long after it.
func TestFailureEndsWithItsBatch(t *testing.T) {
	for name, c := range map[string]func(k *kit, e *endpoint){
		"given up": func(k *kit, e *endpoint) {
			for _, after := range []time.Duration{6, 7, 12} { // hours
				k.clock.Move(after * time.Hour)
				if after == 6 {
					k.put(1, "mail.opened") // this one arrives
					k.waitForHeads(e.s)
				}
				k.pass(e)
			}
			if n := e.s.Stats.GivenUp.Load(); n != 1 {
				k.t.Errorf("%d batches were given up", n)
			}
		},
		"wanted no more": func(k *kit, e *endpoint) {
			e.hook.Types, e.lanes = []string{"mail.opened"}, nil
			k.clock.Move(time.Hour)
			k.pass(e)
		},
		"set back": func(k *kit, e *endpoint) {
			k.clock.Move(time.Hour)
			if err := k.service.Replay(k.t.Context(), e.hook.ID, k.clock.Now()); err != nil {
				k.t.Fatal(err)
			}
			e.lanes = nil
		},
		"left by an older program": func(k *kit, e *endpoint) {
			k.clock.Move(time.Hour)
			if err := k.store.RewindWebhook(k.t.Context(), e.hook.ID, follower, k.clock.Now().UnixMilli()); err != nil {
				k.t.Fatal(err)
			}
			e.hook.Types, e.lanes = []string{"mail.sent"}, nil
			k.put(1, "mail.opened") // it is passed
			k.waitForHeads(e.s)
			for range 2 {
				k.pass(e)
				k.clock.Move(saveEvery)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			k := newKit(t)
			refused := http.StatusBadRequest
			r := newReceiver(t, nil)
			r.answer = func(_ int, w http.ResponseWriter, _ *http.Request) {
				r.mu.Lock()
				defer r.mu.Unlock()
				if strings.Contains(string(r.all[len(r.all)-1].body), "mail.sent") {
					w.WriteHeader(refused)
				}
			}
			w, _ := k.add(r.URL, 1)
			e := k.endpoint(k.sender(), w)
			k.put(0, "mail.sent")
			k.pass(e)
			if now, err := k.store.Webhook(t.Context(), w.ID); err != nil || now.FailingMillis == 0 {
				t.Fatalf("a batch has failed: %+v, %v", now, err)
			}
			c(k, e)
			if now, err := k.store.Webhook(t.Context(), w.ID); err != nil || now.FailingMillis != 0 || now.Status != store.WebhookOn {
				t.Errorf("nothing fails any more: %+v, %v", now, err)
			}
			k.clock.Move(30 * time.Hour)
			e.hook.Types = nil
			k.put(2, "mail.sent")
			k.waitForHeads(e.s)
			k.pass(e)
			if now, err := k.store.Webhook(t.Context(), w.ID); err != nil || now.FailingMillis != k.clock.Now().UnixMilli() || now.Status != store.WebhookOn {
				t.Errorf("one request has failed: %+v, %v", now, err)
			}
		})
	}
}

// How long an endpoint fails is counted anew from each change by people on: it may have been
// what was wrong.
func TestFailingBeforeAChange(t *testing.T) {
	k := newKit(t)
	r := newReceiver(t, func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
	for name, change := range map[string]func(id string) error{
		"URL": func(id string) error {
			u := r.URL + "/right"
			_, err := k.service.Change(t.Context(), id, &Change{URL: &u})
			return err
		},
		"secret": func(id string) error { _, _, err := k.service.Rotate(t.Context(), id); return err },
	} {
		w, _ := k.add(r.URL, 1)
		k.put(0, "mail.sent")
		sender := k.sender()
		k.waitForHeads(sender)
		k.pass(k.endpoint(sender, w))
		k.clock.Move(24*time.Hour - 10*time.Minute)
		if err := change(w.ID); err != nil {
			t.Fatal(err)
		}
		now, err := k.store.Webhook(t.Context(), w.ID)
		if err != nil || now.FailingMillis != 0 {
			t.Errorf("%s: %+v, %v", name, now, err)
		}
		k.clock.Move(20 * time.Minute)
		k.pass(k.endpoint(sender, now))
		if now, err = k.store.Webhook(t.Context(), w.ID); err != nil || now.FailingMillis != k.clock.Now().UnixMilli() || now.Status != store.WebhookOn {
			t.Errorf("%s, and one request has failed: %+v, %v", name, now, err)
		}
	}
}

// reads is a store that counts the events that are read.
type reads struct {
	Store
	rows int // of one lane at a time
}

func (r *reads) FeedPage(ctx context.Context, follower string, partition int, after sluice.Place, limit int) (store.FeedPage, error) {
	page, err := r.Store.FeedPage(ctx, follower, partition, after, limit)
	r.rows += len(page.Events)
	return page, err
}

// However much waits, few events are read for each request: also with one event to a
// request, and where few are wanted.
func TestReadsFew(t *testing.T) {
	const every, many = 40, 10
	k := newKit(t)
	r := newReceiver(t, nil)
	for name, c := range map[string]struct {
		batch, most int
		types       []string
	}{
		"all, one by one": {1, 20, nil}, "all": {100, 101, nil}, "few, one by one": {1, 16 + 64 + 256, []string{"custom.wanted"}},
	} {
		w, _ := k.add(r.URL, c.batch, c.types...)
		before := len(r.requests())
		for range many {
			k.put(0, append(slices.Repeat([]string{"mail.sent"}, every-1), "custom.wanted")...)
		}
		sender := k.sender()
		db := &reads{Store: k.store}
		sender.Store = db
		e := k.endpoint(sender, w)
		want := many * every
		if c.types != nil {
			want = many
		}
		for passes := 0; len(ids(r.requests()[before:])) < want; passes++ {
			if k.pass(e); passes > 2*want {
				t.Fatalf("%s: %d events have arrived", name, len(ids(r.requests()[before:])))
			}
		}
		if posts := len(r.requests()) - before; db.rows > posts*c.most {
			t.Errorf("%s: %d events were read for %d requests", name, db.rows, posts)
		}
	}
}

// alone is a store that counts writes of since when an endpoint fails while another one is
// under way: which of the two is done last is chance.
type alone struct {
	Store
	writing, met atomic.Int64
}

func (a *alone) MoveWebhook(ctx context.Context, m store.WebhookMove) error {
	if m.Failing != nil {
		if a.writing.Add(1) > 1 {
			a.met.Add(1)
		}
		defer a.writing.Add(-1)
	}
	return a.Store.MoveWebhook(ctx, m)
}

// Answers of several partitions at once leave stored what the last one has changed.
func TestFailingInOrder(t *testing.T) {
	const many, each = 4, 20
	k := newKit(t)
	k.more(many)
	r := newReceiver(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		if n%2 == 0 {
			w.WriteHeader(http.StatusBadGateway)
		}
	})
	w, _ := k.add(r.URL, 1)
	for part := range many {
		for range each {
			k.put(part, "mail.sent")
		}
	}
	e := k.endpoint(k.sender(), w)
	db := &alone{Store: k.store}
	e.s.Store, e.s.GiveUp = db, 1000*time.Hour
	for range each {
		k.clock.Move(2 * time.Hour)
		k.pass(e)
		if now, err := k.store.Webhook(t.Context(), w.ID); err != nil || now.FailingMillis != e.failing || db.met.Load() > 0 {
			t.Fatalf("stored is that it fails since %d, %v; it fails since %d; %d were written at once", now.FailingMillis, err, e.failing, db.met.Load())
		}
	}
}

// An endpoint is switched off with its event, not without it. While the event cannot be
// written it gets nothing. What is written in the end is one event, with the time at
// which it was to be switched off.
func TestSwitchedOffIsSaid(t *testing.T) {
	for name, c := range map[string]struct {
		answer int
		status string
		after  time.Duration
	}{"gone": {http.StatusGone, store.WebhookGone, 0}, "failing": {http.StatusBadGateway, store.WebhookFailing, 24 * time.Hour}} {
		t.Run(name, func(t *testing.T) {
			k := newKit(t)
			r := newReceiver(t, func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(c.answer) })
			w, _ := k.add(r.URL, 10)
			k.put(0, "mail.sent")
			sender := k.sender()
			away := errors.New("away")
			var told []sluice.Event
			sender.Announce = func(_ context.Context, e *sluice.Event) error {
				told = append(told, *e)
				return away
			}
			e := k.endpoint(sender, w)
			began := k.clock.Now()
			for len(told) == 0 {
				if _, err := e.pass(t.Context(), t.Context()); err != nil && !errors.Is(err, away) {
					t.Fatal(err)
				}
				if k.clock.Move(time.Hour); k.clock.Now().Sub(began) > 48*time.Hour {
					t.Fatal("it is not switched off")
				}
			}
			requests := len(r.requests())
			for range 3 {
				e.lanes = nil
				if _, err := e.pass(t.Context(), t.Context()); !errors.Is(err, away) {
					t.Fatal(err)
				}
				k.clock.Move(time.Hour)
			}
			if now, err := k.store.Webhook(t.Context(), w.ID); err != nil || now.Status != store.WebhookOn || len(r.requests()) != requests {
				t.Errorf("nothing is said yet: %+v, %v, %d requests, before %d", now, err, len(r.requests()), requests)
			}
			away = nil
			if _, err := e.pass(t.Context(), t.Context()); !errors.Is(err, errOff) {
				t.Fatal(err)
			}
			if now, err := k.store.Webhook(t.Context(), w.ID); err != nil || now.Status != c.status {
				t.Errorf("%+v, %v", now, err)
			}
			for _, e := range told {
				if e.ID != "webhook_disabled:"+w.ID+":"+strconv.FormatInt(w.Revision, 10) || e != told[0] || e.TimeMillis != began.Add(c.after).UnixMilli() {
					t.Errorf("told %+v", e)
				}
			}
		})
	}
}
