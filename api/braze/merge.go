package braze

import (
	"context"
	"net/http"

	"sluice/lib/jsonscan"
	"sluice/user"
	"sluice/user/users"
)

// Messages of merge calls.
const (
	mergeWantsObjects = "'merge_updates' must be an array of objects"
	mergeTooMany      = "a single request may not contain more than 50 merge updates"
	mergeWantsOne     = "identifiers must be objects with an 'external_id' property that is a string, 'user_alias' property that is an object, " +
		"'email' property that is a string, or 'phone' property that is a string"
	mergeOnly = "'merge_updates' must only have 'identifier_to_merge' and 'identifier_to_keep'"
)

// merge is POST /users/merge. One bad entry refuses the call.
func merge(ctx context.Context, r *Request) (Reply, error) {
	var pairs jsonscan.Value
	if !(form{"merge_updates": &pairs}).read(r.Body) {
		return refuse(BadRequest)
	}
	if pairs.Kind != jsonscan.Array {
		return refuse(mergeWantsObjects)
	}
	all := list(pairs)
	switch {
	case len(all) == 0:
		return refuse(mergeWantsObjects)
	case len(all) > maxEntries:
		return refuse(mergeTooMany)
	}
	read := make([]mergePair, len(all))
	for i, v := range all {
		if wrong := read[i].read(v); wrong != "" {
			return refuse(wrong)
		}
	}
	if wrong, err := r.findMerged(ctx, read); wrong != "" || err != nil {
		if err != nil {
			return Reply{}, err
		}
		return refuse(wrong)
	}
	var e entries
	for _, p := range read {
		if p.from.key == p.to.key || p.from.nobody || p.to.nobody {
			continue // merged into itself already, or whom an address means is not known
		}
		e.updates = append(e.updates, user.Update{Op: user.OpMerge, Key: p.from.key, ExistingOnly: true, TimeMillis: r.Now.UnixMilli(), Name: users.MergeName(p.to.key)})
	}
	if refused, ok, err := e.write(ctx, r); !ok {
		return refused, err
	}
	return e.done(reply(http.StatusAccepted, fatal{Message: success})), nil
}

// mergePair is who is merged into whom.
type mergePair struct{ from, to identifier }

// identifier is how an entry names a user: by a key, or by an address and words of
// prioritization. nobody: these leave no user, or several.
type identifier struct {
	key    user.Key
	pick   pick
	nobody bool
}

// read reads an entry. It returns the message of a refusal, or "".
func (p *mergePair) read(v jsonscan.Value) (wrong string) {
	if v.Kind != jsonscan.Object {
		return mergeWantsObjects
	}
	var from, to jsonscan.Value
	m := jsonscan.Read(v.Raw)
	for m.Next() {
		switch m.Key {
		case "identifier_to_merge":
			from = m.Value
		case "identifier_to_keep":
			to = m.Value
		default:
			return mergeOnly
		}
	}
	if wrong = p.from.read(from); wrong == "" {
		wrong = p.to.read(to)
	}
	return wrong
}

// read reads an object with one member that names a user. An address has its words of
// prioritization beside it.
func (x *identifier) read(v jsonscan.Value) (wrong string) {
	if v.Kind != jsonscan.Object {
		return mergeWantsOne
	}
	err := error(complaint(mergeWantsOne))
	var priority jsonscan.Value
	named := 0
	m := jsonscan.Read(v.Raw)
	for m.Next() {
		named++
		switch m.Key {
		case "external_id":
			x.key, err = externalKey(m.Value)
		case "user_alias":
			x.key, err = aliasKey(m.Value)
		case "email":
			x.key, err = emailKey(m.Value)
		case "phone":
			x.key, err = phoneKey(m.Value)
		case "prioritization":
			priority = m.Value
			named--
		default:
			return mergeWantsOne
		}
	}
	_, address := x.key.Remembered()
	if err != nil || named != 1 || !address && priority.Kind != jsonscan.None {
		return mergeWantsOne
	}
	if address {
		if x.pick, err = prioritization(priority); err != nil {
			return err.Error()
		}
	}
	return ""
}

// findMerged finds the users whom addresses mean. wrong is the message of a refusal.
func (r *Request) findMerged(ctx context.Context, pairs []mergePair) (wrong string, err error) {
	var addressed []*identifier
	var keys []user.Key
	for i := range pairs {
		for _, x := range []*identifier{&pairs[i].from, &pairs[i].to} {
			if x.pick != nil {
				addressed, keys = append(addressed, x), append(keys, x.key)
			}
		}
	}
	if len(keys) == 0 {
		return "", nil
	}
	found, err := r.find(ctx, keys)
	if err != nil {
		return "", err
	}
	for _, x := range addressed {
		if found.shared[x.key] {
			return errShared.Error(), nil
		}
		who, ok := x.pick.choose(found.by[x.key])
		if x.nobody = !ok; ok {
			x.key = personKey(who)
		}
	}
	return "", nil
}
