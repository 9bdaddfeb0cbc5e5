package chaos

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/test/sink"
)

// TestRandomKillsWhileSending kills the program, Redis and the database while
// mail comes by HTTP and goes out by SMTP. The relay cuts connections at every
// step. A request that got no 202 is repeated with its Idempotency-Key until it
// does. Afterwards every mail has been taken by the relay, once, but for those
// that the ledger has as refused or in doubt. Transactional ones that were in
// doubt may have been taken twice. The ledger adds up.
func TestRandomKillsWhileSending(t *testing.T) {
	t.Parallel()
	bases := []string{onMariaDB}
	if *kills >= manyKills {
		bases = append(bases, onPostgres)
	}
	for _, base := range bases {
		t.Run(base, func(t *testing.T) {
			random := seeded(t)
			w := newWorldOn(t, base)
			relay, err := sink.Start(sink.Options{Fault: unsteady(random.Uint64())})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = relay.Close() })
			w.writeConfig(fmt.Sprintf("root_key: %s\nsending: \"on\"\nin_doubt_seconds: 5\nroutes:\n  relay: {smtp: {url: 'smtp://%s', plain: true, connections: 4, window: 8}}\n", httpRoot, relay.Addr()))
			w.start("")
			m := &mailers{clients: clients{at: w.awaitListen()}, class: make(map[string]string)}
			m.start(t)
			done := w.killBeside(random, *kills, &m.clients)
			w.eventually("enough is accepted to show something", func() bool { return m.accepted() >= leastMessages })
			m.finish()
			w.checkSent(m, relay)
			t.Logf("%d kills, %d messages accepted, %d requests repeated", done, m.accepted(), m.repeats)
		})
	}
}

// unsteady cuts a connection now and then, and refuses a recipient.
func unsteady(seed uint64) func(sink.At) sink.Act {
	var mu sync.Mutex
	random := rand.New(rand.NewPCG(seed, 2))
	return func(at sink.At) sink.Act {
		mu.Lock()
		defer mu.Unlock()
		n := random.IntN(1000)
		switch {
		case at.Step == sink.OnRcpt && n < 5:
			return sink.Act{Reply: "550 5.1.1 nobody is there"}
		case at.Step == sink.OnBody && n < 5:
			return sink.Act{Cut: sink.Unacted, Octets: 100}
		case (at.Step == sink.OnMail || at.Step == sink.OnRcpt || at.Step == sink.OnEnd) && n < 10:
			return sink.Act{Cut: []sink.Cut{sink.Unacted, sink.Unsaid, sink.Midreply}[n%3]}
		}
		return sink.Act{}
	}
}

const (
	manyKills = 100 // the long suite, on two databases

	leastMessages = 500
	mailersAtOnce = 4
	messagesEach  = 5
	handInEvery   = 50 * time.Millisecond // each; what piles up is sent after the last kill
)

// mailers hand in messages, and know which were accepted.
type mailers struct {
	clients
	class map[string]string // of accepted messages, by id
}

func (m *mailers) start(t *testing.T) {
	m.run(mailersAtOnce, func(client *http.Client, who, n int) bool {
		pause(t.Context(), handInEvery)
		return m.hand(t, client, who, n)
	})
}

// hand hands in a request until it is accepted, and reports whether to go on.
func (m *mailers) hand(t *testing.T, client *http.Client, who, n int) bool {
	var messages, classes []string
	for i := range messagesEach {
		class := []string{"marketing", "transactional"}[(n+i)%2]
		text := strings.Repeat("hello ", 10+(i%2)*1500) // some are kept in the database
		messages = append(messages, fmt.Sprintf(`{"from":"shop@example.com","to":"u%d-%d-%d@example.net","subject":"order","text":"%s","class":"%s","priority":"%s"}`,
			who, n, i, text, class, []string{"high", "normal", "low"}[i%3]))
		classes = append(classes, class)
	}
	return m.deliver(t, "a request of messages", 3*settleWithin, func(at string) (int, int, func()) {
		ids, status := postMessages(client, at, "["+strings.Join(messages, ",")+"]", fmt.Sprintf("m-%d-%d", who, n))
		if len(ids) != messagesEach {
			ids = nil
		}
		return status, len(ids), func() {
			for i, id := range ids {
				m.class[id] = classes[i]
			}
		}
	})
}

// postMessages returns the ids of what was accepted, and the status; 0: there was
// none.
func postMessages(client *http.Client, at, body, idempotencyKey string) (ids []string, status int) {
	r, err := http.NewRequest("POST", at+"/v1/messages", strings.NewReader(body))
	if err != nil {
		panic(err)
	}
	r.Header.Set("Authorization", "Bearer "+httpRoot)
	r.Header.Set("Idempotency-Key", idempotencyKey)
	res, err := client.Do(r)
	if err != nil {
		return nil, 0
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, 0
	}
	var answer struct {
		Messages []struct{ ID string }
	}
	if json.Unmarshal(text, &answer) == nil {
		for _, m := range answer.Messages {
			ids = append(ids, m.ID)
		}
	}
	return ids, res.StatusCode
}

// checkSent waits until nothing waits, and compares what was accepted with the
// ledger and with what the relay has taken.
func (w *world) checkSent(m *mailers, relay *sink.Sink) {
	w.t.Helper()
	const rows = "SELECT COUNT(*) FROM sends"
	const open = "SELECT COUNT(*) FROM sends WHERE state = 'waiting' OR due IS NOT NULL"
	w.eventually("all is in the ledger and decided", func() bool { return w.highest(rows) >= int64(len(m.class)) && w.highest(open) == 0 })
	if n := w.highest(rows); n != int64(len(m.class)) {
		w.t.Errorf("%d messages were accepted, the ledger has %d sends", len(m.class), n)
	}
	taken := relay.Counts()
	states := make(map[string]int)
	found, err := w.db.QueryContext(w.t.Context(), "SELECT message, state, life FROM sends")
	if err != nil {
		w.t.Fatal(err)
	}
	defer found.Close()
	for found.Next() {
		var id, state, life string
		if err := found.Scan(&id, &state, &life); err != nil {
			w.t.Fatal(err)
		}
		states[state]++
		n, class := taken["<"+id+"@example.com>"], m.class[id]
		doubted := strings.Contains(life, `"in_doubt"`)
		switch {
		case class == "":
			w.t.Errorf("the ledger has %s, which was not handed in", id)
		case n > 2, n == 2 && (class == "marketing" || !doubted):
			w.t.Errorf("%s mail %s was taken %d times:\n%s", class, id, n, life)
		case state == "sent" && n == 0, state == "failed" && n > 0, state != "sent" && state != "failed" && state != "in_doubt":
			w.t.Errorf("%s mail %s is %s and was taken %d times:\n%s", class, id, state, n, life)
		}
	}
	if err := found.Err(); err != nil {
		w.t.Fatal(err)
	}
	for state, n := range states {
		if added := w.highest("SELECT SUM(count) FROM send_totals WHERE state = '" + state + "'"); added != int64(n) {
			w.t.Errorf("%d sends are %s, the totals say %d", n, state, added)
		}
	}
	if added := w.highest("SELECT SUM(count) FROM reactions WHERE kind = 'sent'"); added != int64(states["sent"]) {
		w.t.Errorf("%d sends are sent, %d are counted", states["sent"], added)
	}
	// Mail in doubt keeps its content, until an operator decides.
	if left := w.highest("SELECT COUNT(*) FROM bodies WHERE message NOT IN (SELECT message FROM sends WHERE state = 'in_doubt')"); left != 0 {
		w.t.Errorf("%d contents are left", left)
	}
	if n := w.highest("SELECT COUNT(*) FROM dead_letters"); n != 0 {
		w.t.Errorf("%d dead letters, want none", n)
	}
	w.t.Logf("sends: %v; the relay took %d", states, relay.Received())
	if states["sent"] == 0 || states["in_doubt"] == 0 {
		w.t.Error("nothing was sent, or nothing in doubt: this test shows little")
	}
}
