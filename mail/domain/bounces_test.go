package domain

import (
	"slices"
	"strings"
	"testing"

	"sluice/lib/doctor"
)

// The domain of return paths has a server, an SPF record that names the routes' servers,
// and belongs to the sender's: else the finding says what to publish.
func TestReturnPaths(t *testing.T) {
	zone := []string{
		"example.com MX 10 mx.example.com", "mx.example.com A 192.0.2.1", "relay.example A 192.0.2.77", "example.com TXT v=spf1 -all",
		"_dmarc.example.com TXT v=DMARC1; p=reject; rua=mailto:d@example.com",
	}
	good := []string{"bounces.example.com MX 10 mx.example.com", "bounces.example.com TXT v=spf1 ip4:192.0.2.77 -all"}
	for _, x := range []struct {
		name    string
		lines   []string
		bounces string
		want    []string // of each finding the beginning, then what it contains
		aligned string   // how domain-alignment begins
	}{
		{"good", good, "bounces.example.com", []string{"ok: return paths are at bounces.example.com: what comes back finds a server"}, "warning: only SPF proves"},
		{"nowhere", nil, "bounces.example.com", []string{"error: return paths are at bounces.example.com: there is no such domain|bounces.example.com. IN MX 10 mail.bounces.example.com.",
			"warning: return paths are at bounces.example.com: it has no SPF record|a:relay.example"}, "error: neither SPF nor a signature"},
		{"another server", []string{good[0], "bounces.example.com TXT v=spf1 ip4:198.51.100.1 -all"}, "bounces.example.com",
			[]string{"warning: return paths are at bounces.example.com: its SPF record leaves out the server of route relay|ip4:198.51.100.1 ip4:192.0.2.77 -all"}, "warning: only SPF"},
		{"another organisation", []string{"b.example.net MX 10 mx.example.com", "b.example.net TXT v=spf1 ip4:192.0.2.77 -all"}, "b.example.net",
			[]string{"warning: return paths are at b.example.net: DMARC does not take them for example.com|bounces.example.com"}, "error: neither SPF nor a signature"},
		{"strict", append(slices.Clone(good), "_dmarc.example.com TXT v=DMARC1; p=reject; aspf=s; rua=mailto:d@example.com"), "bounces.example.com",
			[]string{"warning: return paths are at bounces.example.com: DMARC does not take them for example.com|aspf=s in the DMARC record of example.com wants an envelope of exactly example.com"}, "error: neither SPF nor a signature"},
		{"the same", []string{"example.com TXT v=spf1 ip4:192.0.2.77 -all"}, "example.com", []string{"ok: return paths are at example.com"}, "warning: only SPF proves"},
		{"none", nil, "", nil, "warning: only SPF proves"},
	} {
		t.Run(x.name, func(t *testing.T) {
			b := newBed(t)
			lines := slices.DeleteFunc(slices.Clone(zone), func(line string) bool { // what the case has in its place
				name, _, _ := strings.Cut(line, "TXT")
				return slices.ContainsFunc(x.lines, func(own string) bool { return strings.Contains(line, " TXT ") && strings.HasPrefix(own, name+"TXT") })
			})
			b.dns.Set(t, append(lines, x.lines...)...)
			b.Ways = []Way{{Name: "relay", Host: "relay.example", Bounces: x.bounces}}
			found := b.found(t, "example.com", doctor.CheckDomainBounces)
			if len(found) != len(x.want) {
				t.Fatalf("found %q, want %q", found, x.want)
			}
			for i, want := range x.want {
				begin, part, _ := strings.Cut(want, "|")
				if !strings.HasPrefix(found[i], begin) || !strings.Contains(found[i], part) {
					t.Errorf("found %q, want %q", found[i], want)
				}
			}
			if got := b.found(t, "example.com", doctor.CheckDomainAlignment); len(got) != 1 || !strings.HasPrefix(got[0], x.aligned) {
				t.Errorf("alignment: %q, want %q", got, x.aligned)
			}
		})
	}
}
