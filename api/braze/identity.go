package braze

import (
	"context"
	"net/http"

	"sluice/lib/jsonscan"
	"sluice/user"
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
	if v.Kind != jsonscan.Object {
		return u, complaint("want an object with alias_name and alias_label")
	}
	a := aliasIn(v)
	alias, err := aliasOf(a.label, a.called)
	if err != nil {
		return u, err
	}
	if a.external.Kind == jsonscan.None {
		return user.Update{Op: user.OpAlias, Key: alias, Body: alias.Name}, nil // of itself: it makes the user
	}
	u = user.Update{Op: user.OpAlias, ExistingOnly: true, Body: alias.Name}
	u.Key, err = externalKey(a.external)
	return u, err
}
