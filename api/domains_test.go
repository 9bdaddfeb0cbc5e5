package api

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"sluice/lib/doctor"
	"sluice/mail/domain"
	"sluice/store/sqlstore"
)

// looker finds one thing wrong with each domain, when it may.
type looker struct{ may chan struct{} }

func (l looker) Refresh(_ context.Context, name string) domain.Result {
	<-l.may
	e := doctor.Examination{Where: name}
	e.Fine(doctor.CheckDomainMX, "fine")
	e.Fail(doctor.CheckDomainSPF, "mend it", "broken")
	return domain.Result{Domain: name, CheckedMillis: 1_700_000_000_123, Findings: e.Findings}
}

// A look answers with what was found, and the name is made one of DNS. Only
// some are made at a time, and only for keys that may.
func TestDomains(t *testing.T) {
	s, url, p, _ := startBraze(t, Options{})
	l := looker{make(chan struct{}, 1)}
	p.domains = l
	store := p.keys.(*sqlstore.Store)
	_, text := addKey(t, store, "domains:read")
	get := func(path, key string) called {
		return callBraze(t, url+"/v1/domains/"+path, http.MethodGet, "Bearer "+key, "")
	}
	l.may <- struct{}{}
	if got := get("B%C3%BCcher.Example", text); got.status != 200 || strings.TrimSpace(got.body) != `{"domain":"xn--bcher-kva.example","checked":"2023-11-14T22:13:20.123Z","summary":{"errors":1,"warnings":0,"ok":1,"unknown":0},"findings":[`+
		`{"check":"domain-mx","severity":"ok","where":"xn--bcher-kva.example","found":"fine"},{"check":"domain-spf","severity":"error","where":"xn--bcher-kva.example","found":"broken","remedy":"mend it"}]}` {
		t.Errorf("%d %s", got.status, got.body)
	}
	for _, name := range []string{"example", "a%40example.com", "a..example", "exa%20mple.com", strings.Repeat("a.", 200) + "example"} {
		if got := get(name, text); got.status != 400 {
			t.Errorf("%s: %d %s", name, got.status, got.body)
		}
	}
	_, other := addKey(t, store, "templates:read")
	if got := get("example.com", other); got.status != 403 {
		t.Errorf("without the permission: %d", got.status)
	}
	for range parallelDomains {
		s.domainSlots <- struct{}{}
	}
	if got := get("example.com", text); got.status != 503 || got.header.Get("Retry-After") == "" {
		t.Errorf("too many: %d %s", got.status, got.body)
	}
}
