package land

import (
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

// Twice as many connections as there may be say nothing: who asks is answered, and the
// listener holds no more than its bound.
func TestConnectionsThatSayNothing(t *testing.T) {
	k := newKit(t)
	if err := k.Start(t.Context(), "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = k.Stop(t.Context()) })
	silent := make([]net.Conn, 0, 2*maxConns)
	t.Cleanup(func() {
		for _, c := range silent {
			_ = c.Close()
		}
	})
	for range cap(silent) {
		c, err := net.Dial("tcp", k.Address())
		if err != nil {
			t.Fatal(err)
		}
		silent = append(silent, c)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+k.Address()+k.pixel(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if n, err := io.Copy(io.Discard, res.Body); err != nil || n != 43 || res.StatusCode != 200 {
		t.Errorf("%s, %d bytes, %v", res.Status, n, err)
	}
	closed := 0
	for _, c := range silent[:maxConns] { // the oldest have made room
		if err := c.SetReadDeadline(time.Now().Add(3 * time.Minute)); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Read(make([]byte, 1)); err != nil {
			if timeout, ok := err.(net.Error); !ok || !timeout.Timeout() {
				closed++
			}
		}
	}
	if closed != maxConns {
		t.Errorf("%d of the %d oldest connections have made room", closed, maxConns)
	}
}
