package domain

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/lib/dns"
	"sluice/lib/doctor"
	"sluice/mail/dkim"
	"sluice/test/dkimtest"
	"sluice/test/dnstest"
)

// bed is a checker and the DNS that it asks.
type bed struct {
	*Checker
	dns     *dnstest.Server
	keys    map[string][]*dkim.Key
	senders map[string][]string // that a domain's keys are bound to
}

func newBed(t *testing.T, lines ...string) *bed {
	t.Helper()
	s := dnstest.Start(t, lines...)
	r, err := dns.New(s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	return &bed{&Checker{DNS: r, Ways: []Way{{Name: "relay"}}}, s, map[string][]*dkim.Key{}, map[string][]string{}}
}

// key makes a key for a domain, and returns its record's line of a zone.
func (b *bed) key(t *testing.T, domain, selector, kind string) (line string) {
	t.Helper()
	k, err := dkim.ParseKey(domain, selector, dkimtest.Key(kind))
	if err != nil {
		t.Fatal(err)
	}
	b.keys[domain] = append(b.keys[domain], k)
	b.ring(t)
	text, err := k.Record()
	if err != nil {
		t.Fatal(err)
	}
	return k.RecordName() + " TXT " + text
}

// ring takes over the keys, and whom they are bound to.
func (b *bed) ring(t *testing.T) {
	t.Helper()
	b.Signers = &dkim.Ring{}
	for domain, keys := range b.keys {
		s, err := dkim.NewSigner(keys...)
		if err == nil {
			err = b.Signers.Add(s, b.senders[domain]...)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// found checks a domain and returns "severity: found -> remedy" of each finding
// of a check.
func (b *bed) found(t *testing.T, domain string, check doctor.Check) (all []string) {
	t.Helper()
	e := b.Check(t.Context(), domain)
	seen := map[doctor.Check]bool{}
	for _, f := range e.Findings {
		seen[f.Check] = true
		if f.Where != domain || f.Found == "" || (f.Remedy != "") != (f.Severity == doctor.SeverityWarning || f.Severity == doctor.SeverityError) {
			t.Errorf("a finding without what it must have: %+v", f)
		}
		if f.Check == check {
			all = append(all, fmt.Sprintf("%s: %s -> %s", f.Severity, f.Found, f.Remedy))
		}
	}
	for _, c := range []doctor.Check{doctor.CheckDomainMX, doctor.CheckDomainSPF, doctor.CheckDomainDKIM, doctor.CheckDomainDMARC, doctor.CheckDomainAlignment} {
		if !seen[c] {
			t.Errorf("%s: nothing is said of %s", domain, c)
		}
	}
	return all
}

// want wants one finding that begins with a text and contains others.
func (b *bed) want(t *testing.T, domain string, check doctor.Check, begin string, parts ...string) {
	t.Helper()
	all := b.found(t, domain, check)
	if len(all) != 1 || !strings.HasPrefix(all[0], begin) {
		t.Errorf("%s of %s: %q, want %q", check, domain, all, begin)
		return
	}
	for _, part := range parts {
		if !strings.Contains(all[0], part) {
			t.Errorf("%s of %s: %q is without %q", check, domain, all[0], part)
		}
	}
}

// A domain with all that it should have is fine.
func TestAGoodDomain(t *testing.T) {
	b := newBed(t)
	b.Ways = []Way{{Name: "relay", Host: "relay.example"}, {Name: "amazon", Include: "amazonses.com", Foreign: true, Signs: true}}
	b.dns.Set(t, b.key(t, "news.example.com", "s1", dkimtest.RSA), b.key(t, "news.example.com", "s2", dkimtest.Ed25519),
		"news.example.com MX 10 mx.example.com", "mx.example.com A 192.0.2.1", "relay.example A 192.0.2.77",
		"news.example.com TXT another text", "news.example.com TXT v=spf1 ip4:192.0.2.64/26 include:amazonses.com -all", "amazonses.com TXT v=spf1 ip4:198.51.100.0/24 -all",
		"_dmarc.example.com TXT v=DMARC1; p=none; sp=reject; rua=mailto:d@example.com")
	for _, f := range b.Check(t.Context(), "news.example.com").Findings {
		t.Logf("%+v", f)
		if f.Severity != doctor.SeverityOK {
			t.Errorf("%+v", f)
		}
	}
	b.want(t, "news.example.com", doctor.CheckDomainDMARC, "ok: the DMARC record of example.com says reject")
	b.want(t, "news.example.com", doctor.CheckDomainSPF, "ok: its SPF record takes 1 lookups and ends in -all")
	if n := len(b.found(t, "news.example.com", doctor.CheckDomainDKIM)); n != 2 {
		t.Errorf("%d findings about 2 keys", n)
	}
}

func TestHome(t *testing.T) {
	b := newBed(t, "none.example MX 0 .", "empty.example TXT x", "a.example AAAA 2001:db8::1", "dead.example MX 10 gone.example", "half.example MX 10 gone.example", "half.example MX 20 a.example",
		"alias.example MX 10 cname.example", "cname.example CNAME a.example", "dangling.example CNAME gone.example", "good.example CNAME other.example", "other.example MX 10 a.example",
		"bad.example FAILS", "later.example MX 10 bad.example")
	for domain, want := range map[string][2]string{
		"none.example": {"error: its MX record says that it takes no mail", "good"}, "empty.example": {"error: it has neither MX records nor an address", "empty.example. IN MX 10 mail.empty.example."},
		"a.example": {"ok: it has no MX records; mail to it goes to its own address 2001:db8::1", ""}, "dead.example": {"error: no host of its MX records has an address: gone.example", "A, AAAA"},
		"half.example": {"warning: hosts of its MX records have no address: gone.example", "take them out"}, "alias.example": {"warning: hosts of its MX records are aliases", "cname.example"},
		"nowhere.example": {"error: there is no such domain", "register"}, "dangling.example": {"error: it is an alias of gone.example, which is not there", "CNAME"},
		"good.example": {"ok: mail to it goes to a.example (an alias of other.example)", ""}, "later.example": {"unknown: look up the A records of bad.example", ""},
	} {
		b.want(t, domain, doctor.CheckDomainMX, want[0], strings.TrimPrefix(want[1], "good"))
	}
	// Where DNS does not answer, nothing else is asked, and nothing is held to be
	// wrong.
	for _, check := range []doctor.Check{doctor.CheckDomainMX, doctor.CheckDomainAlignment} {
		b.want(t, "bad.example", check, "unknown: look up the MX records of bad.example", "ServerFailure")
	}
}

// chain is a record that includes others, n in all, each with a lookup.
func chain(n int) (lines []string) {
	for i := range n {
		lines = append(lines, fmt.Sprintf("i%d.example TXT v=spf1 include:i%d.example ~all", i, i+1))
	}
	return append(lines, fmt.Sprintf("i%d.example TXT v=spf1 ip4:192.0.2.1 -all", n))
}

func TestSPF(t *testing.T) {
	wide := []string{"wide.example TXT v=spf1 " + strings.Repeat("a:h.example ", 11) + "-all", "ten.example TXT v=spf1 " + strings.Repeat("a:h.example ", 10) + "-all", "h.example A 192.0.2.1"}
	huge := []string{"huge.example TXT v=spf1 " + strings.Repeat("include:wide.example ", 60)}
	b := newBed(t, slices.Concat(chain(11), wide, huge, []string{
		"two.example TXT v=spf1 -all", "two.example TXT v=spf1 ~all", "broken.example TXT v=spf1 ip4:300.0.0.1 -all", "open.example TXT v=spf1 +all", "neutral.example TXT v=spf1 a:h.example ?all", "endless.example TXT v=spf1 a:h.example",
		"ptr.example TXT v=spf1 ptr -all", "loop.example TXT v=spf1 include:loop2.example -all", "loop2.example TXT v=spf1 include:loop.example -all", "self.example TXT v=spf1 redirect=self.example",
		"missing.example TXT v=spf1 include:nothing.example -all", "bad.example TXT v=spf1 include:broken.example include:two.example -all", "void.example TXT v=spf1 a:n1.example mx:n2.example exists:n3.example a:n3.example -all",
		"void2.example TXT v=spf1 a:n1.example mx:n2.example -all", "moved.example TXT v=spf1 redirect=ten.example", "alias.example CNAME ten.example", "macro.example TXT v=spf1 exists:%{i}.x.example include:%{d}.y.example -all",
		"many.example TXT v=spf1 mx:manymx.example -all", "fails.example TXT v=spf1 include:fail.example -all", "fail.example FAILS"}, manyMX("manymx.example", 11))...)
	for domain, want := range map[string][]string{
		"none.example":    {"warning: it has no SPF record", `none.example. IN TXT "v=spf1 ~all"`},
		"two.example":     {"error: it has 2 SPF records", "one of them"},
		"broken.example":  {"error: its SPF record cannot be read", `"ip4:300.0.0.1" is wrong`},
		"open.example":    {"error: its SPF record ends in +all", `open.example. IN TXT "v=spf1 ~all"`},
		"neutral.example": {"warning: its SPF record says nothing of servers", `"v=spf1 a:h.example ~all"`},
		"endless.example": {"warning: its SPF record says nothing of servers", `"v=spf1 a:h.example ~all"`},
		"ptr.example":     {"warning: its SPF record has ptr", "take ptr out"},
		"i0.example":      {"error: its SPF record takes 11 lookups, at most 10 are allowed", "ip4:"},
		"i1.example":      {"ok: its SPF record takes 10 lookups and ends in ~all"},
		"wide.example":    {"error: its SPF record takes 11 lookups"},
		"ten.example":     {"ok: its SPF record takes 10 lookups and ends in -all"},
		"moved.example":   {"error: its SPF record takes 11 lookups"},
		"alias.example":   {"ok: its SPF record takes 10 lookups"},
		"huge.example":    {"error: its SPF record takes more than 40 lookups"},
		"loop.example":    {"error: its SPF record fails mail as it is: include:loop.example goes round in circles"},
		"self.example":    {"error: its SPF record fails mail as it is: redirect=self.example goes round in circles"},
		"missing.example": {"error: its SPF record fails mail as it is: include:nothing.example has no SPF record"},
		"bad.example":     {"error: its SPF record fails mail as it is: the record of include:broken.example cannot be read", "include:two.example has 2 SPF records"},
		"void.example":    {"error: its SPF record has 3 lookups that find nothing"},
		"void2.example":   {"ok: its SPF record takes 2 lookups"},
		"macro.example":   {"ok: its SPF record takes 2 lookups"},
		"many.example":    {"error: its SPF record fails mail as it is: mx:manymx.example has 11 servers"},
		"fails.example":   {"unknown: look up the TXT records of fail.example"},
	} {
		b.want(t, domain, doctor.CheckDomainSPF, want[0], want[1:]...)
	}
	if b.dns.Asked("h.example") > 60 {
		t.Errorf("h.example was asked for %d times: answers are to be remembered within a look", b.dns.Asked("h.example"))
	}
}

func manyMX(domain string, n int) (lines []string) {
	for i := range n {
		lines = append(lines, fmt.Sprintf("%s MX %d m%d.%s", domain, i, i, domain))
	}
	return lines
}

// The servers that mail leaves by have to be in the record, where that can be
// seen.
func TestSPFOfRoutes(t *testing.T) {
	b := newBed(t, "x.example TXT v=spf1 ip4:192.0.2.1 -all", "y.example TXT v=spf1 mx include:spf.provider.example exists:%{i}.z.example -all", "y.example MX 10 r.example", "spf.provider.example TXT v=spf1 ip4:198.51.100.1 -all", "w.example TXT v=spf1 redirect=spf.provider.example", "v.example TXT v=spf1 redirect=spf.provider.example -all",
		"r.example A 203.0.113.5", "v6.example AAAA 2001:db8::5", "private.example A 10.0.0.1", "both.example A 192.0.2.1", "both.example A 198.51.100.9")
	relay := func(host string) []Way { return []Way{{Name: "relay", Host: host}} }
	b.Ways = relay("r.example")
	b.want(t, "x.example", doctor.CheckDomainSPF, "warning: its SPF record leaves out the server of route relay (r.example, 203.0.113.5", `x.example. IN TXT "v=spf1 ip4:192.0.2.1 ip4:203.0.113.5 -all"`)
	b.want(t, "v.example", doctor.CheckDomainSPF, "warning: its SPF record leaves out", `v.example. IN TXT "v=spf1 ip4:203.0.113.5 -all"`)
	b.want(t, "w.example", doctor.CheckDomainSPF, "warning: its SPF record leaves out", `w.example. IN TXT "v=spf1 include:spf.provider.example ip4:203.0.113.5 -all"`)
	b.want(t, "y.example", doctor.CheckDomainSPF, "ok:")
	b.want(t, "z.example", doctor.CheckDomainSPF, "warning: it has no SPF record", `"v=spf1 a:r.example ~all"`)
	b.Ways = relay("v6.example")
	b.want(t, "x.example", doctor.CheckDomainSPF, "warning:", "ip6:2001:db8::5")
	for _, host := range []string{"private.example", "both.example", "127.0.0.1", "192.0.2.1", "nowhere.example", ""} {
		b.Ways = relay(host)
		b.want(t, "x.example", doctor.CheckDomainSPF, "ok:")
	}
	b.Ways = []Way{{Name: "p", Include: "spf.provider.example"}, {Name: "amazon", Include: "amazonses.com", Foreign: true}}
	b.want(t, "x.example", doctor.CheckDomainSPF, "warning: its SPF record leaves out the servers of route p (spf.provider.example), the servers of route amazon (amazonses.com; they need it where", `"v=spf1 ip4:192.0.2.1 include:spf.provider.example include:amazonses.com -all"`)
	b.want(t, "z.example", doctor.CheckDomainSPF, "warning:", `"v=spf1 include:spf.provider.example include:amazonses.com ~all"`)
	b.Ways = b.Ways[:1]
	b.want(t, "y.example", doctor.CheckDomainSPF, "ok:")
}

func TestDKIM(t *testing.T) {
	b := newBed(t)
	good := b.key(t, "x.example", "s1", dkimtest.RSA)
	name, record, _ := strings.Cut(good, " TXT ")
	other := b.key(t, "other.example", "s1", dkimtest.RSA)
	_, otherRecord, _ := strings.Cut(other, " TXT ")
	text := func(record string) string { return name + " TXT " + record }
	publish := "publish " + name + `. IN TXT "` + record[:255] + `" "` + record[255:] + `"`
	for lines, want := range map[string][]string{
		"":                                {"error: mail is signed with a key whose record is not there: " + name, publish},
		good:                              {"ok: the record " + name + " has the key that mail is signed with, RSA of 2048 bits"},
		text(otherRecord):                 {"error: the record " + name + " has another key", publish},
		good + "\n" + text("v=DKIM1; p="): {"error: " + name + " has 2 TXT records", publish},
		text("v=DKIM1; k=rsa; p="):        {"error: the record " + name + " says that the key is revoked", "another selector"},
		text(record[:200]):                {"error: the record " + name + " cannot be used", publish},
		text("t=y; " + record[len("v=DKIM1; "):]):                            {"warning: the record " + name + " says that signing is only tried", publish},
		name + " CNAME k.provider.example":                                   {"error: " + name + " is an alias of k.provider.example, which has no TXT record", publish},
		name + " CNAME k.provider.example\nk.provider.example TXT " + record: {"ok: the record " + name + " (an alias of k.provider.example)"},
		name + " FAILS": {"unknown: look up the TXT records of " + name},
	} {
		if lines == "" {
			b.dns.Set(t)
		} else {
			b.dns.Set(t, strings.Split(lines, "\n")...)
		}
		b.want(t, "x.example", doctor.CheckDomainDKIM, want[0], want[1:]...)
	}
	b.dns.Set(t)
	b.want(t, "news.x.example", doctor.CheckDomainDKIM, "error: mail is signed with a key whose record is not there: "+name)
	b.senders["x.example"] = []string{"x.example"}
	b.ring(t)
	b.want(t, "news.x.example", doctor.CheckDomainDKIM, "warning: its mail is not signed here: there are keys of x.example, but they are for other senders", "dkim: {news.x.example:")
	b.want(t, "y.example", doctor.CheckDomainDKIM, "warning: its mail is not signed here ->")
	b.Ways = append(b.Ways, Way{Name: "amazon", Signs: true})
	b.want(t, "y.example", doctor.CheckDomainDKIM, "unknown: there are no keys for it")
	b.KeysErr = context.DeadlineExceeded
	b.want(t, "x.example", doctor.CheckDomainDKIM, "unknown:")
}

func TestDMARC(t *testing.T) {
	b := newBed(t)
	key := b.key(t, "signed.co.uk", "s1", dkimtest.Ed25519)
	b.dns.Set(t, key, "_dmarc.signed.co.uk TXT v=DMARC1; p=reject; sp=none; rua=mailto:x@signed.co.uk",
		"_dmarc.two.example TXT v=DMARC1; p=none", "_dmarc.two.example TXT v=DMARC1; p=reject", "_dmarc.bad.example TXT v=DMARC1; p=maybe", "_dmarc.lax.example TXT v=DMARC1; p=reject;; adkim=relaxed; pct=100%", "_dmarc.ask.example TXT v=DMARC1; rua=mailto:d@ask.example",
		"_dmarc.fails.example FAILS",
		"_dmarc.strict.example TXT v=DMARC1; p=reject", "_dmarc.spf.example TXT v=DMARC1; p=reject", "spf.example TXT v=spf1 -all", "_dmarc.own.strict.example TXT v=DMARC1; p=none", "_dmarc.off.example TXT v=DMARC1; p=reject; pct=0")
	for domain, want := range map[string][2]string{
		"signed.co.uk":       {"ok: the DMARC record of signed.co.uk says reject for mail that is not proven to be its; reports go to somebody", "ok: signatures prove"},
		"news.signed.co.uk":  {"ok: the DMARC record of signed.co.uk says none", "ok: signatures prove"},
		"none.example":       {"warning: it has no DMARC record", "warning: neither SPF nor a signature proves"},
		"deep.er.none.co.uk": {"warning: it has no DMARC record: large receivers require one from bulk senders -> publish _dmarc.none.co.uk. IN TXT \"v=DMARC1; p=none; rua=mailto:postmaster@none.co.uk\"", "warning:"},
		"two.example":        {"error: _dmarc.two.example has 2 DMARC records", "warning:"},
		"bad.example":        {"error: the DMARC record of bad.example cannot be used: p=maybe", "warning:"},
		"lax.example":        {"warning: the DMARC record of lax.example says reject for mail that is not proven to be its; nobody gets reports (rua=); receivers overlook faults in it: \"\" is no tag", "error: neither"},
		"ask.example":        {"warning: the DMARC record of ask.example says none for mail that is not proven to be its; reports go to somebody; receivers overlook faults in it: it has no p=", "warning: neither"},
		"strict.example":     {"ok: the DMARC record of strict.example says reject for mail that is not proven to be its; nobody gets reports", "error: neither SPF nor a signature proves that mail is its own, and its DMARC policy"},
		"sub.strict.example": {"ok: the DMARC record of strict.example says reject", "error: neither"},
		"own.strict.example": {"ok: the DMARC record of own.strict.example says none", "warning: neither"},
		"off.example":        {"ok: the DMARC record of off.example says reject", "warning: neither"},
		"spf.example":        {"ok: the DMARC record of spf.example says reject", "warning: only SPF proves"},
		"fails.example":      {"unknown: look up the TXT records of _dmarc.fails.example", "unknown:"},
	} {
		b.want(t, domain, doctor.CheckDomainDMARC, want[0])
		b.want(t, domain, doctor.CheckDomainAlignment, want[1])
	}
	b.Ways = []Way{{Name: "amazon", Include: "amazonses.com", Foreign: true, Signs: true}}
	b.want(t, "strict.example", doctor.CheckDomainAlignment, "unknown: what proves that mail is its own cannot be seen from here")
}

// A resolver that says nothing costs the time that the look has, and no more.
func TestMuteDNS(t *testing.T) {
	b := newBed(t, "mute.example MUTE")
	b.Ways[0].Bounces, b.Links = "bounces.mute.example", "https://links.mute.example"
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	e := b.Check(ctx, "mute.example")
	if len(e.Findings) != 7 || slices.ContainsFunc(e.Findings, func(f doctor.Finding) bool { return f.Severity != doctor.SeverityUnknown }) {
		t.Errorf("%+v", e.Findings)
	}
}
