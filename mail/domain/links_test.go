package domain

import (
	"testing"

	"sluice/lib/doctor"
)

// Where links in mails lead is said of each domain, and is never an error.
func TestLinks(t *testing.T) {
	b := newBed(t, "a.example A 192.0.2.1", "t.example CNAME host.example", "host.example A 192.0.2.2")
	for links, want := range map[string]string{
		"https://t.example":       "ok: links in its mail lead to t.example, an alias of host.example, with 192.0.2.2",
		"https://A.example:8443/": "ok: links in its mail lead to a.example with 192.0.2.1",
		"https://192.0.2.7":       "ok: links in its mail lead to 192.0.2.7 with 192.0.2.7",
		"http://t.example":        "warning: links in its mail lead to t.example, an alias of host.example, without TLS",
		"https://gone.example":    "warning: links in its mail lead to gone.example (track.url), which has no address",
	} {
		b.Checker.Links = links
		b.want(t, "a.example", doctor.CheckDomainLinks, want)
	}
	b.Checker.Links = ""
	for _, f := range b.Check(t.Context(), "a.example").Findings {
		if f.Check == doctor.CheckDomainLinks {
			t.Errorf("nothing is tracked: %+v", f)
		}
	}
}
