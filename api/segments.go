package api

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"sluice"
	"sluice/lib/jsonscan"
	"sluice/lib/key"
	"sluice/user/profile"
	"sluice/user/rule"
)

// Paths of segments.
const (
	segmentsPath = "/v1/segments"
	segmentPath  = segmentsPath + "/{id}"
)

// Bounds of segments in requests.
const (
	maxSegmentBytes = rule.MaxRuleBytes + 8<<10 // of a body: a rule and a name
	maxSegmentsPage = 100
)

// segmentShown is a segment in an answer.
type segmentShown struct {
	ID       string          `json:"id"`
	Name     string          `json:"name"`
	Rule     json.RawMessage `json:"rule"`
	Created  string          `json:"created"`
	Updated  string          `json:"updated"`
	Archived string          `json:"archived,omitempty"`
}

func shownSegment(g *sluice.Segment) segmentShown {
	shown := segmentShown{ID: g.ID, Name: g.Name, Rule: json.RawMessage(g.Definition), Created: profile.TimeText(g.CreatedMillis), Updated: profile.TimeText(g.UpdatedMillis)}
	if g.ArchivedMillis != 0 {
		shown.Archived = profile.TimeText(g.ArchivedMillis)
	}
	return shown
}

// segmentRoutes are the paths of segments (INTERFACES.md, section 6).
func (s *Server) segmentRoutes() []route {
	get := []string{http.MethodGet, http.MethodHead}
	return []route{
		{segmentsPath, append(get, http.MethodPost), s.ofSegments(map[string]segmentAnswer{http.MethodPost: s.addSegment}, s.listSegments)},
		{segmentPath, append(get, http.MethodPut, http.MethodDelete), s.ofSegments(map[string]segmentAnswer{
			http.MethodPut: s.putSegment, http.MethodDelete: s.archiveSegment}, s.getSegment)},
		{segmentPath + "/count", get, s.ofSegments(nil, s.countSegment)},
		{segmentPath + "/members", get, s.ofSegments(nil, s.segmentMembers)},
		{segmentPath + "/explain", get, s.ofSegments(nil, s.explainSegment)},
	}
}

// ofSegments lets requests in that are about segments.
func (s *Server) ofSegments(writes map[string]segmentAnswer, read segmentAnswer) http.HandlerFunc {
	return ofStore(s, func(v *Services) sluice.SegmentStore { return v.Segments }, key.SegmentsRead, key.SegmentsWrite, writes, read)
}

type segmentAnswer = storeAnswer[sluice.SegmentStore]

// listSegments is GET /v1/segments.
func (s *Server) listSegments(_ http.ResponseWriter, r *http.Request, store sluice.SegmentStore) (int, any, error) {
	values, err := readQuery(r, []string{"after", "limit", "archived"})
	if err != nil {
		return 0, nil, err
	}
	q := sluice.SegmentQuery{After: values.Get("after")}
	if q.After != "" && !isSegmentID(q.After) {
		return 0, nil, refusal(sluice.CodeInvalid, "after is %.64q, want what an answer had as next", q.After)
	}
	limit, err := limitOf(values.Get("limit"), maxSegmentsPage, maxSegmentsPage)
	if err != nil {
		return 0, nil, err
	}
	if q.Archived, err = archivedOf(values); err != nil {
		return 0, nil, err
	}
	q.Limit = limit + 1
	found, err := store.Segments(r.Context(), q)
	if err != nil {
		return 0, nil, err
	}
	list := struct {
		Segments []segmentShown `json:"segments"`
		Next     string         `json:"next,omitempty"`
	}{Segments: []segmentShown{}}
	for i := range found[:min(limit, len(found))] {
		list.Segments = append(list.Segments, shownSegment(&found[i]))
	}
	if len(found) > limit {
		list.Next = found[limit-1].ID
	}
	return http.StatusOK, list, nil
}

// archivedOf reads whether what is archived is wanted, too.
func archivedOf(values url.Values) (bool, error) {
	switch text := values.Get("archived"); text {
	case "", "false":
		return false, nil
	case "true":
		return true, nil
	default:
		return false, refusal(sluice.CodeInvalid, "archived is %.32q, want true or false", text)
	}
}

// limitOf reads how many are wanted on a page.
func limitOf(text string, preset, most int) (int, error) {
	if text == "" {
		return preset, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > most || text[0] == '+' {
		return 0, refusal(sluice.CodeInvalid, "limit is %.32q, want 1 to %d", text, most)
	}
	return n, nil
}

// addSegment is POST /v1/segments.
func (s *Server) addSegment(w http.ResponseWriter, r *http.Request, store sluice.SegmentStore) (int, any, error) {
	name, definition, err := s.readSegment(r)
	if err != nil {
		return 0, nil, err
	}
	now := s.clock.Now()
	g := sluice.Segment{ID: sluice.NewUUID(now), Name: name, Definition: definition, CreatedMillis: now.UnixMilli(), UpdatedMillis: now.UnixMilli()}
	if err := store.AddSegment(r.Context(), g); err != nil {
		return 0, nil, err
	}
	w.Header().Set("Location", segmentsPath+"/"+g.ID)
	return http.StatusCreated, shownSegment(&g), nil
}

// getSegment is GET /v1/segments/{id}.
func (s *Server) getSegment(_ http.ResponseWriter, r *http.Request, store sluice.SegmentStore) (int, any, error) {
	g, err := segmentOf(r, store)
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, shownSegment(&g), nil
}

// segmentOf returns the segment that a path names.
func segmentOf(r *http.Request, store sluice.SegmentStore) (sluice.Segment, error) {
	id := r.PathValue("id")
	if !isSegmentID(id) {
		return sluice.Segment{}, refusal(sluice.CodeNotFound, "there is no segment %.64q; an id is a UUID in lower case", id)
	}
	return store.Segment(r.Context(), id)
}

// isSegmentID reports whether a text has the form of an id.
func isSegmentID(s string) bool {
	for i := range len(s) {
		c := s[i]
		if dash := i == 8 || i == 13 || i == 18 || i == 23; dash != (c == '-') || !dash && (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return len(s) == 36
}

// putSegment is PUT /v1/segments/{id}.
func (s *Server) putSegment(_ http.ResponseWriter, r *http.Request, store sluice.SegmentStore) (int, any, error) {
	name, definition, err := s.readSegment(r)
	if err != nil {
		return 0, nil, err
	}
	g, err := segmentOf(r, store)
	if err != nil {
		return 0, nil, err
	}
	g.Name, g.Definition, g.ArchivedMillis, g.UpdatedMillis = name, definition, 0, s.clock.Now().UnixMilli()
	if err := store.PutSegment(r.Context(), g); err != nil {
		return 0, nil, err
	}
	return http.StatusOK, shownSegment(&g), nil
}

// archiveSegment is DELETE /v1/segments/{id}.
func (s *Server) archiveSegment(_ http.ResponseWriter, r *http.Request, store sluice.SegmentStore) (int, any, error) {
	g, err := segmentOf(r, store)
	if err != nil {
		return 0, nil, err
	}
	if g.ArchivedMillis == 0 {
		g.ArchivedMillis = s.clock.Now().UnixMilli()
		if err := store.PutSegment(r.Context(), g); err != nil {
			return 0, nil, err
		}
	}
	return http.StatusNoContent, nil, nil
}

// readSegment reads the body of a segment: its name, and its rule in the form
// in which it is kept.
func (s *Server) readSegment(r *http.Request) (name, definition string, err error) {
	err = s.readObject(r, maxSegmentBytes, func(text string) (err error) {
		name, definition, err = parseSegment(text)
		name = strings.Clone(name)
		return err
	})
	return name, definition, err
}

// parseSegment reads {"name": "...", "rule": {...}}.
func parseSegment(text string) (name, definition string, err error) {
	v, err := jsonscan.Scan(text)
	if err != nil || v.Kind != jsonscan.Object {
		return "", "", refusal(sluice.CodeInvalid, `the body is no JSON object; send {"name": "...", "rule": {...}}`)
	}
	m := jsonscan.Read(v.Raw)
	given := map[string]jsonscan.Value{}
	for m.Next() {
		if _, twice := given[m.Key]; twice || m.Key != "name" && m.Key != "rule" {
			return "", "", refusal(sluice.CodeInvalid, "%.64q is not known, or there twice; want name and rule, once each", m.Key)
		}
		given[m.Key] = m.Value
	}
	if given["name"].Kind == jsonscan.String {
		name = given["name"].Text()
	}
	if name == "" || utf8.RuneCountInString(name) > sluice.MaxSegmentNameRunes || strings.TrimSpace(name) != name || strings.ContainsFunc(name, unicode.IsControl) {
		return "", "", refusal(sluice.CodeInvalid, "name: want a text of 1 to %d characters, no control characters, no blank at its ends", sluice.MaxSegmentNameRunes)
	}
	if _, ok := given["rule"]; !ok {
		return "", "", refusal(sluice.CodeInvalid, "rule: want a condition, there is none")
	}
	compiled, err := rule.Compile(given["rule"].Raw)
	if e, ok := errors.AsType[*rule.Error](err); ok {
		at := "rule"
		if e.Path != "" {
			at += "." + e.Path
		}
		return "", "", refusal(sluice.CodeInvalid, "%s: %s", at, e.Want)
	}
	if err != nil {
		return "", "", err
	}
	return name, compiled.String(), nil
}
