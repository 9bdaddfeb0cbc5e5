package template

import (
	"encoding/json"
	"fmt"

	"sluice"
	"sluice/jsonscan"
)

// Content is the content of a send in the form sluice.ContentTemplate: which
// template it is, of which version, and its variables.
//
//	{"template":"welcome","version":3,"variables":{"order":7}}
type Content struct {
	Template  string
	Version   int    // from 1: whoever accepts a mail says which
	Variables string // a JSON object, or empty
}

// Append appends the content as JSON.
func (c *Content) Append(dst []byte) []byte {
	dst = fmt.Appendf(dst, `{"template":%q,"version":%d`, c.Template, c.Version) // an id has nothing to escape
	if c.Variables != "" {
		dst = append(append(dst, `,"variables":`...), c.Variables...)
	}
	return append(dst, '}')
}

// ParseContent reads what Append wrote. The error is an *Error.
func ParseContent(text string) (Content, error) {
	var c Content
	m := jsonscan.Read(text)
	for m.Next() {
		switch {
		case m.Key == "template" && m.Value.Kind == jsonscan.String:
			c.Template = m.Value.Text()
		case m.Key == "version" && m.Value.Kind == jsonscan.Number:
			if err := json.Unmarshal([]byte(m.Value.Raw), &c.Version); err != nil {
				return c, newError(KindInput, 0, "the version %.40s is none", m.Value.Raw)
			}
		case m.Key == "variables" && m.Value.Kind == jsonscan.Object:
			c.Variables = m.Value.Raw
		default:
			return c, newError(KindInput, 0, "%.64q is not known, or is %s; want template, version and variables", m.Key, m.Value.Kind)
		}
	}
	switch {
	case m.Err() != nil:
		return c, newError(KindInput, 0, "the content is no JSON object: %v", m.Err())
	case !sluice.ValidTemplateID(c.Template) || c.Version < 1:
		return c, newError(KindInput, 0, "the content names no template, or not its version")
	}
	return c, nil
}
