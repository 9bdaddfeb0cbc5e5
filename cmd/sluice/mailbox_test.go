package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What goes into the built-in mailboxes is listed and shown, as it is.
func TestMailbox(t *testing.T) {
	dir := t.TempDir()
	configure(t, dir, "partitions: 2\n")
	s := serveConfigured(t, dir, "SLUICE_ROOT_KEY="+testRoot)
	for _, to := range []string{"ann@example.com", "bob@example.com"} {
		s.ask(t, http.MethodPost, "/v1/messages", `{"from":"shop@example.com","to":"`+to+`","subject":"Grüße an `+to+`","text":"hello"}`)
	}
	file := filepath.Join(dir, "key.txt")
	if err := os.WriteFile(file, []byte(testRoot+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	list := func(args ...string) string {
		t.Helper()
		return mustRun(t, s.dir, append([]string{"mailbox", "list", "--url", s.url, "--key-file", file}, args...)...).stdout
	}
	await(t, "both mails are there", func() bool { return strings.Count(list(), "\n") == 2 })
	if out := list("--limit", "1"); strings.Count(out, "\n") != 1 || !strings.Contains(out, "     2  ") {
		t.Errorf("one mail:\n%s", out)
	}
	out := list("--to", "ann@example.com")
	if strings.Count(out, "\n") != 1 || !strings.Contains(out, "ann@example.com  Grüße an ann@example.com  (") {
		t.Fatalf("ann's:\n%s", out)
	}
	number := strings.Fields(out)[0]
	mail := mustRun(t, s.dir, "mailbox", "show", number, "--url", s.url, "--key-file", file).stdout
	if !strings.Contains(mail, "\r\nTo: ") && !strings.HasPrefix(mail, "To: ") || !strings.Contains(mail, "ann@example.com") || !strings.HasSuffix(mail, "hello\r\n") {
		t.Errorf("shown:\n%q", mail)
	}
	for _, args := range [][]string{{"mailbox"}, {"mailbox", "show"}, {"mailbox", "show", "x"}, {"mailbox", "list", "1"}} {
		if r := sluiceRun(t, s.dir, args...); r.code != exitUsage {
			t.Errorf("%v: %d %s", args, r.code, r.stderr)
		}
	}
	if r := sluiceRun(t, s.dir, "mailbox", "show", "99", "--url", s.url, "--key-file", file); r.code != exitFailed || !strings.Contains(r.stderr, "404") {
		t.Errorf("a mail that is not there: %d %s", r.code, r.stderr)
	}
	if r := sluiceRun(t, s.dir, "mailbox", "list", "--url", s.url); r.code != exitFailed || !strings.Contains(r.stderr, "mailboxes:read") {
		t.Errorf("without a key: %d %s", r.code, r.stderr)
	}
}
