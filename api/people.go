package api

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"sluice"
	"sluice/user"
	"sluice/user/profile"
)

// usersPath is where people are looked for.
const usersPath = "/v1/users"

// Bounds of looking for people.
const (
	defaultFound = 50
	maxFound     = 100
	maxFindRunes = 255

	parallelPeople    = 8 // searches, and looks at timelines
	peopleReadTimeout = 20 * time.Second
)

// foundShown is a person that was found, with what by.
type foundShown struct {
	userShown
	By        string `json:"found_by"`
	Email     string `json:"email,omitempty"`
	FirstName string `json:"first_name,omitempty"`
	LastName  string `json:"last_name,omitempty"`
	Mail      string `json:"email_subscribe"`
}

// finding is a search for people under way.
type finding struct {
	q     *request
	limit int
	ids   []user.ID // in the order in which they are shown
	by    map[user.ID]string
}

// findUsers is GET /v1/users: people whose external id or address begins with a text, or
// whose alias or braze_id it is.
func (q *request) findUsers() (any, error) {
	text := q.query.Get("q")
	limit, err := q.query.number("limit", defaultFound, maxFound)
	if err != nil {
		return nil, err
	}
	if n := utf8.RuneCountInString(text); n == 0 || n > maxFindRunes || !utf8.ValidString(text) || hasControl(text) {
		return nil, refusal(sluice.CodeInvalid, "q is %.64q, want 1 to %d characters: an id, an address or its beginning, or an alias as label:name", text, maxFindRunes)
	}
	f := &finding{q, limit, nil, make(map[user.ID]string)}
	var users []foundShown
	err = q.look(func(ctx context.Context) (err error) {
		for _, find := range []func(context.Context, string) error{f.exact, f.beginning(user.KeyExternal, "external_id", false), f.beginning(user.KeyEmail, "email", true)} {
			if err := find(ctx, text); err != nil {
				return err
			}
		}
		users, err = f.shown(ctx)
		return err
	})
	if err != nil {
		return nil, err
	}
	return struct {
		Users []foundShown `json:"users"`
		More  bool         `json:"more"`
	}{users, len(f.ids) > limit}, nil
}

// look calls read, which looks for people, or at what one did: a few at a time, and each
// within peopleReadTimeout. A database that hangs would keep all slots from the others.
func (q *request) look(read func(ctx context.Context) error) error {
	done, err := takeAny(q.s.looks, "looks for people are under way")
	if err != nil {
		return err
	}
	defer done()
	return q.inTime(read)
}

// inTime calls read, within peopleReadTimeout.
func (q *request) inTime(read func(ctx context.Context) error) error {
	ctx, stop := context.WithTimeout(q.Context(), peopleReadTimeout)
	defer stop()
	err := read(ctx)
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		q.s.complain(q.w, err)
		return refusal(sluice.CodeUnavailable, "the database does not answer in time; ask again")
	}
	return err
}

// add notes who was found, once.
func (f *finding) add(id user.ID, by string) {
	if _, known := f.by[id]; !known {
		f.by[id] = by
		f.ids = append(f.ids, id)
	}
}

// exact looks for what is one person's alone. These come first.
func (f *finding) exact(ctx context.Context, text string) error {
	var wanted user.Query
	if id, ok := user.ParseID(text); ok {
		wanted.IDs = []user.ID{id}
	}
	wanted.Keys = []user.Key{{Kind: user.KeyExternal, Name: text}}
	if label, name, ok := strings.Cut(text, ":"); ok && label != "" && name != "" {
		wanted.Keys = append(wanted.Keys, user.AliasKey(label, name))
	}
	found, err := f.q.Users.Users(ctx, wanted)
	if err != nil {
		return err
	}
	for _, id := range wanted.IDs {
		if row, ok := found.Owner(id); ok {
			f.add(row.ID, "braze_id")
		}
	}
	for i, k := range wanted.Keys {
		for _, id := range found.ByKey[k] {
			f.add(id, [...]string{"external_id", "alias"}[i])
		}
	}
	return nil
}

// beginning looks for keys that begin with a text; fold: in lower case, as they are kept.
func (f *finding) beginning(kind user.KeyKind, by string, fold bool) func(context.Context, string) error {
	return func(ctx context.Context, text string) error {
		if fold {
			text = strings.ToLower(text)
		}
		found, err := f.q.Finder.KeysFrom(ctx, kind, text, f.limit+1)
		for i := range found {
			f.add(found[i].ID, by)
		}
		return err
	}
}

// shown reads those whom the answer has. Who is gone meanwhile is left out.
func (f *finding) shown(ctx context.Context) ([]foundShown, error) {
	ids := f.ids[:min(len(f.ids), f.limit)]
	users := make([]foundShown, 0, len(ids))
	if len(ids) == 0 {
		return users, nil
	}
	found, err := f.q.Users.Users(ctx, user.Query{IDs: slices.Clone(ids)})
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		row, ok := found.Users[id]
		if !ok || !row.MergedInto.IsZero() {
			continue
		}
		p, err := profile.Parse(row.Profile)
		if err != nil {
			return nil, err
		}
		field := func(name string) (text string) {
			_ = json.Unmarshal([]byte(p.Fields.Get(name)), &text) // one that is no text is not shown
			return text
		}
		shown := foundShown{userShown{p.ExternalID, id.String()}, f.by[id], field("email"), field("first_name"), field("last_name"), field("email_subscribe")}
		if shown.Mail == "" {
			shown.Mail = "subscribed"
		}
		users = append(users, shown)
	}
	return users, nil
}
