package braze

import (
	"context"
	"net/http"

	"sluice"
	"sluice/lib/jsonscan"
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
	var read func(jsonscan.Value) (sluice.UserKey, error)
	for _, way := range []struct {
		array string
		value jsonscan.Value
		read  func(jsonscan.Value) (sluice.UserKey, error)
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
		if err := deleteByAddress(ctx, r, &e, array, all, read); err != nil {
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

func erasure(k sluice.UserKey, r *Request) sluice.UserUpdate {
	return sluice.UserUpdate{Op: sluice.OpDelete, Key: k, ExistingOnly: true, TimeMillis: r.Now.UnixMilli()}
}

// deleteByAddress adds the users who have an address: a text, or an object of
// it and its prioritization. Where that leaves several, nobody is erased: it
// cannot be undone.
func deleteByAddress(ctx context.Context, r *Request, e *entries, array string, all []jsonscan.Value, read func(jsonscan.Value) (sluice.UserKey, error)) error {
	keys, picks, errs := make([]sluice.UserKey, len(all)), make([]pick, len(all)), make([]error, len(all))
	var asked []sluice.UserKey
	for i, v := range all {
		if keys[i], picks[i], errs[i] = addressed(v, read); errs[i] == nil {
			asked = append(asked, keys[i])
		}
	}
	var found people
	if len(asked) > 0 {
		var err error
		if found, err = r.find(ctx, asked); err != nil {
			return err
		}
	}
	for i := range all {
		if errs[i] != nil {
			e.add(array, i, errs[i])
			continue
		}
		switch who, ok := picks[i].choose(found.by[keys[i]]); {
		case found.shared[keys[i]]:
			e.add(array, i, errShared)
		case ok:
			e.add(array, i, nil, erasure(personKey(who), r))
		case len(found.by[keys[i]]) > 1:
			e.add(array, i, complaint("several users have it; say by 'prioritization' which of them"))
		default:
			e.add(array, i, nil)
		}
	}
	return nil
}

// addressed reads an address that is a text, or stands beside words of
// prioritization.
func addressed(v jsonscan.Value, read func(jsonscan.Value) (sluice.UserKey, error)) (k sluice.UserKey, p pick, err error) {
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
