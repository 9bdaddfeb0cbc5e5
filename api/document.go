package api

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"net"
	"net/http"
	"regexp"
	"slices"
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

// docs answers with the page, or with the part of it that is searched for.
func (s *Server) docs(w http.ResponseWriter, r *http.Request) {
	asked := r.URL.Query().Get("q")
	asked = strings.TrimSpace(strings.ToValidUTF8(asked[:min(len(asked), maxAskedBytes)], ""))
	d, err := apiDocs()
	var page net.Buffers
	if err == nil {
		page, err = s.searched(d, asked)
	}
	if err != nil {
		s.writeError(w, r, err)
		return
	}
	s.beginHTML(w, http.StatusOK, d.style, formsHere)
	if _, err := page.WriteTo(w); err != nil {
		s.log.Debug("answer not delivered", "id", idOf(w), "error", err)
	}
}

// searched returns the page of what is searched for; empty: that of all. It is under way
// while it searches, and not while somebody reads the answer.
func (s *Server) searched(d *describedAPI, asked string) (net.Buffers, error) {
	if asked == "" {
		return d.find("")
	}
	done, err := takeAny(s.searches, "searches are being answered")
	if err != nil {
		return nil, err
	}
	defer done()
	return d.find(asked)
}

// Bounds of searches: what is asked for, and how many are under way at once. Anybody may
// ask, and one takes some milliseconds.
const (
	maxAskedBytes    = 100
	parallelSearches = 4
)

// describedAPI is what pages of the API are made of. All pages share the texts of the calls,
// so that an answer that nobody reads has little of its own.
type describedAPI struct {
	document apiDocument
	page     *template.Template
	style    string // what a policy calls its style
	top      []byte // up to what is asked for
	tags     []describedTag
	bottom   []byte // from the end of the calls on
}

// describedTag are the calls of a tag.
type describedTag struct {
	listed, group []byte // how it begins in the table of contents, and below
	calls         []describedCall
}

// describedCall is a call on the page.
type describedCall struct {
	said          string // all that is said of it, in lower case
	line, section []byte // in the table of contents, and below
}

// apiDocs reads the description when it is first asked for.
var apiDocs = sync.OnceValues(func() (*describedAPI, error) {
	d := &describedAPI{}
	var raw struct {
		Paths ordered[ordered[json.RawMessage]]
	}
	if err := errors.Join(json.Unmarshal(openAPI, &d.document), json.Unmarshal(openAPI, &raw)); err != nil {
		return d, fmt.Errorf("read openapi.json: %w", err)
	}
	var err error
	d.page, err = template.New("docs").Funcs(template.FuncMap{"prose": prose, "plain": plain, "last": last, "pretty": pretty, "join": join, "bounds": bounds}).Parse(docsTemplate)
	if err != nil {
		return d, fmt.Errorf("read docs.html: %w", err)
	}
	part := func(name string, of any) []byte {
		text, makeErr := d.make(name, of)
		err = errors.Join(err, makeErr)
		return text
	}
	d.top, d.bottom = part("top", &d.document), part("bottom", &d.document)
	d.style = styleHash(string(d.top))
	for _, tag := range d.document.Tags {
		t := describedTag{listed: part("tag", tag), group: part("group", tag)}
		for i, path := range d.document.Paths {
			for j, call := range path.Value {
				if slices.Contains(call.Value.Tags, tag.Name) {
					shown := docsCall{path.Name, call}
					said := call.Name + " " + path.Name + " " + string(raw.Paths[i].Value[j].Value)
					t.calls = append(t.calls, describedCall{strings.ToLower(said), part("line", shown), part("call", shown)})
				}
			}
		}
		d.tags = append(d.tags, t)
	}
	return d, err
})

// make makes a part of the page.
func (d *describedAPI) make(part string, of any) ([]byte, error) {
	var b bytes.Buffer
	if err := d.page.ExecuteTemplate(&b, part, of); err != nil {
		return nil, fmt.Errorf("make the page of openapi.json: %w", err)
	}
	return b.Bytes(), nil
}

type docsCall struct {
	Path string
	member[operation]
}

// find makes the page of the calls of which all words of what is asked for are said.
func (d *describedAPI) find(asked string) (net.Buffers, error) {
	words := strings.Fields(strings.ToLower(asked))
	var list, calls net.Buffers
	found := 0
	for i := range d.tags {
		tag := &d.tags[i]
		before := found
		for j := range tag.calls {
			call := &tag.calls[j]
			if slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(call.said, word) }) {
				continue
			}
			if found == before {
				list, calls = append(list, tag.listed), append(calls, tag.group)
			}
			found++
			list, calls = append(list, call.line), append(calls, call.section)
		}
		if found > before {
			list = append(list, endOfTag)
		}
	}
	head, err := d.make("asked", map[string]any{"Asked": asked, "Found": found})
	return slices.Concat(net.Buffers{d.top, head}, list, net.Buffers{endOfList}, calls, net.Buffers{d.bottom}), err
}

// What ends the calls of a tag in the table of contents, and the table.
var (
	endOfTag  = []byte("\n</ul></details>")
	endOfList = []byte("\n</nav>")
)

// apiDocument is what the page shows of an OpenAPI document.
type apiDocument struct {
	Info struct {
		Title, Version, Summary, Description string
	}
	Tags       []struct{ Name, Description string }
	Paths      ordered[ordered[operation]]
	Components struct {
		Schemas         ordered[schema]
		Responses       ordered[response]
		SecuritySchemes ordered[struct{ Description string }]
	}
}

type operation struct {
	OperationID          string
	Tags                 []string
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

// plain is a description without its backquotes.
func plain(text string) string { return strings.ReplaceAll(text, "`", "") }

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
