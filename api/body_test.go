package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"sluice"
	"sluice/ingest"
	"sluice/lib/connlimit"
	"sluice/lib/key"
)

func TestSplit(t *testing.T) {
	tests := []struct {
		body  string
		form  form
		items []string
		wrong string
	}{
		{` {"a":1} `, formJSON, []string{`{"a":1}`}, ""},
		{"{\n\"a\":1\n}", formJSON, []string{"{\n\"a\":1\n}"}, ""},
		{"{\"a\":1} \r\n\n {\"b\":2}\nx\n", formJSON, []string{`{"a":1}`, `{"b":2}`, "x"}, ""}, // one a line, whatever its type says
		{"{\"a\":{\"b\":1}\n}\n{}", formJSON, []string{"{\"a\":{\"b\":1}\n}\n{}"}, ""},         // none, and no JSON either
		{`[]`, formJSON, nil, ""}, {" [ \n] ", formJSON, nil, ""},
		{`[{"a":[1,{"b":"],["}]} , {"c":"\"}"}]`, formJSON, []string{`{"a":[1,{"b":"],["}]}`, `{"c":"\"}"}`}, ""},
		{`[1,null,"a,b"]`, formJSON, []string{"1", "null", `"a,b"`}, ""},
		{`[{"a":1}{"b":2}]`, formJSON, []string{`{"a":1}{"b":2}`}, ""}, // one broken item
		{`[{"a":1]]`, formJSON, []string{`{"a":1]`}, ""},
		{"{\"a\":1}\r\n\n  {bad\n[1]", formLines, []string{`{"a":1}`, "{bad", "[1]"}, ""},
		{"", formJSON, nil, "empty"}, {" \n", formJSON, nil, "empty"}, {"\n \n", formLines, nil, "no line"},
		{"[", formJSON, nil, "cut off"}, {`[{"a":1}`, formJSON, nil, "cut off"}, {`[{"a":"1}]`, formJSON, nil, "cut off"},
		{`["\"]`, formJSON, nil, "cut off"}, {`[{}},{}]`, formJSON, nil, "not opened"},
		{`[{},]`, formJSON, nil, "no item 1"}, {`[,{}]`, formJSON, nil, "no item 0"}, {`[{}] x`, formJSON, nil, "follows"}, {`[][]`, formJSON, nil, "follows"},
		{"[" + strings.Repeat("1,", ingest.MaxRequestItems) + "1]", formJSON, nil, "more than 10000"},
		{strings.Repeat("1\n", ingest.MaxRequestItems+1), formLines, nil, "more than 10000"},
	}
	for _, tt := range tests {
		got, err := split(tt.body, tt.form, nil)
		if tt.wrong != "" {
			if err == nil || !strings.Contains(err.Error(), tt.wrong) {
				t.Errorf("%.40q: %v, want an error with %q", tt.body, err, tt.wrong)
			}
			continue
		}
		if err != nil || !slices.Equal(got, tt.items) {
			t.Errorf("%.40q: %q %v, want %q", tt.body, got, err, tt.items)
		}
	}
	if got, err := split("["+strings.Repeat("1,", ingest.MaxRequestItems-1)+"1]", formJSON, nil); err != nil || len(got) != ingest.MaxRequestItems {
		t.Errorf("%d items, %v", len(got), err)
	}
}

func TestFormOf(t *testing.T) {
	for contentType, want := range map[string]form{
		"": formJSON, "application/json": formJSON, "Application/JSON; charset=utf-8": formJSON,
		"application/x-www-form-urlencoded": formJSON, "application/x-ndjson": formLines, "application/jsonl;charset=UTF-8": formLines,
	} {
		if got, err := formOf(contentType); err != nil || got != want {
			t.Errorf("%q: %v %v", contentType, got, err)
		}
	}
	for _, contentType := range []string{"multipart/form-data; boundary=x", "application/xml", "///", "a"} {
		var e *statusError
		if _, err := formOf(contentType); !errors.As(err, &e) || e.status != http.StatusUnsupportedMediaType {
			t.Errorf("%q: %v", contentType, err)
		}
	}
}

func packGzip(t testing.TB, body []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(body); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func packZstd(t testing.TB, body []byte) []byte {
	t.Helper()
	w, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	return w.EncodeAll(body, nil)
}

// read reads and unpacks a body as the handler does, and checks that no memory
// stays taken.
func read(t testing.TB, packed []byte, encoding string) ([]byte, error) {
	t.Helper()
	b := connlimit.NewBudget(maxHeldBytes)
	u := newUnpacker()
	defer func() {
		if left := b.Left(); left != maxHeldBytes {
			t.Errorf("%d bytes stay taken", maxHeldBytes-left)
		}
	}()
	r, err := http.NewRequest("POST", "/", io.NopCloser(bytes.NewReader(packed)))
	if err != nil {
		t.Fatal(err)
	}
	r.ContentLength = -1
	body, err := readBody(r, b, maxEventsBytes)
	if err != nil {
		body.release()
		return nil, err
	}
	body, err = u.unpack(t.Context(), body, encoding)
	if err != nil {
		return nil, err
	}
	defer body.release()
	return bytes.Clone(body.bytes), nil
}

func TestUnpack(t *testing.T) {
	var events bytes.Buffer
	for i := range 9_000 {
		fmt.Fprintf(&events, `{"event":"open","email":"user%d@example.com","ts":%d}`+"\n", i*7919%1000, 1_700_000_000_000+i*i)
	}
	plain := events.Bytes()
	zeros := make([]byte, maxEventsBytes+1)
	tests := []struct {
		name, encoding string
		packed         []byte
		want           []byte
		code           sluice.Code
	}{
		{"plain", "", plain, plain, ""}, {"identity", "Identity", plain, plain, ""},
		{"gzip", "gzip", packGzip(t, plain), plain, ""}, {"x-gzip", "x-gzip", packGzip(t, plain), plain, ""},
		{"zstd", "zstd", packZstd(t, plain), plain, ""},
		{"two gzips", "gzip", append(packGzip(t, plain), packGzip(t, plain)...), append(slices.Clone(plain), plain...), ""},
		{"empty", "", nil, []byte{}, ""},
		{"unknown", "br", plain, nil, sluice.CodeInvalid}, {"twice", "gzip, gzip", plain, nil, sluice.CodeInvalid},
		{"no gzip", "gzip", plain, nil, sluice.CodeInvalid}, {"no zstd", "zstd", plain, nil, sluice.CodeInvalid},
		{"empty gzip", "gzip", nil, nil, sluice.CodeInvalid},
		{"cut gzip", "gzip", packGzip(t, plain)[:5000], nil, sluice.CodeInvalid},
		{"cut zstd", "zstd", packZstd(t, plain)[:5000], nil, sluice.CodeInvalid},
		{"large", "", zeros, nil, sluice.CodeTooLarge},
		{"gzip bomb", "gzip", packGzip(t, zeros), nil, sluice.CodeTooLarge},
		{"zstd bomb", "zstd", packZstd(t, zeros), nil, sluice.CodeTooLarge},
		{"small bomb", "gzip", packGzip(t, zeros[:4<<20]), nil, sluice.CodeTooLarge},
		{"just packed well", "gzip", packGzip(t, zeros[:freeUnpackBytes]), zeros[:freeUnpackBytes], ""},
		// RFC 8878: a frame that asks for a window of 2 GiB, and holds one byte.
		{"zstd window", "zstd", []byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xa8, 0x09, 0x00, 0x00, 'a'}, nil, sluice.CodeTooLarge},
	}
	for _, tt := range tests {
		got, err := read(t, tt.packed, tt.encoding)
		var e *sluice.Error
		if errors.As(err, &e) != (tt.code != "") || e != nil && e.Code != tt.code || !bytes.Equal(got, tt.want) {
			t.Errorf("%s: %d bytes, %v; want %d bytes, %s", tt.name, len(got), err, len(tt.want), tt.code)
		}
	}
}

// FuzzBody: each input is read within its bounds or refused, and memory is
// given back. What is an array of JSON is cut where its items are.
func FuzzBody(f *testing.F) {
	seed := []byte(`[{"event":"open","a":"],\""}, {"b":[{}]} ,3]`)
	f.Add(seed, uint8(0))
	f.Add(packGzip(f, seed), uint8(1))
	f.Add(packZstd(f, seed), uint8(2))
	f.Add([]byte("{}\n{}\n"), uint8(3))
	f.Add([]byte("\v"), uint8(0)) // space to Unicode, none to JSON
	f.Add([]byte(`[{"a":"\\"},"\"]`), uint8(0))
	f.Fuzz(func(t *testing.T, packed []byte, how uint8) {
		body, err := read(t, packed, []string{"", "gzip", "zstd", ""}[how%4])
		if err != nil {
			var e *sluice.Error
			if !errors.As(err, &e) || e.Message == "" {
				t.Fatalf("an error nobody can be told: %v", err)
			}
			return
		}
		kind := formJSON
		if how%4 == 3 {
			kind = formLines
		}
		items, err := split(string(body), kind, nil)
		size := 0
		for _, item := range items {
			size += len(item)
			if item == "" || item != strings.Trim(item, " \t\r\n") {
				t.Fatalf("item %q", item)
			}
		}
		if size > len(body) {
			t.Fatalf("items of %d bytes out of %d", size, len(body))
		}
		var want []json.RawMessage
		if kind != formJSON || !json.Valid(body) || json.Unmarshal(body, &want) != nil || want == nil || len(want) > ingest.MaxRequestItems {
			return
		}
		if err != nil || len(items) != len(want) {
			t.Fatalf("%q: %q %v, want %q", body, items, err, want)
		}
		for i := range want {
			if items[i] != string(want[i]) {
				t.Fatalf("%q: item %d is %q, want %q", body, i, items[i], want[i])
			}
		}
	})
}

// The memory of all bodies together is bounded; who is beyond it is told so.
func TestBudget(t *testing.T) {
	b := connlimit.NewBudget(1 << 20)
	r, err := http.NewRequest("POST", "/", io.NopCloser(bytes.NewReader(make([]byte, 2<<20))))
	if err != nil {
		t.Fatal(err)
	}
	buf, err := readBody(r, b, maxEventsBytes)
	if !errors.Is(err, errBusy) {
		t.Fatalf("got %v, want busy", err)
	}
	buf.release()
	if left := b.Left(); left != 1<<20 {
		t.Errorf("%d bytes left", left)
	}
}

// endless is a body without an end, which counts what is read of it.
type endless struct{ read int }

func (z *endless) Read(b []byte) (int, error) {
	clear(b)
	z.read += len(b)
	return len(b), nil
}

// A body is read up to the bound of its call, and unpacked up to it: what is longer takes no
// memory before it is refused.
func TestABodyIsBoundedByItsCall(t *testing.T) {
	const most = 4 << 10
	s := New("", &program{}, slog.New(slog.DiscardHandler), Options{})
	long := &endless{}
	for name, r := range map[string]*http.Request{
		"endless":     {Body: io.NopCloser(long), ContentLength: -1},
		"as it says":  {Body: io.NopCloser(long), ContentLength: most + 1},
		"once packed": {Body: io.NopCloser(bytes.NewReader(packGzip(t, make([]byte, most+1)))), ContentLength: -1, Header: http.Header{"Content-Encoding": {"gzip"}}},
	} {
		r.URL = &url.URL{}
		_, err := s.holdJSON(r, key.Root(), most)
		if e, ok := errors.AsType[*sluice.Error](err); !ok || e.Code != sluice.CodeTooLarge || !strings.Contains(e.Message, fmt.Sprint(most)) {
			t.Errorf("%s: %v, want that it is larger than %d bytes", name, err, most)
		}
	}
	if long.read > most+1 {
		t.Errorf("%d bytes are read, where %d are possible", long.read, most)
	}
	if left := s.intake.budget.Left(); left != maxHeldBytes {
		t.Errorf("%d bytes stay taken", maxHeldBytes-left)
	}
	for name, r := range map[string]*http.Request{
		"plain":  {Body: io.NopCloser(bytes.NewReader(make([]byte, most))), ContentLength: most},
		"packed": {Body: io.NopCloser(bytes.NewReader(packGzip(t, make([]byte, most)))), ContentLength: -1, Header: http.Header{"Content-Encoding": {"gzip"}}},
	} {
		r.URL = &url.URL{}
		h, err := s.holdJSON(r, key.Root(), most)
		if err != nil || len(h.text()) != most {
			t.Fatalf("%s, as long as it may be: %d bytes, %v", name, len(h.text()), err)
		}
		h.release()
	}
}

// What a body took that is refused for its size is given back once: given back twice,
// the memory of all bodies had no bound, and two requests shared a buffer.
func TestATooLargeBodyIsGivenBackOnce(t *testing.T) {
	const root = "0123456789abcdef0123456789abcdef"
	s, _, _, _ := startBraze(t, Options{RootKey: root})
	for _, path := range []string{segmentsPath, suppressionsPath} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(`{"name": "`+strings.Repeat("x", maxSuppressionBytes)+`"}`))
		r.Host = "localhost"
		r.Header.Set("Authorization", "Bearer "+root)
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		s.http.Handler.ServeHTTP(w, r)
		if left := s.intake.budget.Left(); w.Code != http.StatusRequestEntityTooLarge || left != maxHeldBytes {
			t.Errorf("%s: %d, want 413; %d bytes are left, want %d", path, w.Code, left, maxHeldBytes)
		}
	}
}

// A client that sends half a request holds its connection until the server's
// time for reading is over, gets 408, and holds no memory afterwards.
func TestSlowClient(t *testing.T) {
	const root = "0123456789abcdef0123456789abcdef"
	s := New("127.0.0.1:0", &program{intake: &ingest.Intake{}}, slog.New(slog.DiscardHandler), Options{RootKey: root})
	s.http.ReadTimeout = 200 * time.Millisecond
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.http.Close(); <-s.served })
	var conns []net.Conn
	for range 50 {
		c, err := net.Dial("tcp", s.Address())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		conns = append(conns, c)
		fmt.Fprintf(c, "POST /v1/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Length: 1000000\r\n\r\n%s", root, strings.Repeat("[", 100_000))
	}
	for _, c := range conns {
		if err := c.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
			t.Fatal(err)
		}
		all, err := io.ReadAll(c) // the server closes; it resets what it has not read by half a second later
		if reset := errors.Is(err, syscall.ECONNRESET); err != nil && !reset || !strings.HasPrefix(string(all), "HTTP/1.1 408 ") {
			t.Fatalf("%.100q %v", all, err)
		}
	}
	if left := s.intake.budget.Left(); left != maxHeldBytes {
		t.Errorf("%d bytes stay taken", maxHeldBytes-left)
	}
	if n := len(s.intake.slots); n != 0 {
		t.Errorf("%d slots stay taken", n)
	}
}

func TestRequestIDs(t *testing.T) {
	var ids requestIDs
	ids.init()
	r, _ := http.NewRequest("GET", "/", nil)
	if a, b := ids.idOf(r), ids.idOf(r); a == b || !saneID(a) {
		t.Errorf("made %q and %q", a, b)
	}
	for id, good := range map[string]bool{"a-B_9.z": true, "": false, "a b": false, "a\n": false, "ä": false, strings.Repeat("a", 65): false, "\"": false} {
		r.Header.Set("X-Request-Id", id)
		if got := ids.idOf(r); (got == id) != good {
			t.Errorf("%q became %q", id, got)
		}
	}
}
