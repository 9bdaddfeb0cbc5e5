package proxy

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// lineServer answers each line with "+line" and shows what it has received,
// whole lines and, at the end of a connection, what was left over.
type lineServer struct {
	network, addr string
	lines         chan string
	rests         chan string
}

func startLineServer(t *testing.T, network string) *lineServer {
	t.Helper()
	addr := "127.0.0.1:0"
	if network == "unix" {
		addr = filepath.Join(t.TempDir(), "s")
	}
	l, err := net.Listen(network, addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	s := &lineServer{network: network, addr: l.Addr().String(), lines: make(chan string, 100), rests: make(chan string, 100)}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go s.serve(c)
		}
	}()
	return s
}

func (s *lineServer) serve(c net.Conn) {
	defer c.Close()
	in := bufio.NewReader(c)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			s.rests <- line
			return
		}
		line = strings.TrimSuffix(line, "\n")
		s.lines <- line
		if _, err := fmt.Fprintf(c, "+%s\n", line); err != nil {
			s.rests <- ""
			return
		}
	}
}

func startProxy(t *testing.T, network string) (*Proxy, *lineServer) {
	t.Helper()
	s := startLineServer(t, network)
	p, err := New(s.network, s.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p, s
}

func arm(t *testing.T, p *Proxy, r Rule) *Armed {
	t.Helper()
	a, err := p.Arm(r)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// dial connects to the proxy; nothing on the connection waits for ever.
func dial(t *testing.T, p *Proxy) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	return c
}

func send(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
}

func wantRead(t *testing.T, c net.Conn, want string) {
	t.Helper()
	b := make([]byte, len(want))
	if n, err := io.ReadFull(c, b); err != nil || string(b) != want {
		t.Fatalf("read %q, %v; want %q", b[:n], err, want)
	}
}

// wantEnd reads until the connection ends and wants exactly this before it.
func wantEnd(t *testing.T, c net.Conn, want string) {
	t.Helper()
	b, err := io.ReadAll(c)
	if string(b) != want {
		t.Errorf("before the end: %q, want %q", b, want)
	}
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		t.Error("the connection was not cut")
	}
}

func wantNext(t *testing.T, what string, ch <-chan string, want string) {
	t.Helper()
	select {
	case got := <-ch:
		if got != want {
			t.Errorf("%s: server got %q, want %q", what, got, want)
		}
	case <-time.After(3 * time.Minute):
		t.Errorf("%s: server got nothing, want %q", what, want)
	}
}

func TestProxyForwards(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		t.Run(network, func(t *testing.T) {
			p, _ := startProxy(t, network)
			c := dial(t, p)
			send(t, c, "a\n")
			wantRead(t, c, "+a\n")
			if n := p.Connections(); n != 1 {
				t.Errorf("%d connections, want 1", n)
			}
			// A half-closed connection still gets its answers.
			send(t, c, "b\n")
			if err := c.(*net.TCPConn).CloseWrite(); err != nil {
				t.Fatal(err)
			}
			wantEnd(t, c, "+b\n")
		})
	}
}

func TestRules(t *testing.T) {
	commit := []byte("COMMIT")
	for _, test := range []struct {
		name     string
		rule     Rule
		parts    []string // sent one after the other, each seen by the proxy alone
		lines    []string // that the server gets
		rest     string   // half a line that the server gets
		received string   // what the client gets before the end
	}{
		{
			name:  "before",
			rule:  Rule{Pattern: commit},
			parts: []string{"one\n", "COMMIT\n"}, lines: []string{"one"}, received: "+one\n",
		}, {
			name:  "before, in parts",
			rule:  Rule{Pattern: commit},
			parts: []string{"one\n", "COM", "MIT\n"}, lines: []string{"one"}, rest: "COM", received: "+one\n",
		}, {
			name:  "the second",
			rule:  Rule{Pattern: commit, Skip: 1},
			parts: []string{"COMMIT\n", "x\n", "COMMIT\n"}, lines: []string{"COMMIT", "x"}, received: "+COMMIT\n+x\n",
		}, {
			name:  "after",
			rule:  Rule{Pattern: commit, Moment: After},
			parts: []string{"COMMIT\n"}, lines: []string{"COMMIT"},
		}, {
			name:  "answered, nothing of it",
			rule:  Rule{Pattern: commit, Moment: Replied},
			parts: []string{"COMMIT\n"}, lines: []string{"COMMIT"},
		}, {
			name:  "in the middle of the answer",
			rule:  Rule{Pattern: commit, Moment: Replied, ReplyBytes: 3},
			parts: []string{"COM", "MIT\n"}, lines: []string{"COMMIT"}, received: "+CO",
		}, {
			name:  "bytes to the server",
			rule:  Rule{Bytes: 6},
			parts: []string{"one\n", "twoo\n"}, lines: []string{"one"}, rest: "tw", received: "+one\n",
		}, {
			name:  "bytes to the client",
			rule:  Rule{Bytes: 6, Direction: ToClient},
			parts: []string{"one\n", "two\n"}, lines: []string{"one", "two"}, received: "+one\n+",
		}, {
			name:  "pattern to the client",
			rule:  Rule{Pattern: []byte("two"), Direction: ToClient},
			parts: []string{"one\n", "two\n"}, lines: []string{"one", "two"}, received: "+one\n+",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			p, s := startProxy(t, "unix")
			c := dial(t, p)
			a := arm(t, p, test.rule)
			expected := test.received
			for i, part := range test.parts {
				send(t, c, part)
				// The answer to a whole line tells that the part has passed
				// alone. "COM" has none, and may join the next part, which must
				// not matter.
				if whole := strings.HasSuffix(part, "\n"); whole && i+1 < len(test.parts) {
					reply := "+" + part
					wantRead(t, c, reply)
					expected = strings.TrimPrefix(expected, reply)
				}
			}
			wantEnd(t, c, expected)
			<-a.Fired()
			for _, line := range test.lines {
				wantNext(t, "line", s.lines, line)
			}
			if test.name != "before, in parts" {
				wantNext(t, "rest", s.rests, test.rest)
			}
			// The rule is spent: the next connection is whole.
			c = dial(t, p)
			send(t, c, "COMMIT\ntwo\n")
			wantRead(t, c, "+COMMIT\n+two\n")
		})
	}
}

// A pattern that is split over two reads is found, wherever it is split, and a
// match that is passed over does not count twice.
func TestWatchFindsSplitPatterns(t *testing.T) {
	for cut := range 9 {
		a := newArmed(Rule{Pattern: []byte("aba"), Skip: 1})
		w := &watch{armed: a}
		text := []byte("xabababa.") // "aba" at 1 and, not overlapping it, at 5
		at, acts := w.look(text[:cut])
		if !acts {
			at, acts = w.look(text[cut:])
			at += cut
		}
		if want := max(5, cut); !acts || (cut <= 5 && at != 5) || (cut > 5 && cut < 8 && at != want) {
			t.Errorf("cut at %d: acts %t at %d", cut, acts, at)
		}
	}
}

func TestRuleStallsUntilResume(t *testing.T) {
	for _, r := range []Rule{
		{Pattern: []byte("b"), Stall: true},
		{Pattern: []byte("b"), Stall: true, Moment: After},
		{Pattern: []byte("b"), Stall: true, Moment: Replied, ReplyBytes: 1},
	} {
		t.Run(fmt.Sprint(r.Moment), func(t *testing.T) {
			p, s := startProxy(t, "tcp")
			c, other := dial(t, p), dial(t, p)
			a := arm(t, p, r)
			send(t, c, "abc\n")
			<-a.Fired()
			// Only this connection stalls, and its server has what the moment says.
			send(t, other, "x\n")
			wantRead(t, other, "+x\n")
			got := map[string]bool{<-s.lines: true}
			if r.Moment != Before {
				got[<-s.lines] = true
			}
			if got["abc"] != (r.Moment != Before) || !got["x"] {
				t.Errorf("while stalled the server got %v", got)
			}
			p.Resume()
			wantRead(t, c, "+abc\n")
			send(t, c, "d\n")
			wantRead(t, c, "+d\n")
		})
	}
}

func TestProxyStallRefuseCutDelay(t *testing.T) {
	p, s := startProxy(t, "unix")
	c := dial(t, p)
	send(t, c, "a\n")
	wantRead(t, c, "+a\n")
	wantNext(t, "a", s.lines, "a")

	p.Stall()
	send(t, c, "b\n")
	select {
	case line := <-s.lines:
		t.Errorf("a stalled proxy forwarded %q", line)
	default:
	}
	p.Resume()
	wantRead(t, c, "+b\n")

	p.Delay(time.Nanosecond)
	send(t, c, "c\n")
	wantRead(t, c, "+c\n")
	p.Delay(0)

	p.Refuse(true)
	refused, err := net.Dial("tcp", p.Addr())
	if err == nil { // else the reset came before dialling was over
		defer refused.Close()
		_ = refused.SetDeadline(time.Now().Add(time.Minute)) // a read that does not end fails then
		_, err = refused.Read(make([]byte, 1))
	}
	if !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("use a refused connection: %v, want a reset", err)
	}
	send(t, c, "d\n")
	wantRead(t, c, "+d\n")
	p.Refuse(false)

	if n := p.Cut(); n != 1 {
		t.Errorf("cut %d connections, want 1", n)
	}
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("read after the cut: %v, want a reset", err)
	}
	c = dial(t, p)
	send(t, c, "e\n")
	wantRead(t, c, "+e\n")
}

// Close returns only when every goroutine has ended, also those that wait for
// a stalled gate, a long delay or a silent peer.
func TestCloseEndsEverything(t *testing.T) {
	p, _ := startProxy(t, "tcp")
	stalled, silent := dial(t, p), dial(t, p)
	a := arm(t, p, Rule{Pattern: []byte("a"), Stall: true})
	send(t, stalled, "a\n")
	<-a.Fired()
	send(t, silent, "b\n")
	wantRead(t, silent, "+b\n")
	p.Delay(time.Hour)
	send(t, silent, "c\n")
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if n := p.Connections(); n != 0 {
		t.Errorf("%d connections after Close", n)
	}
	wantEnd(t, silent, "")
	if _, err := net.Dial("tcp", p.Addr()); err == nil {
		t.Error("a closed proxy accepts")
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

func TestArmRefusesNonsense(t *testing.T) {
	p, _ := startProxy(t, "tcp")
	for _, r := range []Rule{
		{},
		{Pattern: []byte("a"), Bytes: 1},
		{Pattern: make([]byte, maxPatternBytes+1)},
		{Pattern: []byte("a"), Direction: ToClient, Moment: After},
		{Bytes: 1, Moment: Replied},
		{Pattern: []byte("a"), ReplyBytes: 1},
		{Pattern: []byte("a"), Skip: -1},
	} {
		if _, err := p.Arm(r); err == nil {
			t.Errorf("armed %+v", r)
		}
	}
}
