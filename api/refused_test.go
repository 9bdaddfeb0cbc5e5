package api

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"sluice/ingest"
)

// A body that nobody has read does not reset the connection that its answer ends: a client
// or proxy that is still sending would lose the answer.
func TestAnswerBeforeTheBodyIsRead(t *testing.T) {
	s := New("127.0.0.1:0", &program{intake: &ingest.Intake{}}, slog.New(slog.DiscardHandler), Options{})
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer stop(t, s)
	body := strings.Repeat("x", 200_000)
	for name, head := range map[string]string{
		"HTTP/1.0": fmt.Sprintf("POST /v1/events HTTP/1.0\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", len(body), body),
		"close":    fmt.Sprintf("POST /v1/events HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", len(body), body),
	} {
		c, err := net.Dial("tcp", s.Address())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if err := c.SetDeadline(time.Now().Add(requestReadTimeout)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(c, head); err != nil {
			t.Errorf("%s: the body is not taken: %v", name, err)
		}
		if answer, err := io.ReadAll(c); err != nil || !strings.Contains(string(answer), " 401 ") {
			t.Errorf("%s: answer %.100q, then %v", name, answer, err)
		}
	}
}
