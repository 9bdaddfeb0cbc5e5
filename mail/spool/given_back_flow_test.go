package spool_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice"
	"sluice/mail"
	"sluice/mail/spool"
)

// tally is a route that counts what it lets through: each mail is attempted, or given back.
type tally struct {
	valve
	mu      sync.Mutex
	taken   map[string]int // by send: not told of yet
	back    map[string]int // by recipient: how often it was not attempted
	strange []string       // sends that it was told of, and had not let through
}

func (r *tally) Takes(t mail.Transport, s *mail.Send, passed []mail.Transport, now time.Time) spool.Take {
	take := r.valve.Takes(t, s, passed, now)
	if take.OK {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.taken[s.ID()]++
	}
	return take
}

func (r *tally) told(s *mail.Send) {
	if r.taken[s.ID()]--; r.taken[s.ID()] < 0 {
		r.strange = append(r.strange, s.ID()+" to "+s.To)
	}
}

func (r *tally) NotAttempted(_ mail.Transport, sends []*mail.Send, _ time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range sends {
		r.told(s)
		r.back[s.To]++
	}
}

func (r *tally) Report(t mail.Transport, s *mail.Send, result *mail.Result, now time.Time) {
	r.mu.Lock()
	r.told(s)
	r.mu.Unlock()
	r.valve.Report(t, s, result, now)
}

// open is how many it let through and was not told of.
func (r *tally) open() (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, each := range r.taken {
		n += each
	}
	return n
}

// awayBodies are contents that cannot be read for some times.
type awayBodies struct {
	of    spool.Bodies
	times atomic.Int64
}

func (a *awayBodies) Bodies(ctx context.Context, messages []string, most int) (map[string][]byte, error) {
	if a.times.Add(-1) >= 0 {
		return nil, errors.New("the database is away")
	}
	return a.of.Bodies(ctx, messages, most)
}

// unmade makes no mail to the recipients that it has an error for; where a window is full, once.
type unmade struct {
	mu  sync.Mutex
	why map[string]error
}

func (u *unmade) Make(ctx context.Context, mails []spool.Mail) {
	spool.Plain{}.Make(ctx, mails)
	u.mu.Lock()
	defer u.mu.Unlock()
	for i := range mails {
		to := mails[i].Send.To
		if mails[i].Err = u.why[to]; errors.Is(u.why[to], spool.ErrNoRoom) {
			delete(u.why, to)
		}
	}
}

// TestWhatIsNotAttemptedIsGivenBack: whatever keeps a mail from its transport once a route has
// let it through, the route is told so, once. Of what is attempted it hears as ever.
func TestWhatIsNotAttemptedIsGivenBack(t *testing.T) {
	b, w := newBed(t), newWire(nil)
	routes := &tally{taken: make(map[string]int), back: make(map[string]int)}
	routes.Transport = w
	o := b.open(routes, nil)
	bodies := &awayBodies{of: o.sender.Bodies}
	bodies.times.Store(2)
	maker := &unmade{why: map[string]error{
		"full@example.com": spool.ErrNoRoom, "later@example.com": spool.ErrNotNow, "parked@example.com": spool.ErrParked, "unwanted@example.com": spool.ErrUnwanted,
		"aborted@example.com": spool.ErrAborted, "broken@example.com": errors.New("no such value"),
	}}
	o.sender.Bodies, o.sender.Maker, o.sender.Suppress = bodies, maker, nobody{"gone@example.com": "unsubscribed"}
	o.pack(0, "normal-marketing", 1, sluice.AppendItem(sluice.NewBatch(64), sluice.ItemSend, func(b []byte) []byte { return append(b, "no send"...) }))
	o.run()
	mailTo := func(name string) mail.Draft {
		return draft(name+"@example.com", mail.PriorityNormal, mail.ClassMarketing)
	}
	large := mailTo("large")
	large.Content = append(large.Content, strings.Repeat("x", mail.MaxInlineBytes)...)
	drafts := []mail.Draft{large, mailTo("cancelled"), mailTo("gone")}
	for to := range maker.why {
		drafts = append(drafts, mailTo(strings.TrimSuffix(to, "@example.com")))
	}
	const plain = 20
	for i := range plain {
		drafts = append(drafts, mailTo(fmt.Sprint("u", i)))
	}
	ids := o.submit(drafts...)
	b.eventually("all wait", func() bool { return o.totals() == fmt.Sprint("waiting ", len(drafts)) })
	if what, err := b.cancel(o.canceller(), ids[1]); err != nil || what.Cancelled != 1 {
		t.Fatalf("%+v, %v", what, err)
	}
	routes.valve.open.Store(true)
	b.eventually("all is decided", func() bool {
		return o.totals() == fmt.Sprintf("waiting 2, sent %d, failed 1, suppressed 2, cancelled 2", plain+2)
	})
	b.eventually("the routes were told of all", func() bool { return routes.open() <= 0 })
	routes.mu.Lock()
	defer routes.mu.Unlock()
	for _, d := range drafts[:9] {
		if routes.back[d.To[0]] == 0 {
			t.Errorf("the mail to %s was not given back", d.To[0])
		}
	}
	if len(routes.strange) > 0 {
		t.Errorf("told more than once of %q", routes.strange)
	}
}
