package users

import (
	"testing"

	"sluice/user"
)

// A user has one alias of a label. Where the owner of the external id has another
// one of the same label, the two are not combined, as with Braze.
func TestIdentifyWithTakenLabel(t *testing.T) {
	for _, partitions := range []int{1, 16} {
		for _, how := range []string{"merge", "none"} {
			for _, x := range []struct {
				name, label string
				combined    bool
			}{{"the same label", "cookie", false}, {"another label", "device", true}} {
				m := newModel(t, partitions)
				first, other := user.AliasKey("cookie", "1"), user.AliasKey(x.label, "2")
				m.add(set(external("u"), `{"a":1}`))
				m.add(user.Update{Op: user.OpAlias, Key: external("u"), Body: first.Name})
				m.add(set(other, `{"b":2}`))
				m.settle()
				m.add(user.Update{Op: user.OpIdentify, Key: other, Name: "u", Body: how})
				m.settle()
				owner, p := m.who(external("u"))
				id, anonymous := m.who(other)
				if (id == owner) != x.combined || len(m.dead) > 0 || (len(p.Aliases) == 2) != x.combined {
					t.Errorf("%d partitions, %s, %s: %v is %v, %s", partitions, how, x.name, other, id, p.Append(nil))
				}
				if !x.combined && (anonymous.ExternalID != "" || anonymous.Custom.Get("b") != "2" || p.Custom.Get("b") != "") {
					t.Errorf("%d partitions, %s, %s: %s and %s", partitions, how, x.name, p.Append(nil), anonymous.Append(nil))
				}
			}
		}
	}
}
