package api

import (
	"strings"
	"testing"

	"sluice/lib/connlimit"
)

// What the audit log shows of a request is its own body, also once the memory of that
// body has another request's.
func TestAuditKeepsNoMemoryOfBodies(t *testing.T) {
	for _, tt := range []struct{ name, body, want string }{
		{"good UTF-8", `{"why":"a queue"}`, `{"why":"a queue"}`},
		{"no UTF-8", "a\xffb\x00c", "abc"},
		{"an address at the end", `{"entries":["` + strings.Repeat("x", maxAuditDetail-20) + `","ann@example.com"]}`, `{"entries":["` + strings.Repeat("x", maxAuditDetail-38) + `…","…"]}`},
		{"a long one", strings.Repeat("x", maxAuditDetail+9), strings.Repeat("x", maxAuditDetail)},
	} {
		b, err := newBuffer(connlimit.NewBudget(1<<20), maxEventsBytes)
		if err != nil {
			t.Fatal(err)
		}
		b.bytes = append(b.bytes, tt.body...)
		a := &answer{audit: "1"}
		q := &request{w: a, held: held{body: b}}
		q.noteBody()
		copy(b.bytes, strings.Repeat("s", len(b.bytes))) // what the next request does
		q.held.release()
		if a.detail != tt.want {
			t.Errorf("%s: the log has %.40q, want %.40q", tt.name, a.detail, tt.want)
		}
	}
}
