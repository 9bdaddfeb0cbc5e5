package run

import (
	"context"
	"time"

	"sluice/mail"
)

const (
	// templatesEvery is how often is asked which versions of templates are in use.
	templatesEvery = 2 * time.Second

	// templatesAtOnce are listed by one statement.
	templatesAtOnce = 1000
)

// inUse says of all templates which version is in use.
func (l *Loader) inUse(ctx context.Context) (map[string]int, error) {
	all := make(map[string]int)
	for q := (mail.TemplateQuery{Archived: true, Limit: templatesAtOnce}); ; {
		page, err := l.Templates.Templates(ctx, q)
		if err != nil {
			return nil, err
		}
		for i := range page {
			all[page[i].ID] = page[i].Current
		}
		if len(page) < q.Limit {
			return all, nil
		}
		q.After = page[len(page)-1].ID
	}
}

// templatesChanged reports whether another version is in use of a template of which
// steps name none, or mail can be made by now for which people stay at a step. before is
// as of a moment before the journeys were read.
func (l *Loader) templatesChanged(ctx context.Context, all []*plans, before map[string]int) (bool, error) {
	asks := false
	for _, j := range all {
		asks = asks || len(j.templates) > 0
		for _, s := range j.unsendable {
			if _, err := l.mailing(ctx, l.database(), s.mail); err == nil || !isUnsendable(err) {
				return err == nil, err
			}
		}
	}
	if !asks {
		return false, nil
	}
	now, err := l.inUse(ctx)
	if err != nil {
		return false, err
	}
	for _, j := range all {
		for id := range j.templates {
			if now[id] != before[id] {
				return true, nil
			}
		}
	}
	return false, nil
}
