package spool_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice"
	"sluice/lib/faults"
	"sluice/mail"
	"sluice/mail/spool"
	"sluice/test/spooltest"
)

// purgedMails is how many mails TestAPurgeLetsOtherMailPass purges, and notes how
// long other mail takes meanwhile:
//
//	go test ./spool -run TestAPurgeLetsOtherMailPass -v -args -purged-mails 170000
var purgedMails = flag.Int("purged-mails", 3000, "how many mails are purged beside other mail")

// marketingWaits is a route that takes no marketing mail, until it is let.
type marketingWaits struct {
	spooltest.OneRoute
	open atomic.Bool
}

func (m *marketingWaits) Takes(t mail.Transport, s *mail.Send, passed []mail.Transport, now time.Time) spool.Take {
	if s.Class == mail.ClassMarketing && !m.open.Load() {
		return spool.Take{Wait: 50 * time.Millisecond}
	}
	return m.OneRoute.Takes(t, s, passed, now)
}

// TestAPurgeLetsOtherMailPass: a purge goes in pieces, each of which the ledger
// has before the next is written. What is cancelled is told to the ledger once,
// also when it is met in its lane later.
func TestAPurgeLetsOtherMailPass(t *testing.T) {
	b := newBed(t)
	timed := &stopwatch{Transport: newWire(nil), sent: make(map[string]time.Time)}
	routes := &marketingWaits{OneRoute: spooltest.OneRoute{Transport: timed}}
	o := b.startRoutes(routes, nil)
	waiting := draft("", mail.PriorityNormal, mail.ClassMarketing)
	for n := 0; n < *purgedMails; n += 1000 {
		o.submit(toMany(waiting, min(1000, *purgedMails-n)))
	}
	b.eventually("they wait", func() bool { return o.totals() == fmt.Sprintf("waiting %d", *purgedMails) })

	op := &spool.Operator{Redis: o.redis, Writer: o.writer, Lanes: o.lanes, Ledger: o.store, Partitions: testPartitions, Clock: sluice.SystemClock{}}
	all := must(mail.NewSelector(mail.SelectClass, "marketing"))
	var purging sync.WaitGroup
	var over atomic.Bool
	began := time.Now()
	purging.Go(func() {
		defer over.Store(true)
		for n, after := 0, ""; ; {
			some, next, err := op.Purge(t.Context(), all, after, spool.PurgeStep, false)
			if err != nil {
				t.Error(err)
				return
			}
			n += some
			if after = next; after == "" {
				t.Logf("%d purged within %v", n, time.Since(began))
				return
			}
		}
	})
	handed, mails := make(map[string]time.Time), 0
	var found []time.Duration
	for ; !over.Load() || mails < 20; mails++ {
		to := fmt.Sprintf("other%d@example.com", mails)
		handed[to] = time.Now()
		id := o.submit(draft(to, mail.PriorityNormal, mail.ClassTransactional))[0]
		b.eventually("it is in the ledger", func() bool { return len(must(o.store.MessageSends(t.Context(), id))) == 1 })
		found = append(found, time.Since(handed[to]))
	}
	purging.Wait()
	b.eventually("other mail has left", func() bool { return timed.count() == mails })
	var left []time.Duration
	for to, at := range handed {
		left = append(left, timed.sent[to].Sub(at))
	}
	slices.Sort(left)
	slices.Sort(found)
	t.Logf("beside it %d mails left within %v (p50), %v (p99), %v (the last); they were in the ledger within %v, %v, %v", mails,
		left[mails/2], left[mails*99/100], left[mails-1], found[mails/2], found[mails*99/100], found[mails-1])
	// A busy machine may be further behind than a purge waits for.
	o.awaitTotals(fmt.Sprintf("sent %d, cancelled %d", mails, *purgedMails))
	began = time.Now()
	routes.open.Store(true)
	b.eventually("nothing waits any more", func() bool { return o.waiting() == 0 })
	t.Logf("met in their lanes within %v", time.Since(began))
	o.awaitTotals(fmt.Sprintf("sent %d, cancelled %d", mails, *purgedMails))
	told := 0
	for _, out := range b.outcomes() {
		if out.State == mail.SendCancelled {
			told++
		}
	}
	if told != *purgedMails {
		t.Errorf("the ledger was told of %d cancelled sends, want %d", told, *purgedMails)
	}
}

// TestPurgedMailLeavesNoMore: what is stopped, purged and let go on does not leave, also
// where the lanes hear of the purge late.
func TestPurgedMailLeavesNoMore(t *testing.T) {
	b := newBed(t)
	w := newWire(nil)
	routes := &marketingWaits{OneRoute: spooltest.OneRoute{Transport: w}}
	o := b.startRoutes(routes, nil)
	const sends = 40
	o.submit(toMany(draft("", mail.PriorityNormal, mail.ClassMarketing), sends))
	b.eventually("they wait", func() bool { return o.totals() == fmt.Sprintf("waiting %d", sends) })

	// The lanes stand just before they note the first of it, until the purge has ended, or
	// waits for them.
	file := filepath.Join(t.TempDir(), "queue")
	disarm := must(faults.Arm("cancel=pause:" + file))
	defer disarm()
	op := &spool.Operator{Redis: o.redis, Writer: o.writer, Lanes: o.lanes, Ledger: o.store, Partitions: testPartitions, Clock: sluice.SystemClock{}}
	purging := make(chan error, 1)
	go func() { // ends with the purge
		_, _, err := op.Purge(t.Context(), must(mail.NewSelector(mail.SelectClass, "marketing")), "", spool.PurgeStep, false)
		purging <- err
	}()
	b.eventually("the lanes stand", func() bool { _, err := os.Stat(file + ".reached"); return err == nil })
	var err error
	select {
	case err = <-purging: // too soon
		routes.open.Store(true)
		b.eventually("some of it has left", func() bool { return len(w.came()) > 0 })
	case <-time.After(300 * time.Millisecond):
	}
	b.must(os.WriteFile(file, nil, 0o600))
	if len(w.came()) == 0 {
		err = <-purging
		routes.open.Store(true)
	}
	b.must(err)
	b.eventually("nothing waits", func() bool { return o.waiting() == 0 })
	if n := len(w.came()); n > 0 {
		t.Fatalf("%d of %d mails left after they were purged", n, sends)
	}
	o.awaitTotals(fmt.Sprintf("cancelled %d", sends))
}
