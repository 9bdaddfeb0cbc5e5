package spool_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"sluice"
	"sluice/mail"
	"sluice/mail/spool"
	"sluice/mail/template"
	"sluice/test/spooltest"
	"sluice/user"
)

// slowToCome is a database of users that does not answer for a while since it was asked
// first.
type slowToCome struct {
	of    spool.Users
	away  time.Duration
	clock sluice.Clock

	mu    sync.Mutex
	since time.Time
}

func (s *slowToCome) Users(ctx context.Context, q user.Query) (user.Answer, error) {
	s.mu.Lock()
	if s.since.IsZero() {
		s.since = s.clock.Now()
	}
	gone := s.clock.Now().Sub(s.since) < s.away
	s.mu.Unlock()
	if gone {
		return user.Answer{}, context.DeadlineExceeded
	}
	return s.of.Users(ctx, q)
}

// TestMailThatExpiresSoonIsTriedAgain: one refusal, or a database that is away for two
// seconds, does not cost a mail that is good for less than the wait as usual.
func TestMailThatExpiresSoonIsTriedAgain(t *testing.T) {
	const soon = 40 * time.Second // less than the wait as usual, of 45 s at least
	t.Run("refused for now", func(t *testing.T) {
		b, clock := newBed(t), &shifted{}
		o := b.open(&spooltest.OneRoute{Transport: newWire(func(_ *mail.Envelope, nth int) mail.Result {
			if nth == 1 {
				return mail.Result{Kind: mail.ResultDeferred, Code: 451}
			}
			return mail.Result{Kind: mail.ResultSent, Code: 250}
		})}, nil)
		o.sender.Clock = clock
		o.run()
		code := draft("ann@example.com", mail.PriorityHigh, mail.ClassTransactional)
		code.ExpiresMillis = time.Now().Add(soon).UnixMilli()
		o.wantSent(clock, o.submit(code)[0])
	})
	t.Run("not looked up", func(t *testing.T) {
		b, clock := newBed(t), &shifted{}
		o := b.open(&spooltest.OneRoute{Transport: newWire(nil)}, nil)
		o.sender.Clock, o.sender.Maker = clock, &spool.Mailer{
			Templates: template.NewCache(o.store, 0), Users: &slowToCome{of: o.store, away: 2 * time.Second, clock: clock}, Clock: sluice.SystemClock{},
		}
		o.run()
		c := template.Content{Mail: &mail.TemplateVersion{Subject: "Your code", Text: "It is 1234.", Class: mail.ClassTransactional}}
		id := o.submit(mail.Draft{
			Priority: mail.PriorityHigh, Class: mail.ClassTransactional, Form: mail.ContentTemplate, From: "shop@example.com",
			To: []string{"ann@example.com"}, Content: c.Append(nil), ExpiresMillis: time.Now().Add(soon).UnixMilli(),
		})[0]
		o.wantSent(clock, id)
	})
}

// wantSent waits until the only send is over, and fails if it was not sent. The clock is
// moved to each of its tries: it loses none of its time to the wait for them.
func (o *office) wantSent(clock *shifted, message string) {
	o.b.Helper()
	o.b.eventually("it is over", func() bool {
		if ahead := o.row(message).DueMillis - clock.Now().UnixMilli(); ahead > 0 {
			clock.by.Add(ahead * int64(time.Millisecond))
		}
		return o.totals() == "sent 1" || o.totals() == "failed 1"
	})
	if got := o.totals(); got != "sent 1" {
		o.b.Errorf("%s: %+v", got, o.b.outcomes())
	}
}
