package spool_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	verify "github.com/emersion/go-msgauth/dkim"

	"sluice"
	"sluice/mail"
	"sluice/mail/spool"
	"sluice/mail/template"
	"sluice/test/spooltest"
	"sluice/user"
)

// TestTemplatesAreRenderedAndSigned: what cannot be rendered costs its own send
// and no other, and what goes out is signed for its sender's domain.
func TestTemplatesAreRenderedAndSigned(t *testing.T) {
	b := newBed(t)
	var mu sync.Mutex
	sent := make(map[string][]byte) // by recipient
	w := newWire(func(e *mail.Envelope, _ int) mail.Result {
		mu.Lock()
		defer mu.Unlock()
		sent[e.To] = bytes.Clone(e.Content)
		return mail.Result{Kind: mail.ResultSent}
	})
	o := b.open(&spooltest.OneRoute{Transport: w}, nil)
	key, signers := signersOf(t, "example.com")
	o.sender.Maker = &spool.Mailer{
		Templates: template.NewCache(o.store, template.DefaultCacheBytes), Users: o.store,
		Signers: signers, Clock: sluice.SystemClock{},
	}
	now := time.Now().UnixMilli()
	b.must(o.store.AddTemplate(t.Context(), mail.Template{ID: "hello", Name: "Hello", CreatedMillis: now, UpdatedMillis: now},
		mail.TemplateVersion{Subject: "Order {{ order }}", HTML: "<p>Thank you for {{ order }}</p>{% if order == 'none' %}{% abort_message('sold out') %}{% endif %}", Class: mail.ClassTransactional, Strict: true, CreatedMillis: now}))
	o.run()
	templated := func(to, variables string) mail.Draft {
		c := template.Content{Template: "hello", Version: 1, Variables: variables}
		return mail.Draft{Priority: mail.PriorityHigh, Class: mail.ClassTransactional, Form: mail.ContentTemplate,
			From: "shop@example.com", To: []string{to}, Content: c.Append(nil)}
	}
	o.submit(templated("ann@example.net", `{"order":"<7>"}`), templated("bob@example.net", `{}`), templated("dan@example.net", `{"order":"none"}`),
		draft("cid@example.net", mail.PriorityHigh, mail.ClassTransactional))
	b.eventually("the ledger has all", func() bool { return o.totals() == "sent 2, failed 1, cancelled 1" })
	for _, out := range b.outcomes() {
		if out.To == "dan@example.net" && (out.State != mail.SendCancelled || out.Reason != mail.ReasonAborted || out.Event != "" || !strings.HasSuffix(out.Reply, "sold out")) {
			t.Errorf("the one whose template does not want it sent: %+v", out)
		}
		if out.To == "bob@example.net" && (out.Reason != "rendering" || out.Reply == "") {
			t.Errorf("the one that cannot be rendered: %+v", out)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if !bytes.Contains(sent["ann@example.net"], []byte("Subject: Order <7>\r\n")) || !bytes.Contains(sent["ann@example.net"], []byte("&lt;7&gt;")) {
		t.Errorf("rendered:\n%s", sent["ann@example.net"])
	}
	record, err := key.Record()
	b.must(err)
	options := &verify.VerifyOptions{LookupTXT: func(string) ([]string, error) { return []string{record}, nil }}
	for to, message := range sent {
		all, err := verify.VerifyWithOptions(bytes.NewReader(message), options)
		if err != nil || len(all) != 1 || all[0].Err != nil || all[0].Domain != "example.com" {
			t.Errorf("mail to %s: %v, %v\n%.600s", to, all, err, message)
		}
	}
}

// weighed is a wire that notes how much it was handed at once, at most.
type weighed struct {
	*wire
	most atomic.Int64
}

func (w *weighed) Deliver(ctx context.Context, envelopes []mail.Envelope, done func(i int, r mail.Result)) {
	var bytes int64
	for i := range envelopes {
		bytes += int64(len(envelopes[i].Content))
	}
	raise(&w.most, bytes)
	w.wire.Deliver(ctx, envelopes, done)
}

func raise(most *atomic.Int64, to int64) {
	for before := most.Load(); to > before && !most.CompareAndSwap(before, to); before = most.Load() {
	}
}

// shelf notes how much was read of the contents at once, at most.
type shelf struct {
	of   spool.Bodies
	most atomic.Int64
}

func (s *shelf) Bodies(ctx context.Context, messages []string, mostBytes int) (map[string][]byte, error) {
	found, err := s.of.Bodies(ctx, messages, mostBytes)
	var bytes int64
	for _, b := range found {
		bytes += int64(len(b))
	}
	raise(&s.most, bytes)
	return found, err
}

// TestLargeMailsGoInSmallWindows: what a worker has in memory is bounded by its
// size, not by a number of mails. All go out, once each.
func TestLargeMailsGoInSmallWindows(t *testing.T) {
	const size, window = 3 << 20, 16 << 20
	b := newBed(t)
	w := &weighed{wire: newWire(nil)}
	w.wire.window = 64
	o := b.open(&spooltest.OneRoute{Transport: w}, nil)
	o.sender.Maker = &spool.Mailer{Templates: template.NewCache(o.store, 0), Users: o.store, Clock: sluice.SystemClock{}}
	contents := &shelf{of: o.store}
	o.sender.Bodies = contents
	large := draft("ann@example.net", mail.PriorityNormal, mail.ClassTransactional)
	large.Content = append(large.Content, strings.Repeat(strings.Repeat("x", 98)+"\r\n", size/100)...)
	for range 12 {
		large.ID = ""
		o.submit(large)
	}
	large.ID, large.To = "", nil
	for i := range 40 {
		large.To = append(large.To, fmt.Sprintf("r%d@example.net", i))
	}
	o.submit(large)
	o.run()
	b.eventually("all are sent", func() bool { return o.totals() == "sent 52" })
	for send, n := range w.times() {
		if n != 1 {
			t.Errorf("%s came %d times", send, n)
		}
	}
	for what, most := range map[string]int64{"a window had": w.most.Load(), "for a window were read": contents.most.Load()} {
		if most > window+size+4096 {
			t.Errorf("%s %d bytes", what, most)
		}
	}
}

// links are made by the send's id.
type links string

func (l links) UnsubscribeURL(s *mail.Send, group string) (string, error) {
	return string(l) + s.ID() + group, nil
}

// TestMarketingMailCanBeUnsubscribed: the two headers are there once, and
// signed. They are not in transactional mail, not beside the sender's own, and
// not with a link that is no https.
func TestMarketingMailCanBeUnsubscribed(t *testing.T) {
	key, signers := signersOf(t, "example.com")
	record, err := key.Record()
	if err != nil {
		t.Fatal(err)
	}
	const head, body = "From: shop@example.com\r\nTo: ann@example.net\r\nSubject: s\r\n", "\r\nlist-unsubscribe: not a header\r\n"
	for _, x := range []struct {
		name    string
		links   spool.Links
		class   mail.Class
		content string
		want    string
		headers int
	}{
		{"marketing", links("https://m.example.com/unsubscribe?t="), mail.ClassMarketing, head + body, "https://m.example.com/unsubscribe?t=" + strings.Repeat("a", 32) + ".0>,\r\n <mailto:leave@example.com?subject=unsubscribe>", 2},
		{"transactional", links("https://m.example.com/unsubscribe?t="), mail.ClassTransactional, head + body, "", 0},
		{"its own", links("https://m.example.com/unsubscribe?t="), mail.ClassMarketing, head + "LIST-unsubscribe : <https://own>\r\n" + body, "https://own", 1},
		{"no https", links("http://m.example.com/unsubscribe?t="), mail.ClassMarketing, head + body, "", 0},
		{"no links", nil, mail.ClassMarketing, head + body, "", 0},
	} {
		m := &spool.Mailer{FeedbackID: (*mail.Send).ID, Links: x.links, UnsubscribeMailto: "leave@example.com", Signers: signers, Clock: sluice.SystemClock{}}
		mails := []spool.Mail{{
			Send:    &mail.Send{Message: strings.Repeat("a", sluice.MessageIDBytes), Class: x.class, Form: mail.ContentMIME, From: "shop@example.com", To: "ann@example.net"},
			Content: []byte(x.content), Took: new([mail.Stages]time.Duration),
		}}
		m.Make(t.Context(), mails)
		if mails[0].Err != nil {
			t.Fatalf("%s: %v", x.name, mails[0].Err)
		}
		message := mails[0].Envelope.Content
		header, _, _ := bytes.Cut(message, []byte("\r\n\r\n"))
		lower := bytes.ToLower(header)
		post := x.headers == 2
		if got := bytes.Count(lower, []byte("\nlist-unsubscribe")); got != x.headers || !bytes.Contains(header, []byte(x.want)) {
			t.Errorf("%s: %d headers\n%s", x.name, got, message)
		}
		if got := bytes.Contains(header, []byte("\r\nList-Unsubscribe-Post: List-Unsubscribe=One-Click\r\n")); got != post {
			t.Errorf("%s: one click %v\n%s", x.name, got, message)
		}
		all, err := verify.VerifyWithOptions(bytes.NewReader(message), &verify.VerifyOptions{LookupTXT: func(string) ([]string, error) { return []string{record}, nil }})
		if err != nil || len(all) != 1 || all[0].Err != nil {
			t.Fatalf("%s: %v %+v", x.name, err, all)
		}
		signed := strings.ToLower(strings.Join(all[0].HeaderKeys, " ")) + " "
		if post != (strings.Contains(signed, " list-unsubscribe ") && strings.Contains(signed, " list-unsubscribe-post ")) {
			t.Errorf("%s: signed are %s", x.name, signed)
		}
		if !bytes.Contains(header, []byte("\r\nCFBL-Feedback-ID: "+mails[0].Send.ID()+"\r\n")) || !strings.Contains(signed, " cfbl-feedback-id ") {
			t.Errorf("%s: no id for feedback loops, or not signed (%s)\n%s", x.name, signed, header)
		}
	}
}

// awayUsers is a database that does not answer: one that is really away would
// end everything else of the test.
type awayUsers struct{}

func (awayUsers) Users(context.Context, user.Query) (user.Answer, error) {
	return user.Answer{}, context.DeadlineExceeded
}

// TestRecipientsThatCannotBeLookedUp wait: it is not their fault.
func TestRecipientsThatCannotBeLookedUp(t *testing.T) {
	m := &spool.Mailer{Users: awayUsers{}, Clock: sluice.SystemClock{}}
	mails := []spool.Mail{{
		Send:    &mail.Send{Message: strings.Repeat("a", sluice.MessageIDBytes), Form: mail.ContentTemplate, To: "ann@example.com"},
		Content: []byte(`{"template":"hello","version":1}`), Took: new([mail.Stages]time.Duration),
	}}
	m.Make(t.Context(), mails)
	if err := mails[0].Err; err == nil || !strings.Contains(err.Error(), spool.ErrNotNow.Error()) {
		t.Errorf("error: %v", err)
	}
}

// noUsers is a database without users. slowTemplate is one whose template has
// some work to do. leapingClock is a second later each time it is looked at.
type (
	noUsers      struct{}
	slowTemplate struct{ mail.TemplateStore }
	leapingClock struct{ looks int64 }
)

func (noUsers) Users(context.Context, user.Query) (user.Answer, error) {
	return user.Answer{}, nil
}

func (slowTemplate) TemplateVersion(_ context.Context, id string, version int) (mail.TemplateVersion, error) {
	text := "{% for i in (1..20000) %}{% endfor %}"
	if id == "quick" {
		text = "hello"
	}
	return mail.TemplateVersion{Template: id, Version: version, Subject: "s", Text: text, Class: mail.ClassTransactional}, nil
}

func (c *leapingClock) Now() time.Time {
	c.looks++
	return time.Unix(1_700_000_000+c.looks, 0)
}

// TestRenderingThatTakesTooLong waits: perhaps the machine is busy. It does not
// take the time of all mails of the template that are in a window.
func TestRenderingThatTakesTooLong(t *testing.T) {
	clock := &leapingClock{}
	m := &spool.Mailer{Users: noUsers{}, Templates: template.NewCache(slowTemplate{}, 0), Clock: clock}
	mails := make([]spool.Mail, 20)
	for i := range mails {
		name := "slow"
		if i == len(mails)-1 {
			name = "quick"
		}
		mails[i] = spool.Mail{
			Send:    &mail.Send{Message: strings.Repeat("a", sluice.MessageIDBytes), Number: i, Recipients: 20, Form: mail.ContentTemplate, From: "shop@example.com", To: "ann@example.com"},
			Content: []byte(`{"template":"` + name + `","version":1}`), Took: new([mail.Stages]time.Duration),
		}
	}
	m.Make(t.Context(), mails)
	for i := range mails[:19] {
		if err := mails[i].Err; !errors.Is(err, spool.ErrSlow) || !strings.Contains(err.Error(), "it takes longer than 200ms") {
			t.Errorf("mail %d: %v", i, err)
		}
	}
	if err := mails[19].Err; err != nil {
		t.Errorf("the mail of another template: %v", err)
	}
	if clock.looks > 12 { // 4 of the window, 2 of each rendering
		t.Errorf("%d looks at the clock: more was rendered than had to be", clock.looks)
	}
}

// TestOwnMailsThatTakeTooLong: nor that of other messages, where each says itself
// what it is.
func TestOwnMailsThatTakeTooLong(t *testing.T) {
	m := &spool.Mailer{Users: noUsers{}, Templates: template.NewCache(slowTemplate{}, 0), Clock: &leapingClock{}}
	var mails []spool.Mail
	for i, message := range []string{"a", "a", "a", "b"} {
		text := "{% for i in (1..20000) %}{% endfor %}"
		if message == "b" {
			text = "hello"
		}
		content := template.Content{Mail: &mail.TemplateVersion{Subject: "s", Text: text}}
		mails = append(mails, spool.Mail{
			Send:    &mail.Send{Message: strings.Repeat(message, sluice.MessageIDBytes), Number: i, Recipients: 3, Form: mail.ContentTemplate, From: "shop@example.com", To: "ann@example.com"},
			Content: content.Append(nil), Took: new([mail.Stages]time.Duration),
		})
	}
	m.Make(t.Context(), mails)
	for i := range mails {
		if err := mails[i].Err; errors.Is(err, spool.ErrSlow) != (i < 3) || (err == nil) != (i == 3) {
			t.Errorf("mail %d: %v", i, err)
		}
	}
}

// TestAuthorsOfTemplates: a template that makes its own From for each recipient
// does not get past the rule of domains. Its mail waits, and costs no other.
func TestAuthorsOfTemplates(t *testing.T) {
	var asked []string
	m := &spool.Mailer{Users: noUsers{}, Templates: template.NewCache(fromTemplate{}, 0), Clock: sluice.SystemClock{},
		Refused: func(_ context.Context, domains []string) map[string]*sluice.Error {
			asked = append(asked, domains...)
			return map[string]*sluice.Error{"bad.example": {Message: "bad.example has no records"}, "example.com": {Message: "has been accepted before"}}
		}}
	var mails []spool.Mail
	for _, domain := range []string{"Bad.example", "good.example", "EXAMPLE.com", "bad.example", "no domain"} {
		mails = append(mails, spool.Mail{
			Send:    &mail.Send{Message: strings.Repeat("a", sluice.MessageIDBytes), Form: mail.ContentTemplate, From: "shop@example.com", To: "ann@example.com"},
			Content: []byte(`{"template":"hello","version":1,"variables":{"domain":"` + domain + `"}}`), Took: new([mail.Stages]time.Duration),
		})
	}
	m.Make(t.Context(), mails)
	for i, parked := range []bool{true, false, false, true, false} {
		err := mails[i].Err
		if parked != errors.Is(err, spool.ErrParked) || parked && !strings.Contains(err.Error(), "bad.example has no records") || (err != nil) != (parked || i == 4) {
			t.Errorf("mail %d: %v", i, err)
		}
	}
	if strings.Join(asked, " ") != "bad.example good.example" {
		t.Errorf("asked about %q", asked)
	}
}

// fromTemplate says for each recipient who it is from.
type fromTemplate struct{ mail.TemplateStore }

func (fromTemplate) TemplateVersion(_ context.Context, id string, version int) (mail.TemplateVersion, error) {
	return mail.TemplateVersion{Template: id, Version: version, Subject: "s", Text: "t", From: "Ann <ann@{{ domain }}>", Class: mail.ClassTransactional}, nil
}
