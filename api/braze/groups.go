package braze

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"

	"sluice"
	"sluice/lib/jsonscan"
	"sluice/user"
	"sluice/user/profile"
	"sluice/user/users"
)

// Words of states in subscription groups: in requests, and in replies, where
// the third has been seen in small letters.
const (
	subscribed, unsubscribed           = "subscribed", "unsubscribed"
	saysSubscribed, saysUnsubscribed   = "Subscribed", "Unsubscribed"
	saysUnknown                        = "unknown"
	badGroup                           = "Invalid subscription group ID"
	badState                           = "Invalid subscription state: want 'subscribed' or 'unsubscribed'"
	emailOrPhone                       = "Either an email address or a phone number should be provided, but not both."
	wantsAnyone                        = "One of 'external_id', 'email', or 'phone' is required"
	defaultUsers, maxUsersOfGroupState = 100, 100
)

// setGroup is POST /subscription/status/set.
func setGroup(ctx context.Context, r *Request) (Reply, error) {
	var one groupRequest
	if !one.read(r.Body) {
		return refuse(BadRequest)
	}
	return set(ctx, r, []groupRequest{one})
}

// setGroups is POST /v2/subscription/status/set.
func setGroups(ctx context.Context, r *Request) (Reply, error) {
	var groups jsonscan.Value
	if !(form{"subscription_groups": &groups}).read(r.Body) {
		return refuse(BadRequest)
	}
	all := list(groups)
	switch {
	case len(all) == 0:
		return refuse("'subscription_groups' must be an array of objects")
	case len(all) > maxEntries:
		return refuse(tooManyIDs)
	}
	requests := make([]groupRequest, len(all))
	for i, v := range all {
		if v.Kind != jsonscan.Object || !requests[i].read(v.Raw) {
			return refuse("'subscription_groups' must be an array of objects")
		}
	}
	return set(ctx, r, requests)
}

// groupRequest is whose state in which group shall be what.
type groupRequest struct {
	group, state           jsonscan.Value
	external, email, phone []jsonscan.Value
}

// read reads a request. The two calls have their members in the singular and in the
// plural, and Braze documents external_id for both: each is taken by either name.
func (g *groupRequest) read(body string) bool {
	var external, externals, email, emails, phone, phones jsonscan.Value
	ok := form{"subscription_group_id": &g.group, "subscription_state": &g.state, "external_id": &external, "external_ids": &externals,
		"email": &email, "emails": &emails, "phone": &phone, "phones": &phones}.read(body)
	g.external = append(list(external), list(externals)...)
	g.email = append(list(email), list(emails)...)
	g.phone = append(list(phone), list(phones)...)
	return ok
}

// check returns the message of a refusal, or "".
func (g *groupRequest) check() string {
	id, err := name("subscription_group_id", g.group)
	state := g.state.Text()
	switch {
	case err != nil || id == "":
		return badGroup
	case g.state.Kind != jsonscan.String || state != subscribed && state != unsubscribed:
		return badState
	case len(g.email) > 0 && len(g.phone) > 0:
		return emailOrPhone
	case len(g.external)+len(g.email)+len(g.phone) == 0:
		return wantsAnyone
	case len(g.external) > maxEntries, len(g.email) > maxEntries, len(g.phone) > maxEntries:
		return tooManyIDs
	}
	return ""
}

// set sets states. All who share an address get them.
func set(ctx context.Context, r *Request, requests []groupRequest) (Reply, error) {
	var e entries
	var addresses []user.Key
	for i := range requests {
		g := &requests[i]
		if wrong := g.check(); wrong != "" {
			return refuse(wrong)
		}
		for _, way := range []struct {
			array string
			all   []jsonscan.Value
			read  func(jsonscan.Value) (user.Key, error)
		}{{"external_id", g.external, externalKey}, {"email", g.email, emailKey}, {"phone", g.phone, phoneKey}} {
			for j, v := range way.all {
				k, err := way.read(v)
				if err == nil && k.Kind != user.KeyExternal {
					addresses = append(addresses, k)
				}
				e.add(way.array, j, err, user.Update{Op: user.OpGroup, Key: k, ExistingOnly: k.Kind == user.KeyExternal,
					TimeMillis: r.Now.UnixMilli(), Name: g.group.Text(), Body: g.state.Text()})
			}
		}
	}
	var found people
	if len(addresses) > 0 {
		var err error
		if found, err = r.find(ctx, addresses); err != nil {
			return Reply{}, err
		}
	}
	var crowds []user.Update
	e.updates, crowds = forAll(e.updates, found)
	refused, ok, err := e.write(ctx, r)
	if !ok {
		return refused, err
	}
	done := e.done(reply(http.StatusCreated, fatal{success, e.errors}))
	for i := range crowds {
		n, err := r.forCrowd(ctx, &crowds[i])
		if done.Accepted += n; err != nil {
			if done.Accepted > 0 {
				err = inPart(err)
			}
			return Reply{}, err
		}
	}
	return done, nil
}

// inPart is what a caller is told of an error behind the first that was written: its own
// words would say that nothing was, behind its cause.
func inPart(err error) error {
	cause := "redis or the database does not answer, or not in time"
	if e, ok := errors.AsType[*sluice.Error](err); ok {
		cause, _, _ = strings.Cut(e.Message, ";")
	}
	return errors.Join(sluice.Refuse(sluice.CodeUnavailable, "%s; a part of this request may be in. Send it again, which does no harm", cause), err)
}

// forAll makes of an update of an address one of each user who has it. An
// address that nobody has yet is remembered with its state. What is about more users than were read is
// left for forCrowd.
func forAll(updates []user.Update, found people) (all, crowds []user.Update) {
	for _, u := range updates {
		switch people := found.by[u.Key]; {
		case found.shared[u.Key]:
			crowds = append(crowds, u)
		case len(people) == 0:
			all = append(all, u)
		default:
			for _, p := range people {
				u.Key = personKey(p)
				all = append(all, u)
			}
		}
	}
	return all, crowds
}

// crowdPage is how many users are written to at once.
const crowdPage = 1000

// forCrowd writes an update of an address for each who has it, and returns for
// how many: none may be left out of an unsubscription. Nobody is read.
func (r *Request) forCrowd(ctx context.Context, u *user.Update) (written int, err error) {
	for after := (user.ID{}); ; {
		ids, err := r.Users.Sharing(ctx, u.Key, after, crowdPage)
		if err != nil {
			return written, unread(err)
		}
		if len(ids) == 0 {
			return written, nil
		}
		page := make([]user.Update, len(ids))
		for i, id := range ids {
			page[i] = *u
			page[i].Key = user.Key{Kind: user.KeyUser, Name: id.String()}
		}
		if err := r.Core.Update(ctx, page); err != nil {
			return written, err
		}
		written, after = written+len(ids), ids[len(ids)-1]
	}
}

// asked is how users are called in a query.
type asked struct {
	text string
	key  user.Key
	ok   bool // somebody can be called so
}

// askedFor reads the users of a query; the message of a refusal, or "".
func askedFor(r *Request) (all []asked, wrong string) {
	for _, way := range []struct {
		field string
		read  func(jsonscan.Value) (user.Key, error)
	}{{"external_id", externalKey}, {"email", emailKey}, {"phone", phoneKey}} {
		for _, text := range queryList(r.Query, way.field) {
			v, err := jsonscan.Scan(quoted(text))
			a := asked{text: text}
			if err == nil {
				a.key, err = way.read(v)
				a.ok = err == nil
			}
			all = append(all, a)
		}
	}
	switch {
	case len(all) == 0:
		return nil, wantsAnyone
	case len(all) > maxEntries:
		return nil, tooManyIDs
	}
	return all, ""
}

// findAsked reads the users of a query.
func findAsked(ctx context.Context, r *Request, all []asked) (found people, err error) {
	var keys []user.Key
	for _, a := range all {
		if a.ok {
			keys = append(keys, a.key)
		}
	}
	if len(keys) == 0 {
		return found, nil
	}
	return r.find(ctx, keys)
}

// groupState is GET /subscription/status/get.
func groupState(ctx context.Context, r *Request) (Reply, error) {
	group := r.Query.Get("subscription_group_id")
	if group == "" || !nameFits(group) {
		return refuse(badGroup)
	}
	all, wrong := askedFor(r)
	if wrong != "" {
		return refuse(wrong)
	}
	found, err := findAsked(ctx, r, all)
	if err != nil {
		return Reply{}, err
	}
	states := make(map[string]string, len(all))
	for _, a := range all {
		states[a.text] = stateOf(found.by[a.key], group)
	}
	return reply(http.StatusOK, struct {
		Status  map[string]string `json:"status"`
		Message string            `json:"message"`
	}{states, success}), nil
}

// stateOf is the state of those who share a name: where one of them has
// unsubscribed, all count as if they had.
func stateOf(people []users.Person, group string) string {
	state := saysUnknown
	for _, p := range people {
		for _, g := range p.Profile.Groups {
			switch {
			case g.ID != group:
			case !g.Subscribed:
				return saysUnsubscribed
			default:
				state = saysSubscribed
			}
		}
	}
	return state
}

// groupUser is a user with the user's subscription groups. What the user does
// not have is null.
type groupUser struct {
	Email      json.RawMessage `json:"email"`
	Phone      json.RawMessage `json:"phone"`
	ExternalID *string         `json:"external_id"`
	Groups     []groupOfUser   `json:"subscription_groups"`
}

type groupOfUser struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	Channel string `json:"channel"`
	Status  string `json:"status"`
}

// userGroups is GET /subscription/user/status.
func userGroups(ctx context.Context, r *Request) (Reply, error) {
	limit, ok := queryInt(r.Query, "limit", defaultUsers, 1, maxUsersOfGroupState)
	offset, ok2 := queryInt(r.Query, "offset", 0, 0, 1<<31)
	if !ok || !ok2 {
		return refuse("'limit' must be from 1 to 100 and 'offset' at least 0")
	}
	all, wrong := askedFor(r)
	if wrong != "" {
		return refuse(wrong)
	}
	found, err := findAsked(ctx, r, all)
	if err != nil {
		return Reply{}, err
	}
	shown := []groupUser{}
	seen := make(map[user.ID]bool)
	for _, a := range all {
		for _, p := range found.by[a.key] {
			if !seen[p.Row.ID] {
				seen[p.Row.ID] = true
				shown = append(shown, groupsOf(p.Profile))
			}
		}
	}
	total := len(shown)
	shown = shown[min(offset, total):]
	return reply(http.StatusOK, struct {
		Users   []groupUser `json:"users"`
		Total   int         `json:"total_count"`
		Message string      `json:"message"`
	}{shown[:min(limit, len(shown))], total, success}), nil
}

// groupsOf returns a user with its groups. Groups have no name here but their
// id, and all are of mail.
func groupsOf(p *profile.Profile) groupUser {
	u := groupUser{Groups: []groupOfUser{}}
	if raw := p.Fields.Get("email"); raw != "" {
		u.Email = json.RawMessage(raw)
	}
	if raw := p.Fields.Get("phone"); raw != "" {
		u.Phone = json.RawMessage(raw)
	}
	if p.ExternalID != "" {
		u.ExternalID = &p.ExternalID
	}
	for _, g := range p.Groups {
		status := saysSubscribed
		if !g.Subscribed {
			status = saysUnsubscribed
		}
		u.Groups = append(u.Groups, groupOfUser{g.ID, g.ID, "email", status})
	}
	slices.SortFunc(u.Groups, func(a, b groupOfUser) int { return strings.Compare(a.ID, b.ID) })
	return u
}
