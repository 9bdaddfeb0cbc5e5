package braze

import (
	"context"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"sluice/mail"
	"sluice/store/sqlstore"
)

// listed are suppressions that nobody lifts.
type listed struct{ *sqlstore.Store }

func (listed) Lift(context.Context, []string, []mail.SuppressReason, string) error { return nil }

// What holds mail back no more is in no list, and a list is by time, also where addresses
// are named.
func TestEmailListsByTime(t *testing.T) {
	w := newCore(t)
	at := now.UnixMilli()
	bounced := func(address string, ago, ends int64) mail.Suppression {
		s := mail.Suppression{Entry: address, Reason: mail.SuppressHardBounce, Scope: mail.ScopeAll, Source: "cli", TimeMillis: at - ago, Said: true}
		if ends != 0 {
			s.EndMillis = at + ends
		}
		return s
	}
	if _, err := w.store.Suppress(t.Context(), []mail.Suppression{bounced("a@example.com", 2000, 0), bounced("b@example.com", 3000, 1000), bounced("c@example.com", 1000, 0), bounced("d@example.com", 4000, -1000)}); err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string]string{
		"start_date=2026-11-21&end_date=2026-11-22":                                                                                  "c a b",
		"start_date=2026-11-21&end_date=2026-11-22&sort_direction=asc":                                                               "b a c",
		"end_date=2026-11-22&email[]=a@example.com&email[]=b@example.com&email[]=c@example.com&email[]=d@example.com":                "c a b",
		"end_date=2026-11-22&email[]=c@example.com&email[]=a@example.com&email[]=b@example.com&sort_direction=asc":                   "b a c",
		"end_date=2026-11-22&email[]=c@example.com&email[]=a@example.com&email[]=b@example.com&sort_direction=desc&limit=1&offset=1": "a",
	} {
		values, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		got, err := listEmails(mail.SuppressHardBounce, asHardBounced)(t.Context(), &Request{Query: values, Now: now, Stores: Stores{Suppressions: listed{w.store}}})
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, m := range regexp.MustCompile(`"(\w)@example.com"`).FindAllStringSubmatch(string(got.Body), -1) {
			names = append(names, m[1])
		}
		if strings.Join(names, " ") != want {
			t.Errorf("%s: %v, want %s", query, names, want)
		}
	}
}
