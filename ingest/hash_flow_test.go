package ingest_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"sluice"
	"sluice/flow"
	"sluice/ingest"
	"sluice/lib/faults"
	"sluice/store"
	"sluice/test/servers"
)

const hashKeys = "{app_id}|{date}|{name}"

// addHashes adds the hashes of s.hashes to an engine.
func (e *engine) addHashes(s setup, log *slog.Logger) {
	e.b.Helper()
	template, err := ingest.NewHashTemplate(hashKeys, time.UTC, "")
	e.b.must(err)
	group := &ingest.CountGroup{Store: e.store, Leases: e.leases, Stats: e.stats}
	for _, url := range s.hashes {
		r, err := flow.Dial(e.b.Context(), url)
		e.b.must(err)
		e.others = append(e.others, r)
		hashes, err := flow.NewHashes(e.b.Context(), r, "buffered")
		e.b.must(err)
		f := &ingest.HashFollower{Lister: ingest.Lister{
			List: hashes, Place: len(e.lists), Leases: e.leases, Store: e.store, Clock: sluice.SystemClock{},
			Log: log, Stats: e.stats, AcceptGaps: s.acceptGaps, MarginBytes: s.listMargin()}, Template: template, Group: group}
		e.lists = append(e.lists, hashes)
		e.followers = append(e.followers, f.Run)
	}
}

// counters are servers that producers count on, and what they have counted.
type counters struct {
	b       *bed
	servers []*servers.Redis
	clients []rueidis.Client

	mu   sync.Mutex
	sums map[string]int64 // "app|name|hour", the hour as the series has it
}

func startCounters(b *bed, n int) *counters {
	b.Helper()
	c := &counters{b: b, sums: make(map[string]int64)}
	dir := b.TempDir()
	for i := range n {
		// Small, so that a dozen fit a test machine.
		server, err := servers.StartRedis(b.Context(), servers.RedisOptions{
			Dir: filepath.Join(dir, strconv.Itoa(i)), AppendFsync: "no", Extra: []string{"--maxmemory", "32mb"}})
		b.must(err)
		b.Cleanup(func() { _ = server.Kill() })
		option, err := rueidis.ParseURL(server.URL())
		b.must(err)
		option.DisableCache, option.DisableRetry = true, true
		option.RingScaleEachConn = 8
		client, err := rueidis.NewClient(option)
		b.must(err)
		b.Cleanup(client.Close)
		c.servers, c.clients = append(c.servers, server), append(c.clients, client)
	}
	return c
}

func (c *counters) urls() []string {
	var all []string
	for _, s := range c.servers {
		all = append(all, s.URL())
	}
	return all
}

// count does what a producer does, on one server.
func (c *counters) count(server int, app, name string, hour, by int) error {
	key, r := app+"|2026-01-31|"+name, c.clients[server]
	ctx := c.b.Context()
	if err := r.Do(ctx, r.B().Hincrby().Key(key).Field(strconv.Itoa(hour)).Increment(int64(by)).Build()).Error(); err != nil {
		return err
	}
	c.mu.Lock()
	c.sums[fmt.Sprintf("%s|%s|2026-01-31 %02d:00:00", app, name, hour)] += int64(by)
	c.mu.Unlock()
	return r.Do(ctx, r.B().Sadd().Key("buffered").Member(key).Build()).Error()
}

// stored is the series, as counters.sums has it.
func (b *bed) stored() map[string]int64 {
	b.Helper()
	bucket := "DATE_FORMAT(bucket, '%Y-%m-%d %H:%i:%s')"
	if b.dialect == "sqlite" {
		bucket = "datetime(bucket / 1000, 'unixepoch')"
	}
	sums := make(map[string]int64)
	for _, row := range b.query("SELECT app_id, name, " + bucket + ", SUM(count) FROM series_hours WHERE kind = 'counter' GROUP BY 1, 2, 3") {
		at := strings.LastIndexByte(row, '|')
		n, err := strconv.ParseInt(row[at+1:], 10, 64)
		b.must(err)
		sums[row[:at]] = n
	}
	return sums
}

// awaitCounts waits until the series has what was counted, and fails if it has
// anything else a moment later.
func (c *counters) awaitCounts() {
	c.b.Helper()
	total := func(sums map[string]int64) (n int64) {
		for v := range maps.Values(sums) {
			n += v
		}
		return n
	}
	want := total(c.sums)
	c.b.eventually("the series has what was counted", func() bool { return total(c.b.stored()) >= want })
	if got := c.b.stored(); !maps.Equal(got, c.sums) {
		c.b.Fatalf("%d counted, %d stored\ncounted %v\nstored  %v", want, total(got), c.sums, got)
	}
}

// produce runs producers on every server until they have counted each so often.
func (c *counters) produce(each int) *sync.WaitGroup {
	var running sync.WaitGroup
	for server := range c.servers {
		running.Go(func() {
			for i := range each {
				if err := c.count(server, "app"+strconv.Itoa(i%2), "name "+strconv.Itoa(i%9), i%24, 1+i%3); err != nil {
					c.b.Error(err)
					return
				}
			}
		})
	}
	return &running
}

// Twelve servers have counts of the same names, and go on while they are
// drained by two programs. One program ends in the middle of it.
func TestHashesOfTwelveServersAreCountedOnce(t *testing.T) {
	onEach(t, func(b *bed) {
		c := startCounters(b, 12)
		running := c.produce(1500)
		first := start(b, setup{hashes: c.urls(), noStore: true})
		second := first
		if b.dialect != "sqlite" {
			second = start(b, setup{hashes: c.urls(), noStore: true})
		}
		b.eventually("something is stored", func() bool { return len(b.stored()) > 0 })
		first.abort()
		if second == first {
			second = start(b, setup{hashes: c.urls(), noStore: true})
		}
		running.Wait()
		c.awaitCounts()
		second.stop()
		b.checkCounts("events", 0, 0)
		for i, r := range c.clients {
			keys, err := r.Do(b.Context(), r.B().Keys().Pattern("*").Build()).AsStrSlice()
			keys = slices.DeleteFunc(keys, func(key string) bool { return strings.Contains(key, ":held:") })
			if err != nil || len(keys) > 3 {
				b.Errorf("server %d has %v, %v; want state, lease and what is kept", i, keys, err)
			}
		}
	})
}

// effects is a store that remembers what was applied.
type effects struct {
	store.Store
	mu      sync.Mutex
	applied []*store.Effect
}

// Apply implements store.Store.
func (e *effects) Apply(ctx context.Context, p store.Prepared) (store.Applied, error) {
	done, err := e.Store.Apply(ctx, p)
	if err == nil {
		e.mu.Lock()
		e.applied = append(e.applied, p.Effect())
		e.mu.Unlock()
	}
	return done, err
}

// A name that all servers count in one second is one row, not one a server.
func TestCountsOfManyServersAreStoredTogether(t *testing.T) {
	b := newBed(t, "sqlite")
	c := startCounters(b, 4)
	remembered := &effects{}
	e := start(b, setup{hashes: c.urls(), noStore: true, store: func(s store.Store) store.Store { remembered.Store = s; return remembered }})
	b.eventually("all are followed", func() bool {
		held, _ := e.leases.Held(ingest.ListRole)
		return len(held) == len(c.servers)
	})
	together := func() bool {
		remembered.mu.Lock()
		defer remembered.mu.Unlock()
		return slices.ContainsFunc(remembered.applied, func(e *store.Effect) bool { return len(e.Moves) == len(c.servers) && len(e.Counts) == 1 })
	}
	b.eventually("a transaction has the counts of all servers in one", func() bool {
		for server := range c.servers { // beside a full second they may be two
			b.must(c.count(server, "app", "name", 7, 1))
		}
		return together()
	})
	c.awaitCounts()
}

// A server that is away holds up no other, and goes on when it is back.
func TestAServerAwayHoldsUpNoOther(t *testing.T) {
	b := newBed(t, "sqlite")
	c := startCounters(b, 3)
	start(b, setup{hashes: c.urls(), noStore: true})
	for server := range c.servers {
		b.must(c.count(server, "app", "before", 1, 1))
	}
	c.awaitCounts()
	b.must(c.servers[1].Kill())
	b.must(c.count(0, "app", "meanwhile", 1, 1))
	b.must(c.count(2, "app", "meanwhile", 2, 1))
	c.awaitCounts()
	b.must(c.servers[1].Restart(t.Context()))
	for range 2 { // a second connection of the client may still be the dead one
		b.eventually("it is back", func() bool { return c.count(1, "app", "after", 3, 1) == nil })
	}
	c.awaitCounts()
}

// What is no count becomes a dead letter and keeps nobody from being counted;
// replayed, it is there again, once.
func TestBadHashesBecomeDeadLetters(t *testing.T) {
	onEach(t, func(b *bed) {
		c := startCounters(b, 1)
		r := c.clients[0]
		do := func(words ...string) {
			b.Helper()
			b.must(r.Do(b.Context(), r.B().Arbitrary(words...).Build()).Error())
		}
		do("HSET", "no date", "1", "5")
		do("HSET", "app|2026-01-31|odd", "1", "5", "24", "6", "2", "many")
		do("SET", "app|2026-01-31|text", "5")
		do("SADD", "buffered", "no date", "app|2026-01-31|odd", "app|2026-01-31|text", "app|2026-01-31|gone")
		b.must(c.count(0, "app", "good", 3, 7))
		c.sums["app|odd|2026-01-31 01:00:00"] = 5
		e := start(b, setup{hashes: c.urls(), noStore: true})
		c.awaitCounts()
		b.eventually("the dead letters are there", func() bool { return b.count("dead_letters") == 3 })
		all := b.letters(e.store)
		reasons := map[string]string{}
		for payload, d := range all {
			reasons[payload] = d.Reason
			if d.Source != e.lists[0].Source() || d.Form != sluice.FormElement {
				b.Errorf("dead letter from %s, form %s", d.Source, d.Form)
			}
		}
		for payload, want := range map[string]string{
			"h7:no date,1:1,1:5,": "the key does not fit " + hashKeys,
			"x19:app|2026-01-31|text,34:the key is a string, not a hash,": "the key is a string, not a hash",
		} {
			if payload[0] == 'x' {
				payload = (&flow.Hash{Key: "app|2026-01-31|text", Reason: want}).Element()
			}
			if !strings.HasPrefix(reasons[payload], want) {
				b.Errorf("%s: reason %q, want %q", payload, reasons[payload], want)
			}
		}
		replayer := &ingest.Replayer{Store: e.store, Lists: map[string]*flow.List{e.lists[0].Source(): e.lists[0]}, Logs: e.logs}
		refused := 0
		do("DEL", "app|2026-01-31|text")
		do("HSET", "app|2026-01-31|text", "4", "9") // it is mended
		c.sums["app|text|2026-01-31 04:00:00"] = 9
		for payload, d := range all {
			if strings.Contains(payload, "many") {
				if err := replayer.Replay(b.Context(), d.ID); err == nil {
					b.Error("a value that is no integer was counted")
				}
				refused++
				continue
			}
			b.must(replayer.Replay(b.Context(), d.ID))
		}
		c.awaitCounts()
		b.eventually("the key without a date is dead again", func() bool { return b.count("dead_letters") == 2 })
		if refused != 1 {
			b.Errorf("%d replays were to be refused", refused)
		}
	})
}

// A session of hashes that ends between any two steps doubles and loses nothing.
func TestHashSessionsEndAnywhere(t *testing.T) {
	onEachAlone(t, func(b *bed) {
		c := startCounters(b, 2)
		e := start(b, setup{hashes: c.urls(), noStore: true})
		for round := range 2 {
			var spec []string
			for i, p := range []string{"take", "taken", "read", "load", "transaction", "commit", "committed", "drop"} {
				spec = append(spec, fmt.Sprintf("%s=error,%d", p, 1+(round+i)%2))
			}
			disarm, err := faults.Arm(strings.Join(spec, ";"))
			b.must(err)
			for i := range 40 {
				b.must(c.count(i%2, "app", "name "+strconv.Itoa(i%3), i%24, 1))
			}
			c.awaitCounts()
			disarm()
		}
		e.stop()
		b.checkCounts("events", 0, 0)
		if !e.log.has("injected failure") {
			b.Error("nothing failed: this test shows nothing")
		}
	})
}
