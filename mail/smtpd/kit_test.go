package smtpd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice"
	"sluice/lib/key"
	"sluice/mail"
	"sluice/test/logtest"
)

// patience is how long a test waits for what must happen.
const patience = 4 * time.Minute

// memory takes messages in and keeps them here. The durable way of the spool is
// tested with it, and with this listener before it, in cmd/sluice. Here the
// test decides when a message is durable, and whether.
type memory struct {
	mu     sync.Mutex
	drafts []mail.Draft
	err    error         // what Submit returns
	gate   chan struct{} // Submit waits for it; nil: it does not
	inside chan struct{} // Submit says that it is there; nil: it does not
}

func (m *memory) Submit(ctx context.Context, _ string, drafts []mail.Draft) (ids []string, err error) {
	m.mu.Lock()
	gate, inside := m.gate, m.inside
	m.mu.Unlock()
	if inside != nil {
		inside <- struct{}{}
	}
	if gate != nil {
		select {
		case <-gate:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil {
		return nil, m.err
	}
	for _, d := range drafts {
		m.drafts = append(m.drafts, d)
		ids = append(ids, d.ID)
	}
	return ids, nil
}

func (m *memory) all() []mail.Draft {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]mail.Draft(nil), m.drafts...)
}

// keys is an Authority.
type keys struct {
	mu     sync.Mutex
	known  map[string]key.Identity
	err    error // of Identify
	slow   error // of Admit
	spent  int
	looked int
}

func (k *keys) Identify(_ context.Context, text string) (key.Identity, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.looked++
	if who, ok := k.known[text]; ok || k.err != nil {
		return who, k.err
	}
	return key.Identity{}, &sluice.Error{Code: sluice.CodeUnauthorized, Index: -1}
}

func (k *keys) Admit(key.Identity) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.slow
}

func (k *keys) Spend(_ key.Identity, items int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.spent += items
}

// change changes what is known of keys.
func (k *keys) change(f func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	f()
}

const (
	goodKey  = "the-good-key"
	otherKey = "a-key-for-something-else"
)

// rig is a server with what is behind it.
type rig struct {
	t testing.TB
	*Server
	memory *memory
	keys   *keys
	log    *lockedBuffer
}

type lockedBuffer = logtest.Buffer

// open is for most tests: who is on this machine needs no key.
func open(o *Options) { o.OpenLoopback = true }

// start starts a server on a free port.
func start(t testing.TB, change ...func(*Options)) *rig {
	t.Helper()
	r := &rig{t: t, memory: &memory{}, log: &lockedBuffer{}}
	r.keys = &keys{known: map[string]key.Identity{
		goodKey:  key.NewIdentity("good", "good", []string{string(key.MessagesSend)}),
		otherKey: key.NewIdentity("other", "other", []string{string(key.EventsWrite)}),
	}}
	clock := sluice.SystemClock{}
	certificates, err := SelfSigned("mx.test", clock)
	if err != nil {
		t.Fatal(err)
	}
	options := Options{
		Hostname: "mx.test", MaxMessageBytes: 1 << 20, Certificates: certificates, Authority: r.keys,
		Submitter: func() mail.Submitter { return r.memory }, Clock: clock,
		Log: slog.New(slog.NewTextHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	for _, f := range change {
		f(&options)
	}
	r.Server = New(options)
	if err := r.Start(t.Context(), "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.stop)
	return r
}

func (r *rig) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := r.Stop(ctx); err != nil && !errors.Is(err, net.ErrClosed) {
		r.t.Error(err)
	}
	all := int64(maxHeldBytes)
	if r.Receiver != nil {
		all = maxReceivedHeldBytes
	}
	if left := r.held.Left(); left != all {
		r.t.Errorf("%d bytes of messages are still held", all-left)
	}
	if log := r.log.String(); strings.Contains(log, "panic") {
		r.t.Errorf("the log has a panic:\n%s", log)
	}
}

// client is a client that says exactly what it is told.
type client struct {
	t testing.TB
	net.Conn
	r *bufio.Reader
}

// dial connects and reads the greeting.
func (r *rig) dial() *client {
	r.t.Helper()
	c := r.silent()
	c.want("220")
	return c
}

func (r *rig) silent() *client {
	r.t.Helper()
	n, err := net.Dial("tcp", r.Address())
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { n.Close() })
	return wrap(r.t, n)
}

func wrap(t testing.TB, n net.Conn) *client {
	t.Helper()
	if err := n.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return &client{t, n, bufio.NewReader(n)}
}

// send writes bytes as they are.
func (c *client) send(text string) {
	c.t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		c.t.Fatalf("write %.40q: %v", text, err)
	}
}

// reply reads a reply with all its lines; "": the connection has ended.
func (c *client) reply() string {
	c.t.Helper()
	var all strings.Builder
	for {
		line, err := c.r.ReadString('\n')
		if err != nil {
			if n, ok := errors.AsType[net.Error](err); ok && n.Timeout() {
				c.t.Fatalf("no reply came, after %q", all.String())
			}
			return all.String()
		}
		if !strings.HasSuffix(line, "\r\n") || len(line) < 6 || len(line) > 512 {
			c.t.Fatalf("%q is no line of a reply", line)
		}
		all.WriteString(line)
		if line[3] == ' ' {
			return all.String()
		}
	}
}

// want reads a reply that begins so.
func (c *client) want(code string) string {
	c.t.Helper()
	got := c.reply()
	if !strings.HasPrefix(got, code) || code == "" && got != "" {
		c.t.Fatalf("answered %q, want %q", got, code)
	}
	return got
}

// say sends a line and wants a reply that begins so.
func (c *client) say(line, code string) string {
	c.t.Helper()
	c.send(line + "\r\n")
	got := c.reply()
	if !strings.HasPrefix(got, code) || code == "" && got != "" {
		c.t.Fatalf("%.80q: answered %q, want %q", line, got, code)
	}
	return got
}

// replies sends bytes and returns the codes of all replies until there are as
// many, or the connection ends: "250 354 -".
func (c *client) replies(bytes string, most int) string {
	c.t.Helper()
	c.send(bytes)
	var codes []string
	for len(codes) < most {
		got := c.reply()
		if got == "" {
			codes = append(codes, "-")
			break
		}
		codes = append(codes, got[:3])
	}
	return strings.Join(codes, " ")
}

const (
	hello     = "EHLO me.test\r\n"
	envelope  = "MAIL FROM:<ann@example.com>\r\nRCPT TO:<ben@example.com>\r\nDATA\r\n"
	plainMail = "From: ann@example.com\r\nSubject: hi\r\n\r\nhello\r\n"
)

// await waits until something is so.
func await(t testing.TB, what string, so func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !so(); {
		if time.Now().After(end) {
			t.Fatalf("in vain: %s", what)
		}
		<-time.After(time.Millisecond)
	}
}

// refusedOf returns how often something was refused for a reason.
func (r *rig) refusedOf(why string) int64 {
	n, ok := r.Stats().Refused[why]
	if !ok {
		r.t.Fatalf("there is no reason %q", why)
	}
	return n
}

func recipients(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "RCPT TO:<u%d@example.com>\r\n", i)
	}
	return b.String()
}
