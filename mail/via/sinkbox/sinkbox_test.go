package sinkbox

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"strings"
	"testing"
	"time"
	"unsafe"
	"weak"

	"sluice"
	"sluice/mail"
	"sluice/test/clocktest"
)

var testNow = time.Date(2026, 11, 21, 18, 0, 0, 0, time.UTC)

func open(t *testing.T, s Settings, report func([]Happening)) (*Box, *clocktest.Clock) {
	t.Helper()
	clock := clocktest.At(testNow)
	s.Name = "sink"
	b, err := New(s, clock, report)
	if err != nil {
		t.Fatal(err)
	}
	return b, clock
}

func deliver(b *Box, send int, to string) mail.Result {
	var result mail.Result
	b.Deliver(context.Background(), []mail.Envelope{{Send: fmt.Sprintf("m.%d", send), From: "f@example.com", To: to, Content: []byte("mail " + fmt.Sprint(send))}},
		func(_ int, r mail.Result) { result = r })
	return result
}

// life delivers mail to many addresses and returns what has become of it.
func life(t *testing.T, s Settings) (results map[mail.ResultKind]int, events map[string]int, each map[string]string) {
	t.Helper()
	results, events, each = make(map[mail.ResultKind]int), make(map[string]int), make(map[string]string)
	last := make(map[string]time.Time)
	b, clock := open(t, s, func(hs []Happening) {
		for _, h := range hs {
			events[h.Event]++
			each[h.To] += " " + h.Event
			if h.Time.Before(last[h.To]) || h.Time.Before(testNow) || h.Time.After(testNow.Add(DefaultWithin)) || h.Send == "" || (h.Event == "bounced") != (h.Code != "") {
				t.Errorf("%+v", h)
			}
			last[h.To] = h.Time
		}
	})
	for i := range 10_000 {
		r := deliver(b, i, fmt.Sprintf("u%d@example.com", i))
		results[r.Kind]++
		if r.Kind == mail.ResultDeferred {
			if again := deliver(b, i, fmt.Sprintf("u%d@example.com", i)); again.Kind != mail.ResultSent {
				t.Errorf("deferred twice: %+v", again)
			}
		}
	}
	for range 100 {
		for b.Turn() {
		}
		clock.Move(DefaultWithin / 99)
	}
	if pending, missed := b.Pending(); pending != 0 || missed != 0 {
		t.Errorf("%d pending, %d missed", pending, missed)
	}
	return results, events, each
}

// Mailboxes do as often as they are told, always the same, in a sensible order.
func TestLife(t *testing.T) {
	s := Settings{Seed: 7, Defer: 100, Refuse: 20, Bounce: 30, Open: 400, Click: 100, Complain: 5, Unsubscribe: 10}
	results, events, each := life(t, s)
	near := func(what string, got, want int) {
		t.Helper()
		if got < want*8/10-20 || got > want*12/10+20 {
			t.Errorf("%d %s, want about %d", got, what, want)
		}
	}
	near("deferred", results[mail.ResultDeferred], 980)
	near("refused", results[mail.ResultFailed], 200)
	near("bounced", events["bounced"], 294)
	near("delivered", events["delivered"], 9506)
	near("opened", events["opened"], 3802)
	near("clicked", events["clicked"], 950)
	near("complained", events["complained"], 47)
	near("unsubscribed", events["unsubscribed"], 95)
	if results[mail.ResultFailed]+events["bounced"]+events["delivered"] != 10_000 {
		t.Errorf("%v %v: not every mail has an end", results, events)
	}
	for to, happened := range each {
		if strings.Contains(happened, "bounced") && happened != " bounced" || strings.Contains(happened, "clicked") && !strings.Contains(happened, "opened") ||
			!strings.HasPrefix(happened, " delivered") && happened != " bounced" {
			t.Errorf("%s:%s", to, happened)
		}
	}
	if _, _, again := life(t, s); !maps.Equal(each, again) {
		t.Error("the same seed gives something else")
	}
	s.Seed++
	if _, _, other := life(t, s); maps.Equal(each, other) {
		t.Error("another seed gives the same")
	}
}

// The last mails are kept, by number and by bytes.
func TestKept(t *testing.T) {
	b, _ := open(t, Settings{Mails: 3}, nil)
	for i := range 5 {
		if r := deliver(b, i, "a@example.com"); r.Kind != mail.ResultSent || r.ID != fmt.Sprint(i+1) || r.Remote != "sink" {
			t.Fatalf("%+v", r)
		}
	}
	var numbers []int64
	for _, k := range b.Mails("", 0, 10) {
		numbers = append(numbers, k.Number)
	}
	if to := b.Mails("A@example.com", 0, 2); len(to) != 2 || len(b.Mails("b@example.com", 0, 10)) != 0 {
		t.Errorf("mails to one address: %+v", to)
	}
	if fmt.Sprint(numbers) != "[5 4 3]" || len(b.Mails("", 5, 1)) != 1 || b.Mails("", 5, 1)[0].Number != 4 {
		t.Errorf("%v", numbers)
	}
	if k, ok := b.Mail(4); !ok || string(k.Content) != "mail 3" || k.Send != "m.3" || k.To != "a@example.com" || !k.Time.Equal(testNow) {
		t.Errorf("%+v", k)
	}
	if _, ok := b.Mail(2); ok {
		t.Error("an old mail is kept")
	}
	b, _ = open(t, Settings{Bytes: 13}, nil)
	for i := range 5 {
		deliver(b, i, "a@example.com")
	}
	if n := len(b.Mails("", 0, 10)); n != 2 || b.bytes != 12 {
		t.Errorf("%d mails of %d bytes", n, b.bytes)
	}
}

// What is too much is not planned, and holds no mail up.
func TestBounded(t *testing.T) {
	b, _ := open(t, Settings{Mails: 1, Defer: 1000}, func([]Happening) {})
	b.deferredAtMost = 100
	for i := range 110 {
		deliver(b, i, "a@example.com")
	}
	if len(b.deferred) != 100 || len(b.order) != 100 {
		t.Errorf("%d sends are known as deferred", len(b.deferred))
	}
	b, _ = open(t, Settings{Mails: 1}, func([]Happening) {})
	b.pendingAtMost = 100
	for i := range 105 {
		if r := deliver(b, i, "a@example.com"); r.Kind != mail.ResultSent {
			t.Fatalf("%+v", r)
		}
	}
	if pending, missed := b.Pending(); pending != 100 || missed != 5 {
		t.Errorf("%d pending, %d missed", pending, missed)
	}
}

func TestRunEnds(t *testing.T) {
	got := make(chan string, 1)
	b, clock := open(t, Settings{}, func(hs []Happening) { got <- hs[0].Event })
	deliver(b, 1, "a@example.com")
	clock.Move(DefaultWithin)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); b.Run(ctx) }()
	if event := <-got; event != "delivered" {
		t.Error(event)
	}
	stop()
	<-ended
	var r mail.Result
	b.Deliver(ctx, []mail.Envelope{{To: "a@example.com"}}, func(_ int, result mail.Result) { r = result })
	if r.Kind != mail.ResultUntried {
		t.Errorf("%+v", r)
	}
}

// What is held back does not come into a mailbox.
func TestHeldBack(t *testing.T) {
	b, _ := open(t, Settings{}, nil)
	var results []mail.Result
	all := []mail.Envelope{{To: "a@example.com", Go: func() error { return errors.New("stopped since") }}, {To: "b@example.com", Go: func() error { return nil }}}
	b.Deliver(t.Context(), all, func(_ int, r mail.Result) { results = append(results, r) })
	if kept := b.Mails("", 0, 10); len(kept) != 1 || kept[0].To != "b@example.com" || results[0].Kind != mail.ResultUntried || results[0].Blame != mail.BlameNobody || results[1].Kind != mail.ResultSent {
		t.Errorf("%+v; kept: %+v", results, kept)
	}
}

func TestSettings(t *testing.T) {
	for want, s := range map[string]Settings{
		"open is 1001, want 0 to 1000":        {Open: 1001},
		"click is 2 and open 1":               {Open: 1, Click: 2},
		"mails is -1":                         {Mails: -1},
		"within is 1000h0m0s, want at most 7": {Within: 1000 * time.Hour},
	} {
		if err := s.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func BenchmarkDeliver(b *testing.B) {
	box, err := New(Settings{Name: "sink"}, sluice.SystemClock{}, nil)
	if err != nil {
		b.Fatal(err)
	}
	envelopes := make([]mail.Envelope, window)
	for i := range envelopes {
		envelopes[i] = mail.Envelope{Send: "m.1", To: fmt.Sprintf("u%d@example.com", i), Content: make([]byte, 4096)}
	}
	b.ReportAllocs()
	for b.Loop() {
		box.Deliver(b.Context(), envelopes, func(int, mail.Result) {})
	}
}

// The mailboxes keep mails, and no batch that a send was read from.
func TestKeepsNoBatch(t *testing.T) {
	b, _ := open(t, Settings{}, func([]Happening) {})
	batch := strings.Repeat("x", 1<<10) + "f@example.com,ann@example.com,sale"
	of := weak.Make(unsafe.StringData(batch))
	texts := strings.Split(batch[1<<10:], ",")
	b.Deliver(context.Background(), []mail.Envelope{{Send: "m.1", From: texts[0], To: texts[1], Tags: texts[2:], Content: []byte("mail")}}, func(int, mail.Result) {})
	batch, texts = "", nil
	runtime.GC()
	if of.Value() != nil {
		t.Error("the batch is kept with a mail")
	}
	kept, _ := b.Mail(1)
	if pending, _ := b.Pending(); pending != 1 || kept.From != "f@example.com" || kept.To != "ann@example.com" || len(kept.Tags) != 1 || kept.Tags[0] != "sale" {
		t.Errorf("%d pending, kept %+v", pending, kept)
	}
}
