package users

import (
	"strings"
	"testing"

	"sluice/user"
	"sluice/user/profile"
)

// fill makes the profile of a user as large as one may be.
func (m *model) fill(k user.Key) {
	m.t.Helper()
	m.add(set(k, large(0, user.MaxProfileBytes/profile.MaxValueBytes)))
	m.settle()
	_, p := m.who(k)
	room := user.MaxProfileBytes - len(p.Append(nil)) - len(`,"fill":""`)
	m.add(set(k, `{"fill":"`+strings.Repeat("x", room)+`"}`))
	m.settle()
}

// A user whose profile has no room for anything else may leave groups and all mail.
func TestWhoIsTooLargeMayLeave(t *testing.T) {
	m := newModel(t, 1)
	k := external("u")
	m.fill(k)
	m.add(user.Update{Op: user.OpGroup, Key: k, Name: "weekly", Body: "unsubscribed"})
	m.add(set(k, `{"n":1}`))
	m.settle()
	m.add(user.Update{Op: user.OpSubscribe, Key: k, Body: "unsubscribed"})
	m.settle()
	if _, p := m.who(k); !p.Left("weekly") || p.EmailState() != "unsubscribed" || p.Custom.Get("n") != "" || len(m.dead) != 1 {
		t.Errorf("%d bytes, %d dead letters: left %v, %s", len(p.Append(nil)), len(m.dead), p.Left("weekly"), p.EmailState())
	}
}

// A user whose profile is larger than updates may make it, by what was said of mail, can be
// erased, and be taken over without the profile, whatever else is in the transaction.
func TestWhoIsTooLargeMayGo(t *testing.T) {
	m := newModel(t, 1)
	erased, taken, stays := external("erased"), user.AliasKey("l", "taken"), external("stays")
	for _, k := range []user.Key{erased, taken} {
		m.fill(k)
		m.add(user.Update{Op: user.OpGroup, Key: k, Name: "weekly", Body: "unsubscribed"})
		m.settle()
		if _, p := m.who(k); len(p.Append(nil)) <= user.MaxProfileBytes {
			t.Fatalf("the profile of %v has %d bytes: this test shows nothing", k, len(p.Append(nil)))
		}
	}
	m.add(set(stays, `{"n":1}`))
	m.settle()

	m.add(set(external("other"), large(0, user.MaxProfileBytes/profile.MaxValueBytes+1)))
	m.add(user.Update{Op: user.OpDelete, Key: erased})
	m.add(user.Update{Op: user.OpIdentify, Key: taken, Name: stays.Name, Body: "none"})
	m.settle()
	if len(m.dead) != 1 || m.dead[0].Update.Op != user.OpAttributes {
		t.Errorf("%d dead letters, want that of the other user", len(m.dead))
	}
	if id, p := m.who(erased); p != nil {
		t.Errorf("%v is still there", id)
	}
	if _, p := m.who(taken); p == nil || p.ExternalID != stays.Name || p.Custom.Get("n") != "1" {
		t.Errorf("the alias leads to %.100s", dump(p))
	}
}
