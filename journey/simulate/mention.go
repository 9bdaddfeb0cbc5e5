package simulate

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"sluice/user/profile"
)

// Mentioned are values that rules of a document ask for, each beside values for which
// the comparison comes out otherwise: JSON, by names. An empty value is none.
type Mentioned struct {
	Properties map[string][]string // of what happens, and of the context that it becomes
	Attributes map[string][]string // custom and standard ones

	Events, Products []string // that rules ask people's past for
}

// maxMentionedValues bounds the values of one name.
const maxMentionedValues = 64

// Mentions reads a document, JSON as plan.Document.Text writes it.
func Mentions(document string) (*Mentioned, error) {
	var root any
	d := json.NewDecoder(strings.NewReader(document))
	d.UseNumber()
	if err := d.Decode(&root); err != nil {
		return nil, fmt.Errorf("read what a journey mentions: %w", err)
	}
	m := &Mentioned{Properties: make(map[string][]string), Attributes: make(map[string][]string)}
	m.walk(root)
	return m, nil
}

func (m *Mentioned) walk(v any) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			m.walk(e)
		}
	case map[string]any:
		if _, asks := v["is"].(string); asks {
			m.condition(v)
			return
		}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			m.walk(v[name])
		}
	}
}

// condition takes down one comparison.
func (m *Mentioned) condition(c map[string]any) {
	past(&m.Events, c["event"])
	past(&m.Products, c["purchase"])
	for _, of := range []struct {
		member string
		into   map[string][]string
	}{{"property", m.Properties}, {"context", m.Properties}, {"attribute", m.Attributes}, {"field", m.Attributes}} {
		name, ok := c[of.member].(string)
		if !ok {
			continue
		}
		path, _ := c["path"].([]any)
		for _, v := range around(c["value"]) {
			if v = nested(v, path); !slices.Contains(of.into[name], v) && len(of.into[name]) < maxMentionedValues {
				of.into[name] = append(of.into[name], v)
			}
		}
	}
}

// past takes down a name that a rule asks the past for, once.
func past(into *[]string, v any) {
	if name, ok := v.(string); ok && !slices.Contains(*into, name) {
		*into = append(*into, name)
	}
}

// around are the value that is asked for and others: for numbers those beside it, and
// nothing at all.
func around(value any) []string {
	switch v := value.(type) {
	case json.Number:
		if n, err := v.Float64(); err == nil {
			return []string{"", number(n - 1), v.String(), number(n + 1)}
		}
	case string:
		return []string{"", profile.Quoted(v), `"another"`}
	case bool:
		return []string{"", "true", "false"}
	case []any:
		all := []string{""}
		for _, e := range v {
			all = append(all, around(e)[1:]...)
		}
		return all
	}
	return []string{"", `"some"`} // whether there is one
}

func number(n float64) string {
	text, err := json.Marshal(n)
	if err != nil {
		return "0"
	}
	return string(text)
}

// nested puts a value where a path leads, an object in an object.
func nested(v string, path []any) string {
	for _, p := range slices.Backward(path) {
		if name, ok := p.(string); ok && v != "" {
			v = "{" + profile.Quoted(name) + ":" + v + "}"
		}
	}
	return v
}
