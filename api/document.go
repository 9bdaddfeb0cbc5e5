package api

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"regexp"
	"strings"
	"sync"
)

// The API is described once, in openapi.json, which machines read; the page
// for people is made of it. Tests compare it with the routes, with every
// answer they get and with the error codes, so it cannot fall behind.
var (
	//go:embed openapi.json
	openAPI []byte

	//go:embed docs.html
	docsTemplate string
)

// document answers with the OpenAPI document.
func (s *Server) document(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	s.write(w, openAPI)
}

// docs answers with the page.
func (s *Server) docs(w http.ResponseWriter, r *http.Request) {
	p, err := docsPage()
	if err != nil {
		s.writeError(w, r, err)
		return
	}
	s.writeHTML(w, http.StatusOK, styleHash(p), noForms, []byte(p))
}

// docsPage makes the page when it is first asked for.
var docsPage = sync.OnceValues(func() (string, error) {
	var d apiDocument
	if err := json.Unmarshal(openAPI, &d); err != nil {
		return "", fmt.Errorf("read openapi.json: %w", err)
	}
	t, err := template.New("docs").Funcs(template.FuncMap{"prose": prose, "last": last, "pretty": pretty, "join": join, "bounds": bounds}).Parse(docsTemplate)
	if err != nil {
		return "", fmt.Errorf("read docs.html: %w", err)
	}
	var b bytes.Buffer
	if err := t.Execute(&b, &d); err != nil {
		return "", fmt.Errorf("make the page of openapi.json: %w", err)
	}
	return b.String(), nil
})

// apiDocument is what the page shows of an OpenAPI document.
type apiDocument struct {
	Info struct {
		Title, Version, Summary, Description string
	}
	Paths      ordered[ordered[operation]]
	Components struct {
		Schemas         ordered[schema]
		Responses       ordered[response]
		SecuritySchemes ordered[struct{ Description string }]
	}
}

type operation struct {
	OperationID          string
	Summary, Description string
	Security             []any
	Parameters           []struct {
		Name, In, Description string
		Required              bool
		Schema                schema
	}
	RequestBody struct {
		Description string
		Content     ordered[media]
	}
	Responses ordered[response]
}

type response struct {
	Ref         string `json:"$ref"`
	Description string
	Content     ordered[media]
}

type media struct {
	Schema   schema
	Examples ordered[struct {
		Summary string
		Value   json.RawMessage
	}]
}

type schema struct {
	Ref                  string `json:"$ref"`
	Type                 string
	Description          string
	Format, Pattern      string
	Enum                 []any
	Const                any
	Default              any
	MinLength, MaxLength *int
	MinItems, MaxItems   *int
	Minimum, Maximum     *json.Number
	Properties           ordered[schema]
	Required             []string
	Items                *schema
	OneOf                []schema
}

// ordered is a JSON object whose members keep their order.
type ordered[V any] []member[V]

type member[V any] struct {
	Name  string
	Value V
}

// UnmarshalJSON implements json.Unmarshaler.
func (o *ordered[V]) UnmarshalJSON(text []byte) error {
	d := json.NewDecoder(bytes.NewReader(text))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return errors.Join(errors.New("want an object"), err)
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		m := member[V]{Name: fmt.Sprint(name)}
		if err := d.Decode(&m.Value); err != nil {
			return fmt.Errorf("%s: %w", m.Name, err)
		}
		*o = append(*o, m)
	}
	return nil
}

var backquoted = regexp.MustCompile("`([^`]*)`")

// prose makes paragraphs of a description, with its words in backquotes as code.
func prose(text string) template.HTML {
	var b strings.Builder
	for paragraph := range strings.SplitSeq(text, "\n\n") {
		if paragraph != "" {
			fmt.Fprintf(&b, "<p>%s</p>", backquoted.ReplaceAllString(template.HTMLEscapeString(paragraph), "<code>$1</code>"))
		}
	}
	return template.HTML(b.String())
}

// last is the name that a reference ends with.
func last(ref string) string { return ref[strings.LastIndexByte(ref, '/')+1:] }

// pretty shows an example: a text as it is, anything else as indented JSON.
func pretty(value json.RawMessage) (string, error) {
	var text string
	if json.Unmarshal(value, &text) == nil {
		return text, nil
	}
	var b bytes.Buffer
	err := json.Indent(&b, value, "", "  ")
	return strings.ReplaceAll(b.String(), "\n          ", "\n"), err
}

// join shows values one beside the other.
func join(values any) string {
	switch v := values.(type) {
	case []string:
		return strings.Join(v, ", ")
	case []any:
		words := make([]string, len(v))
		for i := range v {
			words[i] = fmt.Sprint(v[i])
		}
		return strings.Join(words, ", ")
	}
	return fmt.Sprint(values)
}

// bounds shows what else a schema demands.
func bounds(s schema) string {
	var words []string
	between := func(what string, least, most *int) {
		switch {
		case least != nil && most != nil:
			words = append(words, fmt.Sprintf("%d to %d %s", *least, *most, what))
		case least != nil:
			words = append(words, fmt.Sprintf("at least %d %s", *least, what))
		case most != nil:
			words = append(words, fmt.Sprintf("at most %d %s", *most, what))
		}
	}
	if s.Format != "" {
		words = append(words, s.Format)
	}
	between("characters", s.MinLength, s.MaxLength)
	between("items", s.MinItems, s.MaxItems)
	if s.Minimum != nil {
		words = append(words, "at least "+s.Minimum.String())
	}
	if s.Maximum != nil {
		words = append(words, "at most "+s.Maximum.String())
	}
	if s.Default != nil {
		words = append(words, "default "+fmt.Sprint(s.Default))
	}
	return strings.Join(words, ", ")
}
