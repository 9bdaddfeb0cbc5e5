package api

import (
	"bytes"
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/lib/key"
)

const testRoot = "0123456789abcdef0123456789abcdef"

// startLocked starts a server with a root key, whose metrics are not open.
func startLocked(t *testing.T) (url, reader, admin string) {
	t.Helper()
	store := openKeys(t)
	s := New("", &program{keys: store, stats: fullStats()}, slog.New(slog.DiscardHandler), Options{RootKey: testRoot})
	server := httptest.NewServer(s.http.Handler) // of s nobody knows that it is on loopback
	t.Cleanup(server.Close)
	_, reader = addKey(t, store, string(key.MetricsRead))
	_, admin = addKey(t, store, string(key.Admin))
	return server.URL, reader, admin
}

func get(t *testing.T, url, bearer string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if bearer != "" {
		req.Header.Set("Authorization", "Bearer "+bearer)
	}
	client, _ := checked(t)
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var b bytes.Buffer
	if _, err := b.ReadFrom(res.Body); err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, b.String()
}

// Beyond loopback metrics are for keys with their permission, and profiles are
// for the administrator everywhere.
func TestWhoMayLookInside(t *testing.T) {
	url, reader, admin := startLocked(t)
	for _, tt := range []struct {
		path, key string
		want      int
	}{
		{"/metrics", "", 401}, {"/metrics", "slk_wrong", 401}, {"/metrics", admin, 403}, {"/metrics", reader, 200}, {"/metrics", testRoot, 200},
		{"/debug/pprof/heap", "", 401}, {"/debug/pprof/heap", reader, 403}, {"/debug/pprof/heap", admin, 200}, {"/debug/pprof/heap", testRoot, 200},
		{"/debug/pprof/nothing", "", 401}, {"/debug/pprof/nothing", admin, 404}, {"/debug/pprof/cmdline", admin, 404},
		{"/debug/pprof/profile?seconds=31", admin, 400}, {"/debug/pprof/trace?seconds=6", admin, 400},
		{"/debug/pprof/profile?seconds=0", admin, 400}, {"/debug/pprof/profile?seconds=x", admin, 400},
		{"/debug/pprof", admin, 404},
	} {
		if status, body := get(t, url+tt.path, tt.key); status != tt.want {
			t.Errorf("%s with key %.8q: %d %.200s, want %d", tt.path, tt.key, status, body, tt.want)
		}
	}
	_, open := start(t, &program{stats: fullStats()})
	if status, _ := get(t, open+"/metrics", ""); status != 200 {
		t.Errorf("metrics on loopback: %d", status)
	}
	if status, _ := get(t, open+"/debug/pprof/heap", ""); status != 401 {
		t.Errorf("a profile on loopback without a key: %d", status)
	}
	for address, want := range map[string]bool{"127.0.0.1": true, "::1": true, "0.0.0.0": false, "::": false, "10.0.0.7": false} {
		if got := isLoopback(&net.TCPAddr{IP: net.ParseIP(address)}); got != want {
			t.Errorf("%s: loopback %v", address, got)
		}
	}
}

// Profiles are what the tools read: gzip, or a trace. There is one of a kind
// at a time.
func TestProfiles(t *testing.T) {
	url, _, admin := startLocked(t)
	const packed = "\x1f\x8b"
	for path, prefix := range map[string]string{"allocs": packed, "goroutine": packed, "heap": packed, "threadcreate": packed, "trace": "go 1."} {
		if status, body := get(t, url+"/debug/pprof/"+path, admin); status != 200 || !strings.HasPrefix(body, prefix) {
			t.Errorf("%s: %d %.10q", path, status, body)
		}
	}
	got := make(chan int, 2)
	for range 2 {
		go func() {
			status, body := get(t, url+"/debug/pprof/profile?seconds=1", admin)
			if status == 200 && !strings.HasPrefix(body, packed) {
				t.Errorf("profile: %.10q", body)
			}
			got <- status
		}()
	}
	if a, b := <-got, <-got; a+b != 200+503 {
		t.Errorf("two profiles at once are answered %d and %d", a, b)
	}
}

// A caller that takes a profile does not hold up the end of the program: it
// gets what there is.
func TestStopEndsAProfile(t *testing.T) {
	store := openKeys(t)
	_, admin := addKey(t, store, string(key.Admin))
	s, url := start(t, &program{keys: store})
	got := make(chan int, 1)
	go func() {
		status := http.StatusServiceUnavailable // while one of those below is taken
		for status == http.StatusServiceUnavailable {
			status, _ = get(t, url+"/debug/pprof/profile?seconds=30", admin)
		}
		got <- status
	}()
	for { // until it is being taken
		status, _ := get(t, url+"/debug/pprof/profile?seconds=1", admin)
		if status == http.StatusServiceUnavailable {
			break
		}
		if status != http.StatusOK || t.Context().Err() != nil {
			t.Fatalf("a second profile is answered %d", status)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := s.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	if status := <-got; status != http.StatusOK {
		t.Errorf("the profile that was being taken is answered %d", status)
	}
}

// Every line of the log that a request causes has the request's id. The
// exceptions are about the server.
func TestLogLinesHaveTheRequest(t *testing.T) {
	exceptions := map[string]bool{"http server ended": true}
	lines := 0
	look := func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		method, ok := call.Fun.(*ast.SelectorExpr)
		if !ok || !strings.Contains(" Debug Info Warn Error ", " "+method.Sel.Name+" ") {
			return true
		}
		if on, ok := method.X.(*ast.SelectorExpr); !ok || on.Sel.Name != "log" {
			return true
		}
		lines++
		message, ok := call.Args[0].(*ast.BasicLit)
		if !ok {
			t.Error("a line of the log whose text is no constant")
			return true
		}
		if exceptions[strings.Trim(message.Value, `"`)] {
			return true
		}
		if len(call.Args) < 2 {
			t.Errorf("the line %s has no id", message.Value)
			return true
		}
		if first, ok := call.Args[1].(*ast.BasicLit); !ok || first.Value != `"id"` {
			t.Errorf("the line %s does not begin with the request's id", message.Value)
		}
		return true
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, look)
	}
	if lines < 5 {
		t.Errorf("%d lines found", lines)
	}
}

// A panic, too, is logged under the request's name.
func TestFailureIsLoggedWithTheRequest(t *testing.T) {
	var log bytes.Buffer
	s := New("", &program{}, slog.New(slog.NewTextHandler(&log, nil)), Options{})
	req, _ := http.NewRequest("GET", "/v1/x", nil)
	req.Header.Set("X-Request-Id", "mine")
	s.guard(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("oh") })).ServeHTTP(&recorder{header: http.Header{}}, req)
	if !strings.Contains(log.String(), "id=mine") || !strings.Contains(log.String(), "oh") {
		t.Errorf("logged: %s", log.String())
	}
}
