package land

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sluice"
	"sluice/flow"
	"sluice/lib/connlimit"
)

// heads are beginnings of what clients send, each with whether it is plain. PIXEL and
// CLICK stand for links.
var heads = []struct {
	text  string
	plain bool
}{
	{"GET PIXEL HTTP/1.1\r\nHost: t.example.com\r\nUser-Agent: " + browser + "\r\nAccept: image/*\r\n\r\n", true},
	{"GET CLICK HTTP/1.1\r\nhost:t.example.com:8443 \r\nuser-agent: x\r\ncookie: a=\"b\"\r\nsec-purpose: prefetch\r\n\r\n", true},
	{"GET PIXEL HTTP/1.1\r\nHost: [::1]:80\r\nConnection: Keep-Alive\r\nX-Forwarded-For: 203.0.113.9\r\nX-Forwarded-For:\t\r\n\r\n", true},
	{"GET PIXEL HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n", true},
	{"GET PIXEL HTTP/1.1\r\nHost: t\r\nConnection: close\r\nConnection: keep-alive\r\nUser-Agent: \xff\xfe\r\n\r\n", true},
	{"GET /t/o/ HTTP/1.1\r\nHost: t\r\n\r\n", true},
	{"GET /t/c/x?u=%zz&a=<b>\"\\?/ HTTP/1.1\r\nHost: t\r\n\r\n", true},
	{"GET CLICK&x=" + strings.Repeat("x", plainBytes) + " HTTP/1.1\r\nHost: t\r\n\r\n", false},
	{"GET PIXEL HTTP/1.1\r\nHost: t\r\n" + strings.Repeat("X: y\r\n", plainLines-1) + "\r\n", true},
	{"GET PIXEL HTTP/1.1\r\nHost: t\r\n" + strings.Repeat("X: y\r\n", plainLines) + "\r\n", false},
	{"HEAD PIXEL HTTP/1.1\r\nHost: t\r\n\r\n", false},
	{"GET PIXEL HTTP/1.0\r\nHost: t\r\n\r\n", false},
	{"GET PIXEL HTTP/1.0\r\n\r\n", false},
	{"HEAD CLICK HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n", false},
	{"GET CLICK HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", false},
	{"GET PIXEL HTTP/1.1\nHost: t\n\n", false},
	{"GET PIXEL HTTP/1.1\r\nHost: t\nX: y\r\n\r\n", false},
	{"GET PIXEL HTTP/1.1\r\nHost: t\rX: y\r\n\r\n", false},
	{"GET PIXEL HTTP/1.1\r\nHost: t\r\nX: a\r\n b\r\n\r\n", false},
	{"GET PIXEL HTTP/1.1\r\n Host: t\r\n\r\n", false},
	{"GET PIXEL HTTP/1.1\r\n\r\n", false},
	{"GET PIXEL HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", false},
	{"GET PIXEL HTTP/1.1\r\nHost: a/b\r\n\r\n", false},
	{"GET PIXEL HTTP/1.1\r\nHost:\r\n\r\n", false},
	{"GET PIXEL HTTP/1.1\r\nHost : t\r\n\r\n", false},
	{"GET PIXEL HTTP/1.1\r\nHost: t\r\nX\r\n\r\n", false},
	{"GET PIXEL HTTP/1.1\r\nHost: t\r\n: x\r\n\r\n", false},
	{"GET PIXEL HTTP/1.1\r\nHost: t\r\nX: \x00\r\n\r\n", false},
	{"GET PIXEL HTTP/1.1\r\nHost: t\r\nContent-Length: 0\r\n\r\n", false},
	{"GET PIXEL HTTP/1.1\r\nHost: t\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", false},
	{"GET PIXEL HTTP/1.1\r\nHost: t\r\nExpect: 100-continue\r\n\r\n", false},
	{"GET PIXEL HTTP/1.1\r\nHost: t\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n", false},
	{"GET  PIXEL HTTP/1.1\r\nHost: t\r\n\r\n", false},
	{"GET PIXEL  HTTP/1.1\r\nHost: t\r\n\r\n", false},
	{"GET PIXEL? HTTP/1.1\r\nHost: t\r\n\r\n", false},
	{"GET PIXEL HTTP/1.1\r\nHost: t\r\nPragma: no-cache\r\n\r\n", false},
	{"GET PIXEL#x HTTP/1.1\r\nHost: t\r\n\r\n", false},
	{"GET /t/o/%41.gif HTTP/1.1\r\nHost: t\r\n\r\n", false},
	{"GET http://t/t/o/x.gif HTTP/1.1\r\nHost: t\r\n\r\n", false},
	{"GET /t/u/x HTTP/1.1\r\nHost: t\r\n\r\n", false},
	{"POST /t/u/x HTTP/1.1\r\nHost: t\r\nContent-Length: 3\r\n\r\na=b", false},
	{"get PIXEL HTTP/1.1\r\nHost: t\r\n\r\n", false},
	{"\r\nGET PIXEL HTTP/1.1\r\nHost: t\r\n\r\n", false},
	{"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", false},
	{"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", false},
	{"\r\n\r\n", false},
	{"GET PIXEL HTTP/1.1\r\nHost: t\r\n", false},
}

// filled returns a text of heads with the links of a kit.
func (k *kit) filled(t testing.TB, text string) string {
	return strings.NewReplacer("PIXEL", k.pixel(t), "CLICK", k.click(t, "https://shop.example/a?b=1")).Replace(text)
}

// empty returns what readPlain fills in.
func empty() *http.Request { return &http.Request{URL: new(url.URL), Header: make(http.Header)} }

// What is plain, and that it means the same to net/http; other texts by fuzzing.
func FuzzPlain(f *testing.F) {
	k := newKit(f)
	for _, h := range heads {
		text := k.filled(f, h.text)
		f.Add([]byte(text))
		if !strings.Contains(text, "\r\n\r\n") {
			continue // read looks at it alone
		}
		if _, ok := readPlain(text, empty(), new([]string)); (ok && len(text) <= plainBytes) != h.plain {
			f.Errorf("%.90q is plain: %v, want %v", text, ok, h.plain)
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		head, _, found := bytes.Cut(text, headEnd)
		if !found {
			return
		}
		head = append(bytes.Clone(head), headEnd...)
		ours := empty()
		again, ok := readPlain(string(head), ours, new([]string))
		if !ok {
			return
		}
		theirs := readByServer(t, head)
		if theirs == nil {
			t.Fatalf("net/http refuses %q", head)
		}
		if ours.Method != theirs.Method || *ours.URL != *theirs.URL || ours.RequestURI != theirs.RequestURI || ours.Host != theirs.Host || again == theirs.Close || theirs.Body != http.NoBody {
			t.Errorf("%q:\n%+v, again %v\n%+v", head, ours, again, theirs)
		}
		delete(theirs.Header, "Connection")
		delete(ours.Header, "Connection")
		if !maps.EqualFunc(ours.Header, theirs.Header, slices.Equal) {
			t.Errorf("%q:\n%v\n%v", head, ours.Header, theirs.Header)
		}
	})
}

// readByServer returns a request as a server of net/http has it; nil: it is refused.
func readByServer(t *testing.T, head []byte) (got *http.Request) {
	t.Helper()
	client, server := net.Pipe()
	h := newHandover(server.LocalAddr())
	s := &http.Server{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r })}
	served := make(chan error, 1)
	go func() { served <- s.Serve(h) }() // ends with Close
	h.conns <- server
	go func() { _, _ = client.Write(head) }() // ends with Close
	if _, err := http.ReadResponse(bufio.NewReader(client), nil); err != nil {
		t.Errorf("%q: %v", head, err)
	}
	_ = client.Close()
	_ = s.Close()
	<-served
	return got
}

// What a client gets, of one request and of several in all mixtures, is what net/http would
// answer: at once, byte by byte, and with more behind it.
func TestPlainAnswers(t *testing.T) {
	k := newKit(t)
	if err := k.Start(t.Context(), "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = k.Stop(t.Context()) })
	theirs := httptest.NewServer(k.Server)
	t.Cleanup(theirs.Close)
	pixel := k.filled(t, heads[0].text)
	for _, h := range heads {
		text := k.filled(t, h.text)
		for _, all := range []string{text, pixel + text, pixel + pixel + text + pixel} {
			want := answers(t, theirs.Listener.Addr().String(), all, len(all))
			for _, piece := range []int{len(all), 1 + len(all)/3, 97} {
				if got := answers(t, k.Address(), all, piece); got != want {
					t.Errorf("%.200q in pieces of %d:\n%s\nnet/http answers\n%s", all, piece, got, want)
				}
			}
		}
	}
}

// HEAD and HTTP/1.0 go by way of net/http, and are opens and clicks like others: what is
// answered, and what becomes of it, also behind a plain request on the same connection.
func TestOthersAreTakenIn(t *testing.T) {
	const agent = "User-Agent: " + browser + "\r\n"
	for _, x := range []struct{ text, answer, event string }{
		{"HEAD PIXEL HTTP/1.1\r\nHost: t\r\n" + agent + "\r\n", "HTTP/1.1 200 OK\n", sluice.EventOpened + ` "machine":true,"reason":"head"`},
		{"HEAD CLICK HTTP/1.1\r\nHost: t\r\n" + agent + "\r\n", "HTTP/1.1 302 Found\n", sluice.EventClicked + ` "machine":true,"reason":"head"`},
		{"GET PIXEL HTTP/1.0\r\n" + agent + "\r\n", "HTTP/1.0 200 OK\n", sluice.EventOpened},
		{"GET CLICK HTTP/1.0\r\nConnection: keep-alive\r\n" + agent + "\r\n", "HTTP/1.0 302 Found\n", sluice.EventClicked},
	} {
		for _, before := range []string{"", heads[0].text} {
			k := newKit(t)
			if err := k.Start(t.Context(), "127.0.0.1:0"); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = k.Stop(t.Context()) })
			text, plain := k.filled(t, before+x.text), 0
			if before != "" {
				plain = 1
			}
			got := answers(t, k.Address(), text, len(text))
			k.logs.mu.Lock()
			events := k.logs.events
			k.logs.mu.Unlock()
			if len(events) != plain+1 || before == "" && !strings.HasPrefix(got, x.answer) || strings.Count(got, "HTTP/1.") < 1 {
				t.Errorf("%.30q behind %.20q: %d events, answered\n%s", x.text, before, len(events), got)
				continue
			}
			name, properties, machine := strings.Cut(x.event, " ")
			if e := events[plain]; e.Name != name || strings.Contains(e.Properties, `"machine":true`) != machine || !strings.Contains(e.Properties, properties) {
				t.Errorf("%.30q behind %.20q: %s %s, want %s", x.text, before, e.Name, e.Properties, x.event)
			}
			if strings.HasPrefix(x.text, "HEAD") && strings.Contains(got, string(pixelBytes)) && before == "" {
				t.Errorf("%.30q: a body is answered", x.text)
			}
		}
	}
}

// answers returns what a server answers to a text, without times and with the headers in
// their order.
func answers(t *testing.T, address, text string, piece int) string {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	for part := range slices.Chunk([]byte(text), piece) {
		if _, err := c.Write(part); err != nil {
			break // it has answered, and is closed
		}
	}
	if err := c.(*net.TCPConn).CloseWrite(); err != nil && !errors.Is(err, net.ErrClosed) {
		t.Logf("%.60q: %v", text, err)
	}
	var b strings.Builder
	for in := bufio.NewReader(c); ; {
		res, err := http.ReadResponse(in, &http.Request{Method: methodOf(text)})
		if err != nil {
			return b.String()
		}
		body, _ := io.ReadAll(res.Body)
		if _, err := http.ParseTime(res.Header.Get("Date")); err != nil && res.StatusCode < 400 {
			t.Errorf("%.60q: %v", text, err)
		}
		res.Header.Del("Date")
		b.WriteString(res.Proto + " " + res.Status + "\n")
		_ = res.Header.Write(&b)
		b.WriteString(string(body) + "\n")
	}
}

// methodOf is the method of a text's first request; one of HEAD has no body.
func methodOf(text string) string {
	method, _, _ := strings.Cut(text, " ")
	return method
}

// A panic ends its connection alone.
func TestPlainPanics(t *testing.T) {
	k := newKit(t)
	working := k.o.Recorder.Writer
	var broken atomic.Bool
	broken.Store(true)
	k.o.Recorder.Writer = appenderFunc(func(ctx context.Context, parts ...flow.Part) error {
		if broken.Load() {
			panic("a mistake")
		}
		return working.Write(ctx, parts...)
	})
	if err := k.Start(t.Context(), "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = k.Stop(t.Context()) })
	text := k.filled(t, heads[0].text)
	if got := answers(t, k.Address(), text, len(text)); got != "" {
		t.Errorf("answered %q", got)
	}
	broken.Store(false)
	if got := answers(t, k.Address(), text, len(text)); !strings.Contains(got, "200 OK") {
		t.Errorf("answered %q", got)
	}
}

type appenderFunc func(ctx context.Context, parts ...flow.Part) error

// Write implements Appender.
func (f appenderFunc) Write(ctx context.Context, parts ...flow.Part) error { return f(ctx, parts...) }

// Stop ends connections that wait, answers the request in hand, and cuts off one that
// takes longer than it may.
func TestPlainStops(t *testing.T) {
	for name, answered := range map[string]bool{"in time": true, "cut off": false} {
		t.Run(name, func(t *testing.T) {
			k := newKit(t)
			came, goOn := make(chan struct{}), make(chan struct{})
			k.o.Recorder.Writer = appenderFunc(func(context.Context, ...flow.Part) error { close(came); <-goOn; return nil })
			if err := k.Start(t.Context(), "127.0.0.1:0"); err != nil {
				t.Fatal(err)
			}
			waits, err := net.Dial("tcp", k.Address())
			if err != nil {
				t.Fatal(err)
			}
			defer waits.Close()
			busy, err := net.Dial("tcp", k.Address())
			if err != nil {
				t.Fatal(err)
			}
			defer busy.Close()
			if _, err := io.WriteString(busy, k.filled(t, heads[0].text)); err != nil {
				t.Fatal(err)
			}
			<-came
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
			defer cancel()
			stopped := make(chan error, 1)
			go func() { stopped <- k.Stop(ctx) }() // ends below
			if _, err := waits.Read(make([]byte, 1)); err != io.EOF {
				t.Errorf("a connection that waits: %v", err)
			}
			if !answered {
				cancel()
			}
			res, err := func() (*http.Response, error) {
				if answered {
					close(goOn)
				} else {
					defer close(goOn)
				}
				return http.ReadResponse(bufio.NewReader(busy), nil)
			}()
			if answered != (err == nil && res.StatusCode == 200 && res.Close) {
				t.Errorf("%+v %v", res, err)
			}
			if err := <-stopped; answered != (err == nil) {
				t.Errorf("stop: %v", err)
			}
		})
	}
}

// scripted is a connection whose client sends pieces, an empty one after each. It notes
// the deadlines of its reads, in seconds from when they are set.
type scripted struct {
	net.Conn
	pieces    []string
	deadlines []int
}

func (s *scripted) Read(b []byte) (int, error) {
	if len(s.pieces) == 0 {
		return 0, io.EOF
	}
	n := copy(b, s.pieces[0])
	s.pieces = s.pieces[1:]
	return n, nil
}

func (s *scripted) Write(b []byte) (int, error)      { return len(b), nil }
func (s *scripted) SetWriteDeadline(time.Time) error { return nil }
func (s *scripted) Close() error                     { return nil }
func (s *scripted) RemoteAddr() net.Addr             { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 5} }

func (s *scripted) SetReadDeadline(d time.Time) error {
	s.deadlines = append(s.deadlines, int((time.Until(d) + time.Second/2).Seconds()))
	return nil
}

// A client has 30 seconds to begin with a request and 5 for its head, however it drips; and
// 5 for both on a new connection.
func TestPlainDeadlines(t *testing.T) {
	k := newKit(t)
	text := k.filled(t, heads[0].text)
	half := len(text) / 2
	for name, tt := range map[string]struct {
		pieces []string
		want   []int
	}{
		"one":      {[]string{text}, []int{5, 30}},
		"drips":    {[]string{text[:9], text[9:half], text[half:]}, []int{5, 30}},
		"second":   {[]string{text, text}, []int{5, 30, 30}},
		"drips on": {[]string{text, text[:9], text[9:half], text[half:]}, []int{5, 30, 5, 30}},
		"begun":    {[]string{text + text[:half], text[half:]}, []int{5, 5, 30}},
		"together": {[]string{text + text + text}, []int{5, 30}},
	} {
		s := &scripted{pieces: tt.pieces}
		l := connlimit.NewListener(&oneConn{conn: s}, 2, quietGrace, sluice.SystemClock{})
		p := newPlain(k.Server, l)
		p.running.Wait() // the script is at its end, and there is no other connection
		if !slices.Equal(s.deadlines, tt.want) {
			t.Errorf("%s: %v s, want %v", name, s.deadlines, tt.want)
		}
	}
}

// oneConn is a listener of one connection.
type oneConn struct{ conn net.Conn }

func (o *oneConn) Accept() (net.Conn, error) {
	c := o.conn
	if o.conn = nil; c == nil {
		return nil, net.ErrClosed
	}
	return c, nil
}

func (*oneConn) Close() error   { return nil }
func (*oneConn) Addr() net.Addr { return &net.TCPAddr{} }

// No value of a header begins another.
func TestAnswerHeaders(t *testing.T) {
	a := &answer{header: http.Header{"X": {"a\r\nY: b"}, "Content-Length": {"7"}, "Connection": {"x"}}}
	a.WriteHeader(http.StatusFound)
	a.WriteHeader(http.StatusOK)
	at := time.Date(2026, 11, 25, 18, 0, 0, 0, time.UTC)
	if got, want := string(a.text(at, false)), "HTTP/1.1 302 Found\r\nDate: Wed, 25 Nov 2026 18:00:00 GMT\r\nX: a  Y: b\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"; got != want {
		t.Errorf("%q\nwant %q", got, want)
	}
}

func BenchmarkReadHead(b *testing.B) {
	text := newKit(b).filled(b, heads[0].text)
	b.Run("plain", func(b *testing.B) {
		r, values := empty(), new([]string)
		for b.Loop() {
			if _, ok := readPlain(text, r, values); !ok {
				b.Fatal("it is plain")
			}
		}
	})
	b.Run("net/http", func(b *testing.B) {
		in := bufio.NewReader(nil)
		for b.Loop() {
			in.Reset(strings.NewReader(text))
			if _, err := http.ReadRequest(in); err != nil {
				b.Fatal(err)
			}
		}
	})
}
