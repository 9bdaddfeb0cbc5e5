package main

import (
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// recent is an element of a short while ago, n milliseconds after others.
func recent(id, name string, n int) string {
	when := time.Now().Truncate(time.Hour).Add(-time.Hour).UnixMilli() + int64(n)
	return fmt.Sprintf(`{"event_id":"%s","event":"%s","timestamp":%d,"email":"a@example.com","user_id":"u%d","price":%d.50}`, id, name, when, n%5, n)
}

// storedBy serves a directory, has elements stored, and stops.
func storedBy(t *testing.T, dir string, elements ...string) {
	t.Helper()
	s := startServe(t, dir)
	pushAll(t, dir, elements...)
	await(t, "all is stored", func() bool { return s.metric(t, "sluice_stored_rows_total") == len(elements) })
	if code := s.stop(t); code != exitOK {
		t.Fatalf("exit code %d:\n%s", code, s.log)
	}
}

func TestExportEvents(t *testing.T) {
	dir := t.TempDir()
	storedBy(t, dir, recent("e2", "clicked", 2), recent("e1", "open", 1), recent("e3", "bought", 3))
	lines := strings.Split(strings.TrimSpace(mustRun(t, dir, "export", "events").stdout), "\n")
	if len(lines) != 3 || !strings.HasPrefix(lines[0], `{"event_id":"e1","kind":"mail","name":"opened","time":"`) ||
		!strings.HasSuffix(lines[2], `"app_id":"shop","email":"a@example.com","user_id":"u3","properties":{"price":3.50}}`) {
		t.Errorf("exported\n%s", strings.Join(lines, "\n"))
	}
	if out := mustRun(t, dir, "export", "events", "--kind", "mail", "--name", "clicked", "--from", "2020-01-01").stdout; out != lines[1]+"\n" {
		t.Errorf("filtered: %s", out)
	}
	if out := mustRun(t, dir, "export", "events", "--to", "2020-01-01", "--format", "csv").stdout; out != "event_id,kind,name,time,app_id,email,user_id,message_id,properties\n" {
		t.Errorf("none, as CSV: %s", out)
	}
	file := filepath.Join(dir, "out.gz")
	if r := mustRun(t, dir, "export", "events", "--gzip", "--output", file); r.stderr != "3 events\n" || r.stdout != "" {
		t.Errorf("to a file: %+v", r)
	}
	if text := gunzip(t, file); !slices.Equal(strings.Split(strings.TrimSpace(text), "\n"), lines) {
		t.Errorf("in the file:\n%s", text)
	}
	if r := sluiceRun(t, dir, "export", "events", "--output", file); r.code != exitFailed || !strings.Contains(r.stderr, "not there yet") {
		t.Errorf("over a file: %+v", r)
	}
}

func gunzip(t *testing.T, file string) string {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
