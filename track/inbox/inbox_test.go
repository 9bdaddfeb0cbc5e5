package inbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"sluice"
	"sluice/flow"
	"sluice/ingest"
	"sluice/lib/token"
	"sluice/mail"
	"sluice/mail/smtpd"
	"sluice/test/clocktest"
	"sluice/track/verp"
)

// world is what an inbox has around it. The real one is in cmd/sluice's tests, with a
// Postfix before it; here a test says what there is.
type world struct {
	*Inbox
	rows     []mail.SendRow
	away     error // of the ledger
	elements []string
	outcomes int
	first    map[string]string
}

func (w *world) SendRows(_ context.Context, keys []mail.SendKey) (found []mail.SendRow, err error) {
	for _, r := range w.rows {
		if keys[0] == (mail.SendKey{Message: r.Message, Number: r.Number}) {
			found = append(found, r)
		}
	}
	return found, w.away
}

func (w *world) Accept(_ context.Context, r *ingest.Request) (ingest.Accepted, error) {
	w.elements = append(w.elements, r.Items...)
	return ingest.Accepted{Items: 1}, nil
}

func (w *world) Write(context.Context, ...flow.Part) error { w.outcomes++; return nil }

func (w *world) once(_ context.Context, name, value string, _ time.Duration) (string, error) {
	if w.first[name] == "" {
		w.first[name] = value
	}
	return w.first[name], nil
}

func newWorld(t testing.TB) *world {
	t.Helper()
	tokens, err := token.NewKeys(bytes.Repeat([]byte("s"), token.MinSecretBytes))
	if err != nil {
		t.Fatal(err)
	}
	keys, err := verp.New(tokens)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{first: make(map[string]string)}
	w.Inbox = &Inbox{
		Tokens: keys, Domains: []string{"bounces.test"}, Feedback: "fbl", Partitions: 4, Ledger: w, Events: w, Logs: w, Once: w.once,
		Clock: clocktest.At(time.UnixMilli(1_800_000_000_000)), Log: slog.New(slog.DiscardHandler),
	}
	return w
}

// path is the return path of a send that was accepted some time ago.
func (w *world) path(t testing.TB, partition int, age time.Duration) (address, message string) {
	t.Helper()
	message = sluice.NewMessageID(w.Clock.Now().Add(-age).UnixMilli())
	local, err := w.Tokens.Local(verp.Send{Partition: partition, Message: message, Number: 3})
	if err != nil {
		t.Fatal(err)
	}
	return local + "@Bounces.Test", message
}

const hard = "Content-Type: multipart/report; boundary=B\n\n--B\nContent-Type: message/delivery-status\n\nReporting-MTA: dns; mx\n\nFinal-Recipient: rfc822; ann@example.com\nAction: failed\nStatus: 5.1.1\n--B--\n"

// TestWhatIsKnown: what the ledger knows of the send decides what becomes of a report.
func TestWhatIsKnown(t *testing.T) {
	row := func(to, life string) *mail.SendRow {
		return &mail.SendRow{To: to, Life: life, State: mail.SendSent, User: "u-1"}
	}
	for name, x := range map[string]struct {
		age      time.Duration
		row      *mail.SendRow
		away     error
		content  string
		fails    bool
		event    string // parts of it, separated by |; empty: there is none
		outcomes int
	}{
		"known":             {time.Minute, row("Ann@example.com", "{}\n"), nil, hard, false, `"event":"bounced"|"email":"Ann@example.com"|"user_id":"u-1"|"bounce_class":"hard"|"send":"`, 1},
		"told before":       {time.Minute, row("ann@example.com", `{"at":1,"state":"sent","reason":"bounced hard"}`+"\n"), nil, hard, false, "", 0},
		"another class":     {time.Minute, row("ann@example.com", `{"at":1,"state":"sent","reason":"bounced soft"}`+"\n"), nil, hard, false, `"event":"bounced"`, 1},
		"erased":            {time.Minute, row("", "{}\n"), nil, hard, false, "", 0},
		"not there yet":     {time.Minute, nil, nil, hard, true, "", 0},
		"past its time":     {2 * time.Hour, nil, nil, hard, false, `"event":"bounced"|"report_recipient":"ann@example.com"`, 0},
		"the ledger's away": {time.Minute, row("ann@example.com", "{}\n"), errors.New("away"), hard, true, "", 0},
		"binary":            {time.Minute, row("ann@example.com", "{}\n"), nil, "\x00\x01\xff\r\nSubject", false, `"event":"unknown"|"reply":"  `, 1},
		"empty":             {time.Minute, row("ann@example.com", "{}\n"), nil, "", false, `"event":"unknown"`, 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			to, message := w.path(t, 1, x.age)
			if w.away = x.away; x.row != nil {
				x.row.Message, x.row.Number = message, 3
				w.rows = append(w.rows, *x.row)
			}
			err := w.Receive(t.Context(), "", to, []byte(x.content))
			var never *smtpd.Never
			if (err != nil) != x.fails || errors.As(err, &never) {
				t.Fatalf("%v, want an error that passes: %v", err, x.fails)
			}
			got := strings.Join(w.elements, "\n")
			for part := range strings.SplitSeq(x.event, "|") {
				if !strings.Contains(got, part) || x.event == "" && got != "" {
					t.Errorf("the event is %s, want %s", got, part)
				}
			}
			if w.outcomes != x.outcomes || strings.Contains(got, `"email"`) && x.row == nil {
				t.Errorf("%d lines for the ledger, want %d; %s", w.outcomes, x.outcomes, got)
			}
		})
	}
}

// TestJourneyMailNotThereYet: the id of a journey's mail says on which day its person entered,
// not when it was made. A report about one that is not in the ledger is asked for again for an
// hour, and then it is taken as it is.
func TestJourneyMailNotThereYet(t *testing.T) {
	w := newWorld(t)
	now := w.Clock.Now()
	message := sluice.PlacedMessageID(now.Add(-20*24*time.Hour).Truncate(24*time.Hour).UnixMilli(), 7, []byte("journey/1"))
	local, err := w.Tokens.Local(verp.Send{Partition: 1, Message: message, Number: 0})
	if err != nil {
		t.Fatal(err)
	}
	clock := w.Clock.(*clocktest.Clock)
	for range 2 {
		if err := w.Receive(t.Context(), "", local+"@bounces.test", []byte(hard)); !errors.Is(err, errNotYet) || len(w.elements) != 0 {
			t.Fatalf("%v, %q; want it asked for again", err, w.elements)
		}
		clock.Move(freshFor / 2)
	}
	if err := w.Receive(t.Context(), "", local+"@bounces.test", []byte(hard)); err != nil || len(w.elements) != 1 {
		t.Fatalf("%v, %q; want it taken", err, w.elements)
	}
}

// TestComesAgain: a report that comes again is the same event, at the same time.
func TestComesAgain(t *testing.T) {
	w := newWorld(t)
	to, message := w.path(t, 1, time.Minute)
	w.rows = []mail.SendRow{{Message: message, Number: 3, To: "ann@example.com", Life: "{}\n"}}
	for range 2 {
		if err := w.Receive(t.Context(), "", to, []byte(hard)); err != nil {
			t.Fatal(err)
		}
		w.Clock.(*clocktest.Clock).Move(time.Minute)
	}
	if len(w.elements) != 2 || w.elements[0] != w.elements[1] {
		t.Errorf("the events differ: %q", w.elements)
	}
}

// TestRecipients: only addresses that were made here are taken.
func TestRecipients(t *testing.T) {
	w := newWorld(t)
	good, _ := w.path(t, 3, 0)
	beyond, _ := w.path(t, 4, 0) // there are four partitions
	local, _, _ := strings.Cut(good, "@")
	for to, want := range map[string]bool{
		good: true, strings.ToUpper(good): true, "FBL@bounces.test": true, beyond: false, local + "@bounces.test.evil": false, local: false,
		"@bounces.test": false, "fbl@other.test": false, "x" + good: false, local[1:] + "@bounces.test": false,
	} {
		if err := w.Recipient(to); (err == nil) != want {
			t.Errorf("%s: %v, want it taken: %v", to, err, want)
		}
	}
	w.Feedback = ""
	if w.Recipient("@bounces.test") == nil || w.Recipient("fbl@bounces.test") == nil {
		t.Error("an address for complaints is taken, and there is none")
	}
}

// TestComplaints: what has a token of ours is a complaint. What names a mail or an address
// without one is kept, as an event that stops nothing. What names nothing is nothing.
func TestComplaints(t *testing.T) {
	arf := func(about, head string) string {
		return "Content-Type: multipart/report; boundary=B\n\n--B\nContent-Type: message/feedback-report\n\nFeedback-Type: abuse\n" + about + "\n--B\nContent-Type: message/rfc822\n\n" + head + "\n\n--B--\n"
	}
	const proven, kept = `"event":"complained"`, `"event":"unknown"`
	for name, x := range map[string]struct {
		content func(path, message string) string
		event   string
	}{
		"the return path": {func(p, m string) string { return arf("Original-Mail-From: <"+p+">", "Subject: x") }, proven},
		"it in the head":  {func(p, m string) string { return arf("Version: 1", "Return-Path: <"+p+">") }, proven},
		"a forged one":    {func(p, m string) string { return arf("Original-Mail-From: <z"+p[1:]+">", "Subject: x") }, ""},
		"the id for it": {func(p, m string) string {
			return arf("Version: 1", "CFBL-Feedback-ID: "+p[:20]+"\n "+p[20:verp.LocalBytes])
		}, proven},
		"the id in the report": {func(p, m string) string { return arf("CFBL-Feedback-ID: "+p[:verp.LocalBytes], "Subject: x") }, proven},
		"a forged id":          {func(p, m string) string { return arf("Version: 1", "CFBL-Feedback-ID: z"+p[1:verp.LocalBytes]) }, ""},
		"the Message-ID":       {func(p, m string) string { return arf("Version: 1", "Message-ID: <"+m+".3@example.com>") }, kept},
		"it, and a forged path": {func(p, m string) string {
			return arf("Original-Mail-From: <z"+p[1:]+">", "Message-ID: <"+m+".3@example.com>")
		}, kept},
		"a Message-ID of others": {func(p, m string) string { return arf("Version: 1", "Message-ID: <x@example.com>") }, ""},
		"an address":             {func(p, m string) string { return arf("Original-Rcpt-To: ann@example.com", "Subject: x") }, kept},
		"no complaint":           {func(p, m string) string { return hard }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			path, message := w.path(t, 1, time.Minute)
			w.rows = []mail.SendRow{{Message: message, Number: 3, To: "ann@example.com", Life: "{}\n"}}
			if err := w.Receive(t.Context(), "", "fbl@bounces.test", []byte(x.content(path, message))); err != nil {
				t.Fatal(err)
			}
			got := strings.Join(w.elements, "\n")
			if !strings.Contains(got, x.event) || (x.event == "") != (got == "") || got != "" && !strings.Contains(got, `"email":"ann@example.com"`) {
				t.Errorf("the event is %q, want %s", got, x.event)
			}
			if strings.Contains(got, `"unproven":"complained"`) != (x.event == kept) {
				t.Errorf("the event is %q", got)
			}
			for id := range w.first {
				if strings.Contains(id, "@") {
					t.Errorf("a key of Redis names an address: %s", id)
				}
			}
		})
	}
}

// TestClaimsAreBounded: addresses can be made up without end. Of those that a complaint
// without a token names one is kept, and so many in an hour. A token is always believed.
func TestClaimsAreBounded(t *testing.T) {
	w := newWorld(t)
	clock := clocktest.At(time.UnixMilli(1_800_000_000_000))
	w.Clock = clock
	receive := func(about, head string, want int) {
		t.Helper()
		w.elements = nil
		report := "Content-Type: multipart/report; boundary=B\n\n--B\nContent-Type: message/feedback-report\n\nFeedback-Type: abuse\n" + about + "\n--B\nContent-Type: message/rfc822\n\n" + head + "\n\n--B--\n"
		if err := w.Receive(t.Context(), "", "fbl@bounces.test", []byte(report)); err != nil {
			t.Fatal(err)
		}
		if len(w.elements) != want {
			t.Errorf("%q, %q: %d events, want %d", about, head, len(w.elements), want)
		}
	}
	receive("Original-Rcpt-To: a@example.com\nOriginal-Rcpt-To: b@example.com\nOriginal-Rcpt-To: c@example.com\n", "Subject: x", 1)
	for i := range maxClaimsPerHour - 1 {
		receive(fmt.Sprintf("Original-Rcpt-To: u%d@example.com\n", i), "Subject: x", 1)
	}
	receive("Original-Rcpt-To: more@example.com\n", "Subject: x", 0)
	path, message := w.path(t, 1, time.Minute)
	w.rows = []mail.SendRow{{Message: message, Number: 3, To: "ann@example.com", Life: "{}\n"}}
	receive("Version: 1\n", "Message-ID: <"+message+".3@example.com>", 1)
	receive("Version: 1\n", "Return-Path: <"+path+">", 1)
	clock.Move(time.Hour)
	receive("Original-Rcpt-To: more@example.com\n", "Subject: x", 1)
}

// TestMadeUpMessageID: a Message-ID without a token that the ledger does not have counts as an
// address alone. Redis remembers nothing of it, and the mail is not asked for again.
func TestMadeUpMessageID(t *testing.T) {
	now := newWorld(t).Clock.Now()
	for name, message := range map[string]string{
		"of a journey": sluice.PlacedMessageID(now.Truncate(24*time.Hour).UnixMilli(), 7, []byte("journey/1")),
		"just made":    sluice.NewMessageID(now.UnixMilli()),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			report := "Content-Type: multipart/report; boundary=B\n\n--B\nContent-Type: message/feedback-report\n\nFeedback-Type: abuse\nOriginal-Rcpt-To: ann@example.com\n\n--B\nContent-Type: message/rfc822\n\nMessage-ID: <" + message + ".3@example.com>\n\n--B--\n"
			for want := 1; want >= 0; want-- {
				w.elements = nil
				if err := w.Receive(t.Context(), "", "fbl@bounces.test", []byte(report)); err != nil || len(w.elements) != want {
					t.Errorf("%v, %q; want %d events", err, w.elements, want)
				}
				w.claims.n = maxClaimsPerHour
			}
			for id := range w.first {
				if strings.HasPrefix(id, "missing:") {
					t.Errorf("redis remembers %s", id)
				}
			}
		})
	}
}

// TestProvenBehindUnproven: a stranger who complains of a mail first keeps the complaint
// of its recipient from nothing. A report that somebody unsubscribes is of no app.
func TestProvenBehindUnproven(t *testing.T) {
	w := newWorld(t)
	path, message := w.path(t, 1, time.Minute)
	life := `{"at":1,"state":"sent","reason":"unproven unsubscribed"}` + "\n"
	w.rows = []mail.SendRow{{Message: message, Number: 3, To: "ann@example.com", App: "shop", Life: life}}
	for _, about := range []string{"Message-ID: <" + message + ".3@example.com>", "Return-Path: <" + path + ">"} {
		report := "Content-Type: multipart/report; boundary=B\n\n--B\nContent-Type: message/feedback-report\n\nFeedback-Type: opt-out\n\n--B\nContent-Type: message/rfc822\n\n" + about + "\n\n--B--\n"
		if err := w.Receive(t.Context(), "", "fbl@bounces.test", []byte(report)); err != nil {
			t.Fatal(err)
		}
	}
	if len(w.elements) != 1 || !strings.Contains(w.elements[0], `"event":"unsubscribed"`) || strings.Contains(w.elements[0], "shop") {
		t.Errorf("events: %q", w.elements)
	}
}

// FuzzReceive looks whether whatever comes to a return path is one event of its send,
// which ingest takes.
func FuzzReceive(f *testing.F) {
	f.Add(hard)
	f.Add("Subject: x\n\nhello\x00")
	f.Add("From: a\nAuto-Submitted: auto-replied\n\n")
	f.Fuzz(func(t *testing.T, content string) {
		w := newWorld(t)
		to, message := w.path(t, 1, time.Minute)
		w.rows = []mail.SendRow{{Message: message, Number: 3, To: "ann@example.com", Life: "{}\n"}}
		if err := w.Receive(t.Context(), "", to, []byte(content)); err != nil {
			t.Fatal(err)
		}
		var e sluice.Event
		if len(w.elements) != 1 {
			t.Fatalf("%d events", len(w.elements))
		}
		if err := ingest.ParseEvent(w.elements[0], &ingest.EventOptions{Dedupe: "event_id"}, &e); err != nil || e.Kind != sluice.KindMail || e.Email != "ann@example.com" || e.Message != message {
			t.Fatalf("%v %+v of %s", err, e, w.elements[0])
		}
	})
}
