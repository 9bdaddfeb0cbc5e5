package spool_test

import (
	"database/sql"
	"strings"
	"testing"

	"github.com/redis/rueidis"

	"sluice/mail"
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
