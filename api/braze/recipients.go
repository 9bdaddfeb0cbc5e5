package braze

import (
	"context"
	"fmt"
	"strings"

	"sluice/lib/jsonscan"
	"sluice/mail/schedule"
	"sluice/user"
)

// called is a user as a call that sends mail names it, and where in the call:
// the reply names it so.
type called struct {
	key   user.Key
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
	read := func(array string, values []jsonscan.Value, key func(jsonscan.Value) (user.Key, error)) {
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

// recipients finds out who can be mailed of those who are named. The others are noted.
func (r *Request) recipients(ctx context.Context, all []called, n *notes) ([]schedule.Recipient, error) {
	keys := make([]user.Key, len(all))
	for i, c := range all {
		keys[i] = c.key
	}
	found, err := schedule.Recipients(ctx, r.Users, keys, func(i int, why string) { n.add("%s[%d]: %s", all[i].array, all[i].index, why) })
	return found, unreadUsers(err)
}
