package braze

import (
	"context"
	"net/http"

	"sluice/lib/jsonscan"
	"sluice/user"
)

// deleted is the reply to a delete call: how many were queued.
type deleted struct {
	Deleted int      `json:"deleted"`
	Message string   `json:"message"`
	Errors  []string `json:"errors,omitempty"`
}

// deleteUsers is POST /users/delete.
func deleteUsers(ctx context.Context, r *Request) (Reply, error) {
	var external, aliases, ids, emails, phones jsonscan.Value
	if !(form{"external_ids": &external, "user_aliases": &aliases, "braze_ids": &ids, "email_addresses": &emails, "phone_numbers": &phones}).read(r.Body) {
		return refuse(BadRequest)
	}
	var array string
	var all []jsonscan.Value
	var read func(jsonscan.Value) (user.Key, error)
	for _, way := range []struct {
		array string
		value jsonscan.Value
		read  func(jsonscan.Value) (user.Key, error)
	}{
		{"external_ids", external, externalKey}, {"user_aliases", aliases, aliasKey}, {"braze_ids", ids, brazeKey},
		{"email_addresses", emails, emailKey}, {"phone_numbers", phones, phoneKey},
	} {
		if way.value.Kind == jsonscan.None {
			continue
		}
		if array != "" {
			return refuse("Only one of 'external_ids', 'user_aliases', 'braze_ids', 'email_addresses', and 'phone_numbers' may be given")
		}
		array, all, read = way.array, list(way.value), way.read
	}
	switch {
	case len(all) == 0:
		return refuse("One of 'external_ids', 'user_aliases', 'braze_ids', 'email_addresses', or 'phone_numbers' is required")
	case len(all) > maxEntries:
		return refuse(tooManyIDs)
	}
	var e entries
	if emails.Kind != jsonscan.None || phones.Kind != jsonscan.None {
		// Where several are left, nobody is erased: it cannot be undone.
		named := make([]addressed, len(all))
		for i, v := range all {
			var k user.Key
			k, named[i].pick, named[i].err = addressedIn(v, read)
			named[i].update = erasure(k, r)
		}
		if err := e.byAddress(ctx, r, array, named, complaint("several users have it; say by 'prioritization' which of them")); err != nil {
			return Reply{}, err
		}
	} else {
		for i, v := range all {
			k, err := read(v)
			e.add(array, i, err, erasure(k, r))
		}
	}
	refused, ok, err := e.write(ctx, r)
	if !ok {
		return refused, err
	}
	return e.done(reply(http.StatusCreated, deleted{len(e.updates), success, e.errors})), nil
}

func erasure(k user.Key, r *Request) user.Update {
	return user.Update{Op: user.OpDelete, Key: k, ExistingOnly: true, TimeMillis: r.Now.UnixMilli()}
}

// addressedIn reads an address that is a text, or stands beside words of
// prioritization.
func addressedIn(v jsonscan.Value, read func(jsonscan.Value) (user.Key, error)) (k user.Key, p pick, err error) {
	if v.Kind != jsonscan.Object {
		k, err = read(v)
		return k, nil, err
	}
	var email, phone, priority jsonscan.Value
	if !(form{"email": &email, "phone": &phone, "prioritization": &priority}).read(v.Raw) {
		return k, nil, complaint(BadRequest)
	}
	if email.Kind == jsonscan.None {
		email = phone
	}
	if priority.Kind != jsonscan.None {
		if p, err = prioritization(priority); err != nil {
			return k, nil, err
		}
	}
	k, err = read(email)
	return k, p, err
}
