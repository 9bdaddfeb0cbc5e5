package main

import (
	"database/sql"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sluice/ops/alert"
)

// hook starts a webhook's other end, which hands out what it is told.
func hook(t *testing.T) (url string, messages chan alert.Message) {
	t.Helper()
	messages = make(chan alert.Message, 10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m alert.Message
		if err := json.NewDecoder(r.Body).Decode(&m); err != nil || r.Header.Get(alert.SignatureHeader) == "" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		messages <- m
	}))
	t.Cleanup(server.Close)
	return server.URL, messages
}

// awaitTold reads messages until they have told each of some notices. A busy machine may look
// at one thing later than at another, or find more that is wrong.
func awaitTold(t *testing.T, messages chan alert.Message, wanted ...func(alert.Notice) bool) {
	t.Helper()
	var told []alert.Notice
	defer func() {
		if t.Failed() {
			t.Logf("told %+v", told)
		}
	}()
	await(t, "all is told", func() bool {
		select {
		case m := <-messages:
			told = append(told, m.Alerts...)
		default:
		}
		return !slices.ContainsFunc(wanted, func(one func(alert.Notice) bool) bool { return !slices.ContainsFunc(told, one) })
	})
}

// A program tells what is wrong with it: a dead letter, and a disk that is not
// as free as is asked for. The command tries the same way.
func TestAlerts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := startServe(t, dir)
	pushAll(t, dir, "no JSON")
	await(t, "it is a dead letter", func() bool { return s.metric(t, "sluice_dead_letters_total") == 1 })
	if code := s.stop(t); code != exitOK {
		t.Fatalf("exit code %d", code)
	}
	url, messages := hook(t)
	environ := []string{"SLUICE_ALERTS_WEBHOOK=" + url, "SLUICE_ALERTS_SECRET=0123456789abcdef", "SLUICE_ALERTS_HOLD_SECONDS=0", "SLUICE_ALERTS_DISK_FREE_PERCENT=99"}
	s = startServe(t, dir, environ...)
	awaitTold(t, messages, func(n alert.Notice) bool {
		return n.Alert == alert.DeadLetters && n.Status == alert.Firing && strings.HasPrefix(n.Summary, "1 dead letters wait")
	}, func(n alert.Notice) bool {
		return n.Alert == alert.Disk && n.Status == alert.Firing && strings.Contains(n.Summary, "less than 99 %")
	})
	var out, log buffer
	test := Main{Args: []string{"alert", "test"}, Environ: environ, Dir: t.TempDir(), Stdout: &out, Stderr: &log}
	if code := test.Run(t.Context()); code != exitOK || out.String() != "webhook: taken\n" {
		t.Errorf("alert test: %d %s %s", code, out.String(), log.String())
	}
	awaitTold(t, messages, func(n alert.Notice) bool { return n.Alert == alert.Test })
	test.Environ = nil
	if code := test.Run(t.Context()); code != exitFailed || !strings.Contains(log.String(), "set alerts.webhook") {
		t.Errorf("alert test with nobody to tell: %d %s", code, log.String())
	}
}

// Somebody is told that the ledger does not add up: a row of it was removed by
// hand.
func TestLedgerIsTold(t *testing.T) {
	dir := t.TempDir()
	s := startServe(t, dir, "SLUICE_ROOT_KEY="+testRoot)
	if status, text := s.ask(t, http.MethodPost, "/v1/messages", `{"from":"shop@example.com","to":"a@example.com","subject":"s","text":"hello"}`); status != http.StatusAccepted {
		t.Fatalf("%d %s", status, text)
	}
	bypass, err := sql.Open("sqlite", s.database()+"?_pragma=busy_timeout(30000)")
	if err != nil {
		t.Fatal(err)
	}
	defer bypass.Close()
	removed := func() int64 {
		result, err := bypass.Exec("DELETE FROM sends WHERE state = 'sent'")
		if err != nil {
			t.Fatal(err)
		}
		n, err := result.RowsAffected()
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	await(t, "it is sent, and its row is removed", func() bool { return removed() == 1 })
	s.stop(t)
	url, messages := hook(t)
	startServe(t, dir, "SLUICE_ALERTS_WEBHOOK="+url, "SLUICE_ALERTS_SECRET=0123456789abcdef", "SLUICE_ALERTS_HOLD_SECONDS=0", "SLUICE_ALERTS_DISK_FREE_PERCENT=0")
	awaitTold(t, messages, func(n alert.Notice) bool {
		return n.Alert == alert.Ledger && strings.Contains(n.Summary, "by 1 sends: transactional sent: 1 by the totals, 0 rows; ")
	})
}

// alertHeadings are the anchors of docs/alerts.md.
func alertHeadings(t *testing.T) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "alerts.md"))
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string]bool)
	for _, m := range regexp.MustCompile(`(?m)^### (alert-[a-z-]+)$`).FindAllStringSubmatch(string(text), -1) {
		found[m[1]] = true
	}
	return found
}

// Each alert of the program is explained.
func TestEveryAlertIsExplained(t *testing.T) {
	headings := alertHeadings(t)
	for _, kind := range alert.Kinds() {
		if !headings["alert-"+kind] {
			t.Errorf("docs/alerts.md has no heading alert-%s", kind)
		}
	}
	interfaces, err := os.ReadFile("../../INTERFACES.md")
	if err != nil {
		t.Fatal(err)
	}
	if list := "`alert`: "; !strings.Contains(string(interfaces), list) {
		t.Fatalf("INTERFACES.md has no line %q", list)
	} else if told, _, _ := strings.Cut(strings.SplitN(string(interfaces), list, 2)[1], "."); len(strings.Split(told, ", ")) != len(alert.Kinds()) {
		t.Errorf("INTERFACES.md lists the alerts %s; there are %v", told, alert.Kinds())
	}
}
