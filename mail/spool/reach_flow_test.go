package spool_test

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/flow"
	"sluice/ingest"
	"sluice/mail/spool"
	"sluice/store/sqlstore"
	"sluice/test/proxy"
	"sluice/test/servers"
)

// TestWhoCannotReachTheDatabaseGivesUp: of two processes one is cut off from the
// database. It gives its leases of storing and sending to the other, and gets its
// share again when it reaches the database. If none does, nothing moves.
func TestWhoCannotReachTheDatabaseGivesUp(t *testing.T) {
	b := newBed(t)
	maria := must(servers.StartMariaDB(t.Context(), servers.MariaDBOptions{Dir: t.TempDir(), Extra: []string{"--loose-debug-no-sync"}}))
	t.Cleanup(func() { _ = maria.Kill() })
	b.must(maria.CreateDatabase(t.Context(), "test"))
	var all []*flow.Leases
	var ways []*proxy.Proxy
	for i := range 2 {
		proxy := must(proxy.New("tcp", maria.Addr()))
		t.Cleanup(func() { _ = proxy.Close() })
		store := must(sqlstore.Open(t.Context(), strings.Replace(maria.URL("test"), maria.Addr(), proxy.Addr(), 1), sqlstore.Options{}))
		t.Cleanup(func() { _ = store.Close() })
		if i == 0 {
			b.must(store.Migrate(t.Context()))
		}
		redis := must(flow.Dial(t.Context(), b.redis))
		t.Cleanup(redis.Close)
		l := flow.NewLeases(redis, store, slog.New(slog.NewTextHandler(b.log, nil)))
		l.Beat, l.Timeout = 100*time.Millisecond, 2*time.Second // a busy machine is no dead process
		l.AddPartitions(ingest.StoreRole, redis, flow.Partitions(testPartitions))
		l.AddPartitions(spool.Role, redis, flow.Partitions(testPartitions))
		l.AddPartitions("other", redis, flow.Partitions(testPartitions))
		l.Reach(store.Reach, ingest.StoreRole, spool.Role)
		ctx, stop := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- l.Run(ctx) }()
		t.Cleanup(func() { stop(); proxy.Resume(); <-done })
		all, ways = append(all, l), append(ways, proxy)
	}
	held := func(want ...int) func() bool {
		return func() bool {
			for i, l := range all {
				s := l.Status()
				if s.Held[ingest.StoreRole] != want[i] || s.Held[spool.Role] != want[i] || s.Held["other"] != testPartitions/2 {
					return false
				}
			}
			return true
		}
	}
	half := testPartitions / 2
	b.eventually("both share", held(half, half))
	ways[0].Stall()
	b.eventually("the one that reaches the database has all", held(0, testPartitions))
	ways[0].Resume()
	b.eventually("both share again", held(half, half))

	changes := func() (sum int64) {
		for _, l := range all {
			for _, c := range l.Status().Changes {
				sum += c.Taken + c.Lost + c.Returned
			}
		}
		return sum
	}
	before := changes()
	for _, w := range ways {
		w.Refuse(true)
		w.Cut()
	}
	b.eventually("both know that they do not reach it", func() bool {
		members, sure := all[0].Living()
		return sure && len(members) == 2 && !slices.ContainsFunc(members, func(m flow.Member) bool { return m.Words["db"] == "1" })
	})
	<-time.After(2 * all[0].Timeout) // longer than one may be apart
	if after := changes(); after != before || !held(half, half)() {
		t.Errorf("the database is away for all, and leases moved: %d changes, then %d", before, after)
	}
}
