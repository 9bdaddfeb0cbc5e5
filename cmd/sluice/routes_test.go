package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/smtp"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sluice"
	"sluice/config"
	"sluice/mail"
)

// The switch is there for programs that run and that will, and stays.
func TestSendingStops(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	startServe(t, dir)
	show := func(want string) {
		t.Helper()
		out := mustRun(t, dir, "sending", "show").stdout
		if !strings.HasPrefix(out, "sending: sink (default)\n") || !strings.Contains(out, want) {
			t.Fatalf("%q, want %q", out, want)
		}
	}
	show("marketing mail: not stopped\n")
	mustRun(t, dir, "sending", "stop", "wrong", "list")
	show("Z wrong list\n")
	for _, want := range []string{"marketing mail goes on\n", "marketing mail was not stopped\n"} {
		if out := mustRun(t, dir, "sending", "resume").stdout; out != want {
			t.Errorf("%q, want %q", out, want)
		}
	}
	mustRun(t, dir, "sending", "pause", "--tag", "spring", "--class", "marketing", "prices")
	show("marketing mail of the tag spring: stopped")
	if out := mustRun(t, dir, "sending", "resume", "--class", "marketing", "--tag", "spring").stdout; out != "marketing mail of the tag spring goes on\n" {
		t.Errorf("%q", out)
	}
	show("marketing mail: not stopped\n")
	for _, args := range [][]string{{"sending"}, {"sending", "paws"}, {"sending", "show", "x"}, {"sending", "pause", "--priority", "low", "--class", "marketing"}, {"sending", "stop", strings.Repeat("x", maxNoteBytes+1)}} {
		if r := sluiceRun(t, dir, args...); r.code != exitUsage {
			t.Errorf("%v: %d %s", args, r.code, r.stderr)
		}
	}
}

// Routes are opened at the start, and what is wrong with them ends it.
func TestRoutesAreOpened(t *testing.T) {
	dir := t.TempDir()
	write := func(routes string) {
		t.Helper()
		configure(t, dir, "start_seconds: 20\nsending: allow-list\nallow_list: [example.com]\n"+routes)
	}
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	write("routes: {a: {ses: {region: eu-west-1}}}\n")
	if r := sluiceRun(t, dir, "serve"); r.code != exitFailed || !strings.Contains(r.stderr, "open route a: ") || !strings.Contains(r.stderr, "AWS_ACCESS_KEY_ID") {
		t.Fatalf("%d %s", r.code, r.stderr)
	}
	write("routes:\n  a: {ses: {region: eu-west-1, access_key: k, secret_key: s}, pace: 10/s}\n  b: {smtp: {url: 'smtp://127.0.0.1:2525'}, backup: true}\n  c: {http: {url: 'http://127.0.0.1:1/', body: '{\"to\":\"{{to}}\"}'}}\n")
	serveConfigured(t, dir)
}

// A mail goes by a route of the configuration, and one that may not go anywhere
// into the mailboxes.
func TestMailGoesByARoute(t *testing.T) {
	t.Parallel()
	got := make(chan string, 10)
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- string(body)
		_, _ = io.WriteString(w, `{"id":"p-1"}`)
	}))
	t.Cleanup(provider.Close)
	cfg := config.Default()
	cfg.Data, cfg.Partitions = t.TempDir(), 2
	cfg.Database = config.URL("sqlite:" + filepath.Join(cfg.Data, "sluice.db"))
	cfg.Sending, cfg.AllowList = "allow-list", []string{"allowed.example"}
	cfg.Mailboxes.WithinSeconds, cfg.Domains.Check = 1, false
	cfg.Routes = []config.Route{{Name: "provider", Pace: "1000/s", HTTP: config.HTTPRoute{
		URL: config.Secret(provider.URL), ID: "/id", Body: `{"to":"{{to}}","subject":"{{subject}}"}`}}}
	e := openEngine(t, cfg)
	ids, err := e.Services().Submitter.Submit(t.Context(), "", []mail.Draft{{
		Priority: mail.PriorityNormal, Class: mail.ClassMarketing, Form: mail.ContentMIME, From: "news@example.com",
		Content: []byte("From: news@example.com\r\nTo: all@example.com\r\nSubject: hello\r\n\r\nhi\r\n"), To: []string{"a@allowed.example", "b@other.example"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	var rows []mail.SendRow
	await(t, "both are sent", func() bool {
		if rows, err = e.Services().Sends.MessageSends(t.Context(), ids[0]); err != nil {
			t.Fatal(err)
		}
		return len(rows) == 2 && rows[0].State == mail.SendSent && rows[1].State == mail.SendSent
	})
	if rows[0].Route != "provider" || rows[1].Route != config.SinkRoute {
		t.Errorf("%+v", rows)
	}
	await(t, "what happens in a mailbox is an event", func() bool {
		lines := mustRun(t, filepath.Dir(cfg.Data), "export", "events", "--data", cfg.Data, "--name", sluice.EventDelivered).stdout
		return strings.Contains(lines, "b@other.example") && strings.Contains(lines, ids[0])
	})
	if body := <-got; body != `{"to":"a@allowed.example","subject":"hello"}` || len(got) != 0 {
		t.Errorf("the provider got %s and %d more", body, len(got))
	}
}

// What no route ever takes is refused when it is handed in, also by a process that
// does not send and could not; by SMTP a recipient alone, or the mail.
func TestMailThatNoRouteTakes(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	configure(t, dir, "start_seconds: 20\nsending: \"on\"\nsmtpd: {listen: '127.0.0.1:0', require_auth: false}\n"+
		"routes: {only: {ses: {region: eu-west-1}, domains: [example.com], classes: [transactional]}}\n")
	s := serveConfigured(t, dir, "SLUICE_ROOT_KEY="+testRoot, "SLUICE_ROLES=store")
	mail := func(to, more string) string {
		return `{"from":"shop@example.com","to":"` + to + `","text":"hello"` + more + `}`
	}
	status, answer := s.ask(t, http.MethodPost, "/v1/messages", "["+strings.Join([]string{mail("ann@example.org", ""), mail("ann@example.com", ""),
		mail("ann@example.com", `,"route":"gone"`), mail("ann@example.com", `,"route":"only"`), mail("ann@example.com", `,"class":"marketing"`)}, ",")+"]")
	var outcome struct {
		Accepted int
		Refused  []struct {
			Index   int
			Message string
		}
	}
	if err := json.Unmarshal([]byte(answer), &outcome); err != nil || status != http.StatusAccepted || outcome.Accepted != 2 || len(outcome.Refused) != 3 {
		t.Fatalf("%d %s: %v", status, answer, err)
	}
	for i, want := range []struct {
		index int
		text  string
	}{{0, "transactional mail to example.org"}, {2, `there is no route "gone"`}, {4, "marketing mail to example.com"}} {
		if r := outcome.Refused[i]; r.Index != want.index || !strings.Contains(r.Message, want.text) {
			t.Errorf("refused: %+v, want %+v", r, want)
		}
	}
	c, err := smtp.Dial(regexp.MustCompile(`smtp=(\S+)`).FindStringSubmatch(s.log.String())[1])
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	send := func(header string, to ...string) error {
		if err := c.Mail("shop@example.com"); err != nil {
			t.Fatal(err)
		}
		for _, a := range to {
			if err := c.Rcpt(a); err != nil {
				return err
			}
		}
		w, err := c.Data()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, header+"From: shop@example.com\r\n\r\nhello\r\n"); err != nil {
			t.Fatal(err)
		}
		return w.Close()
	}
	if err := send("", "ann@example.com"); err != nil {
		t.Fatal(err)
	}
	if err := send("X-Sluice-Class: marketing\r\n", "ann@example.com"); err == nil || !strings.Contains(err.Error(), `550 "5.7.1 `) {
		t.Errorf("marketing mail: %v", err)
	}
	if err := send("", "ann@example.com", "ann@example.org"); err == nil || !strings.Contains(err.Error(), `550 "5.4.4 `) {
		t.Errorf("to another domain: %v", err)
	}
}
