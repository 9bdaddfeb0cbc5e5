package ingest_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"sluice"
	"sluice/flow"
	"sluice/mail"
	"sluice/store"
	"sluice/test/servers"
	"sluice/user"
)

// tables are the tables of the bed's database.
func (b *bed) tables() []string {
	b.Helper()
	if b.dialect == "sqlite" {
		return b.query("SELECT name FROM main.sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
	}
	return b.query("SELECT table_name FROM information_schema.tables WHERE table_schema = database()")
}

// putBack remembers what the database has now. It returns a function that
// restores that state in one transaction, while the store works with it. A
// client that connects anew sees the same as at a failover to a replica that
// lagged.
func (b *bed) putBack() func() {
	b.Helper()
	conn, err := b.db.Conn(b.Context())
	b.must(err)
	b.Cleanup(func() { _ = conn.Close() })
	do := func(statement string) {
		b.Helper()
		if _, err := conn.ExecContext(b.Context(), statement); err != nil {
			b.Fatalf("%s: %v", statement, err)
		}
	}
	tables := b.tables()
	if b.dialect == "sqlite" {
		do(fmt.Sprintf("ATTACH '%s' AS kept", filepath.Join(b.TempDir(), "kept.db")))
	} else {
		do("CREATE DATABASE kept_" + strings.ReplaceAll(b.query("SELECT database()")[0], "-", "_"))
	}
	kept := func(table string) string {
		if b.dialect == "sqlite" {
			return "kept." + table
		}
		return "kept_" + b.query("SELECT database()")[0] + "." + table
	}
	for _, table := range tables {
		do("CREATE TABLE " + kept(table) + " AS SELECT * FROM " + table)
	}
	return func() {
		b.Helper()
		b.eventually("the database is put back", func() bool {
			begin := "BEGIN"
			if b.dialect == "sqlite" {
				begin = "BEGIN IMMEDIATE"
			}
			statements := []string{begin}
			for _, table := range tables {
				into, what := table, "*"
				if table == "users" && b.dialect == "sqlite" { // which computes two of its columns
					what = "id, updated, to_part, to_number, profile"
					into += " (" + what + ")"
				}
				statements = append(statements, "DELETE FROM "+table, "INSERT INTO "+into+" SELECT "+what+" FROM "+kept(table))
			}
			for _, statement := range append(statements, "COMMIT") {
				if _, err := conn.ExecContext(b.Context(), statement); err != nil { // a deadlock with the program at work
					b.Logf("%s: %v", statement, err)
					do("ROLLBACK")
					return false
				}
			}
			return true
		})
	}
}

// TestADatabaseThatGoesBackIsNoGap: entries applied since are read again, while
// the program runs under load or when it is started anew. No row is lost or
// doubled, and no gap is met.
func TestADatabaseThatGoesBackIsNoGap(t *testing.T) {
	for _, running := range []bool{true, false} {
		t.Run(map[bool]string{true: "running", false: "restarted"}[running], func(t *testing.T) {
			onEach(t, func(b *bed) {
				e := start(b, setup{})
				var written atomic.Int64
				load := func(source string, rounds int, stop func() bool) {
					for round := 0; round < rounds && !stop(); round++ {
						for p := range testPartitions {
							if _, err := e.logs[p].Append(b.Context(), source, before(round), after(round), named(fmt.Sprint(source, round)), false); err != nil {
								b.Error(err)
								return
							}
							written.Add(1)
						}
					}
				}
				never := func() bool { return false }
				load("first", 10, never)
				b.awaitSum("events", int(written.Load()))
				putBack := b.putBack()
				load("second", 50, never)
				b.awaitSum("events", int(written.Load()))
				b.eventually("what is applied is no backlog", func() bool {
					n, err := e.logs[0].Entries(b.Context())
					return err == nil && n == 0
				})
				if !running {
					e.stop()
					putBack()
					e = start(b, setup{})
				} else {
					var loading sync.WaitGroup
					var over atomic.Bool
					loading.Go(func() { load("third", 1_000_000, over.Load) })
					putBack()
					// A session that a deadlock with the putting back has ended has nothing to notice.
					b.eventually("it has noticed", func() bool {
						return e.log.has("follower starts over", "follower=store") || e.log.has("follower failed", "follower=store", "Deadlock")
					})
					over.Store(true)
					loading.Wait()
				}
				load("last", 5, never)
				b.eventually("all is there", func() bool { return b.count("events") >= int(written.Load()) })
				e.stop()
				b.checkCounts("events", int(written.Load()), 0)
				if e.log.speaksOfAGap() {
					b.Error("it speaks of a gap")
				}
			})
		})
	}
}

func before(round int) string {
	if round == 0 {
		return ""
	}
	return after(round - 1)
}

func after(round int) string { return fmt.Sprint(round + 1) }

// TestTheMarginIsBounded: more than there is room for is not kept, and what is
// covered says so.
func TestTheMarginIsBounded(t *testing.T) {
	b := newBed(t, "sqlite")
	e := start(b, setup{partitions: 1})
	entry := sluice.AppendEvent(sluice.NewBatch(64), &sluice.Event{Kind: sluice.KindCustom, TimeMillis: 1700000000000, Name: "wide", Properties: `{"text":"` + strings.Repeat("x", 6000) + `"}`})
	const entries = 4_000 // 24 MB, of which 16 are kept
	source := 0
	var bytes int
	began := time.Now()
	for range entries / 100 {
		batches := make([][]byte, 10)
		for i := range batches {
			big := append([]byte(nil), entry...)
			for range 9 {
				big = append(big, entry[1:]...)
			}
			batches[i], bytes = big, bytes+len(big)
		}
		source++
		e.write(0, fmt.Sprint(source), batches...)
	}
	b.eventually("all is applied, and what is too much has gone", func() bool {
		n, err := e.logs[0].Entries(b.Context())
		return err == nil && n == 0 && b.count("events") > 0
	})
	last, err := e.logs[0].Last(b.Context())
	b.must(err)
	kept, _, err := e.logs[0].Applied(b.Context(), last, 1<<30)
	b.must(err)
	var all flow.Stretch
	for _, s := range kept {
		all.Bytes += s.Bytes
	}
	// What is applied stays for a minute: a busy machine may have stored much before.
	quick := time.Since(began) < 50*time.Second
	if all.Bytes > 16<<20 || quick && all.Bytes < 8<<20 || bytes < 20<<20 {
		b.Errorf("%d bytes of %d are kept; want nearly 16 MiB", all.Bytes, bytes)
	}
	if covers := e.stats.Margins(); len(covers) != 1 || quick && covers[0] > 59e9 {
		b.Errorf("covered are %v; want less than a minute", covers)
	}
	e.stop()
	e = start(b, setup{partitions: 1})
	if covers := e.covers(); quick && time.Since(began) < 55*time.Second && covers > 59e9 {
		b.Errorf("a process that goes on says that %s are covered; want less than a minute", covers)
	}
	e.stop()
}

// covers is how far back the log of partition 0 is kept, as its process first says.
func (e *engine) covers() (covers time.Duration) {
	e.b.Helper()
	e.b.eventually("it says what is covered", func() (ok bool) {
		covers, ok = e.stats.Margins()[0]
		return ok
	})
	return covers
}

// TestAMarginIsToldRightlyAtOnce: a process that goes on reports a minute if
// nothing has gone for want of room. It reports nothing if there is no note, as
// in a version that kept nothing or in an emptied Redis. It also reports
// nothing if an older process had the lease in between, or Redis has lost the
// end of a log.
func TestAMarginIsToldRightlyAtOnce(t *testing.T) {
	b := newBed(t, "sqlite")
	makeTarget(b)
	s := setup{partitions: 1, lists: []listSetup{tableList("")}}
	var e *engine
	check := func(when string, least, most time.Duration) {
		b.Helper()
		e = start(b, s)
		var ofList time.Duration
		b.eventually("the list says what is covered", func() (ok bool) {
			ofList, ok = e.stats.ListMargins()["q"]
			return ok
		})
		for what, covers := range map[string]time.Duration{"log": e.covers(), "list": ofList} {
			if covers < least || covers > most {
				t.Errorf("%s, the %s says that %s are covered; want %s to %s", when, what, covers, least, most)
			}
		}
	}
	check("new", time.Minute, time.Minute)
	e.write(0, "test", named("1"))
	b.push("q", elements(0, 1)...)
	b.awaitSum("target", 1)
	b.awaitSum("events", 1)
	e.stop()
	check("at work before", time.Minute, time.Minute)
	e.stop()
	b.do("HDEL", strings.TrimSuffix(b.logKey(0), "log")+"sources", "@cut")
	b.do("HDEL", "sluice:{q}:list:q:state", "@cut")
	check("of another version before", 0, 50*time.Second)
	e.stop()
	noted := func() { // as if it were long ago
		b.Helper()
		b.do("HSET", strings.TrimSuffix(b.logKey(0), "log")+"sources", "@cut", "0")
		b.do("HSET", "sluice:{q}:list:q:state", "@cut", "0")
	}
	noted()
	check("again at work before", time.Minute, time.Minute)
	e.stop()
	noted()
	b.do("HINCRBY", strings.TrimSuffix(b.logKey(0), "log")+"lease:store", "number", "1")
	b.do("HINCRBY", "sluice:{q}:list:q:lease", "number", "1")
	check("an older one in between", 0, 50*time.Second)
	e.stop()
	noted()
	b.do("DEL", b.logKey(0))
	e = start(b, s)
	if covers := e.covers(); covers > 50*time.Second {
		t.Errorf("of a log that was raised it says that %s are covered", covers)
	}
	e.stop()
	b.do("DEL", "sluice:{q}:list:q:held:1")
	b.do("HSET", "sluice:{q}:list:q:state", "@cut", "0", "@raised", "0", "last", "0", "first", "1", "base", "0")
	e = start(b, s)
	b.eventually("the list says what is covered", func() bool {
		covers, ok := e.stats.ListMargins()["q"]
		if covers > 50*time.Second {
			t.Errorf("of a list whose chunks are gone it says that %s are covered", covers)
		}
		return ok
	})
	e.stop()
}

// TestAGapIsAcceptedWhileItRuns: what stands still is listed with what is lost, and
// goes on when that is accepted, without a restart; another gap is another matter.
func TestAGapIsAcceptedWhileItRuns(t *testing.T) {
	b := newBed(t, "sqlite")
	makeTarget(b)
	list := tableList("")
	list.name = "rows"
	for chunk := 1; chunk <= 3; chunk++ {
		b.hold("rows", chunk, fmt.Sprintf(`{"id":%d}`, chunk))
	}
	b.do("DEL", "sluice:{rows}:list:rows:held:2")
	e := newEngine(b, setup{lists: []listSetup{list}})
	at := e.write(1, "test", named("1"), named("2"), named("3"), named("4"))
	b.do("XTRIM", b.logKey(1), "MINID", at[2].String())
	sources := strings.TrimSuffix(b.logKey(1), "log") + "sources"
	b.do("HSET", sources, "@removed", "2")
	b.do("RPUSH", strings.TrimSuffix(b.logKey(1), "log")+"removed", at[2].String()+" 2")
	e.run()
	gaps := flow.Gaps{Redis: e.redis}
	var found []flow.Gap
	b.eventually("both are listed", func() bool {
		var err error
		found, err = gaps.List(b.Context())
		b.must(err)
		return len(found) == 2
	})
	if g := found[1]; g.What != "log of partition 1" || g.Start != at[1] || g.Lost.String() != "about 2 entries" {
		t.Errorf("listed: %+v, %s", g, g.Lost)
	}
	other := found[1]
	other.Start.Major++
	b.must(gaps.Accept(b.Context(), &other)) // of another gap, which is not there
	e.write(0, "other", named("5"))
	b.awaitSum("events", 1)
	if found, err := gaps.List(b.Context()); err != nil || len(found) != 2 {
		t.Fatalf("%+v, %v; want both to stand still", found, err)
	}
	for i := range found {
		b.must(gaps.Accept(b.Context(), &found[i]))
	}
	b.awaitSum("events", 3)
	b.eventually("the list goes on", func() bool { return b.count("target") == 2 })
	b.eventually("nothing is listed any more", func() bool {
		found, err := gaps.List(b.Context())
		return err == nil && len(found) == 0
	})
	e.stop()
	b.checkCounts("events", 3, 0)
	if !e.log.has("gap accepted", "partition=1", "about 2 entries") {
		t.Error("it is not told how much is lost")
	}
}

// TestWhatIsLostIsCounted: of what was applied and removed, behind a cursor.
func TestWhatIsLostIsCounted(t *testing.T) {
	b := newBed(t, "sqlite")
	e := newEngine(b, setup{partitions: 1})
	var at []sluice.Position
	for i := range 4 { // ten seconds apart, as their ids go
		_, err := e.logs[0].Raise(b.Context(), sluice.Position{Major: uint64(time.Now().Add(time.Hour).UnixMilli() + int64(i)*10_000)})
		b.must(err)
		at = append(at, e.write(0, fmt.Sprint("s", i), named("a"), named("b"))...)
	}
	leases := flow.NewLeases(e.redis, e.store, slog.New(slog.DiscardHandler))
	leases.AddPartitions("test", e.redis, flow.Partitions(1))
	ctx, stop := context.WithCancel(b.Context())
	var leasing sync.WaitGroup
	leasing.Go(func() { _ = leases.Run(ctx) })
	defer leasing.Wait()
	defer stop()
	var lease *flow.Lease
	b.eventually("the lease is held", func() bool {
		held, _ := leases.Held("test")
		lease = held[0]
		return lease != nil
	})
	if lost, err := e.logs[0].Lost(b.Context(), at[0]); err != nil || lost.Known {
		t.Errorf("before anything was removed: %s, %v", lost, err)
	}
	for _, keep := range []int{2, 4, 6} {
		_, err := e.logs[0].Trim(b.Context(), lease, at[keep])
		b.must(err)
	}
	for cursor, want := range map[int]string{0: "about 10 entries", 2: "6 entries at most", 3: "6 entries at most", 4: "3 entries at most", 6: "0 entries at most"} {
		if lost, err := e.logs[0].Lost(b.Context(), at[cursor]); err != nil || lost.String() != want {
			t.Errorf("behind entry %d: %s, %v; want %s", cursor, lost, err, want)
		}
	}
}

// refusing is a store that stores no outcomes.
type refusing struct {
	store.Store
	store.JourneyStore
	usersToo
	refused chan struct{} // gets one when it does so
}

type usersToo = user.Store

func (r *refusing) Apply(ctx context.Context, p store.Prepared) (store.Applied, error) {
	if len(p.Effect().Outcomes) > 0 {
		select {
		case r.refused <- struct{}{}:
		default:
		}
		return store.Applied{}, errors.New("refused")
	}
	return r.Store.Apply(ctx, p)
}

// TestACrashBehindAGap: a gap is accepted, and the process dies before it has stored
// what lies behind it. The process that goes on knows that rows may be lost.
// Outcomes of such rows make them anew, up to an hour after the log's end at
// that time, and become no dead letters.
func TestACrashBehindAGap(t *testing.T) {
	b := newBed(t, "sqlite")
	r := &refusing{refused: make(chan struct{}, 1)}
	first := newEngine(b, setup{partitions: 1, acceptGaps: true, store: func(s store.Store) store.Store {
		r.Store, r.JourneyStore, r.usersToo = s, s.(store.JourneyStore), s.(user.Store)
		return r
	}})
	writer := flow.NewWriter(first.logs, "first", 1<<20)
	outcome := func() string {
		t.Helper()
		o := &mail.Outcome{Message: sluice.NewMessageID(time.Now().UnixMilli()), Recipients: 1, Was: mail.SendWaiting, State: mail.SendSent, TimeMillis: time.Now().UnixMilli(), Attempts: 1, To: "ann@example.com"}
		b.must(writer.Write(b.Context(), flow.Part{Items: mail.AppendOutcome(nil, o), Count: 1}))
		return o.Message
	}
	first.write(0, "test", named("1"))
	lost := outcome()
	at, err := first.logs[0].Last(b.Context())
	b.must(err)
	outcome()
	outcome()
	b.do("XTRIM", b.logKey(0), "MINID", at.String())
	first.run()
	<-r.refused
	first.abort()
	second := newEngine(b, setup{partitions: 1})
	second.run()
	b.eventually("what lies behind the gap is stored", func() bool { return b.count("sends")+b.count("dead_letters") == 3 })
	writer = flow.NewWriter(second.logs, "second", 1<<20)
	tail, err := second.logs[0].Last(b.Context())
	b.must(err)
	late := fmt.Sprintf("%d-1", time.Now().Add(2*time.Hour).UnixMilli())
	b.do("XADD", b.logKey(0), late, "prev", tail.String(), "batch", string(named("2")))
	b.do("HSET", strings.TrimSuffix(b.logKey(0), "log")+"sources", "@tail", late)
	outcome() // nothing is said of the rows of those that come an hour later
	b.eventually("a later one is a dead letter", func() bool { return b.count("dead_letters") == 1 })
	if rows := b.query("SELECT state FROM sends WHERE message = '" + lost + "'"); len(rows) != 1 {
		t.Errorf("the row of %s: %v", lost, rows)
	}
	if n := b.count("sends"); n != 3 {
		t.Errorf("%d rows, want 3", n)
	}
}

// A server of a cluster that is nearly full keeps nothing of what is applied, and the
// others keep theirs, whichever of them has the first partition.
func TestANearlyFullServerKeepsNothing(t *testing.T) {
	b := newBed(t, "sqlite")
	c, err := servers.StartRedisCluster(t.Context(), servers.ClusterOptions{Dir: t.TempDir(), Masters: 3})
	b.must(err)
	t.Cleanup(func() { _ = c.Close() })
	e := start(b, setup{redis: c.URL()})
	on, of := make(map[*servers.Redis][]int), make(map[int]*servers.Redis) // partitions
	for p, partition := range flow.Partitions(testPartitions) {
		slot, err := c.SlotOf(partition.AlertsKey())
		b.must(err)
		of[p] = c.MasterOf(slot)
		on[of[p]] = append(on[of[p]], p)
	}
	keeps := func(p int) bool {
		last, err := e.logs[p].Last(b.Context())
		b.must(err)
		kept, _, err := e.logs[p].Applied(b.Context(), last, 1<<30)
		b.must(err)
		return len(kept) > 0
	}
	full, events := make(map[*servers.Redis]bool), 0
	for p := testPartitions - 1; p >= 0; p-- { // the server of the first partition last
		if server := of[p]; full[server] || server == of[0] && p > 0 {
			continue
		}
		for other, server := range of {
			if !full[server] {
				e.write(other, fmt.Sprint("before ", p), named("1")) // what is kept is new
				events++
			}
		}
		b.awaitSum("events", events)
		nearlyFill(b, of[p])
		full[of[p]] = true
		for _, p := range on[of[p]] {
			b.eventually(fmt.Sprintf("partition %d keeps nothing", p), func() bool { return !keeps(p) })
		}
		for other, server := range of {
			if !full[server] && !keeps(other) {
				t.Errorf("partition %d keeps nothing, and its server is not full: %v", other, on)
			}
		}
	}
	if len(full) < 2 {
		t.Error("all partitions are on one server: this test shows nothing")
	}
	e.stop()
}

// nearlyFill gives a server a bound of memory that is not much above what it uses.
func nearlyFill(b *bed, server *servers.Redis) {
	b.Helper()
	option, err := rueidis.ParseURL(server.URL())
	b.must(err)
	option.DisableCache, option.ForceSingleClient = true, true
	r, err := rueidis.NewClient(option)
	b.must(err)
	defer r.Close()
	info, err := r.Do(b.Context(), r.B().Info().Section("memory").Build()).ToString()
	b.must(err)
	_, text, _ := strings.Cut(info, "used_memory:")
	used, err := strconv.Atoi(strings.TrimSpace(strings.SplitN(text, "\n", 2)[0]))
	b.must(err)
	b.must(r.Do(b.Context(), r.B().ConfigSet().ParameterValue().ParameterValue("maxmemory", strconv.Itoa(used*100/92)).Build()).Error())
}
