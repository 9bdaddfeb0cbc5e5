package api

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sluice"
	"sluice/mail"
	"sluice/mail/spool"
	"sluice/store/sqlstore"
	"sluice/test/clocktest"
)

// books is a ledger that a test writes; how one is counted is tested in sqlstore.
type books struct {
	mail.LedgerStore
	check mail.LedgerCheck
	rows  []mail.SendRow
	looks atomic.Int64
}

func (b *books) CheckLedger(context.Context) (mail.LedgerCheck, error) {
	b.looks.Add(1)
	return b.check, nil
}
func (b *books) OpenDoubts(context.Context) (int64, error)       { return int64(len(b.rows)), nil }
func (b *books) CountDeadLetters(context.Context) (int64, error) { return 4, nil }

func (b *books) InDoubt(_ context.Context, message string, number, limit int) (page []mail.SendRow, _ error) {
	for _, r := range b.rows {
		if (r.Message > message || r.Message == message && r.Number > number) && len(page) < limit {
			page = append(page, r)
		}
	}
	return page, nil
}

// decisions notes what was decided.
type decisions struct {
	rows []mail.SendRow
	seen []string
}

func (d *decisions) Decide(_ context.Context, send string, what spool.Decision, by, note string) (mail.SendRow, bool, error) {
	if send != doubtful(0).Message+".0" {
		return mail.SendRow{}, false, refusal(sluice.CodeNotFound, "there is no send %s", send)
	}
	d.seen = append(d.seen, fmt.Sprintf("%s %s by %s: %s", send, what, by, note))
	row := d.rows[0]
	row.State = mail.SendSent
	return row, true, nil
}

// doubtful is a send in doubt.
func doubtful(n int) mail.SendRow {
	return mail.SendRow{
		Message: fmt.Sprintf("%032x", 0x19aa5c07a000+n), State: mail.SendInDoubt, Priority: mail.PriorityNormal, Class: mail.ClassMarketing,
		From: "shop@example.com", To: fmt.Sprintf("<u%d>@example.com", n), Route: "relay", Attempts: 1, AcceptedMillis: 1_760_000_000_000, UpdatedMillis: 1_760_000_001_000,
		Life: `{"at":1760000001000,"was":"waiting","state":"in_doubt","attempt":1,"route":"relay","reply":"read: <script>"}` + "\n",
	}
}

// accounts is a server with a ledger that adds up.
func accounts(t *testing.T) (url string, b *books, d *decisions, clock *clocktest.Clock, keyOf func(permissions ...string) string) {
	t.Helper()
	clock = clocktest.At(time.UnixMilli(1_760_000_100_000))
	s, url, p, _ := startBraze(t, Options{Clock: clock})
	t.Cleanup(func() { _ = s.Stop(context.Background()) })
	b = &books{check: mail.LedgerCheck{Complete: true,
		Sums: []mail.LedgerSum{
			{Class: mail.ClassMarketing, State: mail.SendInDoubt, Total: 3, Rows: 3},
			{Class: mail.ClassMarketing, State: mail.SendSent, Total: 9, Removed: 2, Rows: 7},
			{Class: mail.ClassTransactional, State: mail.SendWaiting, Total: 1, Rows: 1},
		},
		Days: []mail.LedgerDay{{Day: 20370, Class: mail.ClassMarketing, State: mail.SendSent, Rows: 7}, {Day: 20369, Class: mail.ClassMarketing, State: mail.SendInDoubt, Rows: 3}},
	}, rows: []mail.SendRow{doubtful(0), doubtful(1), doubtful(2)}}
	d = &decisions{rows: b.rows}
	p.ledger, p.decider = b, d
	return url, b, d, clock, func(permissions ...string) string {
		_, text := addKey(t, p.keys.(*sqlstore.Store), permissions...)
		return text
	}
}

// The ledger says whether it adds up, in words and figures, and since when it has
// not.
func TestLedger(t *testing.T) {
	url, b, _, clock, keyOf := accounts(t)
	reader := "Bearer " + keyOf("ledger:read")
	look := func() (l Ledger) {
		t.Helper()
		callJSON(t, url+ledgerPath, http.MethodGet, reader, "", 200, &l)
		return l
	}
	l := look()
	if !l.AddsUp || !l.Compared || l.OffBy != 0 || l.Undecided != 3 || l.DeadLetters != 4 || len(l.Differences) != 0 ||
		l.Statement != "The ledger adds up: 13 accepted, 1 waiting + 9 sent + 0 failed + 0 suppressed + 3 in doubt + 0 cancelled" {
		t.Errorf("%+v", l)
	}
	if len(l.Days) != 2 || l.Days[0] != (LedgerLine{Day: "2025-10-09", Class: "marketing", Accepted: 7, Sent: 7}) {
		t.Errorf("days %+v", l.Days)
	}
	b.check.Sums[1].Rows = 5 // two rows were removed by hand
	if l = look(); !l.AddsUp || b.looks.Load() != 1 {
		t.Errorf("looked %d times at once: %+v", b.looks.Load(), l)
	}
	clock.Move(ledgerKept)
	if l = look(); l.AddsUp || l.OffBy != 2 || len(l.Differences) != 1 || l.Differences[0] != (LedgerDifference{"marketing", "sent", 7, 5}) ||
		!strings.HasPrefix(l.Statement, "The ledger does NOT add up: by 2, it last did at 2025-10-09T08:55:00.000Z: 11 accepted") || !strings.Contains(l.Remedy, "DELETE FROM send_totals") {
		t.Errorf("%+v", l)
	}
	b.check.Complete = false
	clock.Move(ledgerKept)
	if l = look(); l.Compared || l.AddsUp || l.OffBy != 0 || l.Remedy != "" || !strings.Contains(l.Statement, "was NOT compared") || l.LastAddedUp != "2025-10-09T08:55:00.000Z" || len(l.Days) != 1 {
		t.Errorf("%+v", l)
	}
	for path, want := range map[string]int{ledgerPath + "?x=1": 400, doubtsPath + "?after=x": 400, doubtsPath + "?limit=501": 400} {
		if got := callBraze(t, url+path, http.MethodGet, reader, ""); got.status != want {
			t.Errorf("%s: %d %s", path, got.status, got.body)
		}
	}
}

// What is in doubt is listed page by page, with its evidence, for who may see it.
func TestDoubtsArePaged(t *testing.T) {
	url, b, _, _, keyOf := accounts(t)
	reader := "Bearer " + keyOf("ledger:read")
	after, seen := "", []string{}
	for {
		var page struct {
			Doubts []doubtShown
			Next   string
		}
		callJSON(t, url+doubtsPath+"?limit=2"+after, http.MethodGet, reader, "", 200, &page)
		for _, d := range page.Doubts {
			seen = append(seen, d.Send)
			if !d.Undecided || d.Class != "marketing" || len(d.Life) != 1 {
				t.Errorf("%+v", d)
			}
		}
		if page.Next == "" {
			break
		}
		after = "&after=" + page.Next
	}
	if len(seen) != len(b.rows) || seen[2] != b.rows[2].Message+".0" {
		t.Errorf("seen %v", seen)
	}
	for _, path := range []string{ledgerPath, doubtsPath, ledgerPagePath} {
		if got := callBraze(t, url+path, http.MethodGet, "Bearer "+keyOf("metrics:read", "ledger:write"), ""); got.status != 403 {
			t.Errorf("%s without the permission: %d %s", path, got.status, got.body)
		}
	}
}

// A decision needs its permission, and is taken with who has made it.
func TestDecisions(t *testing.T) {
	url, b, d, _, keyOf := accounts(t)
	path := url + doubtsPath + "/" + b.rows[0].Message + ".0"
	writer := keyOf("ledger:write")
	for body, want := range map[string]int{
		`{"decision":"maybe"}`: 400, `{}`: 400, `{"decision":"sent","note":"a\nb"}`: 400, `{"decision":"sent","note":"` + strings.Repeat("x", 201) + `"}`: 400, `{"decision":"sent","who":"me"}`: 400, `x`: 400,
	} {
		if got := callBraze(t, path, http.MethodPost, "Bearer "+writer, body); got.status != want {
			t.Errorf("%s: %d %s", body, got.status, got.body)
		}
	}
	if got := callBraze(t, path, http.MethodPost, "Bearer "+keyOf("ledger:read"), `{"decision":"sent"}`); got.status != 403 {
		t.Errorf("by a key that may only read: %d %s", got.status, got.body)
	}
	if got := callBraze(t, path, http.MethodPost, "Basic "+base64.StdEncoding.EncodeToString([]byte("x:"+writer)), `{"decision":"sent"}`); got.status != 401 {
		t.Errorf("by what a browser sends by itself: %d %s", got.status, got.body)
	}
	if len(d.seen) != 0 {
		t.Errorf("decided %v", d.seen)
	}
	got := callBraze(t, path, http.MethodPost, "Bearer "+writer, `{"decision":"sent","note":"the log has it"}`)
	if got.status != 200 || !strings.Contains(got.body, `"settled":true`) || !strings.Contains(got.body, `"undecided":false`) {
		t.Errorf("%d %s", got.status, got.body)
	}
	if len(d.seen) != 1 || !strings.HasSuffix(d.seen[0], ".0 sent by key "+strings.Split(writer, "_")[1]+" (n): the log has it") {
		t.Errorf("decided %v", d.seen)
	}
	if got := callBraze(t, url+doubtsPath+"/"+b.rows[1].Message+".0", http.MethodPost, "Bearer "+writer, `{"decision":"sent"}`); got.status != 404 {
		t.Errorf("of one that is not there: %d %s", got.status, got.body)
	}
}

// A decision of an account is one of its own, and not of a key. The log has no name,
// which may be an address of mail.
func TestAnAccountDecides(t *testing.T) {
	s, url, p, log := startBraze(t, Options{})
	d := &decisions{rows: []mail.SendRow{doubtful(0)}}
	p.ledger, p.decider = &books{}, d
	header := signIn(t, url, p.keys.(*sqlstore.Store), "editor")
	got := callBraze(t, url+doubtsPath+"/"+d.rows[0].Message+".0", http.MethodPost, "", `{"decision":"sent"}`, header...)
	if got.status != 200 || len(d.seen) != 1 || !strings.Contains(d.seen[0], " sent by account:") || !strings.HasSuffix(d.seen[0], " (ann): ") {
		t.Errorf("%d %s, decided %q", got.status, got.body, d.seen)
	}
	stop(t, s)
	if text := log.String(); !strings.Contains(text, "was decided about") || !strings.Contains(text, "by=account:") || strings.Contains(text, "(ann)") {
		t.Errorf("the log says\n%s", text)
	}
}

// The page takes a key for a password, shows what there is, and can do nothing.
func TestLedgerPage(t *testing.T) {
	url, b, _, clock, keyOf := accounts(t)
	basic := func(key string) string {
		return "Basic " + base64.StdEncoding.EncodeToString([]byte("me:"+key))
	}
	got := callBraze(t, url+ledgerPagePath, http.MethodGet, "", "")
	if got.status != 401 || !strings.HasPrefix(got.header.Get("WWW-Authenticate"), "Basic ") {
		t.Errorf("without a key: %d %v", got.status, got.header)
	}
	if got := callBraze(t, url+ledgerPagePath, http.MethodGet, basic("wrong"), ""); got.status != 401 {
		t.Errorf("with a wrong key: %d", got.status)
	}
	reader := keyOf("ledger:read")
	got = callBraze(t, url+ledgerPagePath, http.MethodGet, basic(reader), "")
	for _, want := range []string{`<p class="fine">The ledger adds up: 13 accepted`, "2025-10-09", b.rows[2].Message + ".0", "&lt;u1&gt;@example.com", "2025-10-09T08:53:21.000Z in_doubt attempt 1 by relay", "sluice doubt resolve"} {
		if !strings.Contains(got.body, want) {
			t.Errorf("the page lacks %s:\n%s", want, got.body)
		}
	}
	if policy := got.header.Get("Content-Security-Policy"); !strings.HasPrefix(policy, "default-src 'none'; style-src 'sha256-") || !strings.Contains(policy, "form-action 'none'") {
		t.Errorf("policy %s", policy)
	}
	if strings.Contains(got.body, "<script") || strings.Contains(got.body, "style=\"") || strings.Contains(got.body, "ZgotmplZ") {
		t.Errorf("the page:\n%s", got.body)
	}
	b.check.Sums[2].Rows, b.check.Complete = 0, false
	clock.Move(ledgerKept)
	got = callBraze(t, url+ledgerPagePath, http.MethodGet, basic(reader), "")
	for _, want := range []string{"<title>The ledger was NOT compared</title>", `<p class="open">The ledger was NOT compared with its rows`, "Older ones were not counted"} {
		if !strings.Contains(got.body, want) {
			t.Errorf("the page lacks %s:\n%s", want, got.body)
		}
	}
	b.check.Complete = true
	clock.Move(ledgerKept)
	got = callBraze(t, url+ledgerPagePath+"?after="+b.rows[2].Message+".0", http.MethodGet, "Bearer "+reader, "")
	for _, want := range []string{`<p class="wrong">The ledger does NOT add up: by 1, it last did at`, "stop every sluice", `<td data-is="class">transactional<td data-is="state">waiting`, "There are none behind this one"} {
		if !strings.Contains(got.body, want) {
			t.Errorf("the page lacks %s:\n%s", want, got.body)
		}
	}
	if policy := got.header.Get("Content-Security-Policy"); !strings.Contains(policy, "style-src "+styleHash(got.body)+";") {
		t.Errorf("the policy %s forbids the style of the page", policy) // a template drops comments, for example
	}
	// On a narrow screen a row is a card, and what a cell is stands beside it.
	for _, cell := range regexp.MustCompile("<td[^>]*>").FindAllString(got.body, -1) {
		if !strings.Contains(cell, `data-is="`) && !strings.Contains(cell, `class="whole"`) {
			t.Errorf("the cell %s has no name of its own", cell)
		}
	}
}
