package spool_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"sluice"
	"sluice/flow"
	"sluice/mail"
	"sluice/mail/spool"
	"sluice/test/spooltest"
)

// gatedRecord is a ledger that says what waits in it only when it is let.
type gatedRecord struct {
	spool.Record
	gate  chan struct{}
	waits atomic.Int64 // how many have come to it
}

func (g *gatedRecord) LaneKeys(ctx context.Context, partition int, after mail.SendKey, limit int) ([]mail.LaneKey, error) {
	g.waits.Add(1)
	select {
	case <-g.gate:
		return g.Record.LaneKeys(ctx, partition, after, limit)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// heldRecord keeps each caller waiting that asks for the row of one message.
type heldRecord struct {
	spool.Record
	message string
	held    atomic.Bool // somebody waits
	gate    chan struct{}
}

func (h *heldRecord) SendRows(ctx context.Context, keys []mail.SendKey) ([]mail.SendRow, error) {
	if slices.ContainsFunc(keys, func(k mail.SendKey) bool { return k.Message == h.message }) {
		h.held.Store(true)
		select {
		case <-h.gate:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return h.Record.SendRows(ctx, keys)
}

// compareAgain has all lanes compared. Nobody may be at work.
func (o *office) compareAgain() {
	o.b.Helper()
	for _, l := range o.lanes {
		o.b.must(l.CompareAgain(o.b.Context()))
	}
}

func urgent(to string) mail.Draft {
	return draft(to, mail.PriorityHigh, mail.ClassMarketing)
}

// apart is how many wait in sublanes.
func (o *office) apart() (n int64) {
	o.b.Helper()
	for _, l := range o.lanes {
		counts, err := l.Waiting(o.b.Context())
		o.b.must(err)
		for lane, c := range counts {
			if strings.Contains(lane, "@") {
				n += c
			}
		}
	}
	return n
}

// inLanes is how many wait in lanes and sublanes, and how many for a time.
func (o *office) inLanes() (lanes, later int64) {
	o.b.Helper()
	for _, l := range o.lanes {
		counts, err := l.Waiting(o.b.Context())
		o.b.must(err)
		later += counts[flow.LaterName]
	}
	return o.waiting() - later, later
}

// wantNoneLost fails if a comparison has taken a send for lost.
func (b *bed) wantNoneLost() {
	b.Helper()
	for _, out := range b.outcomes() {
		if out.Reason == "lost" {
			b.Errorf("taken for lost: %+v", out)
		}
	}
}

// TestUrgentMailThatWaitsApartLeaves: a domain that may be sent to again is, also
// while what waits is compared; and so is one that has been held meanwhile.
func TestUrgentMailThatWaitsApartLeaves(t *testing.T) {
	t.Cleanup(spool.ComparePage(3))
	b := newBed(t)
	w := newWire(nil)
	v := &valve{OneRoute: spooltest.OneRoute{Transport: w}}
	slow := &closedDomains{OneRoute: spooltest.OneRoute{Transport: w}, closed: map[string]bool{"one.example": true, "two.example": true}}
	routes := both{v, slow}
	first := b.startRoutes(routes, nil)
	first.submit(urgent("a@one.example"), urgent("b@one.example"))
	first.inTheLedger(0, 30, mail.ClassTransactional)
	b.eventually("they wait, two of them apart", func() bool { return first.totals() == "waiting 32" && first.apart() == 2 })
	first.stop()

	second := b.open(routes, nil)
	second.compareAgain()
	gated := &gatedRecord{Record: second.store, gate: make(chan struct{})}
	second.sender.Record = gated
	v.open.Store(true)
	second.run()
	second.submit(urgent("c@one.example"), urgent("d@two.example"), urgent("e@three.example"))
	b.eventually("four wait apart, and one has left", func() bool { return second.apart() == 4 && len(w.came()) == 1 })
	slow.close(false, "one.example", "two.example")
	b.eventually("all that is urgent has left", func() bool { return len(w.came()) == 5 && second.totals() == "waiting 30, sent 5" })
	if got := slices.Compact(b.sublanes("high-marketing")); len(got) != 2 {
		t.Errorf("sublanes while all is compared: %v, want those of the two domains", got)
	}
	if _, all := second.found(); all {
		t.Error("all is compared already: this test shows nothing")
	}
	close(gated.gate)
	b.eventually("all have left, and the sublanes are gone", func() bool { return second.totals() == "sent 35" && len(b.sublanes("high-marketing")) == 0 })
	w.wantOnce(t)
	b.wantNoneLost()
}

// ahead is the machine's clock, or an hour ahead of it and more.
type ahead struct{ hours atomic.Int64 }

func (a *ahead) Now() time.Time { return time.Now().Add(time.Duration(a.hours.Load()) * time.Hour) }

// TestNothingIsReleasedBesideTheWalk: what becomes due while the lanes are walked
// stays where the walk will meet it, or it would be taken for lost.
func TestNothingIsReleasedBesideTheWalk(t *testing.T) {
	b := newBed(t)
	w := newWire(nil)
	v := &valve{OneRoute: spooltest.OneRoute{Transport: w}}
	first := b.startRoutes(v, nil)
	to := inOnePartition([]string{"later.example", "now.example", "unknown.example"})
	scheduled := urgent(to[0])
	scheduled.DueMillis = time.Now().Add(time.Hour).UnixMilli()
	first.submit(scheduled)
	b.eventually("it waits for its time", func() bool { return first.totals() == "waiting 1" && first.waiting() == 1 })
	first.stop()

	second := b.open(v, nil)
	second.compareAgain()
	now := time.Now().UnixMilli()
	unknown := mail.Send{
		Message: sluice.NewMessageID(now), Recipients: 1, Priority: mail.PriorityLow, Class: mail.ClassMarketing, Form: mail.ContentMIME,
		From: "shop@example.com", To: to[2], AcceptedMillis: now, ExpiresMillis: now + mail.DefaultExpiryMillis, Content: "Subject: hello\r\n\r\nhello\r\n",
	}
	second.pack(0, "low-marketing", 1, mail.AppendSend(sluice.NewBatch(0), &unknown))
	held := &heldRecord{Record: second.store, message: unknown.Message, gate: make(chan struct{})}
	second.sender.Record = held
	clock := &ahead{}
	second.sender.Clock = clock
	v.open.Store(true)
	second.run()
	b.eventually("the walk is in the last of the lanes", held.held.Load)
	clock.hours.Store(2)
	for n := 1; n <= 3; n++ { // what is due is looked for before each read
		second.submit(urgent(to[1]))
		b.eventually("what is urgent has left", func() bool { return len(w.came()) == n })
		clock.hours.Add(1)
	}
	close(held.gate)
	b.eventually("all have left", func() bool { return second.totals() == "sent 5" && second.waiting() == 0 })
	w.wantOnce(t)
	b.wantNoneLost()
}

// TestSublanesOfOthersAreFound: a process that had taken mail before may move
// it to a sublane that was not there when the lanes were read.
func TestSublanesOfOthersAreFound(t *testing.T) {
	b := newBed(t)
	w := newWire(nil)
	o := b.start(w, nil)
	to := inOnePartition([]string{"first.example", "moved.example"})
	o.submit(urgent(to[0]))
	b.eventually("the first has left", func() bool { return o.totals() == "sent 1" })
	now := time.Now().UnixMilli()
	send := mail.Send{
		Message: sluice.NewMessageID(now), Recipients: 1, Priority: mail.PriorityHigh, Class: mail.ClassMarketing, Form: mail.ContentMIME,
		From: "shop@example.com", To: to[1], AcceptedMillis: now, ExpiresMillis: now + mail.DefaultExpiryMillis, Content: "Subject: hello\r\n\r\nhello\r\n",
	}
	lane := flow.Sublane("high-marketing", "moved.example")
	raw := must(rueidis.NewClient(plainOption(b.redis)))
	defer raw.Close()
	o.pack(0, lane, 1, mail.AppendSend(sluice.NewBatch(0), &send))
	keys, err := raw.Do(t.Context(), raw.B().Keys().Pattern("*:lane:"+lane).Build()).AsStrSlice()
	b.must(err)
	b.must(raw.Do(t.Context(), raw.B().Sadd().Key(strings.Replace(keys[0], ":lane:"+lane, ":sublanes", 1)).Member(lane).Build()).Error())
	b.eventually("it has left", func() bool { return slices.Contains(w.came(), to[1]) })
	w.wantOnce(t)
}

// TestUrgentMailBesideComparisons: processes that begin with a comparison end,
// or die, at any moment of it. Meanwhile urgent mail comes, is held by its
// domain, waits for another attempt, and is cancelled. Nothing is sent twice,
// nothing is taken for lost, and all adds up.
func TestUrgentMailBesideComparisons(t *testing.T) {
	t.Cleanup(spool.ComparePage(5))
	b := newBed(t)
	w := newWire(func(e *mail.Envelope, _ int) mail.Result {
		if strings.HasPrefix(e.To, "deferred") {
			return mail.Result{Kind: mail.ResultDeferred, Code: 451}
		}
		return mail.Result{Kind: mail.ResultSent, Code: 250}
	})
	routes := &closedDomains{OneRoute: spooltest.OneRoute{Transport: w}, closed: make(map[string]bool)}
	domains := []string{"a.example", "b.example", "c.example"}
	ended := make(chan struct{})
	var gate sync.WaitGroup
	gate.Go(func() {
		for closed := true; ; closed = !closed {
			routes.close(closed, domains[1:]...)
			select {
			case <-ended:
				routes.close(false, domains...)
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	})
	total := 0
	const rounds = 8
	for round := range rounds {
		o := b.open(routes, nil)
		o.compareAgain()
		o.run()
		for n := range 40 {
			d := urgent(fmt.Sprintf("u%d.%d@%s", round, n, domains[n%3]))
			switch n % 8 {
			case 3:
				d.To[0] = "deferred" + d.To[0]
			case 5, 6:
				d.Priority = mail.PriorityNormal
			}
			id := o.submit(d)[0]
			total++
			if n%8 == 7 {
				_, err := o.canceller().Cancel(t.Context(), id)
				if err != nil && !strings.Contains(err.Error(), "no message") && !strings.Contains(err.Error(), "stored yet") {
					t.Fatal(err)
				}
			}
			<-time.After(rand.N(5 * time.Millisecond))
		}
		if round == rounds-1 {
			close(ended)
			gate.Wait()
			b.eventually("only what is to be tried again waits", func() bool {
				lanes, later := o.inLanes()
				return lanes == 0 && strings.HasPrefix(o.totals(), fmt.Sprintf("waiting %d,", later))
			})
			sum := int64(0)
			all, err := o.store.SendTotals(t.Context())
			b.must(err)
			for _, s := range all {
				sum += s.Count
			}
			if sum != int64(total) {
				t.Errorf("the ledger has %s, want %d in all", o.totals(), total)
			}
			t.Log(o.totals())
		}
		o.end(round%2 == 0)
	}
	w.wantOnce(t)
	b.wantNoneLost()
}
