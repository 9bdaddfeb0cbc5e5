package chaos

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
)

const (
	// floodConns is how many connections the floods open at once: ten times
	// what the program keeps.
	floodConns = 10_000

	// servedMeanwhile is how many requests of each healthy client have to be
	// answered while the bad ones are at it. servedWithin bounds the wait for them:
	// other tests keep the machine busy, too.
	servedMeanwhile = 40
	servedWithin    = 2 * settleWithin

	// answeredWithin is how long a healthy client waits for an answer. The
	// flood before it in the kernel's queue takes some 3 s of it. It takes five
	// times as much on a machine that is busy with other things.
	answeredWithin = 45 * time.Second

	// maxResidentKB bounds the program's memory, whatever comes. The bodies of
	// requests may hold 256 MB, and the collector lets as much again lie around.
	maxResidentKB = 512 << 10
)

// healthy are clients that behave, beside those that do not. One asks for the
// health on a new connection each time. One sends events on new connections,
// and one on a connection that it keeps.
type healthy struct {
	t      *testing.T
	url    string
	stop   context.CancelFunc
	wait   sync.WaitGroup
	served [3]atomic.Int64
}

func startHealthy(t *testing.T, url string) *healthy {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	h := &healthy{t: t, url: url, stop: cancel}
	fresh := &http.Client{Timeout: answeredWithin, Transport: &http.Transport{DisableKeepAlives: true}}
	kept := &http.Client{Timeout: answeredWithin, Transport: &http.Transport{}}
	t.Cleanup(kept.CloseIdleConnections)
	for who, client := range []*http.Client{fresh, fresh, kept} {
		h.wait.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				h.ask(who, client, n)
				pause(ctx, 5*time.Millisecond)
			}
		})
	}
	return h
}

// quietAtLeast is for how long a connection says nothing before the program closes it for
// another one: on a busy machine a client that behaves may take as long to begin.
const quietAtLeast = 250 * time.Millisecond

// ask makes a request until it is answered. One that does not come through because others
// take up the program is an error at once. One for which Redis was late is repeated, and so
// is one whose client itself may have been late.
func (h *healthy) ask(who int, client *http.Client, n int) {
	for limit := time.Now().Add(answeredWithin); ; pause(h.t.Context(), 5*time.Millisecond) {
		said, again := h.askOnce(who, client, n)
		if said == "" {
			h.served[who].Add(1)
			return
		}
		if !again || time.Now().After(limit) {
			h.t.Errorf("healthy client %d: %s", who, said)
			return
		}
	}
}

// askOnce says what is wrong with the answer, "" if nothing is, and whether to ask again.
func (h *healthy) askOnce(who int, client *http.Client, n int) (wrong string, again bool) {
	r, err := http.NewRequest("GET", h.url+"/healthz", nil)
	want := http.StatusOK
	if who > 0 {
		r, err = http.NewRequest("POST", h.url+"/v1/events", strings.NewReader(`[{"event":"e"},{"event":"f"}]`))
		want = http.StatusAccepted
	}
	if err != nil {
		panic(err)
	}
	r.Header.Set("Authorization", "Bearer "+httpRoot)
	if who > 0 {
		r.Header.Set("Idempotency-Key", fmt.Sprintf("%s-%d-%d", h.t.Name(), who, n))
	}
	began := time.Now()
	res, err := client.Do(r)
	if err != nil {
		closed := errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
		return err.Error(), closed && time.Since(began) >= quietAtLeast
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode == want {
		return "", false
	}
	late := res.StatusCode == http.StatusServiceUnavailable && bytes.Contains(text, []byte("the log cannot be written now"))
	return fmt.Sprintf("%d %s %v", res.StatusCode, text, err), late
}

// rival is a kind of bad client: go runs until ctx ends or it has done what it does.
type rival struct {
	name string
	run  func(ctx context.Context, r *ring)
}

// ring is where bad clients meet the program.
type ring struct {
	t    *testing.T
	addr string

	// ready is closed by the rival when it is at its worst; what the healthy
	// are served counts from then on.
	ready chan struct{}
}

var floodSources atomic.Int64

// dial connects from one of several loopback addresses, for one alone has too
// few ports for many floods.
func (r *ring) dial(ctx context.Context) net.Conn {
	from := net.IPv4(127, 0, 1, byte(2+floodSources.Add(1)%16))
	d := net.Dialer{Timeout: settleWithin, LocalAddr: &net.TCPAddr{IP: from}}
	c, err := d.DialContext(ctx, "tcp", r.addr)
	if err != nil {
		if ctx.Err() == nil {
			r.t.Errorf("a bad client cannot connect: %v", err)
		}
		return nil
	}
	return c
}

// hold opens connections, writes `first` to each, then keeps writing `again` to
// all of them, and never reads.
func hold(conns int, first, again string) func(context.Context, *ring) {
	return func(ctx context.Context, r *ring) {
		all := make([]net.Conn, conns)
		var wait sync.WaitGroup
		for part := range 16 {
			wait.Go(func() {
				for i := part; i < conns && ctx.Err() == nil; i += 16 {
					if all[i] = r.dial(ctx); all[i] != nil {
						_ = all[i].SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
						_, _ = io.WriteString(all[i], first)
					}
				}
			})
		}
		wait.Wait()
		close(r.ready)
		for ctx.Err() == nil && again != "" {
			for _, c := range all {
				if c != nil && ctx.Err() == nil {
					_ = c.SetWriteDeadline(time.Now().Add(time.Millisecond))
					_, _ = io.WriteString(c, again)
				}
			}
			pause(ctx, 50*time.Millisecond)
		}
		<-ctx.Done()
		for _, c := range all {
			if c != nil {
				_ = c.Close()
			}
		}
	}
}

// repeat has several clients send the same, read as much of the answer as they
// want, and hang up, again and again.
func repeat(clients, readBytes int, send func(c net.Conn) error) func(context.Context, *ring) {
	return func(ctx context.Context, r *ring) {
		close(r.ready)
		var wait sync.WaitGroup
		for range clients {
			wait.Go(func() {
				for ctx.Err() == nil {
					c := r.dial(ctx)
					if c == nil {
						return
					}
					_ = c.SetDeadline(time.Now().Add(2 * requestWithin))
					if send(c) == nil && readBytes > 0 {
						_, _ = c.Read(make([]byte, readBytes))
					}
					_ = c.Close()
				}
			})
		}
		wait.Wait()
	}
}

func head(lines ...string) string {
	return "POST /v1/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + httpRoot + "\r\n" + strings.Join(append(lines, "", ""), "\r\n")
}

func text(s string) func(net.Conn) error {
	return func(c net.Conn) error {
		_, err := io.WriteString(c, s)
		return err
	}
}

// large sends 100 MB, whatever is said to that, as one body or in chunks.
func large(start string, chunked bool) func(net.Conn) error {
	piece := bytes.Repeat([]byte("["), 1<<20)
	return func(c net.Conn) error {
		if _, err := io.WriteString(c, start); err != nil {
			return err
		}
		for range 100 {
			if chunked {
				if _, err := fmt.Fprintf(c, "%x\r\n", len(piece)); err != nil {
					return err
				}
			}
			if _, err := c.Write(piece); err != nil {
				return err
			}
			if chunked {
				if _, err := io.WriteString(c, "\r\n"); err != nil {
					return err
				}
			}
		}
		return nil
	}
}

// packed returns a gzip and a zstd of a gigabyte of zeros, and a gzip of the
// gzip: 1 MB, 32 KB, and a few.
func packed(t *testing.T) (gz, zs, nested string) {
	t.Helper()
	zeros := make([]byte, 1<<20)
	var g, z, n bytes.Buffer
	gw, nw := gzip.NewWriter(&g), gzip.NewWriter(&n)
	zw, err := zstd.NewWriter(&z)
	if err != nil {
		t.Fatal(err)
	}
	for range 1024 {
		_, _ = gw.Write(zeros)
		_, _ = zw.Write(zeros)
	}
	if err := gw.Close(); err != nil {
		t.Fatal(err)
	}
	if err := zw.Close(); err != nil {
		t.Fatal(err)
	}
	_, _ = nw.Write(g.Bytes())
	if err := nw.Close(); err != nil {
		t.Fatal(err)
	}
	return g.String(), z.String(), n.String()
}

func rivals(t *testing.T) []rival {
	gz, zs, nested := packed(t)
	body := func(encoding, text string) string {
		return head("Content-Encoding: "+encoding, "Content-Length: "+strconv.Itoa(len(text))) + text
	}
	return []rival{
		{"silent connections", hold(floodConns, "", "")},
		{"connections kept after one request", hold(floodConns, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", "")},
		{"slow headers", hold(2000, "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: ", "x")},
		{"slow bodies", hold(2000, head("Content-Length: 1000000")+strings.Repeat("[", 20_000), "[")},
		{"slow bodies without a key", hold(2000, "POST /v1/events HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n", "[")},
		{"answers that the client does not read", hold(2000, strings.Repeat("GET /docs HTTP/1.1\r\nHost: localhost\r\n\r\n", 200), "")},
		{"half requests", repeat(16, 0, text(head("Content-Length: 1000")+`{"event":`))},
		{"half heads", repeat(16, 0, text("POST /v1/ev"))},
		{"100 MB", repeat(4, 512, large(head("Content-Length: 104857600"), false))},
		{"100 MB in chunks", repeat(4, 512, large(head("Transfer-Encoding: chunked"), true))},
		{"100 MB of no said length", repeat(4, 512, large(head(), false))},
		{"100 MB without a key", repeat(4, 512, large("POST /v1/events HTTP/1.1\r\nHost: localhost\r\nContent-Length: 104857600\r\n\r\n", false))},
		{"gzip bombs", repeat(8, 512, text(body("gzip", gz)))},
		{"zstd bombs", repeat(8, 512, text(body("zstd", zs)))},
		{"nested bombs", repeat(8, 512, text(body("gzip", nested)))},
		{"large headers", repeat(8, 512, text("GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: "+strings.Repeat("x", 4<<20)+"\r\n\r\n"))},
		{"many headers", repeat(8, 512, text("GET /healthz HTTP/1.1\r\nHost: localhost\r\n"+strings.Repeat("X: x\r\n", 200_000)+"\r\n"))},
		{"no HTTP", repeat(8, 512, text(strings.Repeat("\x16\x03\x01\xff\x00\r\n", 1000)))},
	}
}

// startAlone starts a program on an embedded Redis and SQLite and returns it
// and where it listens.
func startAlone(t *testing.T) (*program, string) {
	t.Helper()
	w := &world{t: t, dir: t.TempDir()}
	config := fmt.Sprintf("listen: 127.0.0.1:0\ndata: %s\npartitions: 4\nroot_key: %s\n", filepath.Join(w.dir, "data"), httpRoot)
	if err := os.WriteFile(filepath.Join(w.dir, "sluice.yaml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	p := w.start("")
	t.Cleanup(func() { // in order: the embedded Redis ends with it
		p.signal(syscall.SIGTERM)
		<-p.exited
	})
	return p, w.awaitListen()
}

// resident returns a line of the program's memory, in kB.
func (p *program) resident(t *testing.T, line string) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), line+":")
	fields := strings.Fields(rest)
	if len(fields) == 0 {
		t.Fatalf("no %s in\n%s", line, text)
	}
	n, err := strconv.Atoi(fields[0])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// files returns how many file descriptors the program has open.
func (p *program) files(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

// Whatever bad clients do, the program's memory stays bounded, its connections
// as well, and every request of those that behave is answered. Without room made
// by the quiet, silent connections and unread answers keep them out for longer
// than answeredWithin.
func TestBadClients(t *testing.T) {
	needFiles(t, floodConns+1000)
	p, url := startAlone(t)
	for _, bad := range rivals(t) {
		t.Run(bad.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			r := &ring{t: t, addr: strings.TrimPrefix(url, "http://"), ready: make(chan struct{})}
			h := startHealthy(t, url)
			var wait sync.WaitGroup
			wait.Go(func() { bad.run(ctx, r) })
			<-r.ready
			var before [3]int64
			for who := range before {
				before[who] = h.served[who].Load()
			}
			most := 0
			deadline := time.Now().Add(servedWithin)
			for who := 0; who < len(before); {
				if h.served[who].Load() >= before[who]+servedMeanwhile {
					who++
					continue
				}
				if time.Now().After(deadline) {
					t.Errorf("healthy client %d was answered %d times in %s", who, h.served[who].Load()-before[who], servedWithin)
					break
				}
				most = max(most, p.files(t))
				pause(ctx, 10*time.Millisecond)
			}
			h.stop()
			h.wait.Wait()
			cancel()
			wait.Wait()
			peak := p.resident(t, "VmHWM")
			t.Logf("at most %d files open, %d MB resident", most, peak>>10)
			if most > 1024+100 {
				t.Errorf("%d files open, want at most the 1024 connections and a few", most)
			}
			if peak > maxResidentKB {
				t.Errorf("%d kB resident, at most %d are allowed", peak, maxResidentKB)
			}
		})
	}
}

// needFiles makes sure that the test may open many files.
func needFiles(t *testing.T, n uint64) {
	t.Helper()
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if limit.Cur >= n {
		return
	}
	limit.Cur, limit.Max = n, max(limit.Max, n)
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatalf("this test opens %d files: %v; raise the hard limit (ulimit -Hn) before it", n, err)
	}
}
