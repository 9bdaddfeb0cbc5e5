package spool_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"sluice"
	"sluice/flow"
	"sluice/mail"
	"sluice/mail/spool"
	"sluice/store"
	"sluice/test/proxy"
	"sluice/test/servers"
	"sluice/test/spooltest"
)

// valve lets nothing pass until it is opened.
type valve struct {
	spooltest.OneRoute
	open atomic.Bool
}

func (v *valve) Takes(t mail.Transport, s *mail.Send, passed []mail.Transport, now time.Time) spool.Take {
	if !v.open.Load() {
		return spool.Take{Wait: 10 * time.Millisecond}
	}
	return v.OneRoute.Takes(t, s, passed, now)
}

// inTheLedger hands messages in and waits until they are there.
func (o *office) inTheLedger(from, count int, class mail.Class) (ids []string) {
	o.b.Helper()
	for i := range count {
		ids = append(ids, o.submit(draft(fmt.Sprintf("u%d@example.com", from+i), mail.PriorityNormal, class))...)
	}
	o.b.eventually("they are in the ledger", func() bool {
		rows, err := o.store.MessageSends(o.b.Context(), ids[len(ids)-1])
		o.b.must(err)
		return len(rows) == 1
	})
	return ids
}

// found adds up what the comparisons have found; all: in every partition.
func (o *office) found() (sum spool.Found, all bool) {
	o.b.Helper()
	all = true
	for _, l := range o.lanes {
		text, _, due, err := l.Found(o.b.Context())
		o.b.must(err)
		var f spool.Found
		if text == "" || due || json.Unmarshal([]byte(text), &f) != nil {
			all = false
		}
		sum.Add(f)
	}
	return sum, all
}

// wantOnce fails if something was on the wire more than once.
func (w *wire) wantOnce(t *testing.T) {
	t.Helper()
	for send, n := range w.times() {
		if n != 1 {
			t.Errorf("%s was on the wire %d times", send, n)
		}
	}
}

// replicated starts a Redis, its replica, and what leads to the first of them.
func replicated(t *testing.T) (master, replica *servers.Redis, way *proxy.Proxy) {
	t.Helper()
	start := func(extra ...string) *servers.Redis {
		r, err := servers.StartRedis(t.Context(), servers.RedisOptions{Dir: filepath.Join(t.TempDir(), "r"), AppendFsync: "no", Listen: "tcp", Extra: extra})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = r.Kill() })
		return r
	}
	master = start()
	host, port := "127.0.0.1", portOf(t, master)
	replica = start("--replicaof", host, port)
	way, err := proxy.New("tcp", master.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = way.Close() })
	return master, replica, way
}

// lock is a store whose transactions do not end while it is shut.
type lock struct {
	store.Store
	shut atomic.Bool
	open chan struct{}
	held atomic.Int64 // transactions that wait
}

func (l *lock) Apply(ctx context.Context, p store.Prepared) (store.Applied, error) {
	if l.shut.Load() {
		l.held.Add(1)
		select {
		case <-l.open:
		case <-ctx.Done():
		}
	}
	return l.Store.Apply(ctx, p)
}

// asked counts what the ledger is asked.
type asked struct {
	spool.Record
	cursors, keys atomic.Int64
}

func (a *asked) Cursors(ctx context.Context, follower string, partitions []int) (map[int]sluice.Position, error) {
	a.cursors.Add(1)
	return a.Record.Cursors(ctx, follower, partitions)
}

func (a *asked) LaneKeys(ctx context.Context, partition int, after mail.SendKey, limit int) ([]mail.LaneKey, error) {
	a.keys.Add(1)
	return a.Record.LaneKeys(ctx, partition, after, limit)
}

// TestWhatCommitsAfterTheMoveIsCompared: sends are queued on a Redis that goes back
// while the transaction is open that has their rows. The rows come after the lanes
// are read anew, in which they are not: they are in doubt, and none waits for ever.
func TestWhatCommitsAfterTheMoveIsCompared(t *testing.T) {
	master, replica, way := replicated(t)
	b := newBedOn(t, "redis://"+way.Addr())
	o := b.open(&valve{OneRoute: spooltest.OneRoute{Transport: newWire(nil)}}, nil)
	l := &lock{Store: o.store, open: make(chan struct{})}
	asked := &asked{Record: o.store}
	o.stored.Store, o.sender.Record = l, asked
	o.run()
	const before, messages = 10, 20
	o.inTheLedger(0, before, mail.ClassTransactional)
	other := must(rueidis.NewClient(plainOption(replica.URL())))
	defer other.Close()
	b.eventually("the replica has what waits", func() bool { return o.waitingOn(replica.URL()) == before })
	b.must(other.Do(t.Context(), other.B().Arbitrary("REPLICAOF", "NO", "ONE").Build()).Error()) // it hears nothing more
	l.shut.Store(true)
	for i := range messages {
		o.submit(draft(fmt.Sprintf("late%d@example.com", i), mail.PriorityNormal, mail.ClassTransactional))
	}
	b.eventually("they are queued, and a transaction is open", func() bool { return o.waiting() == before+messages && l.held.Load() > 0 })
	way.Redirect("tcp", replica.Addr())
	b.must(master.Kill())
	way.Cut()
	b.eventually("the comparison waits for the transaction, or has not", func() bool { return asked.cursors.Load() > 20 || asked.keys.Load() >= testPartitions })
	l.shut.Store(false)
	close(l.open)
	b.eventually("what is in no lane is in doubt", func() bool { // but what no transaction had yet is lost with the master
		totals := o.totals()
		return strings.HasPrefix(totals, fmt.Sprintf("waiting %d,", before)) && strings.Contains(totals, "in_doubt ")
	})
}

// TestADatabaseOfBeforeUnderTodaysRedis: the database is put back to before mail
// was sent, and what the logs had of that is gone but for its end. Nothing waits for
// ever: what the logs say is known, also of mail that the database has lost, and
// what nobody knows is in doubt. It happens under a program that runs.
func TestADatabaseOfBeforeUnderTodaysRedis(t *testing.T) {
	const before, later, slow = 10, 6, 12
	b := newBed(t)
	answer := make(chan struct{})
	answered := sync.OnceFunc(func() { close(answer) })
	t.Cleanup(answered)
	w := newWire(func(e *mail.Envelope, _ int) mail.Result {
		if strings.HasPrefix(e.To, "slow") {
			<-answer
		}
		return mail.Result{Kind: mail.ResultSent, Code: 250}
	})
	w.window, w.workers = 1, slow+3
	v := &valve{OneRoute: spooltest.OneRoute{Transport: w}}
	o := b.startRoutes(v, nil)
	o.inTheLedger(0, before, mail.ClassMarketing)
	file := filepath.Join(t.TempDir(), "kept.db")
	db := b.sqlite()
	db.SetMaxOpenConns(1)
	do := func(statements ...string) {
		t.Helper()
		for _, s := range statements {
			if _, err := db.ExecContext(t.Context(), s); err != nil {
				t.Fatalf("%s: %v", s, err)
			}
		}
	}
	do("ATTACH '"+file+"' AS kept", "CREATE TABLE kept.sends AS SELECT * FROM sends", "CREATE TABLE kept.send_totals AS SELECT * FROM send_totals",
		"CREATE TABLE kept.cursors AS SELECT * FROM cursors")
	v.open.Store(true)
	b.eventually("all are sent", func() bool { return o.totals() == fmt.Sprint("sent ", before) })
	for i := range slow { // they are on the wire until the gaps are accepted
		o.submit(draft(fmt.Sprintf("slow%d@example.com", i), mail.PriorityNormal, mail.ClassMarketing))
	}
	b.eventually("they are on the wire", func() bool { return len(w.came()) == before+slow })
	for i := range later {
		o.submit(draft(fmt.Sprintf("later%d@example.com", i), mail.PriorityNormal, mail.ClassMarketing))
	}
	b.eventually("these too", func() bool { return o.totals() == fmt.Sprintf("waiting %d, sent %d", slow, before+later) })
	raw := must(rueidis.NewClient(plainOption(b.redis)))
	defer raw.Close()
	for _, l := range o.logs { // more than they keep has passed, but for the newest
		last := must(l.Last(t.Context()))
		for _, p := range flow.Partitions(testPartitions) {
			if p.Number == l.Partition() && !last.IsZero() {
				keys := must(raw.Do(t.Context(), raw.B().Keys().Pattern(fmt.Sprintf("sluice:{p%d.*}:log", p.Number)).Build()).AsStrSlice())
				b.must(raw.Do(t.Context(), raw.B().Arbitrary("XTRIM", keys[0], "MINID", last.String()).Build()).Error())
			}
		}
	}
	do("BEGIN IMMEDIATE", "DELETE FROM sends", "INSERT INTO sends SELECT * FROM kept.sends", "DELETE FROM send_totals", "INSERT INTO send_totals SELECT * FROM kept.send_totals",
		"DELETE FROM cursors WHERE follower = 'store'", "INSERT INTO cursors SELECT * FROM kept.cursors WHERE follower = 'store'", "COMMIT")
	gaps := flow.Gaps{Redis: o.redis}
	told := false
	b.eventually("the gaps are told, and accepted, and nothing waits any more", func() bool {
		found, err := gaps.List(t.Context())
		b.must(err)
		for i := range found {
			b.must(gaps.Accept(t.Context(), &found[i]))
		}
		if told = told || len(found) > 0; told && len(found) == 0 {
			answered() // after the ends of the logs were noted
		}
		totals := o.totals()
		return !strings.Contains(totals, "waiting") && strings.Contains(totals, "in_doubt") && len(found) == 0
	})
	if dead := must(o.store.CountDeadLetters(t.Context())); dead != 0 {
		t.Errorf("%d dead letters; want outcomes of lost rows to be known", dead)
	}
	w.wantOnce(t)
	if check := must(o.store.CheckLedger(t.Context())); check.OffBy() != 0 {
		t.Errorf("the ledger does not add up: %+v", check)
	}
}

// TestALaggingReplicaTakesOver: the marks of all that was sent are lost with the
// master, and its replica has it waiting. What the ledger knows is not sent again.
func TestALaggingReplicaTakesOver(t *testing.T) {
	master, replica, way := replicated(t)
	b := newBedOn(t, "redis://"+way.Addr())
	w := newWire(nil)
	v := &valve{OneRoute: spooltest.OneRoute{Transport: w}}
	o := b.startRoutes(v, nil)
	const messages = 100
	o.inTheLedger(0, messages, mail.ClassTransactional)
	b.eventually("all wait", func() bool { return o.waiting() == messages && o.totals() == "waiting 100" })
	other := must(rueidis.NewClient(plainOption(replica.URL())))
	defer other.Close()
	lanes := flow.NewLog(must(flow.Dial(t.Context(), replica.URL())), flow.Partitions(testPartitions)[0]).Lanes()
	b.eventually("the replica has what waits", func() bool {
		here, err := o.lanes[0].Waiting(t.Context())
		b.must(err)
		there, err := lanes.Waiting(t.Context())
		b.must(err)
		return fmt.Sprint(here) == fmt.Sprint(there)
	})
	b.must(other.Do(t.Context(), other.B().Arbitrary("REPLICAOF", "NO", "ONE").Build()).Error()) // it hears nothing more
	v.open.Store(true)
	b.eventually("all are sent, and the ledger knows", func() bool { return o.totals() == "sent 100" })
	v.open.Store(false)
	way.Redirect("tcp", replica.Addr())
	b.must(master.Kill())
	way.Cut()
	b.eventually("the lanes are compared", func() bool {
		found, all := o.foundOn(replica.URL())
		return all && found.Ended == messages
	})
	v.open.Store(true)
	b.eventually("nothing waits any more", func() bool { return o.waitingOn(replica.URL()) == 0 })
	w.wantOnce(t)
	if got := o.totals(); got != "sent 100" {
		t.Errorf("the ledger has %s", got)
	}
}

func portOf(t *testing.T, r *servers.Redis) string {
	t.Helper()
	addr := r.Addr()
	return addr[len("127.0.0.1:"):]
}

// onTheWire is an office on a Redis of its own, whose mails stay on the wire until move.
type onTheWire struct {
	*office
	b    *bed
	w    *wire
	v    *valve
	move func()
}

func newOnTheWire(t *testing.T) *onTheWire {
	t.Helper()
	server, err := servers.StartRedis(t.Context(), servers.RedisOptions{Dir: filepath.Join(t.TempDir(), "r"), AppendFsync: "no"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Kill() })
	moved := make(chan struct{})
	x := &onTheWire{b: newBedOn(t, server.URL()), move: sync.OnceFunc(func() { close(moved) })}
	x.w = newWire(func(*mail.Envelope, int) mail.Result {
		<-moved
		return mail.Result{Kind: mail.ResultSent}
	})
	x.v = &valve{OneRoute: spooltest.OneRoute{Transport: x.w}}
	x.v.open.Store(true)
	x.office = x.b.startRoutes(x.v, nil)
	t.Cleanup(x.move)
	return x
}

// TestWhatWasOnTheWireIsRecordedAfterAMove: the mark of a mail that is on the wire
// is lost with the master, and its replica has it waiting. What becomes of it is
// recorded there, and it is not sent again.
func TestWhatWasOnTheWireIsRecordedAfterAMove(t *testing.T) {
	o := newOnTheWire(t)
	b, w, v, move := o.b, o.w, o.v, o.move
	o.inTheLedger(0, 1, mail.ClassMarketing)
	b.eventually("it is on the wire", func() bool { return len(w.came()) == 1 })
	v.open.Store(false)
	b.goBack("states", "marks")
	move()
	b.eventually("it is recorded", func() bool { return o.totals() == "sent 1" })
	v.open.Store(true)
	b.eventually("nothing waits", func() bool { return o.waiting() == 0 })
	w.wantOnce(t)
}

// TestTheRecordIsLookedUpAfterAMove: a process that still has the log of before
// may write to the ledger even after the comparison. What it wrote is not sent
// again.
func TestTheRecordIsLookedUpAfterAMove(t *testing.T) {
	b := newBed(t)
	w := newWire(nil)
	v := &valve{OneRoute: spooltest.OneRoute{Transport: w}}
	first := b.startRoutes(v, nil)
	ids := first.inTheLedger(0, 20, mail.ClassTransactional)
	first.stop()
	second := b.open(v, nil)
	second.compareAgain()
	second.run()
	b.eventually("lanes and ledger are compared", func() bool { _, all := second.found(); return all })
	late := store.Effect{}
	for _, id := range ids[:7] {
		late.Outcomes = append(late.Outcomes, mail.StoredOutcome{Outcome: mail.Outcome{
			Message: id, Recipients: 1, Was: mail.SendWaiting, State: mail.SendSent, TimeMillis: time.Now().UnixMilli(), Attempts: 1, Route: "wire", Code: 250,
		}})
	}
	prepared, err := second.store.Prepare(&late)
	b.must(err)
	_, err = second.store.Apply(t.Context(), prepared)
	b.must(err)
	v.open.Store(true)
	b.eventually("nothing waits", func() bool { return second.waiting() == 0 && second.totals() == "sent 20" })
	w.wantOnce(t)
	for _, id := range ids[:7] {
		if w.times()[id+".0"] != 0 {
			t.Errorf("%s had been sent, and was sent again", id)
		}
	}
}

// TestAnEmptyRedisTakesOver: what waits in the ledger and in no lane is in doubt,
// and stays so; what comes after it is sent.
func TestAnEmptyRedisTakesOver(t *testing.T) {
	b := newBed(t)
	w := newWire(nil)
	v := &valve{OneRoute: spooltest.OneRoute{Transport: w}}
	first := b.startRoutes(v, nil)
	large := draft("large@example.com", mail.PriorityNormal, mail.ClassTransactional)
	large.Content = append(large.Content, make([]byte, 2*mail.MaxInlineBytes)...)
	scheduled := draft("later@example.com", mail.PriorityNormal, mail.ClassMarketing)
	scheduled.DueMillis = time.Now().Add(time.Hour).UnixMilli()
	lost := first.submit(large, scheduled)
	lost = append(lost, first.inTheLedger(0, 30, mail.ClassTransactional)...)
	b.eventually("all wait", func() bool { return first.totals() == "waiting 32" })
	first.stop()
	raw := must(rueidis.NewClient(plainOption(b.redis)))
	defer raw.Close()
	b.must(raw.Do(t.Context(), raw.B().Flushall().Build()).Error())
	b.tap()
	second := b.startRoutes(v, nil)
	v.open.Store(true)
	b.eventually("they are in doubt", func() bool { return second.totals() == "in_doubt 32" })
	second.inTheLedger(1000, 10, mail.ClassMarketing)
	b.eventually("what comes after it is sent", func() bool { return second.totals() == "sent 10, in_doubt 32" })
	w.wantOnce(t)
	if n := len(w.times()); n != 10 {
		t.Errorf("%d sends were on the wire, want the 10 new ones", n)
	}
	left, err := second.store.Bodies(t.Context(), lost, 0)
	b.must(err)
	if len(left) != 1 {
		t.Errorf("%d contents are kept for the decision, want the large one", len(left))
	}
	if found, all := second.found(); !all || found.Doubt != 32 || found.Known != 0 {
		t.Errorf("found %+v, in all partitions: %v", found, all)
	}
}

// foundOn is found on another Redis than the office's.
func (o *office) foundOn(url string) (spool.Found, bool) {
	o.b.Helper()
	other, done := o.on(url)
	defer done()
	return other.found()
}

func (o *office) waitingOn(url string) int64 {
	o.b.Helper()
	other, done := o.on(url)
	defer done()
	return other.waiting()
}

func (o *office) on(url string) (*office, func()) {
	o.b.Helper()
	r, err := flow.Dial(o.b.Context(), url)
	o.b.must(err)
	other := &office{b: o.b}
	for _, p := range flow.Partitions(testPartitions) {
		other.lanes = append(other.lanes, flow.NewLog(r, p).Lanes())
	}
	return other, r.Close
}

// TestWhatWaitsEndsWithoutItsTurn: the head of a lane that nothing passes is emptied of
// what is cancelled and of what has expired, in lanes, sublanes, and later.
func TestWhatWaitsEndsWithoutItsTurn(t *testing.T) {
	b := newBed(t)
	w := newWire(nil)
	v := &valve{OneRoute: spooltest.OneRoute{Transport: w}}
	aside := &gated{OneRoute: spooltest.OneRoute{Transport: w}, domain: "aside.example"}
	o := b.startRoutes(both{v, aside}, nil)
	soon := time.Now().Add(2 * time.Second)
	var drafts []mail.Draft
	for i := range 40 {
		d := draft(fmt.Sprintf("u%d@example.com", i), mail.PriorityNormal, mail.ClassMarketing)
		switch i % 4 {
		case 0:
			d.ExpiresMillis = soon.UnixMilli()
		case 1:
			d.To = []string{fmt.Sprintf("u%d@aside.example", i)} // it moves to a sublane
			d.ExpiresMillis = soon.UnixMilli()
		case 2:
			d.DueMillis, d.ExpiresMillis = soon.UnixMilli(), soon.Add(time.Millisecond).UnixMilli() // later, and over when it is due
		case 3:
			d.Tags = []string{"spring"}
		}
		drafts = append(drafts, d)
	}
	o.submit(drafts...)
	b.eventually("three quarters expire", func() bool { return o.totals() == "waiting 10, failed 30" })
	for _, out := range b.outcomes() {
		if out.State == mail.SendFailed && out.Reason != "timed_out" {
			t.Errorf("%+v", out)
		}
	}
	op := &spool.Operator{Redis: o.redis, Writer: o.writer, Lanes: o.lanes, Ledger: o.store, Partitions: testPartitions, Clock: sluice.SystemClock{}}
	spring, err := mail.NewSelector(mail.SelectTag, "spring")
	b.must(err)
	other, err := mail.NewSelector(mail.SelectTag, "autumn")
	b.must(err)
	purge := func(s mail.Selector, most int, count bool) (total int) {
		for after := ""; ; {
			n, next, err := op.Purge(t.Context(), s, after, most, count)
			b.must(err)
			if total += n; next == "" {
				return total
			}
			after = next
		}
	}
	if n := purge(other, 100, false); n != 0 {
		t.Errorf("%d of another tag were purged", n)
	}
	if n := purge(spring, 3, true); n != 10 {
		t.Errorf("%d are counted, want 10", n)
	}
	if n := purge(spring, 3, false); n != 10 {
		t.Errorf("%d are purged, want 10", n)
	}
	b.eventually("they are cancelled", func() bool { return o.totals() == "failed 30, cancelled 10" })
	b.eventually("they have left the lanes", func() bool { return o.waiting() == 0 })
	if came := w.came(); len(came) != 0 {
		t.Errorf("attempted: %v", came)
	}
	if !slices.ContainsFunc(b.outcomes(), func(out mail.Outcome) bool {
		return out.State == mail.SendCancelled && out.Reason == "purged"
	}) {
		t.Error("nothing says that they were purged")
	}
}

// both asks a valve about what others do not move aside.
type both struct {
	*valve
	aside spool.Routes
}

func (r both) Takes(t mail.Transport, s *mail.Send, passed []mail.Transport, now time.Time) spool.Take {
	if take := r.aside.Takes(t, s, passed, now); take.Lane != "" {
		return take
	}
	return r.valve.Takes(t, s, passed, now)
}

// TestUrgentMailDoesNotWaitForTheComparison: urgent mail leaves while the rest
// is compared, except what the ledger has as ended. What moved meanwhile is not
// taken for lost.
func TestUrgentMailDoesNotWaitForTheComparison(t *testing.T) {
	t.Cleanup(spool.ComparePage(3)) // several pages; when nothing runs any more
	b := newBed(t)
	deferred := "deferred@example.com"
	w := newWire(func(e *mail.Envelope, _ int) mail.Result {
		if e.To == deferred {
			return mail.Result{Kind: mail.ResultDeferred, Code: 451}
		}
		return mail.Result{Kind: mail.ResultSent, Code: 250}
	})
	v := &valve{OneRoute: spooltest.OneRoute{Transport: w}}
	first := b.startRoutes(v, nil)
	urgent := func(o *office, to string) string {
		return o.submit(draft(to, mail.PriorityHigh, mail.ClassTransactional))[0]
	}
	var known []string
	for i := range 20 {
		known = append(known, urgent(first, fmt.Sprintf("urgent%d@example.com", i)))
	}
	urgent(first, deferred)
	first.inTheLedger(0, 50, mail.ClassTransactional)
	b.eventually("all wait", func() bool { return first.totals() == "waiting 71" && first.waiting() == 71 })
	first.stop()

	// Five of them have ended, and two are in no lane.
	second := b.open(v, nil)
	second.compareAgain()
	var past store.Effect
	for _, id := range known[:5] {
		past.Outcomes = append(past.Outcomes, mail.StoredOutcome{Outcome: mail.Outcome{
			Message: id, Recipients: 1, Was: mail.SendWaiting, State: mail.SendSent, TimeMillis: time.Now().UnixMilli(), Attempts: 1, Route: "wire", Code: 250,
		}})
	}
	for i := range 2 {
		past.Sends = append(past.Sends, mail.StoredSend{Send: mail.Send{
			Message: sluice.NewMessageID(time.Now().UnixMilli()), Recipients: 1, Priority: mail.PriorityHigh, Class: mail.ClassTransactional, To: fmt.Sprintf("lost%d@example.com", i), AcceptedMillis: time.Now().UnixMilli(),
		}, Place: sluice.Place{Partition: i}})
	}
	prepared, err := second.store.Prepare(&past)
	b.must(err)
	_, err = second.store.Apply(t.Context(), prepared)
	b.must(err)
	gated := &gatedRecord{Record: second.store, gate: make(chan struct{})}
	second.sender.Record = gated
	v.open.Store(true)
	second.run()
	urgent(second, "new@example.com")
	b.eventually("what is urgent has left", func() bool { return len(w.times()) == 17 }) // 15, one that is deferred, a new one
	b.eventually("the ledger knows", func() bool { return second.totals() == "waiting 53, sent 21" })
	if _, all := second.found(); all {
		t.Error("all is compared already: this test shows nothing")
	}
	close(gated.gate)
	b.eventually("all else has left", func() bool { return second.totals() == "waiting 1, sent 71, in_doubt 2" })
	w.wantOnce(t)
	for _, id := range known[:5] {
		if w.times()[id+".0"] != 0 {
			t.Errorf("%s had been sent, and was sent again", id)
		}
	}
	if found, all := second.found(); !all || found.Doubt != 2 || found.Known != 0 || found.Ended != 5 {
		t.Errorf("found %+v, in all partitions: %v", found, all)
	}
	b.eventually("one waits in the lanes, which was deferred", func() bool { return second.waiting() == 1 })
}
