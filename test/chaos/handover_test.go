package chaos

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"sluice/mail"
	"sluice/test/sink"
)

// relayAddress is where the route of a configuration goes.
var relayAddress = regexp.MustCompile(`smtp://[0-9.:]+`)

// handingOver is a kind of no fault: a process stops as planned. It may take its time.
var handingOver = kind{name: "hand-over", config: "shutdown_seconds: 120\n"}

// gauge notes when each partition was last at work, and its longest rest since it was reset.
type gauge struct {
	mu      sync.Mutex
	last    map[int]time.Time
	longest map[int]time.Duration
}

func (g *gauge) reset() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.last, g.longest = map[int]time.Time{}, map[int]time.Duration{}
	for p := range roundPartitions {
		g.last[p] = time.Now()
	}
}

// works notes that a partition is at work now.
func (g *gauge) works(partition int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	g.longest[partition] = max(g.longest[partition], now.Sub(g.last[partition]))
	g.last[partition] = now
}

// rested returns the longest rest of any partition, and whether all were at work since a
// moment.
func (g *gauge) rested(since time.Time) (longest time.Duration, all bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	all = true
	for p, last := range g.last {
		longest, all = max(longest, g.longest[p]), all && last.After(since)
	}
	return longest, all
}

func (g *gauge) String() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	var all []string
	for p := range roundPartitions {
		all = append(all, fmt.Sprint(max(g.longest[p], time.Since(g.last[p])).Milliseconds()))
	}
	return strings.Join(all, " ")
}

// handOver is three processes, of which the first has a receiver of its own that can be
// made to take nothing.
type handOver struct {
	*round
	stuck       *sink.Sink
	holds       chan struct{} // closed: the receiver of the first answers no more
	hangs       chan struct{} // closed when a mail hangs
	store, mail gauge
	ids         []string
}

func newHandOver(t *testing.T, base string) *handOver {
	t.Helper()
	p, random := planOf(1, "kill")
	p.kind, p.processes, p.redis, p.base, p.slow = handingOver, 3, onOne, base, false
	h := &handOver{holds: make(chan struct{}), hangs: make(chan struct{})}
	h.store.reset()
	h.mail.reset()
	h.round = newRound(&recorder{T: t}, newRig(t, 0), p, random)
	fault := func(at sink.At, hang bool) (act sink.Act) {
		if at.Step != sink.OnEnd {
			return act
		}
		for _, to := range at.To {
			h.mail.works(mail.SendPartition(to, roundPartitions))
		}
		return sink.Act{Hang: hang}
	}
	var once sync.Once
	relays := []func(sink.At) sink.Act{
		func(at sink.At) sink.Act { return fault(at, false) },
		func(at sink.At) sink.Act {
			select {
			case <-h.holds:
				if at.Step == sink.OnEnd {
					once.Do(func() { close(h.hangs) })
				}
				return fault(at, true)
			default:
				return fault(at, false)
			}
		},
	}
	for i, relay := range relays {
		s, err := sink.Start(sink.Options{Fault: relay})
		h.do(err)
		t.Cleanup(func() { _ = s.Close() })
		to := h.peers[1:]
		if i == 1 {
			to, h.stuck = h.peers[:1], s
		} else {
			h.relay = s
		}
		for _, peer := range to {
			text, err := os.ReadFile(peer.config)
			h.do(err)
			h.do(os.WriteFile(peer.config, []byte(relayAddress.ReplaceAllString(string(text), "smtp://"+s.Addr())), 0o600))
		}
	}
	return h
}

// mailToAll hands in a mail for each partition, by the last process, which lives on.
func (h *handOver) mailToAll(n int) {
	h.t.Helper()
	h.ids = append(h.ids, messageIDs(h.ask(h.peers[2], "/v1/messages", mailForAll(n), http.StatusAccepted))...)
}

// mailForAll is a request with a mail for each partition.
func mailForAll(n int) string {
	var b strings.Builder
	for p := range roundPartitions {
		fmt.Fprintf(&b, `,{"from":"shop@example.com","to":%q,"subject":"order","text":"hello","class":"transactional"}`, addressOf(p, n))
	}
	return "[" + b.String()[1:] + "]"
}

// addressOf is an address whose mail goes to a partition.
func addressOf(partition, n int) string {
	for i := 0; ; i++ {
		if address := fmt.Sprintf("h%d-%d@example.net", n, i); mail.SendPartition(address, roundPartitions) == partition {
			return address
		}
	}
}

// sent is how many of some mails have left by the ledger, which the store writes.
func (h *handOver) sent(ids []string) int64 {
	return h.number("SELECT COUNT(*) FROM sends WHERE state = 'sent' AND message IN ('" + strings.Join(ids, "', '") + "')")
}

// TestHandOver stops a process while a mail of it is on the wire and does not end. Its
// partitions are another's before it has ended: what comes to them is stored and sent. The
// mail on the wire is sent once.
func TestHandOver(t *testing.T) {
	t.Parallel()
	h := newHandOver(t, onPostgres)
	for _, p := range h.peers {
		h.start(p, "")
	}
	h.allReady()
	h.await("all have leases", h.even)
	close(h.holds)
	h.await("the first process has a mail on the wire", func() bool {
		h.mailToAll(len(h.ids))
		select {
		case <-h.hangs:
			return true
		default:
			return false
		}
	})
	stopped := h.peers[0]
	stopped.signal(syscall.SIGTERM)
	h.await("the others have all leases", func() bool {
		held := 0
		for _, p := range h.peers[1:] {
			for _, role := range []string{"store", "send"} {
				var n int
				_, _ = fmt.Sscan(h.metric(p, `sluice_leases{role="`+role+`"}`), &n) // none: no answer
				held += n
			}
		}
		return held == 2*roundPartitions
	})
	before := len(h.ids)
	h.mailToAll(before)
	h.await("what comes to each partition is stored and sent", func() bool { return h.sent(h.ids[before:]) == roundPartitions })
	select {
	case <-stopped.exited:
		t.Error("the process has ended before its mail: this test shows nothing")
	default:
	}
	h.do(h.stuck.Drain(t.Context()))
	h.await("the process ends", func() bool {
		select {
		case <-stopped.exited:
			return true
		default:
			return false
		}
	})
	if !stopped.cmd.ProcessState.Success() {
		t.Errorf("the process has ended with %v", stopped.cmd.ProcessState)
	}
	h.await("all mail has left", func() bool { return h.sent(h.ids) == int64(len(h.ids)) })
	here, there := h.relay.Counts(), h.stuck.Counts()
	for _, id := range h.ids {
		if id = "<" + id + "@example.com>"; here[id]+there[id] != 1 {
			t.Errorf("mail %s was taken %d times", id, here[id]+there[id])
		}
	}
	if doubt := h.number("SELECT COUNT(*) FROM sends WHERE life LIKE '%in_doubt%'"); doubt != 0 {
		t.Errorf("%d mails were in doubt", doubt)
	}
}

// loadSteadily hands in mail for all partitions and looks where the store stands, until the
// end of the test.
func (h *handOver) loadSteadily() {
	at := h.peers[2].at
	ctx, stop := context.WithCancel(h.ctx)
	var load sync.WaitGroup
	load.Go(func() { // ends with ctx
		client := &http.Client{Timeout: 10 * time.Second}
		defer client.CloseIdleConnections()
		for n := 0; ctx.Err() == nil; n++ {
			request(ctx, client, at+"/v1/messages", mailForAll(n), "")
			pause(ctx, loadEvery)
		}
	})
	load.Go(func() { // ends with ctx
		for stands := map[int]int64{}; ctx.Err() == nil; pause(ctx, 5*time.Millisecond) {
			rows, err := h.db.QueryContext(ctx, "SELECT part, pos_major FROM cursors WHERE follower = 'store'")
			if err != nil {
				continue // the next look has it
			}
			for rows.Next() {
				var p int
				var at int64
				if rows.Scan(&p, &at) == nil && stands[p] != at {
					stands[p] = at
					h.store.works(p)
				}
			}
			_ = rows.Close()
		}
	})
	h.t.Cleanup(func() { stop(); load.Wait() })
}

// TestHandOverPauses prints for how long partitions rested, under a steady load, when a
// process is stopped, and when one is killed.
func TestHandOverPauses(t *testing.T) {
	t.Parallel()
	h := newHandOver(t, onPostgres)
	for _, p := range h.peers {
		h.start(p, "")
	}
	h.allReady()
	h.await("all have leases", h.even)
	h.loadSteadily()
	var quiet [2]time.Duration // the rests when nothing happens: how fast the machine is
	for _, how := range []struct {
		name   string
		signal syscall.Signal
		peer   int
		most   time.Duration
	}{
		{"nothing happens", 0, 0, settleWithin},
		{"stopped", syscall.SIGTERM, 0, 10 * time.Second},
		{"killed", syscall.SIGKILL, 1, 30 * time.Second},
	} {
		h.await("all have leases", func() bool { return h.leasesHeld() })
		pause(h.ctx, 2*time.Second)
		h.store.reset()
		h.mail.reset()
		if how.signal != 0 {
			h.peers[how.peer].signal(how.signal)
			<-h.peers[how.peer].exited
		}
		since := time.Now()
		pause(h.ctx, 6*time.Second)
		h.await("all partitions are at work", func() bool {
			_, stored := h.store.rested(since)
			_, mailed := h.mail.rested(since)
			return stored && mailed
		})
		t.Logf("%s: longest rest of each partition in ms: store %s; mail %s", how.name, &h.store, &h.mail)
		for i, g := range []*gauge{&h.store, &h.mail} {
			longest, _ := g.rested(since)
			if most := how.most + min(20*quiet[i], 30*time.Second); longest > most {
				t.Errorf("%s: a partition rested for %s, want %s at most", how.name, longest, most)
			}
			if how.signal == 0 {
				quiet[i] = longest
			}
		}
	}
}
