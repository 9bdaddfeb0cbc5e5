package storetest

import (
	"slices"
	"testing"

	"sluice"
)

// testSendsWaiting: sends that wait are listed by partition, page by page, and
// rows are found by their keys.
func testSendsWaiting(t *testing.T, f *fixture) {
	f.start(t)
	var sends []sluice.StoredSend
	var outcomes []sluice.StoredOutcome
	var want, all []sluice.SendKey
	for n := range 20 {
		for number := range 2 {
			s := aSend(n, number, 2)
			s.Place.Partition = n % 2
			sends, all = append(sends, s), append(all, s.Key())
			if n%3 == 0 {
				outcomes = append(outcomes, anOutcome(&s, sluice.SendWaiting, sluice.SendSent, 1))
			} else if n%2 == 1 {
				want = append(want, s.Key())
			}
		}
	}
	f.record(t, sends, outcomes, len(sends))
	store := f.sends(t)
	for _, limit := range []int{1, 3, 100} {
		var keys, rows []sluice.SendKey
		for after := (sluice.SendKey{}); ; {
			page, err := store.WaitingKeys(f.ctx, 1, after, limit)
			must(t, err)
			whole, err := store.WaitingSends(f.ctx, 1, after, limit)
			must(t, err)
			for _, r := range whole {
				rows = append(rows, sluice.SendKey{Message: r.Message, Number: r.Number})
				if r.State != sluice.SendWaiting || r.Partition != 1 || r.To == "" || r.Life == "" {
					t.Errorf("%+v", r)
				}
			}
			if keys = append(keys, page...); len(page) == 0 {
				break
			}
			after = page[len(page)-1]
		}
		if !slices.Equal(keys, want) || !slices.Equal(rows, want) {
			t.Fatalf("in pages of %d: keys %v, rows %v, want %v", limit, keys, rows, want)
		}
	}
	none, err := store.WaitingKeys(f.ctx, 7, sluice.SendKey{}, 10)
	must(t, err)
	rows, err := store.SendRows(f.ctx, append(slices.Clone(all), sluice.SendKey{Message: messageID(1000)}))
	must(t, err)
	found := make(map[sluice.SendKey]sluice.SendState)
	for _, r := range rows {
		found[sluice.SendKey{Message: r.Message, Number: r.Number}] = r.State
	}
	if len(none) != 0 || len(rows) != len(all) || len(found) != len(all) {
		t.Fatalf("%d wait in another partition; %d rows of %d keys, %d of them different", len(none), len(rows), len(all), len(found))
	}
	for _, k := range want {
		if found[k] != sluice.SendWaiting {
			t.Errorf("%v is %s", k, found[k])
		}
	}
}
