package users

import (
	"fmt"
	"testing"

	"sluice/user"
)

// Somebody who was merged away no longer exists. A deletion by a name of that one
// leaves the user who stays; a name of that user deletes it with all keys.
func TestDeletionByNameOfMergedUser(t *testing.T) {
	old, alias, taken := external("old"), user.AliasKey("l", "old"), user.AliasKey("m", "anonymous")
	for _, partitions := range []int{1, 16} {
		for _, x := range []struct {
			name  string
			key   func(old user.ID) user.Key
			stays bool
		}{
			{"external id", func(user.ID) user.Key { return old }, true},
			{"number", func(id user.ID) user.Key { return user.Key{Kind: user.KeyUser, Name: id.String()} }, true},
			{"alias", func(user.ID) user.Key { return alias }, true},
			{"alias that was identified", func(user.ID) user.Key { return taken }, false},
			{"own external id", func(user.ID) user.Key { return external("new") }, false},
		} {
			m := newModel(t, partitions)
			m.add(set(old, `{"a":1}`))
			m.add(user.Update{Op: user.OpAlias, Key: old, Body: alias.Name})
			m.add(set(external("new"), `{"b":2}`))
			m.add(set(taken, `{"c":3}`))
			m.settle()
			gone, _ := m.who(old)
			m.add(mergeInto(old, external("new")))
			m.add(user.Update{Op: user.OpIdentify, Key: taken, Name: "new", Body: "merge"})
			m.settle()
			m.add(user.Update{Op: user.OpDelete, Key: x.key(gone), ExistingOnly: true})
			m.settle()
			_, p := m.who(external("new"))
			switch {
			case (p != nil) != x.stays, len(m.dead) > 0:
				t.Errorf("%d partitions, deleted by %s: %+v is left, dead %+v", partitions, x.name, p, m.dead)
			case x.stays && (p.Custom.Get("a") != "1" || p.Custom.Get("b") != "2" || p.Custom.Get("c") != "3"):
				t.Errorf("%d partitions, deleted by %s: %s", partitions, x.name, p.Append(nil))
			case !x.stays && len(m.keys) > 0:
				t.Errorf("%d partitions, deleted by %s: %v are left", partitions, x.name, m.keys)
			}
		}
	}
}

// A deletion by the alias of a user who was merged a moment before follows the merge to
// the log of the one who stays, and deletes nobody. By the alias of one who was not merged
// it deletes that one.
func TestDeletionBehindAMerge(t *testing.T) {
	for n := range 40 { // of which some lie in two partitions, or three
		m := newModel(t, 16)
		kept, alias, other := external(fmt.Sprint("kept", n)), user.AliasKey("l", fmt.Sprint("old", n)), user.AliasKey("m", fmt.Sprint("other", n))
		m.add(set(kept, `{"a":1}`))
		m.add(set(alias, `{"b":2}`))
		m.add(set(other, `{"c":3}`))
		m.settle()
		m.add(mergeInto(alias, kept))
		m.add(user.Update{Op: user.OpDelete, Key: alias, ExistingOnly: true})
		m.add(user.Update{Op: user.OpDelete, Key: other, ExistingOnly: true})
		m.settle()
		if _, p := m.who(kept); p == nil || p.Custom.Get("b") != "2" || len(m.dead) > 0 {
			t.Errorf("%d: %+v is left, dead %+v", n, p, m.dead)
		}
		if _, p := m.who(other); p != nil {
			t.Errorf("%d: a user who was not merged is there still", n)
		}
	}
}

// Whom a merged user was merged into may itself be merged: names of both find the
// last one, and delete nobody.
func TestDeletionOverTwoMerges(t *testing.T) {
	m := newModel(t, 16)
	first, second := user.AliasKey("l", "1"), user.AliasKey("l", "2")
	for _, k := range []user.Key{first, second, external("u")} {
		m.add(set(k, `{"n":{"inc":1}}`))
	}
	m.settle()
	m.add(mergeInto(first, second))
	m.settle()
	m.add(user.Update{Op: user.OpIdentify, Key: second, Name: "u", Body: "none"})
	m.settle()
	m.add(user.Update{Op: user.OpDelete, Key: first, ExistingOnly: true})
	m.settle()
	if _, p := m.who(external("u")); p == nil || len(p.Aliases) != 2 {
		t.Fatalf("%+v is left", p)
	}
	m.add(user.Update{Op: user.OpDelete, Key: second, ExistingOnly: true})
	m.settle()
	if len(m.keys) > 0 {
		t.Errorf("%v are left", m.keys)
	}
}

// A merge of somebody who was merged away moves nobody: the user who stays is another.
// As the one who stays, each name leads to the end of the chain.
func TestMergeByNameOfMergedUser(t *testing.T) {
	for _, partitions := range []int{1, 16} {
		m := newModel(t, partitions)
		for _, name := range []string{"old", "kept", "other", "late"} {
			m.add(set(external(name), `{"n":1,"`+name+`":true}`))
		}
		m.settle()
		gone, _ := m.who(external("old"))
		m.add(mergeInto(external("old"), external("kept")))
		m.settle()
		kept, _ := m.who(external("kept"))
		for _, k := range []user.Key{external("old"), {Kind: user.KeyUser, Name: gone.String()}} {
			m.add(mergeInto(k, external("other")))
		}
		m.add(mergeInto(external("late"), external("old")))
		m.settle()
		id, p := m.who(external("late"))
		_, other := m.who(external("other"))
		if id != kept || p.ExternalID != "kept" || p.Custom.Get("late") != "true" || other.ExternalID != "other" || other.Custom.Get("kept") != "" || len(m.dead) > 0 {
			t.Errorf("%d partitions: %v %s and %s, dead %+v", partitions, id, p.Append(nil), other.Append(nil), m.dead)
		}
	}
}

// A database that has gone back may have lost whom a merge in the log names as the one who
// stays. A user that it still has, or has merged elsewhere, is not erased.
func TestMergeIntoLost(t *testing.T) {
	for _, merged := range []bool{false, true} {
		m := newModel(t, 2)
		a, b := pair(2)
		m.add(set(external(a), `{"x":1}`))
		m.add(set(external(b), `{"y":1}`))
		m.settle()
		id, was := m.who(external(a))
		lost := user.Key{Kind: user.KeyUser, Name: user.ID{Partition: external(b).Partition(2), Number: 1009}.String()}
		was.AddFormer(a)
		was.AddFormer(id.String())
		m.addTo(external(b).Partition(2), user.Update{Op: user.OpAbsorb, Key: lost, Name: id.String(), Body: string(was.Append(nil))})
		if merged {
			m.add(mergeInto(external(a), external(b)))
			m.step(9, external(a).Partition(2))
		}
		m.settle()
		_, p := m.who(external(a))
		if len(m.erased) > 0 || len(m.dead) > 0 || p == nil || p.Custom.Get("x") != "1" {
			t.Errorf("merged %v: %s, erased %v, dead %+v", merged, dump(p), m.erased, m.dead)
		}
	}
}
