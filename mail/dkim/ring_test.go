package dkim

import (
	"strings"
	"testing"

	"sluice/test/dkimtest"
)

// ringOf makes a ring of "DOMAIN SENDER...".
func ringOf(t *testing.T, entries ...string) (*Ring, error) {
	t.Helper()
	r := &Ring{}
	for _, e := range entries {
		words := strings.Fields(e)
		k, err := ParseKey(words[0], "s", dkimtest.Key(dkimtest.Ed25519))
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Add(signer(t, k), words[1:]...); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// The nearest key signs, of a domain above only within one organisation, and a
// key that is bound signs for nobody else.
func TestRing(t *testing.T) {
	r, err := ringOf(t, "example.com", "mail.example.com", "github.io", "bound.example example.net *.b.example", "only.example only.example", "co.uk")
	if err != nil {
		t.Fatal(err)
	}
	for sender, want := range map[string]string{
		"example.com": "example.com", "a.b.example.com": "example.com", "mail.example.com": "mail.example.com", "x.mail.example.com": "mail.example.com",
		"github.io": "github.io", "ann.github.io": "", "x.ann.github.io": "", "shop.co.uk": "", "co.uk": "co.uk", "com": "", "": "", "other.com": "", "badexample.com": "",
		"example.net": "bound.example", "x.example.net": "", "x.b.example": "bound.example", "b.example": "", "bound.example": "", "only.example": "only.example", "x.only.example": "",
	} {
		got := ""
		if s := r.For(sender); s != nil {
			got = s.Domain()
		}
		if got != want {
			t.Errorf("%s is signed for by %q, want %q", sender, got, want)
		}
	}
	if s := (*Ring)(nil).For("example.com"); s != nil {
		t.Error("no ring signs")
	}
	for _, entries := range [][]string{{"example.com", "a.example.com example.com"}, {"a.example *.x.example", "b.example *.x.example"}, {"a.example *"}, {"a.example .x"}} {
		if _, err := ringOf(t, entries...); err == nil {
			t.Errorf("%q is a ring", entries)
		}
	}
}
