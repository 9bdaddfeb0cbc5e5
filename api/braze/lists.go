package braze

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"sluice/lib/jsonscan"
	"sluice/mail"
	"sluice/user"
	"sluice/user/profile"
)

// Suppressions are what the calls about lists of addresses read and change.
type Suppressions interface {
	// These are those of mail.SuppressionStore.
	Suppress(ctx context.Context, changes []mail.Suppression) (changed int, err error)
	SuppressionsOf(ctx context.Context, entries []string) ([]mail.Suppression, error)
	Suppressions(ctx context.Context, q mail.SuppressionQuery) ([]mail.Suppression, error)

	// Lift removes what there is of addresses for some reasons, and what comes
	// later, but happened before.
	Lift(ctx context.Context, addresses []string, reasons []mail.SuppressReason, source string) error
}

// Pages of lists of addresses.
const (
	emailPage    = 100
	maxEmailPage = 500
)

// Texts of refusals of these calls.
const (
	wantsEmail     = "'email' is required: an address, or an array of at most 50"
	wantsState     = "'subscription_state' must be 'subscribed', 'unsubscribed' or 'opted_in'"
	wantsEnd       = "'end_date' is required: YYYY-MM-DD"
	wantsStart     = "One of 'start_date' (YYYY-MM-DD, before 'end_date') and 'email' is required"
	wantsEmailPage = "'limit' must be from 1 to 500, 'offset' at least 0, and 'sort_direction' 'asc' or 'desc'"
)

// emails are the addresses of a call, and what is wrong with the others.
type emails struct {
	entries
	addresses []string
	places    []int // of each, in the call
}

// readEmails reads a body that has addresses and other members. not ok: refused
// is the answer.
func readEmails(r *Request, members form) (l emails, refused Reply, ok bool) {
	var value jsonscan.Value
	members["email"] = &value
	wrong, all := BadRequest, []jsonscan.Value(nil)
	if members.read(r.Body) {
		wrong, all = wantsEmail, list(value)
	}
	if len(all) > maxEntries {
		wrong, all = tooManyIDs, nil
	}
	for i, v := range all {
		var err error
		address, ok := profile.NormalAddress(v.Text()) // also one that only mail has, and no user
		if !ok || v.Kind != jsonscan.String {
			err = invalid("email", "")
		}
		if l.add("email", i, err); err == nil {
			l.addresses, l.places = append(l.addresses, address), append(l.places, i)
		}
	}
	switch {
	case len(all) == 0:
		refused, _ = refuse(wrong)
	case l.good == 0:
		refused, _ = refuse(l.errors[0], l.errors...)
		refused.Refused = len(l.errors)
	}
	return l, refused, l.good > 0
}

// state has users who have the addresses get a state, and addresses that nobody
// has remember it.
func (l *emails) state(r *Request, state string) {
	for _, address := range l.addresses {
		l.updates = append(l.updates, user.Update{Op: user.OpSubscribe, TimeMillis: r.Now.UnixMilli(), Body: state,
			Key: user.Key{Kind: user.KeyEmail, Name: address}})
	}
}

// suppress suppresses the addresses for a reason.
func (l *emails) suppress(r *Request, changes []mail.Suppression, reason mail.SuppressReason, scope mail.Scope) []mail.Suppression {
	for _, address := range l.addresses {
		changes = append(changes, mail.Suppression{Entry: address, Reason: reason, Scope: scope, Source: r.Sender, TimeMillis: r.Now.UnixMilli(), Said: true})
	}
	return changes
}

// finish writes what users get, and answers.
func (l *emails) finish(ctx context.Context, r *Request, failed error) (Reply, error) {
	if failed != nil {
		return Reply{}, unread(failed)
	}
	if len(l.updates) > 0 {
		if err := r.Core.Update(ctx, l.updates); err != nil {
			return Reply{}, err
		}
	}
	done := reply(http.StatusCreated, fatal{success, l.errors})
	done.Accepted, done.Refused = len(l.addresses), len(l.errors)
	return done, nil
}

// setEmailState is POST /email/status. What bounced, or was complained of, stays
// so: that is /email/bounce/remove and /email/spam/remove.
func setEmailState(ctx context.Context, r *Request) (Reply, error) {
	var state jsonscan.Value
	l, refused, ok := readEmails(r, form{"subscription_state": &state})
	if !ok {
		return refused, nil
	}
	var err error
	switch word := state.Text(); {
	case state.Kind == jsonscan.String && word == unsubscribed:
		_, err = r.Suppressions.Suppress(ctx, l.suppress(r, nil, mail.SuppressUnsubscribe, mail.ScopeMarketing))
	case state.Kind == jsonscan.String && (word == subscribed || word == optedIn):
		err = r.Suppressions.Lift(ctx, l.addresses, []mail.SuppressReason{mail.SuppressUnsubscribe}, r.Sender)
	default:
		return refuse(wantsState)
	}
	l.state(r, strings.Clone(state.Text()))
	return l.finish(ctx, r, err)
}

const optedIn = "opted_in"

// blocklist is POST /email/blocklist, which was called /email/blacklist: the
// addresses have unsubscribed, and count as bounced.
func blocklist(ctx context.Context, r *Request) (Reply, error) {
	l, refused, ok := readEmails(r, form{})
	if !ok {
		return refused, nil
	}
	changes := l.suppress(r, nil, mail.SuppressUnsubscribe, mail.ScopeMarketing)
	_, err := r.Suppressions.Suppress(ctx, l.suppress(r, changes, mail.SuppressHardBounce, mail.ScopeAll))
	l.state(r, unsubscribed)
	return l.finish(ctx, r, err)
}

// removeEmails returns what answers /email/bounce/remove and /email/spam/remove:
// our mark goes, and what providers have of the addresses.
func removeEmails(reasons ...mail.SuppressReason) func(ctx context.Context, r *Request) (Reply, error) {
	return func(ctx context.Context, r *Request) (Reply, error) {
		l, refused, ok := readEmails(r, form{})
		if !ok {
			return refused, nil
		}
		err := r.Suppressions.Lift(ctx, l.addresses, reasons, r.Sender)
		if err == nil {
			left := r.Unlist(ctx, l.addresses)
			for i, address := range l.addresses {
				if why := left[address]; why != nil {
					l.add("email", l.places[i], fmt.Errorf("it is removed here, and may be on a provider's list still; send it again: %w", why))
				}
			}
		}
		return l.finish(ctx, r, err)
	}
}

// hardBounced and unsubscribedOne are entries of replies. Of the second the form
// of the time is what has been seen, and not what is documented.
type hardBounced struct {
	Email string `json:"email"`
	At    string `json:"hard_bounced_at"`
}

type unsubscribedOne struct {
	Email string `json:"email"`
	At    string `json:"unsubscribed_at"`
}

func asHardBounced(s *mail.Suppression) any {
	return hardBounced{s.Entry, profile.TimeText(s.TimeMillis)}
}

func asUnsubscribed(s *mail.Suppression) any {
	return unsubscribedOne{s.Entry, time.UnixMilli(s.TimeMillis).UTC().Format("2006-01-02 15:04:05 +0000")}
}

// listEmails returns what answers /email/hard_bounces and /email/unsubscribes. An
// address that has unsubscribed from several apps is there for each.
func listEmails(reason mail.SuppressReason, as func(*mail.Suppression) any) func(ctx context.Context, r *Request) (Reply, error) {
	return func(ctx context.Context, r *Request) (Reply, error) {
		q, addresses, wrong := emailQuery(r.Query)
		if wrong != "" {
			return refuse(wrong)
		}
		q.Reason, q.NowMillis = reason, r.Now.UnixMilli()
		found, err := readList(ctx, r.Suppressions, q, addresses)
		if err != nil {
			return Reply{}, unread(err)
		}
		body := struct {
			Emails  []any  `json:"emails"`
			Message string `json:"message"`
		}{[]any{}, success}
		for i := range found {
			body.Emails = append(body.Emails, as(&found[i]))
		}
		return reply(http.StatusOK, body), nil
	}
}

// readList reads a page: of a range of days, or of addresses.
func readList(ctx context.Context, lists Suppressions, q mail.SuppressionQuery, addresses []string) ([]mail.Suppression, error) {
	if addresses == nil {
		return lists.Suppressions(ctx, q)
	}
	all, err := lists.SuppressionsOf(ctx, addresses)
	var found []mail.Suppression
	for i := range all {
		if all[i].Reason == q.Reason && all[i].Holds(q.NowMillis) {
			found = append(found, all[i])
		}
	}
	slices.SortStableFunc(found, func(a, b mail.Suppression) int {
		if q.Oldest {
			a, b = b, a
		}
		return cmp.Compare(b.TimeMillis, a.TimeMillis)
	})
	found = found[min(q.Skip, len(found)):]
	return found[:min(q.Limit, len(found))], err
}

// emailQuery reads which page is asked for: where addresses are named, these
// alone, whatever the days. wrong is the message of a refusal.
func emailQuery(values url.Values) (q mail.SuppressionQuery, addresses []string, wrong string) {
	var fits [2]bool
	q.Addresses = true
	q.Limit, fits[0] = queryInt(values, "limit", emailPage, 1, maxEmailPage)
	q.Skip, fits[1] = queryInt(values, "offset", 0, 0, 1<<31)
	direction := values.Get("sort_direction")
	q.Oldest = direction == "asc"
	if !fits[0] || !fits[1] || direction != "" && direction != "asc" && direction != "desc" {
		return q, nil, wantsEmailPage
	}
	end, err := time.Parse(time.DateOnly, values.Get("end_date"))
	if err != nil {
		return q, nil, wantsEnd
	}
	if named := queryList(values, "email"); len(named) > 0 {
		if len(named) > maxEntries {
			return q, nil, tooManyIDs
		}
		addresses = []string{}
		for _, text := range named {
			if address, ok := profile.NormalAddress(text); ok { // nothing is known of what is no address
				addresses = append(addresses, address)
			}
		}
		return q, addresses, ""
	}
	start, err := time.Parse(time.DateOnly, values.Get("start_date"))
	if err != nil || !start.Before(end) {
		return q, nil, wantsStart
	}
	q.FromMillis, q.ToMillis = max(0, start.UnixMilli()), max(0, end.UnixMilli())
	return q, nil, ""
}
