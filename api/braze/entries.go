package braze

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"sluice/lib/jsonscan"
	"sluice/user"
	"sluice/user/users"
)

// maxEntries bounds the entries of every call but track.
const maxEntries = 50

// Messages of calls with too many entries.
const (
	tooManyUsers = "The max number of external_ids and aliases per request was exceeded"
	tooManyIDs   = "The max number of ids per request was exceeded"
)

// form is the members of a body that a call knows, and where they go.
type form map[string]*jsonscan.Value

// read reads a body: an object, strictly. Members that the call does not know
// are passed over; of one that occurs twice the last counts; null is none.
func (f form) read(body string) bool {
	m := jsonscan.Read(body)
	for m.Next() {
		to, ok := f[m.Key]
		switch {
		case !ok:
		case m.Value.Kind == jsonscan.Null:
			*to = jsonscan.Value{}
		default:
			*to = m.Value
		}
	}
	return m.Err() == nil
}

// list returns the elements of an array. Anything else is an array of itself,
// which is what some clients mean, and nothing is an empty one. Of more than
// maxEntries it returns one more.
func list(v jsonscan.Value) []jsonscan.Value {
	switch v.Kind {
	case jsonscan.None, jsonscan.Null:
		return nil
	case jsonscan.Array:
	default:
		return []jsonscan.Value{v}
	}
	var all []jsonscan.Value
	e := jsonscan.ReadArray(v.Raw)
	for len(all) <= maxEntries && e.Next() {
		all = append(all, e.Value)
	}
	return all
}

// entries reads the entries of a call one by one: each becomes updates, or a
// text that says what is wrong with it.
type entries struct {
	updates []user.Update
	good    int
	errors  []string
}

// add adds what an entry became.
func (e *entries) add(array string, index int, err error, updates ...user.Update) {
	if err != nil {
		text := err.Error()
		e.errors = append(e.errors, fmt.Sprintf("%s[%d]: %s", array, index, strings.ToValidUTF8(text[:min(len(text), maxMistakeBytes)], "\ufffd")))
		return
	}
	e.good++
	e.updates = append(e.updates, updates...)
}

// write has the updates written. With nothing good and something wrong in the
// call, nothing was done: that is a refusal, and ok is false.
func (e *entries) write(ctx context.Context, r *Request) (refused Reply, ok bool, err error) {
	if e.good == 0 && len(e.errors) > 0 {
		refused, err = refuse(e.errors[0], e.errors...)
		refused.Refused = len(e.errors)
		return refused, false, err
	}
	if len(e.updates) > 0 {
		err = r.Core.Update(ctx, e.updates)
	}
	return refused, err == nil, err
}

// done fills in what a reply counts.
func (e *entries) done(r Reply) Reply {
	r.Accepted, r.Refused = len(e.updates), len(e.errors)
	return r
}

// errShared is of an address whose users are not all compared.
var errShared = complaint(fmt.Sprintf("more than %d users have it; name the intended user by 'external_id' or an alias", user.MaxSharing))

// pick is how one of the users who share an address is found, in words of
// prioritization.
type pick []string

// prioritization reads such words. They are required.
func prioritization(v jsonscan.Value) (pick, error) {
	var p pick
	for _, word := range list(v) {
		switch s := word.Text(); s {
		case "identified", "unidentified", "most_recently_updated", "least_recently_updated":
			p = append(p, s)
		default:
			return nil, invalid("prioritization", "identified, unidentified, most_recently_updated, least_recently_updated")
		}
	}
	if len(p) == 0 {
		return nil, complaint("'prioritization' is required")
	}
	if slices.Contains(p, "identified") && slices.Contains(p, "unidentified") {
		return nil, invalid("prioritization", "one of identified and unidentified")
	}
	return p, nil
}

// choose applies the words in their order, and returns the user if one is left.
func (p pick) choose(found []users.Person) (users.Person, bool) {
	for _, word := range p {
		switch word {
		case "identified", "unidentified":
			found = slices.DeleteFunc(slices.Clone(found), func(x users.Person) bool { return (x.Profile.ExternalID != "") != (word == "identified") })
		default:
			found = slices.Clone(found)
			slices.SortStableFunc(found, func(a, b users.Person) int { return int(min(max(a.Row.UpdatedMillis-b.Row.UpdatedMillis, -1), 1)) })
			if word == "most_recently_updated" {
				slices.Reverse(found)
			}
			found = found[:min(len(found), 1)]
		}
	}
	if len(found) != 1 {
		return users.Person{}, false
	}
	return found[0], true
}

// addressed is an entry that names a user by an address, which several may have.
type addressed struct {
	update user.Update
	pick   pick
	err    error // what is wrong with it
}

// byAddress adds entries that name users by addresses. Who is meant is the one whom
// prioritization leaves; none else is touched. several is what is wrong where it leaves
// more; nil: nothing, and nobody is meant.
func (e *entries) byAddress(ctx context.Context, r *Request, array string, all []addressed, several error) error {
	var keys []user.Key
	for i := range all {
		if all[i].err == nil {
			keys = append(keys, all[i].update.Key)
		}
	}
	var found people
	if len(keys) > 0 {
		var err error
		if found, err = r.find(ctx, keys); err != nil {
			return err
		}
	}
	for i := range all {
		x := &all[i]
		those := found.by[x.update.Key]
		who, ok := x.pick.choose(those)
		switch {
		case x.err != nil:
			e.add(array, i, x.err)
		case found.shared[x.update.Key]:
			e.add(array, i, errShared)
		case ok:
			x.update.Key = personKey(who)
			e.add(array, i, nil, x.update)
		case len(those) > 1 && several != nil:
			e.add(array, i, several)
		default:
			e.add(array, i, nil) // read rightly, and nobody is meant
		}
	}
	return nil
}
