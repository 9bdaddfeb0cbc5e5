package spool_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"sluice"
	"sluice/faults"
	"sluice/servers"
	"sluice/spool"
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
func way(t *testing.T, redis *servers.Redis) *faults.Proxy {
	t.Helper()
	p := must(faults.NewProxy("unix", redis.Socket()))
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
	slow := newWire(func(*sluice.Envelope, int) sluice.Result {
		<-gate
		return sluice.Result{Kind: sluice.ResultSent, Code: 250}
	})
	slow.window = 4
	first := b.openBy("redis://"+proxy.Addr(), &spool.OneRoute{Transport: slow}, nil)
	clock := &shifted{}
	first.sender.Clock = clock
	first.run()
	const mails = 60
	for i := range mails {
		first.submit(draft(fmt.Sprintf("u%d@example.com", i), sluice.PriorityNormal, sluice.Class(1+i%2)))
	}
	b.eventually("all workers are at work", func() bool { return len(slow.came()) == slow.workers })

	quick := newWire(nil)
	second := b.openBy(b.redis, &spool.OneRoute{Transport: quick}, nil)
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
