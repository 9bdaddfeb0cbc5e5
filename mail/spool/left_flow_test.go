package spool_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"sluice"
	"sluice/flow"
	"sluice/ingest"
	"sluice/mail"
	"sluice/mail/spool"
	"sluice/test/servers"
	"sluice/test/spooltest"
)

// TestWhatLeftBeforeAMoveIsSent: Redis goes back behind the mark of a mail that is on the
// wire, and the mail that waits there is cancelled. It has left: the ledger says so.
func TestWhatLeftBeforeAMoveIsSent(t *testing.T) {
	o := newOnTheWire(t)
	b, w, v, move := o.b, o.w, o.v, o.move
	id := o.inTheLedger(0, 1, mail.ClassMarketing)[0]
	b.eventually("it is on the wire", func() bool { return len(w.came()) == 1 })
	v.open.Store(false)
	b.goBack("states", "marks")
	if what, err := b.cancel(o.canceller(), id); err != nil || what.Cancelled != 1 {
		t.Fatalf("%+v, %v", what, err)
	}
	b.eventually("it is cancelled", func() bool { return o.totals() == "cancelled 1" })
	v.open.Store(true)
	b.eventually("nothing waits", func() bool { return o.waiting() == 0 })
	move()
	b.eventually("it is sent", func() bool { return o.totals() == "sent 1" })
	w.wantOnce(t)
}

// TestWhatLeftBeforeAMoveHasARow: Redis goes back behind the acceptance of a mail that is on
// the wire, and the ledger never had its row. It has left: the ledger gets the row, sent.
func TestWhatLeftBeforeAMoveHasARow(t *testing.T) {
	o := newOnTheWire(t)
	b := o.b
	o.inTheLedger(0, 1, mail.ClassMarketing)
	b.eventually("it is on the wire", func() bool { return len(o.w.came()) == 1 })
	o.v.open.Store(false)
	b.goBack("states", "marks", "lane:*", "waiting", "owed")
	db := b.sqlite()
	for _, statement := range []string{"DELETE FROM sends", "DELETE FROM send_totals"} {
		must(db.ExecContext(t.Context(), statement))
	}
	o.move()
	b.eventually("it is sent", func() bool { return o.totals() == "sent 1" })
	if dead := must(o.store.CountDeadLetters(t.Context())); dead != 0 {
		t.Errorf("%d dead letters; want the outcome of a mail without a row to be known", dead)
	}
	o.w.wantOnce(t)
}

// lostWord is a mail of which the replica has the mark, and what became of it is lost with the
// master. The replica has taken over.
type lostWord struct {
	b       *bed
	w       *wire
	v       *valve
	replica *servers.Redis
	clock   *shifted
	sender  *office // has attempted it
}

// only is a process of one role.
func (x *lostWord) only(role string) *office {
	o := x.b.open(x.v, nil)
	o.leases = flow.NewLeases(o.redis, o.store, slog.New(slog.DiscardHandler))
	o.leases.Beat, o.leases.Timeout = 100*time.Millisecond, 3*time.Second // a busy machine is no dead process
	o.leases.AddPartitions(role, o.redis, flow.Partitions(testPartitions))
	o.stored.Leases, o.sender.Leases, o.sender.Process = o.leases, o.leases, o.leases.ID()
	return o
}

// outlives has a process live whose sender may end: it marks in its name, and the process
// says of these marks what it knows. It is called before the sender runs.
func (x *lostWord) outlives(o *office) {
	lives := x.only("another")
	o.sender.Process = lives.leases.ID()
	o.sender.SayMarks(lives.leases)
	ctx, stop := context.WithCancel(context.Background())
	lives.leasing.Go(func() { _ = lives.leases.Run(ctx) })
	x.b.Cleanup(func() {
		stop()
		lives.leasing.Wait()
	})
}

// packMarked puts a batch of one item into a lane of partition 0, marked by some process.
func (o *office) packMarked(lane string, batch []byte, evidence string, id func(*flow.LaneBatch) string) {
	o.b.Helper()
	o.pack(0, lane, 1, batch)
	o.leased(0, func(lease *flow.Lease) {
		l := o.lanes[0]
		start := must(l.Begin(o.b.Context(), lease, time.Now().UnixMilli()))
		o.b.must(l.WalkLanes(o.b.Context(), func(in string) bool { return in == lane }, func(b *flow.LaneBatch, _ bool) error {
			if _, others := start.States[b.Place()]; others {
				return nil
			}
			letters, err := l.Mark(o.b.Context(), lease, start.Server, evidence, []flow.LanePlace{{Batch: b}}, []string{id(b)})
			if err == nil && letters != "m" {
				err = fmt.Errorf("mark %s: %s", evidence, letters)
			}
			return err
		}))
	})
}

// TestMailOnTheWireOfAnotherProcess: Redis goes back while a process that lives has a mail on
// the wire, for longer than the time after which others decide. Its partition is another's.
// That one decides on what the first has done with, and leaves that mail alone.
func TestMailOnTheWireOfAnotherProcess(t *testing.T) {
	for _, class := range []mail.Class{mail.ClassTransactional, mail.ClassMarketing} {
		b := newBed(t)
		answered := make(chan struct{})
		to := inOnePartition([]string{"wire.example", "done.example"})
		w := newWire(func(e *mail.Envelope, n int) mail.Result {
			if e.To == to[0] && n == 1 {
				<-answered
			}
			return mail.Result{Kind: mail.ResultSent, Code: 250}
		})
		x := &lostWord{b: b, w: w, v: &valve{OneRoute: spooltest.OneRoute{Transport: w}}}
		x.v.open.Store(true)
		store := x.only(ingest.StoreRole)
		store.run()
		first := x.only(spool.Role)
		x.outlives(first)
		first.run()
		id := store.submit(draft(to[0], mail.PriorityNormal, class))[0]
		b.eventually("it is on the wire", func() bool { return len(w.came()) == 1 && store.totals() == "waiting 1" })
		first.stopLeases()
		first.leasing.Wait()
		now := time.Now().UnixMilli()
		done := mail.Send{
			Message: sluice.NewMessageID(now), Recipients: 1, Priority: mail.PriorityNormal, Class: class, Form: mail.ContentMIME,
			From: "shop@example.com", To: to[1], AcceptedMillis: now, ExpiresMillis: now + mail.DefaultExpiryMillis, Content: "Subject: hello\r\n\r\nhello\r\n",
		}
		store.packMarked(flow.LaneName(mail.PriorityNormal, class), mail.AppendSend(sluice.NewBatch(0), &done),
			fmt.Sprintf("%s|%d|wire|0", first.sender.Process, now), func(*flow.LaneBatch) string { return done.ID() })
		b.goBack()
		second, clock := x.only(spool.Role), &shifted{}
		second.sender.Clock, second.sender.DoubtAfter = clock, time.Minute
		second.run()
		b.eventually("lanes and ledger are compared", func() bool {
			_, all := second.found()
			return all && second.totals() == "waiting 2"
		})
		clock.by.Store(int64(spool.AfterMove + time.Minute))
		b.eventually("it is decided on what came back", func() bool {
			rows := must(store.store.MessageSends(t.Context(), done.Message))
			return len(rows) == 1 && rows[0].State != mail.SendWaiting
		})
		if row := must(store.store.MessageSends(t.Context(), id))[0]; row.State != mail.SendWaiting {
			t.Errorf("%v: what is on the wire is %s in the ledger, %q", class, row.State, row.Reply)
		}
		close(answered)
		want := map[mail.Class]string{mail.ClassTransactional: "sent 2", mail.ClassMarketing: "sent 1, in_doubt 1"}[class]
		b.eventually("all is recorded: "+want, func() bool { return second.waiting() == 0 && second.totals() == want })
		w.wantOnce(t)
		first.stop()
		second.stop()
		store.stop()
	}
}

// TestUnreadableMailOfAnotherProcess: what cannot be read, and was marked by a process that
// lives before Redis went back, becomes a dead letter when others decide on its marks.
func TestUnreadableMailOfAnotherProcess(t *testing.T) {
	b := newBed(t)
	x := &lostWord{b: b, w: newWire(nil), v: &valve{}}
	x.v.Transport = x.w
	store := x.only(ingest.StoreRole)
	store.run()
	lives := x.only(spool.Role)
	x.outlives(lives)
	batch := mail.AppendSend(sluice.NewBatch(0), &mail.Send{})
	batch[5] = 0xEE // no kind that there is
	store.packMarked(flow.LaneName(mail.PriorityNormal, mail.ClassMarketing), batch, fmt.Sprintf("%s|%d|wire|1", lives.sender.Process, time.Now().UnixMilli()),
		func(in *flow.LaneBatch) string { return "broken " + in.Place() + " 0" })
	b.goBack()
	o, clock := x.only(spool.Role), &shifted{}
	o.sender.Clock = clock
	o.run()
	b.eventually("lanes and ledger are compared", func() bool {
		found, _, due, err := o.lanes[0].Found(t.Context())
		b.must(err)
		return found != "" && !due
	})
	if o.waiting() != 1 {
		t.Error("it was decided on at once; want it to be left to the process that has marked it")
	}
	clock.by.Store(int64(spool.AfterMove + time.Minute))
	b.eventually("it has left its lane", func() bool { return o.waiting() == 0 && must(o.store.CountDeadLetters(t.Context())) == 1 })
}

// word is how a word is lost.
type word struct {
	stored   bool          // the ledger has it
	another  bool          // a process that lives has marked the mail, and its sender has stopped
	deferred bool          // it is that the mail is to be attempted again
	class    mail.Class    // of the mail; 0: marketing
	record   *lateRecord   // the ledger of the sender; nil: it is as ever
	behind   time.Duration // the clock of the replica's machine; a process goes by the earlier one
}

// newLostWord has a mail marked, attempted and recorded, and stored if it is to be.
func newLostWord(t *testing.T, of word) *lostWord {
	t.Helper()
	master, replica, way := replicated(t)
	b := newBedOn(t, "redis://"+way.Addr())
	answered := make(chan struct{})
	w := newWire(func(_ *mail.Envelope, n int) mail.Result {
		<-answered
		if of.deferred && n == 1 {
			return mail.Result{Kind: mail.ResultDeferred, Code: 451}
		}
		return mail.Result{Kind: mail.ResultSent, Code: 250}
	})
	x := &lostWord{b: b, w: w, v: &valve{OneRoute: spooltest.OneRoute{Transport: w}}, replica: replica, clock: &shifted{}}
	intake := x.only(ingest.StoreRole)
	intake.run()
	message := intake.inTheLedger(0, 1, cmp.Or(of.class, mail.ClassMarketing))[0]
	if !of.stored {
		intake.stop()
	}
	x.sender = x.only(spool.Role)
	x.sender.sender.Clock, x.sender.sender.DoubtAfter = x.clock, spool.AfterMove+5*time.Second // the default
	if of.record != nil {
		of.record.Record, x.sender.sender.Record = x.sender.store, of.record
	}
	if of.another {
		x.outlives(x.sender)
	}
	x.v.open.Store(true)
	x.sender.run()
	b.eventually("it is on the wire", func() bool { return len(w.came()) == 1 })
	lanes := flow.NewLog(must(flow.Dial(t.Context(), replica.URL())), flow.Partitions(testPartitions)[mail.SendPartition("u0@example.com", testPartitions)]).Lanes()
	b.eventually("the replica has the mark", func() bool { return must(lanes.Marks(t.Context(), []string{message + ".0"}))[0] != "" })
	other := must(rueidis.NewClient(plainOption(replica.URL())))
	defer other.Close()
	b.must(other.Do(t.Context(), other.B().Arbitrary("REPLICAOF", "NO", "ONE").Build()).Error()) // it hears nothing more
	close(answered)
	b.eventually("it is recorded", func() bool {
		if of.deferred {
			return must(x.sender.store.MessageSends(t.Context(), message))[0].Attempts == 1
		}
		return x.sender.waiting() == 0 && (!of.stored || x.sender.totals() == "sent 1")
	})
	if of.another {
		x.sender.stop()
	}
	x.clock.by.Store(-int64(of.behind))
	way.Redirect("tcp", replica.Addr())
	b.must(master.Kill())
	way.Cut()
	return x
}

// lostWords are those with which tests begin.
var lostWords = []word{{}, {stored: true}, {behind: 30 * time.Second}}

// wantSettled checks that the mail was sent once, and that it is in doubt, unless the ledger
// has it.
func (x *lostWord) wantSettled(o *office, stored bool) {
	x.b.Helper()
	x.b.eventually("it is settled", func() bool {
		return o.waitingOn(x.replica.URL()) == 0 && !strings.Contains(o.totals(), "waiting")
	})
	x.w.wantOnce(x.b.T)
	want := map[bool]string{false: "in_doubt 1", true: "sent 1"}[stored]
	if got := o.totals(); got != want {
		x.b.Errorf("stored is %v: the ledger has %s, want %s", stored, got, want)
	}
}

// TestWhatWasRecordedBeforeAMoveIsInDoubt: the replica has the mark of a mail, and what became
// of it is lost with the master, and was not stored. The process lives, and has forgotten it:
// it does not attempt it again. What was stored is not in doubt.
func TestWhatWasRecordedBeforeAMoveIsInDoubt(t *testing.T) {
	for _, c := range lostWords {
		x := newLostWord(t, c)
		if !c.stored {
			x.only(ingest.StoreRole).run()
		}
		x.wantSettled(x.sender, c.stored)
	}
}

// TestWhatAnotherHasMarkedBeforeAMoveIsInDoubt is that of a mail whose partition another process
// has by then. It waits for what the one that has marked it says, but not for as long as that
// one lives.
func TestWhatAnotherHasMarkedBeforeAMoveIsInDoubt(t *testing.T) {
	for _, c := range lostWords {
		c.another = true
		x := newLostWord(t, c)
		if !c.stored {
			x.only(ingest.StoreRole).run()
		}
		o := x.only(spool.Role)
		o.sender.Clock = x.clock
		o.run()
		x.b.eventually("lanes and ledger are compared", func() bool {
			_, all := o.foundOn(x.replica.URL())
			return all
		})
		if !c.stored && o.waitingOn(x.replica.URL()) != 1 {
			t.Error("it was decided on at once; want it to be left to the process that has marked it")
		}
		x.clock.by.Store(int64(spool.AfterMove + time.Second))
		x.wantSettled(o, c.stored)
	}
}

// TestWhatWasDeferredBeforeAMoveWaits: the replica has the mark of a mail, and the ledger knows
// that its attempt was turned away, and when the next one is due. It has not arrived: it waits
// for that.
func TestWhatWasDeferredBeforeAMoveWaits(t *testing.T) {
	for _, another := range []bool{false, true} {
		x := newLostWord(t, word{stored: true, another: another, deferred: true})
		o := x.sender
		if another {
			o = x.only(spool.Role)
			o.sender.Clock = x.clock
			o.run()
		}
		x.b.eventually("lanes and ledger are compared", func() bool {
			_, all := o.foundOn(x.replica.URL())
			return all
		})
		x.clock.by.Store(int64(spool.AfterMove + time.Second))
		x.b.eventually("it is settled", func() bool { return o.waitingOn(x.replica.URL()) == 0 && o.totals() != "waiting 1" })
		if got := o.totals(); got != "sent 1" || len(x.w.came()) != 2 {
			t.Errorf("another is %v: the ledger has %s, attempted %d times; want sent 1, 2 times", another, got, len(x.w.came()))
		}
	}
}

// lateRecord is a ledger that learns something just after it was asked for a row.
type lateRecord struct {
	spool.Record
	learn chan func() // one that has it learn
	once  sync.Once
}

func (l *lateRecord) SendRows(ctx context.Context, keys []mail.SendKey) ([]mail.SendRow, error) {
	rows, err := l.Record.SendRows(ctx, keys)
	l.once.Do(func() { (<-l.learn)() })
	return rows, err
}

// TestTheLastAttemptBehindAMoveIsLookedUp: the ledger learns that transactional mail was sent
// while it is put in doubt behind a move. It is not attempted once more.
func TestTheLastAttemptBehindAMoveIsLookedUp(t *testing.T) {
	record := lateRecord{learn: make(chan func(), 1)}
	x := newLostWord(t, word{class: mail.ClassTransactional, record: &record})
	record.learn <- func() {
		send, _, _ := strings.Cut(slices.Collect(maps.Keys(x.w.times()))[0], ".")
		x.b.must(x.sender.lanes[mail.SendPartition("u0@example.com", testPartitions)].Note(context.Background(), mail.AppendOutcome(nil, &mail.Outcome{
			Message: send, Recipients: 1, Was: mail.SendWaiting, State: mail.SendSent, TimeMillis: time.Now().UnixMilli(), Attempts: 1, To: "u0@example.com",
		})))
	}
	o := x.only(ingest.StoreRole)
	o.run()
	x.b.eventually("the ledger knows that it was sent", func() bool { return o.totals() == "sent 1" })
	x.b.eventually("it waits for its last attempt", func() bool {
		other, done := x.sender.on(x.replica.URL())
		defer done()
		_, later := other.inLanes()
		return later == 1
	})
	x.clock.by.Store(int64(spool.AfterMove + 30*time.Second))
	x.wantSettled(x.sender, true)
}

// awayRecord is a ledger that can be away for who asks for rows.
type awayRecord struct {
	spool.Record
	away  atomic.Bool
	asked atomic.Int64 // meanwhile
}

func (a *awayRecord) SendRows(ctx context.Context, keys []mail.SendKey) ([]mail.SendRow, error) {
	if a.away.Load() {
		a.asked.Add(1)
		return nil, errors.New("the database is away")
	}
	return a.Record.SendRows(ctx, keys)
}

// TestMarksBehindAMoveWhileTheLedgerIsAway: they stand until it can be asked, and the log says
// so once a session, not each time. A busy machine may begin another session.
func TestMarksBehindAMoveWhileTheLedgerIsAway(t *testing.T) {
	x := newLostWord(t, word{stored: true, another: true})
	o := x.only(spool.Role)
	record := &awayRecord{Record: o.store}
	o.sender.Clock, o.sender.Record = x.clock, record
	o.run()
	x.b.eventually("lanes and ledger are compared", func() bool {
		_, all := o.foundOn(x.replica.URL())
		return all
	})
	record.away.Store(true)
	x.clock.by.Store(int64(spool.AfterMove + time.Second))
	x.b.eventually("it is asked several times", func() bool { return record.asked.Load() > 3 })
	asked := record.asked.Load()
	if n := strings.Count(x.b.log.String(), "records of sends that were marked before"); n < 1 || int64(n) >= int64(asked) {
		t.Errorf("the log says %d times that records cannot be read, which were asked for %d times: want once", n, asked)
	}
	record.away.Store(false)
	x.wantSettled(o, true)
}

// goBack has Redis be another one, which has lost some keys of all partitions.
func (b *bed) goBack(lost ...string) {
	b.Helper()
	raw := must(rueidis.NewClient(plainOption(b.redis)))
	defer raw.Close()
	do := func(words ...string) rueidis.RedisResult {
		return raw.Do(b.Context(), raw.B().Arbitrary(words...).Build())
	}
	b.must(do("REPLICAOF", "127.0.0.1", "1").Error())
	b.must(do("REPLICAOF", "NO", "ONE").Error())
	for _, what := range lost {
		keys := must(do("KEYS", "sluice:*:"+what).AsStrSlice())
		if len(keys) == 0 {
			b.Fatalf("there are no %s: this test shows nothing", what)
		}
		b.must(do(append([]string{"DEL"}, keys...)...).Error())
	}
}
