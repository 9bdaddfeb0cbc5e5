package api

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"sluice/test/apitest"
)

// checker reads openapi.json, once.
var checker = sync.OnceValues(func() (*apitest.Checker, error) { return apitest.New(openAPI) })

// checked returns a client whose answers are compared with openapi.json.
func checked(t *testing.T) (*http.Client, *apitest.Checker) {
	t.Helper()
	c, err := checker()
	if err != nil {
		t.Fatal(err)
	}
	return &http.Client{Transport: c.Transport(t, http.DefaultTransport)}, c
}

// What is answered is described, and what is described is answered.
func TestDocumentHasEveryRoute(t *testing.T) {
	_, c := checked(t)
	described := map[string]bool{}
	for path, item := range c.Document.Paths.Map() {
		for method := range item.Operations() {
			described[method+" "+path] = true
		}
	}
	s := New("", &program{}, slog.New(slog.DiscardHandler), Options{})
	for _, r := range s.routes() {
		if !described[r.method+" "+r.path] {
			t.Errorf("%s %s is answered, and not in openapi.json: describe it there, with its answers and examples", r.method, r.path)
		}
		delete(described, r.method+" "+r.path)
	}
	for _, operation := range slices.Sorted(maps.Keys(described)) {
		t.Errorf("openapi.json describes %s, which is not in routes()", operation)
	}
}

// Clients are made of the document and linters read it: it says where the server
// is, and of each call how it is refused.
func TestDocumentForClients(t *testing.T) {
	_, c := checked(t)
	if servers := c.Document.Servers; len(servers) != 1 || servers[0].URL != "/" {
		t.Errorf("servers: %+v, want the one that answers", servers)
	}
	ids := make(map[string]bool)
	for path, item := range c.Document.Paths.Map() {
		for method, operation := range item.Operations() {
			refused := slices.ContainsFunc(slices.Collect(maps.Keys(operation.Responses.Map())), func(status string) bool { return status[0] == '4' })
			if !refused || operation.Summary == "" || len(operation.Tags) != 1 || ids[operation.OperationID] {
				t.Errorf("%s %s: it says how it is refused: %t; summary %q, tags %v, id %s", method, path, refused, operation.Summary, operation.Tags, operation.OperationID)
			}
			ids[operation.OperationID] = true
		}
	}
}

// openObjects are those in answers that may have members which the document has not, by
// their places, with whose these are. What any other object has beyond the document is an
// error of each test that is answered by it.
var openObjects = map[string]string{
	"AuditEntry.before":                              "the members of what was changed",
	"AuditEntry.after":                               "the members of what was changed",
	"BrazeUser.custom_attributes":                    "attributes, as the operator calls them",
	"post /users/track/sync.users.custom_attributes": "attributes, as the operator calls them",
	"ImportRow.attributes":                           "attributes, as the operator calls them",
	"ImportRow.properties":                           "properties, as producers call them",
	"TimelineEntry.event.properties":                 "properties, as producers call them",
	"MessageLife.metadata":                           "what the sender wrote",
	"JourneyDocument":                                "docs/journeys.md has its members, and another schema",
	"Segment.rule":                                   "docs/segments.md has its members",
	"get /openapi.json":                              "OpenAPI has its members",
	"get /openapi.json.info":                         "OpenAPI has its members",
	"get /openapi.json.paths":                        "OpenAPI has its members",
}

// An answer has no member that the document has not: each of its objects says so, and what
// tests are answered is compared with it.
func TestDocumentHasEveryMember(t *testing.T) {
	_, c := checked(t)
	found := make(map[string]bool)
	for path, item := range c.Document.Paths.Map() {
		for method, operation := range item.Operations() {
			for _, answer := range operation.Responses.Map() {
				for _, media := range answer.Value.Content {
					openIn(media.Schema, strings.ToLower(method)+" "+path, make(map[string]bool), found)
				}
			}
		}
	}
	for place := range found {
		if openObjects[place] == "" {
			t.Errorf("%s may have members that are not in openapi.json: give it additionalProperties", place)
		}
	}
	for place := range openObjects {
		if !found[place] {
			t.Errorf("%s is no object in an answer that may have any members", place)
		}
	}
}

// openIn finds the objects of a schema that may have any members.
func openIn(s *openapi3.SchemaRef, place string, known, found map[string]bool) {
	if s == nil || known[s.Ref] {
		return
	}
	if s.Ref != "" {
		known[s.Ref] = true
		place = last(s.Ref)
	}
	v := s.Value
	if v.Type.Includes("object") || len(v.Properties) > 0 {
		if more := v.AdditionalProperties; more.Schema == nil && (more.Has == nil || *more.Has) {
			found[place] = true
		}
	}
	for name, member := range v.Properties {
		openIn(member, place+"."+name, known, found)
	}
	for _, part := range slices.Concat(v.OneOf, v.AnyOf, v.AllOf, []*openapi3.SchemaRef{v.Items, v.AdditionalProperties.Schema}) {
		openIn(part, place, known, found)
	}
}

// What the gate takes in the query of a call is described, and nothing else is: any other
// name is refused.
func TestDocumentHasEveryParameter(t *testing.T) {
	_, c := checked(t)
	for i := range calls {
		row := &calls[i]
		if row.query == anyQuery {
			continue
		}
		item := c.Document.Paths.Value(row.path)
		var described []string
		for _, p := range slices.Concat(item.Parameters, item.GetOperation(row.method).Parameters) {
			if p.Value.In == openapi3.ParameterInQuery {
				described = append(described, p.Value.Name)
			}
		}
		taken := strings.Fields(row.query)
		slices.Sort(described)
		slices.Sort(taken)
		if !slices.Equal(described, taken) {
			t.Errorf("%s %s takes %q in its query, openapi.json describes %q", row.method, row.path, taken, described)
		}
	}
}

// The codes of the document are those of the domain, all of them.
func TestDocumentHasEveryCode(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "../errors.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var codes []string
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if kind, ok := spec.Type.(*ast.Ident); ok && kind.Name == "Code" {
			text, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			codes = append(codes, text)
		}
		return true
	})
	_, c := checked(t)
	var described []string
	for _, code := range c.Document.Components.Schemas["Code"].Value.Enum {
		described = append(described, code.(string))
	}
	slices.Sort(codes)
	slices.Sort(described)
	if len(codes) == 0 || !slices.Equal(codes, described) {
		t.Errorf("errors.go has the codes %v, openapi.json %v", codes, described)
	}
}

// The page shows every path and shape, its links lead somewhere, and it is
// shown under a policy that lets it do nothing.
func TestDocs(t *testing.T) {
	_, url := start(t, &program{})
	if status, header, body := do(t, "GET", url+"/openapi.json"); status != 200 || body != string(openAPI) || header.Get("Content-Type") != "application/json" {
		t.Errorf("openapi.json: %d %s", status, header)
	}
	status, header, body := do(t, "GET", url+"/docs")
	if status != 200 || header.Get("Content-Type") != "text/html; charset=utf-8" {
		t.Fatalf("%d %v", status, header)
	}
	if policy := header.Get("Content-Security-Policy"); !strings.HasPrefix(policy, "default-src 'none'; style-src "+styleHash(body)+"; ") {
		t.Errorf("policy %s", policy)
	}
	_, c := checked(t)
	for path := range c.Document.Paths.Map() {
		if !strings.Contains(body, " "+path+"</code></h2>") {
			t.Errorf("%s is not on the page", path)
		}
	}
	for name, s := range c.Document.Components.Schemas {
		for field := range s.Value.Properties {
			if !strings.Contains(body, "<code>"+field+"</code>") {
				t.Errorf("the field %s of %s is not on the page", field, name)
			}
		}
	}
	for _, link := range regexp.MustCompile(`href="#([^"]+)"`).FindAllStringSubmatch(body, -1) {
		if !strings.Contains(body, `id="`+link[1]+`"`) {
			t.Errorf("the link to %s leads nowhere", link[1])
		}
	}
	if found := regexp.MustCompile(`(?i)<script|\son[a-z]+=|(src|href)="(//|https?:)|style="|ZgotmplZ|<no value>`).FindString(body); found != "" {
		t.Errorf("the page has %s", found)
	}
	for _, tag := range c.Document.Tags {
		if !strings.Contains(body, `href="#group-`+tag.Name+`"`) || strings.Count(body, `id="group-`+tag.Name+`"`) != 1 {
			t.Errorf("the calls of %s have no group", tag.Name)
		}
	}
	if calls := strings.Count(string(openAPI), `"operationId"`); strings.Count(body, "<section>") != calls {
		t.Errorf("%d calls are on the page, there are %d", strings.Count(body, "<section>"), calls)
	}
	for q, want := range map[string][]string{
		"purge": {"purgeSending"}, "PURGE+waits": {"purgeSending"}, "no-such-word": nil, "%3Cb%3E%22": nil, "users/export": {"usersExportIDs"},
	} {
		_, _, found := do(t, "GET", url+"/docs?q="+q)
		sections := strings.Count(found, "<section>")
		if len(want) == 0 && sections > 0 || len(want) > 0 && (sections < 1 || sections > 5 || !strings.Contains(found, `<h2 id="`+want[0]+`">`)) || strings.Contains(found, "<b>") {
			t.Errorf("searched for %s: %d calls", q, sections)
		}
	}
	if strings.Count(body, "<section>") != strings.Count(body, "</section>") || strings.Count(body, "<pre>") == 0 {
		t.Error("the page is cut off")
	}
}

// smallBuffers has connections keep little of what is written and not read.
type smallBuffers struct{ net.Listener }

func (l smallBuffers) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		err = c.(*net.TCPConn).SetWriteBuffer(4096)
	}
	return c, err
}

// Who searches and does not read the answer keeps nobody else from searching.
func TestUnreadSearches(t *testing.T) {
	s := New("", &program{}, slog.New(slog.DiscardHandler), Options{})
	server := httptest.NewUnstartedServer(s.http.Handler)
	server.Listener = smallBuffers{server.Listener}
	server.Start()
	defer server.Close()
	for i := range 4 * parallelSearches {
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		const wanted = "HTTP/1.1 200"
		begin := make([]byte, len(wanted))
		_, err = fmt.Fprint(conn, "GET /docs?q=e HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
		if err == nil {
			_, err = io.ReadFull(conn, begin)
		}
		if err != nil || string(begin) != wanted {
			t.Fatalf("search %d, while nobody reads what the others found: %s, %v", i+1, begin, err)
		}
	}
}

// Paths that are almost one are none, and answered as such.
func TestUnknownPaths(t *testing.T) {
	_, url := start(t, &program{})
	for _, path := range []string{"//v1/events", "/v1//events", "/v1/events/", "/v1/./events", "/v1/x/../events", "/V1/events", "/healthz/", "/v1/events%00", "/%ff", "/openapi.json/.."} {
		for _, method := range []string{"GET", "POST", "DELETE"} {
			if status, _, body := do(t, method, url+path); status != 404 || !strings.Contains(body, `"code":"not_found"`) {
				t.Errorf("%s %s: %d %s", method, path, status, body)
			}
		}
	}
}

// What a resume decides about is said where it is asked for: people, and times of the entry
// that were missed.
func TestDocumentSaysWhatAResumeDecides(t *testing.T) {
	_, c := checked(t)
	resume := c.Document.Paths.Value("/v1/journeys/{id}/resume").Post
	overdue := resume.Parameters.GetByInAndName("query", "overdue")
	for where, text := range map[string]string{"description": resume.Description, "overdue": overdue.Description, "409": *resume.Responses.Value("409").Value.Description,
		"hold": c.Document.Components.Schemas["Journey"].Value.Properties["hold"].Value.Description} {
		if !strings.Contains(text, "time of the entry") && !strings.Contains(text, "time by which people were to enter") {
			t.Errorf("%s says nothing of a time that was missed: %s", where, text)
		}
	}
}
