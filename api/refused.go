package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"sluice"
	"sluice/lib/connlimit"
)

// net/http answers some requests itself, before any handler sees them: those
// whose head it cannot read, or that is too large. Its answers are plain text.
//
// The idea. It writes each of these in one call to the connection, and no answer
// of ours begins as they do. So the connection sees them and writes the refusal
// that our clients expect of every other error.
//
// What was tried and dropped. Reading the head before net/http does: each request
// would be read twice. A server of our own for HTTP/1: the parser is what has to
// be right.

// Bounds of the end of a connection on which a request was refused. What the
// client still sends is read and dropped meanwhile: to close over unread bytes
// resets the connection, and the answer is lost (RFC 9112, 9.6).
const (
	maxRefusedBytes   = 256 << 10
	refusedWithin     = time.Second
	maxRefusalBytes   = 512 // of an answer of net/http
	maxDrainBytes     = 64 << 20
	plainRefusalHeads = "\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"
)

// refusing is a listener whose connections answer JSON where net/http refuses.
type refusing struct {
	net.Listener
	requests *requestIDs
}

func (l refusing) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	limited, _ := c.(*connlimit.Conn) // the listener below has no others
	return &refusingConn{limited, l.requests}, nil
}

// refusingConn is a connection of a refusing listener.
type refusingConn struct {
	*connlimit.Conn
	requests *requestIDs
}

// NetConn returns the connection below, for connlimit.
func (c *refusingConn) NetConn() net.Conn { return c.Conn }

// Write hands an answer over, and answers for net/http where that refuses.
func (c *refusingConn) Write(b []byte) (int, error) {
	if len(b) > maxRefusalBytes || !bytes.HasPrefix(b, []byte("HTTP/1.1 ")) {
		return c.Conn.Write(b)
	}
	line, rest, _ := bytes.Cut(b, []byte("\r\n"))
	if !bytes.HasPrefix(rest, []byte(plainRefusalHeads[len("\r\n"):])) {
		return c.Conn.Write(b)
	}
	if _, err := c.Conn.Write(c.requests.refusal(string(line))); err != nil {
		return 0, err
	}
	if err := c.CloseWrite(); err == nil && c.SetReadDeadline(time.Now().Add(refusedWithin)) == nil {
		_, _ = io.CopyN(io.Discard, c.Conn, maxRefusedBytes) // its end, or the deadline
	}
	return len(b), nil
}

// refusal is the answer to a request that net/http refuses with a status line.
func (ids *requestIDs) refusal(line string) []byte {
	status, said := http.StatusBadRequest, ""
	if len(line) >= len("HTTP/1.1 400") {
		if n, err := strconv.Atoi(line[len("HTTP/1.1 "):len("HTTP/1.1 400")]); err == nil {
			status = n
		}
		if _, text, ok := bytes.Cut([]byte(line), []byte(": ")); ok {
			said = string(text)
		}
	}
	e := refusal(sluice.CodeInvalid, "this is no request of HTTP/1.1 that can be understood")
	switch {
	case status == http.StatusRequestHeaderFieldsTooLarge:
		e = refusal(sluice.CodeTooLarge, "the head of the request is larger than %d bytes", maxHeaderBytes)
	case status == http.StatusNotImplemented:
		e = refusal(sluice.CodeInvalid, "this Transfer-Encoding is not understood; send chunked or a Content-Length")
	case said != "":
		e = refusal(sluice.CodeInvalid, "the head of the request is refused: %s", said)
	}
	id := ids.next()
	body, _ := json.Marshal(errorBody{Message: e.Message, Error: detail(e, id)}) // texts always can be
	return fmt.Appendf(nil, "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nX-Content-Type-Options: nosniff\r\nCache-Control: no-store\r\nX-Request-Id: %s\r\nConnection: close\r\n\r\n%s\n",
		status, http.StatusText(status), len(body)+1, id, body)
}

// drain reads and drops what is left of a body that was refused for its size, up
// to a bound: many clients send all of it before they read the answer. Those
// who wait for a 100 have not begun, and get the answer in its place.
func drain(r *http.Request) {
	if r.Body != nil && r.Header.Get("Expect") == "" && r.ContentLength <= maxDrainBytes {
		_, _ = io.CopyN(io.Discard, r.Body, maxDrainBytes) // its end, or the server's ReadTimeout
	}
}

// takeRest drops what a handler has left of the body of a client that wants the
// connection closed: net/http does so for others only. Who waits for a 100 sends none.
func takeRest(w http.ResponseWriter, r *http.Request) {
	if !r.Close || r.Body == nil || r.Body == http.NoBody || r.Header.Get("Expect") != "" {
		return
	}
	if http.NewResponseController(w).SetReadDeadline(time.Now().Add(refusedWithin)) != nil {
		return // no connection below, as in a test
	}
	// Where more comes, this reader has net/http wait a moment before it closes.
	_, _ = io.Copy(io.Discard, http.MaxBytesReader(w, r.Body, maxRefusedBytes)) // its end, or the deadline
}
