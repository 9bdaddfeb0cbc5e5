package users

import (
	"strings"
	"testing"

	"sluice/user"
	"sluice/user/profile"
)

// A user whose profile has no room for anything else may leave groups and all mail.
func TestWhoIsTooLargeMayLeave(t *testing.T) {
	m := newModel(t, 1)
	k := external("u")
	m.add(set(k, large(0, user.MaxProfileBytes/profile.MaxValueBytes)))
	m.settle()
	_, p := m.who(k)
	fill := user.MaxProfileBytes - len(p.Append(nil)) - len(`,"fill":""`)
	m.add(set(k, `{"fill":"`+strings.Repeat("x", fill)+`"}`))
	m.settle()
	m.add(user.Update{Op: user.OpGroup, Key: k, Name: "weekly", Body: "unsubscribed"})
	m.add(set(k, `{"n":1}`))
	m.settle()
	m.add(user.Update{Op: user.OpSubscribe, Key: k, Body: "unsubscribed"})
	m.settle()
	if _, p = m.who(k); !p.Left("weekly") || p.EmailState() != "unsubscribed" || p.Custom.Get("n") != "" || len(m.dead) != 1 {
		t.Errorf("%d bytes, %d dead letters: left %v, %s", len(p.Append(nil)), len(m.dead), p.Left("weekly"), p.EmailState())
	}
}
