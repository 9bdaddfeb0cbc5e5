package api

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"unicode/utf8"

	"sluice"
	"sluice/user"
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

func shownSegment(g *user.Segment) segmentShown {
	return segmentShown{g.ID, g.Name, json.RawMessage(g.Definition), profile.TimeText(g.CreatedMillis), profile.TimeText(g.UpdatedMillis), timeText(g.ArchivedMillis)}
}

// listSegments is GET /v1/segments.
func (q *request) listSegments() (any, error) {
	after := q.query.Get("after")
	if after != "" && !isSegmentID(after) {
		return nil, errAfter(after)
	}
	archived, err := q.query.archived()
	if err != nil {
		return nil, err
	}
	return readList(q.query, "segments", maxSegmentsPage, maxSegmentsPage, func(limit int) ([]user.Segment, error) {
		return q.Segments.Segments(q.Context(), user.SegmentQuery{After: after, Archived: archived, Limit: limit})
	}, shownSegment, func(g *user.Segment) string { return g.ID })
}

// addSegment is POST /v1/segments.
func (q *request) addSegment() (any, error) {
	name, definition, err := q.readSegment()
	if err != nil {
		return nil, err
	}
	now := q.s.clock.Now()
	g := user.Segment{ID: sluice.NewUUID(now), Name: name, Definition: definition, CreatedMillis: now.UnixMilli(), UpdatedMillis: now.UnixMilli()}
	if err := q.Segments.AddSegment(q.Context(), g); err != nil {
		return nil, err
	}
	q.w.Header().Set("Location", segmentsPath+"/"+g.ID)
	q.status = http.StatusCreated
	q.became(shownSegment(&g))
	return shownSegment(&g), nil
}

// getSegment is GET /v1/segments/{id}.
func (q *request) getSegment() (any, error) {
	g, err := q.segment()
	if err != nil {
		return nil, err
	}
	return shownSegment(&g), nil
}

// segment returns the segment that the path names.
func (q *request) segment() (user.Segment, error) {
	id := q.PathValue("id")
	if !isSegmentID(id) {
		return user.Segment{}, refusal(sluice.CodeNotFound, "there is no segment %.64q; an id is a UUID in lower case", id)
	}
	return q.Segments.Segment(q.Context(), id)
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
func (q *request) putSegment() (any, error) {
	name, definition, err := q.readSegment()
	if err != nil {
		return nil, err
	}
	g, err := q.segment()
	if err != nil {
		return nil, err
	}
	g.Name, g.Definition, g.ArchivedMillis, g.UpdatedMillis = name, definition, 0, q.s.clock.Now().UnixMilli()
	if err := q.Segments.PutSegment(q.Context(), g); err != nil {
		return nil, err
	}
	return shownSegment(&g), nil
}

// archiveSegment is DELETE /v1/segments/{id}.
func (q *request) archiveSegment() (any, error) {
	g, err := q.segment()
	if err != nil {
		return nil, err
	}
	if g.ArchivedMillis == 0 {
		g.ArchivedMillis = q.s.clock.Now().UnixMilli()
		if err := q.Segments.PutSegment(q.Context(), g); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// readSegment reads the body of a segment, {"name": "...", "rule": {...}}: its name, and
// its rule in the form in which it is kept.
func (q *request) readSegment() (name, definition string, err error) {
	given, err := q.object(maxSegmentBytes, field{"name", &name}, field{"rule", nil})
	if err != nil {
		return "", "", err
	}
	if name == "" || utf8.RuneCountInString(name) > user.MaxSegmentNameRunes || strings.TrimSpace(name) != name || hasControl(name) {
		return "", "", refusal(sluice.CodeInvalid, "name: want a text of 1 to %d characters, no control characters, no blank at its ends", user.MaxSegmentNameRunes)
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
