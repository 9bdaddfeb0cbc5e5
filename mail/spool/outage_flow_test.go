package spool_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/lib/faults"
	"sluice/mail"
	"sluice/mail/spool"
	"sluice/test/proxy"
	"sluice/test/servers"
	"sluice/test/spooltest"
)

var (
	outages     = flag.Int("outages", 3, "how many outages TestOutages makes")
	outagesSeed = flag.Uint64("outages-seed", 0, "seed of TestOutages; 0: a new one, printed")
)

// shifted is the machine's clock, put forward.
type shifted struct{ by atomic.Int64 }

func (c *shifted) Now() time.Time { return time.Now().Add(time.Duration(c.by.Load())) }

// ownRedis starts a Redis for a test that cuts processes off.
func ownRedis(t *testing.T) *servers.Redis {
	t.Helper()
	redis := must(servers.StartRedis(t.Context(), servers.RedisOptions{Dir: t.TempDir(), AppendFsync: "no"}))
	t.Cleanup(func() { _ = redis.Kill() })
	return redis
}

// way is a process's own way to Redis, which can be cut.
func way(t *testing.T, redis *servers.Redis) *proxy.Proxy {
	t.Helper()
	p := must(proxy.New("unix", redis.Socket()))
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// TestALateResultCounts: a process alone is cut off from Redis while it has mail
// on the wire, and taken for dead. What it says of that mail when it is back counts
// all the same: nothing is in doubt any more, and nothing is sent again.
func TestALateResultCounts(t *testing.T) {
	redis := ownRedis(t)
	b := newBedOn(t, redis.URL())
	proxy := way(t, redis)
	gate := make(chan struct{})
	slow := newWire(func(*mail.Envelope, int) mail.Result {
		<-gate
		return mail.Result{Kind: mail.ResultSent, Code: 250}
	})
	slow.window = 4
	first := b.openBy("redis://"+proxy.Addr(), &spooltest.OneRoute{Transport: slow}, nil)
	clock := &shifted{}
	first.sender.Clock = clock
	first.run()
	const mails = 60
	for i := range mails {
		first.submit(draft(fmt.Sprintf("u%d@example.com", i), mail.PriorityNormal, mail.Class(1+i%2)))
	}
	b.eventually("all workers are at work", func() bool { return len(slow.came()) == slow.workers })

	quick := newWire(nil)
	second := b.openBy(b.redis, &spooltest.OneRoute{Transport: quick}, nil)
	second.sender.Clock, second.sender.DoubtAfter = clock, 10*time.Minute
	second.run()
	b.eventually("both share", func() bool { return second.leases.Status().Held[spool.Role] == testPartitions/2 })
	proxy.Refuse(true)
	proxy.Cut()
	b.eventually("the other has all leases", func() bool { return second.leases.Status().Held[spool.Role] == testPartitions })
	var marked int
	b.eventually("what was on the wire is in doubt", func() bool {
		marked = 0
		_, _ = fmt.Sscanf(second.totals(), fmt.Sprintf("sent %d, in_doubt %%d", len(quick.came())), &marked)
		return marked > 0 && marked+len(quick.came()) == mails
	})

	close(gate)
	proxy.Refuse(false)
	b.eventually("what it says counts", func() bool { return second.totals() == fmt.Sprintf("sent %d", mails) })
	clock.by.Store(int64(15 * time.Minute)) // the second attempts are due
	b.eventually("nothing waits any more", func() bool { return second.waiting() == 0 })
	after := quick.times()
	for send := range slow.times() {
		if after[send] != 0 {
			t.Errorf("%s was sent by both", send)
		}
	}
	if got := second.totals(); got != fmt.Sprintf("sent %d", mails) {
		t.Errorf("the ledger says %s", got)
	}
}

// cutOff cuts a process off by all its connections at once: else one that ends tells it by
// another that still goes.
func cutOff(way *proxy.Proxy) {
	way.Stall()
	way.Refuse(true)
	way.Cut()
	way.Resume()
}

// seesMarked waits until Redis has the mark of a message's only send.
func (o *office) seesMarked(to, id string) {
	o.b.Helper()
	lanes := o.lanes[mail.SendPartition(to, testPartitions)]
	o.b.eventually("it is marked", func() bool { return must(lanes.Marks(o.b.Context(), []string{id + ".0"}))[0] != "" })
}

// TestALostMarkCounts: a process is cut off while Redis marks mail for it, and taken for dead.
// It has attempted nothing. When it is back, marketing mail is in doubt no more, and is sent;
// transactional mail is attempted once more anyway.
func TestALostMarkCounts(t *testing.T) {
	for _, class := range []mail.Class{mail.ClassMarketing, mail.ClassTransactional} {
		redis := ownRedis(t)
		b := newBedOn(t, redis.URL())
		way, wire, clock := way(t, redis), newWire(nil), &shifted{}
		first := b.openBy("redis://"+way.Addr(), &spooltest.OneRoute{Transport: wire}, nil)
		first.run()
		second := b.openBy(b.redis, &spooltest.OneRoute{Transport: wire}, nil)
		second.sender.Clock, second.sender.DoubtAfter = clock, 10*time.Minute
		first.submit(draft("first@example.com", mail.PriorityNormal, class)) // from now on Redis knows the scripts
		b.eventually("it is sent", func() bool { return first.totals() == "sent 1" })
		lost, err := way.Arm(proxy.Rule{Direction: proxy.ToServer, Pattern: []byte("|" + wire.Name() + "|"), Moment: proxy.Replied, Stall: true})
		if err != nil {
			t.Fatal(err)
		}
		id := first.submit(draft("ann@example.com", mail.PriorityNormal, class))[0]
		<-lost.Fired()
		second.seesMarked("ann@example.com", id)
		cutOff(way)
		second.run()
		b.eventually("what was marked is in doubt", func() bool { return second.totals() == "sent 1, in_doubt 1" })
		way.Refuse(false)
		if class == mail.ClassTransactional {
			b.eventually("the first says what it knows", func() bool { return first.leases.Status().Held[spool.Role] > 0 })
			clock.by.Store(int64(15 * time.Minute)) // the second attempt is due
		}
		b.eventually("it is sent", func() bool { return second.totals() == "sent 2" })
		wire.wantOnce(t)
	}
}

// TestALostMoveCounts: a process is cut off while it moves mail aside, and taken for dead. It
// has attempted nothing. When it is back the mail is in doubt no more, and is sent.
func TestALostMoveCounts(t *testing.T) {
	redis := ownRedis(t)
	b := newBedOn(t, redis.URL())
	way, wire := way(t, redis), newWire(nil)
	routes := &closedDomains{OneRoute: spooltest.OneRoute{Transport: wire}, closed: make(map[string]bool)}
	routes.close(true, "example.com")
	first := b.openBy("redis://"+way.Addr(), routes, nil)
	first.run()
	lost, err := way.Arm(proxy.Rule{Direction: proxy.ToServer, Pattern: []byte("@example.com\r\n$7\r\nsublane\r\n"), Moment: proxy.Before, Stall: true})
	if err != nil {
		t.Fatal(err)
	}
	first.submit(draft("ann@example.com", mail.PriorityNormal, mail.ClassMarketing))
	<-lost.Fired()
	cutOff(way)
	second := b.openBy(b.redis, &spooltest.OneRoute{Transport: wire}, nil)
	second.run()
	b.eventually("what was marked is in doubt", func() bool { return second.totals() == "in_doubt 1" })
	way.Refuse(false)
	routes.close(false, "example.com")
	b.eventually("it is sent", func() bool { return second.totals() == "sent 1" })
	wire.wantOnce(t)
}

// TestALateWordLeavesLaterDoubts: mail is taken out of those in doubt, as its process had not
// attempted it, and is in doubt once more before the log tells the lanes of the first. It is
// kept: an operator may have it sent.
func TestALateWordLeavesLaterDoubts(t *testing.T) {
	redis := ownRedis(t)
	b := newBedOn(t, redis.URL())
	way, wire := way(t, redis), newWire(func(e *mail.Envelope, nth int) mail.Result {
		if nth == 1 && e.To == "ann@example.com" {
			return mail.Result{Kind: mail.ResultInDoubt}
		}
		return mail.Result{Kind: mail.ResultSent, Code: 250}
	})
	first := b.openBy("redis://"+way.Addr(), &spooltest.OneRoute{Transport: wire}, nil)
	first.run()
	second := b.openBy(b.redis, &spooltest.OneRoute{Transport: wire}, nil)
	first.submit(draft("first@example.com", mail.PriorityNormal, mail.ClassMarketing)) // from now on Redis knows the scripts
	b.eventually("it is sent", func() bool { return first.totals() == "sent 1" })
	lost, err := way.Arm(proxy.Rule{Direction: proxy.ToServer, Pattern: []byte("|" + wire.Name() + "|"), Moment: proxy.Replied, Stall: true})
	if err != nil {
		t.Fatal(err)
	}
	id := first.submit(draft("ann@example.com", mail.PriorityNormal, mail.ClassMarketing))[0]
	<-lost.Fired()
	second.seesMarked("ann@example.com", id)
	cutOff(way)
	second.run()
	b.eventually("what was marked is in doubt", func() bool { return second.totals() == "sent 1, in_doubt 1" })
	lanes := second.lanes[mail.SendPartition("ann@example.com", testPartitions)]
	kept := func() bool { return must(lanes.Doubts(t.Context(), []string{id + ".0"}))[0] != nil }
	if !kept() {
		t.Fatal("it is not kept for an operator")
	}

	// The lanes stand just before they hear of it.
	file := filepath.Join(t.TempDir(), "queue")
	disarm := must(faults.Arm("queue=pause:" + file))
	defer disarm()
	way.Refuse(false)
	b.eventually("it is in doubt anew", func() bool { return len(wire.came()) == 2 && kept() })
	b.must(os.WriteFile(file, nil, 0o600))
	b.eventually("the ledger has both", func() bool {
		rows := must(second.store.MessageSends(t.Context(), id))
		return rows[0].State == mail.SendInDoubt && strings.Count(rows[0].Life, `"state":"in_doubt"`) == 2
	})
	decider := second.decider()
	if _, _, err := decider.Decide(t.Context(), id+".0", spool.DecideAgain, "ann", ""); err != nil {
		t.Fatal(err)
	}
	b.eventually("it is sent", func() bool { return second.totals() == "sent 2" })
}

// three are processes that share all partitions, each with its own way to Redis,
// and one more that only hands in, past all ways.
type three struct {
	*bed
	wire   *wire
	all    []*office
	ways   []*proxy.Proxy
	intake *office
	clock  shifted // of those that send
	logged int     // bytes of the log before the first outage

	mu       sync.Mutex
	accepted int
}

// Of the lease protocol, four fifths of the program's: an outage of 1 to 20 s is one
// of 0.8 to 16 s here. With less a busy machine is taken for a dead process.
const (
	outageBeat    = 400 * time.Millisecond
	outageTimeout = 2 * time.Second
	outageLeast   = 800 * time.Millisecond
	outageMost    = 16 * time.Second
	outageShort   = 5 * time.Second // at most, where there are few
	manyOutages   = 20
)

func startThree(t *testing.T) *three {
	t.Helper()
	redis := ownRedis(t)
	s := &three{bed: newBedOn(t, redis.URL())}
	s.wire = newWire(func(*mail.Envelope, int) mail.Result {
		<-time.After(20*time.Millisecond + rand.N(200*time.Millisecond)) // the receiver is slow
		return mail.Result{Kind: mail.ResultSent, Code: 250}
	})
	s.wire.window = 4
	s.intake = s.open(&spooltest.OneRoute{Transport: s.wire}, nil)
	for range 3 {
		p := way(t, redis)
		o := s.openBy("redis://"+p.Addr(), &spooltest.OneRoute{Transport: s.wire}, nil)
		o.leases.Beat, o.leases.Timeout = outageBeat, outageTimeout
		o.sender.Clock = &s.clock
		o.run()
		s.all, s.ways = append(s.all, o), append(s.ways, p)
	}
	s.settled()
	return s
}

// settled waits until every process knows that all live, and all is shared evenly.
func (s *three) settled() {
	s.Helper()
	s.eventually("all share everything", func() bool {
		for _, role := range []string{spool.Role, "store"} {
			held, least, most := 0, testPartitions, 0
			for _, o := range s.all {
				n := o.leases.Status().Held[role]
				held, least, most = held+n, min(least, n), max(most, n)
				if living, sure := o.leases.Living(); !sure || len(living) != len(s.all) {
					return false
				}
			}
			if held != testPartitions || most > least+1 {
				return false
			}
		}
		return true
	})
}

// moves is how often leases came and went.
func (s *three) moves() (n int64) {
	for _, o := range s.all {
		for _, c := range o.leases.Status().Changes {
			n += c.Taken + c.Lost + c.Returned
		}
	}
	return n
}

// feed hands in mail until the context ends, as long as not too much waits. What is on
// its way then is handed in: of what is cut off nobody knows whether it was accepted.
func (s *three) feed(ctx context.Context) {
	for n := 0; ctx.Err() == nil; {
		for range 4 {
			if n-len(s.wire.came()) >= 200 {
				break
			}
			if _, err := s.intake.intake.Submit(context.WithoutCancel(ctx), "", []mail.Draft{draft(fmt.Sprintf("u%d@example.com", n), mail.Priority(1+n%3), mail.Class(1+n%2))}); err != nil {
				return
			}
			n++
			s.mu.Lock()
			s.accepted = n
			s.mu.Unlock()
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// outage takes Redis from all processes for a time, and gives it back to one after
// the other. Some servers refuse connections then, others do not answer.
func (s *three) outage(random *rand.Rand, longest time.Duration) {
	stalls := random.IntN(2) == 0
	for _, w := range s.ways {
		if stalls {
			w.Stall()
		} else {
			w.Refuse(true)
			w.Cut()
		}
	}
	<-time.After(outageLeast + time.Duration(random.Int64N(int64(longest-outageLeast))))
	for _, i := range random.Perm(len(s.ways)) {
		if random.IntN(2) == 0 {
			<-time.After(time.Duration(random.Int64N(int64(outageTimeout / 2))))
		}
		if random.IntN(2) == 0 {
			s.ways[i].Cut()
		}
		s.ways[i].Refuse(false)
		s.ways[i].Resume()
	}
}

// TestOutages: three processes lose Redis again and again, all at once, with mail
// on the wire to a slow receiver. Nobody has died: no lease moves, nothing is in
// doubt, nothing is sent twice. Many: -outages=200.
func TestOutages(t *testing.T) {
	seed := *outagesSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("seed %d (repeat with: go test ./spool -run %s -args -outages=%d -outages-seed=%d)", seed, t.Name(), *outages, seed)
	random := rand.New(rand.NewPCG(seed, 0))
	longest := outageMost
	if *outages < manyOutages {
		longest = outageShort
	}
	s := startThree(t)
	ctx, stop := context.WithCancel(t.Context())
	var feeding sync.WaitGroup
	feeding.Go(func() { s.feed(ctx) })
	defer feeding.Wait()
	defer stop()
	before := s.moves()
	for n := range *outages {
		came := len(s.wire.came())
		s.eventually("mail goes out", func() bool { return len(s.wire.came()) > came+20 })
		if n == 0 { // by now each follower works with the leases that it has
			s.logged = len(s.log.String())
		}
		s.outage(random, longest)
		s.settled()
		if moved := s.moves() - before; moved != 0 {
			t.Fatalf("outage %d: %d leases moved although nobody had died", n, moved)
		}
	}
	stop()
	feeding.Wait()
	s.sentOnce()
}

// sentOnce waits until all is sent, and looks whether each mail was on the wire
// once.
func (s *three) sentOnce() {
	s.Helper()
	s.eventually("nothing waits", func() bool { return s.intake.waiting() == 0 })
	s.mu.Lock()
	want := fmt.Sprintf("sent %d", s.accepted)
	s.mu.Unlock()
	s.intake.awaitTotals(want)
	for send, n := range s.wire.times() {
		if n != 1 {
			s.Errorf("%s was sent %d times", send, n)
		}
	}
	if strings.Contains(s.log.String()[s.logged:], "lease lost") {
		s.Error("a lease was lost")
	}
}

// TestOutageOfOne: a process alone is cut off, for longer than it may be
// silent. Its leases move, and nothing of marketing mail is sent twice. When it
// is back nothing that was on the wire is in doubt: it knows of that. Transactional mail of
// which it did not learn that it was marked is attempted once more at its time.
func TestOutageOfOne(t *testing.T) {
	s := startThree(t)
	for _, o := range s.all {
		o.sender.DoubtAfter = time.Hour
	}
	ctx, stop := context.WithCancel(t.Context())
	var feeding sync.WaitGroup
	feeding.Go(func() { s.feed(ctx) })
	defer feeding.Wait()
	defer stop()
	s.eventually("mail goes out", func() bool { return len(s.wire.came()) > 50 })
	s.ways[0].Refuse(true)
	s.ways[0].Cut()
	s.eventually("the others have its leases", func() bool {
		return s.all[1].leases.Status().Held[spool.Role]+s.all[2].leases.Status().Held[spool.Role] == testPartitions
	})
	came := len(s.wire.came())
	s.eventually("mail goes out", func() bool { return len(s.wire.came()) > came+50 })
	s.ways[0].Refuse(false)
	s.settled()
	stop()
	feeding.Wait()
	s.mu.Lock()
	want := fmt.Sprintf("sent %d", s.accepted)
	s.mu.Unlock()
	s.eventually("what was on the wire is sent", func() bool {
		sent := fmt.Sprintf("sent %d", len(s.wire.times()))
		return s.intake.totals() == sent || strings.HasPrefix(s.intake.totals(), sent+", in_doubt ")
	})
	s.clock.by.Store(int64(2 * time.Hour))
	defer func() {
		if s.Failed() {
			s.Logf("the ledger has %s", s.intake.totals()) // what became of those that were on the wire
		}
	}()
	s.eventually("all is sent: "+want, func() bool { return s.intake.totals() == want })
	for send, n := range s.wire.times() {
		if n != 1 {
			s.Errorf("%s was sent %d times", send, n)
		}
	}
}
