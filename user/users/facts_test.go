package users

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"sluice"
	"sluice/journey"
	"sluice/user"
	"sluice/user/profile"
)

// asking is a model in which journeys ask for some names.
func asking(t *testing.T, partitions int) *model {
	m := newModel(t, partitions)
	m.registered = journey.NewRegistered(7, []journey.Names{
		{Events: []string{"cart"}, Attributes: []string{"email", "plan"}, Groups: []string{"news"}},
		{Purchases: []string{journey.Any}, Attributes: []string{"email_subscribe", "plan"}},
	})
	return m
}

// told are the facts that were written since the last call: who is named by the external
// id, numbers otherwise.
func (m *model) told(names ...string) string {
	m.t.Helper()
	who := make(map[user.ID]string)
	for _, n := range names {
		if id, ok := m.keys[external(n)]; ok {
			who[id] = n
		}
	}
	var all []string
	slices.SortStableFunc(m.facts, func(a, b journey.Fact) int { return int(a.TimeMillis - b.TimeMillis) })
	for _, f := range m.facts {
		id := user.ID{Partition: f.Place.Partition, Number: f.Number}
		name := who[id]
		if name == "" {
			name = fmt.Sprint(f.Number)
		}
		text := fmt.Sprint(name, " ", f.Kind)
		for _, part := range []string{f.Name, f.Body} {
			if part != "" {
				text += " " + part
			}
		}
		all = append(all, text)
	}
	m.facts = nil
	return strings.Join(all, "; ")
}

func (m *model) wantTold(want string, names ...string) {
	m.t.Helper()
	if got := m.told(names...); got != want {
		m.t.Errorf("facts are\n%s\nwant\n%s", got, want)
	}
}

// Every way in that counts for a profile is a fact, and what is not asked for is none.
func TestFactsOfUpdates(t *testing.T) {
	m := asking(t, 1)
	say := func(up user.Update) { m.now++; m.add(up) }
	say(user.Update{Op: user.OpSeen, Key: external("ann"), Name: "cart", Body: `{"n":0}`}) // of nobody
	say(user.Update{Op: user.OpEvent, Key: external("ann"), Name: "cart", Body: `{"n":1}`})
	say(user.Update{Op: user.OpSeen, Key: external("ann"), Name: "cart", Body: `{"n":2}`})
	say(user.Update{Op: user.OpEvent, Key: external("ann"), Name: "other"})
	say(user.Update{Op: user.OpPurchase, Key: external("ann"), Name: "hat", Body: `{"price":1}`})
	say(user.Update{Op: user.OpBought, Key: external("ann"), Name: "cap", Body: `{"price":2}`})
	say(set(external("ann"), `{"plan":"free","colour":"red"}`))
	say(set(external("ann"), `{"colour":"blue"}`))
	say(set(external("ann"), `{"plan":"free"}`))
	say(set(external("ann"), `{"plan":{"inc":1}}`)) // changes nothing
	say(set(external("ann"), `{"plan":null,"email":"a@example.com","subscription_groups":[{"subscription_group_id":"news","subscription_state":"subscribed"}]}`))
	say(user.Update{Op: user.OpGroup, Key: external("ann"), Name: "news", Body: "unsubscribed"})
	say(user.Update{Op: user.OpGroup, Key: external("ann"), Name: "news", Body: "unsubscribed"})
	say(user.Update{Op: user.OpGroup, Key: external("ann"), Name: "else", Body: "subscribed"})
	say(user.Update{Op: user.OpSubscribe, Key: external("ann"), Body: "opted_in"})
	say(user.Update{Op: user.OpSubscribe, Key: external("ann"), Body: "unsubscribed"})
	say(user.Update{Op: user.OpAlias, Key: external("ann"), Body: user.AliasKey("l", "n").Name})
	say(user.Update{Op: user.OpDelete, Key: external("ann")})
	say(user.Update{Op: user.OpSeen, Key: external("ann"), Name: "cart"})
	m.settle()
	m.wantTold(`1 1 cart {"n":1}; 1 1 cart {"n":2}; 1 2 hat {"price":1}; 1 2 cap {"price":2}; ` +
		`1 3 {"plan":[null,"free"]}; 1 3 {"email":[null,"a@example.com"],"plan":["free",null]}; 1 4 {"news":[null,"subscribed"]}; ` +
		`1 4 {"news":["subscribed","unsubscribed"]}; 1 3 {"email_subscribe":[null,"opted_in"]}; 1 3 {"email_subscribe":["opted_in","unsubscribed"]}; 1 7`)
}

// Who leaves a group and has no room for it loses the state of the oldest one: that is no
// change of any group behind it.
func TestFactsOfAGroupBeyondTheBound(t *testing.T) {
	m := asking(t, 1)
	m.add(user.Update{Op: user.OpGroup, Key: external("ann"), Name: "a", Body: "subscribed"})
	m.add(user.Update{Op: user.OpGroup, Key: external("ann"), Name: "news", Body: "unsubscribed"})
	for n := range profile.MaxGroups - 2 {
		m.now++
		m.add(user.Update{Op: user.OpGroup, Key: external("ann"), Name: fmt.Sprint("g", n), Body: "subscribed"})
	}
	m.settle()
	m.facts = nil
	m.add(user.Update{Op: user.OpGroup, Key: external("ann"), Name: "weekly", Body: "unsubscribed"})
	m.settle()
	m.wantTold("")
}

// An attribute that goes from A to B and back in one transaction is two facts.
func TestFactsOfEachCrossing(t *testing.T) {
	m := asking(t, 1)
	for _, plan := range []string{"a", "b", "a"} {
		m.now++
		m.add(set(external("ann"), `{"plan":"`+plan+`"}`))
	}
	m.step(1000, 0)
	m.wantTold(`1 3 {"plan":[null,"a"]}; 1 3 {"plan":["a","b"]}; 1 3 {"plan":["b","a"]}`)
}

// A user who is made by an update of an address has it by that update, whatever it is.
func TestFactsOfWhoIsMade(t *testing.T) {
	m := asking(t, 1)
	m.add(user.Update{Op: user.OpEvent, Key: user.Key{Kind: user.KeyEmail, Name: "a@example.com"}, Name: "cart"})
	m.settle()
	m.wantTold(`1 1 cart; 1 3 {"email":[null,"a@example.com"]}`)
}

// Somebody unknown who becomes known has another external id than before: none.
func TestFactsOfWhoBecomesKnown(t *testing.T) {
	m := newModel(t, 1)
	m.registered = journey.NewRegistered(7, []journey.Names{{Attributes: []string{"external_id"}}})
	alias := user.AliasKey("visitor", "17")
	m.add(user.Update{Op: user.OpAlias, Key: alias, Body: alias.Name})
	m.settle()
	m.now++
	m.add(user.Update{Op: user.OpIdentify, Key: alias, Name: "ann", Body: "merge"})
	m.now++
	m.add(user.Update{Op: user.OpIdentify, Key: alias, Name: "ann", Body: "merge"}) // again
	m.settle()
	m.wantTold(`ann 3 {"external_id":[null,"ann"]}`, "ann")
	m.now++
	m.add(set(external("bob"), `{"plan":"free"}`))
	m.settle()
	m.wantTold(`bob 3 {"external_id":[null,"bob"]}`, "bob")
	m.now++
	other := user.AliasKey("visitor", "18")
	m.add(user.Update{Op: user.OpAlias, Key: other, Body: other.Name})
	m.now++
	m.add(user.Update{Op: user.OpIdentify, Key: other, Name: "bob", Body: "merge"}) // bob was known before
	m.settle()
	if got := m.told("bob"); strings.Contains(got, "external_id") {
		t.Errorf("facts %s, want none of an external id", got)
	}
}

// A state that was remembered for an address is a change by the update that gives the
// address to a user, together with what else that one changes, not by a later one.
func TestFactsOfInheritedStates(t *testing.T) {
	m := asking(t, 1)
	address := user.Key{Kind: user.KeyEmail, Name: "a@example.com"}
	m.add(user.Update{Op: user.OpSubscribe, Key: address, Body: "unsubscribed"})
	m.add(user.Update{Op: user.OpGroup, Key: address, Name: "news", Body: "subscribed"})
	m.settle()
	m.facts = nil
	m.now += 10
	m.add(set(external("ann"), `{"email":"a@example.com","plan":"free"}`))
	m.now += 10
	m.add(set(external("ann"), `{"plan":"gold"}`))
	m.step(1000, 0)
	m.wantTold(`ann 3 {"email":[null,"a@example.com"],"plan":[null,"free"],"email_subscribe":[null,"unsubscribed"]}; ann 4 {"news":[null,"subscribed"]}; ann 3 {"plan":["free","gold"]}`, "ann")
}

// Both sides of a merge are told, and what the one who stays has by it: somebody unknown
// has left a cart, and turns out to be ann. It is the same whether both are of one
// partition or of two.
func TestFactsOfMerges(t *testing.T) {
	for _, partitions := range []int{1, 4} {
		for _, op := range []user.Op{user.OpIdentify, user.OpMerge} {
			m := asking(t, partitions)
			alias, ann := user.AliasKey("visitor", "17"), external("ann")
			for i := 0; partitions > 1 && alias.Partition(partitions) == ann.Partition(partitions); i++ {
				alias = user.AliasKey("visitor", fmt.Sprint(i))
			}
			m.add(set(ann, `{"email":"ann@example.com"}`))
			m.add(user.Update{Op: user.OpAlias, Key: alias, Body: alias.Name})
			m.settle()
			m.facts = nil
			visitor, _ := m.who(alias)
			stays, _ := m.who(ann)
			m.now++
			m.add(user.Update{Op: user.OpSeen, Key: alias, Name: "cart", Body: `{"n":2}`})
			m.now++
			m.add(set(alias, `{"plan":"free","email":"v@example.com"}`))
			m.now++
			merge := user.Update{Op: op, Key: alias, Name: "ann", Body: "merge"}
			if op == user.OpMerge {
				merge = mergeInto(alias, ann)
			}
			m.add(merge)
			m.settle()
			got := m.told("ann")
			gone := fmt.Sprint(visitor.Number)
			if partitions > 1 && visitor.Number == stays.Number {
				got = strings.Replace(got, "ann 5", gone+" 5", 1) // the number alone says nothing of two partitions
			}
			want := gone + ` 1 cart {"n":2}; ` + gone + ` 3 {"email":[null,"v@example.com"],"plan":[null,"free"]}; ` +
				gone + " 5 " + stays.String() + "; ann 6 " + visitor.String() + `; ann 3 {"plan":[null,"free"]}`
			if got != want {
				t.Errorf("%d partitions, operation %d:\n%s\nwant\n%s", partitions, op, got, want)
			}
		}
	}
}

// What is about one journey is a fact in the home of its user, once, also behind merges:
// an entry by the API, and a place on its way. It changes no profile, and of nobody it is
// nothing.
func TestFactsOfOneJourney(t *testing.T) {
	m := asking(t, 4)
	a, b := pair(4)
	for _, name := range []string{a, b} {
		m.add(set(external(name), `{"n":1}`))
	}
	m.settle()
	first, _ := m.who(external(a))
	m.add(mergeInto(external(a), external(b)))
	m.settle()
	m.facts = nil
	stays, before := m.who(external(b))
	m.addTo(first.Partition, user.Update{Op: user.OpPlace, Key: user.Key{Kind: user.KeyUser, Name: first.String()}, ExistingOnly: true, Name: "cart", Body: `{"record":""}`})
	m.add(user.Update{Op: user.OpEnter, Key: external(a), ExistingOnly: true, Name: "cart", Body: `{"n":1}`})
	m.add(user.Update{Op: user.OpEnter, Key: external("nobody"), ExistingOnly: true, Name: "cart"})
	m.settle()
	got := make(map[journey.FactKind]int)
	for _, f := range m.facts {
		if got[f.Kind]++; f.Place.Partition != stays.Partition || f.Number != stays.Number || f.Name != "cart" {
			t.Errorf("a fact of %d in partition %d, want %v: %+v", f.Number, f.Place.Partition, stays, f)
		}
	}
	if len(m.facts) != 2 || got[journey.FactPlace] != 1 || got[journey.FactEntered] != 1 {
		t.Errorf("facts %v, want one of a place and one of an entry", got)
	}
	if id, after := m.who(external(b)); id != stays || string(after.Append(nil)) != string(before.Append(nil)) || len(m.dead) != 0 || len(m.users) != 2 {
		t.Errorf("%d users, %d dead letters, profile %s", len(m.users), len(m.dead), after.Append(nil))
	}
}

// A repeat is no fact, nor is what is forwarded before it has arrived, nor what becomes
// a dead letter.
func TestNoFacts(t *testing.T) {
	m := asking(t, 4)
	a, b := pair(4)
	m.add(set(external(a), `{"n":1}`))
	m.settle()
	m.facts = nil
	p := external(a).Partition(4)
	for _, id := range []string{"x", "x", "stored-y"} {
		m.add(user.Update{Op: user.OpSeen, Key: external(a), Name: "cart", TimeMillis: m.now})
		m.logs[p][len(m.logs[p])-1].Event = sluice.EventKey{Millis: m.now, ID: id}
	}
	m.settle()
	m.wantTold(a+" 1 cart", a)

	alias := user.AliasKey("l", b)
	for i := 0; alias.Partition(4) == p; i++ {
		alias = user.AliasKey("l", fmt.Sprint(i))
	}
	m.add(user.Update{Op: user.OpAlias, Key: external(a), Body: alias.Name})
	m.settle()
	m.add(set(alias, `{"plan":"gold"}`))
	m.step(10, alias.Partition(4))
	m.wantTold("")
	m.settle()
	m.wantTold(a+` 3 {"plan":[null,"gold"]}`, a)

	m.add(set(external(a), `{"plan":"`+strings.Repeat("x", 10)+`"}`))
	full := `{"a0":0`
	for i := range 90 {
		full += fmt.Sprintf(`,"f%d":"%s"`, i, strings.Repeat("y", 48<<10))
	}
	m.add(set(external(a), full+`,"plan":"too large"}`))
	m.settle()
	if len(m.dead) != 1 {
		t.Fatalf("%d dead letters, want 1", len(m.dead))
	}
	m.wantTold(a+` 3 {"plan":["gold","xxxxxxxxxx"]}`, a)
}

// The facts are the same however the logs are cut into transactions, where the users are
// named by keys of one user each. Who has an address is looked up once a transaction.
func TestFactsOfAnyTransactions(t *testing.T) {
	script := func(r *rand.Rand) (all []user.Update) {
		for range 60 {
			k := external(fmt.Sprint("u", r.IntN(3)))
			all = append(all, []user.Update{
				set(k, fmt.Sprintf(`{"plan":"%d"}`, r.IntN(3))),
				set(k, fmt.Sprintf(`{"email":"e%d@example.com"}`, r.IntN(3))),
				{Op: user.OpEvent, Key: k, Name: "cart", Body: "{}"},
				{Op: user.OpSubscribe, Key: k, Body: []string{"opted_in", "unsubscribed"}[r.IntN(2)]},
				{Op: user.OpGroup, Key: k, Name: "news", Body: []string{"subscribed", "unsubscribed"}[r.IntN(2)]},
				mergeInto(k, external(fmt.Sprint("u", r.IntN(3)))),
				{Op: user.OpDelete, Key: k, ExistingOnly: true},
			}[min(r.IntN(9), 6)])
		}
		return all
	}
	for seed := range uint64(200) {
		var told []string
		for _, size := range []int{1000, 1, 7} {
			r := rand.New(rand.NewPCG(seed, 3))
			m := asking(t, 1)
			for i, up := range script(r) {
				up.TimeMillis = m.now + int64(i)
				m.add(up)
			}
			for m.read[0] < len(m.logs[0]) {
				m.step(size, 0)
			}
			told = append(told, m.told())
		}
		if told[0] != told[1] || told[0] != told[2] {
			t.Fatalf("seed %d: all at once:\n%s\none by one:\n%s\nby sevens:\n%s", seed, told[0], told[1], told[2])
		}
	}
}
