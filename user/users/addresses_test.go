package users

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"sluice/store"
	"sluice/user"
	"sluice/user/profile"
)

// Several users have an address: one with an external id goes first, then the
// one written last.
func TestAddresses(t *testing.T) {
	m := newModel(t, 8)
	mail := user.Key{Kind: user.KeyEmail, Name: "x@example.com"}
	m.add(set(mail, `{"a":1}`))
	m.settle()
	if len(m.users) != 1 {
		t.Fatalf("%+v", m.users)
	}
	m.add(set(external("one"), `{"email":"x@example.com"}`))
	m.settle()
	m.add(set(external("two"), `{"email":"x@example.com"}`))
	m.settle()
	m.add(set(mail, `{"hit":true}`))
	m.settle()
	if _, p := m.who(external("two")); p.Custom.Get("hit") != "true" {
		t.Errorf("two is %s", p.Append(nil))
	}
	m.add(set(external("two"), `{"email":null}`))
	m.add(set(external("one"), `{"phone":"+4912345678"}`))
	m.settle()
	m.add(set(mail, `{"again":true}`))
	m.add(set(user.Key{Kind: user.KeyPhone, Name: "+4912345678"}, `{"rang":true}`))
	m.settle()
	if _, p := m.who(external("one")); p.Custom.Get("again") != "true" || p.Custom.Get("rang") != "true" {
		t.Errorf("one is %s", p.Append(nil))
	}
}

// A request may give an address to a user and say more of that address. That is
// said of the user, on any partition and in any order of the logs. If the user
// did not get the address, it is said of the one who has it, or of a new user.
func TestAddressGivenBefore(t *testing.T) {
	const partitions = 4
	mail := user.Key{Kind: user.KeyEmail, Name: "x@example.com"}
	r := rand.New(rand.NewPCG(13, 14))
	for i := range 200 {
		m := newModel(t, partitions)
		k, alias := external(fmt.Sprint("u", i)), user.AliasKey("l", fmt.Sprint(i))
		bought := user.Update{Op: user.OpPurchase, Key: k, Address: mail, Name: "p", TimeMillis: m.now, Body: `{"currency":"EUR","price":1,"quantity":1}`}
		event := did(k, "e", m.now)
		event.Address = mail
		gets := r.IntN(3) > 0
		if r.IntN(2) == 0 { // the user is of another partition than the id
			m.add(set(alias, `{"a":1}`))
			m.settle()
			m.add(user.Update{Op: user.OpIdentify, Key: alias, Name: k.Name, Body: "merge"})
			m.settle()
		}
		if r.IntN(2) == 0 { // somebody has the address already
			m.add(set(mail, `{"email":"x@example.com"}`))
			m.settle()
		}
		if gets {
			m.add(set(k, `{"email":"x@example.com"}`))
		}
		m.add(event)
		m.add(bought)
		for range 40 {
			m.step(1+r.IntN(2), r.IntN(partitions))
			m.deliver(r.IntN(partitions), r.IntN(partitions))
		}
		m.settle()
		var found *profile.Profile
		for _, row := range m.users {
			if p := m.profileOf(row); row.MergedInto.IsZero() && len(p.Events) > 0 {
				if found != nil {
					t.Fatalf("%d: the event is counted twice", i)
				}
				found = p
			}
		}
		if found == nil || (found.ExternalID == k.Name) != gets || len(found.Purchases) != 1 || found.Fields.Get("email") != `"x@example.com"` {
			t.Fatalf("%d: gets it %v: %s", i, gets, dump(found))
		}
	}
}

// A state in a group, set for an address that nobody has, is kept for the user
// who later gets it, on any partition. What the user says goes first, and an
// erasure leaves nothing of it.
func TestRemembered(t *testing.T) {
	group := func(k user.Key, name, state string) user.Update {
		return user.Update{Op: user.OpGroup, Key: k, Name: name, Body: state}
	}
	for i := range 20 {
		m := newModel(t, 4)
		mail := user.Key{Kind: user.KeyEmail, Name: fmt.Sprintf("%d@example.com", i)}
		m.add(group(mail, "g", "unsubscribed"))
		m.add(group(mail, "h", "unsubscribed"))
		if i%2 == 0 {
			m.settle()
		}
		m.step(9, mail.Partition(4))
		m.add(set(external("u"), `{"a":1}`))
		m.settle()
		m.add(set(external("u"), `{"email":"`+mail.Name+`","subscription_groups":[{"subscription_group_id":"h","subscription_state":"subscribed"}]}`))
		m.settle()
		_, p := m.who(external("u"))
		if len(p.Groups) != 2 || p.Groups[0].Subscribed || !p.Groups[1].Subscribed {
			t.Fatalf("%d: %s", i, dump(p))
		}
		m.add(group(external("u"), "g", "subscribed"))
		m.add(set(external("u"), `{"email":"`+mail.Name+`","b":1}`))
		m.settle()
		if _, p := m.who(external("u")); !p.Groups[0].Subscribed {
			t.Fatalf("%d: what the user said later is undone: %s", i, dump(p))
		}
		k, _ := mail.Remembered()
		m.add(user.Update{Op: user.OpMerge, Key: user.Key{Kind: user.KeyUser, Name: m.keys[k].String()}, Name: MergeName(external("u"))})
		m.add(user.Update{Op: user.OpDelete, Key: external("u")})
		m.settle()
		if len(m.keys) != 0 || len(m.address) != 0 {
			t.Fatalf("%d: left are %v, %v", i, m.keys, m.address)
		}
	}
}

// An address that has left a group stays out of it with the user who gets it, unless that
// user has said something of the group later.
func TestRememberedOptOutHolds(t *testing.T) {
	group := func(k user.Key, state string, at int64) user.Update {
		return user.Update{Op: user.OpGroup, Key: k, Name: "g", Body: state, TimeMillis: at}
	}
	for later, want := range map[bool]bool{false: false, true: true} {
		m := newModel(t, 4)
		mail := user.Key{Kind: user.KeyEmail, Name: "x@example.com"}
		m.add(set(external("u"), `{"a":1}`))
		m.add(group(external("u"), "subscribed", 5))
		m.add(group(mail, "unsubscribed", 7))
		if later {
			m.add(group(external("u"), "subscribed", 9))
		}
		m.settle()
		m.add(set(external("u"), `{"email":"x@example.com"}`))
		m.settle()
		if _, p := m.who(external("u")); len(p.Groups) != 1 || p.Groups[0].Subscribed != want {
			t.Errorf("said later %v: %s", later, dump(p))
		}
	}
}

// Whether mail is wanted is the state of all users who have an address, on any
// partition. If nobody has it, the state is kept for the user who gets it,
// unless that user says otherwise.
func TestSubscribed(t *testing.T) {
	const partitions = 4
	subscribe := func(k user.Key, state string) user.Update {
		return user.Update{Op: user.OpSubscribe, Key: k, Body: state}
	}
	for i := range 20 {
		m := newModel(t, partitions)
		mail := user.Key{Kind: user.KeyEmail, Name: fmt.Sprintf("%d@example.com", i)}
		state := func(u, want string) {
			t.Helper()
			if _, p := m.who(external(u)); p.Fields.Get("email_subscribe") != want {
				t.Fatalf("%d: %s is %s, want %s", i, u, dump(p), want)
			}
		}
		m.add(subscribe(mail, "unsubscribed"))
		m.settle()
		for _, u := range []string{"a", "b", "c", "d", "e"} { // of several partitions
			m.add(set(external(u), `{"email":"`+mail.Name+`"}`))
		}
		m.add(set(external("f"), `{"email":"`+mail.Name+`","email_subscribe":"opted_in"}`))
		m.add(set(external("g"), `{"email":"other@example.com"}`))
		m.settle()
		state("a", `"unsubscribed"`)
		state("f", `"opted_in"`)
		m.add(subscribe(mail, "subscribed"))
		m.settle()
		for _, u := range []string{"a", "b", "c", "d", "e", "f"} {
			state(u, `"subscribed"`)
		}
		state("g", "")
		m.add(set(external("a"), `{"email":null}`))
		m.settle()
		m.add(subscribe(mail, "unsubscribed"))
		m.settle()
		state("a", `"subscribed"`)
		state("b", `"unsubscribed"`)
		if len(m.dead) != 0 {
			t.Fatalf("%+v", m.dead)
		}
	}
}

// The address of an erased user is also a name of that user, unless another
// user has it. That holds too if the other user got it in the same transaction.
func TestEraseAddresses(t *testing.T) {
	m := newModel(t, 1)
	erase := func(u string) { m.add(user.Update{Op: user.OpDelete, Key: external(u)}) }
	for u, address := range map[string]string{"a": "alone@example.com", "b": "shared@example.com", "c": "shared@example.com", "d": "late@example.com"} {
		m.add(set(external(u), `{"email":"`+address+`"}`))
	}
	m.settle()
	erase("a")
	erase("b")
	erase("d")
	m.add(set(external("e"), `{"email":"late@example.com"}`))
	m.step(9, 0)
	for address, want := range map[string]bool{"alone@example.com": true, "shared@example.com": false, "late@example.com": false} {
		if m.erased[store.AddressErasure(address)] != want {
			t.Errorf("%s: %v, want %v", address, !want, want)
		}
	}
	erase("c")
	m.settle()
	if !m.erased[store.AddressErasure("shared@example.com")] {
		t.Error("the address is no name of its last owner")
	}
	long := strings.Repeat("ö", 255) // as long as an external id can be
	m.add(set(external(long), `{"email":"ann@xn--bcher-kva.example"}`))
	m.settle()
	erase(long)
	m.settle()
	for _, name := range []string{long, store.AddressErasure("ann@xn--bcher-kva.example"), store.AddressErasure("ann@bücher.example")} {
		if !m.erased[name] {
			t.Errorf("%s is not erased", name)
		}
	}
}

// A state in a group that is said of an address is that of each who has it, on any
// partition, where it is said so; else one of them gets it.
func TestGroupOfEach(t *testing.T) {
	for _, app := range []string{"", user.EachOfAddress} {
		m := newModel(t, 4)
		mail := user.Key{Kind: user.KeyEmail, Name: "a@example.com"}
		m.add(user.Update{Op: user.OpGroup, Key: user.Key{Kind: user.KeyEmail, Name: "new@example.com"}, Name: "g", App: app, Body: "unsubscribed"})
		for u := range 5 {
			m.add(set(external(fmt.Sprint("u", u)), `{"email":"a@example.com"}`))
		}
		m.settle()
		m.add(user.Update{Op: user.OpGroup, Key: mail, Name: "g", App: app, Body: "unsubscribed"})
		m.settle()
		left := 0
		for u := range 5 {
			if _, p := m.who(external(fmt.Sprint("u", u))); p.Left("g") {
				left++
			}
		}
		if want := map[string]int{"": 1, user.EachOfAddress: 5}[app]; left != want {
			t.Errorf("app %q: %d have left, want %d", app, left, want)
		}
		if m.counts["new_user"] != 6 {
			t.Errorf("app %q: %v", app, m.counts)
		}
	}
}
