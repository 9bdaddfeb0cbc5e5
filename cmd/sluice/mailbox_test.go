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
	run := func(wanted func(r result) bool, args ...string) result {
		t.Helper()
		return awaitRun(t, s.dir, wanted, append(append([]string{"mailbox"}, args...), "--url", s.url)...)
	}
	done := func(r result) bool { return r.code == exitOK }
	run(func(r result) bool { return done(r) && strings.Count(r.stdout, "\n") == 2 }, "list", "--key-file", file)
	if out := run(done, "list", "--key-file", file, "--limit", "1").stdout; strings.Count(out, "\n") != 1 || !strings.Contains(out, "     2  ") {
		t.Errorf("one mail:\n%s", out)
	}
	out := run(done, "list", "--key-file", file, "--to", "ann@example.com").stdout
	if strings.Count(out, "\n") != 1 || !strings.Contains(out, "ann@example.com  Grüße an ann@example.com  (") {
		t.Fatalf("ann's:\n%s", out)
	}
	number := strings.Fields(out)[0]
	mail := run(done, "show", number, "--key-file", file).stdout
	if !strings.Contains(mail, "\r\nTo: ") && !strings.HasPrefix(mail, "To: ") || !strings.Contains(mail, "ann@example.com") || !strings.HasSuffix(mail, "hello\r\n") {
		t.Errorf("shown:\n%q", mail)
	}
	for _, args := range [][]string{{"mailbox"}, {"mailbox", "show"}, {"mailbox", "show", "x"}, {"mailbox", "list", "1"}} {
		if r := sluiceRun(t, s.dir, args...); r.code != exitUsage {
			t.Errorf("%v: %d %s", args, r.code, r.stderr)
		}
	}
	refused := func(why string) func(r result) bool {
		return func(r result) bool { return r.code == exitFailed && strings.Contains(r.stderr, why) }
	}
	run(refused("404"), "show", "99", "--key-file", file)
	run(refused("mailboxes:read"), "list") // without a key
}
