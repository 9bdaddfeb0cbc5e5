package chaos

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

const httpRoot = "root-key-of-the-chaos-0123456789abcdef"

var httpListening = regexp.MustCompile(`listen=(127\.0\.0\.1:\d+)`)

// awaitListen returns where the newest of the world's programs listens.
func (w *world) awaitListen() string {
	w.t.Helper()
	var at string
	w.eventually("the program listens", func() bool {
		w.mu.Lock()
		file := w.programs[len(w.programs)-1].cmd.Stderr.(*os.File).Name()
		w.mu.Unlock()
		text, err := os.ReadFile(file)
		if err != nil {
			return false
		}
		found := httpListening.FindSubmatch(text)
		if found != nil {
			at = "http://" + string(found[1])
		}
		return found != nil
	})
	return at
}

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
// end a program that stores finds every event of every request, once, although
// many were sent several times and nearly all lack a time or an id.
func TestAcceptedByHTTPIsStored(t *testing.T) {
	w := newWorld(t)
	file := filepath.Join(w.dir, "sluice.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, append(text, "root_key: "+httpRoot+"\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SLUICE_ROLES", "intake")
	const rounds, senders, each = 6, 8, 25
	var mu sync.Mutex
	url, stop := "", false
	fresh := make(chan struct{}) // somebody has just got a 202
	accepted, repeats := 0, 0    // requests; answers other than 202
	deliver := func(client *http.Client, body, name string) bool {
		for {
			mu.Lock()
			at, end := url, stop
			mu.Unlock()
			status := post(client, at+"/v1/events", body, name)
			mu.Lock()
			if status == http.StatusAccepted {
				accepted++
				mu.Unlock()
				select {
				case fresh <- struct{}{}:
				default:
				}
				return true
			}
			repeats++
			mu.Unlock()
			if status != 0 && status != http.StatusServiceUnavailable {
				t.Errorf("request %s: %d", name, status)
				return false
			}
			if end {
				return false
			}
			pause(t.Context(), 5*time.Millisecond)
		}
	}
	p := w.start("")
	url = w.awaitListen()
	var sending sync.WaitGroup
	for s := range senders {
		sending.Go(func() {
			client := &http.Client{Transport: &http.Transport{}}
			defer client.CloseIdleConnections()
			for n := 0; ; n++ {
				var body strings.Builder
				for i := range each {
					fmt.Fprintf(&body, `,{"event":"e","user_id":"u%d","message_id":"%d-%d-%d"}`, i%5, s, n, i)
				}
				ok := deliver(client, "["+body.String()[1:]+"]", fmt.Sprintf("%d-%d", s, n))
				mu.Lock()
				end := stop
				mu.Unlock()
				if !ok || end {
					return
				}
			}
		})
	}
	count := func() int { mu.Lock(); defer mu.Unlock(); return accepted }
	for range rounds {
		before := count()
		w.eventually("some requests are accepted", func() bool { return count() >= before+20 })
		<-fresh
		p.kill() // whoever got a 202 an instant ago has it
		if n := w.highest("SELECT COUNT(*) FROM events"); n > 0 {
			t.Fatalf("%d events are stored already: this test shows nothing", n)
		}
		p = w.start("")
		next := w.awaitListen()
		mu.Lock()
		url = next
		mu.Unlock()
	}
	before := count()
	w.eventually("the last program accepts", func() bool { return count() >= before+senders })
	mu.Lock()
	stop = true
	mu.Unlock()
	sending.Wait()
	p.kill()
	if t.Failed() {
		return
	}
	if repeats == 0 {
		t.Error("no request was repeated: this test shows little")
	}
	t.Setenv("SLUICE_ROLES", "store")
	w.start("")
	want := int64(accepted * each)
	w.eventually("all that was accepted is stored", func() bool {
		return w.highest("SELECT COUNT(DISTINCT message_ref) FROM events") >= want
	})
	if total := w.highest("SELECT COUNT(*) FROM events"); total != want {
		t.Errorf("%d events accepted, %d rows", want, total)
	}
	t.Logf("%d requests accepted, %d answers other than 202", accepted, repeats)
}
