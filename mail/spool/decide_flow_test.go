package spool_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice"
	"sluice/flow"
	"sluice/mail"
	"sluice/mail/spool"
	"sluice/test/spooltest"
)

// decider returns what takes decisions in a process.
func (o *office) decider() *spool.Decider {
	return &spool.Decider{Writer: o.writer, Lanes: o.lanes, Ledger: o.store, Clock: sluice.SystemClock{}}
}

// decide decides about the only send of a message, and returns its row when the ledger has
// the decision. A busy machine may take longer over it than an operator waits.
func (o *office) decide(send string, what spool.Decision, by, note string) mail.SendRow {
	o.b.Helper()
	began := time.Now()
	row, settled, err := o.decider().Decide(o.b.Context(), send, what, by, note)
	if o.b.must(err); settled {
		return row
	}
	if took := time.Since(began); took < spool.CancelWithin {
		o.b.Errorf("the ledger was waited for no longer than %s", took)
	}
	o.b.eventually("the ledger has the decision", func() bool {
		row = o.row(row.Message)
		return strings.Contains(row.Life, "decided by "+by)
	})
	return row
}

// row is the only row of a message.
func (o *office) row(message string) mail.SendRow {
	o.b.Helper()
	rows, err := o.store.MessageSends(o.b.Context(), message)
	o.b.must(err)
	if len(rows) != 1 {
		return mail.SendRow{}
	}
	return rows[0]
}

// kept is how many sends are kept in doubt.
func (o *office) kept(ids ...string) (n int) {
	o.b.Helper()
	for _, l := range o.lanes {
		items, err := l.Doubts(o.b.Context(), ids)
		o.b.must(err)
		for _, item := range items {
			if item != nil {
				n++
			}
		}
	}
	return n
}

// doubtedOnce is a wire on which nobody knows the end of a first attempt.
func doubtedOnce() *wire {
	return newWire(func(_ *mail.Envelope, nth int) mail.Result {
		if nth == 1 {
			return mail.Result{Kind: mail.ResultInDoubt, Text: "the connection died"}
		}
		return mail.Result{Kind: mail.ResultSent, Code: 250}
	})
}

// TestDecisionsAboutDoubts: what somebody decides becomes of a send once, however
// many decide at the same time, and its life says who. One that is sent again
// goes out with what it said, also if that is a body.
func TestDecisionsAboutDoubts(t *testing.T) {
	b := newBed(t)
	w := doubtedOnce()
	o := b.start(w, nil)
	large := draft("large@example.com", mail.PriorityNormal, mail.ClassMarketing)
	large.Content = append(large.Content, []byte(strings.Repeat("many words\r\n", 1000))...)
	ids := o.submit(
		draft("arrived@example.com", mail.PriorityNormal, mail.ClassMarketing), draft("again@example.com", mail.PriorityNormal, mail.ClassMarketing),
		large, draft("over@example.com", mail.PriorityNormal, mail.ClassMarketing))
	var sends []string
	for _, id := range ids {
		sends = append(sends, id+".0")
	}
	b.eventually("all are in doubt", func() bool { return o.totals() == "in_doubt 4" && o.kept(sends...) == 4 })
	if n, err := o.store.OpenDoubts(t.Context()); err != nil || n != 4 {
		t.Errorf("%d are to be decided about, %v", n, err)
	}
	d := o.decider()
	row := o.decide(sends[0], spool.DecideSent, "ann@host", "the log has it")
	if row.State != mail.SendSent || !strings.Contains(row.Life, "sent, decided by ann@host: the log has it") {
		t.Errorf("%+v", row)
	}
	var deciding sync.WaitGroup
	for i := range 8 { // of the large one too, by several at once
		deciding.Go(func() { _, _, _ = d.Decide(t.Context(), sends[1+i%2], spool.DecideAgain, fmt.Sprintf("op%d", i), "") })
	}
	deciding.Wait()
	if _, _, err := d.Decide(t.Context(), sends[3], spool.DecideGiveUp, "ann@host", ""); err != nil {
		t.Error(err)
	}
	b.eventually("all are decided about", func() bool { return o.totals() == "sent 3, failed 1" })
	b.eventually("nothing waits, or is kept", func() bool { return o.waiting() == 0 && o.kept(sends...) == 0 })
	for i, want := range []int{1, 2, 2, 1} {
		if n := w.times()[sends[i]]; n != want {
			t.Errorf("send %d went out %d times, want %d", i, n, want)
		}
	}
	if life := o.row(ids[1]).Life; strings.Count(life, "again, decided by op") != 1 {
		t.Errorf("decided more than once:\n%s", life)
	}
	bodies, err := o.store.Bodies(t.Context(), ids, 0)
	b.must(err)
	if len(bodies) != 0 {
		t.Errorf("%d bodies are left", len(bodies))
	}
	refused := func(send string, code sluice.Code, want string) {
		t.Helper()
		_, _, err := d.Decide(t.Context(), send, spool.DecideAgain, "ann", "")
		if e, ok := errors.AsType[*sluice.Error](err); !ok || e.Code != code || !strings.Contains(e.Message, want) {
			t.Errorf("%s: %v, want %q", send, err, want)
		}
	}
	refused(sends[0], sluice.CodeConflict, "is not in doubt, it is sent")
	refused(strings.Repeat("0", 32)+".0", sluice.CodeNotFound, "there is no send")
	refused("nonsense", sluice.CodeNotFound, "there is no send")
}

// TestDoubtsThatSettleThemselves: one that is attempted once more by itself is not
// decided about before, and one of which evidence comes is kept no more.
func TestDoubtsThatSettleThemselves(t *testing.T) {
	b := newBed(t)
	w := newWire(func(*mail.Envelope, int) mail.Result {
		return mail.Result{Kind: mail.ResultInDoubt, Text: "gone"}
	})
	o := b.open(&spooltest.OneRoute{Transport: w}, nil)
	o.sender.DoubtAfter = time.Hour
	o.run()
	ids := o.submit(draft("soon@example.com", mail.PriorityHigh, mail.ClassTransactional), draft("news@example.com", mail.PriorityLow, mail.ClassMarketing))
	b.eventually("both are in doubt", func() bool { return o.totals() == "in_doubt 2" })
	if n, err := o.store.OpenDoubts(t.Context()); err != nil || n != 1 {
		t.Errorf("%d are to be decided about, %v", n, err)
	}
	if _, _, err := o.decider().Decide(t.Context(), ids[0]+".0", spool.DecideSent, "ann", ""); err == nil || !strings.Contains(err.Error(), "attempted once more by itself") {
		t.Errorf("decided about one that is attempted again: %v", err)
	}
	if n := o.kept(ids[1] + ".0"); n != 1 {
		t.Errorf("%d are kept", n)
	}
	row := o.row(ids[1])
	evidence := &mail.Outcome{Message: row.Message, Recipients: 1, Was: mail.SendInDoubt, State: mail.SendSent, Event: sluice.EventDelivered, TimeMillis: row.UpdatedMillis + 1, To: row.To}
	b.must(o.writer.Write(t.Context(), flow.Part{Partition: row.Partition, Items: mail.AppendOutcome(nil, evidence), Count: 1}))
	b.eventually("the evidence is in the ledger, and nothing is kept", func() bool {
		return o.row(ids[1]).State == mail.SendSent && o.kept(ids[1]+".0") == 0
	})
}

// TestNothingKeptIsNotSentAgain: the operator who decides so is told.
func TestNothingKeptIsNotSentAgain(t *testing.T) {
	b := newBed(t)
	o := b.start(doubtedOnce(), nil)
	id := o.submit(draft("news@example.com", mail.PriorityLow, mail.ClassMarketing))[0]
	b.eventually("it is in doubt", func() bool { return o.totals() == "in_doubt 1" })
	row := o.row(id)
	decision := func(state mail.SendState, due int64) *mail.Outcome {
		return &mail.Outcome{Message: row.Message, Recipients: 1, Was: mail.SendInDoubt, State: state, DueMillis: due, TimeMillis: row.UpdatedMillis + 1, Attempts: 1, Reason: mail.ReasonDecided}
	}
	// Both in one batch: the second finds nothing.
	items := mail.AppendDecision(mail.AppendDecision(nil, decision(mail.SendFailed, 0)), decision(mail.SendInDoubt, row.UpdatedMillis+1))
	b.must(o.writer.Write(t.Context(), flow.Part{Partition: row.Partition, Items: items, Count: 2}))
	b.eventually("the first is in the ledger", func() bool { return o.row(id).State == mail.SendFailed })
	if n := len(b.outcomes()); n != 2 || o.waiting() != 0 {
		t.Errorf("%d outcomes, %d wait", n, o.waiting())
	}
	if _, _, err := o.decider().Decide(t.Context(), id+".0", spool.DecideAgain, "ann", ""); err == nil {
		t.Error("it was sent again")
	}
}

// TestOneOfTwoDecisionsHolds: of two that are made about a doubt at the same time
// one is carried out, and who made the other is told so.
func TestOneOfTwoDecisionsHolds(t *testing.T) {
	b := newBed(t)
	w := doubtedOnce()
	o := b.start(w, nil)
	pairs := [][2]spool.Decision{{spool.DecideAgain, spool.DecideSent}, {spool.DecideSent, spool.DecideAgain}, {spool.DecideAgain, spool.DecideGiveUp}, {spool.DecideSent, spool.DecideGiveUp}, {spool.DecideAgain, spool.DecideAgain}}
	const rounds = 8
	var drafts []mail.Draft
	for i := range rounds * len(pairs) {
		drafts = append(drafts, draft(fmt.Sprintf("u%d@example.com", i), mail.PriorityNormal, mail.ClassMarketing))
	}
	ids := o.submit(drafts...)
	b.eventually("all are in doubt", func() bool { return o.totals() == fmt.Sprintf("in_doubt %d", len(ids)) })
	errs, seen := make([][2]error, len(ids)), make([][2]bool, len(ids))
	var deciding sync.WaitGroup
	for i, id := range ids {
		for k, what := range pairs[i%len(pairs)] {
			deciding.Go(func() {
				// Whether it is seen in time says how busy the machine is.
				_, seen[i][k], errs[i][k] = o.decider().Decide(t.Context(), id+".0", what, fmt.Sprintf("op%d", k), "")
			})
		}
	}
	deciding.Wait()
	want := make(map[mail.SendState]int)
	for i, id := range ids {
		pair, winner := pairs[i%len(pairs)], 0
		held := func(k int) bool {
			times, state := decided(pair[k])
			return o.row(id).State == state && w.times()[id+".0"] == times
		}
		if errs[i][0] != nil {
			winner = 1
		}
		e, told := errors.AsType[*sluice.Error](errs[i][1-winner])
		late := errs[i] == [2]error{} && !(seen[i][0] && seen[i][1]) // one was not told in time what held
		if !late && (errs[i][winner] != nil || !told || e.Code != sluice.CodeConflict) {
			t.Errorf("%v: %v and %v; want one that holds, and one that is told so", pair, errs[i][0], errs[i][1])
		}
		b.eventually("it is as decided", func() bool { return held(winner) || late && held(1-winner) })
		// Of two that say the same, the one that was told is it.
		if late && (!held(winner) || pair[0] == pair[1] && seen[i][1-winner]) {
			winner = 1 - winner
		}
		if seen[i][1-winner] && errs[i][1-winner] == nil {
			t.Errorf("%v: the other one holds, and this one is said to", pair)
		}
		_, state := decided(pair[winner])
		want[state]++
	}
	words := fmt.Sprintf("sent %d", want[mail.SendSent])
	if n := want[mail.SendFailed]; n > 0 {
		words += fmt.Sprintf(", failed %d", n)
	}
	b.eventually("the ledger adds up", func() bool { return o.totals() == words && o.waiting() == 0 })
}

// decided says how often a send that was mailed once and in doubt is mailed, and how
// it ends, by a decision.
func decided(what spool.Decision) (times int, state mail.SendState) {
	switch what {
	case spool.DecideAgain:
		return 2, mail.SendSent
	case spool.DecideGiveUp:
		return 1, mail.SendFailed
	}
	return 1, mail.SendSent
}

// TestADecisionIsAboutOneDoubt: when a send goes out once more, no earlier
// decision about it holds. That is so even if a decision is carried out when
// the send is in doubt anew.
func TestADecisionIsAboutOneDoubt(t *testing.T) {
	b := newBed(t)
	w := newWire(func(*mail.Envelope, int) mail.Result {
		return mail.Result{Kind: mail.ResultInDoubt, Text: "gone"}
	})
	v := &valve{OneRoute: spooltest.OneRoute{Transport: w}}
	v.open.Store(true)
	o := b.startRoutes(v, nil)
	id := o.submit(draft("news@example.com", mail.PriorityLow, mail.ClassMarketing))[0]
	b.eventually("it is in doubt", func() bool { return o.totals() == "in_doubt 1" && o.kept(id+".0") == 1 })
	v.open.Store(false)
	first := o.row(id)
	o.decide(id+".0", spool.DecideAgain, "ann", "")
	late := 0
	decide := func(state mail.SendState, dueMillis int64) {
		t.Helper()
		out := &mail.Outcome{Message: id, Recipients: 1, Was: mail.SendInDoubt, State: state, DueMillis: dueMillis, TimeMillis: first.UpdatedMillis + 5, Attempts: first.Attempts, Reason: mail.ReasonDecided, To: first.To}
		b.must(o.writer.Write(t.Context(), flow.Part{Partition: first.Partition, Items: mail.AppendDecision(nil, out), Count: 1}))
	}
	tooLate := func() {
		t.Helper()
		late++
		b.eventually("it came too late", func() bool { return strings.Count(o.row(id).Life, `"late":true`) == late })
	}
	decide(mail.SendSent, 0) // while it waits for its last attempt
	tooLate()
	v.open.Store(true)
	b.eventually("it is in doubt anew", func() bool { return o.row(id).Attempts == 2 && o.kept(id+".0") == 1 })
	decide(mail.SendInDoubt, first.UpdatedMillis+5)
	decide(mail.SendFailed, 0) // behind it, so both have been carried out, or not, when this one is seen
	tooLate()
	if row := o.row(id); row.State != mail.SendInDoubt || row.DueMillis != 0 || o.kept(id+".0") != 1 || o.waiting() != 0 || w.times()[id+".0"] != 2 {
		t.Errorf("%+v; %d are kept, %d wait, it went out %d times", row, o.kept(id+".0"), o.waiting(), w.times()[id+".0"])
	}
	o.decide(id+".0", spool.DecideGiveUp, "bob", "")
	b.eventually("that holds", func() bool { return o.totals() == "failed 1" && o.kept(id+".0") == 0 })
}

// TestALedgerThatWasPutBackIsDecidedIn: one that was restored knows of fewer
// attempts than who keeps the send, and what is decided about it holds.
func TestALedgerThatWasPutBackIsDecidedIn(t *testing.T) {
	b := newBed(t)
	w := doubtedOnce()
	o := b.start(w, nil)
	id := o.submit(draft("news@example.com", mail.PriorityLow, mail.ClassMarketing))[0]
	b.eventually("it is in doubt", func() bool { return o.totals() == "in_doubt 1" && o.kept(id+".0") == 1 })
	must(b.sqlite().ExecContext(t.Context(), "UPDATE sends SET attempts = 0"))
	o.decide(id+".0", spool.DecideAgain, "ann", "")
	b.eventually("it is sent", func() bool { return o.totals() == "sent 1" && o.waiting() == 0 })
}
