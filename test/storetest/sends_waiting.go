package storetest

import (
	"slices"
	"testing"

	"sluice/mail"
)

// testSendsWaiting: pending sends are listed by partition, page by page, and
// with them the keys of those in doubt with an attempt to come. Sends that no
// lane had are counted, and rows are found by their keys.
func testSendsWaiting(t *testing.T, f *fixture) {
	f.start(t)
	var sends []mail.StoredSend
	var outcomes []mail.StoredOutcome
	var want, all []mail.SendKey
	var lanes []mail.LaneKey
	const sent, again, lost = 0, 5, 11 // what becomes of the numbers
	for n := range 40 {
		for number := range 2 {
			s := aSend(n, number, 2)
			s.Place.Partition = n % 2
			sends, all = append(sends, s), append(all, s.Key())
			if n%3 == sent {
				outcomes = append(outcomes, anOutcome(&s, mail.SendWaiting, mail.SendSent, 1))
			} else if n%12 == again || n%12 == lost {
				o := anOutcome(&s, mail.SendWaiting, mail.SendInDoubt, 1)
				if o.Reason = mail.ReasonLost; n%12 == again {
					o.DueMillis, o.Reason = o.TimeMillis+60_000, ""
					lanes = append(lanes, mail.LaneKey{SendKey: s.Key(), Doubt: true})
				}
				outcomes = append(outcomes, o)
			} else if n%2 == 1 {
				want, lanes = append(want, s.Key()), append(lanes, mail.LaneKey{SendKey: s.Key()})
			}
		}
	}
	f.record(t, sends, outcomes, len(sends))
	store := f.sends(t)
	for _, limit := range []int{1, 3, 100} {
		keys, rows := waitingPages(t, f, store, limit)
		if !slices.Equal(keys, lanes) || !slices.Equal(rows, want) {
			t.Fatalf("in pages of %d: keys %v, want %v; rows %v, want %v", limit, keys, lanes, rows, want)
		}
	}
	count, err := store.LostSends(f.ctx)
	must(t, err)
	if count != 6 {
		t.Errorf("%d are counted that no lane had, want 6", count)
	}
	none, err := store.LaneKeys(f.ctx, 7, mail.SendKey{}, 10)
	must(t, err)
	rows, err := store.SendRows(f.ctx, append(slices.Clone(all), mail.SendKey{Message: messageID(1000)}))
	must(t, err)
	found := make(map[mail.SendKey]mail.SendState)
	for _, r := range rows {
		found[mail.SendKey{Message: r.Message, Number: r.Number}] = r.State
	}
	if len(none) != 0 || len(rows) != len(all) || len(found) != len(all) {
		t.Fatalf("%d wait in another partition; %d rows of %d keys, %d of them different", len(none), len(rows), len(all), len(found))
	}
	for _, k := range want {
		if found[k] != mail.SendWaiting {
			t.Errorf("%v is %s", k, found[k])
		}
	}
}

// waitingPages lists the pending sends of partition 1, page by page.
func waitingPages(t *testing.T, f *fixture, store mail.SendStore, limit int) (keys []mail.LaneKey, rows []mail.SendKey) {
	t.Helper()
	for after := (mail.SendKey{}); ; after = rows[len(rows)-1] {
		page, err := store.WaitingSends(f.ctx, 1, after, limit)
		must(t, err)
		for _, r := range page {
			rows = append(rows, mail.SendKey{Message: r.Message, Number: r.Number})
			if r.State != mail.SendWaiting || r.Partition != 1 || r.To == "" || r.Life == "" {
				t.Errorf("%+v", r)
			}
		}
		if len(page) < limit {
			break
		}
	}
	for after := (mail.SendKey{}); ; after = keys[len(keys)-1].SendKey {
		page, err := store.LaneKeys(f.ctx, 1, after, limit)
		must(t, err)
		if keys = append(keys, page...); len(page) < limit {
			return keys, rows
		}
	}
}
