package land

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice"
	"sluice/flow"
	"sluice/ingest/spill"
	"sluice/mail"
	"sluice/test/clocktest"
	"sluice/track/link"
)

const message = "019341d2f0a1b2c3d4e5f60718293a4b"

var place = link.Place{Partition: 3, Message: message, Send: 1, Link: 2}

// logs keep what is appended, or refuse it.
type logs struct {
	mu      sync.Mutex
	events  []sluice.Event
	parts   []int
	failing error
	hangs   bool
	tries   int
}

func (l *logs) Write(ctx context.Context, parts ...flow.Part) error {
	l.mu.Lock()
	hangs, failing := l.hangs, l.failing
	l.tries++
	l.mu.Unlock()
	if hangs {
		<-ctx.Done()
		return ctx.Err()
	}
	if failing != nil {
		return failing
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range parts {
		var e sluice.Event
		if err := sluice.DecodeEvent(p.Items[sluice.ItemHeaderBytes:], &e); err != nil {
			return err
		}
		l.events, l.parts = append(l.events, e), append(l.parts, p.Partition)
	}
	return nil
}

func (l *logs) set(failing error, hangs bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failing, l.hangs = failing, hangs
}

// kit is a server on logs of the test.
type kit struct {
	*Server
	logs  *logs
	keys  *link.Keys
	spill string
	ping  atomic.Pointer[error]
}

func newKit(t testing.TB) *kit {
	t.Helper()
	keys, err := link.NewKeys("https://t.example.com", []byte(strings.Repeat("k", 32)))
	if err != nil {
		t.Fatal(err)
	}
	k := &kit{logs: &logs{}, keys: keys, spill: filepath.Join(t.TempDir(), "spill")}
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	r := NewRecorder()
	r.Writer, r.Clock, r.Log, r.Accepted = k.logs, sluice.SystemClock{}, log, &atomic.Int64{}
	r.Spill = spill.Open(k.spill, "4711", r.Clock)
	r.Ping = func(context.Context) error {
		if err := k.ping.Load(); err != nil {
			return *err
		}
		return nil
	}
	page := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	k.Server = New(Options{Keys: keys, Recorder: r, Judge: NewJudge(nil), Page: page, Partitions: 8,
		Proxies: []netip.Prefix{netip.MustParsePrefix("192.0.2.1/32")}, Clock: r.Clock, Log: log})
	return k
}

// ask answers a request without a network.
func (k *kit) ask(r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	k.ServeHTTP(w, r)
	return w
}

func (k *kit) pixel(t testing.TB) string {
	t.Helper()
	u, err := k.keys.Pixel(place)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimPrefix(u, k.keys.Base())
}

func (k *kit) click(t testing.TB, target string) string {
	t.Helper()
	u, err := k.keys.Click(place, target)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimPrefix(u, k.keys.Base())
}

const browser = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/141.0.0.0 Safari/537.36"

func request(method, path, agent string) *http.Request {
	r := httptest.NewRequest(method, path, nil)
	if r.Header.Set("User-Agent", agent); agent == "" {
		r.Header.Del("User-Agent")
	}
	return r
}

// What is answered, and what becomes of it.
func TestAnswers(t *testing.T) {
	k := newKit(t)
	w := k.ask(request("GET", k.pixel(t), browser))
	if w.Code != 200 || w.Body.Len() != 43 || w.Header().Get("Content-Type") != "image/gif" || w.Header().Get("Content-Length") != "43" {
		t.Errorf("pixel: %d, %d bytes, %v", w.Code, w.Body.Len(), w.Header())
	}
	target := "https://shop.example/a?b=1&c=%2F+ü"
	for _, method := range []string{"GET", "HEAD"} {
		w = k.ask(request(method, k.click(t, target), browser))
		if w.Code != 302 || w.Header().Get("Location") != "https://shop.example/a?b=1&c=%2F+%C3%BC" || w.Body.Len() != 0 {
			t.Errorf("%s of a click: %d, %v, %q", method, w.Code, w.Header(), w.Body)
		}
		for name, want := range map[string]string{"Cache-Control": "no-store", "Referrer-Policy": "no-referrer", "X-Content-Type-Options": "nosniff"} {
			if w.Header().Get(name) != want {
				t.Errorf("%s is %q", name, w.Header().Get(name))
			}
		}
	}
	if w := k.ask(request("POST", k.click(t, target), browser)); w.Code != 405 || w.Header().Get("Allow") != "GET, HEAD" {
		t.Errorf("POST of a click: %d %v", w.Code, w.Header())
	}
	if w := k.ask(request("GET", link.PagePath+"x", browser)); w.Code != http.StatusTeapot {
		t.Errorf("a page: %d", w.Code)
	}
	wants := []struct{ name, properties string }{
		{"opened", `{"send":"` + message + `.1","machine":false,"ip":"192.0.2.1","user_agent":"` + browser + `"}`},
		{"clicked", `{"send":"` + message + `.1","link":2,"url":"` + target + `","machine":false,"ip":"192.0.2.1","user_agent":"` + browser + `"}`},
		{"clicked", `{"send":"` + message + `.1","link":2,"url":"` + target + `","machine":true,"reason":"head","ip":"192.0.2.1","user_agent":"` + browser + `"}`},
	}
	if len(k.logs.events) != len(wants) {
		t.Fatalf("%d events, want %d", len(k.logs.events), len(wants))
	}
	ids := map[string]bool{}
	for i, e := range k.logs.events {
		p, ok := mail.ReactionPartition(e.ID)
		if ids[e.ID] || !ok || p != 3 || k.logs.parts[i] != 3 || e.Kind != sluice.KindMail || e.Origin != sluice.OriginOwn || e.TimeMillis == 0 || e.Message != message {
			t.Errorf("event %d: %+v", i, e)
		}
		ids[e.ID] = true
		if e.Name != wants[i].name || e.Properties != wants[i].properties {
			t.Errorf("event %d: %s %s\nwant %s", i, e.Name, e.Properties, wants[i].properties)
		}
	}
}

// Whose request it is, a proxy that is named says.
func TestProxied(t *testing.T) {
	k := newKit(t)
	r := request("GET", k.pixel(t), browser)
	r.Header.Set("X-Forwarded-For", "6.6.6.6, 203.0.113.9")
	k.ask(r)
	if p := k.logs.events[0].Properties; !strings.Contains(p, `"ip":"203.0.113.9"`) {
		t.Error(p)
	}
}

// What was not made here leads nowhere, says nothing and leaves nothing behind.
func TestForged(t *testing.T) {
	k := newKit(t)
	pixel, click := k.pixel(t), k.click(t, "https://shop.example/")
	token := strings.TrimSuffix(strings.TrimPrefix(pixel, link.OpenPath), ".gif")
	outside := place
	outside.Partition = 8
	u, err := k.keys.Pixel(outside)
	if err != nil {
		t.Fatal(err)
	}
	paths := []string{
		"/", "/t/", "/t/o/", "/t/c/", "/t/o/.gif", "/t/o/" + token, "/t/o/" + token[:58] + ".gif", "/t/o/x" + token[1:] + ".gif", "/t/o/" + token + "A.gif",
		"/t/c/" + token + "?u=https%3A%2F%2Fshop.example%2F", strings.Replace(click, "shop", "evil", 1), strings.TrimSuffix(click, "%2F"), strings.Split(click, "?")[0],
		click[:len(click)-1], strings.Replace(click, "?u=", "?u=https%3A%2F%2Fevil.example&u=", 1), "/t/c/" + strings.Repeat("x", 59) + "?u=javascript%3Aalert(1)",
		strings.TrimPrefix(u, k.keys.Base()), "/t/o/../o/" + token + ".gif", "//t/o/" + token + ".gif",
	}
	for _, path := range paths {
		r := request("GET", "http://t.example.com/", browser)
		p, query, _ := strings.Cut(path, "?")
		r.URL.Path, r.URL.RawQuery = p, query
		w := k.ask(r)
		if w.Code != 404 || w.Body.Len() != 0 || w.Header().Get("Location") != "" {
			t.Errorf("%s: %d %v %q", path, w.Code, w.Header(), w.Body)
		}
	}
	if len(k.logs.events) != 0 || k.Stats().Refused != int64(len(paths)) {
		t.Errorf("%d events, %+v", len(k.logs.events), k.Stats())
	}
}

// No target that could be signed splits the header or leads to another host than it
// says.
func TestTargets(t *testing.T) {
	k := newKit(t)
	for target, want := range map[string]string{
		"https://a.example/\r\nSet-Cookie: x=y": "", "https://a.example/\n": "", "https://a.example/\x00": "", "javascript:alert(1)": "",
		"//evil.example/": "", "https:/evil.example": "", "ftp://a.example/": "", "data:text/html,x": "", "https://": "", "": "",
		"https://a.example\\@evil.example/": "", "https://a b.example/": "", `https://a.example\sale`: "",
		"https://a.example/sale/50%-off": "https://a.example/sale/50%-off", "https://a.example/caf%u00e9": "https://a.example/caf%u00e9", "https://a.example/p#100%": "https://a.example/p#100%",
		"https://bücher.example?q=%": "https://b%C3%BCcher.example?q=%",
		"HTTPS://a.example/x y":      "HTTPS://a.example/x%20y", "http://a.example/?q=%0d%0a": "http://a.example/?q=%0d%0a", "https://a.example/\x80": "https://a.example/%80",
	} {
		w := k.ask(request("GET", k.click(t, target), browser))
		got := w.Header().Get("Location")
		if got != want || (w.Code == 302) != (want != "") {
			t.Errorf("%q: %d to %q, want %q", target, w.Code, got, want)
		}
	}
}

// While Redis does not answer, the event goes to a file within 250 ms, and the next
// ones at once. They are released when it answers, and nothing is lost.
func TestSpills(t *testing.T) {
	for name, away := range map[string]struct {
		err   error
		hangs bool
	}{"hangs": {nil, true}, "refuses": {errors.New("connection refused"), false}} {
		t.Run(name, func(t *testing.T) {
			k := newKit(t)
			clock := clocktest.At(time.Now()) // which stands: a busy machine tries no more often
			k.o.Clock, k.o.Recorder.Clock = clock, clock
			k.logs.set(away.err, away.hangs)
			gone := errors.New("away")
			k.ping.Store(&gone)
			for n := range 20 {
				began := time.Now()
				if w := k.ask(request("GET", k.pixel(t), browser)); w.Code != 200 || w.Body.Len() != 43 {
					t.Fatalf("%d, %d bytes", w.Code, w.Body.Len())
				}
				if took := time.Since(began); took > 3*time.Minute {
					t.Errorf("open %d took %s", n, took)
				}
			}
			r := k.o.Recorder
			if s := k.Stats(); s.Spilled != 20 || s.Lost != 0 || k.logs.tries != 1 {
				t.Errorf("%+v after %d tries", s, k.logs.tries)
			}
			r.release(t.Context())
			if n := spilled(t, k.spill); n != -1 {
				t.Errorf("%d events can be read while Redis is away", n)
			}
			k.ping.Store(nil)
			k.logs.set(nil, false)
			r.release(t.Context())
			k.ask(request("GET", k.pixel(t), browser))
			if len(k.logs.events) != 1 {
				t.Error("Redis is back, and is not tried")
			}
			r.Clock = clocktest.At(time.Now().Add(fileQuiet))
			r.release(t.Context())
			if n := spilled(t, k.spill); n != 20 {
				t.Errorf("%d events in the file, want 20", n)
			}
		})
	}
}

// refusing is a kit on a clock, whose Redis answers a ping all the time, whatever becomes
// of writes.
type refusing struct {
	*kit
	t     *testing.T
	clock *clocktest.Clock
	said  strings.Builder
}

func newRefusing(t *testing.T) *refusing {
	k := &refusing{kit: newKit(t), t: t, clock: clocktest.At(time.UnixMilli(1_780_000_000_000))}
	r := k.o.Recorder
	r.Clock, r.Log, k.o.Clock = k.clock, slog.New(slog.NewTextHandler(&k.said, nil)), k.clock
	return k
}

// open has a mail opened, while writes fail; nil: they succeed.
func (k *refusing) open(failing error) {
	k.t.Helper()
	k.logs.set(failing, false)
	if w := k.ask(request("GET", k.pixel(k.t), browser)); w.Code != 200 {
		k.t.Fatal(w.Code)
	}
}

func (k *refusing) pass(d time.Duration) {
	k.clock.Move(d)
	k.o.Recorder.release(k.t.Context())
}

// files says how many files were ended, which the log of the program says of each.
func (k *refusing) files(want int) {
	k.t.Helper()
	all, err := spill.List(k.spill)
	if err != nil {
		k.t.Fatal(err)
	}
	ended := 0
	for _, f := range all {
		if one, err := spill.OpenFile(f.Path); err == nil {
			ended++
			_ = one.Close()
		}
	}
	if ended != want || strings.Count(k.said.String(), "replayed") != want {
		k.t.Errorf("%d files were ended, want %d\n%s", ended, want, k.said.String())
	}
}

// A full log is no Redis that is away: it answers a ping all the time. The file is ended
// when the logs take events again for a while, or after minutes, and not each second; and
// the log of the program says nothing else.
func TestSpillsWhileFull(t *testing.T) {
	k := newRefusing(t)
	open, pass, files := k.open, k.pass, k.files
	full := &flow.LogFullError{}
	for range 60 {
		open(full)
		pass(time.Second)
	}
	files(0)
	for range 60 { // the log of one partition is full, those of others are not
		open(full)
		open(nil)
		pass(time.Second)
	}
	files(0)
	pass(fileQuiet) // one was written last
	files(1)
	open(full)
	for range 20 { // nobody comes: nothing is known
		pass(10 * time.Second)
	}
	files(1)
	pass(fileHold)
	files(2)
	open(full)
	open(errors.New("connection refused"))
	pass(time.Second)
	files(2)
	pass(fileQuiet) // Redis was away, and is back, and nobody comes
	files(3)
}

// A Redis that answers a ping and takes no writes costs a file in some minutes, and not one
// each second. What is in the file is replayed when writes succeed for a while.
func TestSpillsWhileRefused(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		full bool // it is known that Redis answers
	}{
		"out of memory":    {fmt.Errorf("append: %w", sluice.ErrFull), true},
		"too few replicas": {fmt.Errorf("append: %w", flow.ErrReplicas), true},
		"read-only":        {errors.New("READONLY You can't write against a read only replica."), false},
	} {
		t.Run(name, func(t *testing.T) {
			k := newRefusing(t)
			for range int(fileHold/time.Second) - 1 {
				k.open(c.err)
				k.pass(time.Second)
			}
			k.files(0)
			k.open(c.err)
			k.pass(time.Second)
			k.files(1)
			for range 20 { // now and then there is room
				k.open(c.err)
				k.pass(time.Second)
				k.open(nil)
				k.pass(time.Second)
			}
			k.files(1)
			k.pass(fileQuiet)
			k.files(2)
			k.open(c.err)
			k.pass(fileQuiet) // nobody comes
			k.files(map[bool]int{true: 2, false: 3}[c.full])
			k.pass(fileHold)
			k.files(3)
		})
	}
}

// spilled returns how many events the released file has; -1: it is held.
func spilled(t *testing.T, dir string) int {
	t.Helper()
	files, err := spill.List(dir)
	if err != nil || len(files) != 1 {
		t.Fatalf("%v %v", files, err)
	}
	r, err := spill.OpenFile(files[0].Path)
	if err != nil {
		return -1
	}
	defer r.Close()
	ids := map[string]bool{}
	for {
		line, err := r.Next()
		if err == io.EOF {
			return len(ids)
		}
		var e sluice.Event
		if err != nil || spill.Decode(line.Text, &e) != nil || e.Origin != sluice.OriginOwn {
			t.Fatal(err)
		}
		ids[e.ID] = true
	}
}

// With neither Redis nor a disk the visitor is answered, and the loss is known.
func TestLost(t *testing.T) {
	k := newKit(t)
	k.logs.set(errors.New("connection refused"), false)
	k.o.Recorder.Spill = spill.Open(filepath.Join("/dev/null", "spill"), "4711", sluice.SystemClock{})
	began := time.Now()
	if w := k.ask(request("GET", k.click(t, "https://shop.example/"), browser)); w.Code != 302 {
		t.Errorf("%d", w.Code)
	}
	if s := k.Stats(); s.Lost != 1 || s.Spilled != 0 || s.Clicks != 1 {
		t.Errorf("%+v", s)
	}
	r := k.o.Recorder
	if text := r.LostSummary(began.Add(-time.Second)); !strings.HasPrefix(text, "1 opens and clicks were lost") {
		t.Errorf("%q", text)
	}
	if text := r.LostSummary(began.Add(time.Hour)); text != "" {
		t.Errorf("an hour later: %q", text)
	}
}

// Requests with garbage leave no memory behind.
func TestGarbage(t *testing.T) {
	k := newKit(t)
	r := request("GET", "/t/o/x.gif", browser)
	w := httptest.NewRecorder()
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	const requests = 100_000 // to keep a path of each would take six times the bound
	for i := range requests {
		r.URL.Path = fmt.Sprintf("/t/o/%059d.gif", i)
		k.ServeHTTP(w, r)
	}
	if grown := int64(heap()) - int64(before); grown > 1<<20 || k.Stats().Refused != requests {
		t.Errorf("%d bytes more than before, %+v", grown, k.Stats())
	}
}

// The listener speaks HTTP, bounds heads, and stops.
func TestListens(t *testing.T) {
	k := newKit(t)
	if err := k.Start(t.Context(), "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	say := func(text string) string {
		t.Helper()
		c, err := net.Dial("tcp", k.Address())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := io.WriteString(c, text); err != nil {
			t.Fatal(err)
		}
		answer, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		return answer.Status
	}
	pixel := k.pixel(t)
	for text, want := range map[string]string{
		"GET " + pixel + " HTTP/1.1\r\nHost: t.example.com\r\nUser-Agent: " + browser + "\r\n\r\n":              "200 OK",
		"HEAD " + pixel + " HTTP/1.1\r\nHost: t.example.com\r\n\r\n":                                            "200 OK",
		"GET " + pixel + " HTTP/1.0\r\n\r\n":                                                                    "200 OK",
		"GET " + pixel + " HTTP/1.1\r\nHost: t.example.com\r\nContent-Length: 9\r\n\r\n":                        "200 OK",
		"GET / HTTP/1.1\r\nHost: t.example.com\r\nX: " + strings.Repeat("x", maxHeaderBytes+8<<10) + "\r\n\r\n": "431 Request Header Fields Too Large",
		"GET /t/c/" + strings.Repeat("x", 59) + "?u=a%0d%0ab HTTP/1.1\r\nHost: t\r\n\r\n":                       "404 Not Found",
	} {
		if got := say(text); got != want {
			t.Errorf("%.60q: %s, want %s", text, got, want)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	if err := k.Stop(ctx); err != nil {
		t.Error(err)
	}
	if _, err := net.Dial("tcp", k.Address()); err == nil {
		t.Error("it still listens")
	}
}

func BenchmarkAnswer(b *testing.B) {
	k := newKit(b)
	static := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "image/gif")
		_, _ = w.Write(pixelBytes)
	})
	for name, h := range map[string]http.Handler{"static": static, "pixel": k.Server} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			r := request("GET", k.pixel(b), browser)
			for b.Loop() {
				h.ServeHTTP(httptest.NewRecorder(), r)
				k.logs.events, k.logs.parts = k.logs.events[:0], k.logs.parts[:0]
			}
		})
	}
}
