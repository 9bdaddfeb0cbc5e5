package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sluice/config"
	"sluice/user/consent"
)

const optInFile = `
partitions: 4
public_url: https://mail.example.com
proxies: [127.0.0.1]
optin:
  newsletter:
    groups: [weekly, offers]
    confirmed_url: https://example.com/welcome
    fields: [first_name, plan]
    origins: [https://example.com]
    per_address_per_hour: 2
    per_ip_per_hour: 5
  plain: {}
`

// startOptIn starts a program with forms.
func startOptIn(t *testing.T) *served {
	t.Helper()
	dir := t.TempDir()
	configure(t, dir, optInFile)
	s := serveConfigured(t, dir, "SLUICE_ROOT_KEY="+testRoot)
	s.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return s
}

// form sends a body, of JSON or of a form, with headers in pairs.
func (s *served) form(t *testing.T, method, path, body string, headers ...string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequest(method, s.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if strings.HasPrefix(body, "{") {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	res, err := s.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(text)
}

const rootBearer = "Bearer " + testRoot

// link asks with a key and returns the token of the link.
func (s *served) link(t *testing.T, form, body string) string {
	t.Helper()
	res, text := s.form(t, "POST", "/v1/optin/"+form, body, "Authorization", rootBearer)
	var got struct {
		ConfirmURL string `json:"confirm_url"`
	}
	if err := json.Unmarshal([]byte(text), &got); err != nil || res.StatusCode != http.StatusAccepted {
		t.Fatalf("%d %s", res.StatusCode, text)
	}
	token, ok := strings.CutPrefix(got.ConfirmURL, "https://mail.example.com"+consent.ConfirmPath+"?t=")
	if !ok {
		t.Fatalf("the link is %s", got.ConfirmURL)
	}
	return token
}

// written waits until the events of a name are as many.
func (s *served) written(t *testing.T, name string, count int) []string {
	t.Helper()
	var all []string
	await(t, fmt.Sprintf("%d events %s", count, name), func() bool {
		all = s.texts(t, "SELECT properties FROM events WHERE kind = 'system' AND name = '"+name+"' ORDER BY time, event_id")
		return len(all) >= count
	})
	if len(all) != count {
		t.Fatalf("%d events %s, want %d: %s", len(all), name, count, all)
	}
	return all
}

// From the form of a website to the user in the database: nothing of the
// user is there before the button is pressed, whatever fetches the link. A second
// press writes nothing.
func TestOptIn(t *testing.T) {
	t.Parallel()
	s := startOptIn(t)
	_, before := s.follow(t, "", "", "")
	res, text := s.form(t, "POST", "/v1/optin/newsletter", "email=Ann%40Example.com&first_name=Ann+%C3%A4&website=&plan=gold&stolen=1", "X-Forwarded-For", "6.6.6.6, 203.0.113.7")
	if res.StatusCode != http.StatusAccepted || text != "{\"accepted\":true}\n" {
		t.Fatalf("%d %s", res.StatusCode, text)
	}
	var asked struct{ Form, IP, ConfirmURL, Expires string }
	if err := json.Unmarshal([]byte(strings.ReplaceAll(s.written(t, consent.EventRequested, 1)[0], "confirm_url", "confirmurl")), &asked); err != nil {
		t.Fatal(err)
	}
	if asked.Form != "newsletter" || asked.IP != "203.0.113.7" {
		t.Errorf("asked %+v", asked)
	}
	path, ok := strings.CutPrefix(asked.ConfirmURL, "https://mail.example.com")
	if !ok {
		t.Fatalf("the link is %s", asked.ConfirmURL)
	}
	for _, method := range []string{"GET", "HEAD", "GET"} { // scanners
		res, text = s.form(t, method, path, "")
		if res.StatusCode != http.StatusOK || method == "GET" && !strings.Contains(text, "ann@example.com") {
			t.Fatalf("%d %s", res.StatusCode, text)
		}
	}
	policy := res.Header.Get("Content-Security-Policy")
	if !regexp.MustCompile(`^default-src 'none'; style-src 'sha256-[^']+'; base-uri 'none'; form-action 'self' https://example.com; frame-ancestors 'none'$`).MatchString(policy) ||
		res.Header.Get("Cache-Control") != "no-store" || res.Header.Get("Referrer-Policy") != "no-referrer" || strings.Contains(text, "<script") {
		t.Errorf("%v\n%s", res.Header, text)
	}
	token := regexp.MustCompile(`name="t" value="([^"]+)"`).FindStringSubmatch(text)[1]
	// When what comes later into the same log is stored, so is all before it.
	s.link(t, "newsletter", `{"email":"ann@example.com"}`)
	s.written(t, consent.EventRequested, 2)
	if users := s.texts(t, "SELECT profile FROM users"); len(users) != 0 {
		t.Errorf("before the button: %s", users)
	}
	for range 2 {
		res, text = s.form(t, "POST", consent.ConfirmPath, "t="+token, "X-Forwarded-For", "2001:db8::1")
		if res.StatusCode != http.StatusSeeOther || res.Header.Get("Location") != "https://example.com/welcome" {
			t.Fatalf("%d %v %s", res.StatusCode, res.Header, text)
		}
	}
	await(t, "the user is there", func() bool { return len(s.texts(t, "SELECT profile FROM users")) == 1 })
	profile := s.texts(t, "SELECT profile FROM users")[0]
	for _, want := range []string{`"email":"ann@example.com"`, `"email_subscribe":"opted_in"`, `"first_name":"Ann ä"`, `"plan":"gold"`} {
		if !strings.Contains(profile, want) {
			t.Errorf("no %s in %s", want, profile)
		}
	}
	if strings.Contains(profile, "stolen") {
		t.Errorf("what is not in fields is in %s", profile)
	}
	_, found := s.ask(t, "GET", "/subscription/status/get?subscription_group_id=offers&email=ann%40example.com", "")
	if !strings.Contains(found, `"ann@example.com":"Subscribed"`) {
		t.Errorf("groups: %s", found)
	}
	proof := s.written(t, consent.EventConfirmed, 1)[0]
	for _, want := range []string{`"form":"newsletter"`, `"ip":"2001:db8::1"`, `"asked_ip":"203.0.113.7"`, `"groups":["weekly","offers"]`, `"email_subscribe":true`} {
		if !strings.Contains(proof, want) {
			t.Errorf("no %s in %s", want, proof)
		}
	}
	s.stillUnsubscribed(t, token)
	s.linkIsHidden(t, before)
}

// linkIsHidden: a stream shows the link of a request only to who may ask for one.
func (s *served) linkIsHidden(t *testing.T, before string) {
	t.Helper()
	for permissions, want := range map[string]bool{"events:read": false, "events:read,optin:write": true} {
		_, body := s.ask(t, "POST", "/v1/keys", `{"name":"reader","permissions":"`+permissions+`"}`)
		var made struct{ Key string }
		if err := json.Unmarshal([]byte(body), &made); err != nil || made.Key == "" {
			t.Fatal(body, err)
		}
		s.listen(t, made.Key, "?types=system."+consent.EventRequested, before, func(all []string, _ string) bool {
			for _, data := range all {
				if strings.Contains(data, "/optin/confirm?t=") != want || !strings.Contains(data, `"form":"newsletter"`) || !strings.Contains(data, `"expires":`) {
					t.Errorf("with %s: %s", permissions, data)
				}
			}
			return len(all) > 0
		})
	}
}

// stillUnsubscribed: a link that was used does not subscribe once more who has
// unsubscribed since.
func (s *served) stillUnsubscribed(t *testing.T, token string) {
	t.Helper()
	unsubscribed := `SELECT part FROM users WHERE profile LIKE '%"email_subscribe":"unsubscribed"%'`
	if status, text := s.ask(t, "POST", "/users/track", `{"attributes":[{"email":"ann@example.com","email_subscribe":"unsubscribed"}]}`); status != http.StatusCreated {
		t.Fatalf("%d %s", status, text)
	}
	await(t, "she is unsubscribed", func() bool { return len(s.texts(t, unsubscribed)) == 1 })
	if res, _ := s.form(t, "POST", consent.ConfirmPath, "t="+token); res.StatusCode != http.StatusSeeOther {
		t.Errorf("once more: %d", res.StatusCode)
	}
	// The mark goes the same way to the log, behind what the press would write.
	if status, text := s.ask(t, "POST", "/users/track", `{"attributes":[{"email":"ann@example.com","mark":1}]}`); status != http.StatusCreated {
		t.Fatalf("%d %s", status, text)
	}
	await(t, "the mark is stored", func() bool { return len(s.texts(t, `SELECT part FROM users WHERE profile LIKE '%"mark":1%'`)) == 1 })
	if len(s.texts(t, unsubscribed)) != 1 {
		t.Error("a link that was used has subscribed again")
	}
	s.written(t, consent.EventConfirmed, 1)
}

// The answer to a form is the same whether the address is known or not. What cannot
// be a request is refused. Nothing is written of what machines fill in.
func TestOptInRequests(t *testing.T) {
	t.Parallel()
	s := startOptIn(t)
	if status, text := s.ask(t, "POST", "/users/track", `{"attributes":[{"email":"known@example.com","email_subscribe":"opted_in"}]}`); status != http.StatusCreated {
		t.Fatalf("%d %s", status, text)
	}
	await(t, "somebody is known", func() bool { return len(s.texts(t, "SELECT part FROM users")) == 1 })
	n := 0
	from := func() string { n++; return fmt.Sprintf("198.51.100.%d", n) }
	var answers []string
	for _, email := range []string{"known@example.com", "stranger@example.com", "bot@example.com&website=x"} {
		res, text := s.form(t, "POST", "/v1/optin/newsletter", "email="+email, "X-Forwarded-For", from())
		answers = append(answers, fmt.Sprint(res.StatusCode, " ", res.Header.Get("Content-Length"), " ", text))
	}
	if answers[0] != answers[1] || answers[0] != answers[2] || !strings.HasPrefix(answers[0], "202") {
		t.Errorf("the answers differ: %q", answers)
	}
	s.written(t, consent.EventRequested, 2)
	if res, text := s.form(t, "POST", "/v1/optin/plain", "email=a%40example.com", "Accept", "text/html,*/*", "X-Forwarded-For", from()); res.StatusCode != 202 || !strings.Contains(text, "<h1>Almost done</h1>") {
		t.Errorf("a browser: %d %s", res.StatusCode, text)
	}
	for body, status := range map[string]int{
		`{"email":"a@example.com\r\nBcc: b@example.com"}`:                     400,
		"email=a%40example.com%0d%0aBcc%3a+b%40example.com":                   400,
		"email=a%40example.com%0a":                                            400,
		`{"email":"a@example.com\u0000"}`:                                     400,
		`{"email":"a@example.com,b@example.com"}`:                             400,
		`{"email":"A <a@example.com>"}`:                                       400,
		`{"email":7}`:                                                         400,
		`{"email":null}`:                                                      400,
		`{}`:                                                                  400,
		`{"email":"a@example.com"`:                                            400,
		`{"email":["a@example.com"]}`:                                         400,
		"email=a%40example.com&email=b%40example.com":                         400,
		`{"email":"a@example.com","first_name":"x\ny"}`:                       400,
		`{"email":"a@example.com","plan":{"inc":1}}`:                          400,
		`{"email":"a@example.com","first_name":7}`:                            400,
		`{"email":"a@example.com","plan":1e999}`:                              400,
		`{"email":"a@example.com","plan":"` + strings.Repeat("x", 600) + `"}`: 413,
		"email=" + strings.Repeat("x", 9000):                                  413,
	} {
		if res, text := s.form(t, "POST", "/v1/optin/newsletter", body, "X-Forwarded-For", from()); res.StatusCode != status {
			t.Errorf("%.80s: %d %s, want %d", body, res.StatusCode, text, status)
		}
	}
	for path, status := range map[string]int{"/v1/optin/other": 404, "/v1/optin/Newsletter": 404, "/v1/optin/": 404, "/v1/optin/newsletter/x": 404} {
		if res, text := s.form(t, "POST", path, "email=a%40example.com"); res.StatusCode != status {
			t.Errorf("%s: %d %s", path, res.StatusCode, text)
		}
	}
	if res, _ := s.form(t, "POST", "/v1/optin/newsletter", "email=a", "Content-Type", "text/plain"); res.StatusCode != 415 {
		t.Errorf("text/plain: %d", res.StatusCode)
	}
	if res, _ := s.form(t, "POST", "/v1/optin/newsletter", "email=a%40b.com", "Authorization", "Bearer wrong"); res.StatusCode != 401 {
		t.Errorf("a wrong key: %d", res.StatusCode)
	}
	s.written(t, consent.EventRequested, 3)
}

// A sender and an address have their bounds; that of an address is told to
// nobody but those with a key.
func TestOptInRates(t *testing.T) {
	t.Parallel()
	s := startOptIn(t)
	for i := range 7 {
		res, text := s.form(t, "POST", "/v1/optin/newsletter", fmt.Sprintf("email=u%d%%40example.com", i), "X-Forwarded-For", "198.51.100.1")
		if want := map[bool]int{true: 202, false: 429}[i < 5]; res.StatusCode != want || (want == 429) != (res.Header.Get("Retry-After") != "") {
			t.Errorf("request %d of a sender: %d %s", i, res.StatusCode, text)
		}
	}
	for i := range 4 {
		res, text := s.form(t, "POST", "/v1/optin/newsletter", "email=same%40example.com", "X-Forwarded-For", fmt.Sprintf("2001:db8:%d::1", i))
		if res.StatusCode != 202 || text != "{\"accepted\":true}\n" {
			t.Errorf("request %d of an address: %d %s", i, res.StatusCode, text)
		}
	}
	if res, text := s.form(t, "POST", "/v1/optin/newsletter", "email=same%40example.com", "Authorization", rootBearer); res.StatusCode != 429 || !strings.Contains(text, "too often") {
		t.Errorf("with a key: %d %s", res.StatusCode, text)
	}
	s.written(t, consent.EventRequested, 7)
}

// Only the origins of a form may use it from a page.
func TestOptInOrigins(t *testing.T) {
	t.Parallel()
	s := startOptIn(t)
	for _, method := range []string{"OPTIONS", "POST"} {
		body := map[string]string{"POST": `{"email":"a@example.com"}`}[method]
		res, text := s.form(t, method, "/v1/optin/newsletter", body, "Origin", "https://example.com", "Access-Control-Request-Method", "POST")
		if res.StatusCode/100 != 2 || res.Header.Get("Access-Control-Allow-Origin") != "https://example.com" || res.Header.Get("Vary") != "Origin" || res.Header.Get("Access-Control-Allow-Credentials") != "" {
			t.Errorf("%s: %d %v %s", method, res.StatusCode, res.Header, text)
		}
		for _, other := range []string{"https://evil.example", "null", "http://example.com", "https://example.com.evil.example"} {
			res, text := s.form(t, method, "/v1/optin/newsletter", body, "Origin", other)
			if res.StatusCode != 403 || res.Header.Get("Access-Control-Allow-Origin") != "" {
				t.Errorf("%s from %s: %d %v %s", method, other, res.StatusCode, res.Header, text)
			}
		}
		if res, _ := s.form(t, method, "/v1/optin/plain", body, "Origin", "https://evil.example"); res.StatusCode/100 != 2 || res.Header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s to a form without origins: %d %v", method, res.StatusCode, res.Header)
		}
	}
}

// A link that was changed, was made elsewhere, or whose form is no more confirms
// nothing; the secret outlives a restart.
func TestOptInLinks(t *testing.T) {
	t.Parallel()
	s := startOptIn(t)
	token := s.link(t, "plain", `{"email":"a@example.com"}`)
	changed := []byte(token)
	changed[20] ^= 1
	for name, bad := range map[string]string{"": "400", "t=": "400", "t=x": "400", "t=" + string(changed): "400", "t=" + token + "&t=" + token: "400", "t=" + url.QueryEscape(token+"\n"): "400", "x=" + token: "400"} {
		for _, method := range []string{"GET", "POST"} {
			path, body := consent.ConfirmPath+"?"+name, ""
			if method == "POST" {
				path, body = consent.ConfirmPath, name
			}
			if res, text := s.form(t, method, path, body); fmt.Sprint(res.StatusCode) != bad || !strings.Contains(text, "not valid") {
				t.Errorf("%s %s: %d %s", method, name, res.StatusCode, text)
			}
		}
	}
	if res, _ := s.form(t, "POST", consent.ConfirmPath, `{"t":"`+token+`"}`); res.StatusCode != 415 {
		t.Errorf("JSON: %d", res.StatusCode)
	}
	gone := s.link(t, "newsletter", `{"email":"b@example.com"}`)
	if code := s.stop(t); code != exitOK {
		t.Fatalf("exit code %d:\n%s", code, s.log)
	}
	file := filepath.Join(s.dir, config.DefaultFile)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(strings.Replace(string(text), "  newsletter:", "  another:", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	// A secret of the configuration signs from now on; the other's links are good.
	s = serveConfigured(t, s.dir, "SLUICE_ROOT_KEY="+testRoot, "SLUICE_SECRET="+strings.Repeat("s", 32))
	if res, text := s.form(t, "GET", consent.ConfirmPath+"?t="+gone, ""); res.StatusCode != 410 || !strings.Contains(text, "expired") {
		t.Errorf("a form that is no more: %d %s", res.StatusCode, text)
	}
	res, page := s.form(t, "POST", consent.ConfirmPath, "t="+token)
	if res.StatusCode != 200 || !strings.Contains(page, "<h1>Confirmed</h1>") {
		t.Errorf("after a restart: %d %s", res.StatusCode, page)
	}
	s.written(t, consent.EventConfirmed, 1)
	await(t, "the user is there", func() bool { return len(s.texts(t, "SELECT part FROM users")) == 1 })
}

// The commands of docs/consent.md do what it says, with its own configuration.
func TestConsentGuide(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "consent.md"))
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```(yaml|sh)\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	dir := t.TempDir()
	script := "set -eu\n"
	var s *served
	for _, b := range blocks {
		if b[1] == "yaml" {
			configure(t, dir, b[2])
			s = serveConfigured(t, dir, "SLUICE_ROOT_KEY="+testRoot)
			continue
		}
		script += b[2]
	}
	if s == nil || !strings.Contains(script, "curl") {
		t.Fatal("the page has no configuration, or no commands")
	}
	cmd := exec.CommandContext(t.Context(), "bash", "-c", strings.NewReplacer(`"$LINK"`, `"`+s.url+`${LINK#https://mail.example.com}"`, "https://mail.example.com", s.url).Replace(script))
	cmd.Env = append(os.Environ(), "KEY="+testRoot)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, script, out)
	}
	s.written(t, consent.EventRequested, 2)
	s.written(t, consent.EventConfirmed, 1)
}
