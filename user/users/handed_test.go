package users

import (
	"fmt"
	"testing"

	"sluice/user"
	"sluice/user/profile"
)

// Of several who are merged into a user of another partition by one transaction, those that
// are too much beside the ones before stay as they are. So it is if the transaction has
// made that user.
func TestTooLargeTogetherOfOneUnit(t *testing.T) {
	half := user.MaxProfileBytes/profile.MaxValueBytes/2 - 2
	into, _ := pair(2)
	var froms []user.Key
	for i := 0; len(froms) < 3; i++ {
		if k := external(fmt.Sprint("from", i)); k.Partition(2) != external(into).Partition(2) {
			froms = append(froms, k)
		}
	}
	for _, made := range []bool{false, true} {
		m := newModel(t, 2)
		for i, k := range froms {
			m.add(set(k, large(min(i, 1)*half, half))) // the last two have the same
		}
		if made {
			m.settle()
		}
		m.add(set(external(into), large(2*half, half)))
		if !made {
			m.settle()
		}
		for _, k := range froms {
			m.add(mergeInto(k, external(into)))
		}
		m.step(100, external(into).Partition(2), froms[0].Partition(2))
		m.settle()
		id, p := m.who(external(into))
		for i, k := range froms {
			if got, _ := m.who(k); (got == id) != (i == 0) {
				t.Errorf("made %v: user %d is %v, the one who stays is %v", made, i, got, id)
			}
		}
		if len(m.dead) != 2 || len(p.Custom) != 2*half {
			t.Errorf("made %v: %d dead letters, %d attributes", made, len(m.dead), len(p.Custom))
		}
		for _, d := range m.dead {
			if d.Update.Op != user.OpMerge {
				t.Errorf("made %v: an update with operation %d is dead", made, d.Update.Op)
			}
		}
	}
}
