package spool_test

import (
	"context"
	"errors"
	"fmt"
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
	"sluice/test/clocktest"
	"sluice/test/spooltest"
)

func (o *office) canceller() *spool.Canceller {
	return &spool.Canceller{Writer: o.writer, Lanes: o.lanes, Ledger: o.store, StoredBy: ingest.StoreRole, Clock: sluice.SystemClock{}}
}

// cancel cancels a message, and does so again while the ledger takes longer than a caller
// waits: the machine may be busy.
func (b *bed) cancel(c *spool.Canceller, message string) (what mail.Cancelled, err error) {
	b.Helper()
	b.eventually("the ledger has what is cancelled", func() bool {
		what, err = c.Cancel(b.Context(), message)
		return !unavailable(err) && what.Open == 0
	})
	return what, err
}

// unavailable reports whether it may be asked for again.
func unavailable(err error) bool {
	e, ok := errors.AsType[*sluice.Error](err)
	return ok && e.Code == sluice.CodeUnavailable
}

// TestCancelling: what waits is not attempted, what is done with stays as it is.
func TestCancelling(t *testing.T) {
	b := newBed(t)
	w := newWire(nil)
	o, clock := b.open(&spooltest.OneRoute{Transport: w}, nil), &shifted{}
	o.sender.Clock = clock
	o.run()
	later := draft("ann@example.com", mail.PriorityNormal, mail.ClassMarketing)
	later.DueMillis = time.Now().Add(time.Hour).UnixMilli()
	soon := draft("bob@example.com", mail.PriorityNormal, mail.ClassMarketing)
	soon.DueMillis = time.Now().Add(10 * time.Minute).UnixMilli()
	ids := o.submit(later, soon, draft("cid@example.com", mail.PriorityNormal, mail.ClassMarketing))
	b.eventually("one is sent", func() bool { return o.totals() == "waiting 2, sent 1" })
	c := o.canceller()
	for i, want := range []mail.Cancelled{{Cancelled: 1}, {Cancelled: 1}, {Left: 1}} {
		if what, err := b.cancel(c, ids[i]); err != nil || what != want {
			t.Errorf("cancel %d: %+v, %v; want %+v", i, what, err, want)
		}
	}
	if got := o.totals(); got != "sent 1, cancelled 2" {
		t.Errorf("ledger: %s", got)
	}
	clock.by.Store(int64(11 * time.Minute))
	b.eventually("the second would have been due", func() bool { return o.waiting() == 1 })
	if came := w.came(); !slices.Equal(came, []string{"cid@example.com"}) {
		t.Errorf("attempted: %v", came)
	}
	if _, err := c.Cancel(t.Context(), strings.Repeat("0", sluice.MessageIDBytes)); err == nil {
		t.Error("a message that there is not was cancelled")
	}
}

// lagging is a ledger that has nothing of a partition but what its cursor had before: the
// writer that stores it is behind.
type lagging struct {
	spool.StoredLedger
	partition int
	behind    atomic.Bool
}

func (l *lagging) MessageSends(ctx context.Context, message string) ([]mail.SendRow, error) {
	rows, err := l.StoredLedger.MessageSends(ctx, message)
	if l.behind.Load() {
		rows = slices.DeleteFunc(rows, func(r mail.SendRow) bool { return r.Partition == l.partition })
	}
	return rows, err
}

func (l *lagging) Cursors(ctx context.Context, follower string, partitions []int) (map[int]sluice.Position, error) {
	behind := l.behind.Load()
	cursors, err := l.StoredLedger.Cursors(ctx, follower, partitions)
	if _, asked := cursors[l.partition]; asked && behind {
		cursors[l.partition] = sluice.Position{}
	}
	return cursors, err
}

// TestCancellingWhatIsNotAllStored: a message is cancelled of whose recipients the ledger has
// one, and lacks the other: another writer stores that partition. The answer waits for it, or
// says that it is not known. In the end nothing of the message leaves.
func TestCancellingWhatIsNotAllStored(t *testing.T) {
	t.Run("stored in time", func(t *testing.T) { testCancellingUnstored(t, true) })
	t.Run("stored too late", func(t *testing.T) { testCancellingUnstored(t, false) })
}

func testCancellingUnstored(t *testing.T, inTime bool) {
	b := newBed(t)
	w := newWire(nil)
	v := &valve{OneRoute: spooltest.OneRoute{Transport: w}}
	o := b.startRoutes(v, nil)
	d := draft(inOnePartition([]string{"example.com"})[0], mail.PriorityNormal, mail.ClassMarketing)
	for i := 0; len(d.To) < 2; i++ {
		if to := fmt.Sprintf("other%d@example.com", i); mail.SendPartition(to, testPartitions) != 0 {
			d.To = append(d.To, to)
		}
	}
	id := o.submit(d)[0]
	b.eventually("both are stored", func() bool { return o.totals() == "waiting 2" })
	c := o.canceller()
	l := &lagging{StoredLedger: o.store, partition: mail.SendPartition(d.To[1], testPartitions)}
	c.Ledger = l
	l.behind.Store(true)
	if inTime {
		time.AfterFunc(500*time.Millisecond, func() { l.behind.Store(false) })
	}
	began := time.Now()
	what, err := c.Cancel(t.Context(), id)
	again := unavailable(err) || what.Open > 0 // it has waited for as long as a caller does
	if took := time.Since(began); !inTime && !unavailable(err) || again && took < spool.CancelWithin {
		t.Errorf("one is not stored: %+v, %v after %s", what, err, took)
	}
	if l.behind.Store(false); again {
		what, err = b.cancel(c, id)
	}
	if want := (mail.Cancelled{Cancelled: 2}); err != nil || what != want {
		t.Errorf("%+v, %v; want %+v", what, err, want)
	}
	v.open.Store(true)
	b.eventually("both are met in their lanes", func() bool { return o.waiting() == 0 })
	if came := w.came(); len(came) != 0 || o.totals() != "cancelled 2" {
		t.Errorf("attempted: %v, the ledger has %s", came, o.totals())
	}
}

// TestStored: the ledger has what was handed in before a moment when each partition is
// stored up to then, and not while one is behind.
func TestStored(t *testing.T) {
	b := newBed(t)
	o := b.start(newWire(nil), nil)
	o.submit(draft("ann@example.com", mail.PriorityNormal, mail.ClassMarketing))
	c := o.canceller()
	l := &lagging{StoredLedger: o.store, partition: mail.SendPartition("ann@example.com", testPartitions)}
	c.Ledger = l
	now := time.Now().UnixMilli()
	l.behind.Store(true)
	if stored, err := c.Stored(t.Context(), now); err != nil || stored {
		t.Errorf("one partition is behind: %v, %v", stored, err)
	}
	l.behind.Store(false)
	b.eventually("all is stored", func() bool {
		stored, err := c.Stored(t.Context(), now)
		b.must(err)
		return stored
	})
}

// notes are the notes of cancelled sends, of all partitions, with the keys that
// they are in.
func (b *bed) notes() (notes map[string]string, keys []string) {
	b.Helper()
	raw := must(rueidis.NewClient(plainOption(b.redis)))
	defer raw.Close()
	keys, err := raw.Do(b.Context(), raw.B().Keys().Pattern("sluice:*:cancels").Build()).AsStrSlice()
	b.must(err)
	notes = make(map[string]string)
	for _, key := range keys {
		some, err := raw.Do(b.Context(), raw.B().Hgetall().Key(key).Build()).AsStrMap()
		b.must(err)
		for id, value := range some {
			notes[id] = value
		}
	}
	return notes, keys
}

// cancelLate writes that a send is cancelled, as somebody does who has read its
// row before it left.
func (o *office) cancelLate(message string) {
	o.b.Helper()
	row := o.row(message)
	out := &mail.Outcome{Message: message, Recipients: 1, Was: mail.SendWaiting, State: mail.SendCancelled, TimeMillis: time.Now().UnixMilli(), To: row.To, HasBody: true}
	o.b.must(o.writer.Write(o.b.Context(), flow.Part{Partition: row.Partition, Items: mail.AppendCancel(nil, out), Count: 1}))
	o.b.eventually("it is noted", func() bool {
		notes, _ := o.b.notes()
		return notes[message+".0"] != ""
	})
}

// TestCancelsThatComeTooLate: of a send that had left nothing is kept, once the
// ledger says so. Of one that is still to come, even once more, the note stays
// until it is met.
func TestCancelsThatComeTooLate(t *testing.T) {
	b, noted := newBed(t), make(chan struct{})
	w := newWire(func(e *mail.Envelope, _ int) mail.Result {
		switch _, domain, _ := strings.Cut(e.To, "@"); domain {
		case "again.example", "doubt.example":
			return mail.Result{Kind: mail.ResultInDoubt}
		case "deferred.example":
			<-noted
			return mail.Result{Kind: mail.ResultDeferred}
		}
		return mail.Result{Kind: mail.ResultSent}
	})
	o := b.open(&spooltest.OneRoute{Transport: w}, nil)
	o.sender.DoubtAfter = time.Hour
	release := sync.OnceFunc(func() { close(noted) })
	t.Cleanup(release)
	clock := clocktest.At(time.Now())
	o.queuer.Clock = clock
	o.run()
	to := inOnePartition([]string{"left.example", "waits.example", "again.example", "deferred.example", "doubt.example"}) // so that all notes are looked at together
	scheduled := draft(to[1], mail.PriorityNormal, mail.ClassMarketing)
	scheduled.DueMillis = time.Now().Add(time.Hour).UnixMilli()
	deferred := o.submit(draft(to[3], mail.PriorityNormal, mail.ClassMarketing))[0]
	b.eventually("it is on the wire", func() bool { return len(w.came()) == 1 })
	ids := o.submit(draft(to[0], mail.PriorityNormal, mail.ClassMarketing), scheduled, draft(to[2], mail.PriorityNormal, mail.ClassTransactional), draft(to[4], mail.PriorityNormal, mail.ClassMarketing))
	b.eventually("one is sent, and two are in doubt", func() bool { return o.totals() == "waiting 2, sent 1, in_doubt 2" })
	clock.Move(-time.Hour) // so that the notes are old
	o.cancelLate(deferred)
	release()
	b.eventually("it waits once more", func() bool { return o.row(deferred).Attempts == 1 })
	o.cancelLate(ids[0])
	o.cancelLate(ids[2])
	o.cancelLate(ids[3])
	if what, err := b.cancel(o.canceller(), ids[1]); err != nil || what.Cancelled != 1 {
		t.Fatalf("%+v, %v", what, err)
	}
	for _, doubted := range ids[2:] {
		if what, err := b.cancel(o.canceller(), doubted); err != nil || what != (mail.Cancelled{Left: 1}) {
			t.Errorf("what is in doubt: %+v, %v", what, err)
		}
	}
	if got := o.totals(); got != "waiting 1, sent 1, in_doubt 2, cancelled 1" {
		t.Errorf("the ledger has %s", got)
	}
	o.stop()
	b.start(w, nil)
	var notes map[string]string
	b.eventually("the note of what has left is gone, and the other is for good", func() bool {
		notes, _ = b.notes()
		value, there := notes[ids[1]+".0"]
		return len(notes) == 3 && there && !strings.HasPrefix(value, "c")
	})
	if notes[ids[2]+".0"] == "" || notes[deferred+".0"] == "" {
		t.Errorf("what is attempted once more, in doubt or not, is not cancelled any more: %v", notes)
	}
	w.wantOnce(t)
}

// TestSentAgainAlthoughCancelled: who decides that a send in doubt goes out once
// more says so after all cancels that came before.
func TestSentAgainAlthoughCancelled(t *testing.T) {
	b := newBed(t)
	w := doubtedOnce()
	o := b.start(w, nil)
	id := o.submit(draft("ann@example.com", mail.PriorityNormal, mail.ClassMarketing))[0]
	b.eventually("it is in doubt", func() bool { return o.totals() == "in_doubt 1" })
	o.cancelLate(id)
	if _, _, err := o.decider().Decide(t.Context(), id+".0", spool.DecideAgain, "ann", ""); err != nil {
		t.Fatal(err)
	}
	b.eventually("it is sent", func() bool { return o.totals() == "sent 1" })
	if notes, _ := b.notes(); len(notes) != 0 {
		t.Errorf("notes: %v", notes)
	}
}

// TestNoRoomForCancels: who cancels is told when there is no room, and nothing is
// cancelled; what had been written before is said in the log.
func TestNoRoomForCancels(t *testing.T) {
	b := newBed(t)
	o := b.open(&spooltest.OneRoute{Transport: newWire(nil)}, nil)
	for _, l := range o.lanes {
		l.CancelsAtMost = 1
	}
	o.run()
	scheduled := draft("ann@example.com", mail.PriorityNormal, mail.ClassMarketing)
	scheduled.DueMillis = time.Now().Add(time.Hour).UnixMilli()
	ids := o.submit(scheduled, scheduled, scheduled) // of one address, so in one partition
	b.eventually("they wait", func() bool { return o.totals() == "waiting 3" })
	if what, err := b.cancel(o.canceller(), ids[0]); err != nil || what.Cancelled != 1 {
		t.Fatalf("%+v, %v", what, err)
	}
	_, err := o.canceller().Cancel(t.Context(), ids[1])
	if e, ok := errors.AsType[*sluice.Error](err); !ok || e.Code != sluice.CodeUnavailable || !strings.Contains(e.Message, "1 sends cannot be cancelled") {
		t.Errorf("cancelled without room: %v", err)
	}
	row := o.row(ids[1])
	out := &mail.Outcome{Message: row.Message, Recipients: 1, Was: mail.SendWaiting, State: mail.SendCancelled, TimeMillis: time.Now().UnixMilli()}
	b.must(o.writer.Write(t.Context(), flow.Part{Partition: row.Partition, Items: mail.AppendCancel(nil, out), Count: 1}))
	b.eventually("it is said", func() bool { return strings.Contains(b.log.String(), "sends could not be cancelled") })
	op := &spool.Operator{Redis: o.redis, Writer: o.writer, Lanes: o.lanes, Ledger: o.store, Partitions: testPartitions, Clock: sluice.SystemClock{}}
	all, err := mail.NewSelector(mail.SelectAll, "")
	b.must(err)
	if n, _, err := op.Purge(t.Context(), all, "", 10, false); err == nil || n != 0 {
		t.Errorf("%d were purged without room, %v", n, err)
	}
	if got := o.totals(); got != "waiting 2, cancelled 1" {
		t.Errorf("the ledger has %s", got)
	}
}
