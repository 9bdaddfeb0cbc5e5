package users

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"

	"sluice"
)

// What is made while the transaction before is written, whether that is
// committed by then or not, is what would be made after it.
func TestAhead(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 1000 {
		after, ahead := newModel(t, 1), newModel(t, 1)
		ahead.random, ahead.most = r, 1
		for _, u := range someUpdates(r) {
			// Some by an address: his, another's, or nobody's by then.
			switch r.IntN(8) {
			case 0, 1:
				u = did(sluice.UserKey{Kind: sluice.KeyEmail, Name: fmt.Sprintf("%d@example.com", r.IntN(2))}, "e", 1_700_000_000_000)
			case 2: // by his number, even if he is erased
				u = did(sluice.UserKey{Kind: sluice.KeyUser, Name: sluice.UserID{Number: 1 + r.Int64N(3)}.String()}, "f", 1_700_000_000_000)
			}
			after.add(u)
			ahead.add(u)
		}
		for range after.logs[0] {
			after.step(1, 0)
			after.now--
		}
		after.now++
		ahead.settle()
		after.settle()
		if !maps.Equal(after.users, ahead.users) || !maps.Equal(after.keys, ahead.keys) || !maps.Equal(after.address, ahead.address) || !maps.Equal(after.numbers, ahead.numbers) {
			t.Fatalf("%+v\nafter %+v\n%v\nahead %+v\n%v", after.logs[0], after.users, after.keys, ahead.users, ahead.keys)
		}
	}
}
