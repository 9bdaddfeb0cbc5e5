package api

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"sluice/lib/mime"
	"sluice/mail"
	"sluice/mail/spool"
	"sluice/store"
	"sluice/store/sqlstore"
	"sluice/user"
	"sluice/user/profile"
)

// templates is a server with one user.
type templates struct {
	url, write, read string
	p                *program
	s                *Server
	store            *sqlstore.Store
}

func startTemplates(t *testing.T) *templates {
	t.Helper()
	s, url, p, _ := startBraze(t, Options{})
	x := &templates{url: url + templatesPath, p: p, s: s, store: p.keys.(*sqlstore.Store)}
	_, text := addKey(t, x.store, "templates:write", "templates:read")
	x.write = "Bearer " + text
	_, text = addKey(t, x.store, "templates:read")
	x.read = "Bearer " + text
	person := &profile.Profile{ExternalID: "u-7"}
	person.SetAttributes(`{"first_name":"Ann <3","plan":"gold","email":"ann@example.com"}`, 0)
	id := user.ID{Partition: 1, Number: 1}
	e, err := x.store.Prepare(&store.Effect{Users: &user.Changes{
		Put:     []user.Row{{ID: id, UpdatedMillis: 1, Profile: string(person.Append(nil))}},
		AddKeys: []user.KeyRow{{Key: user.Key{Kind: user.KeyExternal, Name: "u-7"}, ID: id}},
	}})
	if err == nil {
		_, err = x.store.Apply(t.Context(), e)
	}
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// ask is callJSON with the key that may write.
func (x *templates) ask(t *testing.T, method, path, body string, want int, to any) called {
	t.Helper()
	return callJSON(t, x.url+path, method, x.write, body, want, to)
}

const welcome = `{"id":"welcome","name":"Wel 🌍","subject":"Hi {{${first_name}}}","preheader":"p","from":"S <s@example.com>","html":"<p>{{${first_name}}} {{ n }}</p>",
	"text":"{{ n }}","class":"marketing","headers":[{"name":"X-Ref","value":"{{ n }}"}],"strict":true}`

// A template is made, shown, given another version, put back, archived.
func TestTemplates(t *testing.T) {
	x := startTemplates(t)
	var v versionShown
	got := x.ask(t, "POST", "", welcome, 201, &v)
	if got.header.Get("Location") != templatesPath+"/welcome" || v.Version != 1 || v.Current != 1 || v.Latest != 1 || v.Name != "Wel 🌍" ||
		v.HTML != "<p>{{${first_name}}} {{ n }}</p>" || v.Class != "marketing" || !v.Strict || fmt.Sprint(v.Headers) != "[{X-Ref {{ n }}}]" || v.Written != v.Created {
		t.Errorf("%s", got.body)
	}
	if again := x.ask(t, "GET", "/welcome", "", 200, nil); again.body != got.body {
		t.Errorf("%s\nand made: %s", again.body, got.body)
	}
	x.ask(t, "POST", "", welcome, 400, nil)
	x.ask(t, "PUT", "/welcome", `{"subject":"s","text":"two","name":"Two"}`, 200, &v)
	if v.Version != 2 || v.Current != 2 || v.Name != "Two" || v.HTML != "" || v.Strict || len(v.Headers) != 0 || v.Class != "transactional" {
		t.Errorf("%+v", v)
	}
	x.ask(t, "PUT", "/welcome", `{"subject":"s","text":"three"}`, 200, &v)
	if v.Version != 3 || v.Name != "Two" {
		t.Errorf("%+v", v)
	}
	x.ask(t, "GET", "/welcome?version=1", "", 200, &v)
	if v.Version != 1 || v.Current != 3 || v.Latest != 3 || v.Subject != "Hi {{${first_name}}}" {
		t.Errorf("%+v", v)
	}
	var head templateShown
	x.ask(t, "PUT", "/welcome/current", `{"version":2}`, 200, &head)
	x.ask(t, "GET", "/welcome", "", 200, &v)
	if head.Current != 2 || v.Version != 2 || v.Text != "two" {
		t.Errorf("%+v %+v", head, v)
	}
	x.ask(t, "PUT", "/welcome/current", `{"version":4}`, 404, nil)
	x.ask(t, "PUT", "/welcome/current", `{}`, 400, nil)
	x.ask(t, "DELETE", "/welcome", "", 204, nil)
	x.ask(t, "DELETE", "/welcome", "", 204, nil)
	x.ask(t, "GET", "/welcome", "", 200, &v)
	if v.Archived == "" {
		t.Error("it is not archived")
	}
	for id := range strings.SplitSeq("a b c", " ") {
		x.ask(t, "POST", "", fmt.Sprintf(`{"id":%q,"subject":"s","text":"t"}`, id), 201, &v)
		if v.Name != id || v.Class != "transactional" {
			t.Errorf("%+v", v)
		}
	}
	ids := func(query string) string {
		var list struct {
			Templates []templateShown
			Next      string
		}
		x.ask(t, "GET", query, "", 200, &list)
		var all []string
		for _, g := range list.Templates {
			all = append(all, g.ID)
		}
		return strings.Join(all, " ") + " >" + list.Next
	}
	for query, want := range map[string]string{"": "a b c >", "?archived=true": "a b c welcome >", "?limit=2": "a b >b", "?after=b&limit=1": "c >", "?limit=3": "a b c >"} {
		if got := ids(query); got != want {
			t.Errorf("%q: got %q, want %q", query, got, want)
		}
	}
}

// What is refused says what is wrong, and stores nothing.
// JSON that escapes other letters than Latin ones is three times as long as the text. A
// template is taken so, and another version of it is, too.
func TestTemplatesOfEscapedJSON(t *testing.T) {
	x := startTemplates(t)
	html := strings.Repeat(`\u0416`, maxBodyBytes/5)
	if texts := maxBodyBytes / 5 * len("Ж"); texts > mail.MaxTemplateBytes || len(html) <= maxBodyBytes {
		t.Fatalf("a text of %d bytes is %d bytes of JSON", texts, len(html))
	}
	x.ask(t, "POST", "", `{"id":"big","name":"Big","html":"`+html+`","subject":"s"}`, http.StatusCreated, nil)
	x.ask(t, "PUT", "/big", `{"html":"`+html+`","subject":"s"}`, http.StatusOK, nil)
}

func TestTemplatesRefused(t *testing.T) {
	x := startTemplates(t)
	for body, want := range map[string]string{
		`[]`:                                  "the body is no JSON object",
		`{"id":"a","id":"b"}`:                 `\"id\" is not known, or there twice`,
		`{"subjct":"s"}`:                      `\"subjct\" is not known`,
		`{"subject":"s","text":"t"}`:          "id: want 1 to 64 characters",
		`{"id":"A","subject":"s","text":"t"}`: "id: want 1 to 64 characters",
		`{"id":"a","text":"t"}`:               "subject: there is none",
		`{"id":"a","subject":"s"}`:            "neither html nor text",
		`{"id":"a","subject":5}`:              "subject: want a text, got a number",
		`{"id":"a","subject":"s","text":"t","class":"spam"}`:                         "want transactional or marketing",
		`{"id":"a","subject":"s","text":"t","strict":1}`:                             "strict: want true or false",
		`{"id":"a","subject":"s","text":"t","name":" x"}`:                            "name: want a text of 1 to 255",
		`{"id":"a","subject":"s","text":"t","headers":{}}`:                           "headers: want a list",
		`{"id":"a","subject":"s","text":"t","headers":[{"name":"X-A"}]}`:             "headers[0]: want an object",
		`{"id":"a","subject":"s","text":"t","headers":[{"name":"Bcc","value":"x"}]}`: "header Bcc: Sluice writes it itself",
		`{"id":"a","subject":"s","html":"\n{{ a | no }}"}`:                           `html, line 2: there is no filter`,
		`{"id":"a","subject":"{% if","html":"x"}`:                                    "subject, line 1: {% has no %}",
		`{"id":"a","subject":"s","text":"\u0000"}`:                                   "control character",
		`{"id":"a","subject":"s","text":"` + strings.Repeat("x", 512<<10) + `"}`:     "at most 524288 are possible",
	} {
		if got := x.ask(t, "POST", "", body, 400, nil); !strings.Contains(got.body, want) {
			t.Errorf("%.200s: %s, want %q", body, got.body, want)
		}
	}
	x.ask(t, "POST", "", `{"id":"a","subject":"s","text":"`+strings.Repeat("x", maxTemplateBody)+`"}`, 413, nil)
	x.ask(t, "PUT", "/a", `{"subject":"s","text":"t"}`, 404, nil)
	x.ask(t, "POST", "", `{"id":"a","subject":"s","text":"t"}`, 201, nil)
	x.ask(t, "PUT", "/a", `{"id":"b","subject":"s","text":"t"}`, 400, nil)
	for _, query := range []string{"?limit=0", "?limit=101", "?after=A", "?archived=yes", "?x=1", "/a?version=0", "/a?version=", "/a?version=1001"} {
		x.ask(t, "GET", query, "", 400, nil)
	}
	for _, path := range []string{"/b", "/a?version=2", "/B%20"} {
		x.ask(t, "GET", path, "", 404, nil)
	}
	x.ask(t, "DELETE", "/b", "", 404, nil)
	if v, err := x.store.Template(t.Context(), "a"); err != nil || v.Latest != 1 {
		t.Errorf("%+v, %v", v, err)
	}
}

// What is taken as a template becomes a mail: nothing is stored that previews well, and of
// which each mail fails.
func TestTemplatesBecomeMails(t *testing.T) {
	x := startTemplates(t)
	header := func(name, value string) string {
		return fmt.Sprintf(`"headers":[{"name":%q,"value":%q}]`, name, value)
	}
	long := strings.Repeat("x", mime.MaxValueBytes+1)
	x.ask(t, "POST", "", `{"id":"kept","subject":"s","text":"t"}`, http.StatusCreated, nil)
	for i, tt := range []struct {
		part  string
		taken bool
	}{
		{`"from":"Example Shop"`, false}, {`"from":"a@example.com, b@example.com"`, false}, {`"from":"shop@"`, false}, {`"from":"Ann, Shop <shop@example.com>"`, false},
		{`"from":"Example Shop <shop@example.com>"`, true}, {`"from":"{{ shop | default: 'Shop' }} <shop@example.com>"`, true}, {`"from":" "`, true}, {`"from":"Shop\n<shop@example.com>"`, true},
		{header("Reply-To", "help@example.com, sales@example.com"), false}, {header("reply-to", "help"), false},
		{header("Reply-To", "Help <help@example.com>"), true}, {header("Reply-To", ""), true}, {header("Reply-To", "{{ help | default: 'help@example.com' }}"), true},
		{header("X.Campaign", "a"), false}, {header("X.Campaign", ""), false}, {header("X.Campaign", "{{ campaign }}"), false}, {header("X/Y", "a"), false}, {header("X~", "a"), false},
		{header("Delivered-To", "a"), false}, {header("Received-SPF", "pass"), false}, {header("Authentication-Results", "a"), false},
		{header("ARC-Seal", "a"), false}, {header("arc-anything", "a"), false}, {header("DomainKey-Signature", "a"), false}, {header("X-Long", long), false},
		{header("X-Campaign", "a"), true}, {header("x_campaign-7", "ä\nb\tc"), true}, {header("Precedence", " "), true}, {header("List-Id", "<news.example.com>"), true}, {header("X-C", "{{ campaign }}"), true},
		{header(strings.Repeat("x", mail.MaxTemplateHeaderBytes), "a"), true}, {`"preheader":"` + long + `"`, false}, {`"preheader":"p"`, true},
	} {
		id, made, kept := fmt.Sprintf("t%d", i), http.StatusCreated, http.StatusOK
		if !tt.taken {
			made, kept = http.StatusBadRequest, http.StatusBadRequest
		}
		got := x.ask(t, "POST", "", fmt.Sprintf(`{"id":%q,"subject":"s","text":"t",%s}`, id, tt.part), made, nil)
		x.ask(t, "PUT", "/kept", `{"subject":"s","text":"t",`+tt.part+`}`, kept, nil)
		if !tt.taken {
			continue
		}
		v, err := x.store.TemplateVersion(t.Context(), id, 1)
		if err != nil {
			t.Fatal(err)
		}
		trial := spool.Trial{Version: &v, From: "us@example.org", To: "ann@example.com"}
		if _, _, err := trial.Draft(time.Now()); err != nil {
			t.Errorf("%.100s is taken, and its mail fails: %v (%.100s)", tt.part, err, got.body)
		}
	}
}

// A preview is what would be sent, for values and for a user; what cannot be
// rendered is refused with its line.
func TestTemplatePreview(t *testing.T) {
	x := startTemplates(t)
	x.ask(t, "POST", "", welcome, 201, nil)
	var got previewed
	x.ask(t, "POST", "/welcome/preview", `{"variables":{"n":"<5>"},"external_id":"u-7"}`, 200, &got)
	if got.Subject != "Hi Ann <3" || got.HTML != "<p>Ann &lt;3 &lt;5&gt;</p>" || got.Text != "<5>" || got.From != "S <s@example.com>" ||
		got.Preheader != "p" || got.Version != 1 || got.Class != "marketing" || fmt.Sprint(got.Headers) != "[{X-Ref <5>}]" {
		t.Errorf("%+v", got)
	}
	x.ask(t, "PUT", "/welcome", `{"subject":"s","text":"\n{{ n | divided_by: 0 }}"}`, 200, nil)
	for body, want := range map[string]string{
		`{"version":1,"variables":{"n":1}}`: "subject, line 1: ${first_name} is not given",
		`{"version":1,"external_id":"u-7"}`: "html, line 1: n is not given",
		`{}`:                                "text, line 2: divided_by: the divisor is 0",
		`{"variables":[]}`:                  "variables: want an object",
		`{"version":"1"}`:                   "version: want a number",
		`{"version":0}`:                     "version: want a number",
		`{"external_id":"u-7","braze_id":"000000010000000000000001"}`: "want either external_id or braze_id",
		`{"user":"u-7"}`: "is not known",
	} {
		if got := x.ask(t, "POST", "/welcome/preview", body, 400, nil); !strings.Contains(got.body, want) {
			t.Errorf("%s: %s, want %q", body, got.body, want)
		}
	}
	for _, body := range []string{`{"external_id":"u-8"}`, `{"version":3}`} {
		x.ask(t, "POST", "/welcome/preview", body, 404, nil)
	}
	x.ask(t, "POST", "/none/preview", `{}`, 404, nil)
}

// Reading needs one permission, changing another.
func TestTemplatePermissions(t *testing.T) {
	x := startTemplates(t)
	x.ask(t, "POST", "", welcome, 201, nil)
	_, text := addKey(t, x.store, "templates:write", "segments:read")
	for _, c := range []struct {
		method, path, body string
		write, read        int
	}{
		{"GET", "", "", 403, 200}, {"GET", "/welcome", "", 403, 200}, {"POST", "/welcome/preview", `{"external_id":"u-7","variables":{"n":1}}`, 403, 200},
		{"POST", "", `{"id":"b","subject":"s","text":"t"}`, 201, 403}, {"PUT", "/welcome", `{"subject":"s","text":"t"}`, 200, 403},
		{"PUT", "/welcome/current", `{"version":1}`, 200, 403}, {"DELETE", "/welcome", "", 204, 403},
	} {
		for authorization, want := range map[string]int{"": 401, "Bearer " + text: c.write, x.read: c.read} {
			if got := callBraze(t, x.url+c.path, c.method, authorization, c.body); got.status != want {
				t.Errorf("%s %s as %.12s: %d %s, want %d", c.method, c.path, authorization, got.status, got.body, want)
			}
		}
	}
	x.p.stopped = true
	x.ask(t, "GET", "/welcome", "", http.StatusServiceUnavailable, nil)
}

// Two previews are made at a time; a third is sent away.
func TestPreviewsAreBounded(t *testing.T) {
	x := startTemplates(t)
	x.ask(t, "POST", "", `{"id":"a","subject":"s","text":"t"}`, 201, nil)
	for range parallelPreviews {
		x.s.previews <- struct{}{}
	}
	if got := x.ask(t, "POST", "/a/preview", `{}`, 503, nil); got.header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	<-x.s.previews
	for range 3 { // each gives its place back
		x.ask(t, "POST", "/a/preview", `{}`, 200, nil)
	}
}
