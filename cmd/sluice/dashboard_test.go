package main

import (
	"context"
	"flag"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

var dashboardShots = flag.String("shots", "", "a directory for screenshots of the dashboard; empty: none are made")

var setupLink = regexp.MustCompile(`http://\S+/setup#\S+`)

// longText is how long a text of others may be, in characters, without a page that is
// wider than its window, or very high.
const longText = 10_000

// startDashboard runs a program with a person and a mail whose texts are scripts, and
// returns the link that makes the first account.
func startDashboard(t *testing.T) (s *served, link string) {
	t.Helper()
	s = serveDashboard(t)
	await(t, "a link", func() bool {
		link = setupLink.FindString(s.log.String())
		if link == "" && strings.Contains(s.log.String(), "no link for the first account") { // made once, within a second
			s.stop(t)
			s = serveConfigured(t, s.dir, "SLUICE_ROOT_KEY="+testRoot)
		}
		return link != ""
	})
	const evil = `<img src=x onerror=\"window.hacked=1\"><script>window.hacked=1</script>`
	s.sent(t, http.StatusCreated, "/users/track/sync", `{"attributes":[{"external_id":"`+evil+`","email":"eve@example.com","first_name":"`+evil+`","note":"`+evil+`","subscription_groups":[{"subscription_group_id":"news","subscription_state":"subscribed"}]}]}`)
	s.sent(t, http.StatusCreated, "/users/track/sync", `{"events":[{"external_id":"`+evil+`","name":"looked","time":"`+time.Now().UTC().Format(time.RFC3339)+`","properties":{"shelf":"`+evil+`"}}]}`)
	s.sent(t, http.StatusCreated, "/users/track/sync", `{"attributes":[{"external_id":"long","email":"long@example.com","first_name":"`+strings.Repeat("W", 255)+`","last_name":"\u202eevil\u2066","`+strings.Repeat("n", 255)+`":"`+strings.Repeat("w", longText)+`"}]}`)
	s.sent(t, http.StatusAccepted, "/v1/messages", `{"from":"shop@example.com","to":{"email":"eve@example.com","user_id":"`+evil+`"},"subject":"`+evil+`","metadata":{"campaign_id":"\u202e`+evil+`"},`+
		`"html":"<title>unhurt</title><p>Hello Eve</p><script>document.title='hurt'</script><img src=x onerror=\"document.title='hurt'\">"}`)
	return s, link
}

// serveDashboard runs a program that listens on loopback and has no public_url.
func serveDashboard(t *testing.T) *served {
	t.Helper()
	dir := t.TempDir()
	configure(t, dir, "partitions: 4\n")
	return serveConfigured(t, dir, "SLUICE_ROOT_KEY="+testRoot)
}

// isAPI reports whether a page asks the API for a path, and not for itself or a stream.
func isAPI(path string) bool {
	return (strings.HasPrefix(path, "/v1/") || strings.HasPrefix(path, "/users/")) && !strings.HasSuffix(path, "/stream")
}

// roundTrip is a function as an http.RoundTripper.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// documentedProxy returns the URL of a proxy before a program, which compares every answer
// that a browser gets of the API with the document that the program serves. It is patient.
func documentedProxy(t *testing.T, to string) string {
	t.Helper()
	target, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	compared := patient(described(t, to).Transport(t, transport)).Transport
	p := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Host = r.In.Host // which the Origin of a change is compared with
		},
		Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			if isAPI(r.URL.Path) {
				return compared.RoundTrip(r)
			}
			return transport.RoundTrip(r)
		}),
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	})
	t.Cleanup(func() {
		p.CloseClientConnections()
		p.Close()
	})
	return p.URL
}

// asBrowser makes a request of JSON with headers, names and values in turn.
func (s *served) asBrowser(t *testing.T, method, path, body string, header ...string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	res, err := s.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	return res
}

// drive runs a script of testdata in Chromium against a program whose link makes the first
// account, and wants some steps to be done. Every answer of the API is as openapi.json says.
func drive(t *testing.T, s *served, link, script string, steps ...string) {
	t.Helper()
	await(t, "the mail is sent", func() bool {
		_, body := s.get(t, "/v1/sends?state=sent")
		return strings.Contains(body, "eve@example.com")
	})
	ctx, cancel := context.WithTimeout(t.Context(), 10*patience) // what was done until then is told
	defer cancel()
	at := documentedProxy(t, s.url)
	cmd := exec.CommandContext(ctx, "node", filepath.Join("testdata", script), at, strings.Replace(link, s.url, at, 1), *dashboardShots)
	cmd.Env = append(os.Environ(), "NODE_PATH="+filepath.Join(testTools(t, "node", "npm-test/package-lock.json"), "node_modules"))
	said, err := cmd.CombinedOutput()
	t.Logf("%s", said)
	if err != nil {
		t.Fatalf("%v; is chromium installed? `make deps-test` does it", err)
	}
	for _, step := range steps {
		if !strings.Contains(string(said), "ok "+step+"\n") {
			t.Errorf("the step %q was not done", step)
		}
	}
}

// The dashboard does in a browser what it promises, with Chromium, axe-core and the real
// program.
func TestDashboard(t *testing.T) {
	t.Parallel()
	s, link := startDashboard(t)
	drive(t, s, link, "dashboard.cjs", "first run", "sign in", "overview", "the brake", "a question that somebody else has answered meanwhile", "what is stopped", "a message is cancelled", "a message of many recipients", "find a person", "a timeline by kind", "a person is erased", "suppress an address", "an address that its domain holds back", "read a mail", "import a file", "an import goes on", "an import undone", "roles refused", "groups are for editors too", "the own password", "session revoked", "eight tabs have one stream", "the server is lost and regained", "routes and domains", "reactions", "days where the browser is in another zone", "audit log", "bad names", "a slow or broken API", "a first visit is small", "a clock that is wrong", "an answer that is late", "an answer that is cut", "a browser that takes itself for offline", "a long list", "a list that becomes long", "a path where nothing is", "a first mail", "every page at every width and scheme", "keyboard", "a dialog by the keyboard")
}

// A dashboard that gets late, broken or hostile answers says so, harms nobody, and recovers.
func TestDashboardOfBadAnswers(t *testing.T) {
	t.Parallel()
	s, link := startDashboard(t)
	drive(t, s, link, "dashboard_bad.cjs", "no answer is told of within 15 seconds", "an error of the server, on every page", "an error that comes slowly is told of at once", "figures that cannot be asked for again", "answers of another form", "hostile texts on every page", "another account in the same tab", "another account in another tab", "a session that ends while a form is filled in", "a list that changes while a form in it is filled in", "what to do first, where nothing was ever done", "one of several processes", "a search that is gone back to", "lists of several pages", "a dead letter at the end of a list", "a dialog whose call fails keeps the keyboard", "a dialog that is left while its call is under way", "the menu of a phone by the keyboard")
}

// A dashboard says no more than its answers say, changes what was meant, and asks for no
// more than it needs.
func TestDashboardSaysWhatIsTrue(t *testing.T) {
	t.Parallel()
	s, link := startDashboard(t)
	drive(t, s, link, "dashboard_true.cjs", "what came too late in the life of a mail", "a journey of several versions", "a domain that holds back the mail of an app", "a group that somebody else has changed", "a mailbox that has begun anew", "bounces of what was refused at once", "a mail that a machine has opened", "a change of which nobody knows whether it was made", "a dead letter whose content is kept back", "marketing mail that somebody else has just resumed", "reactions to mail of no campaign", "a tab that was hidden", "long lists are not asked for again by themselves", "a file with a byte order mark", "a line that is too slow for a piece")
}

// What a browser sends for another page is refused, and no cookie goes over plain http.
func TestSessionsAreTheirOwners(t *testing.T) {
	t.Parallel()
	s, link := startDashboard(t)
	_, token, _ := strings.Cut(link, "#")
	const signIn = `{"name":"ann@example.com","password":"correct horse battery"}`
	call := func(method, path, body string, header ...string) *http.Response {
		t.Helper()
		return s.asBrowser(t, method, path, body, header...)
	}
	if res := call("POST", "/v1/setup", `{"token":"`+token+`","name":"ann@example.com","password":"short"}`, "Origin", s.url); res.StatusCode != http.StatusBadRequest {
		t.Errorf("a short password: %d", res.StatusCode)
	}
	res := call("POST", "/v1/setup", `{"token":"`+token+`",`+signIn[1:], "Origin", s.url)
	if res.StatusCode != http.StatusOK || len(res.Cookies()) != 1 {
		t.Fatalf("setup: %d %v", res.StatusCode, res.Cookies())
	}
	c := res.Cookies()[0]
	if c.Name != "sluice" || !c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.Secure {
		t.Errorf("the cookie on loopback is %v", c)
	}
	cookie := c.Name + "=" + c.Value
	const pause, why = "/v1/sending/pause", `{"by":"tag","value":"x"}`
	tests := []struct {
		name, method, path, body string
		header                   []string
		want                     int
	}{
		{"a read", "GET", "/v1/sending", "", []string{"Cookie", cookie}, 200},
		{"a change", "POST", pause, why, []string{"Cookie", cookie, "Origin", s.url}, 200},
		{"a change without an origin", "POST", pause, why, []string{"Cookie", cookie}, 403},
		{"a change by another site", "POST", pause, why, []string{"Cookie", cookie, "Origin", "https://evil.example"}, 403},
		{"a change by a page of no origin", "POST", pause, why, []string{"Cookie", cookie, "Origin", "null"}, 403},
		{"a change by another port", "POST", pause, why, []string{"Cookie", cookie, "Origin", "http://127.0.0.1:1"}, 403},
		{"a call of Braze's API by another site", "POST", "/users/export/ids", `{"external_ids":["a"]}`, []string{"Cookie", cookie, "Origin", "https://evil.example"}, 403},
		{"the plain cookie behind https", "GET", "/v1/sending", "", []string{"Cookie", cookie, "X-Forwarded-Proto", "https"}, 401},
		{"half a cookie", "GET", "/v1/sending", "", []string{"Cookie", cookie[:len(cookie)-1]}, 401},
		{"sign in by another site", "POST", "/v1/session", signIn, []string{"Origin", "https://evil.example"}, 403},
		{"sign out by another site", "DELETE", "/v1/session", "", []string{"Cookie", cookie, "Origin", "https://evil.example"}, 403},
		{"sign out", "DELETE", "/v1/session", "", []string{"Cookie", cookie, "Origin", s.url}, 204},
		{"after signing out", "GET", "/v1/sending", "", []string{"Cookie", cookie}, 401},
	}
	for _, tt := range tests {
		if res := call(tt.method, tt.path, tt.body, tt.header...); res.StatusCode != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, res.StatusCode, tt.want)
		}
	}
	if log := s.log.String(); strings.Count(log, "signed out") != 1 || strings.Count(log, "signed in") != 1 {
		t.Errorf("signing in and out is not in the log, or twice:\n%s", log)
	}
	secure := call("POST", "/v1/session", signIn, "Origin", strings.Replace(s.url, "http:", "https:", 1), "X-Forwarded-Proto", "https")
	if cookies := secure.Cookies(); len(cookies) != 1 || cookies[0].Name != "__Host-sluice" || !cookies[0].Secure || cookies[0].Path != "/" {
		t.Errorf("behind https: %d %v", secure.StatusCode, cookies)
	}
	first := call("POST", "/v1/session", signIn, "Origin", s.url).Cookies()[0]
	again := call("POST", "/v1/session", signIn, "Origin", s.url, "Cookie", first.Name+"="+first.Value).Cookies()[0]
	for _, tt := range []struct {
		cookie *http.Cookie
		want   int
	}{{first, http.StatusUnauthorized}, {again, http.StatusOK}} {
		if res := call("GET", "/v1/sending", "", "Cookie", tt.cookie.Name+"="+tt.cookie.Value); res.StatusCode != tt.want {
			t.Errorf("signed in twice in a browser: %d, want %d", res.StatusCode, tt.want)
		}
	}
	for i, want := 0, http.StatusForbidden; i < 12; i++ {
		if i >= 10 {
			want = http.StatusTooManyRequests
		}
		if res := call("POST", "/v1/session", `{"name":"bob@example.com","password":"wrong horse battery"}`, "Origin", s.url); res.StatusCode != want {
			t.Errorf("attempt %d: %d, want %d", i+1, res.StatusCode, want)
		}
	}
}
