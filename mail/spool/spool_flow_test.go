package spool_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice"
	"sluice/mail"
	"sluice/mail/spool"
	"sluice/test/spooltest"
)

func TestMessagesAreSentOnce(t *testing.T) {
	b := newBed(t)
	w := newWire(nil)
	o := b.start(w, nil)
	const messages = 500
	var sending sync.WaitGroup
	var mu sync.Mutex
	want := make(map[string]int)
	for i := range messages {
		sending.Go(func() {
			id := o.submit(draft(fmt.Sprintf("u%d@example.com", i), mail.Priority(1+i%3), mail.Class(1+i%2)))[0]
			mu.Lock()
			defer mu.Unlock()
			want[id+".0"] = 1
		})
	}
	sending.Wait()
	b.eventually("all are recorded", func() bool { return o.waiting() == 0 && len(b.outcomes()) == messages })
	got := w.times()
	for send, n := range want {
		if got[send] != n {
			t.Errorf("%s came %d times, want %d", send, got[send], n)
		}
	}
	if len(got) != messages {
		t.Errorf("%d sends came, %d were accepted", len(got), messages)
	}
	b.eventually("the ledger has all", func() bool { return o.totals() == "sent 500" })
}

// TestHighOvertakes: what is urgent goes before everything that waits.
func TestHighOvertakes(t *testing.T) {
	b := newBed(t)
	gate := make(chan struct{})
	w := newWire(func(*mail.Envelope, int) mail.Result {
		<-gate
		return mail.Result{Kind: mail.ResultSent}
	})
	w.workers, w.window = 1, 4
	o := b.start(w, nil)
	for i := range 200 {
		o.submit(draft(fmt.Sprintf("low%d@example.com", i), mail.PriorityLow, mail.ClassMarketing))
	}
	b.eventually("the first is on its way", func() bool { return len(w.came()) > 0 })
	o.submit(draft("now@example.com", mail.PriorityHigh, mail.ClassTransactional))
	b.eventually("all but those on their way are in memory", func() bool { return o.sender.Held()+len(w.came()) >= 201-w.window+1 && o.waiting() == 201 })
	close(gate)
	b.eventually("all are recorded", func() bool { return o.waiting() == 0 })
	if at := slices.Index(w.came(), "now@example.com"); at < 0 || at >= 2*w.window {
		t.Errorf("the urgent one went as number %d, want it in the window after the one under way", at)
	}
}

// TestSendsDoNotWaitForTheLedger: sends leave while the store stands still, far
// behind the end of the logs, and nothing is sent twice when it goes on.
func TestSendsDoNotWaitForTheLedger(t *testing.T) {
	b := newBed(t)
	b.patience = time.Hour
	w := newWire(nil)
	o := b.start(w, nil)
	urgent := draft("now@example.com", mail.PriorityHigh, mail.ClassTransactional)
	o.submit(urgent)
	b.eventually("the ledger has one", func() bool { return o.totals() == "sent 1" })
	other := b.sqlite()
	other.SetMaxOpenConns(1)
	must(other.ExecContext(t.Context(), "BEGIN IMMEDIATE")) // nobody else writes now
	const mails = 25                                        // more than the store has in hand
	for n := range mails {
		o.submit(urgent)
		b.eventually("the mail has left", func() bool { return len(w.came()) == n+2 })
	}
	must(other.ExecContext(t.Context(), "ROLLBACK"))
	b.eventually("the ledger has all", func() bool { return o.totals() == fmt.Sprintf("sent %d", mails+1) })
	if n := len(w.came()); n != mails+1 {
		t.Fatalf("%d mails have left, want %d", n, mails+1)
	}
}

// TestWorkersCallEachOther: who takes a part of what has come, and is busy with
// it, has called another for the rest.
func TestWorkersCallEachOther(t *testing.T) {
	b := newBed(t)
	gate := make(chan struct{})
	w := newWire(func(*mail.Envelope, int) mail.Result {
		<-gate
		return mail.Result{Kind: mail.ResultSent}
	})
	w.workers, w.window = 5, 2
	o := b.open(&spooltest.OneRoute{Transport: w}, nil)
	drafts := make([]mail.Draft, 5*w.window)
	for i := range drafts {
		drafts[i] = draft("ann@example.com", mail.PriorityNormal, mail.ClassMarketing) // one partition: they come as one batch
	}
	o.run()
	o.submit(drafts...)
	b.eventually("all workers have something", func() bool { return len(w.came()) == w.workers })
	close(gate)
	b.eventually("all are recorded", func() bool { return o.waiting() == 0 && len(w.came()) == len(drafts) })
}

// TestOrderInALane: first in, first out, in a lane of a partition.
func TestOrderInALane(t *testing.T) {
	b := newBed(t)
	w := newWire(nil)
	w.workers = 1
	o := b.start(w, nil)
	var want []string
	for range 300 { // one partition: all to one address, told apart by their sends
		id := o.submit(draft("ann@example.com", mail.PriorityNormal, mail.ClassMarketing))[0]
		want = append(want, id)
	}
	b.eventually("all are recorded", func() bool { return o.waiting() == 0 && len(w.came()) == len(want) })
	var got []string
	for _, out := range b.outcomes() {
		got = append(got, out.Message)
	}
	if !slices.Equal(got, want) {
		t.Error("they were not sent in the order in which they were accepted")
	}
}

func TestDeferredSendsAreTriedAgain(t *testing.T) {
	b := newBed(t)
	w := newWire(func(_ *mail.Envelope, nth int) mail.Result {
		if nth < 3 {
			return mail.Result{Kind: mail.ResultDeferred, Code: 451, Throttled: true, RetryAfter: time.Millisecond}
		}
		return mail.Result{Kind: mail.ResultSent}
	})
	o := b.start(w, nil)
	d := draft("ann@example.com", mail.PriorityHigh, mail.ClassTransactional)
	o.submit(d)
	b.eventually("it waits", func() bool { return len(b.outcomes()) == 1 })
	out := b.outcomes()[0]
	if out.State != mail.SendWaiting || out.Event != sluice.EventDeferred || out.DueMillis <= out.TimeMillis || out.Attempts != 1 {
		t.Errorf("outcome: %+v", out)
	}
}

func TestSuppressedSendsAreNeverAttempted(t *testing.T) {
	b := newBed(t)
	w := newWire(nil)
	o := b.start(w, nobody{"bob@example.com": "unsubscribed"})
	o.submit(draft("ann@example.com", mail.PriorityHigh, mail.ClassTransactional), draft("bob@example.com", mail.PriorityHigh, mail.ClassTransactional))
	b.eventually("both are recorded", func() bool { return len(b.outcomes()) == 2 })
	b.eventually("the ledger has both", func() bool { return o.totals() == "sent 1, suppressed 1" })
	if came := w.came(); !slices.Equal(came, []string{"ann@example.com"}) {
		t.Errorf("attempted: %v", came)
	}
}

// lately is a Suppressor of all, from a moment on.
type lately struct{ on atomic.Bool }

func (l *lately) Check(string, mail.Class, string) (string, bool) { return "complaint", l.on.Load() }

func (*lately) Ready([]string) {}

func (*lately) Fresh(mail.Class) bool { return true }

// telling is a Maker that tells when a window is made.
type telling struct {
	spool.Maker
	made func()
}

func (m telling) Make(ctx context.Context, mails []spool.Mail) {
	m.Maker.Make(ctx, mails)
	m.made()
}

// TestSuppressedAtTheLastMoment: a recipient suppressed when the mail has been
// queued, read and made is not mailed.
func TestSuppressedAtTheLastMoment(t *testing.T) {
	b := newBed(t)
	w := newWire(nil)
	o := b.open(&spooltest.OneRoute{Transport: w}, nil)
	late := &lately{}
	o.sender.Suppress, o.sender.Maker = late, telling{spool.Plain{}, func() { late.on.Store(true) }}
	o.run()
	o.submit(draft("bob@example.com", mail.PriorityHigh, mail.ClassTransactional))
	b.eventually("it is recorded", func() bool { return len(b.outcomes()) == 1 })
	if out := b.outcomes()[0]; out.State != mail.SendSuppressed || out.Reason != "complaint" || len(w.came()) != 0 {
		t.Errorf("%+v, attempted: %v", out, w.came())
	}
}

// TestWhatIsMarkedWhenAProcessDies: it may have arrived. Marketing mail is not
// sent again, transactional mail once more, and nothing a third time.
func TestWhatIsMarkedWhenAProcessDies(t *testing.T) {
	b := newBed(t)
	hang := make(chan struct{})
	w := newWire(func(*mail.Envelope, int) mail.Result {
		<-hang
		return mail.Result{Kind: mail.ResultSent}
	})
	first := b.start(w, nil)
	const each = 40
	var ids []string
	for i := range 2 * each {
		ids = append(ids, first.submit(draft(fmt.Sprintf("u%d@example.com", i), mail.PriorityNormal, mail.Class(1+i%2)))...)
		if i < 2 { // one of each class is on the wire, whatever the third worker takes
			b.eventually("it is on the wire", func() bool { return len(w.came()) == i+1 })
		}
	}
	b.eventually("all workers are at work", func() bool { return len(w.came()) == w.workers })
	dying := make(chan struct{})
	go func() { first.abort(); close(dying) }()
	<-first.working.Done() // it records nothing any more
	close(hang)
	<-dying

	w2 := newWire(nil)
	second := b.start(w2, nil)
	b.eventually("everything is recorded", func() bool { return second.waiting() == 0 })
	last := make(map[string]mail.SendState)
	for _, out := range b.outcomes() {
		last[out.Message] = out.State
	}
	before, after := w.times(), w2.times()
	doubted := 0
	for i, id := range ids {
		n := before[id+".0"] + after[id+".0"]
		switch marketing := i%2 == 1; {
		case marketing && n > 1, n > 2:
			t.Errorf("mail %s was on the wire %d times; marketing: %v", id, n, marketing)
		case n == 0 && (!marketing || last[id] != mail.SendInDoubt):
			t.Errorf("mail %s was never on the wire, and is %s", id, last[id])
		case !marketing && last[id] != mail.SendSent:
			t.Errorf("transactional mail %s is %s", id, last[id])
		case last[id] == mail.SendInDoubt:
			doubted++
		}
	}
	for i, want := range []int{2, 1} { // those that were on the wire for certain
		if n := before[ids[i]+".0"] + after[ids[i]+".0"]; n != want {
			t.Errorf("mail %d was on the wire %d times, want %d", i, n, want)
		}
	}
	if bound := w.workers * w.window; doubted == 0 || doubted > bound {
		t.Errorf("%d marketing mails are in doubt, want 1 to %d", doubted, bound)
	}
}

// TestASendThatCannotBeRead becomes a dead letter, and keeps nobody waiting.
func TestASendThatCannotBeRead(t *testing.T) {
	b := newBed(t)
	w := newWire(nil)
	o := b.open(&spooltest.OneRoute{Transport: w}, nil)
	whole := mail.Send{Message: strings.Repeat("a", sluice.MessageIDBytes), Recipients: 1, Priority: mail.PriorityLow, Class: mail.ClassMarketing,
		Form: mail.ContentMIME, To: "ann@example.com", Content: "x", ExpiresMillis: time.Now().UnixMilli() + 60_000}
	batch := sluice.AppendItem(sluice.NewBatch(64), sluice.ItemSend, func(b []byte) []byte { return append(b, "no send"...) })
	batch = mail.AppendSend(batch, &whole)
	o.pack(0, "low-marketing", 2, batch)
	o.run()
	b.eventually("nothing waits", func() bool { return o.waiting() == 0 })
	if came := w.came(); !slices.Equal(came, []string{"ann@example.com"}) {
		t.Errorf("attempted: %v", came)
	}
	b.eventually("there is a dead letter", func() bool {
		n, err := o.store.CountDeadLetters(t.Context())
		b.must(err)
		return n >= 1
	})
	letters, err := o.store.DeadLetters(t.Context(), 0, 10)
	b.must(err)
	if !slices.ContainsFunc(letters, func(d sluice.DeadLetter) bool {
		return d.Source == "lane:low-marketing" && strings.Contains(d.Reason, "decode send")
	}) {
		t.Errorf("dead letters: %+v", letters)
	}
}

// gated lets nothing to a domain pass while it is closed.
type gated struct {
	spooltest.OneRoute
	domain string
	open   atomic.Bool
}

func (g *gated) Takes(t mail.Transport, s *mail.Send, passed []mail.Transport, now time.Time) spool.Take {
	if strings.HasSuffix(s.To, "@"+g.domain) && !g.open.Load() {
		return spool.Take{Wait: 20 * time.Millisecond, Lane: g.domain}
	}
	return g.OneRoute.Takes(t, s, passed, now)
}

// TestASlowDomainKeepsNobodyWaiting: what may not go to one domain now waits
// apart, in its order, and everything else passes.
func TestASlowDomainKeepsNobodyWaiting(t *testing.T) {
	b := newBed(t)
	w := newWire(nil)
	w.workers = 1
	routes := &gated{OneRoute: spooltest.OneRoute{Transport: w}, domain: "slow.example"}
	o := b.startRoutes(routes, nil)
	var drafts []mail.Draft
	for i := range 3000 {
		drafts = append(drafts, draft(fmt.Sprintf("u%d@slow.example", i), mail.PriorityNormal, mail.ClassMarketing))
	}
	for chunk := range slices.Chunk(drafts, 500) {
		o.submit(chunk...)
	}
	for i := range 100 {
		o.submit(draft(fmt.Sprintf("u%d@fast.example", i), mail.PriorityNormal, mail.ClassMarketing))
	}
	b.eventually("those to others are sent", func() bool { return len(w.came()) == 100 })
	routes.open.Store(true)
	b.eventually("all are sent", func() bool { return o.waiting() == 0 && len(w.came()) == 3100 })
	last := make(map[int]int) // by partition
	for _, to := range w.came()[100:] {
		var n int
		if _, err := fmt.Sscanf(to, "u%d@slow.example", &n); err != nil {
			t.Fatalf("%s: %v", to, err)
		}
		p := mail.SendPartition(to, testPartitions)
		if n < last[p] {
			t.Fatalf("%s went after number %d of its partition", to, last[p])
		}
		last[p] = n
	}
	for send, n := range w.times() {
		if n != 1 {
			t.Errorf("%s came %d times", send, n)
		}
	}
}

// TestNobodyAnswers: what could not be begun is no attempt.
func TestNobodyAnswers(t *testing.T) {
	b := newBed(t)
	var away atomic.Bool
	away.Store(true)
	w := newWire(func(*mail.Envelope, int) mail.Result {
		if away.Load() {
			return mail.Result{Kind: mail.ResultUntried, Text: "connection refused"}
		}
		return mail.Result{Kind: mail.ResultSent}
	})
	o := b.start(w, nil)
	for i := range 50 {
		o.submit(draft(fmt.Sprintf("u%d@example.com", i), mail.PriorityNormal, mail.ClassMarketing))
	}
	b.eventually("it was tried", func() bool { return len(w.came()) > 0 })
	away.Store(false)
	b.eventually("all are recorded", func() bool { return o.waiting() == 0 && len(b.outcomes()) == 50 })
	for _, out := range b.outcomes() {
		if out.State != mail.SendSent || out.Attempts != 1 {
			t.Errorf("%+v, want sent with the first attempt", out)
		}
	}
}

// unpaused is a route that is asked again at once when it has attempted
// nothing. Its pauses would be most of a test that has it attempt nothing many
// times.
type unpaused struct{ spooltest.OneRoute }

func (*unpaused) Report(mail.Transport, *mail.Send, *mail.Result, time.Time) {}

// TestAMailThatEndsEveryConnection makes room for others.
func TestAMailThatEndsEveryConnection(t *testing.T) {
	b := newBed(t)
	w := newWire(func(e *mail.Envelope, _ int) mail.Result {
		if e.To == "poison@example.com" {
			return mail.Result{Kind: mail.ResultUntried, Text: "connection reset"}
		}
		return mail.Result{Kind: mail.ResultSent}
	})
	w.workers, w.window = 1, 1
	o := b.startRoutes(&unpaused{spooltest.OneRoute{Transport: w}}, nil)
	o.submit(draft("poison@example.com", mail.PriorityHigh, mail.ClassTransactional))
	b.eventually("it is put off", func() bool { return len(b.outcomes()) == 1 })
	if out := b.outcomes()[0]; out.State != mail.SendWaiting || out.DueMillis == 0 || out.Attempts != 0 || out.Reply == "" {
		t.Errorf("outcome: %+v, want it to wait, without an attempt", out)
	}
	o.submit(draft("ann@example.com", mail.PriorityHigh, mail.ClassTransactional))
	b.eventually("others go", func() bool { return o.totals() == "waiting 1, sent 1" })
}

func TestWhatTheWireLeavesInDoubt(t *testing.T) {
	b := newBed(t)
	w := newWire(func(_ *mail.Envelope, nth int) mail.Result {
		if nth == 1 {
			return mail.Result{Kind: mail.ResultInDoubt, Text: "connection lost"}
		}
		return mail.Result{Kind: mail.ResultFailed, Code: 550, Blame: mail.BlameRecipient}
	})
	o := b.start(w, nil)
	marketing := o.submit(draft("ann@example.com", mail.PriorityHigh, mail.ClassMarketing))[0]
	transactional := o.submit(draft("bob@example.com", mail.PriorityHigh, mail.ClassTransactional))[0]
	b.eventually("nothing waits", func() bool { return o.waiting() == 0 && len(b.outcomes()) == 3 })
	if n := w.times(); n[marketing+".0"] != 1 || n[transactional+".0"] != 2 {
		t.Errorf("on the wire: %v; want the transactional one twice", n)
	}
	b.eventually("the ledger has both", func() bool { return o.totals() == "in_doubt 2" })
	var life []string
	for _, out := range b.outcomes() {
		if out.Message == transactional {
			life = append(life, fmt.Sprintf("%s to %s, again %v", out.Was, out.State, out.DueMillis != 0))
		}
	}
	// What is refused the second time may have arrived the first.
	if want := []string{"waiting to in_doubt, again true", "in_doubt to in_doubt, again false"}; !slices.Equal(life, want) {
		t.Errorf("the transactional one: %v, want %v", life, want)
	}
}

// TestProcessesShareTheWork: leases move while mail is on the wire, and nothing
// is sent twice or left.
func TestProcessesShareTheWork(t *testing.T) {
	b := newBed(t)
	slow := func(*mail.Envelope, int) mail.Result {
		<-time.After(2 * time.Millisecond) // so that there is always something on the wire
		return mail.Result{Kind: mail.ResultSent}
	}
	start := func(w *wire) *office {
		o := b.open(&spooltest.OneRoute{Transport: w}, nil)
		o.leases.Timeout = 5 * time.Second // a busy machine is no dead process
		o.run()
		return o
	}
	w1, w2 := newWire(slow), newWire(slow)
	first := start(w1)
	const messages = 2000
	for chunk := range messages / 100 {
		var drafts []mail.Draft
		for i := range 100 {
			drafts = append(drafts, draft(fmt.Sprintf("u%d-%d@example.com", chunk, i), mail.PriorityNormal, mail.ClassMarketing))
		}
		first.submit(drafts...)
	}
	b.eventually("the first is at work", func() bool { return len(w1.came()) > 50 })
	second := start(w2)
	b.eventually("the second has its share", func() bool { return len(w2.came()) > 50 })
	first.stop()
	b.eventually("all are recorded", func() bool { return second.waiting() == 0 && len(b.outcomes()) == messages })
	b.eventually("the ledger has all", func() bool { return second.totals() == fmt.Sprintf("sent %d", messages) })
	total := w1.times()
	for send, n := range w2.times() {
		total[send] += n
	}
	for send, n := range total {
		if n != 1 {
			t.Errorf("%s came %d times", send, n)
		}
	}
	if len(total) != messages {
		t.Errorf("%d sends came of %d", len(total), messages)
	}
}

// TestLargeContents are kept in the database until their last send is done with.
func TestLargeContents(t *testing.T) {
	b := newBed(t)
	var mu sync.Mutex
	got := make(map[string]int) // contents, by how often
	w := newWire(func(e *mail.Envelope, _ int) mail.Result {
		mu.Lock()
		defer mu.Unlock()
		got[string(e.Content)]++
		return mail.Result{Kind: mail.ResultSent}
	})
	o := b.start(w, nil)
	want := make(map[string]int)
	var ids []string
	for i := range 20 {
		d := draft("", mail.PriorityNormal, mail.ClassMarketing)
		d.To = nil
		for n := range 1 + i%3 {
			d.To = append(d.To, fmt.Sprintf("u%d-%d@example.com", i, n))
		}
		d.Content = []byte(strings.Repeat(fmt.Sprintf("line %d\r\n", i), 1000*(1+i)))
		want[string(d.Content)] = len(d.To)
		ids = append(ids, o.submit(d)...)
	}
	b.eventually("the ledger has all", func() bool { return o.totals() == "sent 39" })
	mu.Lock()
	defer mu.Unlock()
	for content, n := range want {
		if got[content] != n {
			t.Errorf("the content of %d bytes came %d times, want %d", len(content), got[content], n)
		}
	}
	left, err := o.store.Bodies(t.Context(), ids, 0)
	b.must(err)
	if len(left) != 0 {
		t.Errorf("%d contents are left", len(left))
	}
}
