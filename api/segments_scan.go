package api

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"sluice"
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

// ruleOf returns the rule of the segment that a path names.
func ruleOf(r *http.Request, store sluice.SegmentStore) (*rule.Rule, error) {
	g, err := segmentOf(r, store)
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
func (s *Server) countSegment(w http.ResponseWriter, r *http.Request, store sluice.SegmentStore) (int, any, error) {
	if _, err := readQuery(r, nil); err != nil {
		return 0, nil, err
	}
	wanted, err := ruleOf(r, store)
	if err != nil {
		return 0, nil, err
	}
	scanner := s.program.Services().Scanner
	if scanner == nil {
		return 0, nil, errNotRunning
	}
	ctx, cancel := context.WithTimeout(r.Context(), countTimeout)
	defer cancel()
	at := s.clock.Now()
	counts, err := scanner.Count(ctx, wanted)
	if err != nil && ctx.Err() != nil && r.Context().Err() == nil {
		return 0, nil, refusal(sluice.CodeUnavailable, "not all users could be read within %s; ask when less is going on, or read the members page by page", countTimeout)
	}
	if err != nil {
		return 0, nil, err
	}
	if counts.Unread > 0 {
		s.log.Warn("profiles that cannot be read were counted as in no segment", "id", idOf(w), "users", counts.Unread)
	}
	return http.StatusOK, struct {
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
func (s *Server) segmentMembers(_ http.ResponseWriter, r *http.Request, store sluice.SegmentStore) (int, any, error) {
	values, err := readQuery(r, []string{"after", "limit"})
	if err != nil {
		return 0, nil, err
	}
	limit, err := limitOf(values.Get("limit"), defaultMembers, maxMembers)
	if err != nil {
		return 0, nil, err
	}
	var after sluice.UserID
	if text := values.Get("after"); text != "" {
		var ok bool
		if after, ok = sluice.ParseUserID(text); !ok {
			return 0, nil, refusal(sluice.CodeInvalid, "after is %.64q, want what an answer had as next", text)
		}
	}
	wanted, err := ruleOf(r, store)
	if err != nil {
		return 0, nil, err
	}
	scanner := s.program.Services().Scanner
	if scanner == nil {
		return 0, nil, errNotRunning
	}
	ctx, cancel := context.WithTimeout(r.Context(), membersTimeout)
	defer cancel()
	members, next, err := scanner.Members(ctx, wanted, after, limit, membersPatience)
	if err != nil {
		return 0, nil, err
	}
	page := struct {
		Members []userShown `json:"members"`
		Next    string      `json:"next,omitempty"`
	}{Members: make([]userShown, len(members))}
	for i, m := range members {
		page.Members[i] = userShown{m.ExternalID, m.ID.String()}
	}
	if next != nil {
		page.Next = next.String()
	}
	return http.StatusOK, page, nil
}

// explainSegment is GET /v1/segments/{id}/explain.
func (s *Server) explainSegment(_ http.ResponseWriter, r *http.Request, store sluice.SegmentStore) (int, any, error) {
	values, err := readQuery(r, []string{"external_id", "braze_id"})
	if err != nil {
		return 0, nil, err
	}
	wanted, err := ruleOf(r, store)
	if err != nil {
		return 0, nil, err
	}
	users := s.program.Services().Users
	if users == nil {
		return 0, nil, errNotRunning
	}
	ctx, cancel := context.WithTimeout(r.Context(), explainTimeout)
	defer cancel()
	user, err := userOf(ctx, users, values)
	if err != nil {
		return 0, nil, err
	}
	p, err := profile.Parse(user.Profile)
	if err != nil {
		return 0, nil, fmt.Errorf("read user %s: %w", user.ID, err)
	}
	finding, err := wanted.Explain(user.Profile, user.ID.Hash(), s.clock.Now().UnixMilli())
	if err != nil {
		return 0, nil, fmt.Errorf("read user %s: %w", user.ID, err)
	}
	return http.StatusOK, struct {
		User    userShown     `json:"user"`
		Holds   bool          `json:"holds"`
		Finding *rule.Finding `json:"finding"`
	}{userShown{p.ExternalID, user.ID.String()}, finding.Holds, finding}, nil
}

// userOf returns the user that a query names.
func userOf(ctx context.Context, users sluice.UserStore, values url.Values) (sluice.UserRow, error) {
	var none sluice.UserRow
	if values.Has("external_id") == values.Has("braze_id") {
		return none, refusal(sluice.CodeInvalid, "want either external_id or braze_id: which user it is about")
	}
	nobody := refusal(sluice.CodeNotFound, "there is no such user")
	var q sluice.UserQuery
	if name := values.Get("external_id"); name != "" {
		if len(name) > sluice.MaxExternalIDBytes || !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) {
			return none, nobody // nobody can be called that
		}
		q.Keys = []sluice.UserKey{{Kind: sluice.KeyExternal, Name: name}}
	} else {
		id, ok := sluice.ParseUserID(values.Get("braze_id"))
		if !ok {
			return none, nobody
		}
		q.IDs = []sluice.UserID{id}
	}
	found, err := users.Users(ctx, q)
	if err != nil {
		return none, err
	}
	ids := q.IDs
	for _, of := range found.ByKey {
		ids = of
	}
	if len(ids) == 0 {
		return none, nobody
	}
	user, ok := found.Users[ids[0]]
	switch {
	case !ok:
		return none, nobody
	case !user.MergedInto.IsZero():
		return none, refusal(sluice.CodeNotFound, "user %s was merged into %s", user.ID, user.MergedInto)
	}
	return user, nil
}
