package users

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"sluice"
	"sluice/user"
	"sluice/user/profile"
)

func set(k user.Key, object string) user.Update {
	return user.Update{Op: user.OpAttributes, Key: k, Body: object}
}

func did(k user.Key, name string, millis int64) user.Update {
	return user.Update{Op: user.OpEvent, Key: k, Name: name, TimeMillis: millis}
}

func mergeInto(goes, stays user.Key) user.Update {
	return user.Update{Op: user.OpMerge, Key: goes, Name: MergeName(stays)}
}

// Whatever comes for a user in one transaction is one row written.
func TestOneRowAUser(t *testing.T) {
	m := newModel(t, 4)
	k := external("u-1")
	p := k.Partition(4)
	for range 100 {
		m.add(set(k, `{"n":{"inc":1}}`))
		m.add(did(k, "e", m.now))
	}
	r, err := Apply(t.Context(), m, nil, 4, m.now, m.logs[p])
	if err != nil || len(r.Changes.Put) != 1 || len(r.Changes.AddKeys) != 1 || len(r.Events) != 100 || r.Changes.Numbers[p].User != 1 {
		t.Fatalf("%+v %v", r, err)
	}
	m.write(&r)
	id, got := m.who(k)
	if id != (user.ID{Partition: p, Number: 1}) || got.Custom.Get("n") != "100" || got.Events[0].Count != 100 || got.ExternalID != "u-1" {
		t.Errorf("%v %s", id, got.Append(nil))
	}
	if m.counts["new_user"] != 1 || m.counts["dau"] != 1 || m.events[7].User != "u-1" || m.events[7].Kind != sluice.KindCustom {
		t.Errorf("%v %+v", m.counts, m.events[7])
	}
}

// Nobody is created who must not be, and what is said of nobody is dropped.
func TestNobody(t *testing.T) {
	m := newModel(t, 4)
	only := set(external("x"), `{"a":1}`)
	only.ExistingOnly = true
	m.add(only)
	m.add(user.Update{Op: user.OpDelete, Key: external("x")})
	m.add(user.Update{Op: user.OpGroup, Key: external("x"), Name: "g", Body: "subscribed"})
	m.add(mergeInto(external("x"), external("y")))
	m.add(set(user.Key{Kind: user.KeyUser, Name: user.ID{Partition: 1, Number: 9}.String()}, `{"a":1}`))
	m.add(user.Update{Op: user.OpAlias, Key: external("x"), Body: user.AliasKey("l", "n").Name})
	m.add(user.Update{Op: user.OpIdentify, Key: user.AliasKey("l", "n"), Name: "x"})
	m.settle()
	if len(m.users) != 0 || len(m.keys) != 0 || len(m.dead) != 0 {
		t.Errorf("%+v %+v %+v", m.users, m.keys, m.dead)
	}
}

// What a newer program has stored of a user is kept when this program changes the
// user, also in a merge over partitions.
func TestWhatNewerProgramsKnowIsKept(t *testing.T) {
	m := newModel(t, 16)
	for _, name := range []string{"x", "y"} {
		m.add(set(external(name), `{"a":1}`))
	}
	m.settle()
	id, _ := m.who(external("x"))
	row := m.users[id]
	row.Profile = `{"external_id":"x","devices":{"d":[1]}}`
	m.users[id] = row
	m.add(set(external("x"), `{"b":1}`))
	m.settle()
	if _, got := m.who(external("x")); got.Newer.Get("devices") != `{"d":[1]}` || got.Custom.Get("b") != "1" {
		t.Errorf("after an update: %s", got.Append(nil))
	}
	m.add(mergeInto(external("x"), external("y")))
	m.settle()
	if _, got := m.who(external("y")); got.Newer.Get("devices") != `{"d":[1]}` {
		t.Errorf("after a merge: %s", got.Append(nil))
	}
}

// An alias leads to its user wherever it is taken in, and a second owner gets
// nothing.
func TestAliases(t *testing.T) {
	m := newModel(t, 16)
	for i := range 40 {
		k := external(fmt.Sprint("u", i))
		alias := user.AliasKey("label", fmt.Sprint(i))
		m.add(set(k, `{"n":1}`))
		m.add(user.Update{Op: user.OpAlias, Key: k, Body: alias.Name})
		m.settle()
		m.add(set(alias, `{"n":{"inc":1}}`))
		m.add(set(alias, `{"n":{"inc":1}}`))
		m.add(user.Update{Op: user.OpAlias, Key: external("u0"), Body: alias.Name})
		m.settle()
		byKey, p := m.who(k)
		byAlias, _ := m.who(alias)
		if byKey != byAlias || p.Custom.Get("n") != "3" || len(p.Aliases) != 1 {
			t.Fatalf("%d: %v %v %s", i, byKey, byAlias, p.Append(nil))
		}
	}
}

// A user known by an alias gets an external id, or becomes part of the user who
// has it.
func TestIdentify(t *testing.T) {
	for _, how := range []string{"merge", "none"} {
		for i := range 40 {
			m := newModel(t, 16)
			alias, k := user.AliasKey("l", fmt.Sprint(i)), external("u")
			m.add(set(alias, `{"a":1,"email":"x@example.com"}`))
			m.add(did(alias, "e", m.now))
			m.settle()
			m.add(user.Update{Op: user.OpIdentify, Key: alias, Name: "u", Body: how})
			m.settle()
			first, p := m.who(k)
			if p == nil || p.ExternalID != "u" || p.Custom.Get("a") != "1" {
				t.Fatalf("%v after it was identified", first)
			}
			other := user.AliasKey("m", fmt.Sprint(i))
			m.add(set(other, `{"a":2,"b":3}`))
			m.add(did(other, "e", m.now+5))
			m.settle()
			m.add(user.Update{Op: user.OpIdentify, Key: other, Name: "u", Body: how})
			m.settle()
			id, p := m.who(other)
			want, events := "3", int64(2)
			if how == "none" {
				want, events = "", 1
			}
			if id != first || p.Custom.Get("a") != "1" || p.Custom.Get("b") != want || p.Events[0].Count != events || len(p.Aliases) != 2 {
				t.Fatalf("%s: %v %s", how, id, p.Append(nil))
			}
		}
	}
}

// An erased user leaves its counts, and nothing else: its former names are
// removed too.
func TestErase(t *testing.T) {
	m := newModel(t, 4)
	a, b := pair(4)
	m.add(set(external(a), `{"email":"a@example.com"}`))
	m.add(did(external(a), "e", m.now))
	m.add(set(external(b), `{"x":1}`))
	m.settle()
	idA, _ := m.who(external(a))
	m.add(mergeInto(external(a), external(b)))
	m.settle()
	idB, _ := m.who(external(a))
	m.add(user.Update{Op: user.OpDelete, Key: external(b)})
	m.settle()
	for _, name := range []string{a, b, idA.String(), idB.String()} {
		if !m.erased[name] {
			t.Errorf("%s is not erased: %v", name, m.erased)
		}
	}
	if len(m.keys) != 0 || len(m.address) != 0 || m.counts["new_user"] != 2 {
		t.Errorf("%v %v %v", m.keys, m.address, m.counts)
	}
	m.add(set(external(a), `{"back":1}`))
	m.settle()
	if id, p := m.who(external(a)); id == idA || p.Custom.Get("back") != "1" || p.Custom.Get("x") != "" {
		t.Errorf("the user came back as %v %s", id, p.Append(nil))
	}
}

// In one transaction as in many: merged, erased, made again.
func TestAllAtOnce(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		var updates []user.Update
		for range 1 + r.IntN(12) {
			k, other := external(fmt.Sprint(r.IntN(3))), external(fmt.Sprint(r.IntN(3)))
			switch r.IntN(5) {
			case 0:
				updates = append(updates, mergeInto(k, other))
			case 1:
				updates = append(updates, user.Update{Op: user.OpDelete, Key: k})
			case 2:
				updates = append(updates, user.Update{Op: user.OpAlias, Key: k, Body: user.AliasKey("l", other.Name).Name})
			default:
				updates = append(updates, set(k, fmt.Sprintf(`{"a":%d,"email":"%d@example.com"}`, r.IntN(9), r.IntN(2))))
			}
		}
		// One partition: one order, whatever is applied together.
		one, each := newModel(t, 1), newModel(t, 1)
		for _, u := range updates {
			one.add(u)
			each.add(u)
		}
		one.settle()
		for range updates {
			each.step(1, 0)
		}
		each.settle()
		for i := range 3 {
			k := external(fmt.Sprint(i))
			idOne, pOne := one.who(k)
			idEach, pEach := each.who(k)
			if idOne != idEach || (pOne == nil) != (pEach == nil) || pOne != nil && string(pOne.Append(nil)) != string(pEach.Append(nil)) && pOne.CreatedMillis == pEach.CreatedMillis {
				t.Fatalf("%+v\nat once %v %s\none by one %v %s", updates, idOne, dump(pOne), idEach, dump(pEach))
			}
		}
	}
}

func dump(p *profile.Profile) string {
	if p == nil {
		return "nobody"
	}
	return string(p.Append(nil))
}

// Two users of two partitions do things, and one is merged into the other. In
// whatever order the two logs are read and what is forwarded arrives, the
// profile that is left is the same.
func TestAnyInterleaving(t *testing.T) {
	a, b := pair(2)
	goes, stays := external(a), external(b)
	r := rand.New(rand.NewPCG(7, 8))
	for round := range 150 {
		var updates []user.Update
		at := 1 + r.IntN(10)
		for i := range 14 {
			k := goes
			if r.IntN(2) == 0 {
				k = stays
			}
			switch {
			case i == at:
				updates = append(updates, mergeInto(goes, stays))
			case r.IntN(2) == 0:
				updates = append(updates, did(k, string('a'+rune(r.IntN(3))), 1_700_000_000_000+r.Int64N(1000)))
			case k == goes && i < at:
				updates = append(updates, set(k, fmt.Sprintf(`{"%c":%d}`, 'a'+rune(r.IntN(3)), r.IntN(9))))
			case k == stays:
				updates = append(updates, set(k, fmt.Sprintf(`{"%c":%d}`, 'b'+rune(r.IntN(3)), r.IntN(9))))
			default:
				updates = append(updates, user.Update{Op: user.OpPurchase, Key: k, Name: "p", TimeMillis: 1_700_000_000_000 + r.Int64N(1000), Body: `{"currency":"EUR","price":1.5,"quantity":2}`})
			}
		}
		var first string
		for try := range 30 {
			m := newModel(t, 2)
			m.add(set(goes, `{}`))
			m.add(set(stays, `{}`))
			m.settle()
			for _, u := range updates {
				m.add(u)
			}
			for range 40 {
				switch r.IntN(4) {
				case 0:
					m.deliver(0, 1)
				case 1:
					m.deliver(1, 0)
				default:
					m.step(1+r.IntN(4), r.IntN(2))
				}
			}
			m.settle()
			_, p := m.who(goes)
			p.CreatedMillis = 0
			got := string(p.Append(nil))
			if try == 0 {
				first = got
			}
			if got != first {
				t.Fatalf("round %d, try %d: %+v\n%s\n%s", round, try, updates, got, first)
			}
			var all int64
			for _, e := range p.Events {
				all += e.Count
			}
			want := int64(len(slices.DeleteFunc(slices.Clone(updates), func(u user.Update) bool { return u.Op != user.OpEvent })))
			kept := slices.DeleteFunc(slices.Clone(updates), func(u user.Update) bool { return u.Op != user.OpEvent && u.Op != user.OpPurchase })
			if all != want || len(m.events) != len(kept) || m.counts["new_user"] != 2 || len(m.dead) > 0 {
				t.Fatalf("round %d: %d of %d events are counted, %d of %d facts are kept; %v %v", round, all, want, len(m.events), len(kept), m.counts, m.dead)
			}
		}
	}
}

// Merges in circles and chains end, each by where the other is by then.
func TestMergesOfMany(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	for range 200 {
		m := newModel(t, 4)
		const n = 6
		for i := range n {
			m.add(set(external(fmt.Sprint(i)), fmt.Sprintf(`{"n%d":1}`, i)))
			m.add(did(external(fmt.Sprint(i)), "e", m.now))
		}
		for range 12 {
			m.add(mergeInto(external(fmt.Sprint(r.IntN(n))), external(fmt.Sprint(r.IntN(n)))))
		}
		for range 60 {
			if r.IntN(2) == 0 {
				m.deliver(r.IntN(4), r.IntN(4))
			} else {
				m.step(1+r.IntN(3), r.IntN(4))
			}
		}
		m.settle()
		var events int64
		for _, row := range m.users {
			if row.MergedInto.IsZero() {
				p := m.profileOf(row)
				for _, e := range p.Events {
					events += e.Count
				}
			}
		}
		if events != n {
			t.Fatalf("%d of %d events are left: %+v", events, n, m.users)
		}
	}
}

// An update by the id of a user who was merged arrives, over as many merges as
// there were.
func TestLongChain(t *testing.T) {
	const n, partitions = 100, 3
	m := newModel(t, partitions)
	for i := range n {
		m.add(set(external(fmt.Sprint(i)), `{"a":1}`))
	}
	m.settle()
	first := m.keys[external("0")]
	for i := range n - 1 {
		m.add(mergeInto(external(fmt.Sprint(i)), external(fmt.Sprint(i+1))))
		m.settle()
	}
	m.add(did(user.Key{Kind: user.KeyUser, Name: first.String()}, "e", m.now))
	m.settle()
	_, p := m.who(external(fmt.Sprint(n - 1)))
	if len(p.Events) != 1 || p.Events[0].Count != 1 {
		t.Errorf("%.300s", dump(p))
	}
}

// A user that cannot be read keeps its keys. What arrives for it is a dead
// letter: a second user of that name would hide it from an erasure.
func TestUnreadable(t *testing.T) {
	m := newModel(t, 1)
	k := external("u")
	m.add(set(k, `{"a":1}`))
	m.settle()
	id := m.keys[k]
	row := m.users[id]
	row.Profile = "{"
	m.users[id] = row
	m.add(set(k, `{"a":2}`))
	m.add(user.Update{Op: user.OpDelete, Key: k})
	m.step(2, 0)
	if len(m.dead) != 2 || len(m.users) != 1 || m.keys[k] != id {
		t.Errorf("%d dead letters, users %v, keys %v", len(m.dead), m.users, m.keys)
	}
}

// large is an attributes object of some 50 KB under each of n names.
func large(first, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"a%d":"%s"`, first+i, strings.Repeat("x", profile.MaxValueBytes-2))
	}
	return "{" + b.String()[1:] + "}"
}

// If a user's profile would be too large, what makes it so is a dead letter and
// all else is applied. An event is in the profile or dead, never neither, and
// each one counted there has a row.
func TestTooLarge(t *testing.T) {
	m := newModel(t, 1)
	k := external("u")
	fits := user.MaxProfileBytes/profile.MaxValueBytes - 1
	m.add(did(k, "e", m.now))
	m.add(set(k, large(0, fits)))
	m.add(did(k, "e", m.now))
	m.add(set(k, large(fits, 2)))
	m.add(did(k, "e", m.now))
	m.add(set(k, `{"n":1}`))
	m.settle()
	_, p := m.who(k)
	if p == nil || len(p.Custom) != fits+1 || p.Custom.Get("n") != "1" || p.Events[0].Count != 3 || len(m.events) != 3 {
		t.Fatalf("%d events have rows; %.300s", len(m.events), dump(p))
	}
	if len(m.dead) != 1 || m.dead[0].Update.Op != user.OpAttributes || m.dead[0].Update.Place.Index != 3 {
		t.Errorf("%d dead letters: %.500v", len(m.dead), m.dead)
	}
}

// Two who together are too large are not merged: both stay as they are, also where they
// are of two partitions.
func TestTooLargeTogether(t *testing.T) {
	half := user.MaxProfileBytes/profile.MaxValueBytes/2 + 1
	for _, partitions := range []int{1, 2} {
		a, b := "a", "b"
		if partitions > 1 {
			a, b = pair(partitions)
		}
		m := newModel(t, partitions)
		m.add(set(external(a), large(0, half)))
		m.add(set(external(b), large(half, half)))
		m.settle()
		m.add(mergeInto(external(a), external(b)))
		m.add(did(external(b), "e", m.now))
		m.settle()
		idA, pA := m.who(external(a))
		idB, pB := m.who(external(b))
		if idA == idB || len(pA.Custom) != half || len(pB.Custom) != half || pB.Events[0].Count != 1 || len(m.dead) != 1 || m.dead[0].Update.Op != user.OpMerge {
			t.Errorf("%d partitions: %v has %d attributes, %v %d, %d dead letters", partitions, idA, len(pA.Custom), idB, len(pB.Custom), len(m.dead))
		}
		// Of those that they have in common one is kept: so these two fit.
		c := user.AliasKey("l", "c")
		m.add(set(c, large(half, half)))
		m.settle()
		m.add(mergeInto(c, external(b)))
		m.settle()
		if id, p := m.who(c); id != idB || len(p.Custom) != half || len(m.dead) != 1 {
			t.Errorf("%d partitions: %v has %d attributes, %d dead letters", partitions, id, len(p.Custom), len(m.dead))
		}
	}
}

// However many were merged into a user, one by one, an erasure knows all of
// their names: events have been stored under each.
func TestEraseMany(t *testing.T) {
	for _, how := range []string{"merge", "none"} {
		m := newModel(t, 2)
		k := external("u")
		m.add(set(k, `{"a":1}`))
		const n = 250
		var ids []user.ID
		for i := range n {
			m.add(set(user.AliasKey(fmt.Sprint("device ", i), "x"), `{"b":1}`))
		}
		m.settle()
		for i := range n {
			alias := user.AliasKey(fmt.Sprint("device ", i), "x")
			id, _ := m.who(alias)
			ids = append(ids, id)
			m.add(user.Update{Op: user.OpIdentify, Key: alias, Name: "u", Body: how})
		}
		m.settle()
		m.add(user.Update{Op: user.OpDelete, Key: k})
		m.settle() // which looks for keys that are left
		if len(m.keys) != 0 {
			t.Errorf("%s: %d keys are left", how, len(m.keys))
		}
		for i, id := range ids {
			if !m.erased[id.String()] {
				t.Fatalf("%s: the name of user %d of %d is not erased", how, i, n)
			}
		}
	}
}

// A user that has taken over as many users as allowed takes over no more: both stay as
// they are, also where they are of two partitions.
func TestMergedTooOften(t *testing.T) {
	for _, partitions := range []int{1, 2} {
		m := newModel(t, partitions)
		a, b := pair(2)
		p := &profile.Profile{ExternalID: b}
		for i := range profile.MaxFormer - 1 {
			p.AddFormer(fmt.Sprintf("%05d", i))
		}
		m.add(set(external(a), `{"x":1}`))
		m.add(set(external(b), `{"y":1}`))
		m.settle()
		id := m.keys[external(b)]
		row := m.users[id]
		row.Profile = string(p.Append(nil))
		m.users[id] = row
		m.add(mergeInto(external(a), external(b)))
		m.settle()
		if _, kept := m.who(external(a)); kept.ExternalID != a || kept.Custom.Get("x") != "1" || len(m.dead) != 1 {
			t.Errorf("%d partitions: %.300s, %d dead letters", partitions, dump(kept), len(m.dead))
		}
	}
}

// A user merged into one who is erased while the merge is on its way is erased
// too. A user made again under the same name meanwhile is not.
func TestEraseAfterMerge(t *testing.T) {
	for _, back := range []bool{false, true} {
		m := newModel(t, 2)
		a, b := pair(2)
		m.add(set(external(a), `{"x":1}`))
		m.add(set(external(b), `{"y":1}`))
		m.settle()
		id := m.keys[external(a)]
		m.add(mergeInto(external(a), external(b)))
		m.add(user.Update{Op: user.OpDelete, Key: external(b)})
		m.step(9, external(a).Partition(2))
		m.step(9, external(b).Partition(2))
		if back {
			m.add(set(external(a), `{"back":1}`))
			m.step(9, external(a).Partition(2))
		}
		m.settle()
		if !m.erased[a] || !m.erased[id.String()] {
			t.Errorf("%s and %v are not erased: %v", a, id, m.erased)
		}
		if _, ok := m.keys[external(a)]; ok != back || len(m.dead) > 0 {
			t.Errorf("back %v: keys %v, %d dead letters", back, m.keys, len(m.dead))
		}
	}
}

// One transaction makes a user and merges one of another partition into it.
func TestMergeIntoNew(t *testing.T) {
	m := newModel(t, 2)
	a, b := pair(2)
	m.add(set(external(a), `{"x":1}`))
	m.settle()
	m.add(set(external(b), `{"y":1}`))
	m.add(mergeInto(external(a), external(b)))
	m.step(9, external(b).Partition(2), external(a).Partition(2))
	m.settle()
	if _, p := m.who(external(a)); p.ExternalID != b || p.Custom.Get("x") != "1" || p.Custom.Get("y") != "1" {
		t.Errorf("got %s", dump(p))
	}
}

// No update for a few users is refused, by any keys, in transactions of all
// partitions or of some. It would be refused on each retry. No key of a removed
// user is left.
func TestNothingStops(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	for range 400 {
		const partitions = 3
		m := newModel(t, partitions)
		some := func() user.Key {
			switch n := fmt.Sprint(r.IntN(4)); r.IntN(5) {
			case 0:
				return user.AliasKey("l", n)
			case 1:
				return user.Key{Kind: user.KeyEmail, Name: n + "@example.com"}
			default:
				return external(n)
			}
		}
		for range 60 {
			switch k := some(); r.IntN(9) {
			case 0, 1:
				m.add(mergeInto(k, some()))
			case 2:
				m.add(user.Update{Op: user.OpDelete, Key: k})
			case 3:
				m.add(user.Update{Op: user.OpAlias, Key: k, Body: user.AliasKey("l", fmt.Sprint(r.IntN(4))).Name})
			case 4:
				m.add(user.Update{Op: user.OpIdentify, Key: k, Name: fmt.Sprint(r.IntN(4)), Body: []string{"merge", "none"}[r.IntN(2)]})
			case 5:
				m.add(did(k, "e", m.now))
			default:
				m.add(set(k, fmt.Sprintf(`{"a":%d,"email":"%d@example.com"}`, r.IntN(9), r.IntN(4))))
			}
			switch r.IntN(4) {
			case 0:
				m.step(1+r.IntN(4), 0, 1, 2)
			case 1:
				m.step(1+r.IntN(4), r.IntN(partitions))
			case 2:
				m.deliver(r.IntN(partitions), r.IntN(partitions))
			}
		}
		m.settle()
		if len(m.dead) > 0 {
			t.Fatalf("%+v", m.dead)
		}
	}
}
