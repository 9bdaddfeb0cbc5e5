package storetest

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"sluice"
	"sluice/store"
)

// fed is a store as the feed and webhooks see it.
type fed interface {
	store.FeedStore
	store.WebhookStore
}

// fedEvent is an event at a place of partition 0, with a time of its own.
func fedEvent(major uint64, item int, millis int64) store.StoredEvent {
	return store.StoredEvent{
		Event: sluice.Event{Kind: sluice.KindCustom, TimeMillis: millis, ID: fmt.Sprintf("%d-%d-%d", major, item, millis), Name: "n", App: "a", User: "u1", Email: "ä@example.com", Message: "m", Properties: `{"x":1}`},
		Place: sluice.Place{Position: sluice.Position{Major: major, Minor: 7}, Index: item},
	}
}

// testFeed: pages in the order of places miss nothing, whatever the times of events are,
// and end no later than the cursor of the same moment.
func testFeed(t *testing.T, f *fixture) {
	f.start(t)
	s := f.store.(fed)
	old, now := int64(1_600_000_000_000), int64(1_760_000_000_000)
	before := f.at
	want, places := []string{}, []sluice.Place{}
	add := func(events ...store.StoredEvent) {
		f.apply(t, store.Effect{Events: events}, len(events), 0)
		for _, e := range events {
			want, places = append(want, e.ID), append(places, e.Place)
		}
	}
	page := func(after sluice.Place, limit int) store.FeedPage {
		t.Helper()
		p, err := s.FeedPage(f.ctx, follower, 0, after, limit)
		must(t, err)
		return p
	}
	nothing := page(sluice.Place{}, 10)
	if len(nothing.Events) != 0 || nothing.More || nothing.End != store.EndOf(0, before) {
		t.Errorf("an empty feed: %+v, cursor %s", nothing, before)
	}
	add(fedEvent(1, 0, now), fedEvent(1, 1, old), fedEvent(1, 1, old+1), fedEvent(2, 0, old))
	add(fedEvent(3, 0, now-86_400_000), fedEvent(3, 5, now), fedEvent(9, 0, 1))
	for _, limit := range []int{1, 2, 3, 4, 100} { // an item has two events
		var got []string
		at := sluice.Place{}
		for more, pages := true, 0; more; pages++ {
			if pages > len(want)+1 {
				t.Fatalf("limit %d: no end", limit)
			}
			p := page(at, limit)
			for _, e := range p.Events {
				got = append(got, e.ID)
			}
			if p.More && p.End != p.Events[len(p.Events)-1].Place {
				t.Errorf("limit %d: a page ends at %+v", limit, p.End)
			}
			at, more = p.End, p.More
		}
		slices.Sort(got[1:3]) // of one place
		if !slices.Equal(got, want) {
			t.Errorf("limit %d: got %v, want %v", limit, got, want)
		}
	}
	one := page(places[0], 100).Events[2]
	if expected := fedEvent(2, 0, old); !reflect.DeepEqual(one, expected) {
		t.Errorf("got %+v\nwant %+v", one, expected)
	}
	if p := page(sluice.Place{Position: sluice.Position{Major: 3, Minor: 7}, Index: -1}, 100); len(p.Events) != 3 {
		t.Errorf("from before an item: %+v", p)
	}
	beyond := sluice.Place{Position: sluice.Position{Major: math.MaxInt64 - 1}, Index: 1}
	if p := page(beyond, 100); len(p.Events) != 0 || p.End != beyond {
		t.Errorf("a cursor that has gone back: %+v", p)
	}
	testFeedCount(t, f, s, places)
}

// testFeedCount: what lies between two places is counted up to a bound.
func testFeedCount(t *testing.T, f *fixture, s fed, places []sluice.Place) {
	for _, c := range []struct {
		most      int
		app, user string
		want      int64
	}{{100, "", "", 4}, {3, "", "", 3}, {100, "a", "u1", 4}, {100, "b", "", 0}} {
		sums, err := s.FeedCount(f.ctx, places[1], places[6], c.most, c.app, c.user)
		n := int64(0)
		for _, sum := range sums {
			n += sum.Count
		}
		if err != nil || n != c.want {
			t.Errorf("%+v: %v, %v", c, sums, err)
		}
	}
	heads, err := s.FeedHeads(f.ctx, follower)
	if err != nil || heads[0] != f.at {
		t.Errorf("heads %v, %v, want %s", heads, err, f.at)
	}
}

// testFeedWindows: events of other times than when they were accepted are found, and long
// stretches of nothing are passed.
func testFeedWindows(t *testing.T, f *fixture) {
	f.start(t)
	s := f.store.(fed)
	const day = 86_400_000
	base := int64(1_760_000_000_000)
	walk := func(at sluice.Place) (got []string) {
		t.Helper()
		for more, pages := true, 0; more; pages++ {
			if pages > 40 {
				t.Fatalf("no end, at %+v", at)
			}
			p, err := s.FeedPage(f.ctx, follower, 0, at, 100)
			must(t, err)
			for _, e := range p.Events {
				got = append(got, e.ID)
			}
			at, more = p.End, p.More
		}
		if at != store.EndOf(0, f.at) {
			t.Errorf("ends at %+v, the cursor is %s", at, f.at)
		}
		return got
	}
	var ids []string
	for i, e := range []store.StoredEvent{
		fedEvent(uint64(base), 0, base), fedEvent(uint64(base+day/2), 0, base+2*day), fedEvent(uint64(base+10*day), 0, base+8*day), fedEvent(uint64(base+10*day+1), 0, base+10*day),
		fedEvent(uint64(base+20*day), 0, base), fedEvent(uint64(base+20*day+1), 1, base+20*day), fedEvent(uint64(base+20*day+5), 0, base+50*day), fedEvent(uint64(base+21*day), 0, base+21*day),
	} {
		ids = append(ids, e.ID)
		from := f.at
		f.at = e.Place.Position
		_, err := f.store.Apply(f.ctx, f.prepare(t, &store.Effect{Events: []store.StoredEvent{e}, Moves: []store.Move{{Follower: follower, From: from, To: f.at}}}))
		must(t, err)
		if got := walk(sluice.Place{Position: sluice.Position{Major: uint64(base) - 1}}); !slices.Equal(got, ids) {
			t.Errorf("after %d events: got %v, want %v", i+1, got, ids)
		}
		if got := walk(store.EndOf(0, from)); !slices.Equal(got, ids[i:]) {
			t.Errorf("behind the event before %s: %v", e.ID, got)
		}
	}
}

// testFeedLarge: a page of large events ends early, and the next one goes on.
func testFeedLarge(t *testing.T, f *fixture) {
	f.start(t)
	var events []store.StoredEvent
	for i := range 8 {
		e := fedEvent(5, i, 1_760_000_000_000)
		e.Properties = `{"x":"` + strings.Repeat("y", 300_000) + `"}`
		events = append(events, e)
	}
	f.apply(t, store.Effect{Events: events}, len(events), 0)
	s, at, got := f.store.(fed), sluice.Place{}, 0
	for more, pages := true, 0; more; pages++ {
		p, err := s.FeedPage(f.ctx, follower, 0, at, 100)
		must(t, err)
		if len(p.Events) > 5 || pages > 8 {
			t.Fatalf("page %d has %d events of 300 kB", pages, len(p.Events))
		}
		got, at, more = got+len(p.Events), p.End, p.More
	}
	want(t, "events", got, 8)
}

// testWebhooks: endpoints, their lanes and attempts are kept; of two that change one at
// once, one is refused.
func testWebhooks(t *testing.T, f *fixture) {
	f.start(t)
	s := f.store.(fed)
	w := store.Webhook{ID: "w1", URL: "https://example.com/ä?x=1", Types: []string{"mail.delivered", "custom"}, Format: "standard", Batch: 100, Status: store.WebhookOn,
		Secret: 1, SecretMark: "0123", CreatedMillis: 1_760_000_000_001, UpdatedMillis: 1_760_000_000_002}
	must(t, s.AddWebhook(f.ctx, w, follower))
	holds := func(expected store.Webhook) {
		t.Helper()
		got, err := s.Webhook(f.ctx, expected.ID)
		if all, listed := s.Webhooks(f.ctx); err != nil || listed != nil || !reflect.DeepEqual(got, expected) || len(all) != 1 || !reflect.DeepEqual(all[0], expected) {
			t.Errorf("got %+v, %v, %v\nwant %+v", got, err, listed, expected)
		}
	}
	holds(w)
	if e, ok := errors.AsType[*sluice.Error](onlyError(s.Webhook(f.ctx, "x"))); !ok || e.Code != sluice.CodeNotFound {
		t.Errorf("one that is not there: %v", e)
	}
	lanes, err := s.WebhookLanes(f.ctx, "w1")
	lane := store.WebhookLane{Webhook: "w1", At: store.EndOf(0, f.at)}
	if err != nil || lanes[0] != lane {
		t.Errorf("lanes %+v, %v, want %+v", lanes, err, lane)
	}

	next := lane
	next.To = sluice.Place{Position: sluice.Position{Major: math.MaxInt64 - 5, Minor: 1}, Index: 4}
	must(t, s.MoveWebhook(f.ctx, store.WebhookMove{From: lane, To: next}))
	if err := s.MoveWebhook(f.ctx, store.WebhookMove{From: lane, To: next}); !errors.Is(err, sluice.ErrConflict) {
		t.Errorf("moved twice: %v", err)
	}
	failed, since := next, int64(1_760_000_000_500)
	failed.Attempts, failed.SinceMillis, failed.DueMillis = 1, since, since+5000
	note := store.WebhookDelivery{Slot: store.WebhookSuccesses, Number: 1, Message: "msg_1", AtMillis: since, Events: 3, Attempt: 1, Outcome: store.DeliveryFailed, Status: 500, Error: "no ä", TookMillis: 12}
	must(t, s.MoveWebhook(f.ctx, store.WebhookMove{From: next, To: failed, Note: &note, Failing: &since}))
	w.FailingMillis = since
	holds(w)
	done, zero := failed, int64(0)
	done.At, done.To, done.Attempts, done.SinceMillis, done.DueMillis = failed.To, sluice.Place{}, 0, 0, 0
	second := store.WebhookDelivery{Number: 2, Message: "msg_1", AtMillis: since + 1, Events: 3, Attempt: 2, Outcome: store.DeliveryDone, Status: 204}
	must(t, s.MoveWebhook(f.ctx, store.WebhookMove{From: failed, To: done, Note: &second, Failing: &zero}))
	w.FailingMillis = 0
	holds(w)
	lanes, err = s.WebhookLanes(f.ctx, "w1")
	if err != nil || lanes[0] != done {
		t.Errorf("lanes %+v, %v, want %+v", lanes, err, done)
	}
	third := second
	third.Number = 3
	again := done
	again.To = next.To
	must(t, s.MoveWebhook(f.ctx, store.WebhookMove{From: done, To: again, Note: &third})) // takes the place of the second
	notes, err := s.WebhookDeliveries(f.ctx, "w1", 10)
	if err != nil || !slices.Equal(notes, []store.WebhookDelivery{third, note}) {
		t.Errorf("attempts %+v, %v", notes, err)
	}

	must(t, s.RewindWebhook(f.ctx, "w1", follower, int64(f.at.Major)-1))
	lanes, err = s.WebhookLanes(f.ctx, "w1")
	if set := (store.WebhookLane{Webhook: "w1", At: sluice.Place{Position: sluice.Position{Major: f.at.Major - 1}, Index: -1}}); err != nil || lanes[0] != set {
		t.Errorf("set back: %+v, %v, want %+v", lanes, err, set)
	}
	testWebhookChanges(t, f, s, w, holds)
}

// testWebhookChanges is the second half of testWebhooks.
func testWebhookChanges(t *testing.T, f *fixture, s fed, w store.Webhook, holds func(store.Webhook)) {
	stale := w
	w.URL, w.Types, w.Secret, w.RotatedMillis, w.Status = "https://example.org", []string{}, 2, 1_760_000_000_777, store.WebhookOff
	must(t, s.ChangeWebhook(f.ctx, w))
	w.Revision++
	holds(w)
	if err := s.ChangeWebhook(f.ctx, stale); !errors.Is(err, sluice.ErrConflict) {
		t.Errorf("a stale change: %v", err)
	}
	if err := s.StopWebhook(f.ctx, w, store.WebhookGone, "410"); !errors.Is(err, sluice.ErrConflict) {
		t.Errorf("one that is off was switched off: %v", err)
	}
	w.Status = store.WebhookOn
	must(t, s.ChangeWebhook(f.ctx, w))
	w.Revision++
	for i := 2; i <= store.MaxWebhooks; i++ {
		other := w
		other.ID = fmt.Sprintf("w%d", i)
		must(t, s.AddWebhook(f.ctx, other, follower))
	}
	other := w
	other.ID = "one more"
	if e, ok := errors.AsType[*sluice.Error](s.AddWebhook(f.ctx, other, follower)); !ok || e.Code != sluice.CodeInvalid {
		t.Errorf("too many: %v", e)
	}
	must(t, s.DropWebhook(f.ctx, w.ID))
	for name, err := range map[string]error{"filled": s.FillWebhookLanes(f.ctx, w.ID, follower), "set back": s.RewindWebhook(f.ctx, w.ID, follower, 1)} {
		if e, ok := errors.AsType[*sluice.Error](err); !ok || e.Code != sluice.CodeNotFound {
			t.Errorf("one that was removed is %s: %v", name, err)
		}
	}
	lanes, err := s.WebhookLanes(f.ctx, w.ID)
	notes, failed := s.WebhookDeliveries(f.ctx, w.ID, 10)
	if err != nil || failed != nil || len(lanes)+len(notes) != 0 {
		t.Errorf("left behind: %v, %v, %v, %v", lanes, notes, err, failed)
	}
}

// fillWebhooks fills the tables of webhooks, without one that is on: a restore switches
// that off.
func (f *fixture) fillWebhooks(t *testing.T) {
	t.Helper()
	s := f.store.(fed)
	must(t, s.AddWebhook(f.ctx, store.Webhook{ID: "filled", URL: "https://example.com", Types: []string{"mail"}, Format: "standard", Batch: 1, Status: store.WebhookOff, Reason: "ä",
		Secret: 1, RotatedMillis: 5, CreatedMillis: 1_760_000_000_001, UpdatedMillis: 1_760_000_000_002}, follower))
	lanes, err := s.WebhookLanes(f.ctx, "filled")
	must(t, err)
	for _, lane := range lanes {
		to := lane
		to.At.Index, to.DueMillis = 3, 1_760_000_000_003
		must(t, s.MoveWebhook(f.ctx, store.WebhookMove{From: lane, To: to, Note: &store.WebhookDelivery{Number: 1, AtMillis: 1_760_000_000_004, Outcome: store.DeliveryDone}}))
		break
	}
}
