package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// What the command changes, a running program answers by; what it reads of a
// file too.
func TestSuppressionCommand(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := startServe(t, dir, "SLUICE_ROOT_KEY="+testRoot)
	checked := func(address string, want bool) {
		t.Helper()
		await(t, fmt.Sprintf("%s is suppressed: %v", address, want), func() bool {
			status, text := s.ask(t, "POST", "/v1/suppressions/check", `{"addresses":["`+address+`"]}`, "Authorization", "Bearer "+testRoot, "Content-Type", "application/json")
			return status == 200 && strings.Contains(text, `"suppressed":true`) == want
		})
		if got := mustRun(t, dir, "suppression", "check", address).stdout; strings.Contains(got, "  suppressed  ") != want {
			t.Errorf("check %s: %s", address, got)
		}
	}
	if got := mustRun(t, dir, "suppression", "add", "Ann@Example.com", ".bad.example", "--reason", "bad_domain").stdout; got != "2 added, 0 repeats; in force in every process within a second\n" {
		t.Errorf("add: %s", got) // which mail they hold back depends on reason, scope and app
	}
	checked("ann@example.com", true)
	checked("x@very.bad.example", true)
	if got := mustRun(t, dir, "suppression", "list").stdout; strings.Count(got, "\n") != 2 || !strings.Contains(got, "ann@example.com  bad_domain  all") {
		t.Errorf("list: %s", got)
	}
	if got := mustRun(t, dir, "suppression", "remove", "ann@example.com", "--reason", "manual").stdout; got != "0 removed\n" {
		t.Errorf("removed for another reason: %s", got)
	}
	mustRun(t, dir, "suppression", "remove", "ann@example.com")
	checked("ann@example.com", false)
	if got := mustRun(t, dir, "suppression", "list", "--entry", "ann@example.com", "--json").stdout; !strings.Contains(got, `"removed":true`) {
		t.Errorf("list of one: %s", got)
	}

	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	for i := range 12_345 {
		fmt.Fprintf(z, "user-%d@example.org\n", i)
	}
	fmt.Fprint(z, "bob@example.com,complaint\n\n{\"entry\":\"cy@example.com\",\"scope\":\"marketing\"}\n")
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "bad.gz")
	if err := os.WriteFile(file, packed.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := mustRun(t, dir, "suppression", "import", file, "--reason", "hard_bounce").stdout; got != "12,347 lines: 12,347 added, 0 repeats, 0 lines rejected\n" {
		t.Errorf("import: %s", got)
	}
	checked("user-12344@example.org", true)
	checked("cy@example.com", true)
	if got := mustRun(t, dir, "suppression", "check", "bob@example.com", "cy@example.com", "--class", "transactional", "--json").stdout; !strings.Contains(got, `"reason":"complaint"`) || !strings.Contains(got, `{"address":"cy@example.com","suppressed":false}`) {
		t.Errorf("check: %s", got)
	}
	_, metrics := s.get(t, "/metrics")
	if !strings.Contains(metrics, "sluice_suppressed_entries 12348\n") {
		t.Error("the metrics do not count 12348 entries")
	}
	if err := os.WriteFile(file, []byte("dan@example.com\nnot an entry\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := sluiceRun(t, dir, "suppression", "import", file); got.code != 1 || !strings.Contains(got.stderr, "line 2: entry is") || !strings.Contains(got.stdout, "2 lines: 1 added, 0 repeats, 1 lines rejected") {
		t.Errorf("a bad line: %d %s%s", got.code, got.stdout, got.stderr)
	}
}

// An entry that is in a file twice, or on the list already, is counted as a repeat.
// An unsubscription from a file holds back marketing mail alone. A top-level domain is
// refused wherever it is not forced.
func TestSuppressionFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := startServe(t, dir, "SLUICE_ROOT_KEY="+testRoot)
	file := filepath.Join(dir, "export.csv")
	var lines strings.Builder
	lines.WriteString("EmailAddress,SuppressionReason,Origin,CreatedAt\n")
	for i := range 10_500 { // two pieces: one half is of the same addresses, by other letters
		fmt.Fprintf(&lines, "User-%d@Example.org,ManualSuppression,Recipient,2019-12-10T08:58:33-05:00\n", i%5_250)
	}
	if err := os.WriteFile(file, []byte(lines.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"10,500 lines: 5,250 added, 5,250 repeats, 0 lines rejected\n", "10,500 lines: 0 added, 10,500 repeats, 0 lines rejected\n"} {
		if got := mustRun(t, dir, "suppression", "import", file).stdout; got != want {
			t.Errorf("import: %swant %s", got, want)
		}
	}
	for class, want := range map[string]string{"marketing": `"suppressed":true`, "transactional": `"suppressed":false`} {
		await(t, class+" mail is judged", func() bool {
			_, text := s.ask(t, "POST", "/v1/suppressions/check", `{"addresses":["user-7@example.org"],"class":"`+class+`"}`)
			return strings.Contains(text, want)
		})
		if got := mustRun(t, dir, "suppression", "check", "user-7@example.org", "--class", class, "--json").stdout; !strings.Contains(got, want) {
			t.Errorf("check, %s: %s", class, got)
		}
	}
	if got := mustRun(t, dir, "suppression", "add", "*.bad.example", ".bad.example", "new@example.org").stdout; !strings.HasPrefix(got, "2 added, 1 repeats;") {
		t.Errorf("add: %s", got)
	}
	status, text := s.ask(t, "POST", "/v1/suppressions", `{"suppressions":[{"entry":"*.bad.example"},{"entry":"*.worse.example"}]}`)
	if status != http.StatusOK || !strings.Contains(text, `"changed":1`) {
		t.Errorf("added by the API: %d %s", status, text)
	}
	if _, text := s.ask(t, "GET", "/v1/suppressions?entry=*.bad.example", ""); !strings.Contains(text, `"entry":".bad.example"`) {
		t.Errorf("shown by the API: %s", text)
	}

	if err := os.WriteFile(file, []byte("*.com\n.co.uk\nann@example.com\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := sluiceRun(t, dir, "suppression", "add", ".com"); got.code == 0 || !strings.Contains(got.stderr, "force") {
		t.Errorf("add .com: %d %s", got.code, got.stderr)
	}
	if status, text := s.ask(t, "POST", "/v1/suppressions", `{"suppressions":[{"entry":"*.com"}]}`); status != http.StatusBadRequest || !strings.Contains(text, "force") {
		t.Errorf("*.com by the API: %d %s", status, text)
	}
	if got := sluiceRun(t, dir, "suppression", "import", file); got.code != 1 || !strings.Contains(got.stdout, "3 lines: 1 added, 0 repeats, 2 lines rejected") {
		t.Errorf("import .com: %d %s%s", got.code, got.stdout, got.stderr)
	}
	if got := mustRun(t, dir, "suppression", "import", file, "--force").stdout; got != "3 lines: 2 added, 1 repeats, 0 lines rejected\n" {
		t.Errorf("import .com by force: %s", got)
	}
	if got := mustRun(t, dir, "suppression", "remove", "*.com").stdout; got != "1 removed\n" {
		t.Errorf("remove .com: %s", got)
	}
	if status, text := s.ask(t, "POST", "/v1/suppressions", `{"suppressions":[{"entry":"*.com"}],"force":true}`); status != http.StatusOK {
		t.Errorf("*.com by force: %d %s", status, text)
	}
	for _, entry := range []string{"*.com", "bad.example", "@bad.example"} { // what is checked is an address
		if got := sluiceRun(t, dir, "suppression", "check", entry); got.code == 0 {
			t.Errorf("check %s: %s", entry, got.stdout)
		}
	}
}

// What a list prints as JSON goes into another database as it was, but for what was removed.
func TestSuppressionListIsImported(t *testing.T) {
	t.Parallel()
	from, to := t.TempDir(), t.TempDir()
	for _, dir := range []string{from, to} {
		configure(t, dir, "")
		mustRun(t, dir, "migrate")
	}
	mustRun(t, from, "suppression", "add", "ann@example.com", "--reason", "hard_bounce", "--ends", "2099-01-31T00:00:00Z")
	mustRun(t, from, "suppression", "add", ".bad.example", "--app-id", "shop", "--reason", "complaint")
	mustRun(t, from, "suppression", "add", "cy@example.com", "--scope", "marketing", "--reason", "unsubscribe")
	mustRun(t, from, "suppression", "add", "dan@example.com", "--scope", "all", "--reason", "unsubscribe")
	list := func(dir string) (text string, entries []map[string]any) {
		t.Helper()
		text = mustRun(t, dir, "suppression", "list", "--json").stdout
		for line := range strings.Lines(text) {
			var e map[string]any
			if err := json.Unmarshal([]byte(line), &e); err != nil || e["source"] == nil || e["time"] == nil {
				t.Fatalf("%s: %v", line, err)
			}
			delete(e, "source")
			delete(e, "time")
			entries = append(entries, e)
		}
		return text, entries
	}
	text, want := list(from)
	if len(want) != 4 {
		t.Fatalf("listed: %s", text)
	}
	file := filepath.Join(to, "list.json")
	write(t, file, text)
	if got := mustRun(t, to, "suppression", "import", file).stdout; got != "4 lines: 4 added, 0 repeats, 0 lines rejected\n" {
		t.Errorf("import: %s", got)
	}
	if copied, got := list(to); !reflect.DeepEqual(got, want) {
		t.Errorf("imported:\n%s\nlisted:\n%s", copied, text)
	}
	mustRun(t, from, "suppression", "remove", "ann@example.com")
	write(t, file, mustRun(t, from, "suppression", "list", "--entry", "ann@example.com", "--json").stdout)
	if got := sluiceRun(t, to, "suppression", "import", file); got.code != exitFailed || !strings.Contains(got.stderr, "removed from the list") {
		t.Errorf("one that was removed: %+v", got)
	}
}

// Whatever mail can be sent to can be suppressed, by hand and by what comes back,
// and is mailed no more.
func TestOddAddressesAreSuppressed(t *testing.T) {
	t.Parallel()
	dir, receiver := t.TempDir(), startReceiver(t)
	configure(t, dir, serveFile+"sending: on\nroutes: {relay: {smtp: {url: 'smtp://"+receiver.Addr()+"', plain: true}}}\n")
	s := serveConfigured(t, dir, "SLUICE_ROOT_KEY="+testRoot)
	// As it is suppressed, and as it is mailed.
	odd := [][2]string{
		{`"a b"@example.com`, `"A b"@Example.com`}, {"root@localhost", "Root@LOCALHOST"}, {`"ann"@example.com`, "ann@example.com"}, {"bob@example.com", `"bob"@example.com`},
		{"jörg@bücher.example", "JÖRG@xn--bcher-kva.example"}, {`"a@b"@xn--bcher-kva.example`, `"A@B"@Bücher.example`},
	}
	text := func(address string) string {
		t.Helper()
		b, err := json.Marshal(address)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	message := func(address, class string) string {
		return `{"from":"shop@example.com","to":` + text(address) + `,"text":"t","class":"` + class + `"}`
	}
	var entries []string
	for _, x := range odd {
		entries = append(entries, `{"entry":`+text(x[0])+`,"reason":"manual"}`)
	}
	if status, answer := s.ask(t, http.MethodPost, "/v1/suppressions", `{"suppressions":[`+strings.Join(entries, ",")+`]}`); status != http.StatusOK || !strings.Contains(answer, fmt.Sprintf(`"changed":%d`, len(odd))) {
		t.Fatalf("%d %s", status, answer)
	}
	// By a complaint, which any provider may tell of.
	if status, answer := s.ask(t, http.MethodPost, "/v1/events", `{"event":"complained","email":"\"Dan D\"@localhost"}`); status != http.StatusAccepted {
		t.Fatalf("%d %s", status, answer)
	}
	odd = append(odd, [2]string{"", `"dan d"@localhost`})
	await(t, "all are known to be suppressed", func() bool {
		var all []string
		for _, x := range odd {
			all = append(all, text(x[1]))
		}
		_, answer := s.ask(t, http.MethodPost, "/v1/suppressions/check", `{"addresses":[`+strings.Join(all, ",")+`]}`)
		return strings.Count(answer, `"suppressed":true`) == len(odd)
	})
	for _, x := range odd {
		s.mailed(t, message(x[1], "transactional"))
	}
	s.mailed(t, message(`"eve e"@localhost`, "marketing"))
	await(t, "only who is not suppressed is mailed", func() bool {
		return strings.Join(s.texts(t, "SELECT state || ' ' || COUNT(*) FROM sends GROUP BY state ORDER BY state"), ", ") == fmt.Sprintf("sent 1, suppressed %d", len(odd))
	})
	if n := receiver.Received(); n != 1 {
		t.Errorf("%d mails arrived", n)
	}
}

// A set of bad domains is followed where it is: what is added and removed there,
// also while the program is down, and also on a server that is cut off meanwhile.
// What somebody else has suppressed stays.
func TestSuppressionSet(t *testing.T) {
	t.Parallel()
	other, do := startOther(t)
	do("SADD", "sender_bad_domains", "bad.example", "Worse.Example", "Ann@Example.com", "not an entry", "stays.example")
	for i := range 2_000 {
		do("SADD", "sender_bad_domains", fmt.Sprintf("bad-%d.example", i))
	}
	dir := t.TempDir()
	configure(t, dir, fmt.Sprintf("partitions: 4\nsuppression_sets: {sender_bad_domains: {redis: %q, subdomains: true}}\n", other.URL()))
	s := serveConfigured(t, dir, "SLUICE_ROOT_KEY="+testRoot)
	checked := func(address string, want bool) {
		t.Helper()
		await(t, fmt.Sprintf("%s is suppressed: %v", address, want), func() bool {
			status, text := s.ask(t, "POST", "/v1/suppressions/check", `{"addresses":["`+address+`"]}`, "Authorization", "Bearer "+testRoot, "Content-Type", "application/json")
			return status == 200 && strings.Contains(text, `"suppressed":true`) == want
		})
	}
	for _, address := range []string{"x@bad.example", "x@a.worse.example", "ann@example.com", "x@bad-1999.example"} {
		checked(address, true)
	}
	do("SADD", "sender_bad_domains", "new.example")
	do("SREM", "sender_bad_domains", "bad.example") // as many as before
	checked("x@sub.new.example", true)
	checked("x@bad.example", false)
	checked("x@bad-7.example", true)
	mustRun(t, dir, "suppression", "add", ".stays.example", "--reason", "bad_domain")
	do("SREM", "sender_bad_domains", "stays.example", "Worse.Example")
	checked("x@worse.example", false)
	checked("x@stays.example", true)

	do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	do("SADD", "sender_bad_domains", "cut.example")
	checked("x@cut.example", true)

	s.stop(t)
	do("SADD", "sender_bad_domains", "down.example")
	do("SREM", "sender_bad_domains", "new.example")
	do("DEL", "sluice:{sender_bad_domains}:set:sender_bad_domains:seen", "sluice:{sender_bad_domains}:set:sender_bad_domains:state") // it has forgotten what was seen
	s = serveConfigured(t, dir, "SLUICE_ROOT_KEY="+testRoot)
	checked("x@down.example", true)
	checked("x@new.example", false)
	checked("x@bad-7.example", true)
	if list := mustRun(t, dir, "suppression", "list", "--entry", ".down.example").stdout; !strings.Contains(list, "set:sender_bad_domains") {
		t.Errorf("list: %s", list)
	}
}
