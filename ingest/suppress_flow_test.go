package ingest_test

import (
	"strings"
	"testing"

	"sluice"
)

// What mail events say of whom to mail no more is in force with them; a refusal
// that is not about the address says nothing, and of two events the later counts.
func TestStoreSuppresses(t *testing.T) {
	onEach(t, func(b *bed) {
		batch := sluice.NewBatch(0)
		bounced := func(n int, reply string) {
			s := aSend(n, "x")
			o := anOutcome(&s, sluice.SendWaiting, sluice.SendFailed, sluice.EventBounced, 1)
			o.Reply = reply
			batch = sluice.AppendOutcome(sluice.AppendSend(batch, &s), &o)
		}
		bounced(1, "5.1.1 no such user")
		bounced(2, "5.7.1 you are on a list")
		bounced(3, "no such user")
		bounced(4, "5.2.2 full")
		event := func(name, email, app string, second int64) {
			e := sluice.Event{Kind: sluice.KindMail, Name: name, Email: email, App: app, TimeMillis: 1_760_000_000_000 + second*1000}
			batch = sluice.AppendEvent(batch, &e)
		}
		event(sluice.EventComplained, "Spam@Example.com", "shop", 1)
		event(sluice.EventUnsubscribed, "off@example.com", "shop", 1)
		event(sluice.EventSubscribed, "back@example.com", "shop", 5)
		event(sluice.EventUnsubscribed, "back@example.com", "shop", 4) // came late
		event(sluice.EventSubscribed, "u1@example.com", "shop", 0)     // before the bounce
		event(sluice.EventOpened, "open@example.com", "shop", 1)
		event(sluice.EventComplained, "nobody", "shop", 1)
		event(sluice.EventUnsubscribed, "odd@example.com", "sh\x00p", 1)
		for day := range int64(sluice.SoftBounceDays) { // mails to addresses that cannot be reached for now
			for i, x := range []struct{ event, reply string }{
				{sluice.EventBounced, "5.2.0 try to ask him"}, {sluice.EventFailed, "4.2.1 out of order"}, {sluice.EventFailed, "5.2.0 we do not like you"},
				{sluice.EventDeferred, "4.2.0 greylisted"}, {sluice.EventBounced, "5.2.2 full"}, {sluice.EventFailed, "4.7.1 slow down"}, {sluice.EventBounced, "5.1.8 bad sender"},
			} {
				s := aSend(100+10*int(day)+i, "x")
				s.To = []string{"soft", "late", "ours", "grey", "full", "slow", "sender"}[i] + "@example.com"
				o := anOutcome(&s, sluice.SendWaiting, sluice.SendFailed, x.event, 1)
				o.Reply = x.reply
				o.TimeMillis += day * 24 * 3_600_000
				batch = sluice.AppendOutcome(sluice.AppendSend(batch, &s), &o)
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
