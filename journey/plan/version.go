package plan

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	"sluice/lib/jsonscan"
)

// A version of a journey is kept as its canonical form. If rules of it name segments, their
// rules as of the publish are before that, under a member that no document has: so all
// processes go by the same rules, and a segment that is changed later changes nothing.
const versionSegments = "segments"

// Version returns the text that a version of the journey is kept as.
func (p *Plan) Version() (string, error) {
	if len(p.segments) == 0 {
		return p.canonical, nil
	}
	rules := make(map[string]json.RawMessage, len(p.segments))
	for id, definition := range p.segments {
		rules[id] = json.RawMessage(definition)
	}
	text, err := jsonscan.Marshal(map[string]any{versionSegments: rules})
	if err != nil {
		return "", fmt.Errorf("write the segments of journey %s: %w", p.ID, err)
	}
	return strings.TrimSuffix(string(text), "}") + "," + strings.TrimPrefix(p.canonical, "{"), nil
}

// SplitVersion returns the document of a version, and the rules of its segments by id. A
// version of before they were kept has none.
func SplitVersion(text string) (document string, segments map[string]string) {
	const begin = `{"` + versionSegments + `":`
	m := jsonscan.Read(text)
	if !strings.HasPrefix(text, begin) || !m.Next() {
		return text, nil
	}
	segments = make(map[string]string)
	for s := jsonscan.Read(m.Value.Raw); s.Next(); {
		segments[s.Key] = s.Value.Raw
	}
	return "{" + strings.TrimPrefix(text[len(begin)+len(m.Value.Raw):], ","), segments
}

// ParseVersion is ParseJSON of a version.
func ParseVersion(text string) (*Document, error) {
	document, _ := SplitVersion(text)
	return ParseJSON(document)
}

// LoadVersion is LoadJSON of a version. Segments whose rules it has are not asked for.
func LoadVersion(text string, env Env) (*Document, *Plan, error) {
	document, segments := SplitVersion(text)
	return LoadJSON(document, &published{env, segments})
}

// published is an Env in which segments are as a version has them.
type published struct {
	Env
	segments map[string]string
}

// Segment implements Env.
func (e *published) Segment(id string) (definition string, found bool, err error) {
	if definition, found = e.segments[id]; found {
		return definition, true, nil
	}
	return e.Env.Segment(id)
}

// keep notes the rule of a segment that the journey names.
func (p *Plan) keep(id, definition string) {
	if p.segments == nil {
		p.segments = make(map[string]string)
	}
	p.segments[id] = definition
}

// segmentsBytes is how long the rules of its segments are.
func (p *Plan) segmentsBytes() (n int) {
	for definition := range maps.Values(p.segments) {
		n += len(definition)
	}
	return n
}
