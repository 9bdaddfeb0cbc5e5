package flow

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"sluice/test/proxy"
	"sluice/test/servers"
)

// aloneForLong makes a lease keeper that does not run one that has looked for
// hours and seen only itself.
func aloneForLong(l *Leases) {
	now := time.Now()
	l.live = 1
	l.members.timeout = time.Hour
	text, _ := l.beatText()
	l.members.look(now.Add(-3*time.Hour), now.Add(-3*time.Hour), "", map[string]string{l.id: text})
	l.members.began, l.members.ended = now, now
}

// looks lets a process look at beats, on a clock of the test's own.
type looks struct {
	*members
	now time.Time
}

const testTimeout = 2500 * time.Millisecond

func newLooks() *looks {
	return &looks{members: newMembers("me", testTimeout), now: time.Unix(1000, 0)}
}

// see is a look some time after the one before.
func (l *looks) see(after time.Duration, beats ...string) {
	l.now = l.now.Add(after)
	all := map[string]string{"me": fmt.Sprint(l.now.UnixNano())}
	for i := 0; i < len(beats); i += 2 {
		all[beats[i]] = beats[i+1]
	}
	l.look(l.now.Add(-time.Millisecond), l.now, "redis1", all)
}

// silent lets it look for so long, twice a second, and see the same beats.
func (l *looks) silent(long time.Duration, beats ...string) {
	for range int(long / beatEvery) {
		l.see(beatEvery, beats...)
	}
}

func TestSilentProcessIsDead(t *testing.T) {
	l := newLooks()
	l.see(0, "other", "1")
	l.silent(testTimeout, "other", "1")
	if l.dead("other", l.now) {
		t.Fatal("dead before it was silent for a timeout")
	}
	l.see(beatEvery, "other", "1")
	if !l.dead("other", l.now) || !l.settled(l.now) {
		t.Fatal("it was silent for a timeout and is not dead")
	}
	l.see(beatEvery, "other", "2")
	if l.dead("other", l.now) {
		t.Fatal("it beats and is dead")
	}
	l.see(beatEvery)
	if l.all["other"] != nil {
		t.Fatal("it has left and is still a member")
	}
}

// TestNobodyAgesWhileNobodyLooks: whatever keeps this process from looking says
// nothing about others, and they get time to beat again.
func TestNobodyAgesWhileNobodyLooks(t *testing.T) {
	for name, gap := range map[string]func(l *looks) time.Duration{
		"looks fail": func(l *looks) time.Duration {
			for range 8 {
				l.now = l.now.Add(beatEvery)
				l.miss()
				if l.dead("other", l.now) || l.dead("unknown", l.now) || l.sure(l.now) {
					t.Error("a process that cannot look calls others dead")
				}
			}
			return beatEvery
		},
		"one look fails":     func(l *looks) time.Duration { l.miss(); return beatEvery },
		"it was stopped":     func(*looks) time.Duration { return time.Hour },
		"a look took long":   func(*looks) time.Duration { return testTimeout/gapsATimeout + 1 },
		"it is another one":  func(l *looks) time.Duration { l.server = "redis2"; return beatEvery },
		"the Redis is empty": func(l *looks) time.Duration { l.miss(); return -1 },
	} {
		t.Run(name, func(t *testing.T) {
			l := newLooks()
			l.see(0, "other", "1")
			l.silent(2*time.Second, "other", "1")
			last := l.now
			beats := []string{"other", "1"}
			after := gap(l)
			if after < 0 {
				after, beats = beatEvery, nil
			}
			if l.dead("other", l.now.Add(after)) {
				t.Error("dead without a look")
			}
			l.see(after, beats...)
			away := l.now.Sub(last)
			grace := min(testTimeout+2*away, maxGraceTimeouts*testTimeout)
			if l.dead("other", l.now) || l.settled(l.now) || !l.sure(l.now) || len(l.living("", l.now)) != 2 {
				t.Fatalf("after the gap: dead %v, settled %v, sure %v, %d live", l.dead("other", l.now), l.settled(l.now), l.sure(l.now), len(l.living("", l.now)))
			}
			l.silent(grace, beats...)
			if l.dead("other", l.now) {
				t.Error("dead before its grace was over")
			}
			l.silent(2*beatEvery, beats...)
			if !l.settled(l.now) || len(l.living("", l.now)) != 1 {
				t.Error("not dead when its grace was over")
			}
		})
	}
}

// TestWhoBeatsAgainHasTheUsualTime: the grace is for those that have not.
func TestWhoBeatsAgainHasTheUsualTime(t *testing.T) {
	l := newLooks()
	l.see(0, "a", "1", "b", "1")
	l.miss()
	l.see(time.Minute, "a", "2", "b", "1") // a may have beaten at the beginning of the gap
	if l.settled(l.now) {
		t.Error("settled with the first look after the gap")
	}
	l.see(beatEvery, "a", "3", "b", "1")
	l.silent(testTimeout+beatEvery, "a", "3", "b", "1")
	if !l.dead("a", l.now) || l.dead("b", l.now) {
		t.Errorf("dead: a %v, b %v; want a alone", l.dead("a", l.now), l.dead("b", l.now))
	}
}

// TestBeatsCanSayMore: a process that does not know a word skips it.
func TestBeatsCanSayMore(t *testing.T) {
	m := heard(beatText(7, []string{"store/16/ab", "send/16/cd"}, map[string]string{"db": "1", "kinds": "1-9"}), time.Time{})
	if !slices.Equal(m.groups, []string{"store/16/ab", "send/16/cd"}) || !maps.Equal(m.words, map[string]string{"db": "1", "kinds": "1-9"}) {
		t.Fatalf("%+v", m)
	}
	r := dial(t)
	a, _, _ := join(t, r, &numbers{})
	b := NewLeases(r, &numbers{}, quiet())
	var reads atomic.Int64
	b.Say("reads", func() string { return fmt.Sprint(reads.Load()) })
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- b.Run(ctx) }()
	t.Cleanup(func() { stop(); <-done })
	for _, want := range []string{"0", "1"} {
		eventually(t, "the other hears it", func() bool {
			all, sure := a.Living()
			return sure && len(all) == 2 && slices.ContainsFunc(all, func(m Member) bool { return m.ID == b.ID() && m.Words["reads"] == want })
		})
		reads.Add(1)
	}
}

// TestFairShare plays processes that come and go, each with its own view of the
// holders, until nothing moves.
func TestFairShare(t *testing.T) {
	for _, places := range []int{1, 3, 16, 64} {
		for _, n := range []int{1, 2, 3, 5, 6, 7, 5, 3, 1} {
			var living []string
			for i := range n {
				living = append(living, fmt.Sprintf("p%d", n-i))
			}
			holds := map[string]int{living[n-1]: places} // all with one to begin with
			moves := 0
			for turn := 0; turn < 3*places; turn++ {
				changed := false
				for _, self := range living {
					want, free := fairShare(places, living, holds, self, false), places
					for _, h := range holds {
						free -= h
					}
					now := min(want, holds[self]+free)
					if now != holds[self] {
						moves += max(now-holds[self], 0)
						holds[self], changed = now, true
					}
				}
				if !changed {
					break
				}
			}
			least, most, sum := places, 0, 0
			for _, id := range living {
				least, most, sum = min(least, holds[id]), max(most, holds[id]), sum+holds[id]
			}
			if sum != places || most-least > 1 || moves > places-places/n {
				t.Errorf("%d places, %d processes: %v after %d moves", places, n, holds, moves)
			}
		}
	}
	if n := fairShare(3, []string{"a", "b"}, map[string]int{}, "c", true); n != 0 {
		t.Errorf("one that is not of the group is to hold %d", n)
	}
	if n := fairShare(1, []string{"a", "b"}, map[string]int{}, "b", false); n != 0 {
		t.Errorf("the second takes what is the first's at once: %d", n)
	}
	if n := fairShare(1, []string{"a", "b"}, map[string]int{}, "b", true); n != 1 {
		t.Errorf("no process takes the leases that the first does not take: %d", n)
	}
}

// TestManyProcessesShareEvenly: real lease keepers, as many as do not divide the
// partitions.
func TestManyProcessesShareEvenly(t *testing.T) {
	server, err := servers.StartRedis(t.Context(), servers.RedisOptions{Dir: t.TempDir(), AppendFsync: "no"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Kill() })
	for n, counts := range map[int][]int{16: {3, 5, 6, 7}, 64: {3, 5}} {
		var all []*Leases
		store := &numbers{}
		ctx, stop := context.WithCancel(context.Background())
		done := make(chan error, 7)
		more := func() {
			r, err := Dial(t.Context(), server.URL())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(r.Close)
			l := NewLeases(r, store, quiet())
			l.Beat, l.Timeout = 200*time.Millisecond, 4*time.Second
			l.AddPartitions("store", r, Partitions(n))
			l.AddPartitions("keep", r, Partitions(n)[:1])
			all = append(all, l)
			go func() { done <- l.Run(ctx) }()
		}
		for _, count := range counts {
			for len(all) < count {
				more()
			}
			even := func() bool {
				least, most, sum, keep := n, 0, 0, 0
				for _, l := range all {
					h := heldBy(l)
					least, most, sum, keep = min(least, h), max(most, h), sum+h, keep+l.Status().Held["keep"]
				}
				return sum == n && most-least <= 1 && keep == 1
			}
			eventually(t, fmt.Sprintf("%d processes share %d partitions evenly", count, n), even)
			before := changesOf(all)
			for _, l := range all { // and nothing moves any more
				tend(t, l)
			}
			if after := changesOf(all); after != before || !even() {
				t.Errorf("%d processes, %d partitions: %+v, then %+v", count, n, before, after)
			}
		}
		stop()
		for range all {
			<-done
		}
	}
}

// changesOf adds up all moves of leases.
func changesOf(all []*Leases) (sum Changes) {
	for _, l := range all {
		for _, c := range l.Status().Changes {
			sum.Taken, sum.Lost, sum.Returned = sum.Taken+c.Taken, sum.Lost+c.Lost, sum.Returned+c.Returned
		}
	}
	return sum
}

// behindProxies starts three lease keepers, each with a connection of its own to
// one Redis.
func behindProxies(t *testing.T) (all []*Leases, proxies []*proxy.Proxy, redis *servers.Redis) {
	t.Helper()
	redis, err := servers.StartRedis(t.Context(), servers.RedisOptions{Dir: t.TempDir(), AppendFsync: "no"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = redis.Kill() })
	store := &numbers{}
	for range 3 {
		r, proxy := dialBy(t, "unix", redis.Socket())
		l := NewLeases(r, store, quiet())
		l.Beat, l.Timeout = 300*time.Millisecond, 3*time.Second
		l.AddPartitions("store", r, Partitions(16))
		ctx, stop := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- l.Run(ctx) }()
		t.Cleanup(func() { stop(); proxy.Resume(); proxy.Refuse(false); <-done })
		all, proxies = append(all, l), append(proxies, proxy)
	}
	eventually(t, "three share", func() bool {
		return slices.Equal(slices.Sorted(slices.Values([]int{heldBy(all[0]), heldBy(all[1]), heldBy(all[2])})), []int{5, 5, 6})
	})
	return all, proxies, redis
}

// TestNoLeaseMovesWhileRedisIsAway: all processes lose it for longer than a
// timeout, and get it back one after the other.
func TestNoLeaseMovesWhileRedisIsAway(t *testing.T) {
	all, proxies, _ := behindProxies(t)
	before := changesOf(all)
	for round, how := range []string{"refused", "stalled", "refused"} {
		for _, p := range proxies {
			if how == "refused" {
				p.Refuse(true)
				p.Cut()
			} else {
				p.Stall()
			}
		}
		eventually(t, "all processes know that they cannot look", func() bool {
			return !slices.ContainsFunc(all, func(l *Leases) bool { return l.Status().Err == nil })
		})
		<-time.After(time.Duration(round+1) * all[0].Timeout) // an outage has a length
		for i := range proxies {
			p := proxies[(round+i)%len(proxies)]
			p.Refuse(false)
			p.Resume()
			eventually(t, "it looks again", func() bool { return all[(round+i)%len(all)].Status().Err == nil })
			<-time.After(all[0].Timeout / 2) // the others come back later
		}
		eventually(t, "everybody has beaten again", func() bool {
			return !slices.ContainsFunc(all, func(l *Leases) bool { living, sure := l.Living(); return !sure || len(living) != 3 })
		})
	}
	if after := changesOf(all); after != before {
		t.Errorf("leases moved although no process had died: %+v, then %+v", before, after)
	}
}

// TestNoLeaseMovesWhileBeatsAreAway: the partitions can be reached, the members
// cannot: in a cluster they may be on a server that is down.
func TestNoLeaseMovesWhileBeatsAreAway(t *testing.T) {
	r := dial(t)
	store := &numbers{}
	var all []*Leases
	away, err := servers.StartRedis(t.Context(), servers.RedisOptions{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = away.Kill() })
	home, err := Dial(t.Context(), away.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(home.Close)
	for range 3 {
		l := NewLeases(home, store, quiet())
		l.Beat, l.Timeout = 300*time.Millisecond, 3*time.Second
		l.AddPartitions("store", r, Partitions(16))
		ctx, stop := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- l.Run(ctx) }()
		t.Cleanup(func() { stop(); <-done })
		all = append(all, l)
	}
	eventually(t, "three share", func() bool {
		return heldBy(all[0])+heldBy(all[1])+heldBy(all[2]) == 16 && min(heldBy(all[0]), heldBy(all[1]), heldBy(all[2])) == 5
	})
	before := changesOf(all)
	if err := away.Kill(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "no process can show life", func() bool {
		return !slices.ContainsFunc(all, func(l *Leases) bool { return l.Status().Err == nil })
	})
	<-time.After(2 * all[0].Timeout)
	if n := heldBy(all[0]) + heldBy(all[1]) + heldBy(all[2]); n != 16 {
		t.Errorf("%d leases are held while the members are away, want all 16", n)
	}
	if err := away.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "everybody has beaten again", func() bool {
		return !slices.ContainsFunc(all, func(l *Leases) bool { living, sure := l.Living(); return !sure || len(living) != 3 })
	})
	if after := changesOf(all); after != before {
		t.Errorf("leases moved although no process had died: %+v, then %+v", before, after)
	}
}

// TestOneProcessCutOffLosesItsLeases: the others live and look, so it is dead to
// them; and it takes nothing while it cannot look itself.
func TestOneProcessCutOffLosesItsLeases(t *testing.T) {
	all, proxies, _ := behindProxies(t)
	proxies[0].Refuse(true)
	proxies[0].Cut()
	eventually(t, "the others hold all", func() bool { return heldBy(all[1])+heldBy(all[2]) == 16 })
	eventually(t, "who is cut off counts as dead", func() bool { return all[1].Dead(all[0].ID()) }) // when the other has just looked
	if all[0].Dead(all[1].ID()) {
		t.Error("who is cut off calls others dead")
	}
	proxies[0].Refuse(false)
	eventually(t, "three share again", func() bool {
		return heldBy(all[0]) >= 5 && heldBy(all[0])+heldBy(all[1])+heldBy(all[2]) == 16
	})
}

// TestALateNumberTakesNothing: the holder has beaten again while the database
// took its time.
func TestALateNumberTakesNothing(t *testing.T) {
	r := dial(t)
	l := NewLeases(r, &numbers{}, quiet())
	l.AddPartitions("store", r, Partitions(1))
	aloneForLong(l)
	before := &seen{owner: "other", token: "t"}
	do(t, r, "HSET", l.roles[0].places[0].key, "owner", "other", "token", "t")
	l.members.miss()
	if lease, err := l.claim(t.Context(), l.roles[0], 0, before, 1); err != nil || lease != nil {
		t.Fatalf("taken by a process whose own life is unconfirmed: %v", err)
	}
	l.members.failed = false
	if lease, err := l.claim(t.Context(), l.roles[0], 0, before, 1); err != nil || lease == nil {
		t.Fatalf("not taken from a dead holder: %v", err)
	}
}
