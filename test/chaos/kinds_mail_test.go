package chaos

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"sluice/mail"
)

// strikeSQLCut cuts one process off from the database, lets those unsubscribe
// whose mail waits in the lanes, and lets it go. None of them may get it.
func strikeSQLCut(r *round) {
	const addresses = 40
	cut, other := r.peers[0], r.peers[1]
	r.ask(other, "/v1/sending/pause", stopMarketing, http.StatusOK)
	for _, p := range r.peers { // each looks twice a second
		r.await("every process knows that marketing mail is stopped", func() bool { return r.metric(p, "sluice_marketing_stopped") == "1" })
	}
	ids := messageIDs(r.ask(other, "/v1/messages", mails("leaver", addresses, ""), http.StatusAccepted))
	const inLedger = "SELECT COUNT(*) FROM sends WHERE to_address LIKE 'leaver%'"
	r.await("their mail is in the ledger", func() bool { return r.number(inLedger) == addresses })
	cut.base.Refuse(true)
	cut.base.Cut()
	var leave strings.Builder
	for i := range addresses {
		fmt.Fprintf(&leave, `,{"event":"unsubscribed","kind":"mail","email":"leaver%d@example.net"}`, i)
	}
	r.ask(other, "/v1/events", "["+leave.String()[1:]+"]", http.StatusAccepted)
	// Those whose partition the cut process stores wait until another takes it.
	r.await("the database knows who has left", func() bool {
		return r.number("SELECT COUNT(*) FROM suppressions WHERE entry LIKE 'leaver%'") == addresses
	})
	pause(r.ctx, staleAfter)
	r.ask(other, "/v1/sending/resume", stopMarketing, http.StatusOK)
	r.rest(2*time.Second, 4*time.Second)
	cut.base.Refuse(false)
	r.checks = append(r.checks, func() {
		for _, id := range ids {
			if n := r.relay.Counts()["<"+id+"@example.com>"]; n > 0 {
				r.t.Errorf("mail %s left %d times, though who should get it has unsubscribed %s before", id, n, staleAfter)
			}
		}
	})
}

// staleAfter is the age at which a list of suppressions is too old for
// marketing mail, and a little more.
const staleAfter = 6 * time.Second

// strikeHuge sends requests at the bounds of what is allowed. Each one that is
// accepted must be carried out, and all else must go on.
func strikeHuge(r *round) {
	// All in one partition: the most that one commit can be asked for.
	recipients := func(n int) string {
		var b strings.Builder
		for i := 0; n > 0; i++ {
			if address := fmt.Sprintf("huge%d@example.net", i); mail.SendPartition(address, roundPartitions) == 0 {
				fmt.Fprintf(&b, ",%q", address)
				n--
			}
		}
		return "[" + b.String()[1:] + "]"
	}
	message := func(n int, text string) string {
		return fmt.Sprintf(`{"from":"shop@example.com","to":%s,"subject":"order","text":%q,"class":"transactional","metadata":{"a":%q}}`,
			recipients(n), text, strings.Repeat("x", mail.MaxMetadataBytes-8))
	}
	// Metadata travels inside each send, and a text of 3,000 bytes did.
	four := message(300, strings.Repeat("hello you ", 300))
	bodies := []string{
		"[" + strings.Join([]string{four, four, four, four}, ",") + "]",
		"[" + message(1000, strings.Repeat("hello you ", 300)) + "]",
		"[" + message(1, strings.Repeat("large ", 1<<19)) + "]",
	}
	// Sends that are in, and that may be besides.
	want, unsure := 0, 0
	for i, key := range []string{"", "huge"} { // in parts of its own, or all at once
		body := bodies[0]
		if i == 0 {
			body = bodies[r.random.IntN(len(bodies))]
		}
		client := &http.Client{Timeout: 60 * time.Second}
		status, text := 0, []byte(nil)
		r.awaitOr("a huge request is answered", func() bool {
			status, text = request(r.ctx, client, r.peers[0].at+"/v1/messages", body, key)
			later := status == 0 || status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests
			unknown := status == 0 || strings.Contains(string(text), "a part of this request may be in")
			if later && unknown && key == "" { // it comes again
				unsure += strings.Count(body, "@example.net")
			}
			return !later
		}, func() string { return fmt.Sprintf("It is answered %d: %.300s", status, text) })
		client.CloseIdleConnections()
		var answer struct{ Messages []struct{ Recipients int } }
		_ = json.Unmarshal(text, &answer)
		for _, m := range answer.Messages {
			want += m.Recipients
		}
		if status != http.StatusAccepted && (status < 400 || status >= 500) {
			r.t.Errorf("a request of %d bytes is answered %d: %.300s", len(body), status, text)
		}
		r.t.Logf("a request of %d bytes is answered %d", len(body), status)
	}
	r.rest(time.Second, 2*time.Second)
	r.checks = append(r.checks, func() {
		if n := r.number("SELECT COUNT(*) FROM sends WHERE to_address LIKE 'huge%'"); n < int64(want) || n > int64(want+unsure) {
			r.t.Errorf("%d sends of huge requests were accepted, the ledger has %d", want, n)
		}
		if n := r.number("SELECT COUNT(*) FROM sends WHERE to_address LIKE 'huge%' AND state <> 'sent'"); n != 0 {
			r.t.Errorf("%d sends of huge requests have not been sent", n)
		}
	})
}

// strikeClock sets the clock of a process wrong by a week while mail for a time
// waits, and mail that is due comes. Nothing leaves before its time, nothing is said
// to be too late, and what is due leaves.
func strikeClock(r *round) {
	const waiting = 20
	p := r.peers[r.random.IntN(len(r.peers))]
	by := []string{"168h", "-168h"}[r.random.IntN(2)]
	r.t.Logf("a process is %s ahead", by)
	p.kill()
	r.start(p, "clock=ahead:"+by)
	later := fmt.Sprintf(`,"send_at":%q`, time.Now().Add(24*time.Hour).UTC().Format(time.RFC3339))
	for i, at := range []*peer{r.peers[r.random.IntN(len(r.peers))], p} {
		r.ask(at, "/v1/messages", mails(fmt.Sprintf("later%d-", i), waiting, later), http.StatusAccepted)
	}
	const inLedger = "SELECT COUNT(*) FROM sends WHERE to_address LIKE 'later%'"
	r.await("mail for tomorrow is in the ledger", func() bool { return r.number(inLedger) == 2*waiting })
	r.load.progress()
	r.rest(2*time.Second, 4*time.Second)
	r.load.progress()
	p.kill()
	r.start(p, "")
	r.checks = append(r.checks, func() {
		if n := r.number(inLedger + " AND state = 'waiting'"); n != 2*waiting {
			r.t.Errorf("%d of %d mails for tomorrow wait", n, 2*waiting)
		}
	})
}
