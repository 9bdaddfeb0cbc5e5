package land

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"sluice"
	"sluice/lib/connlimit"
	"sluice/track/link"
)

// plainBytes bounds the head of a plain request, and plainLines its headers: browsers send
// some twenty. Longer ones are net/http's.
const (
	plainBytes = 4 << 10
	plainLines = 64
)

// plain serves the connections of a listener without TLS, until stop, which may be called
// once.
//
// The idea. Nearly all requests are alike: GET of a pixel or a click, a few headers, no
// body. For each of them net/http starts a goroutine that waits for the client to hang
// up, makes two contexts, sets eight deadlines and sorts a map of headers. That costs
// more than the open does. So a connection is served here as long as its requests are
// plain (readPlain). With the first that is not it goes to net/http, for good, and what
// was read of that request goes along.
//
// The invariants. No request is refused here, and none is repaired: what is not plain is
// judged by net/http alone. Every plain request means the same to net/http, which the
// fuzz test compares. One handler answers both: answer is its http.ResponseWriter here.
//
// What was tried and dropped. http.ReadRequest in place of a parser: it costs five times
// as much (BenchmarkReadHead). It leaves out what the server of net/http checks of Host
// and of names, and what it has read cannot be handed over.
type plain struct {
	server   *Server
	listener *connlimit.Listener
	others   *handover

	stopping context.Context
	halt     context.CancelFunc // of stopping
	running  sync.WaitGroup     // accept, and a goroutine for each connection

	mu    sync.Mutex
	conns map[*plainConn]struct{}
}

func newPlain(s *Server, l *connlimit.Listener) *plain {
	p := &plain{server: s, listener: l, others: newHandover(l.Addr()), conns: make(map[*plainConn]struct{})}
	p.stopping, p.halt = context.WithCancel(context.Background())
	p.running.Go(p.accept)
	return p
}

// accept serves connections until stop closes the listener.
func (p *plain) accept() {
	for {
		c, err := p.listener.Accept()
		switch {
		case err == nil:
			conn := newPlainConn(p, c.(*connlimit.Conn)) // a connlimit.Listener has no others
			p.mu.Lock()
			p.conns[conn] = struct{}{}
			p.mu.Unlock()
			p.running.Go(conn.run)
		case p.stopping.Err() != nil || errors.Is(err, net.ErrClosed):
			return
		default:
			// Too many open files, say. The connection waits in the kernel.
			p.server.o.Log.Warn("a connection for opens and clicks could not be accepted", "error", err)
			_ = sluice.Pause(p.stopping, quietGrace)
		}
	}
}

// stop closes the listener and the connections without a request. It waits for the others
// until ctx ends, then cuts them off and returns the error of ctx. A request in hand ends
// in any case: Redis and the database have bounds here (answerWithin, targetWithin).
func (p *plain) stop(ctx context.Context) error {
	p.halt()
	_ = p.listener.Close()
	p.each(func(c *plainConn) { _ = c.conn.SetReadDeadline(time.Unix(1, 0)) })
	done := make(chan struct{})
	go func() { p.running.Wait(); close(done) }() // ends with the connections, which are closed below
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	p.each(func(c *plainConn) { _ = c.conn.Close() })
	<-done
	return ctx.Err()
}

func (p *plain) each(f func(*plainConn)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		f(c)
	}
}

// plainConn is a connection of plain. Its goroutine alone uses it, but for conn.
type plainConn struct {
	plain   *plain
	conn    *connlimit.Conn
	request *http.Request // of each request in turn, with its URL and its Header
	values  []string      // of Header
	answer  answer
	buffer  [plainBytes]byte
	have    int // bytes of buffer that were read and belong to no request yet
}

func newPlainConn(p *plain, c *connlimit.Conn) *plainConn {
	r := &http.Request{URL: new(url.URL), Header: make(http.Header), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Body: http.NoBody, RemoteAddr: c.RemoteAddr().String()}
	return &plainConn{plain: p, conn: c, request: r.WithContext(connlimit.ConnContext(context.Background(), c)), answer: answer{header: make(http.Header)}}
}

// run serves the connection until it ends or is handed over.
func (c *plainConn) run() {
	handed := false
	defer func() {
		if e := recover(); e != nil {
			c.plain.server.o.Log.Error("a connection for opens and clicks ended in a panic", "from", c.request.RemoteAddr, "error", e, "stack", string(debug.Stack()))
		}
		c.forget()
		if !handed {
			_ = c.conn.Close()
		}
	}()
	for first := true; ; first = false {
		head, ok := c.read(first)
		if !ok {
			return
		}
		again, ok := readPlain(string(c.buffer[:head]), c.request, &c.values)
		if !ok {
			c.forget() // its deadlines are net/http's from here on
			handed = c.plain.others.take(c.conn, c.buffer[:c.have])
			return
		}
		c.have = copy(c.buffer[:], c.buffer[head:c.have])
		if !c.respond(again) {
			return
		}
	}
}

// forget has stop leave the connection alone.
func (c *plainConn) forget() {
	c.plain.mu.Lock()
	defer c.plain.mu.Unlock()
	delete(c.plain.conns, c)
}

// read reads the head of a request and returns its length; 0: it cannot become a plain
// one. ok is false if the client has none, or takes too long over it.
func (c *plainConn) read(first bool) (head int, ok bool) {
	idle := !first && c.have == 0
	within := readHeaderTimeout
	if idle {
		within = idleTimeout
	}
	for searched := 0; ; {
		if end := bytes.Index(c.buffer[searched:c.have], headEnd); end >= 0 {
			return searched + end + len(headEnd), true
		}
		if !mayBePlain(c.buffer[:c.have]) {
			return 0, true
		}
		searched = max(0, c.have-len(headEnd)+1)
		if within != 0 {
			_ = c.conn.SetReadDeadline(time.Now().Add(within))
			within = 0
		}
		if c.plain.stopping.Err() != nil { // looked at behind our deadline: stop sets its own
			return 0, false
		}
		n, err := c.conn.Read(c.buffer[c.have:])
		if c.have += n; n == 0 && err != nil {
			return 0, err == io.EOF && c.have > 0 // half of a head: net/http says so
		}
		if idle {
			idle, within = false, readHeaderTimeout // for the rest, if there is one
		}
	}
}

// respond answers the request, and reports whether the connection goes on.
func (c *plainConn) respond(again bool) bool {
	c.answer.reset()
	c.plain.server.ServeHTTP(&c.answer, c.request)
	again = again && c.plain.stopping.Err() == nil && c.answer.header["Connection"] == nil
	now := time.Now()
	_ = c.conn.SetWriteDeadline(now.Add(answerWriteTimeout))
	_, err := c.conn.Write(c.answer.text(now, again))
	return err == nil && again
}

const (
	getMethod  = "GET "
	plainProto = " HTTP/1.1"
)

var (
	headEnd = []byte("\r\n\r\n")
	plainly = [...]string{getMethod + link.OpenPath, getMethod + link.ClickPath}
)

// mayBePlain reports whether a plain request may begin with b, which has no end of a head.
func mayBePlain(b []byte) bool {
	if len(b) == plainBytes {
		return false
	}
	for rest := b; ; { // a line that ends by LF alone: no end of ours would come
		end := bytes.IndexByte(rest, '\n')
		if end == 0 || end > 0 && rest[end-1] != '\r' {
			return false
		}
		if end < 0 {
			break
		}
		rest = rest[end+1:]
	}
	return slices.ContainsFunc(plainly[:], func(want string) bool {
		n := min(len(b), len(want))
		return string(b[:n]) == want[:n]
	})
}

// readPlain reads the head of a request into r, and reports whether the connection is kept
// after it; ok is false if it is no plain one. values has room for the values of r's Header.
// Both are overwritten by the next call.
//
// A plain request is GET of a pixel or a click by HTTP/1.1 (RFC 9112, 3), with one Host. It
// has no body, upgrade or expectation. It has no byte that parsers could read in two ways:
// no bare CR or LF, no folded line (RFC 9112, 5.2), no escape in its path.
func readPlain(head string, r *http.Request, values *[]string) (again, ok bool) {
	line, rest, ok := strings.Cut(head, "\r\n")
	target, get := strings.CutPrefix(line, getMethod)
	target, proto := strings.CutSuffix(target, plainProto)
	if !ok || !get || !proto || !readTarget(target, r.URL) {
		return false, false
	}
	clear(r.Header)
	*values = (*values)[:0]
	again = true
	for rest != "\r\n" {
		line, rest, _ = strings.Cut(rest, "\r\n")
		name, value, found := strings.Cut(line, ":")
		if value = strings.Trim(value, " \t"); !found || len(*values) == plainLines || !only(name, inToken) || !only(value, inValue) {
			return false, false
		}
		name = http.CanonicalHeaderKey(name)
		switch name {
		case "Content-Length", "Transfer-Encoding", "Trailer", "Expect", "Upgrade", "Pragma": // net/http makes another header of the last
			return false, false
		case "Connection":
			again = again && !strings.EqualFold(value, "close")
			if again && !strings.EqualFold(value, "keep-alive") {
				return false, false
			}
		case "Host":
			if _, twice := r.Header[name]; twice || value == "" || !only(value, inHost) {
				return false, false
			}
		}
		*values = append(*values, value)
		if n := len(*values); r.Header[name] == nil {
			r.Header[name] = (*values)[n-1 : n : n]
		} else {
			r.Header[name] = append(r.Header[name], value)
		}
	}
	host := r.Header["Host"]
	if host == nil {
		return false, false
	}
	r.Method, r.Host, r.RequestURI = http.MethodGet, host[0], target
	delete(r.Header, "Host") // as net/http has it
	return again, true
}

// readTarget reads the target of a request; false: it is none of a plain one.
func readTarget(target string, u *url.URL) bool {
	path, query, found := strings.Cut(target, "?")
	if found && query == "" || !strings.HasPrefix(path, link.OpenPath) && !strings.HasPrefix(path, link.ClickPath) || !only(path, inPath) || !only(query, inQuery) {
		return false
	}
	u.Path, u.RawQuery = path, query
	return true
}

// Characters by where they may stand: bits of classes.
const (
	inToken = 1 << iota // RFC 9110, 5.6.2
	inValue             // RFC 9110, 5.5
	inHost              // of names and addresses, with a port
	inPath
	inQuery
)

var classes = makeClasses()

func makeClasses() (c [256]byte) {
	const alphanumeric = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
	for _, of := range []struct {
		class byte
		are   string
	}{{inToken, "!#$%&'*+-.^_`|~"}, {inHost, "-.:[]"}, {inPath, "-._/"}} {
		for _, b := range []byte(alphanumeric + of.are) {
			c[b] |= of.class
		}
	}
	for b := ' '; b <= 0xff; b++ {
		if b != 0x7f {
			c[b] |= inValue
		}
		if b > ' ' && b < 0x7f && b != '#' {
			c[b] |= inQuery
		}
	}
	c['\t'] |= inValue
	return c
}

// only reports whether all bytes of a text are of a class. Of a name there is one at least.
func only(text string, class byte) bool {
	for i := range len(text) {
		if classes[text[i]]&class == 0 {
			return false
		}
	}
	return text != "" || class != inToken
}

// answer is the http.ResponseWriter of plain requests. It keeps what is answered; what is
// written is a few bytes.
type answer struct {
	header http.Header
	status int
	body   []byte
	out    []byte
}

func (a *answer) reset() {
	clear(a.header)
	a.status, a.body = 0, a.body[:0]
}

// Header implements http.ResponseWriter.
func (a *answer) Header() http.Header { return a.header }

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
}

// Write implements http.ResponseWriter.
func (a *answer) Write(b []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	a.body = append(a.body, b...)
	return len(b), nil
}

// noBreaks keeps a value of a header from ending it, as net/http does.
var noBreaks = strings.NewReplacer("\r", " ", "\n", " ")

// text returns the answer as it is sent. It is overwritten by the next.
func (a *answer) text(now time.Time, again bool) []byte {
	a.WriteHeader(http.StatusOK)
	b := append(strconv.AppendInt(append(a.out[:0], "HTTP/1.1 "...), int64(a.status), 10), ' ')
	b = append(append(b, http.StatusText(a.status)...), "\r\nDate: "...)
	b = append(now.UTC().AppendFormat(b, http.TimeFormat), "\r\n"...)
	for name, values := range a.header {
		if name == "Content-Length" || name == "Connection" {
			continue
		}
		for _, value := range values {
			b = append(append(append(append(b, name...), ": "...), noBreaks.Replace(value)...), "\r\n"...)
		}
	}
	if !again {
		b = append(b, "Connection: close\r\n"...)
	}
	b = strconv.AppendInt(append(b, "Content-Length: "...), int64(len(a.body)), 10)
	a.out = append(append(b, "\r\n\r\n"...), a.body...)
	return a.out
}
