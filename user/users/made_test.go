package users

import (
	"testing"

	"sluice/user"
)

// An update with a name counts once: in one transaction and in later ones, and for who was
// merged too. Others, and those without a name, count each time.
func TestNamedUpdatesCountOnce(t *testing.T) {
	m := newModel(t, 4)
	k, goes := external("u-1"), external("u-2")
	named := func(k user.Key, name string) user.Update {
		u := set(k, `{"n":{"inc":1}}`)
		u.App, u.ExistingOnly = name, name != ""
		return u
	}
	check := func(want string) {
		t.Helper()
		m.settle()
		if _, p := m.who(k); p.Custom.Get("n") != want {
			t.Errorf("n is %s, want %s: %s", p.Custom.Get("n"), want, p.Append(nil))
		}
	}
	m.add(named(k, ""))
	m.add(named(k, "a"))
	m.add(named(k, "a"))
	check("2")
	m.add(named(k, "a"))
	m.add(named(k, "b"))
	m.add(named(k, ""))
	check("4")
	m.add(set(goes, `{"m":1}`))
	m.add(named(goes, "c"))
	m.settle()
	m.add(mergeInto(goes, k))
	check("4") // its own holds
	m.add(named(goes, "c"))
	check("4")
	m.add(named(goes, "d"))
	check("5")
}
