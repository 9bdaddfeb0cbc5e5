package domain

import (
	"strings"
	"testing"

	"sluice/lib/doctor"
	"sluice/test/dkimtest"
)

// TestAlignment: the key of another domain counts where DMARC aligns it, by the
// public suffix list and by the walk up the tree. Otherwise the check says so.
func TestAlignment(t *testing.T) {
	const long = "a.b.c.d.e.f.g.deep.example"
	b := newBed(t)
	b.senders["other.example"] = []string{"bound.example"}
	b.senders["ann.github.io"] = []string{"*.github.io"}
	b.senders["sister.example"] = []string{"sister.example", "brother.sister.example"}
	b.senders["mail.side.example"] = []string{"side.example", "*.side.example"}
	var lines []string
	for _, domain := range []string{"relaxed.example", "strict.example", "substrict.example", "border.example", "own.example", "registry.example", "none.example", "other.example", "ann.github.io", "sister.example", "mail.side.example", "middle.example", "deep.example", "two.example", "fails.example", "bad.example", "own.registry.example", "lax.example"} {
		lines = append(lines, b.key(t, domain, "s1", dkimtest.Ed25519))
	}
	for name, text := range map[string]string{
		"relaxed.example": "p=reject", "strict.example": "p=reject; adkim=S", "substrict.example": "p=reject", "news.substrict.example": "p=none; adkim=s",
		"border.example": "p=none", "news.border.example": "p=none; psd=n", "news.own.example": "p=none", "own.example": "p=none; adkim=s",
		"registry.example": "p=none; psd=y", "other.example": "p=none", "sister.example": "p=none; adkim=r", "side.example": "p=none",
		"middle.example": "p=none; adkim=s", "mid.middle.example": "p=none; psd=n; adkim=r", "deep.example": "p=none; adkim=s", "news.bad.example": "p=none; p=x", "bad.example": "p=none", "lax.example": "p=none;; adkim=s",
	} {
		lines = append(lines, "_dmarc."+name+" TXT v=DMARC1; "+text)
	}
	b.dns.Set(t, append(lines, "_dmarc.two.example TXT v=DMARC1; p=none", "_dmarc.two.example TXT v=DMARC1; p=none; adkim=s", "_dmarc.x.fails.example FAILS")...)
	for domain, want := range map[string]string{
		"relaxed.example":              "ok:",
		"news.relaxed.example":         "ok:",
		"a.news.relaxed.example":       "ok:",
		"strict.example":               "ok:", // its own key
		"news.strict.example":          "error: its mail is signed with a key of strict.example, which DMARC does not accept for it: adkim=s in the DMARC record of strict.example wants a signature of exactly news.strict.example -> make a key of its own, and set dkim: {news.strict.example:",
		"news.substrict.example":       "error: its mail is signed with a key of substrict.example, which DMARC does not accept for it: adkim=s in the DMARC record of news.substrict.example",
		"news.border.example":          "error: its mail is signed with a key of border.example, which DMARC does not accept for it: by the DMARC records in DNS news.border.example belongs to news.border.example, and border.example to border.example",
		"news.own.example":             "ok:", // its own record says nothing of adkim
		"x.own.example":                "error: its mail is signed with a key of own.example, which DMARC does not accept for it: adkim=s in the DMARC record of own.example",
		"a.b.registry.example":         "error: its mail is signed with a key of registry.example, which DMARC does not accept for it: by the DMARC records in DNS a.b.registry.example belongs to b.registry.example",
		"x.own.registry.example":       "ok:", // below its own border
		"news.none.example":            "ok:", // there is no policy that asks for anything
		"bound.example":                "error: its mail is signed with a key of other.example, which DMARC does not accept for it: bound.example belongs to bound.example, and other.example to other.example (RFC 7489, 3.2)",
		"bob.github.io":                "error: its mail is signed with a key of ann.github.io, which DMARC does not accept for it: bob.github.io belongs to bob.github.io",
		"brother.sister.example":       "ok:",
		"side.example":                 "ok:",                                                                                                                                       // of a domain below it
		"news.side.example":            "ok:",                                                                                                                                       // of one beside it
		"x.mid.middle.example":         "error: its mail is signed with a key of middle.example, which DMARC does not accept for it: adkim=s in the DMARC record of middle.example", // by the list
		long:                           "error: its mail is signed with a key of deep.example, which DMARC does not accept for it: adkim=s in the DMARC record of deep.example",
		strings.Repeat("x.", 9) + long: "error: its mail is signed with a key of deep.example",
		"x.two.example":                "ok:", // two records are none
		"x.fails.example":              "unknown:",
		"news.bad.example":             "ok:",
		"news.lax.example":             "error: its mail is signed with a key of lax.example, which DMARC does not accept for it: adkim=s in the DMARC record of lax.example",
	} {
		b.want(t, domain, doctor.CheckDomainAlignment, want)
	}
}
