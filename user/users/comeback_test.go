package users

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"sluice/user"
)

// A user who is deleted and made again under the same name at once is there
// again, with the new data. That holds on any partition and in any order of the
// logs.
func TestDeletedComesBack(t *testing.T) {
	const partitions = 4
	r := rand.New(rand.NewPCG(15, 16))
	mail := user.Key{Kind: user.KeyEmail, Name: "x@example.com"}
	for i := range 200 {
		m := newModel(t, partitions)
		k, alias := external(fmt.Sprint("u", i)), user.AliasKey("l", fmt.Sprint(i))
		m.add(set(alias, `{"email":"x@example.com","old":1}`))
		m.settle()
		m.add(user.Update{Op: user.OpIdentify, Key: alias, Name: k.Name, Body: "merge"})
		m.settle()
		by := []user.Key{k, alias, mail}[i%3]
		m.add(user.Update{Op: user.OpDelete, Key: by, ExistingOnly: true})
		m.add(set(by, `{"new":1}`))
		m.add(did(by, "e", m.now))
		m.add(user.Update{Op: user.OpAttributes, Key: by, ExistingOnly: true, Body: `{"only":1}`})
		if r.IntN(2) == 0 {
			m.add(user.Update{Op: user.OpGroup, Key: mail, Name: "g", Body: "unsubscribed"})
		}
		for range 3 * partitions { // in any order
			from, to := r.IntN(partitions), r.IntN(partitions)
			m.step(1+r.IntN(3), from)
			m.deliver(from, to)
		}
		m.settle()
		back := 0
		for _, row := range m.users {
			p := m.profileOf(row)
			if p.Custom.Get("old") != "" {
				t.Fatalf("%v: the user is still there: %s", by, row.Profile)
			}
			if p.Custom.Get("new") == "1" && len(p.Events) == 1 {
				back++
			}
		}
		if back != 1 || len(m.events) != 1 {
			t.Fatalf("run %d, %v: %d users are back of %d, %d events", i, by, back, len(m.users), len(m.events))
		}
	}
}

// Two users who are made by one call and merged by the next are one, in any
// order of their logs. A merge into nobody ends.
func TestMergedAtOnce(t *testing.T) {
	const partitions = 4
	r := rand.New(rand.NewPCG(17, 18))
	for i := range 200 {
		m := newModel(t, partitions)
		from, to := external(fmt.Sprint("from", i)), external(fmt.Sprint("to", i))
		if i%2 == 0 {
			to = user.AliasKey("l", fmt.Sprint("to", i))
		}
		m.add(set(from, `{"a":1}`))
		m.add(set(to, `{"b":1}`))
		m.add(user.Update{Op: user.OpMerge, Key: from, ExistingOnly: true, Name: MergeName(external("nobody"))})
		m.add(user.Update{Op: user.OpMerge, Key: from, ExistingOnly: true, Name: MergeName(to)})
		m.add(did(from, "e", m.now))
		for range 2 * partitions {
			m.step(1+r.IntN(3), r.IntN(partitions))
			m.deliver(r.IntN(partitions), r.IntN(partitions))
		}
		m.settle()
		id, p := m.who(from)
		if other, _ := m.who(to); id != other || p.Custom.Get("a") != "1" || p.Custom.Get("b") != "1" || len(p.Events) != 1 || len(m.dead) > 0 {
			t.Fatalf("run %d: %v and %v, %s", i, id, other, p.Append(nil))
		}
	}
}
