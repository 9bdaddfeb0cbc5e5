package api

import (
	"bufio"
	"net/http"
	"strings"
	"testing"
	"time"
)

// The stream of the overview says something each second, and ends with its key.
func TestLive(t *testing.T) {
	x := startJourneys(t)
	id, text := addKey(t, x.store, "status:read")
	began := time.Now()
	lines := x.stream(t, strings.TrimSuffix(x.url, journeysPath)+livePath, "Bearer "+text)
	for range 3 {
		if line, ok := <-lines; !ok || !strings.Contains(line, `"ready":`) {
			t.Fatalf("the stream says %q, %v", line, ok)
		}
	}
	if took := time.Since(began); took < liveEvery || took > 20*time.Second {
		t.Errorf("three looks took %s", took)
	}
	if err := x.store.RevokeKey(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	began = time.Now()
	for range lines {
	}
	if took := time.Since(began); took > 7*time.Second { // 5, and a machine that is busy
		t.Errorf("the stream of a revoked key ended after %s", took)
	}
	for range maxLives {
		x.s.lives <- struct{}{}
	}
	_, other := addKey(t, x.store, "status:read")
	callJSON(t, strings.TrimSuffix(x.url, journeysPath)+livePath, "GET", "Bearer "+other, "", 503, nil)
	for range maxLives {
		<-x.s.lives
	}
}

// stream returns the data of Server-Sent Events, closed when they end.
func (x *journeys) stream(t *testing.T, url, bearer string) <-chan string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", bearer)
	res, err := http.DefaultClient.Do(r)
	if err != nil || res.StatusCode != http.StatusOK || res.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatal(res, err)
	}
	lines := make(chan string)
	go func() { // ends with the stream
		defer close(lines)
		defer res.Body.Close()
		for s := bufio.NewScanner(res.Body); s.Scan(); {
			if data, ok := strings.CutPrefix(s.Text(), "data: "); ok {
				lines <- data
			}
		}
	}()
	return lines
}
