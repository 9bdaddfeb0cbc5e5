package main

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"sluice/api"
	"sluice/config"
)

// atThePort is what has the port of the program, and notes what it is asked.
type atThePort struct {
	alive string // its answer at /healthz

	mu    sync.Mutex
	asked []string // path, and "with the key" if the root key came along
}

func (l *atThePort) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	asked, reasons := r.URL.Path, api.Hidden
	if r.Header.Get("Authorization") != "" {
		asked, reasons = asked+" with the key", "redis: away"
	}
	l.mu.Lock()
	l.asked = append(l.asked, asked)
	l.mu.Unlock()
	if r.URL.Path == "/healthz" {
		_, _ = w.Write([]byte(l.alive + "\n"))
		return
	}
	w.WriteHeader(http.StatusServiceUnavailable)
	_, _ = w.Write([]byte(`{"ready":false,"reasons":["` + reasons + `"]}` + "\n"))
}

// start has it listen, and returns a directory whose configuration has its address and a
// root key.
func (l *atThePort) start(t *testing.T) (dir string) {
	t.Helper()
	server := httptest.NewServer(l)
	t.Cleanup(server.Close)
	dir = t.TempDir()
	write(t, filepath.Join(dir, config.DefaultFile), "listen: "+strings.TrimPrefix(server.URL, "http://")+"\nroot_key: "+testRoot+"\n")
	return dir
}

// The command of supervisors gives the root key to nobody: while the program is down,
// anybody on the machine may have its port.
func TestHealthAsksWithoutAKey(t *testing.T) {
	t.Parallel()
	l := &atThePort{alive: aliveAnswer}
	dir := l.start(t)
	mustRun(t, dir, "health")
	if got := sluiceRun(t, dir, "health", "--ready"); got.code != exitFailed || !strings.Contains(got.stderr, api.Hidden) {
		t.Errorf("%+v", got)
	}
	if want := []string{"/healthz", "/readyz"}; !slices.Equal(l.asked, want) {
		t.Errorf("asked %q, want %q", l.asked, want)
	}
}

// The doctor gives the root key only for reasons that are hidden without it, and only to
// what answers as the program does.
func TestDoctorGivesItsKeyLast(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		alive string
		asked []string
		says  string
	}{
		{aliveAnswer, []string{"/readyz", "/healthz", "/readyz with the key"}, "is not ready: redis: away"},
		{`<html>`, []string{"/readyz", "/healthz"}, "is not ready: " + api.Hidden},
	} {
		l := &atThePort{alive: tt.alive}
		text := strings.Join(strings.Fields(sluiceRun(t, l.start(t), "doctor").stdout), " ")
		if !slices.Equal(l.asked, tt.asked) || !strings.Contains(text, tt.says) {
			t.Errorf("where /healthz is %s: asked %q, want %q; the report wants %q:\n%s", tt.alive, l.asked, tt.asked, tt.says, text)
		}
	}
}
