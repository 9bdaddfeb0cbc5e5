package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"sluice"
	"sluice/alert"
	"sluice/api"
	"sluice/config"
	"sluice/dns"
	"sluice/domain"
	"sluice/flow"
	"sluice/mime"
	"sluice/spool"
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
	parallelDomains  = 8
	domainTimeout    = 20 * time.Second
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
	cfg, err := c.load(nil)
	if err != nil {
		return err
	}
	checker, err := domainChecker(cfg)
	if err != nil {
		return err
	}
	report := doctorReport{}
	for _, e := range checkDomains(ctx, checker, names) {
		report.Add(e)
	}
	if c.given.has("json") {
		err = report.writeJSON(c)
	} else {
		err = report.write(c, c.given.has("all"))
	}
	if err == nil && report.Summary.Errors > 0 {
		err = fmt.Errorf("domain check: errors found: %d", report.Summary.Errors)
	}
	return err
}

// domainName returns a domain as DNS has it.
func domainName(text string) (string, error) {
	a, err := mime.ParseAddress("postmaster@" + strings.TrimSuffix(text, "."))
	if err != nil || !strings.Contains(a.Domain, ".") || strings.Contains(text, "@") {
		return "", fmt.Errorf("%.80q is no domain, want a name such as example.com", text)
	}
	return strings.ToLower(a.Domain), nil
}

// domainChecker returns what looks at domains.
func domainChecker(cfg *config.Config) (*domain.Checker, error) {
	resolver, err := dns.New(cfg.Domains.Resolver)
	if err != nil {
		return nil, fmt.Errorf("domains.resolver: %w", err)
	}
	c := &domain.Checker{DNS: resolver, Ways: cfg.Ways()}
	c.Signers, c.KeysErr = cfg.Signers()
	return c, nil
}

// checkDomains looks at domains side by side.
func checkDomains(ctx context.Context, c *domain.Checker, names []string) []sluice.Examination {
	results := make([]sluice.Examination, len(names))
	var group errgroup.Group
	group.SetLimit(parallelDomains)
	for i, name := range names {
		group.Go(func() error {
			ctx, cancel := context.WithTimeout(ctx, domainTimeout)
			defer cancel()
			results[i] = c.Check(ctx, name)
			return nil
		})
	}
	_ = group.Wait() // examinations do not fail
	return results
}

// domains looks at the domains that mail is signed for, and at those that mail
// was sent from; not where nothing leaves.
func (d *doctor) domains(ctx context.Context) {
	if !d.config.Leaves() || !d.config.Domains.Check {
		return
	}
	checker, err := domainChecker(d.config)
	if err != nil {
		e := sluice.Examination{Where: "sender domains"}
		e.Unknown(err, sluice.CheckDomainMX)
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
			met, err := flow.SenderDomains{Redis: main}.Names(ctx, d.clock.Now().Add(-doctorDomainAge).UnixMilli(), maxDoctorDomains)
			main.Close()
			if err != nil {
				e := sluice.Examination{Where: "sender domains"}
				e.Unknown(err, sluice.CheckDomainMX)
				d.report.Add(e)
			}
			names = append(names, met...)
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	for _, e := range checkDomains(ctx, checker, names[:min(len(names), maxDoctorDomains)]) {
		d.report.Add(e)
	}
}

// openDomains prepares the look at the domains that mail is sent from; where
// nothing leaves, nobody looks.
func (e *engine) openDomains() error {
	checker, err := domainChecker(e.config)
	if err != nil {
		return err
	}
	e.domains = domain.NewWatcher(checker.Check, flow.SenderDomains{Redis: e.redis}, e.clock, e.log)
	return nil
}

// watchesDomains reports whether domains are looked at by themselves.
func (e *engine) watchesDomains() bool { return e.config.Domains.Check && e.config.Leaves() }

// meet returns who is told of the domains that mail is sent from, nil: nobody.
func (e *engine) meet() func(string) {
	if !e.watchesDomains() {
		return nil
	}
	return e.domains.Meet
}

// refused returns who is asked about the domains of mails that are made, nil:
// nobody.
func (e *engine) refused() func(context.Context, []string) map[string]*sluice.Error {
	if !e.requiresDomains() {
		return nil
	}
	return e.domains.Refusals
}

// requiresDomains reports whether mail is accepted only from domains that are not
// surely wrong.
func (e *engine) requiresDomains() bool { return e.config.Domains.Require && e.watchesDomains() }

// gate refuses mail from domains that are surely wrong, before it is accepted.
type gate struct {
	*spool.Intake
	domains *domain.Watcher
}

// Submit implements sluice.Submitter. Each draft is refused for itself.
func (g gate) Submit(ctx context.Context, once string, drafts []sluice.Draft) ([]string, error) {
	refused, err := g.Still(ctx, once, drafts, g.refused(ctx, drafts))
	if err != nil {
		return nil, err
	}
	if len(refused) > 0 {
		return nil, refused
	}
	return g.Intake.Submit(ctx, once, drafts)
}

func (g gate) refused(ctx context.Context, drafts []sluice.Draft) (refused sluice.Refusals) {
	senders, unread := make([][]string, len(drafts)), make([]error, len(drafts))
	var all []string
	for i := range drafts {
		senders[i], unread[i] = sendersOf(&drafts[i])
		all = append(all, senders[i]...)
	}
	slices.Sort(all)
	wrong := g.domains.Refusals(ctx, slices.Compact(all))
	for i, names := range senders {
		if unread[i] != nil {
			refused = append(refused, &sluice.Error{Code: sluice.CodeInvalid, Index: i, Message: unread[i].Error()})
			continue
		}
		for _, name := range names {
			if e := wrong[name]; e != nil {
				refused = append(refused, &sluice.Error{Code: e.Code, Index: i, Message: e.Message})
				break
			}
		}
	}
	return refused
}

// sendersOf returns the domains that a mail says it is from: to servers in its
// envelope, to readers in its header From. What a template makes of its From for
// each recipient is looked at when it is made.
func sendersOf(d *sluice.Draft) ([]string, error) {
	all := []string{mime.DomainOf(d.From)}
	if d.Form == sluice.ContentMIME {
		authors, err := mime.AuthorDomains(d.Content)
		return append(all, authors...), err
	}
	if author, err := mime.ParseMailbox(d.Author); err == nil {
		all = append(all, author.Domain)
	}
	return all, nil
}

// SenderRefused returns why no mail from an address is accepted, nil: it is.
func (p *Program) SenderRefused(ctx context.Context, address string) error {
	p.mu.Lock()
	e := p.engine
	p.mu.Unlock()
	if e == nil || !e.requiresDomains() {
		return nil
	}
	name := mime.DomainOf(address)
	if wrong := e.domains.Refusals(ctx, []string{name})[name]; wrong != nil {
		return wrong
	}
	return nil
}

// refusedDomain is what gate says, for a command that hands mail in by itself.
func refusedDomain(ctx context.Context, cfg *config.Config, draft *sluice.Draft) error {
	checker, err := domainChecker(cfg)
	if err != nil {
		return err
	}
	names, err := sendersOf(draft)
	if err != nil {
		return err
	}
	slices.Sort(names)
	names = slices.Compact(names)
	for i, e := range checkDomains(ctx, checker, names) {
		r := domain.Result{Domain: names[i], Findings: e.Findings}
		if wrong := r.Refusal(); wrong != nil {
			return wrong
		}
	}
	return nil
}

// Domains returns what looks at sender domains, nil while the program does not
// run.
func (p *Program) Domains() api.DomainLooker {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.engine == nil {
		return nil
	}
	return p.engine.domains
}

// domainProblems are the domains from which mail is refused.
func (e *engine) domainProblems() (found []alert.Problem) {
	if !e.watchesDomains() {
		return nil
	}
	for _, r := range e.domains.Results() {
		if f := r.Worst(sluice.SeverityError); f != nil {
			found = append(found, alert.Problem{Kind: alert.Domain, Subject: r.Domain, Summary: fmt.Sprintf("%s: %s: %s", r.Domain, f.Check, f.Found)})
		}
	}
	return found
}

// maxShownDomains bounds the labels of a metric.
const maxShownDomains = 100

// snapshotDomains adds what was found about the domains that mail is sent from.
func (e *engine) snapshotDomains(s *api.Stats) {
	if !e.watchesDomains() {
		return
	}
	results := e.domains.Results()
	for _, r := range results[:min(len(results), maxShownDomains)] {
		var report sluice.Report
		report.Add(sluice.Examination{Findings: r.Findings})
		s.Domains = append(s.Domains, api.SenderDomain{Name: r.Domain, Summary: report.Summary})
	}
}
