package engine_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"sluice/engine"
	"sluice/test/servers"
)

// notSentWithin is how long before a kill an answer may be of which no replica knows.
const notSentWithin = time.Second

// load hands in events as producers do: one that is not accepted is handed in again
// under its id.
type load struct {
	engine *engine.Engine
	rest   time.Duration // of a worker, behind each event
	stop   context.CancelFunc
	all    sync.WaitGroup

	mu       sync.Mutex
	accepted []time.Time // of each event, when
	kills    []time.Time
	longest  time.Duration // of a request since watch, whatever its answer
	refused  int           // requests since watch that were not answered 202
}

const loadWorkers = 4

func startLoad(t *testing.T, e *engine.Engine, rest time.Duration) *load {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	l := &load{engine: e, rest: rest, stop: cancel}
	t.Cleanup(func() { cancel(); l.all.Wait() })
	for worker := range loadWorkers {
		l.all.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				body := fmt.Appendf(nil, `{"event": "seen", "event_id": "e-%d-%d", "user_id": "u-%d", "time": %d}`, worker, n, n%97, time.Now().Unix())
				for !l.post(body) {
					<-time.After(20 * time.Millisecond)
				}
				if rest > 0 {
					<-time.After(rest)
				}
			}
		})
	}
	return l
}

func (l *load) post(body []byte) bool {
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+l.engine.Address()+"/v1/events", bytes.NewReader(body))
	if err != nil {
		return false
	}
	req.Header.Set("Authorization", "Bearer "+rootKey)
	began := time.Now()
	res, err := http.DefaultClient.Do(req)
	if err == nil {
		_ = res.Body.Close()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.longest = max(l.longest, time.Since(began))
	if err != nil || res.StatusCode != http.StatusAccepted {
		l.refused++
		return false
	}
	l.accepted = append(l.accepted, time.Now())
	return true
}

// watch forgets how long requests took. The function that it returns says how long
// they have taken since, and how many were refused.
func (l *load) watch() func() (longest time.Duration, refused int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.longest, l.refused = 0, 0
	return func() (time.Duration, int) {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.longest, l.refused
	}
}

// count is how many events were accepted so far.
func (l *load) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.accepted)
}

// strike makes a fault under load, and prints how long no event was accepted, and when
// the program was ready again.
func (l *load) strike(t *testing.T, what string, fault func(), over func() bool) {
	t.Helper()
	from := l.count()
	await(t, "events are accepted before "+what, func() bool { return l.count() > from+50 })
	began := time.Now()
	l.mu.Lock()
	l.kills = append(l.kills, began)
	l.mu.Unlock()
	taken := l.watch()
	fault()
	await(t, what+" is over", over)
	took := time.Since(began)
	var reason error
	await(t, "the program is ready again", func() bool {
		err := l.engine.Ready()
		if err != nil {
			reason = err
		}
		return err == nil
	})
	ready := time.Since(began)
	from = l.count()
	await(t, "events are accepted after "+what, func() bool { return l.count() > from+50 })
	request, refused := taken()
	l.mu.Lock()
	defer l.mu.Unlock()
	longest, last := time.Duration(0), began
	for _, at := range l.accepted {
		if at.After(began) {
			longest, last = max(longest, at.Sub(last)), at
		}
	}
	t.Logf("%s: over after %s, ready after %s, no event accepted for %s at most, longest request %s, %d refused; last reason why it was not ready: %v",
		what, round(took), round(ready), round(longest), round(request), refused, reason)
}

func round(d time.Duration) time.Duration { return d.Round(10 * time.Millisecond) }

// check ends the load and compares what was accepted with what was counted.
func (l *load) check(t *testing.T, partitions int) {
	t.Helper()
	l.stop()
	l.all.Wait()
	await(t, "all logs are applied", func() bool {
		applied := 0
		for _, f := range l.engine.Stats().Followers {
			if f.Name == "store" && f.LagItems == 0 {
				applied++
			}
		}
		return applied == partitions && l.engine.Ready() == nil
	})
	late := 0
	for _, at := range l.accepted {
		if slices.ContainsFunc(l.kills, func(kill time.Time) bool {
			return at.Before(kill.Add(notSentWithin/10)) && at.After(kill.Add(-notSentWithin))
		}) {
			late++
		}
	}
	have, got := len(l.accepted), int(counted(t, l.engine))
	t.Logf("accepted %d, counted %d; of %d a replica may not have known", have, got, late)
	if got > have || got < have-late {
		t.Errorf("counted %d of %d events that were accepted, want all but %d at most, and none twice", got, have, late)
	}
}

// reshardedSlots is how many slots TestClusterOfSix moves, a tenth of all.
const reshardedSlots = 1600

// TestClusterOfSix has masters killed and slots moved while events are handed in. At
// the end each is counted once.
func TestClusterOfSix(t *testing.T) {
	c, err := servers.StartRedisCluster(t.Context(), servers.ClusterOptions{Dir: filepath.Join(t.TempDir(), "cluster"), Masters: 3, Replicas: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	const partitions = 4
	e := open(t, c.URL()+","+c.Nodes[4].Addr(), "sqlite:"+filepath.Join(t.TempDir(), "a.db"), partitions)
	l := startLoad(t, e, 0)
	members, err := c.SlotOf("{members}")
	if err != nil {
		t.Fatal(err)
	}
	kill := func(what string, slot int) {
		var master *servers.Redis
		await(t, "a master is known", func() bool { master = c.MasterOf(slot); return master != nil })
		l.strike(t, what, func() { _ = master.Kill() }, func() bool { return c.MasterOf(slot) != nil })
		if err := master.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := c.AwaitReplicas(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	kill("the master of the beats is killed", members)
	first := servers.ClusterSlots / (2 * partitions) // flow.Partitions spaces them evenly
	kill("the master of a partition is killed", first)
	from := c.MasterOf(first)
	to := c.MasterOf((first + servers.ClusterSlots/2) % servers.ClusterSlots)
	l.strike(t, fmt.Sprintf("%d slots move, one with a partition", reshardedSlots), func() {
		for slot := first - reshardedSlots/2; slot < first+reshardedSlots/2; slot++ {
			if err := errors.Join(c.BeginMove(slot, from, to), c.EndMove(slot, from, to)); err != nil {
				t.Errorf("move slot %d: %v", slot, err)
				return
			}
		}
	}, func() bool { return c.MasterOf(first) == to })
	l.check(t, partitions)
}

// TestSentinelFailover is the same for a master with sentinels.
func TestSentinelFailover(t *testing.T) {
	s, err := servers.StartSentinels(t.Context(), servers.SentinelOptions{
		Dir: filepath.Join(t.TempDir(), "sentinel"), Replicas: 2, Sentinels: 3, Extra: []string{"--min-replicas-to-write", "1"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	const partitions = 4
	e := open(t, s.URL(), "sqlite:"+filepath.Join(t.TempDir(), "a.db"), partitions)
	l := startLoad(t, e, 0)
	l.strike(t, "the master is killed", func() { _ = s.Servers[0].Kill() }, func() bool { return s.Master() != nil })
	l.check(t, partitions)
}
