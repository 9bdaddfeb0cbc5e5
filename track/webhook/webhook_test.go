package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"sluice"
	"sluice/store"
)

// verify checks a message as the specification of Standard Webhooks says, from its text
// alone.
func verify(secret string, g got) bool {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil || !strings.HasPrefix(secret, "whsec_") || len(key) < 24 || len(key) > 64 {
		return false
	}
	mac := hmac.New(sha256.New, key)
	mac.Write(slices.Concat([]byte(g.id), []byte("."), []byte(g.timestamp), []byte("."), g.body))
	want := base64.StdEncoding.EncodeToString(mac.Sum(nil))
	for _, s := range strings.Split(g.signature, " ") {
		if s == "v1,"+want {
			return true
		}
	}
	return false
}

// inOrder reports whether those of a partition arrived in its order, repeats left out,
// and all of them.
func (k *kit) inOrder(all []string) bool {
	seen := make(map[string]bool)
	byPart := make(map[int][]string)
	for _, id := range all {
		if part, err := strconv.Atoi(id[:1]); err == nil && !seen[id] {
			byPart[part] = append(byPart[part], id)
		}
		seen[id] = true
	}
	for part := range partitions {
		if !slices.Equal(byPart[part], k.written[part]) {
			return false
		}
	}
	return true
}

// Events of all partitions arrive, signed, each once while nothing fails, in the order of
// each partition, whatever their times are; of other types none.
func TestDelivers(t *testing.T) {
	k := newKit(t)
	k.put(0, "mail.sent") // before there is an endpoint
	k.written = make(map[int][]string)
	r := newReceiver(t, nil)
	w, secret := k.add(r.URL+"/x", 3, "mail.delivered", "custom")
	k.run(k.sender())
	for range 5 {
		for part := range partitions {
			k.put(part, "mail.delivered", "custom.a.b", "custom.c")
		}
	}
	until(t, "all events", func() bool { return len(ids(r.requests())) >= 45 })
	k.put(1, "mail.sent", "purchase.x", "system.y")
	unwanted := slices.Clone(k.written[1][len(k.written[1])-3:])
	k.written[1] = k.written[1][:len(k.written[1])-3]
	k.put(1, "mail.delivered")
	until(t, "the last event", func() bool { return len(ids(r.requests())) >= 46 })
	all := ids(r.requests())
	if !k.inOrder(all) || len(all) != 46 || slices.ContainsFunc(all, func(id string) bool { return slices.Contains(unwanted, id) }) {
		t.Errorf("got %v\nwant %v", all, k.written)
	}
	names := make(map[string]bool)
	for _, g := range r.requests() {
		if !verify(secret, g) || g.kind != "events.batch" || len(g.events) > 3 || names[g.id] || g.header.Get("Content-Type") != "application/json" {
			t.Errorf("a message: %+v, %s", g, g.body)
		}
		names[g.id] = true
	}
	var first struct {
		Data struct{ Events []map[string]any }
	}
	if err := json.Unmarshal(r.requests()[0].body, &first); err != nil || first.Data.Events[0]["type"] != "mail.delivered" || first.Data.Events[0]["user_id"] != "u1" || first.Data.Events[0]["properties"] == nil {
		t.Errorf("%v: %s", err, r.requests()[0].body)
	}
	until(t, "the attempts", func() bool {
		notes, err := k.store.WebhookDeliveries(t.Context(), w.ID, 100)
		return err == nil && len(notes) >= 15 && len(notes) <= store.WebhookSuccesses && notes[0].Outcome == store.DeliveryDone
	})
}

// With one event to a request, the message has the type of the event.
func TestSingle(t *testing.T) {
	k := newKit(t)
	r := newReceiver(t, nil)
	_, secret := k.add(r.URL, 1)
	k.run(k.sender())
	k.put(2, "custom.signed_up", "mail.opened")
	until(t, "both", func() bool { return len(r.requests()) == 2 })
	if all := r.requests(); all[0].kind != "custom.signed_up" || all[1].kind != "mail.opened" || !verify(secret, all[0]) || verify(Text([]byte("another secret of some 32 bytes..")), all[0]) {
		t.Errorf("got %+v", all)
	}
}

// What fails is posted again under the same name with the same events; meanwhile another
// endpoint gets all of its own.
func TestRetries(t *testing.T) {
	k := newKit(t)
	good := newReceiver(t, nil)
	down := newReceiver(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		if n < 3 {
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = io.WriteString(w, "no\nnot now")
		}
	})
	k.add(good.URL, 10)
	w, _ := k.add(down.URL, 10)
	sender := k.sender()
	k.run(sender)
	k.put(0, "mail.sent", "mail.sent")
	until(t, "the good one", func() bool { return len(ids(good.requests())) == 2 })
	for n := 1; n <= 3; n++ {
		until(t, "an attempt", func() bool { return len(down.requests()) >= n })
		until(t, "its record", func() bool {
			notes, err := k.store.WebhookDeliveries(t.Context(), w.ID, 10)
			return err == nil && len(notes) >= n
		})
		k.put(0, "custom.later") // the batch stays as it is
		k.clock.Move(2 * time.Hour)
	}
	until(t, "the rest", func() bool { return k.inOrder(ids(down.requests())) && len(down.requests()) >= 5 })
	all := down.requests()
	for _, g := range all[:4] {
		if g.id != all[0].id || !slices.Equal(g.events, all[0].events) || len(g.events) != 2 {
			t.Errorf("an attempt again: %+v, the first: %+v", g, all[0])
		}
	}
	if all[4].id == all[0].id {
		t.Error("another batch has the same name")
	}
	notes, err := k.store.WebhookDeliveries(t.Context(), w.ID, 10)
	failed := slices.DeleteFunc(notes, func(n store.WebhookDelivery) bool { return n.Outcome == store.DeliveryDone })
	if err != nil || len(failed) != 3 || failed[0].Error != "it answered 500 no not now" || failed[0].Attempt != 3 || failed[0].Status != 500 {
		t.Errorf("attempts %+v, %v", failed, err)
	}
	if now, err := k.store.Webhook(t.Context(), w.ID); err != nil || now.FailingMillis != 0 || now.Status != store.WebhookOn || sender.Stats.Failed.Load() != 3 {
		t.Errorf("%+v, %v", now, err)
	}
}

// What becomes of answers that are none: a redirect is not followed, a long answer is not
// read, a broken one is a failure; 410 ends it.
func TestAnswers(t *testing.T) {
	k := newKit(t)
	elsewhere := newReceiver(t, nil)
	for name, c := range map[string]struct {
		answer          func(n int, w http.ResponseWriter, r *http.Request)
		outcome, status string
		says            string
	}{
		"redirect": {func(_ int, w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL, http.StatusPermanentRedirect)
		}, store.DeliveryFailed, store.WebhookOn, "redirects are not followed"},
		"endless": {func(_ int, w http.ResponseWriter, _ *http.Request) {
			for _, err := io.WriteString(w, strings.Repeat("x", 1<<16)); err == nil; {
				_, err = io.WriteString(w, strings.Repeat("x", 1<<16))
			}
		}, store.DeliveryDone, store.WebhookOn, ""},
		"cut": {func(_ int, _ http.ResponseWriter, _ *http.Request) { panic(http.ErrAbortHandler) }, store.DeliveryFailed, store.WebhookOn, "EOF"},
		"gone": {func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusGone) },
			store.DeliveryFailed, store.WebhookGone, "410"},
		"early hints": {func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }, store.DeliveryDone, store.WebhookOn, ""},
	} {
		r := newReceiver(t, c.answer)
		w, _ := k.add(r.URL, 10)
		stop := k.run(k.sender())
		k.put(0, "mail.sent")
		var notes []store.WebhookDelivery
		until(t, name, func() bool {
			var err error
			notes, err = k.store.WebhookDeliveries(t.Context(), w.ID, 10)
			return err == nil && len(notes) > 0
		})
		if n := notes[0]; n.Outcome != c.outcome || !strings.Contains(n.Error, c.says) || (c.says == "") != (n.Error == "") {
			t.Errorf("%s: %+v", name, n)
		}
		until(t, name+": its status", func() bool {
			now, err := k.store.Webhook(t.Context(), w.ID)
			return err == nil && now.Status == c.status
		})
		stop()
		if err := k.store.DropWebhook(t.Context(), w.ID); err != nil {
			t.Fatal(err)
		}
	}
	if len(elsewhere.requests()) > 0 || len(k.told) != 1 || !strings.Contains(k.told[0], `webhook_disabled {"webhook":`) || !strings.Contains(k.told[0], `"status":"gone"`) {
		t.Errorf("followed: %v; told: %q", elsewhere.requests(), k.told)
	}
}

// An endpoint that nothing reaches for GiveUp is switched off, and keeps its places: when
// it is switched on again, nothing is missing.
func TestSwitchedOff(t *testing.T) {
	k := newKit(t)
	down := newReceiver(t, func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
	w, _ := k.add(down.URL, 10)
	k.run(k.sender())
	for part := range partitions {
		k.put(part, "mail.sent", "custom.a")
	}
	until(t, "each partition is tried", func() bool { return len(down.requests()) >= partitions })
	until(t, "it is off", func() bool {
		k.clock.Move(30 * time.Minute)
		_ = sluice.Pause(t.Context(), 20*time.Millisecond)
		now, err := k.store.Webhook(t.Context(), w.ID)
		return err == nil && now.Status == store.WebhookFailing && strings.Contains(now.Reason, "it answered 502")
	})
	before := len(down.requests())
	down.mu.Lock()
	down.answer, down.all = nil, nil
	down.mu.Unlock()
	k.put(1, "mail.opened")
	on := store.WebhookOn
	if now, err := k.service.Change(t.Context(), w.ID, &Change{Status: &on}); err != nil || now.FailingMillis != 0 || now.Reason != "" {
		t.Fatalf("%+v, %v", now, err)
	}
	until(t, "all events", func() bool {
		k.clock.Move(30 * time.Minute)
		return k.inOrder(ids(down.requests()))
	})
	if before < partitions || before > 200 {
		t.Errorf("%d requests in 24 hours", before)
	}
}

// An endpoint that is switched on again and is still down gives nothing up: nothing else
// has arrived. It is switched off again, and has all when it works.
func TestSwitchedOnTooEarly(t *testing.T) {
	k := newKit(t)
	down := newReceiver(t, func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
	w, _ := k.add(down.URL, 10)
	sender := k.sender()
	k.run(sender)
	for part := range partitions {
		k.put(part, "mail.sent", "custom.a")
	}
	on := store.WebhookOn
	for round := range 3 {
		until(t, "it is off", func() bool {
			k.clock.Move(30 * time.Minute)
			_ = sluice.Pause(t.Context(), 20*time.Millisecond)
			now, err := k.store.Webhook(t.Context(), w.ID)
			return err == nil && now.Status == store.WebhookFailing
		})
		if n := sender.Stats.GivenUp.Load(); n != 0 {
			t.Fatalf("round %d: %d batches were given up, and nothing has arrived", round, n)
		}
		if round == 2 {
			down.mu.Lock()
			down.answer, down.all = nil, nil
			down.mu.Unlock()
		}
		if _, err := k.service.Change(t.Context(), w.ID, &Change{Status: &on}); err != nil {
			t.Fatal(err)
		}
	}
	until(t, "all events", func() bool {
		k.clock.Move(30 * time.Minute)
		return k.inOrder(ids(down.requests()))
	})
}

// A batch that is refused while others arrive is given up after GiveUp, said and kept;
// what is behind it goes on.
func TestGivesUp(t *testing.T) {
	k := newKit(t)
	r := newReceiver(t, nil)
	r.answer = func(_ int, w http.ResponseWriter, _ *http.Request) {
		r.mu.Lock()
		poison := slices.Contains(r.all[len(r.all)-1].events, "0-1")
		r.mu.Unlock()
		if poison {
			w.WriteHeader(http.StatusUnprocessableEntity)
		}
	}
	w, _ := k.add(r.URL, 1)
	sender := k.sender()
	k.run(sender)
	k.put(0, "mail.sent") // 0-1
	k.put(0, "mail.sent")
	for range 6 { // something arrives all the time, however busy the machine is
		k.put(1, "custom.a")
		until(t, "another arrives", func() bool { return slices.Contains(ids(r.requests()), k.written[1][len(k.written[1])-1]) })
		k.clock.Move(6 * time.Hour)
	}
	until(t, "it is given up", func() bool { return sender.Stats.GivenUp.Load() == 1 })
	until(t, "what is behind it", func() bool { return slices.Contains(ids(r.requests()), "0-2") })
	notes, err := k.store.WebhookDeliveries(t.Context(), w.ID, 1000)
	given := slices.DeleteFunc(notes, func(n store.WebhookDelivery) bool { return n.Outcome != store.DeliveryGivenUp })
	if err != nil || len(given) != 1 || given[0].Events != 1 || given[0].Status != 422 || given[0].Attempt < 3 { // how many depends on the machine: time goes on meanwhile
		t.Errorf("given up: %+v, %v", given, err)
	}
	if now, err := k.store.Webhook(t.Context(), w.ID); err != nil || now.Status != store.WebhookOn {
		t.Errorf("%+v, %v", now, err)
	}
}

// Of two senders, one of which is ended in the middle again and again, nothing is lost and
// no batch gets a second name.
func TestHandOver(t *testing.T) {
	k := newKit(t)
	r := newReceiver(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		if n%5 == 4 {
			panic(http.ErrAbortHandler)
		}
	})
	k.add(r.URL, 2)
	patient := func() *Sender { // the clock moves on while a busy machine posts nothing
		s := k.sender()
		s.GiveUp = 1000 * time.Hour
		return s
	}
	k.run(patient())
	for round := range 6 {
		stop := k.run(patient())
		for part := range partitions {
			k.put(part, "mail.sent", "custom.a", "custom.b")
		}
		until(t, "some", func() bool { k.clock.Move(time.Minute); return len(r.requests()) > 5*round })
		stop()
	}
	until(t, "all", func() bool { k.clock.Move(time.Minute); return k.inOrder(ids(r.requests())) })
	events := make(map[string]string)
	for _, g := range r.requests() {
		for _, id := range g.events {
			if name, known := events[id]; known && name != g.id {
				t.Errorf("event %s was in %s and in %s", id, name, g.id)
			}
			events[id] = g.id
		}
	}
}

// For a day after a rotation both secrets sign; after that the new one alone.
func TestRotation(t *testing.T) {
	k := newKit(t)
	r := newReceiver(t, nil)
	w, old := k.add(r.URL, 10)
	_, fresh, err := k.service.Rotate(t.Context(), w.ID)
	if err != nil || fresh == old {
		t.Fatal(fresh == old, err)
	}
	k.run(k.sender())
	k.put(0, "mail.sent")
	until(t, "one", func() bool { return len(r.requests()) == 1 })
	k.clock.Move(RotationOverlap)
	k.put(0, "mail.sent")
	until(t, "another", func() bool { return len(r.requests()) == 2 })
	if all := r.requests(); !verify(old, all[0]) || !verify(fresh, all[0]) || verify(old, all[1]) || !verify(fresh, all[1]) {
		t.Errorf("signatures %q, %q", all[0].signature, all[1].signature)
	}
}

// A replay brings again what was stored since a time, also to one that has caught up.
func TestReplay(t *testing.T) {
	k := newKit(t)
	r := newReceiver(t, nil)
	w, _ := k.add(r.URL, 10)
	k.run(k.sender())
	k.put(0, "mail.sent")
	until(t, "the first", func() bool { return len(r.requests()) == 1 })
	k.clock.Move(time.Hour)
	k.put(0, "mail.opened")
	k.put(1, "mail.opened")
	until(t, "all", func() bool { return len(r.requests()) == 3 })
	if err := k.service.Replay(t.Context(), w.ID, k.clock.Now().Add(-time.Minute)); err != nil {
		t.Fatal(err)
	}
	until(t, "those again", func() bool { return len(ids(r.requests())) == 5 })
	if again := ids(r.requests())[3:]; slices.Contains(again, "0-1") || !slices.Contains(again, "0-2") || !slices.Contains(again, "1-3") {
		t.Errorf("again %v", again)
	}
	if err := k.service.Replay(t.Context(), w.ID, k.clock.Now().Add(time.Minute)); err == nil {
		t.Error("a replay from the future")
	}
}

// Without its secret an endpoint gets nothing, and says so, until it has a new one.
func TestSecretLost(t *testing.T) {
	k := newKit(t)
	r := newReceiver(t, nil)
	w, _ := k.add(r.URL, 10)
	k.service.Secrets = rooted("another root, made after a restore")
	k.run(k.sender())
	k.put(0, "mail.sent")
	until(t, "it is off", func() bool {
		now, err := k.store.Webhook(t.Context(), w.ID)
		return err == nil && now.Status == store.WebhookRestored && strings.Contains(now.Reason, "rotate")
	})
	_, fresh, err := k.service.Rotate(t.Context(), w.ID)
	on := store.WebhookOn
	if err == nil {
		_, err = k.service.Change(t.Context(), w.ID, &Change{Status: &on})
	}
	if err != nil {
		t.Fatal(err)
	}
	until(t, "the event", func() bool { return len(r.requests()) == 1 })
	if !verify(fresh, r.requests()[0]) {
		t.Error("the new secret does not verify")
	}
}

// One that was off for longer than events are kept is told, once, about how many it has
// missed.
func TestLost(t *testing.T) {
	k := newKit(t)
	r := newReceiver(t, nil)
	w, _ := k.add(r.URL, 10, "mail", "custom.a")
	sender := k.sender()
	sender.Kept = map[sluice.EventKind]int{sluice.KindMail: 10, sluice.KindCustom: 10, sluice.KindPurchase: 0}
	set := func(status string) {
		t.Helper()
		if _, err := k.service.Change(t.Context(), w.ID, &Change{Status: &status}); err != nil {
			t.Fatal(err)
		}
	}
	set(store.WebhookOff)
	k.rows = 0
	k.put(0, "mail.sent", "custom.a", "custom.b", "purchase.x") // of some days before, but for the last
	k.put(1, "mail.sent")
	k.clock.Move(8 * 24 * time.Hour)
	set(store.WebhookOn)
	lost := func() (all []store.WebhookDelivery) {
		notes, err := k.store.WebhookDeliveries(t.Context(), w.ID, 100)
		if err != nil {
			t.Fatal(err)
		}
		return slices.DeleteFunc(notes, func(n store.WebhookDelivery) bool { return n.Outcome != store.DeliveryLost })
	}
	stop := k.run(sender)
	until(t, "what is there", func() bool { return len(ids(r.requests())) == 3 })
	stop()
	if len(lost()) != 0 {
		t.Errorf("nothing was removed: %+v", lost())
	}
	set(store.WebhookOff)
	k.clock.Move(time.Hour)
	k.rows = 6 // the next is of now
	k.put(1, "mail.sent", "custom.a", "custom.b")
	k.clock.Move(12 * 24 * time.Hour)
	set(store.WebhookOn)
	k.waitForHeads(sender)
	for range 2 {
		stop = k.run(sender)
		until(t, "the rest", func() bool { return len(ids(r.requests())) == 5 })
		stop()
	}
	if all := lost(); len(all) != 1 || all[0].Events == 0 || !strings.Contains(all[0].Error, "were removed by retention") {
		t.Errorf("lost: %+v", all)
	}
}

// One that was down has marked a batch of each partition when it is switched off by itself.
// It is told, too, how many it has missed, and the batches are still posted.
func TestLostWhileDown(t *testing.T) {
	k := newKit(t)
	r := newReceiver(t, func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
	w, _ := k.add(r.URL, 10, "mail")
	sender := k.sender()
	sender.Kept = map[sluice.EventKind]int{sluice.KindMail: 10}
	for part := range partitions {
		k.rows = 6 // the next is of now
		k.put(part, "mail.sent", "mail.opened")
	}
	e := k.endpoint(sender, w)
	began := k.clock.Now()
	for err := error(nil); !errors.Is(err, errOff); k.clock.Move(time.Hour) {
		if _, err = e.pass(t.Context(), t.Context()); err != nil && !errors.Is(err, errOff) {
			t.Fatal(err)
		}
		if k.clock.Now().Sub(began) > 48*time.Hour {
			t.Fatal("it is not switched off")
		}
	}
	lanes, err := k.store.WebhookLanes(t.Context(), w.ID)
	if err != nil {
		t.Fatal(err)
	}
	for part, lane := range lanes {
		if lane.To == (sluice.Place{}) {
			t.Fatalf("nothing is marked of partition %d", part)
		}
	}
	k.clock.Move(12 * 24 * time.Hour)
	on := store.WebhookOn
	if w, err = k.service.Change(t.Context(), w.ID, &Change{Status: &on}); err != nil {
		t.Fatal(err)
	}
	r.mu.Lock()
	r.answer, r.all = nil, nil
	r.mu.Unlock()
	for range 2 {
		e = k.endpoint(sender, w)
		k.pass(e)
		k.pass(e)
	}
	notes, err := k.store.WebhookDeliveries(t.Context(), w.ID, 100)
	lost := slices.DeleteFunc(notes, func(n store.WebhookDelivery) bool { return n.Outcome != store.DeliveryLost })
	if err != nil || len(lost) != 1 || lost[0].Events < partitions || !strings.Contains(lost[0].Error, "were removed by retention") {
		t.Errorf("lost: %+v, %v", lost, err)
	}
	if !k.inOrder(ids(r.requests())) {
		t.Errorf("got %v, want %v", ids(r.requests()), k.written)
	}
}

// One that has all is told nothing of the kind, though the log of a partition is quiet for
// longer than events are kept. Neither where an event came last that was posted, nor where
// one came that is not wanted.
func TestNothingLost(t *testing.T) {
	k := newKit(t)
	r := newReceiver(t, nil)
	w, _ := k.add(r.URL, 10, "mail")
	sender := k.sender()
	sender.Kept = map[sluice.EventKind]int{sluice.KindMail: 10}
	e := k.endpoint(sender, w)
	k.put(0, "mail.sent")
	k.put(2, "purchase.x")
	k.pass(e)
	k.clock.Move(time.Hour)
	k.rows = 6 // the next is of now
	k.put(1, "mail.sent")
	k.waitForHeads(sender)
	k.pass(e)
	k.pass(e)
	if n := len(ids(r.requests())); n != 2 {
		t.Fatalf("%d events have arrived", n)
	}
	k.clock.Move(12 * 24 * time.Hour)
	k.pass(k.endpoint(sender, w))
	r.mu.Lock()
	r.answer = func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }
	r.mu.Unlock()
	k.put(0, "mail.sent") // it fails: the batch is marked behind a long silence
	k.waitForHeads(sender)
	k.pass(e)
	k.pass(k.endpoint(sender, w))
	notes, err := k.store.WebhookDeliveries(t.Context(), w.ID, 100)
	if err == nil && !slices.ContainsFunc(notes, func(n store.WebhookDelivery) bool { return n.Outcome == store.DeliveryFailed }) {
		t.Error("nothing has failed")
	}
	if err != nil || slices.ContainsFunc(notes, func(n store.WebhookDelivery) bool { return n.Outcome == store.DeliveryLost }) {
		t.Errorf("%+v, %v", notes, err)
	}
}

// What people set is checked.
func TestChecks(t *testing.T) {
	k := newKit(t)
	long := "https://example.com/" + strings.Repeat("x", store.MaxWebhookURL)
	for name, c := range map[string]Change{
		"no URL": {}, "http": {URL: new("http://example.com")}, "inside": {URL: new("https://10.0.0.1/")}, "long": {URL: &long},
		"type": {URL: new("https://example.com"), Types: &[]string{"mail.delivered", "male"}}, "empty type": {URL: new("https://example.com"), Types: &[]string{""}},
		"counters": {URL: new("https://example.com"), Types: &[]string{"counter"}},
		"batch":    {URL: new("https://example.com"), Batch: new(0)}, "large batch": {URL: new("https://example.com"), Batch: new(1001)},
		"format": {URL: new("https://example.com"), Format: new("xml")}, "status": {URL: new("https://example.com"), Status: new("gone")},
	} {
		if _, _, err := k.service.Add(t.Context(), &c); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	tested, err := k.service.Test(t.Context(), func() string { w, _ := k.add("https://rebinding.invalid/", 1); return w.ID }())
	if err != nil || tested.Delivered || tested.Error == "" {
		t.Errorf("%+v, %v", tested, err)
	}
}
