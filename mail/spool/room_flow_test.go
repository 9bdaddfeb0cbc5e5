package spool_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"sluice"
	"sluice/flow"
	"sluice/lib/faults"
	"sluice/mail"
	"sluice/mail/spool"
	"sluice/test/spooltest"
)

// room bounds what waits, as a process of its own reads it.
func (o *office) room(all, key mail.Load) {
	o.intake.Room = &spool.Room{All: all, Key: key, Clock: sluice.SystemClock{}, Log: slog.New(slog.NewTextHandler(o.b.log, nil)), Read: func(ctx context.Context) (map[string]mail.Load, error) {
		return (&flow.Owing{Lanes: o.lanes}).Read(ctx, time.Now().UnixMilli())
	}}
}

// scheduled are messages of a key that are due in a year.
func scheduled(key string, messages, recipients int) []mail.Draft {
	drafts := bulk(messages, recipients, 100)
	for i := range drafts {
		drafts[i].Class, drafts[i].Key, drafts[i].DueMillis = mail.ClassTransactional, key, time.Now().AddDate(1, 0, 0).UnixMilli()
	}
	return drafts
}

// full reports whether drafts are refused because of what waits, and by which bound.
func (o *office) full(drafts []mail.Draft) (refused, key bool) {
	o.b.Helper()
	_, err := o.intake.Submit(o.b.Context(), "", drafts)
	e, ok := errors.AsType[*mail.WaitingFull](err)
	if err != nil && !ok {
		o.b.Fatal(err)
	}
	return ok, ok && e.Key
}

// What waits is bounded, of all and of each key, whichever process takes it in, also
// after a restart; what leaves makes room.
func TestWhatWaitsIsBounded(t *testing.T) {
	b := newBed(t)
	all, key := mail.Load{Sends: 50}, mail.Load{Sends: 20}
	first, second := b.open(&spooltest.OneRoute{Transport: newWire(nil)}, nil), b.start(newWire(nil), nil)
	first.room(all, key)
	second.room(all, key)
	if refused, _ := first.full(scheduled("a", 2, 10)); refused {
		t.Error("what the bound allows is refused")
	}
	for name, drafts := range map[string][]mail.Draft{"one more": scheduled("a", 1, 1), "much more": scheduled("a", 2, 10)} {
		if refused, key := first.full(drafts); !refused || !key {
			t.Errorf("%s of a key: refused %v, by its bound %v", name, refused, key)
		}
	}
	for want, drafts := range map[string][]mail.Draft{"waiting.key_mails": scheduled("b", 3, 10), "waiting.mails": scheduled("", 6, 10)} {
		_, err := first.intake.Submit(b.Context(), "", drafts)
		e, _ := errors.AsType[*sluice.Error](err)
		_, again := errors.AsType[*mail.WaitingFull](err)
		if e == nil || e.Code != sluice.CodeTooLarge || again || !strings.HasSuffix(e.Message, want) {
			t.Errorf("a request that never fits %s: %v", want, err)
		}
	}
	b.eventually("it is in the lanes", func() bool { return first.waiting() == 20 })
	if refused, key := second.full(scheduled("a", 1, 1)); !refused || !key {
		t.Errorf("another process: refused %v, by the key's bound %v", refused, key)
	}
	if refused, _ := second.full(scheduled("b", 2, 10)); refused {
		t.Error("another key is refused")
	}
	if refused, key := second.full(scheduled("", 1, 11)); !refused || key {
		t.Errorf("beyond the bound of all: refused %v, by a key's %v", refused, key)
	}
	if refused, _ := second.full(scheduled("", 1, 10)); refused {
		t.Error("mail without a key has no bound but that of all")
	}
	b.eventually("all is in the lanes", func() bool { return first.waiting() == 50 })
	first.stop()
	third := b.open(&spooltest.OneRoute{Transport: newWire(nil)}, nil)
	third.room(all, key)
	if refused, key := third.full(scheduled("c", 1, 1)); !refused || key {
		t.Errorf("after a restart: refused %v, by a key's %v", refused, key)
	}
	third.room(mail.Load{Sends: 60}, key)
	soon := scheduled("c", 1, 10)
	soon[0].DueMillis = 0
	for n := range 2 { // what has left is not counted any more
		if refused, _ := third.full(soon); refused {
			t.Error("there is room")
		}
		second.awaitTotals(fmt.Sprintf("waiting 50, sent %d", 10*(n+1)))
		third.room(mail.Load{Sends: 60}, key)
	}
}

// A campaign that fills a bound, of a key or of all, leaves a tenth of it for
// transactional mail. That mail may fill all of it.
func TestMarketingMailLeavesRoomForTransactional(t *testing.T) {
	b := newBed(t)
	o := b.open(&spooltest.OneRoute{Transport: newWire(nil)}, nil)
	o.room(mail.Load{Sends: 100, Bytes: 1 << 20}, mail.Load{Sends: 50})
	of := func(class mail.Class, key string, recipients int) []mail.Draft {
		drafts := scheduled(key, 1, recipients)
		drafts[0].Class = class
		return drafts
	}
	for i, c := range []struct {
		class        mail.Class
		key          string
		recipients   int
		refused, own bool
	}{
		{mail.ClassMarketing, "a", 45, false, false},
		{mail.ClassMarketing, "a", 1, true, true},
		{mail.ClassTransactional, "a", 5, false, false},
		{mail.ClassTransactional, "a", 1, true, true},
		{mail.ClassMarketing, "b", 40, false, false},
		{mail.ClassMarketing, "c", 1, true, false},
		{mail.ClassTransactional, "c", 10, false, false},
		{mail.ClassTransactional, "c", 1, true, false},
	} {
		if refused, own := o.full(of(c.class, c.key, c.recipients)); refused != c.refused || own != c.own {
			t.Errorf("%d: %d %s mails of %s: refused %v, by the bound of a key %v", i, c.recipients, c.class, c.key, refused, own)
		}
	}
	mixed := append(of(mail.ClassTransactional, "", 1), of(mail.ClassMarketing, "", 90)...)
	_, err := o.intake.Submit(b.Context(), "", mixed)
	if e, _ := errors.AsType[*sluice.Error](err); e == nil || e.Code != sluice.CodeTooLarge || !strings.Contains(e.Message, "at most 90 may wait in all (a tenth of the bound, at least one, is kept for transactional mail)") {
		t.Errorf("a request with marketing mail that never fits: %v", err)
	}
}

// Bytes are bounded as well, and a content counts once a message.
func TestBytesThatWaitAreBounded(t *testing.T) {
	b := newBed(t)
	o := b.open(&spooltest.OneRoute{Transport: newWire(nil)}, nil)
	large := scheduled("a", 1, 1000)
	large[0].Content = append(large[0].Content, strings.Repeat("content ", 10_000)...)
	if n := large[0].Load().Bytes; n < 180_000 || n > 400_000 {
		t.Errorf("1,000 sends with a content of 80 KB count %d bytes", n)
	}
	o.room(mail.Load{Bytes: 1_000_000}, mail.Load{Bytes: 500_000})
	for i, want := range []bool{false, true} {
		if refused, _ := o.full(large); refused != want {
			t.Errorf("request %d: refused %v", i, refused)
		}
	}
	text := (&mail.WaitingFull{Key: true, Have: mail.Load{Bytes: 10}, Most: mail.Load{Bytes: 11}, Adds: mail.Load{Bytes: 2}}).Error()
	for _, want := range []string{"10 bytes of mail of this key wait", "would add 2", "at most 11 bytes", "waiting.key_megabytes", "Nothing was taken in"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q does not say %q", text, want)
		}
	}
}

// A request that was accepted under its name is not refused when it comes again.
func TestARepeatNeedsNoRoom(t *testing.T) {
	b := newBed(t)
	o := b.start(newWire(nil), nil)
	drafts := scheduled("a", 2, 10)
	for i := range drafts {
		drafts[i].ID = sluice.NamedMessageID(1, "name", i)
	}
	o.room(mail.Load{Sends: 20}, mail.Load{})
	for range 2 {
		must(o.intake.Submit(t.Context(), "name", drafts))
	}
	if refused, _ := o.full(scheduled("a", 1, 1)); !refused {
		t.Error("one more is accepted")
	}
}

// What could not be handed in takes no room, and what cannot be counted is bounded by
// what this process takes in.
func TestRoomWithoutCounts(t *testing.T) {
	b := newBed(t)
	o := b.open(&spooltest.OneRoute{Transport: newWire(nil)}, nil)
	o.room(mail.Load{Sends: 20}, mail.Load{})
	drafts := scheduled("", 1, 15)
	drafts[0].ID = sluice.NamedMessageID(1, "name", 0)
	disarm := must(faults.Arm("submit-part=error,1"))
	if _, err := o.intake.Submit(t.Context(), "name", drafts); err == nil {
		t.Error("the failpoint was not met")
	}
	disarm()
	reads := 0
	o.intake.Room.Read = func(context.Context) (map[string]mail.Load, error) {
		reads++
		return nil, errors.New("away")
	}
	if refused, _ := o.full(scheduled("", 1, 15)); refused {
		t.Error("what was not taken in takes room")
	}
	clock := &steps{now: time.Now()}
	o.intake.Room.Clock = clock
	for i := range 3 {
		clock.now = clock.now.Add(time.Minute)
		if refused, _ := o.full(scheduled("", 1, 6)); !refused {
			t.Errorf("%d: there is room", i)
		}
	}
	if reads < 3 {
		t.Errorf("%d reads", reads)
	}
}

// steps is a clock that a test moves.
type steps struct{ now time.Time }

func (s *steps) Now() time.Time { return s.now }

// Whatever becomes of mail, it is counted as long as it waits and no longer. It
// may be deferred, in doubt, given up, decided about, suppressed or cancelled.
func TestNothingIsCountedThatDoesNotWait(t *testing.T) {
	b := newBed(t)
	w := newWire(func(e *mail.Envelope, nth int) mail.Result {
		switch {
		case nth == 1 && strings.HasPrefix(e.To, "u1"):
			return mail.Result{Kind: mail.ResultDeferred, Code: 450}
		case nth == 1 && strings.HasPrefix(e.To, "u2"):
			return mail.Result{Kind: mail.ResultInDoubt}
		case strings.HasPrefix(e.To, "u3"):
			return mail.Result{Kind: mail.ResultFailed, Code: 550}
		}
		return mail.Result{Kind: mail.ResultSent, Code: 250}
	})
	o := b.start(w, nobody{"u0-0@example.com": "bounced"})
	for _, class := range []mail.Class{mail.ClassTransactional, mail.ClassMarketing} {
		drafts := bulk(5, 10, 100)
		for i := range drafts {
			drafts[i].Key, drafts[i].Class = fmt.Sprintf("key%d", i), class
		}
		drafts[4].DueMillis = time.Now().AddDate(1, 0, 0).UnixMilli()
		o.submit(drafts...)
	}
	b.eventually("what can leave has left", func() bool {
		return o.totals() == "waiting 40, sent 28, failed 20, suppressed 2, in_doubt 10" && o.waiting() == 40 // scheduled, and deferred
	})
	owed := must((&flow.Owing{Lanes: o.lanes}).Read(t.Context(), time.Now().UnixMilli()))
	if l := owed["key4"]; l.Sends != 20 || l.Bytes < 20*200 {
		t.Errorf("of what is scheduled is counted: %+v", l)
	}
	if l := owed["key1"]; l.Sends != 20 || len(owed) != 2 {
		t.Errorf("beside what is scheduled and deferred is counted: %+v", owed)
	}
	b.eventually("accounts are dropped when their day is long past", func() bool {
		left := must((&flow.Owing{Lanes: o.lanes}).Read(t.Context(), time.Now().AddDate(2, 0, 0).UnixMilli()))
		return len(left) == 0
	})
	if left := must((&flow.Owing{Lanes: o.lanes}).Read(t.Context(), time.Now().UnixMilli())); len(left) > 0 {
		t.Errorf("they are still there: %+v", left)
	}
	b.uncounted = true
}
