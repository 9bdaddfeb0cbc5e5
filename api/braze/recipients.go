package braze

import (
	"context"
	"fmt"
	"strings"

	"sluice"
	"sluice/lib/jsonscan"
	"sluice/lib/mime"
	"sluice/user/users"
)

// called is a user as a call that sends mail names it, and where in the call:
// the reply names it so.
type called struct {
	key   sluice.UserKey
	array string
	index int
}

// notes are what is told of a call that was processed: what of it was not.
type notes []string

func (n *notes) add(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	*n = append(*n, strings.ToValidUTF8(text[:min(len(text), maxMistakeBytes)], "\ufffd"))
}

// noRecipients is the message of calls that name nobody who can be mailed.
const noRecipients complaint = "No Recipients"

// named reads the users whom a call names; wrong is what refuses it. What names
// nobody is noted.
func named(externalIDs, aliases jsonscan.Value, n *notes) (all []called, wrong error) {
	ids, others := list(externalIDs), list(aliases)
	switch many := len(ids) + len(others); {
	case many == 0:
		return nil, noRecipients
	case many > maxEntries:
		return nil, complaint(tooManyUsers)
	}
	read := func(array string, values []jsonscan.Value, key func(jsonscan.Value) (sluice.UserKey, error)) {
		for i, v := range values {
			k, err := key(v)
			if err != nil {
				n.add("%s[%d]: %v", array, i, err)
				continue
			}
			all = append(all, called{k, array, i})
		}
	}
	read("external_user_ids", ids, externalKey)
	read("user_aliases", others, aliasKey)
	return all, nil
}

// recipient is a user who can be mailed.
type recipient struct {
	name    string // as sends and events have it
	address string // of the envelope
	zone    string // of IANA; empty: not known
}

// recipients finds out who can be mailed of those who are named, all of them by
// one look into the database. The others are noted. An address that several have
// gets one mail: that for the first of them.
func recipients(ctx context.Context, store sluice.UserStore, all []called, n *notes) (found []recipient, err error) {
	keys := make([]sluice.UserKey, len(all))
	for i, c := range all {
		keys[i] = c.key
	}
	if len(keys) == 0 {
		return nil, nil
	}
	people, err := findIn(ctx, store, keys)
	if err != nil {
		return nil, err
	}
	whose := make(map[string]sluice.UserID)
	for _, c := range all {
		those := people.by[c.key]
		if len(those) == 0 {
			n.add("%s[%d]: there is no such user", c.array, c.index)
			continue
		}
		p := those[0] // an external id or an alias is one user's
		address, ok := addressOf(&p)
		if !ok {
			n.add("%s[%d]: the user has no email address that can be mailed", c.array, c.index)
			continue
		}
		owner, taken := whose[strings.ToLower(address)]
		switch {
		case !taken:
			whose[strings.ToLower(address)] = p.row.ID
			zone, _ := jsonscan.Scan(p.profile.Fields.Get("time_zone"))
			found = append(found, recipient{users.NameOf(p.row.ID, p.profile), address, zone.Text()})
		case owner != p.row.ID:
			n.add("%s[%d]: another user of this call has the same email address, and gets the mail", c.array, c.index)
		}
	}
	return found, nil
}

// addressOf is where a user is mailed, as the envelope has it.
func addressOf(p *person) (string, bool) {
	v, err := jsonscan.Scan(p.profile.Fields.Get("email"))
	if err != nil || v.Kind != jsonscan.String {
		return "", false
	}
	a, err := mime.ParseAddress(v.Text())
	return a.String(), err == nil
}
