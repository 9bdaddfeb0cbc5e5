package main

import (
	"net/http"
	"strings"
	"testing"
)

// A deleted user gets no waiting mail, and the ledger has neither the name nor the
// address of the user. What it counts stays.
func TestDeletedUserGetsNoMail(t *testing.T) {
	t.Parallel()
	s := startServe(t, t.TempDir(), "SLUICE_ROOT_KEY="+testRoot)
	s.sent(t, 201, "/users/track", `{"attributes":[{"external_id":"gone","email":"ann@example.com"},{"external_id":"stays","email":"bob@example.com"}]}`)
	await(t, "both are there", func() bool { return len(s.texts(t, "SELECT part FROM user_addresses")) == 2 })
	large := `,"subject":"s","send_at":"2027-06-01T00:00:00Z","metadata":{"who":"ann"},"text":"` + strings.Repeat("many words ", 1000) + `"`
	byAddress := s.mails(t, "marketing", "Ann@example.com", large)
	status, text := s.ask(t, http.MethodPost, "/v1/messages", `{"from":"shop@example.com","to":[{"email":"other@example.com","user_id":"gone"},{"email":"bob@example.com","user_id":"stays"}]`+large+`}`)
	if status != http.StatusAccepted {
		t.Fatalf("%d %s", status, text)
	}
	s.became(t, s.mails(t, "transactional", "ann@example.com", plainMail), "sent")
	await(t, "all are in the ledger", func() bool {
		return strings.Join(s.texts(t, "SELECT COUNT(*) FROM sends"), "") == "4" && strings.Join(s.texts(t, "SELECT COUNT(*) FROM bodies"), "") == "2"
	})
	s.sent(t, 201, "/users/delete", `{"external_ids":["gone"]}`)
	s.became(t, byAddress, "cancelled")
	await(t, "the user is in no send", func() bool {
		return strings.Join(s.texts(t, "SELECT to_address || ' ' || user_ref || ' ' || state FROM sends ORDER BY to_address, state"), "; ") ==
			"  cancelled;   cancelled;   sent; bob@example.com stays waiting"
	})
	if got := strings.Join(s.texts(t, "SELECT metadata FROM sends WHERE to_address = ''"), ""); got != "" {
		t.Errorf("left is %s", got)
	}
	if got := strings.Join(s.texts(t, "SELECT COUNT(*) FROM bodies"), ""); got != "1" {
		t.Errorf("%s contents are left, one is needed", got)
	}
	if got := strings.Join(s.texts(t, "SELECT state || ' ' || SUM(count) FROM send_totals GROUP BY state HAVING SUM(count) > 0 ORDER BY state"), "; "); got != "cancelled 2; sent 1; waiting 1" {
		t.Errorf("the totals: %s", got)
	}
	if n := s.metric(t, "sluice_dead_letters_total"); n != 0 {
		t.Errorf("%d dead letters", n)
	}
}
