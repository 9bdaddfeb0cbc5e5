package chaos

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const httpRoot = "root-key-of-the-chaos-0123456789abcdef"

// post sends one request and returns its status, 0 if it got no answer.
func post(client *http.Client, url, body, idempotencyKey string) int {
	r, err := http.NewRequest("POST", url, strings.NewReader(body))
	if err != nil {
		panic(err)
	}
	r.Header.Set("Authorization", "Bearer "+httpRoot)
	r.Header.Set("Idempotency-Key", idempotencyKey)
	res, err := client.Do(r)
	if err != nil {
		return 0
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, res.Body)
	return res.StatusCode
}

// TestAcceptedByHTTPIsStored kills the program right after a 202, again and
// again. A program without the role store accepts, so nothing can have been
// stored before the kill; senders repeat what got no 202 until it does. In the
// end a program that stores finds every event of every request, once. Many were
// sent several times, and nearly all lack a time or an id.
func TestAcceptedByHTTPIsStored(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	file := filepath.Join(w.dir, "sluice.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, append(text, "root_key: "+httpRoot+"\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	w.roles = "intake"
	const senders, each = 8, 25
	w.start("")
	c := &clients{at: w.awaitListen(), fresh: make(chan struct{})}
	c.run(senders, func(client *http.Client, who, n int) bool {
		var body strings.Builder
		for i := range each {
			fmt.Fprintf(&body, `,{"event":"e","user_id":"u%d","message_id":"%d-%d-%d"}`, i%5, who, n, i)
		}
		name := fmt.Sprintf("%d-%d", who, n)
		return c.deliver(t, "request "+name, settleWithin, func(at string) (int, int, func()) {
			return post(client, at+"/v1/events", "["+body.String()[1:]+"]", name), 1, func() {}
		})
	})
	w.killFresh(c, 6, w.awaitListen, "SELECT COUNT(*) FROM events")
	if t.Failed() {
		return
	}
	w.roles = "store"
	w.start("")
	want := int64(c.accepted() * each)
	w.eventually("all that was accepted is stored", func() bool {
		return w.highest("SELECT COUNT(DISTINCT message_ref) FROM events") >= want
	})
	if total := w.highest("SELECT COUNT(*) FROM events"); total != want {
		t.Errorf("%d events accepted, %d rows", want, total)
	}
	t.Logf("%d requests accepted, %d answers other than 202", c.accepted(), c.repeats)
}
