package ingest_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"sluice"
	"sluice/flow"
	"sluice/test/servers"
)

// write appends batches to a partition's log under a source of its own.
func (e *engine) write(partition int, source string, batches ...[]byte) []sluice.Position {
	e.b.Helper()
	var at []sluice.Position
	for i, batch := range batches {
		prev := ""
		if i > 0 {
			prev = strconv.Itoa(i)
		}
		done, err := e.logs[partition].Append(e.b.Context(), source, prev, strconv.Itoa(i+1), batch, false)
		e.b.must(err)
		at = append(at, done.Position)
	}
	return at
}

// named returns a batch of events with these names.
func named(names ...string) []byte {
	batch := sluice.NewBatch(64)
	for _, name := range names {
		batch = sluice.AppendEvent(batch, &sluice.Event{Kind: sluice.KindCustom, TimeMillis: 1700000000000, Name: name})
	}
	return batch
}

func (b *bed) storedNames() string {
	b.Helper()
	return strings.Join(b.query("SELECT name FROM events ORDER BY part, pos_major, pos_minor, item"), " ")
}

// Counts of a transaction are added up by hour, those of a quarter of an hour apart;
// one that can never be stored is kept, and holds up nothing.
func TestStoreCounts(t *testing.T) {
	onEach(t, func(b *bed) {
		hour := time.Date(2026, 1, 31, 10, 0, 0, 0, time.UTC).UnixMilli()
		count := func(app, name string, at, by int64) sluice.Count {
			return sluice.Count{Kind: sluice.KindCounter, TimeMillis: at, By: by, App: app, Name: name}
		}
		batch := func(counts ...sluice.Count) []byte {
			out := sluice.NewBatch(0)
			for i := range counts {
				out = sluice.AppendCount(out, &counts[i])
			}
			return out
		}
		bad := count("shop", "\xff", hour, 1)
		e := newEngine(b, setup{})
		e.write(0, "test", batch(count("shop", "open", hour, 2), count("shop", "open", hour+3599999, 3), bad), batch(count("shop", "click", hour, 1)))
		e.write(1, "test", batch(count("shop", "open", hour+2, 10), count("shop", "open", sluice.RoundCountTime(hour+2), 20), count("shop", "open", hour+3600000, 1)))
		e.run()
		b.eventually("all is counted", func() bool {
			sum := b.query("SELECT COALESCE(SUM(count), 0) FROM series_hours")
			return len(sum) == 1 && sum[0] == "37"
		})
		letters := b.letters(e.store)
		e.stop()
		if _, ok := letters[string(sluice.AppendCount(nil, &bad))]; !ok {
			b.Errorf("dead letters: %v", letters)
		}
		rows := b.query("SELECT name FROM series_hours ORDER BY bucket, name, stripe")
		sums := b.query("SELECT count FROM series_hours ORDER BY bucket, name, stripe")
		if got := strings.Join(rows, " ") + " " + strings.Join(sums, " "); got != "click open open open 1 15 20 1" {
			b.Errorf("series: %s", got)
		}
	})
}

func TestStoreBuriesWhatItCannotRead(t *testing.T) {
	onEach(t, func(b *bed) {
		payload := func(text string) func([]byte) []byte {
			return func(x []byte) []byte { return append(x, text...) }
		}
		newer := append([]byte{sluice.BatchVersion + 1}, "whatever it means"...)
		cut := append(named("c"), 99, 0, 0, 0, 1, 'x')
		unknown := sluice.AppendItem(nil, 77, payload("of tomorrow"))
		brokenEvent := sluice.AppendItem(nil, sluice.ItemEvent, payload("\x01short"))
		brokenDead := sluice.AppendItem(nil, sluice.ItemDead, payload("short"))
		strangeKind := sluice.AppendEvent(nil, &sluice.Event{Kind: 19, TimeMillis: 1, Name: "strange"})
		tooLate := sluice.AppendEvent(nil, &sluice.Event{Kind: sluice.KindCustom, TimeMillis: sluice.MaxEventTimeMillis + 1, Name: "late"})
		noText := sluice.AppendEvent(nil, &sluice.Event{Kind: sluice.KindCustom, TimeMillis: 1, Name: "\xff"})
		mixed := named("d")
		for _, item := range [][]byte{unknown, brokenEvent, brokenDead, strangeKind, tooLate, noText} {
			mixed = append(mixed, item...)
			mixed = append(mixed, named("e")[1:]...)
		}
		mixed = sluice.AppendItem(mixed, sluice.ItemMarker, payload(""))
		e := newEngine(b, setup{})
		at := e.write(0, "test", named("a"), newer, named("b"), cut, mixed, nil, named("z"))
		e.run()
		want := map[string]struct {
			form  sluice.Form
			place sluice.Place
		}{
			string(newer):                     {sluice.FormBatch, sluice.Place{Position: at[1]}},
			string(cut):                       {sluice.FormBatch, sluice.Place{Position: at[3], Index: 1}},
			string(unknown):                   {sluice.FormItem, sluice.Place{Position: at[4], Index: 1}},
			string(brokenEvent):               {sluice.FormItem, sluice.Place{Position: at[4], Index: 3}},
			string(brokenDead):                {sluice.FormItem, sluice.Place{Position: at[4], Index: 5}},
			string(sluice.Apart(strangeKind)): {sluice.FormItem, sluice.Place{Position: at[4], Index: 7}},
			string(sluice.Apart(tooLate)):     {sluice.FormItem, sluice.Place{Position: at[4], Index: 9}},
			string(sluice.Apart(noText)):      {sluice.FormItem, sluice.Place{Position: at[4], Index: 11}},
			"":                                {sluice.FormBatch, sluice.Place{Position: at[5]}},
		}
		const good = 11
		b.awaitSum("events", good+len(want))
		letters := b.letters(e.store)
		e.stop()
		b.checkCounts("events", good, len(want))
		if names := b.storedNames(); names != "a b c d e e e e e e z" {
			b.Errorf("events: %s", names)
		}
		for payload, w := range want {
			d := letters[payload]
			if d.Source != "log" || d.Form != w.form || d.Place != w.place || d.Reason == "" {
				b.Errorf("%.40q: source %q, form %q, place %v, reason %q; want log, %s, %v", payload, d.Source, d.Form, d.Place, d.Reason, w.form, w.place)
			}
		}
	})
}

// A log of which something is missing stands still, and no other.
func TestStoreStandsStillAtAGap(t *testing.T) {
	onEach(t, func(b *bed) {
		e := newEngine(b, setup{})
		var at [testPartitions][]sluice.Position
		for p := range testPartitions {
			at[p] = e.write(p, "test", named("1"), named("2"), named("3"))
		}
		b.do("XDEL", b.logKey(1), at[1][1].String())           // in the middle
		b.do("XTRIM", b.logKey(2), "MINID", at[2][2].String()) // the beginning
		e.run()
		b.awaitSum("events", 3+1+0+3)
		b.eventually("both gaps are told", func() bool {
			return e.log.has("ERROR", "gap", "log of partition 1") && e.log.has("ERROR", "gap", "log of partition 2")
		})
		b.eventually("both are seen, and no other", func() bool { // a session that begins anew judges again
			seen := e.failing("store")
			return strings.Contains(seen, "partition 1 stands still: ") && strings.Contains(seen, "partition 2 stands still: ") && !strings.Contains(seen, "partition 0")
		})
		e.write(0, "later", named("4"))
		e.write(1, "later", named("4"))
		e.write(3, "later", named("4"))
		b.awaitSum("events", 3+1+0+3+2)

		// Now one that comes while it runs.
		tail := e.write(3, "latest", named("5"))[0]
		b.awaitSum("events", 3+1+0+3+2+1)
		beyond := fmt.Sprintf("%d-9", tail.Major+1)
		b.do("HSET", strings.TrimSuffix(b.logKey(3), "log")+"sources", "@tail", beyond)
		b.do("XADD", b.logKey(3), beyond, "prev", fmt.Sprintf("%d-5", tail.Major+1), "batch", string(named("7")))
		b.eventually("the gap is told", func() bool { return e.log.has("ERROR", "gap", "log of partition 3") })
		e.write(0, "latest", named("5"))
		b.awaitSum("events", 3+1+0+3+2+1+1)
		e.stop()
		b.checkCounts("events", 11, 0)
		if names := b.storedNames(); names != "1 2 3 4 5 1 1 2 3 4 5" {
			b.Fatalf("events by partition: %s", names)
		}

		e = start(b, setup{acceptGaps: true})
		b.awaitSum("events", 11+2+1+1)
		e.stop()
		b.checkCounts("events", 15, 0)
		if names := b.storedNames(); names != "1 2 3 4 5 1 3 4 3 1 2 3 4 5 7" {
			b.Fatalf("events by partition: %s", names)
		}
		for p := 1; p < 4; p++ {
			if !e.log.has("gap accepted", "partition="+strconv.Itoa(p)) {
				b.Errorf("it is not told that the gap of partition %d was accepted", p)
			}
		}
		e = start(b, setup{}) // accepted once and for all
		for p := range testPartitions {
			e.write(p, "last", named("8"))
		}
		b.awaitSum("events", 19)
		e.stop()
		b.checkCounts("events", 19, 0)
	})
}

// What comes before a gap is stored, also if the gap is met before the
// transaction that was filling is full.
func TestStoreStoresWhatComesBeforeAGap(t *testing.T) {
	onEach(t, func(b *bed) {
		e := newEngine(b, setup{partitions: 1})
		at := e.write(0, "test", named("1"), named("2"), named("3"))
		b.do("XDEL", b.logKey(0), at[1].String())
		e.run()
		b.awaitSum("events", 1)
		b.eventually("the gap is told", func() bool { return e.log.has("ERROR", "gap", "log of partition 0") })
		e.stop()
		b.checkCounts("events", 1, 0)
	})
}

// hold makes a held chunk of what is pushed, as hold.lua does.
func (b *bed) hold(list string, chunk int, elements ...string) {
	b.Helper()
	b.push(list, elements...)
	base := "sluice:{" + list + "}:list:" + list
	b.do("RENAME", list, fmt.Sprintf("%s:held:%d", base, chunk))
	b.do("HSET", base+":state", "last", strconv.Itoa(chunk))
}

// A held chunk that is gone before it was applied is a gap, in both ways.
func TestListStandsStillAtALostChunk(t *testing.T) {
	onEach(t, func(b *bed) {
		makeTarget(b)
		rows, other := tableList(""), tableList("")
		rows.name, other.name = "rows", "other"
		s := setup{lists: []listSetup{eventList(""), rows, other}}
		for chunk := 1; chunk <= 5; chunk++ {
			b.hold("q", chunk, fmt.Sprintf(`{"event":"%d","time":1700000000,"user_id":"u"}`, chunk))
			b.hold("rows", chunk, fmt.Sprintf(`{"id":%d}`, chunk))
		}
		for _, list := range []string{"q", "rows"} {
			b.do("DEL", "sluice:{"+list+"}:list:"+list+":held:2", "sluice:{"+list+"}:list:"+list+":held:4")
		}
		e := start(b, s)
		b.eventually("both gaps are told", func() bool {
			return e.log.has("ERROR", "gap", "list q") && e.log.has("ERROR", "gap", "list rows")
		})
		b.push("other", `{"id":100}`)
		b.eventually("what comes before the gaps is stored, and the other list", func() bool { return b.count("target") == 2 && b.count("events") == 1 })
		e.stop()
		b.checkCounts("target", 2, 0)
		b.checkCounts("events", 1, 0)

		s.acceptGaps = true
		e = start(b, s)
		b.push("q", `{"event":"6","time":1700000000,"user_id":"u"}`)
		b.push("rows", `{"id":6}`)
		b.awaitSum("target", 5)
		b.awaitSum("events", 4)
		e.stop()
		b.checkCounts("target", 5, 0)
		b.checkCounts("events", 4, 0)
		if names := b.storedNames(); names != "1 3 5 6" {
			b.Fatalf("events: %s", names)
		}
		if ids := strings.Join(b.query("SELECT id FROM target WHERE id < 100 ORDER BY seq"), " "); ids != "1 3 5 6" {
			b.Fatalf("rows: %s", ids)
		}
		if !e.log.has("gap accepted", "list q") || !e.log.has("gap accepted", "list rows") {
			b.Error("it is not told that gaps were accepted")
		}
	})
}

// A chunk that is lost while it is read is a gap as well.
func TestListStandsStillAtAChunkLostInTheMiddle(t *testing.T) {
	onEach(t, func(b *bed) {
		makeTarget(b)
		b.hold("q", 1, `{"id":1}`, `{"id":2}`, `{"id":3}`)
		b.do("HSET", "sluice:{q}:list:q:state", "base", "2") // two of five were dropped
		e := newEngine(b, setup{})
		_, err := e.store.Cursors(b.Context(), "list:q", []int{0})
		b.must(err)
		b.exec("UPDATE cursors SET pos_major = 1, pos_minor = 2 WHERE follower = 'list:q'", "")
		b.do("DEL", "sluice:{q}:list:q:held:1")
		e.stop()
		e = start(b, setup{lists: []listSetup{tableList("")}})
		b.eventually("the gap is told", func() bool { return e.log.has("ERROR", "gap", "list q") })
		e.stop()
		b.push("q", `{"id":6}`)
		e = start(b, setup{lists: []listSetup{tableList("")}, acceptGaps: true})
		b.awaitSum("target", 1)
		e.stop()
		b.checkCounts("target", 1, 0)
	})
}

// Redis is emptied while it has nothing pending. What comes then is stored,
// whichever process is first, and no id or chunk number is used twice.
func TestRedisIsEmptied(t *testing.T) {
	onEach(t, func(b *bed) {
		makeTarget(b)
		rows := tableList("")
		rows.name = "rows"
		s := setup{lists: []listSetup{eventList(""), rows}}
		element := func(i int) string { return fmt.Sprintf(`{"event":"e","id":%d,"time":1700000000,"user_id":%d}`, i, i) }
		e := start(b, s)
		events, stored := 0, 0
		for round := range 4 {
			for range 3 { // several chunks
				var some []string
				for range 20 {
					some = append(some, element(stored))
					stored++
				}
				b.push("rows", some...)
				b.push("q", some...)
				events += len(some)
				b.awaitSum("events", events)
				b.awaitSum("target", stored)
			}
			b.eventually("nothing is held that is not applied", func() bool {
				return !slices.ContainsFunc(e.lists, func(l *flow.List) bool {
					n, err := l.Remaining(b.Context())
					return err != nil || n != 0
				})
			})
			if round == 2 {
				e.stop() // emptied while nobody runs
			}
			b.do("FLUSHALL")
			if round == 2 {
				e = start(b, s)
			}
			if round == 1 { // a caller that needs no lease, such as the API
				for p := range testPartitions {
					e.write(p, "api", named("a"), named("b"))
				}
				events += 2 * testPartitions
				b.awaitSum("events", events)
			}
		}
		b.push("rows", element(stored))
		b.push("q", element(stored))
		b.awaitSum("events", events+1)
		b.awaitSum("target", stored+1)
		e.stop()
		b.checkCounts("events", events+1, 0)
		b.checkCounts("target", stored+1, 0)
		if e.log.has("stands still") {
			b.Error("a follower stood still")
		}
	})
}

// While the database does not take anything, the lists hold what comes.
func TestDatabaseIsLocked(t *testing.T) {
	const n = 3000
	b := newBed(t, "sqlite")
	makeTarget(b)
	rows := tableList("")
	rows.name = "rows"
	e := start(b, setup{lists: []listSetup{eventList(""), rows}})
	b.push("q", `{"event":"open","time":1700000000}`)
	b.push("rows", `{"id":0}`)
	b.awaitSum("events", 1)
	b.awaitSum("target", 1)
	conn, err := b.db.Conn(t.Context())
	b.must(err)
	defer conn.Close()
	_, err = conn.ExecContext(t.Context(), "BEGIN IMMEDIATE")
	b.must(err)
	pushOutage(b, n)
	b.eventually("a follower has failed, or waits with work in hand", func() bool { return heldElements(b) > 0 })
	_, err = conn.ExecContext(t.Context(), "ROLLBACK")
	b.must(err)
	b.awaitSum("events", 1+n)
	b.awaitSum("target", 1+n)
	e.stop()
	b.checkCounts("events", 1+n, 0)
	b.checkCounts("target", 1+n, 0)
}

func pushOutage(b *bed, n int) {
	b.Helper()
	var events, rows []string
	for i := range n {
		events = append(events, fmt.Sprintf(`{"event":"open","time":1700000000,"user_id":%d}`, i))
		rows = append(rows, fmt.Sprintf(`{"id":%d}`, i))
	}
	b.push("q", events...)
	b.push("rows", rows...)
}

func TestDatabaseIsDown(t *testing.T) {
	const n = 3000
	b := newBed(t, "mariadb")
	server, err := servers.StartMariaDB(t.Context(), servers.MariaDBOptions{Dir: filepath.Join(t.TempDir(), "maria")})
	b.must(err)
	t.Cleanup(func() { _ = server.Kill() })
	b.must(server.CreateDatabase(t.Context(), "down"))
	b.use(server, "down")
	makeTarget(b)
	rows := tableList("")
	rows.name = "rows"
	e := start(b, setup{lists: []listSetup{eventList(""), rows}})
	b.push("q", `{"event":"open","time":1700000000}`)
	b.push("rows", `{"id":0}`)
	b.awaitSum("events", 1)
	b.awaitSum("target", 1)
	b.must(server.Kill())
	pushOutage(b, n)
	b.eventually("followers have failed", func() bool {
		return e.log.has("the database does not answer", "follower=store") && e.log.has("follower failed", "follower=table:rows")
	})
	if k := b.doInt("LLEN", "rows") + b.doInt("LLEN", "q") + heldElements(b); k < n {
		b.Fatalf("%d elements are left in Redis, want at least the %d of one list", k, n)
	}
	b.must(server.Restart(t.Context()))
	b.awaitSum("events", 1+n)
	b.awaitSum("target", 1+n)
	e.stop()
	b.checkCounts("events", 1+n, 0)
	b.checkCounts("target", 1+n, 0)
}

// Two processes share the work, and one takes over what the other leaves.
func TestTwoProcesses(t *testing.T) {
	const n = 4000
	onEach(t, func(b *bed) {
		s := setup{lists: []listSetup{eventList("")}}
		e1, e2 := start(b, s), start(b, s)
		b.eventually("both hold their share", func() bool {
			return e1.leases.Status().Held["store"] == testPartitions/2 && e2.leases.Status().Held["store"] == testPartitions/2
		})
		for i := range n / 200 {
			var some []string
			for k := range 200 {
				some = append(some, fmt.Sprintf(`{"event":"open","time":1700000000,"user_id":%d}`, i*200+k))
			}
			b.push("q", some...)
			if i == n/400 {
				b.eventually("both have stored", func() bool { return e1.stats.Stored.Load() > 0 && e2.stats.Stored.Load() > 0 })
				e1.abort()
			}
		}
		b.awaitSum("events", n)
		e2.stop()
		b.checkCounts("events", n, 0)
	})
}
