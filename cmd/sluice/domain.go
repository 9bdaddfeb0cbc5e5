package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"sluice/engine"
	"sluice/flow"
	"sluice/lib/doctor"
	"sluice/lib/mime"
	"sluice/mail/senderdomains"
)

const domainLong = `
Looks in DNS whether receivers will take mail from a domain: SPF, the records of the keys
that the setting dkim signs with, DMARC, whether anything proves that mail is the domain's,
and where bounces go. Each finding has its remedy, with the record to publish. Needs
neither Redis nor the database, and no program that runs; changes nothing. The routes of
the configuration say which servers SPF has to name.

    sluice domain check example.com news.example.com

Exits with 1 if it finds an error; warnings do not count. docs/domains.md explains it.
`

var domainFlags = []flagSpec{
	{name: "json", help: "one JSON object: summary and findings (INTERFACES.md, section 7)"},
	{name: "all", help: "also show what is in order"},
}

// Bounds of a look from the command line, and by doctor.
const (
	maxDomainsGiven  = 100
	maxDoctorDomains = 50
	doctorDomainAge  = 7 * 24 * time.Hour
)

func runDomain(ctx context.Context, c *call) error {
	if len(c.given.args) < 2 || c.given.args[0] != "check" || len(c.given.args) > maxDomainsGiven+1 {
		return usagef("domain: want check and 1 to %d domains; `sluice help domain` explains it", maxDomainsGiven)
	}
	var names []string
	for _, arg := range c.given.args[1:] {
		name, err := domainName(arg)
		if err != nil {
			return usagef("domain check: %w", err)
		}
		names = append(names, name)
	}
	checker, err := engine.DomainChecker(c.config)
	if err != nil {
		return err
	}
	report := doctorReport{}
	for _, e := range engine.CheckDomains(ctx, checker, names) {
		report.Add(e)
	}
	return report.show(c, "domain check")
}

// domainName returns a domain as DNS has it.
func domainName(text string) (string, error) {
	a, err := mime.ParseAddress("postmaster@" + strings.TrimSuffix(text, "."))
	if err != nil || !strings.Contains(a.Domain, ".") || strings.Contains(text, "@") {
		return "", fmt.Errorf("%.80q is no domain, want a name such as example.com", text)
	}
	return strings.ToLower(a.Domain), nil
}

// domains looks at the domains that mail is signed for, and at those that mail
// was sent from; not where nothing leaves.
func (d *examination) domains(ctx context.Context) {
	if !d.config.Leaves() || !d.config.Domains.Check {
		return
	}
	checker, err := engine.DomainChecker(d.config)
	if err != nil {
		e := doctor.Examination{Where: "sender domains"}
		e.Unknown(err, doctor.CheckDomainMX)
		d.report.Add(e)
		return
	}
	names := checker.Signers.Senders()
	if checker.KeysErr != nil {
		for _, k := range d.config.DKIM {
			names = append(names, strings.ToLower(k.Domain))
		}
	}
	if d.answering[d.config.Redis] {
		if main, err := flow.Dial(ctx, d.mainURL); err == nil { // what is wrong with it was found above
			met, err := senderdomains.Domains{Redis: main}.Names(ctx, d.clock.Now().Add(-doctorDomainAge).UnixMilli(), maxDoctorDomains)
			main.Close()
			if err != nil {
				e := doctor.Examination{Where: "sender domains"}
				e.Unknown(err, doctor.CheckDomainMX)
				d.report.Add(e)
			}
			names = append(names, met...)
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	for _, e := range engine.CheckDomains(ctx, checker, names[:min(len(names), maxDoctorDomains)]) {
		d.report.Add(e)
	}
}
