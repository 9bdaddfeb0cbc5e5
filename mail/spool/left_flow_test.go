package spool_test

import (
	"database/sql"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"sluice/flow"
	"sluice/ingest"
	"sluice/mail"
	"sluice/mail/spool"
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
	if what, err := o.canceller().Cancel(t.Context(), id); err != nil || what.Cancelled != 1 {
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
	db := must(sql.Open("sqlite", "file:"+strings.TrimPrefix(b.database, "sqlite:")+"?_pragma=busy_timeout(20000)"))
	defer db.Close()
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

// TestWhatWasRecordedBeforeAMoveIsInDoubt: the replica has the mark of a mail, and what became
// of it is lost with the master, and was not stored. The process lives, and has forgotten it:
// it does not attempt it again. What was stored is not in doubt.
func TestWhatWasRecordedBeforeAMoveIsInDoubt(t *testing.T) {
	for _, stored := range []bool{false, true} {
		master, replica, way := replicated(t)
		b := newBedOn(t, "redis://"+way.Addr())
		answered := make(chan struct{})
		w := newWire(func(*mail.Envelope, int) mail.Result {
			<-answered
			return mail.Result{Kind: mail.ResultSent, Code: 250}
		})
		v := &valve{OneRoute: spooltest.OneRoute{Transport: w}}
		only := func(role string) *office {
			o := b.open(v, nil)
			o.leases = flow.NewLeases(o.redis, o.store, slog.New(slog.DiscardHandler))
			o.leases.Beat, o.leases.Timeout = 100*time.Millisecond, 500*time.Millisecond
			o.leases.AddPartitions(role, o.redis, flow.Partitions(testPartitions))
			o.stored.Leases, o.sender.Leases, o.sender.Process = o.leases, o.leases, o.leases.ID()
			return o
		}
		intake := only(ingest.StoreRole)
		intake.run()
		id := intake.inTheLedger(0, 1, mail.ClassMarketing)[0] + ".0"
		if !stored {
			intake.stop()
		}
		o := only(spool.Role)
		v.open.Store(true)
		o.run()
		b.eventually("it is on the wire", func() bool { return len(w.came()) == 1 })
		lanes := flow.NewLog(must(flow.Dial(t.Context(), replica.URL())), flow.Partitions(testPartitions)[mail.SendPartition("u0@example.com", testPartitions)]).Lanes()
		b.eventually("the replica has the mark", func() bool { return must(lanes.Marks(t.Context(), []string{id}))[0] != "" })
		other := must(rueidis.NewClient(plainOption(replica.URL())))
		defer other.Close()
		b.must(other.Do(t.Context(), other.B().Arbitrary("REPLICAOF", "NO", "ONE").Build()).Error()) // it hears nothing more
		close(answered)
		b.eventually("it is recorded", func() bool { return o.waiting() == 0 && (!stored || o.totals() == "sent 1") })
		way.Redirect("tcp", replica.Addr())
		b.must(master.Kill())
		way.Cut()
		if !stored {
			only(ingest.StoreRole).run()
		}
		want := map[bool]string{false: "in_doubt 1", true: "sent 1"}[stored]
		b.eventually("it is settled", func() bool { return o.waitingOn(replica.URL()) == 0 && !strings.Contains(o.totals(), "waiting") })
		w.wantOnce(t)
		if got := o.totals(); got != want {
			t.Errorf("stored is %v: the ledger has %s, want %s", stored, got, want)
		}
	}
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
