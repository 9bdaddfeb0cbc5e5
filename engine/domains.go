package engine

import (
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"sluice"
	"sluice/api"
	"sluice/config"
	"sluice/lib/dns"
	"sluice/lib/doctor"
	"sluice/lib/mime"
	"sluice/mail"
	"sluice/mail/domain"
	"sluice/mail/senderdomains"
	"sluice/mail/spool"
	"sluice/ops/alert"
)

// Bounds of a look at domains.
const (
	parallelDomains = 8
	domainTimeout   = 20 * time.Second
)

// DomainChecker returns what looks at domains.
func DomainChecker(cfg *config.Config) (*domain.Checker, error) {
	resolver, err := dns.New(cfg.Domains.Resolver)
	if err != nil {
		return nil, fmt.Errorf("domains.resolver: %w", err)
	}
	c := &domain.Checker{DNS: resolver, Ways: cfg.Ways(), Links: cfg.Track.URL}
	c.Signers, c.KeysErr = cfg.Signers()
	return c, nil
}

// CheckDomains looks at domains side by side.
func CheckDomains(ctx context.Context, c *domain.Checker, names []string) []doctor.Examination {
	results := make([]doctor.Examination, len(names))
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

// openDomains prepares the look at the domains that mail is sent from; where
// nothing leaves, nobody looks.
func (e *core) openDomains() error {
	checker, err := DomainChecker(e.config)
	if err != nil {
		return err
	}
	e.domains = domain.NewWatcher(checker.Check, senderdomains.Domains{Redis: e.redis}, e.clock, e.log)
	return nil
}

// watchesDomains reports whether domains are looked at by themselves.
func (e *core) watchesDomains() bool { return e.config.Domains.Check && e.config.Leaves() }

// meet returns who is told of the domains that mail is sent from, nil: nobody.
func (e *core) meet() func(string) {
	if !e.watchesDomains() {
		return nil
	}
	return e.domains.Meet
}

// refused returns who is asked about the domains of mails that are made, nil:
// nobody.
func (e *core) refused() func(context.Context, []string) map[string]*sluice.Error {
	if !e.requiresDomains() {
		return nil
	}
	return e.domains.Refusals
}

// requiresDomains reports whether mail is accepted only from domains that are not
// surely wrong.
func (e *core) requiresDomains() bool { return e.config.Domains.Require && e.watchesDomains() }

// gate refuses mail from domains that are surely wrong, before it is accepted.
type gate struct {
	*spool.Intake
	domains *domain.Watcher
}

// Submit implements mail.Submitter. Each draft is refused for itself.
func (g gate) Submit(ctx context.Context, once string, drafts []mail.Draft) ([]string, error) {
	refused, err := g.Still(ctx, once, drafts, g.refused(ctx, drafts))
	if err != nil {
		return nil, err
	}
	if len(refused) > 0 {
		return nil, refused
	}
	return g.Intake.Submit(ctx, once, drafts)
}

func (g gate) refused(ctx context.Context, drafts []mail.Draft) (refused sluice.Refusals) {
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
func sendersOf(d *mail.Draft) ([]string, error) {
	all := []string{mime.DomainOf(d.From)}
	if d.Form == mail.ContentMIME {
		authors, err := mime.AuthorDomains(d.Content)
		return append(all, authors...), err
	}
	if author, err := mime.ParseMailbox(d.Author); err == nil {
		all = append(all, author.Domain)
	}
	return all, nil
}

// RefusedDomain is what gate says, for a command that hands mail in by itself.
func RefusedDomain(ctx context.Context, cfg *config.Config, draft *mail.Draft) error {
	checker, err := DomainChecker(cfg)
	if err != nil {
		return err
	}
	names, err := sendersOf(draft)
	if err != nil {
		return err
	}
	slices.Sort(names)
	names = slices.Compact(names)
	for i, e := range CheckDomains(ctx, checker, names) {
		r := domain.Result{Domain: names[i], Findings: e.Findings}
		if wrong := r.Refusal(); wrong != nil {
			return wrong
		}
	}
	return nil
}

// domainProblems are the domains from which mail is refused.
func (e *core) domainProblems() (found []alert.Problem) {
	if !e.watchesDomains() {
		return nil
	}
	for _, r := range e.domains.Results() {
		if f := r.Worst(doctor.SeverityError); f != nil {
			found = append(found, alert.Problem{Kind: alert.Domain, Subject: r.Domain, Summary: fmt.Sprintf("%s: %s: %s", r.Domain, f.Check, f.Found)})
		}
	}
	return found
}

// maxShownDomains bounds the labels of a metric.
const maxShownDomains = 100

// snapshotDomains adds what was found about the domains that mail is sent from.
func (e *core) snapshotDomains(s *api.Stats) {
	if !e.watchesDomains() {
		return
	}
	results := e.domains.Results()
	for _, r := range results[:min(len(results), maxShownDomains)] {
		var report doctor.Report
		report.Add(doctor.Examination{Findings: r.Findings})
		s.Domains = append(s.Domains, api.SenderDomain{Name: r.Domain, Summary: report.Summary})
	}
}

// senderRefused returns why no mail from an address is accepted, nil: it is.
func (e *core) senderRefused(ctx context.Context, address string) error {
	if !e.requiresDomains() {
		return nil
	}
	name := mime.DomainOf(address)
	if wrong := e.domains.Refusals(ctx, []string{name})[name]; wrong != nil {
		return wrong
	}
	return nil
}
