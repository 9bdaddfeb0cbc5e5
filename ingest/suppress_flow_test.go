package ingest_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice"
	"sluice/ingest"
	"sluice/mail"
	"sluice/user"
	"sluice/user/profile"
)

// A mail event that suppresses an address takes effect with the event. A
// refusal that is not about the address says nothing, and of two events the
// later counts.
func TestStoreSuppresses(t *testing.T) {
	onEach(t, func(b *bed) {
		batch := sluice.NewBatch(0)
		bounced := func(n int, reply string) {
			s := aSend(n, "x")
			o := anOutcome(&s, mail.SendWaiting, mail.SendFailed, sluice.EventBounced, 1)
			o.Reply = reply
			batch = mail.AppendOutcome(mail.AppendSend(batch, &s), &o)
		}
		bounced(1, "5.1.1 no such user")
		bounced(2, "5.7.1 you are on a list")
		bounced(3, "no such user")
		bounced(4, "5.2.2 full")
		event := func(name, email, app string, second int64) {
			e := sluice.Event{Kind: sluice.KindMail, Origin: sluice.OriginTrusted, Name: name, Email: email, App: app, TimeMillis: 1_760_000_000_000 + second*1000}
			batch = sluice.AppendEvent(batch, &e)
		}
		event(sluice.EventComplained, "Spam@Example.com", "shop", 1)
		event(sluice.EventUnsubscribed, "off@example.com", "shop", 1)
		event(sluice.EventSubscribed, "back@example.com", "shop", 605)
		event(sluice.EventUnsubscribed, "back@example.com", "shop", 4) // came late
		event(sluice.EventSubscribed, "u1@example.com", "shop", 0)     // before the bounce
		event(sluice.EventOpened, "open@example.com", "shop", 1)
		event(sluice.EventComplained, "nobody", "shop", 1)
		event(sluice.EventUnsubscribed, "odd@example.com", "sh\x00p", 1)
		for day := range int64(mail.SoftBounceDays) { // mails to addresses that cannot be reached for now
			for i, x := range []struct{ event, reply string }{
				{sluice.EventBounced, "5.2.0 try to ask the user"}, {sluice.EventFailed, "4.2.1 out of order"}, {sluice.EventFailed, "5.2.0 we do not like you"},
				{sluice.EventDeferred, "4.2.0 greylisted"}, {sluice.EventBounced, "5.2.2 full"}, {sluice.EventFailed, "4.7.1 slow down"}, {sluice.EventBounced, "5.1.8 bad sender"},
			} {
				s := aSend(100+10*int(day)+i, "x")
				s.To = []string{"soft", "late", "ours", "grey", "full", "slow", "sender"}[i] + "@example.com"
				o := anOutcome(&s, mail.SendWaiting, mail.SendFailed, x.event, 1)
				o.Reply = x.reply
				o.TimeMillis += day * 24 * 3_600_000
				batch = mail.AppendOutcome(mail.AppendSend(batch, &s), &o)
			}
		}
		e := newEngine(b, setup{})
		e.write(1, "test", batch)
		e.run()
		b.eventually("all is stored", func() bool {
			return strings.Join(b.query("SELECT name FROM events WHERE name = 'opened'"), "") == "opened"
		})
		e.stop()
		got := strings.Join(b.query("SELECT entry, scope, app_id, reason FROM suppressions WHERE removed = 0 ORDER BY entry"), "; ")
		if want := "late@example.com|all||soft_bounces; off@example.com|marketing|shop|unsubscribe; soft@example.com|all||soft_bounces; spam@example.com|all||complaint; u1@example.com|all||hard_bounce"; got != want {
			b.Errorf("suppressed: %s\nwant %s", got, want)
		}
	})
}

// What people say about their own mail counts in the order of acceptance,
// whatever times producers claim. Of what others report, an opt-out within ten
// minutes of an opt-in wins, whichever is stored first. An opt-in, or a
// complaint about all mail, counts only from an origin that is trusted with it.
func TestStoreConsent(t *testing.T) {
	const minute = 60_000
	type said struct {
		name   string
		origin sluice.Origin
		at     int64 // minutes from when it is accepted
	}
	const in, out, spam, other, trusted, own, again = sluice.EventSubscribed, sluice.EventUnsubscribed, sluice.EventComplained,
		sluice.OriginOther, sluice.OriginTrusted, sluice.OriginOwn, sluice.OriginOwnRepeat
	cases := []struct {
		what string
		said []said
		want string // what holds then
	}{
		{"opt-in, dated ahead, then our page", []said{{in, trusted, 58}, {out, own, 0}}, "unsubscribe"},
		{"opt-in, dated ahead, then our page once more", []said{{in, trusted, 58}, {out, again, 0}}, "unsubscribe"},
		{"our page, opt-in dated ahead", []said{{out, own, 0}, {in, trusted, 58}}, "unsubscribe"},
		{"our page, our confirmation, our page", []said{{out, own, 0}, {in, own, 0}, {out, again, 0}}, "unsubscribe"},
		{"our page, our confirmation with a clock behind", []said{{out, own, 0}, {in, own, -60}}, ""},
		{"our confirmation, our page with a clock behind", []said{{in, own, 0}, {out, own, -60}}, "unsubscribe"},
		{"opt-out, opt-in nine minutes later", []said{{out, other, -20}, {in, trusted, -11}}, "unsubscribe"},
		{"opt-in, then the opt-out of nine minutes before", []said{{in, trusted, -11}, {out, other, -20}}, "unsubscribe"},
		{"opt-in, opt-out nine minutes later", []said{{in, trusted, -20}, {out, other, -11}}, "unsubscribe"},
		{"opt-out, opt-in eleven minutes later", []said{{out, other, -22}, {in, trusted, -11}}, ""},
		{"opt-in, then the opt-out of eleven minutes before", []said{{in, trusted, -11}, {out, other, -22}}, ""},
		{"opt-out, dated ahead, then our confirmation", []said{{out, other, 58}, {in, own, 0}}, ""},
		{"an old opt-out after our confirmation", []said{{in, own, 0}, {out, other, -5}}, ""},
		{"opt-in of who is not trusted", []said{{out, other, -60}, {in, other, 0}}, "unsubscribe"},
		{"complaint of who is not trusted", []said{{spam, other, 0}}, "complaint marketing"},
		{"complaint of who is trusted", []said{{spam, trusted, 0}}, "complaint all"},
	}
	onEach(t, func(b *bed) {
		now := time.Now().UnixMilli()
		e := newEngine(b, setup{})
		for n := range cases { // somebody has each address, at home wherever the name says
			key := user.Key{Kind: user.KeyExternal, Name: fmt.Sprint("u-", n)}
			e.write(key.Partition(testPartitions), key.Name, user.AppendUpdate(sluice.NewBatch(0), &user.Update{
				Op: user.OpAttributes, Key: key, TimeMillis: now - 120*minute, Body: fmt.Sprintf(`{"email":"case%d@example.com"}`, n)}))
		}
		e.run()
		all := &ingest.Applied{Store: e.store, Users: e.store.(user.Store), Logs: e.logs}
		b.must(all.All(b.Context()))
		e.stop()
		e = newEngine(b, setup{})
		most := 0
		for _, c := range cases {
			most = max(most, len(c.said))
		}
		for i := range most { // one batch each: a moment of acceptance of its own
			batch := sluice.NewBatch(0)
			for n, c := range cases {
				if i < len(c.said) {
					x := c.said[i]
					batch = sluice.AppendEvent(batch, &sluice.Event{Kind: sluice.KindMail, Origin: x.origin, Name: x.name,
						Email: fmt.Sprintf("case%d@example.com", n), TimeMillis: now + x.at*minute})
					if x.origin == own || x.origin == again {
						e.saysOnOurPages(i, fmt.Sprintf("case%d@example.com", n), x.name, now+x.at*minute)
					}
				}
			}
			e.write(1, fmt.Sprint("test", i), batch)
			written := time.Now()
			b.eventually("the next millisecond", func() bool { return time.Since(written) > 2*time.Millisecond })
		}
		e.write(1, "last", sluice.AppendEvent(sluice.NewBatch(0), &sluice.Event{Kind: sluice.KindMail, Name: sluice.EventOpened, TimeMillis: now}))
		e.run()
		b.eventually("all is stored", func() bool { return len(b.query("SELECT name FROM events WHERE name = 'opened'")) == 1 })
		for range 3 { // an update goes to the address, from there to the user
			all = &ingest.Applied{Store: e.store, Users: e.store.(user.Store), Logs: e.logs}
			b.must(all.All(b.Context()))
			b.eventually("nothing is on its way", func() bool { return b.count("forwards") == 0 })
		}
		e.stop()
		for n, c := range cases {
			if got, want := b.emailState(fmt.Sprint("u-", n)) == "unsubscribed", c.want != ""; got != want {
				b.Errorf("%s: the profile is unsubscribed: %v, want %v", c.what, got, want)
			}
		}
		for n, c := range cases {
			got := strings.ReplaceAll(strings.Join(b.query(fmt.Sprintf("SELECT reason, scope FROM suppressions WHERE removed = 0 AND entry = 'case%d@example.com'", n)), "; "), "|", " ")
			if want := strings.Replace(c.want, "unsubscribe", "unsubscribe marketing", 1); got != want {
				b.Errorf("%s: suppressed %q, want %q", c.what, got, want)
			}
		}
		for n, want := range map[int]int{1: 0, 2: 1, 3: 1} { // a repeat is no second row
			rows := b.query(fmt.Sprintf("SELECT name FROM events WHERE name = 'unsubscribed' AND email = 'case%d@example.com'", n))
			if len(rows) != want {
				b.Errorf("%s: %d rows of unsubscribed, want %d", cases[n].what, len(rows), want)
			}
		}
	})
}

// saysOnOurPages writes what our pages write beside their event: of a link to unsubscribe,
// or of a confirmation.
func (e *engine) saysOnOurPages(step int, address, event string, millis int64) {
	key := user.Key{Kind: user.KeyEmail, Name: address}
	u := user.Update{Op: user.OpSubscribe, Key: key, TimeMillis: millis, Body: "unsubscribed"}
	if event == sluice.EventSubscribed {
		u.Op, u.Body = user.OpAttributes, `{"email_subscribe":"opted_in"}`
	}
	e.write(key.Partition(testPartitions), fmt.Sprint("pages", step, address), user.AppendUpdate(sluice.NewBatch(0), &u))
}

// emailState is what the profile of an external id says about mail.
func (b *bed) emailState(id string) string {
	b.Helper()
	text := b.query("SELECT profile FROM users WHERE profile LIKE ?", `%"external_id":"`+id+`"%`)
	if len(text) != 1 {
		b.Fatalf("%d users have the id %s", len(text), id)
	}
	p, err := profile.Parse(text[0])
	b.must(err)
	return p.EmailState()
}

// Of an address that nobody has a report is remembered, if who makes it is trusted with
// consent. What is about one app, or of one of several, changes no profile.
func TestReportsOfNobody(t *testing.T) {
	onEach(t, func(b *bed) {
		e := newEngine(b, setup{})
		now := time.Now().UnixMilli()
		batch := sluice.NewBatch(0)
		for _, x := range []sluice.Event{
			{Name: sluice.EventUnsubscribed, Origin: sluice.OriginTrusted, Email: "trusted@example.com"},
			{Name: sluice.EventComplained, Origin: sluice.OriginTrusted, Email: "spam@example.com", App: "shop"},
			{Name: sluice.EventUnsubscribed, Origin: sluice.OriginOther, Email: "other@example.com"},
			{Name: sluice.EventUnsubscribed, Origin: sluice.OriginTrusted, Email: "app@example.com", App: "shop"},
			{Name: sluice.EventComplained, Origin: sluice.OriginTrusted, Email: "several@example.com", Properties: `{"one_of":2}`},
			{Name: sluice.EventSubscribed, Origin: sluice.OriginOther, Email: "in@example.com"},
			{Name: sluice.EventOpened, Email: "last@example.com"},
		} {
			x.Kind, x.TimeMillis = sluice.KindMail, now
			batch = sluice.AppendEvent(batch, &x)
		}
		e.write(1, "test", batch)
		e.run()
		b.eventually("all is stored", func() bool { return len(b.query("SELECT name FROM events WHERE name = 'opened'")) == 1 })
		all := &ingest.Applied{Store: e.store, Users: e.store.(user.Store), Logs: e.logs}
		b.eventually("nothing is on its way", func() bool { return b.count("forwards") == 0 })
		b.must(all.All(b.Context()))
		e.stop()
		var got []string
		for _, text := range b.query("SELECT profile FROM users") {
			p, err := profile.Parse(text)
			b.must(err)
			got = append(got, p.Fields.Get("email")+" "+p.EmailState())
		}
		slices.Sort(got)
		if want := `"spam@example.com" unsubscribed, "trusted@example.com" unsubscribed`; strings.Join(got, ", ") != want {
			b.Errorf("users: %s, want %s", got, want)
		}
	})
}
