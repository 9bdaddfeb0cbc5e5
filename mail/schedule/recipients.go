package schedule

import (
	"context"
	"strings"

	"sluice/lib/jsonscan"
	"sluice/lib/mime"
	"sluice/user"
	"sluice/user/users"
)

// Recipient is a user who can be mailed.
type Recipient struct {
	Name    string // as sends and events have it
	Address string // of the envelope
	Zone    string // of IANA; empty: not known
}

// Recipients finds out who can be mailed of those who are named, all of them by one look
// into the database. left is told of each other, by its place, and why. An address that
// several have gets one mail: that for the first of them.
func Recipients(ctx context.Context, store user.Store, named []user.Key, left func(i int, why string)) (all []Recipient, err error) {
	if len(named) == 0 {
		return nil, nil
	}
	found, _, err := users.Find(ctx, store, named)
	if err != nil {
		return nil, err
	}
	whose := make(map[string]user.ID)
	for i, key := range named {
		those := found[key]
		if len(those) == 0 {
			left(i, "there is no such user")
			continue
		}
		p := those[0] // an external id or an alias is one user's
		address, ok := addressOf(&p)
		if !ok {
			left(i, "the user has no email address that can be mailed")
			continue
		}
		owner, taken := whose[strings.ToLower(address)]
		switch {
		case !taken:
			whose[strings.ToLower(address)] = p.Row.ID
			zone, _ := jsonscan.Scan(p.Profile.Fields.Get("time_zone"))
			all = append(all, Recipient{users.NameOf(p.Row.ID, p.Profile), address, zone.Text()})
		case owner != p.Row.ID:
			left(i, "another user of this call has the same email address, and gets the mail")
		}
	}
	return all, nil
}

// addressOf is where a user is mailed, as the envelope has it.
func addressOf(p *users.Person) (string, bool) {
	v, err := jsonscan.Scan(p.Profile.Fields.Get("email"))
	if err != nil || v.Kind != jsonscan.String {
		return "", false
	}
	a, err := mime.ParseAddress(v.Text())
	return a.String(), err == nil
}
