package api

import (
	"context"
	"fmt"
	"net/url"
	"time"
	"unicode/utf8"

	"sluice"
	"sluice/user"
	"sluice/user/profile"
	"sluice/user/rule"
)

// Bounds of finding out who is in a segment.
const (
	// countTimeout bounds a count; it must end before requestReadTimeout, when
	// the server stops looking whether the client is still there.
	countTimeout = 25 * time.Second

	// membersPatience is how long members are looked for before what was found
	// is answered, membersTimeout how long it may take where reading is slow.
	membersPatience = 8 * time.Second
	membersTimeout  = 20 * time.Second

	explainTimeout    = 5 * time.Second
	maxMembers        = 1000 // of a page
	defaultMembers    = 100
	maxSeenRulesError = 200 // bytes of a message
)

// rule returns the rule of the segment that the path names.
func (q *request) rule() (*rule.Rule, error) {
	g, err := q.segment()
	if err != nil {
		return nil, err
	}
	compiled, err := rule.Compile(g.Definition)
	if err != nil {
		// A later version has written it, or somebody by hand.
		return nil, refusal(sluice.CodeInvalid, "the rule of this segment is none that this version knows: %.*s; write it anew", maxSeenRulesError, err.Error())
	}
	return compiled, nil
}

// countSegment is GET /v1/segments/{id}/count.
func (q *request) countSegment() (any, error) {
	wanted, err := q.rule()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(q.Context(), countTimeout)
	defer cancel()
	at := q.s.clock.Now()
	counts, err := q.Scanner.Count(ctx, wanted)
	if err != nil && ctx.Err() != nil && q.Context().Err() == nil {
		return nil, refusal(sluice.CodeUnavailable, "not all users could be read within %s; ask when less is going on, or read the members page by page", countTimeout)
	}
	if err != nil {
		return nil, err
	}
	if counts.Unread > 0 {
		q.s.log.Warn("profiles that cannot be read were counted as in no segment", "id", idOf(q.w), "users", counts.Unread)
	}
	return struct {
		Count int64  `json:"count"`
		Users int64  `json:"users"`
		Time  string `json:"time"`
	}{counts.Holds[0], counts.Users, profile.TimeText(at.UnixMilli())}, nil
}

// userShown is a user in an answer.
type userShown struct {
	ExternalID string `json:"external_id,omitempty"`
	BrazeID    string `json:"braze_id"`
}

// segmentMembers is GET /v1/segments/{id}/members.
func (q *request) segmentMembers() (any, error) {
	limit, err := q.query.number("limit", defaultMembers, maxMembers)
	if err != nil {
		return nil, err
	}
	var after user.ID
	if text := q.query.Get("after"); text != "" {
		var ok bool
		if after, ok = user.ParseID(text); !ok {
			return nil, errAfter(text)
		}
	}
	wanted, err := q.rule()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(q.Context(), membersTimeout)
	defer cancel()
	members, next, err := q.Scanner.Members(ctx, wanted, after, limit, membersPatience)
	if err != nil {
		return nil, err
	}
	page := list[userShown]{name: "members", Rows: make([]userShown, len(members))}
	for i, m := range members {
		page.Rows[i] = userShown{m.ExternalID, m.ID.String()}
	}
	if next != nil {
		page.Next = next.String()
	}
	return page, nil
}

// explainSegment is GET /v1/segments/{id}/explain.
func (q *request) explainSegment() (any, error) {
	wanted, err := q.rule()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(q.Context(), explainTimeout)
	defer cancel()
	user, p, err := q.user(ctx, q.query.Values)
	if err != nil {
		return nil, err
	}
	finding, err := wanted.Explain(user.Profile, user.ID.Hash(), q.s.clock.Now().UnixMilli())
	if err != nil {
		return nil, fmt.Errorf("read user %s: %w", user.ID, err)
	}
	return struct {
		User    userShown     `json:"user"`
		Holds   bool          `json:"holds"`
		Finding *rule.Finding `json:"finding"`
	}{userShown{p.ExternalID, user.ID.String()}, finding.Holds, finding}, nil
}

// user returns the user whom external_id or braze_id of some values names.
func (q *request) user(ctx context.Context, values url.Values) (none user.Row, _ *profile.Profile, _ error) {
	if values.Has("external_id") == values.Has("braze_id") {
		return none, nil, refusal(sluice.CodeInvalid, "want either external_id or braze_id: which user it is about")
	}
	nobody := refusal(sluice.CodeNotFound, "there is no such user")
	var wanted user.Query
	if name := values.Get("external_id"); name != "" {
		if len(name) > user.MaxExternalIDBytes || !utf8.ValidString(name) || hasControl(name) {
			return none, nil, nobody // nobody can be called that
		}
		wanted.Keys = []user.Key{{Kind: user.KeyExternal, Name: name}}
	} else {
		id, ok := user.ParseID(values.Get("braze_id"))
		if !ok {
			return none, nil, nobody
		}
		wanted.IDs = []user.ID{id}
	}
	found, err := q.Users.Users(ctx, wanted)
	if err != nil {
		return none, nil, err
	}
	ids := wanted.IDs
	for _, of := range found.ByKey {
		ids = of
	}
	if len(ids) == 0 {
		return none, nil, nobody
	}
	user, ok := found.Users[ids[0]]
	switch {
	case !ok:
		return none, nil, nobody
	case !user.MergedInto.IsZero():
		return none, nil, refusal(sluice.CodeNotFound, "user %s was merged into %s", user.ID, user.MergedInto)
	}
	p, err := profile.Parse(user.Profile)
	if err != nil {
		return none, nil, fmt.Errorf("read user %s: %w", user.ID, err)
	}
	return user, p, nil
}
