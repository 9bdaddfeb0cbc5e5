package storetest

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

	"sluice/mail"
	"sluice/store"
)

// ledgerItem is what a log has for the ledger: one of the two.
type ledgerItem struct {
	send    *mail.StoredSend
	outcome *mail.StoredOutcome
}

// anyItems makes sends of a few messages and outcomes in any order, most of them
// such as may follow one another. Nothing that has ended goes on.
func anyItems(r *rand.Rand) (items []ledgerItem, messages [][]mail.StoredSend) {
	class := []mail.Class{mail.ClassTransactional, mail.ClassMarketing}
	var all []*mail.StoredSend
	for n := range 5 {
		recipients := 1 + n%3
		var sends []mail.StoredSend
		for number := range recipients {
			s := aSend(n, number, recipients)
			s.Class = class[n%2]
			sends = append(sends, s)
			all = append(all, &s)
			items = append(items, ledgerItem{send: &s})
		}
		messages = append(messages, sends)
	}
	finals := []mail.SendState{mail.SendSent, mail.SendFailed, mail.SendSuppressed, mail.SendCancelled, mail.SendInDoubt}
	for range 70 {
		s := all[r.IntN(len(all))]
		o := anOutcome(s, mail.SendWaiting, mail.SendWaiting, r.IntN(5))
		o.HasBody, o.DueMillis = true, sendTime+int64(r.IntN(3)+1)*60_000
		switch r.IntN(5) {
		case 0:
			o.State, o.DueMillis = finals[r.IntN(len(finals))], 0
		case 1:
			o.State = mail.SendInDoubt // once more
		case 2:
			o.Was, o.State, o.DueMillis = mail.SendInDoubt, finals[r.IntN(2)], 0
		}
		items = append(items, ledgerItem{outcome: &o})
	}
	// A send comes before its outcomes, and that is all.
	first := len(all)
	for i := range first { // some outcomes of the first sends come before the last sends
		if j := i + r.IntN(len(items)-i); r.IntN(2) == 0 && items[i].send != nil && beforeOutcomes(items, i, j) {
			item := items[i]
			copy(items[i:], items[i+1:j+1])
			items[j] = item
		}
	}
	return items, messages
}

// beforeOutcomes reports whether the send at i may move to j.
func beforeOutcomes(items []ledgerItem, i, j int) bool {
	for _, item := range items[i+1 : j+1] {
		if o := item.outcome; o != nil && o.Message == items[i].send.Message && o.Number == items[i].send.Number {
			return false
		}
	}
	return true
}

// testAnyOutcomes: outcomes come in any order, in any number of transactions,
// with any part of them repeated. The rows are what the outcomes make of them
// one by one, and the totals are those of the rows. A body is there as long as
// it is needed.
func testAnyOutcomes(t *testing.T, f *fixture) {
	for seed := range uint64(6) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			for _, table := range []string{"sends", "send_totals", "bodies"} {
				f.Exec(t, "DELETE FROM "+table)
			}
			f.start(t)
			r := rand.New(rand.NewPCG(seed, 42))
			items, messages := anyItems(r)
			for _, m := range messages {
				must(t, f.sends(t).AddBodies(f.ctx, []mail.Body{{Message: m[0].Message, Recipients: len(m), CreatedMillis: sendTime, Data: []byte("x")}}))
			}
			for at := 0; at < len(items); {
				to := min(len(items), at+1+r.IntN(12))
				f.applyItems(t, items[at:to])
				at = to
				if r.IntN(3) == 0 { // as after a cursor was set back
					again := r.IntN(at)
					middle := again + r.IntN(at-again+1)
					f.applyItems(t, items[again:middle])
					f.applyItems(t, items[middle:at])
				}
			}
			f.wantModel(t, items, messages)
			f.wantTotals(t, nil)
		})
	}
}

func (f *fixture) applyItems(t *testing.T, items []ledgerItem) {
	t.Helper()
	e := store.Effect{Stripe: int(f.at.Major % 3)}
	for _, item := range items {
		if item.send != nil {
			e.Sends = append(e.Sends, *item.send)
		} else {
			e.Outcomes = append(e.Outcomes, *item.outcome)
		}
	}
	effect := f.step(e)
	applied, err := f.store.Apply(f.ctx, f.prepare(t, effect))
	must(t, err)
	f.at = effect.Moves[0].To
	want(t, "sends, new and again", applied.Rows+applied.Duplicates, len(e.Sends))
	want(t, "dead letters", applied.Dead, 0)
}

// wantModel compares the rows with what the items make of them in memory.
func (f *fixture) wantModel(t *testing.T, items []ledgerItem, messages [][]mail.StoredSend) {
	t.Helper()
	model := make(map[string]*mail.SendRow)
	for _, item := range items {
		if item.send != nil {
			row := mail.NewSendRow(item.send)
			model[item.send.ID()] = &row
		} else {
			model[fmt.Sprintf("%s.%d", item.outcome.Message, item.outcome.Number)].Record(&item.outcome.Outcome)
		}
	}
	for _, m := range messages {
		rows, err := f.sends(t).MessageSends(f.ctx, m[0].Message)
		must(t, err)
		want(t, "rows of a message", len(rows), len(m))
		open := 0
		for i, row := range rows {
			if wanted := *model[m[i].ID()]; row != wanted {
				t.Fatalf("got  %+v\nwant %+v", row, wanted)
			}
			if !row.Ended() {
				open++
			}
		}
		bodies, err := f.sends(t).Bodies(f.ctx, []string{m[0].Message}, 0)
		must(t, err)
		want(t, "a body is there", len(bodies) == 1, open > 0)
	}
}
