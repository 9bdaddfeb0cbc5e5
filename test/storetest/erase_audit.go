package storetest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"sluice"
	"sluice/store"
)

// testEraseAudit: entries of the audit log lose what names an erased user, and stay. A user
// who is called as something else is takes nothing else out. What was noted long after the
// deletion is about another user.
func testEraseAudit(t *testing.T, f *fixture) {
	accounts, keep := f.store.(store.AccountStore), f.store.(store.RetentionStore)
	now := time.UnixMilli(1_800_000_000_000)
	later := now.Add(2 * store.ErasureMarginMillis * time.Millisecond)
	const gone = "erased"
	cases := []struct{ path, detail, wantPath, wantDetail, before, after, wantBefore string }{
		{"/v1/suppressions", `{"entries":["bob@example.com","Ann@Example.com"]}`, "/v1/suppressions", gone, "", "", ""},
		{"/v1/templates/v1/test", `{"to":"x@example.com","user":"u-1"}`, "/v1/templates/v1/test", gone, "", "", ""},
		{"/v1/templates/t/test", `{"variables":{"a":"u-1"},"to":"x@example.com","body":"...`, "/v1/templates/t/test", `{"variables":{"a":"u-1"},"to":"x@example.com","body":"...`, "", "", ""},
		{"/v1/users/u-1/x?email=ann%40example.com&a=1", "", "/v1/users/erased/x?email=erased&a=1", gone, "", "", ""},
		{"/v1/sends?address=ann@example.com", "cut {\"a", "/v1/sends?address=erased", gone, "", "", ""},
		{"/v1/journeys/marketing/pause", `{"scope":"marketing","id":"v1"}`, "/v1/journeys/marketing/pause", `{"scope":"marketing","id":"v1"}`, "", "", ""},
		{"/v1/suppressions", `{"entries":["xann@example.com"],"why":"it \"is\" so"}`, "/v1/suppressions", `{"entries":["xann@example.com"],"why":"it \"is\" so"}`, "", "", ""},
		{"/v1/keys/k", "", "/v1/keys/k", gone, `{"a ann@example.com":1}`, "", ""},
		{"/v1/keys/k", "", "/v1/keys/k", gone, "", `{"to":"ann@example.com"}`, ""},
		{"/v1/keys/k", "", "/v1/keys/k", gone, `{"html":"… <p>to ann@example.com…"}`, "", ""},
		{"/v1/keys/k", "", "/v1/keys/k", gone, "", `{"html":"…ann@example.com, and so on"}`, ""},
		{"/v1/keys/k", "", "/v1/keys/k", "", `{"name":"v1"}`, "", `{"name":"v1"}`},
		{"/v1/keys/k?a&ann%40example.com", "", "/v1/keys/k?a&erased", gone, "", "", ""},
		{"/v1/keys/k", `{"html":"<a href=\"mailto:ann@example.com?subject=x\">"}`, "/v1/keys/k", gone, "", "", ""},
		{"/v1/keys/k", `{"url":"https://x.example/u/Ann@example.com/"}`, "/v1/keys/k", gone, "", "", ""},
		{"/v1/keys/k", `{"text":"hello\nann@example.com, and`, "/v1/keys/k", gone, "", "", ""},
		{"/v1/keys/k", `{"to":"o'neill@example.com"}`, "/v1/keys/k", gone, "", "", ""},
		{"/v1/keys/k", `{"to":"x.ann@example.com"}`, "/v1/keys/k", `{"to":"x.ann@example.com"}`, "", "", ""},
		{"/v1/keys/k", `{"external_id":7001}`, "/v1/keys/k", gone, "", "", ""},
		{"/v1/keys/k", `{"revision":7001}`, "/v1/keys/k", `{"revision":7001}`, "", "", ""},
		{"/v1/segments/s", `{"rule":{"in":["u-1"],"field":"external_id"}}`, "/v1/segments/s", gone, "", "", ""},
		{"/v1/segments/s", `{"rule":{"in":["u-1"],"field":"email"}}`, "/v1/segments/s", `{"rule":{"in":["u-1"],"field":"email"}}`, "", "", ""},
		{"/v1/journeys/j", "", "/v1/journeys/j", gone, `{"document":"…, \"users\": [\"a\", \"u-1\"], \"b…"}`, "", ""},
	}
	for i, c := range cases {
		e := store.AuditEntry{ID: sluice.NewUUID(now.Add(time.Duration(i) * time.Second)), TimeMillis: now.UnixMilli(), Account: "a", Name: "ann", Method: "POST", Path: c.path}
		must(t, accounts.AddAudit(f.ctx, e))
		must(t, accounts.FinishAudit(f.ctx, store.AuditEntry{ID: e.ID, Status: 200, Detail: c.detail, Before: c.before, After: c.after}))
	}
	last := store.AuditEntry{ID: sluice.NewUUID(later), TimeMillis: later.UnixMilli(), Account: "a", Name: "ann", Method: "POST", Path: "/v1/users/u-1"}
	must(t, accounts.AddAudit(f.ctx, last))
	var names []store.Erasure
	for _, name := range []string{"u-1", "v1", "marketing", "7001", store.AddressErasure("ann@example.com"), store.AddressErasure("o'neill@example.com")} {
		names = append(names, store.Erasure{Name: name, CreatedMillis: now.UnixMilli()})
	}
	for pass, wanted := range []int{16, 0} {
		n, next, err := keep.EraseAudit(f.ctx, names, "")
		must(t, err)
		want(t, fmt.Sprint("entries, pass ", pass), n, wanted)
		want(t, "the next", next, "")
	}
	all, err := accounts.Audit(f.ctx, "", 100)
	must(t, err)
	want(t, "entries", len(all), len(cases)+1)
	want(t, "one of later", all[0].Path, last.Path)
	for i, c := range cases {
		e := all[len(all)-1-i]
		if e.Path != c.wantPath || e.Detail != c.wantDetail || e.Before != c.wantBefore || e.After != "" || e.Status != 200 || e.Name != "ann" {
			t.Errorf("%s %s: %+v", c.path, c.detail, e)
		}
	}
}

// testEraseAuditPieces: what is in memory at once is bounded by bytes, whatever the entries
// have.
func testEraseAuditPieces(t *testing.T, f *fixture) {
	accounts, keep := f.store.(store.AccountStore), f.store.(store.RetentionStore)
	const entries, mostBytes = 400, 4 << 20
	now := time.UnixMilli(1_800_000_000_000)
	text, view := strings.Repeat("x", store.MaxAuditText-20), `{"a":"`+strings.Repeat("x", store.MaxAuditView-10)+`"}`
	for i := range entries {
		e := store.AuditEntry{ID: sluice.NewUUID(now.Add(time.Duration(i) * time.Second)), TimeMillis: now.UnixMilli(), Account: "a", Name: "ann", Method: "POST", Path: "/" + text}
		must(t, accounts.AddAudit(f.ctx, e))
		e.Status, e.Detail, e.Before, e.After = 200, text+" ann@example.com", view, view
		must(t, accounts.FinishAudit(f.ctx, e))
	}
	names := []store.Erasure{{Name: store.AddressErasure("ann@example.com"), CreatedMillis: now.UnixMilli()}}
	all := 0
	for after := ""; ; {
		n, next, err := keep.EraseAudit(f.ctx, names, after)
		must(t, err)
		if all += n; n*(2*len(text)+2*len(view)) > mostBytes {
			t.Errorf("%d entries were read at once", n)
		}
		if after = next; after == "" {
			break
		}
	}
	want(t, "entries", all, entries)
}
