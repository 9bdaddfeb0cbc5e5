package api

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"sluice"
	"sluice/ingest"
	"sluice/lib/key"
	"sluice/lib/outbound"
	"sluice/store/sqlstore"
	"sluice/track/webhook"
	"sluice/user/consent"
)

// Paths that the walk below leaves out: those who sign in or are no account have no entry,
// and a piece of an import is part of a change that has one.
var auditLeftOut = []string{sessionPath, setupPath, optInPath, consent.ConfirmPath, consent.UnsubscribePath, hookPath, importPath + "/pieces"}

// auditWithout are the calls that change something and read no body.
var auditWithout = []string{"publish", "pause", "stop", "archive", "resume", "copy", "finish", "undo", "rotate", "test", "replay"}

// Of every change that a session can make the audit log has what was sent, without keys.
func TestAuditHasWhatWasSent(t *testing.T) {
	s, url, p, _ := startBraze(t, Options{})
	db := p.keys.(*sqlstore.Store)
	secrets := func(context.Context) (*webhook.Secrets, error) { return &webhook.Secrets{Root: []byte("root")}, nil }
	p.webhooks = &webhook.Service{Store: db, Guard: &outbound.Guard{}, Secrets: secrets, Follower: "store", Clock: sluice.SystemClock{}}
	p.groups, p.submitter, p.intake = db, &submitted{}, &ingest.Intake{Clock: sluice.SystemClock{}, Stats: &ingest.Stats{}}
	header := signIn(t, url, db, key.Owner)
	send := func(method, path, body string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, url+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
	}
	newest := func() (id, detail string) {
		t.Helper()
		all, err := db.Audit(t.Context(), "", 1)
		if err != nil {
			t.Fatal(err)
		}
		if len(all) == 0 {
			return "", ""
		}
		return all[0].ID, all[0].Detail
	}
	walked := 0
	for i, r := range s.routes() {
		if r.method == http.MethodGet || slices.Contains(auditLeftOut, r.path) {
			continue
		}
		mark := "mark-" + strconv.Itoa(i)
		path := r.path
		for strings.Contains(path, "{") {
			from, to := strings.IndexByte(path, '{'), strings.IndexByte(path, '}')
			path = path[:from] + "x" + path[to+1:]
		}
		if r.method == http.MethodPut && r.path == journeyPath {
			path += "?revision=0"
		}
		before, _ := newest()
		send(r.method, path, `{"mark":"`+mark+`","api_key":"secret-`+mark+`"}`)
		entry, detail := newest()
		if entry == before {
			continue // it only reads
		}
		walked++
		last := path[strings.LastIndexByte(path, '/')+1:]
		bodyless := r.method == http.MethodDelete || strings.HasPrefix(path, "/v1/") && slices.Contains(auditWithout, last)
		if !strings.Contains(detail, mark) && detail != sentRefused && !bodyless {
			t.Errorf("%s %s: the log has %q, want what was sent", r.method, path, detail)
		}
	}
	if walked < 60 {
		t.Errorf("%d changes have an entry", walked)
	}
	for _, x := range []struct{ path, body, want string }{
		{"/v1/events", `{"event":"x","user":{"external_id":"u"}}`, `{"event":"x","user":{"external_id":"u"}}`},
		{"/v1/events", "{\"event\":1}\n{\"event\":2}\n", `[{"event":1},{"event":2}]`},
		{"/v1/events", `[{"event":1},{"event":{}]`, sentRefused},
		{"/v1/messages", `[{"to":"ann@example.com"},{"to":"bob@example.com"}]`, `[{"to":"ann@example.com"},{"to":"bob@example.com"}]`},
		{"/users/track", `{"api_key":"secret","attributes":[{"external_id":"u","a":1}]}`, `{"attributes":[{"external_id":"u","a":1}]}`},
		{"/users/track", `{"attributes":[`, sentRefused},
		{"/users/track", `{"attributes":[` + strings.Repeat(`{"external_id":"u"},`, 5000) + `{}]}`, ""},
	} {
		send(http.MethodPost, x.path, x.body)
		_, detail := newest()
		if x.want != "" && detail != x.want || len(detail) > maxAuditDetail || strings.Contains(detail, "secret") || detail == "" {
			t.Errorf("%s %.80s: the log has %.200s, want %s", x.path, x.body, detail, x.want)
		}
	}
}
