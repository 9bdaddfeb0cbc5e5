package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// raw sends bytes to a program, as they are, and returns the statuses of all
// answers until the program closes the connection or `want` have come.
func (s *served) raw(t *testing.T, bytes string, want int) (statuses []int) {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, bytes); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(c)
	for len(statuses) < want {
		res, err := http.ReadResponse(r, nil)
		if err != nil {
			break
		}
		statuses = append(statuses, res.StatusCode)
		_, err = io.Copy(io.Discard, res.Body)
		res.Body.Close()
		if err != nil || res.Close {
			break
		}
	}
	return statuses
}

// What net/http refuses before any handler sees it is answered as all else is.
func TestRefusedHeads(t *testing.T) {
	t.Parallel()
	s := startServe(t, t.TempDir(), "SLUICE_ROOT_KEY="+testRoot)
	const host = "Host: localhost\r\n"
	for head, want := range map[string]string{
		"GET /healthz\r\n\r\n":                                                        "400 invalid no request of HTTP/1.1",
		"GET / HTTP/9.9\r\n" + host + "\r\n":                                          "505 invalid unsupported protocol version",
		"GET / HTTP/1.1\r\n\r\n":                                                      "400 invalid missing required Host header",
		"GET / HTTP/1.1\r\nHost: a b\r\n\r\n":                                         "400 invalid malformed Host header",
		"GET / HTTP/1.1\r\n" + host + "X : 1\r\n\r\n":                                 "400 invalid",
		"GET / HTTP/1.1\r\n" + host + "X: " + strings.Repeat("x", 1<<20) + "\r\n\r\n": "431 too_large larger than 16384 bytes",
		"POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: gzip\r\n\r\n":              "501 invalid Transfer-Encoding",
	} {
		res, body := s.exchange(t, head)
		var e struct {
			Message string
			Error   struct {
				Code, Message string
				RequestID     string `json:"request_id"`
			}
		}
		err := json.Unmarshal(body, &e)
		if got := fmt.Sprint(res.StatusCode, " ", e.Error.Code, " ", e.Error.Message); err != nil || !strings.HasPrefix(got, want[:len("400 invalid")]) || !strings.Contains(got, strings.TrimSpace(want[len("400 invalid"):])) && !strings.HasPrefix(want, "431") {
			t.Errorf("%.60q: %s, %v; want %s", head, body, err, want)
		}
		if id := res.Header.Get("X-Request-Id"); e.Error.RequestID != id || id == "" || e.Message != e.Error.Message || !res.Close || res.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%.60q: %v %+v", head, res.Header, e)
		}
	}
}

// A client that sends all of a body before it reads gets the 413 for it.
func TestBodiesBeyondTheBound(t *testing.T) {
	t.Parallel()
	s := startServe(t, t.TempDir(), "SLUICE_ROOT_KEY="+testRoot)
	const size = 24 << 20 // more than the sockets' buffers and net/http swallow
	for _, path := range []string{"/v1/events", "/v1/messages", "/users/track", "/v1/templates"} {
		head := "POST " + path + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAuthorization: Bearer " + testRoot + "\r\n"
		for _, request := range []string{
			head + fmt.Sprintf("Content-Length: %d\r\n\r\n", size) + strings.Repeat(" ", size),
			head + fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n", size) + strings.Repeat(" ", size) + "\r\n0\r\n\r\n",
		} {
			if res, body := s.exchange(t, request); res.StatusCode != http.StatusRequestEntityTooLarge || !json.Valid(body) {
				t.Errorf("%s: %d %s", path, res.StatusCode, body)
			}
		}
		if res, _ := s.exchange(t, head+fmt.Sprintf("Expect: 100-continue\r\nContent-Length: %d\r\n\r\n", size)); res.StatusCode != http.StatusRequestEntityTooLarge {
			t.Errorf("%s: who asks before sending is answered %d", path, res.StatusCode)
		}
	}
}

// exchange sends a request as a whole, then reads the answer. A head that is too large is
// not read to its end, so the answer may come while it is sent.
func (s *served) exchange(t *testing.T, request string) (*http.Response, []byte) {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	_, cut := io.WriteString(c, request)
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatalf("%.40q: no answer: %v; it was sent: %v", request, err, cut)
	}
	if cut != nil && res.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Fatalf("%.40q: it was cut off while it was sent: %v", request, cut)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatalf("%.40q: half an answer: %v", request, err)
	}
	return res, body
}

// Requests that a library would not send are answered as the standards say,
// and nothing behind them is taken for another request.
func TestOddRequests(t *testing.T) {
	t.Parallel()
	s := startServe(t, t.TempDir(), "SLUICE_ROOT_KEY="+testRoot)
	const get, end = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n", "\r\n"
	const post = "POST /v1/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + testRoot + "\r\n"
	const event = `{"event":"a"}`
	smuggled := "DELETE /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n"
	sized := func(body string) string { return fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body), body) }
	tests := []struct {
		name, bytes string
		statuses    string
	}{
		{"plain", get + end, "[200]"},
		{"pipelined", strings.Repeat(get+end, 20), strings.Trim(strings.Repeat("200 ", 20), " ")},
		{"pipelined posts", strings.Repeat(post+sized(event), 5) + strings.Repeat(post+sized("{}"), 2), "202 202 202 202 202 400 400"},
		{"HTTP/1.0", "GET /healthz HTTP/1.0\r\n\r\n" + get + end, "200"}, // closed, as 1.0 is
		{"HTTP/0.9", "GET /healthz\r\n\r\n", "400"},
		{"HTTP/2 without asking", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "400"},
		{"HTTP/9", "GET / HTTP/9.9\r\nHost: localhost\r\n\r\n", "505"},
		{"absolute form", "GET http://localhost/healthz HTTP/1.1\r\nHost: b\r\n\r\n", "[200]"}, // RFC 9112, 3.2.2
		{"absolute form without a path", "GET http://localhost HTTP/1.1\r\nHost: localhost\r\n\r\n", "[404]"},
		{"authority form", "CONNECT localhost:443 HTTP/1.1\r\nHost: localhost:443\r\n\r\n", "[404]"},
		{"asterisk form", "OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n", "[200]"}, // RFC 9110, 9.3.7
		{"no host", "GET /healthz HTTP/1.1\r\n\r\n", "400"},
		{"two hosts", get + "Host: b\r\n" + end, "400"}, // RFC 9112, 3.2
		{"space in a name", get + "X : 1\r\n" + end, "400"},
		{"folded header", get + "X: 1\r\n 2\r\n" + end, "[200]"}, // RFC 9112, 5.2: replaced by a space
		{"control character", get + "X: \x01\r\n" + end, "400"},
		{"bytes beyond ASCII in a header", get + "X-Request-Id: \xff\xfe\r\n" + end, "[200]"},
		{"bytes beyond ASCII in a path", "GET /\xff\xfe HTTP/1.1\r\nHost: localhost\r\n\r\n", "[404]"},
		{"escaped bytes in a path", "GET /%ff%00 HTTP/1.1\r\nHost: localhost\r\n\r\n", "[404]"},
		{"a wrong escape", "GET /%zz HTTP/1.1\r\nHost: localhost\r\n\r\n", "400"},
		{"bytes that are no UTF-8 in a body", post + sized("{\"event\":\"\xff\"}"), "[400]"},
		{"large header", get + "X: " + strings.Repeat("x", 64<<10) + "\r\n" + end, "431"},
		{"many headers", get + strings.Repeat("X: x\r\n", 20_000) + end, "431"},
		{"long path", "GET /" + strings.Repeat("x", 64<<10) + " HTTP/1.1\r\nHost: localhost\r\n\r\n", "431"},
		{"two keys", post + "Authorization: Bearer x\r\n" + sized(event), "[202]"}, // the first counts
		{"two Idempotency-Keys", post + "Idempotency-Key: a\r\nIdempotency-Key: b\r\n" + sized(event), "[400]"},
		{"unknown expectation", post + "Expect: miracles\r\n" + sized(event), "417"},

		// RFC 9112, 6.3: what could be read in two ways must not be.
		{"two lengths", post + "Content-Length: 0\r\n" + sized(event), "400"},
		{"two lengths, the same", post + fmt.Sprintf("Content-Length: %d\r\n", len(event)) + sized(event), "[202]"},
		{"a list of lengths", post + "Content-Length: 13, 13\r\n\r\n" + event, "400"},
		{"a signed length", post + "Content-Length: +13\r\n\r\n" + event, "400"},
		{"a negative length", post + "Content-Length: -1\r\n\r\n" + event, "400"},
		{"a length beyond 64 bits", post + "Content-Length: 99999999999999999999\r\n\r\n" + event, "400"},
		{"length and chunks", post + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\nd\r\n" + event + "\r\n0\r\n\r\n" + smuggled, "202"},
		{"unknown coding", post + "Transfer-Encoding: gzip, chunked\r\n" + sized(event), "501"},
		{"two codings", post + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "501"},
		{"hidden coding", post + "Transfer-Encoding: \x0bchunked\r\n" + sized(event), "400"},
		{"chunks", post + "Transfer-Encoding: chunked\r\n\r\n6;a=b\r\n{\"even\r\n7\r\nt\":\"a\"}\r\n0\r\nX: trailer\r\n\r\n", "202"},
		{"a wrong chunk", post + "Transfer-Encoding: chunked\r\n\r\nzz\r\n" + event + smuggled, "400"},
		{"a chunk too long", post + "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n" + event, "400"},
		{"a GET with a body", get + sized(event) + get + end, "200 200"},
	}
	for _, tt := range tests {
		want := strings.Fields(strings.Trim(tt.statuses, "[]"))
		most := len(want) + 1 // one more than there should be
		if strings.HasPrefix(tt.statuses, "[") || len(want) > 1 {
			most = len(want) // the connection stays open, nothing more comes
		}
		got := s.raw(t, tt.bytes, most)
		if fmt.Sprint(got) != "["+strings.Join(want, " ")+"]" {
			t.Errorf("%s: answered %v, want %v", tt.name, got, want)
		}
	}
	if log := s.log.String(); strings.Contains(log, "panic") || strings.Contains(log, "request failed") {
		t.Errorf("the log has an error:\n%s", log)
	}
	if _, body := s.get(t, "/healthz"); !strings.Contains(body, "true") {
		t.Error("it does not live")
	}
}
