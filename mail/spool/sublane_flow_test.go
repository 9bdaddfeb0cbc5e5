package spool_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"sluice/mail"
	"sluice/mail/spool"
	"sluice/test/spooltest"
)

// closedDomains lets nothing to some domains pass.
type closedDomains struct {
	spooltest.OneRoute
	mu     sync.Mutex
	closed map[string]bool
}

func (c *closedDomains) close(closed bool, domains ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, d := range domains {
		c.closed[d] = closed
	}
}

func (c *closedDomains) Takes(t mail.Transport, s *mail.Send, passed []mail.Transport, now time.Time) spool.Take {
	domain := s.To[strings.IndexByte(s.To, '@')+1:]
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed[domain] {
		return spool.Take{Wait: 20 * time.Millisecond, Lane: domain}
	}
	return c.OneRoute.Takes(t, s, passed, now)
}

// sublanes are the domains that have a sublane of a lane, of all partitions.
func (b *bed) sublanes(lane string) (domains []string) {
	b.Helper()
	raw := must(rueidis.NewClient(plainOption(b.redis)))
	defer raw.Close()
	keys, err := raw.Do(b.Context(), raw.B().Keys().Pattern("sluice:*:sublanes").Build()).AsStrSlice()
	b.must(err)
	for _, key := range keys {
		names, err := raw.Do(b.Context(), raw.B().Smembers().Key(key).Build()).AsStrSlice()
		b.must(err)
		for _, name := range names {
			if domain, ok := strings.CutPrefix(name, lane+"@"); ok {
				domains = append(domains, domain)
			}
		}
	}
	slices.Sort(domains)
	return domains
}

// inOnePartition are addresses at domains, all of one partition.
func inOnePartition(domains []string) (addresses []string) {
	for _, domain := range domains {
		for i := 0; ; i++ {
			if to := fmt.Sprintf("u%d@%s", i, domain); mail.SendPartition(to, testPartitions) == 0 {
				addresses = append(addresses, to)
				break
			}
		}
	}
	return addresses
}

// TestSublanesThatAreEmptyMakeRoom: the bound is on those in use, and the order of
// a domain's mail holds, whether it waited among others or not.
func TestSublanesThatAreEmptyMakeRoom(t *testing.T) {
	const lane = "normal-marketing"
	b := newBed(t)
	w := newWire(nil)
	w.workers = 1
	var domains []string
	for i := range 34 {
		domains = append(domains, fmt.Sprintf("d%02d.example", i))
	}
	routes := &closedDomains{OneRoute: spooltest.OneRoute{Transport: w}, closed: make(map[string]bool)}
	routes.close(true, domains...)
	o := b.startRoutes(routes, nil)
	addresses := inOnePartition(domains)
	var want []string
	send := func(i int) {
		t.Helper()
		want = append(want, o.submit(draft(addresses[i], mail.PriorityNormal, mail.ClassMarketing))...)
	}
	aside := func(n int) {
		t.Helper()
		b.eventually("they wait apart", func() bool {
			apart := int64(0)
			for _, l := range o.lanes {
				counts, err := l.Waiting(t.Context())
				b.must(err)
				for name, c := range counts {
					if strings.Contains(name, "@") {
						apart += c
					}
				}
			}
			return apart == int64(n)
		})
	}
	for i := range 32 {
		send(i)
	}
	aside(32)
	send(32)
	aside(33)
	if got := b.sublanes(lane); len(got) != 33 || got[0] != "*" || slices.Contains(got, domains[32]) {
		t.Fatalf("sublanes: %v", got)
	}
	routes.close(false, domains[:2]...)
	b.eventually("two sublanes are gone", func() bool { return len(b.sublanes(lane)) == 31 })
	send(32) // waits behind the one among the others
	send(33) // has a sublane of its own
	aside(33)
	if got := b.sublanes(lane); len(got) != 32 || slices.Contains(got, domains[32]) || !slices.Contains(got, domains[33]) {
		t.Fatalf("sublanes: %v", got)
	}
	routes.close(false, domains...)
	b.eventually("all are sent, and there are no sublanes", func() bool { return len(w.came()) == 35 && o.waiting() == 0 && len(b.sublanes(lane)) == 0 })
	routes.close(true, domains[32])
	send(32)
	aside(1)
	if got := b.sublanes(lane); !slices.Equal(got, domains[32:33]) {
		t.Errorf("sublanes: %v", got)
	}
	routes.close(false, domains...)
	b.eventually("the ledger has all", func() bool { return o.totals() == "sent 36" })
	w.wantOnce(t)
	var got []string // of the domain that was among the others
	for _, out := range b.outcomes() {
		if out.To == addresses[32] {
			got = append(got, out.Message)
		}
	}
	if order := []string{want[32], want[33], want[35]}; !slices.Equal(got, order) {
		t.Errorf("sent in the order %v, want %v", got, order)
	}
}

// TestDeadDomainsAmongOthers: mail to 64 domains that take nothing stands
// before mail to one that takes it again, in the sublane for others. There it
// cannot have a sublane of its own. The test has few sends, and more than are
// in memory.
func TestDeadDomainsAmongOthers(t *testing.T) {
	for _, each := range []int{1, 20} { // of each dead domain: 32, and 640 before it
		t.Run(fmt.Sprint(each), func(t *testing.T) {
			b := newBed(t)
			w := newWire(nil)
			w.workers = 1
			var dead []string
			for i := range 64 {
				dead = append(dead, fmt.Sprintf("d%02d.example", i))
			}
			routes := &closedDomains{OneRoute: spooltest.OneRoute{Transport: w}, closed: make(map[string]bool)}
			routes.close(true, append(dead, "live.example")...)
			o := b.startRoutes(routes, nil)
			apart := func(n int) {
				t.Helper()
				b.eventually(fmt.Sprintf("%d wait apart", n), func() bool {
					counts, err := o.lanes[0].Waiting(t.Context())
					b.must(err)
					got := int64(0)
					for name, c := range counts {
						if strings.Contains(name, "@") {
							got += c
						}
					}
					return got == int64(n)
				})
			}
			for _, domain := range dead {
				one := draft("", mail.PriorityNormal, mail.ClassMarketing)
				one.To = nil
				for i := 0; len(one.To) < each; i++ {
					if to := fmt.Sprintf("u%d@%s", i, domain); mail.SendPartition(to, testPartitions) == 0 {
						one.To = append(one.To, to)
					}
				}
				o.submit(one)
			}
			apart(64 * each)
			if got := b.sublanes("normal-marketing"); len(got) != 33 || got[0] != "*" {
				t.Fatalf("sublanes: %v", got)
			}
			live := inOnePartition([]string{"live.example"})[0]
			var want []string
			for range 20 {
				want = append(want, o.submit(draft(live, mail.PriorityNormal, mail.ClassMarketing))...)
			}
			apart(64*each + 20)
			if got := b.sublanes("normal-marketing"); len(got) != 33 {
				t.Fatalf("sublanes: %v", got)
			}
			routes.close(false, "live.example")
			began := time.Now()
			b.eventually("mail to the live domain is sent", func() bool { return len(w.came()) == 20 })
			t.Logf("20 mails behind %d of dead domains have left after %v", 32*each, time.Since(began))
			routes.close(false, dead...)
			b.eventually("all are sent", func() bool { return o.totals() == fmt.Sprintf("sent %d", 64*each+20) })
			w.wantOnce(t)
			var got []string
			for _, out := range b.outcomes() {
				if out.To == live {
					got = append(got, out.Message)
				}
			}
			if each == 1 && !slices.Equal(got, want) {
				t.Errorf("sent in the order %v, want %v", got, want)
			}
		})
	}
}

// TestSublanesComeAndGo: mail is moved to sublanes while these are removed, again
// and again: nothing is left behind, or sent twice.
func TestSublanesComeAndGo(t *testing.T) {
	b := newBed(t)
	w := newWire(nil)
	w.workers = 1
	routes := &closedDomains{OneRoute: spooltest.OneRoute{Transport: w}, closed: make(map[string]bool)}
	o := b.startRoutes(routes, nil)
	address := inOnePartition([]string{"slow.example"})[0]
	mails := 0
	ended := make(chan struct{})
	var gate sync.WaitGroup
	gate.Go(func() {
		for closed := true; ; closed = !closed {
			routes.close(closed, "slow.example")
			select {
			case <-ended:
				routes.close(false, "slow.example")
				return
			case <-time.After(30 * time.Millisecond):
			}
		}
	})
	for until := time.Now().Add(4 * time.Second); time.Now().Before(until); mails++ { // sublanes are looked at once a second
		o.submit(draft(address, mail.PriorityNormal, mail.ClassMarketing))
		<-time.After(5 * time.Millisecond)
	}
	close(ended)
	gate.Wait()
	b.eventually("all are sent", func() bool { return o.totals() == fmt.Sprintf("sent %d", mails) })
	b.eventually("no sublane is left", func() bool { return len(b.sublanes("normal-marketing")) == 0 })
	w.wantOnce(t)
}
