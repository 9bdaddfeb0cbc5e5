package braze

import (
	"context"
	"net/http"

	"sluice/lib/jsonscan"
	"sluice/user"
	"sluice/user/users"
)

// processed is the reply to calls about aliases.
type processed struct {
	Processed int      `json:"aliases_processed"`
	Message   string   `json:"message"`
	Errors    []string `json:"errors,omitempty"`
}

// identify is POST /users/identify.
func identify(ctx context.Context, r *Request) (Reply, error) {
	var aliases, emails, phones, behavior jsonscan.Value
	if !(form{"aliases_to_identify": &aliases, "emails_to_identify": &emails, "phone_numbers_to_identify": &phones, "merge_behavior": &behavior}).read(r.Body) {
		return refuse(BadRequest)
	}
	how := "merge"
	switch {
	case behavior.Kind == jsonscan.None, behavior.Raw == `"merge"`:
	case behavior.Raw == `"none"`:
		how = "none"
	default:
		return refuse("'merge_behavior' must be 'merge' or 'none'")
	}
	known, strangers, strange := list(aliases), list(emails), list(phones)
	switch n := len(known) + len(strangers) + len(strange); {
	case n == 0:
		return refuse("'aliases_to_identify', 'emails_to_identify', or 'phone_numbers_to_identify' is required")
	case n > maxEntries:
		return refuse(tooManyUsers)
	}
	var e entries
	for i, v := range known {
		u, _, err := identifiable(v, how, r.Now.UnixMilli(), "user_alias", aliasKey)
		e.add("aliases_to_identify", i, err, u)
	}
	for _, way := range []struct {
		array, by string
		all       []jsonscan.Value
		read      func(jsonscan.Value) (user.Key, error)
	}{{"emails_to_identify", "email", strangers, emailKey}, {"phone_numbers_to_identify", "phone", strange, phoneKey}} {
		named := make([]addressed, len(way.all))
		for i, v := range way.all {
			x := &named[i]
			x.update, x.pick, x.err = identifiable(v, how, r.Now.UnixMilli(), way.by, way.read)
		}
		if err := e.byAddress(ctx, r, way.array, named, nil); err != nil {
			return Reply{}, err
		}
	}
	refused, ok, err := e.write(ctx, r)
	if !ok {
		return refused, err
	}
	return e.done(reply(http.StatusCreated, processed{e.good, success, e.errors})), nil
}

// identifiable reads an entry: the user as known by now, and the external id it
// gets.
func identifiable(v jsonscan.Value, how string, now int64, by string, read func(jsonscan.Value) (user.Key, error)) (u user.Update, p pick, err error) {
	var external, called, priority jsonscan.Value
	if v.Kind != jsonscan.Object || !(form{"external_id": &external, by: &called, "prioritization": &priority}).read(v.Raw) {
		return u, nil, complaint("want an object with external_id and " + by)
	}
	if external.Kind == jsonscan.None {
		return u, nil, complaint("'external_id' is required")
	}
	id, err := externalKey(external)
	if err != nil {
		return u, nil, err
	}
	if by != "user_alias" {
		if p, err = prioritization(priority); err != nil {
			return u, nil, err
		}
	}
	u = user.Update{Op: user.OpIdentify, ExistingOnly: true, TimeMillis: now, Name: id.Name, Body: how}
	u.Key, err = read(called)
	return u, p, err
}

// newAliases is POST /users/alias/new.
func newAliases(ctx context.Context, r *Request) (Reply, error) {
	var aliases jsonscan.Value
	if !(form{"user_aliases": &aliases}).read(r.Body) {
		return refuse(BadRequest)
	}
	all := list(aliases)
	switch {
	case len(all) == 0:
		return refuse("'user_aliases' must be an array of objects")
	case len(all) > maxEntries:
		return refuse(tooManyUsers)
	}
	var e entries
	for i, v := range all {
		u, err := newAlias(v)
		u.TimeMillis = r.Now.UnixMilli()
		e.add("user_aliases", i, err, u)
	}
	refused, ok, err := e.write(ctx, r)
	if !ok {
		return refused, err
	}
	return e.done(reply(http.StatusCreated, processed{e.good, success, e.errors})), nil
}

// newAlias gives a user an alias, or makes one who has nothing but that.
func newAlias(v jsonscan.Value) (u user.Update, err error) {
	var external, label, called jsonscan.Value
	if v.Kind != jsonscan.Object || !(form{"external_id": &external, "alias_label": &label, "alias_name": &called}).read(v.Raw) {
		return u, complaint("want an object with alias_name and alias_label")
	}
	alias, err := aliasOf(label, called)
	if err != nil {
		return u, err
	}
	if external.Kind == jsonscan.None {
		return user.Update{Op: user.OpAlias, Key: alias, Body: alias.Name}, nil // of itself: it makes the user
	}
	u = user.Update{Op: user.OpAlias, ExistingOnly: true, Body: alias.Name}
	u.Key, err = externalKey(external)
	return u, err
}

// Messages of merge calls.
const (
	mergeWantsObjects = "'merge_updates' must be an array of objects"
	mergeTooMany      = "a single request may not contain more than 50 merge updates"
	mergeWantsAlike   = "identifiers must be objects of the same type"
	mergeWantsOne     = "identifiers must be objects with an 'external_id' property that is a string, or 'user_alias' property that is an object"
	mergeOnly         = "'merge_updates' must only have 'identifier_to_merge' and 'identifier_to_keep'"
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
	var e entries
	for _, v := range all {
		from, to, wrong := mergePair(v)
		if wrong != "" {
			return refuse(wrong)
		}
		if from == to {
			continue // merged into itself already
		}
		e.updates = append(e.updates, user.Update{Op: user.OpMerge, Key: from, ExistingOnly: true, TimeMillis: r.Now.UnixMilli(), Name: users.MergeName(to)})
	}
	if refused, ok, err := e.write(ctx, r); !ok {
		return refused, err
	}
	return e.done(reply(http.StatusAccepted, fatal{Message: success})), nil
}

func mergePair(v jsonscan.Value) (from, to user.Key, wrong string) {
	if v.Kind != jsonscan.Object {
		return from, to, mergeWantsObjects
	}
	var a, b jsonscan.Value
	m := jsonscan.Read(v.Raw)
	for m.Next() {
		switch m.Key {
		case "identifier_to_merge":
			a = m.Value
		case "identifier_to_keep":
			b = m.Value
		default:
			return from, to, mergeOnly
		}
	}
	if from, wrong = mergeIdentifier(a); wrong != "" {
		return from, to, wrong
	}
	if to, wrong = mergeIdentifier(b); wrong != "" {
		return from, to, wrong
	}
	if from.Kind != to.Kind {
		wrong = mergeWantsAlike
	}
	return from, to, wrong
}

// mergeIdentifier reads an object with one member, which names a user.
func mergeIdentifier(v jsonscan.Value) (k user.Key, wrong string) {
	if v.Kind != jsonscan.Object {
		return k, mergeWantsOne
	}
	err := error(complaint(mergeWantsOne))
	members := 0
	m := jsonscan.Read(v.Raw)
	for m.Next() {
		members++
		switch m.Key {
		case "external_id":
			k, err = externalKey(m.Value)
		case "user_alias":
			k, err = aliasKey(m.Value)
		default:
			return k, mergeWantsOne
		}
	}
	if err != nil || members != 1 {
		return k, mergeWantsOne
	}
	return k, ""
}
