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
	of   spool.Users
	away time.Duration

	mu    sync.Mutex
	since time.Time
}

func (s *slowToCome) Users(ctx context.Context, q user.Query) (user.Answer, error) {
	s.mu.Lock()
	if s.since.IsZero() {
		s.since = time.Now()
	}
	gone := time.Since(s.since) < s.away
	s.mu.Unlock()
	if gone {
		return user.Answer{}, context.DeadlineExceeded
	}
	return s.of.Users(ctx, q)
}

// TestMailThatExpiresSoonIsTriedAgain: one refusal, or a database that is away for two
// seconds, does not cost a mail that is good for less than the wait as usual.
func TestMailThatExpiresSoonIsTriedAgain(t *testing.T) {
	t.Run("refused for now", func(t *testing.T) {
		b := newBed(t)
		o := b.start(newWire(func(_ *mail.Envelope, nth int) mail.Result {
			if nth == 1 {
				return mail.Result{Kind: mail.ResultDeferred, Code: 451}
			}
			return mail.Result{Kind: mail.ResultSent, Code: 250}
		}), nil)
		code := draft("ann@example.com", mail.PriorityHigh, mail.ClassTransactional)
		code.ExpiresMillis = time.Now().Add(12 * time.Second).UnixMilli()
		o.submit(code)
		o.wantSent()
	})
	t.Run("not looked up", func(t *testing.T) {
		b := newBed(t)
		o := b.open(&spooltest.OneRoute{Transport: newWire(nil)}, nil)
		o.sender.Maker = &spool.Mailer{
			Templates: template.NewCache(o.store, 0), Users: &slowToCome{of: o.store, away: 2 * time.Second}, Clock: sluice.SystemClock{},
		}
		o.run()
		c := template.Content{Mail: &mail.TemplateVersion{Subject: "Your code", Text: "It is 1234.", Class: mail.ClassTransactional}}
		o.submit(mail.Draft{
			Priority: mail.PriorityHigh, Class: mail.ClassTransactional, Form: mail.ContentTemplate, From: "shop@example.com",
			To: []string{"ann@example.com"}, Content: c.Append(nil), ExpiresMillis: time.Now().Add(30 * time.Second).UnixMilli(),
		})
		o.wantSent()
	})
}

// wantSent waits until the only send is over, and fails if it was not sent.
func (o *office) wantSent() {
	o.b.Helper()
	o.b.eventually("it is over", func() bool { return o.totals() == "sent 1" || o.totals() == "failed 1" })
	if got := o.totals(); got != "sent 1" {
		o.b.Errorf("%s: %+v", got, o.b.outcomes())
	}
}
