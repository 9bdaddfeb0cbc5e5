package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice"
	"sluice/ingest/spill"
)

// spillSome writes a file of events that have names of their own, as a program
// of that deployment does, and returns its path.
func spillSome(t *testing.T, dir, deployment string, from, to int) string {
	t.Helper()
	w := spill.Open(dir, deployment, sluice.SystemClock{})
	for i := from; i < to; i++ {
		e := sluice.Event{Kind: sluice.KindMail, TimeMillis: 1500000000000 + int64(i), Name: sluice.EventOpened, Email: fmt.Sprintf("user%d@example.com", i%7), Message: fmt.Sprintf("m%d", i)}
		if err := w.Write(e); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Release(); err != nil {
		t.Fatal(err)
	}
	files, err := spill.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	return files[len(files)-1].Path
}

// deploymentIn reads the deployment out of the answer to a file of another one.
func deploymentIn(t *testing.T, dir string) string {
	t.Helper()
	file := spillSome(t, t.TempDir(), "4711", 0, 1)
	r := sluiceRun(t, dir, "spill", "replay", file)
	_, rest, ok := strings.Cut(r.stderr, "(4711, this is ")
	id, _, _ := strings.Cut(rest, ")")
	if r.code != exitFailed || !ok {
		t.Fatalf("a file of another deployment: %d %s", r.code, r.stderr)
	}
	if _, err := os.Stat(file); err != nil {
		t.Fatalf("it is gone: %v", err)
	}
	return id
}

// A spill file is replayed once: by hand, as a copy with a torn end, and by the
// program that finds it. Package chaos kills it.
func TestSpillFilesAreReplayedOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := startServe(t, dir)
	id := deploymentIn(t, dir)
	stored := func(want int) {
		t.Helper()
		await(t, fmt.Sprintf("%d events are stored", want), func() bool {
			return strings.Count(mustRun(t, dir, "export", "events").stdout, `"opened"`) >= want
		})
		if n := strings.Count(mustRun(t, dir, "export", "events").stdout, `"opened"`); n != want {
			t.Fatalf("%d events, want %d", n, want)
		}
	}

	away := filepath.Join(t.TempDir(), "of.a.dead.machine")
	file := spillSome(t, away, id, 0, 500)
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if list := mustRun(t, dir, "spill", "list", away).stdout; !strings.Contains(list, "500 events") || !strings.Contains(list, id) {
		t.Errorf("list: %s", list)
	}
	if out := mustRun(t, dir, "spill", "replay", file).stdout; !strings.Contains(out, "500") {
		t.Errorf("replay: %s", out)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("a replayed file is still there")
	}
	stored(500)

	copied := filepath.Join(away, "copy"+spill.Suffix)
	if err := os.WriteFile(copied, append(content, "torn"...), 0o600); err != nil {
		t.Fatal(err)
	}
	mustRun(t, dir, "spill", "replay", copied)
	if _, err := os.Stat(copied + spill.DamagedSuffix); err != nil {
		t.Errorf("a file with a rest is not kept: %v", err)
	}
	stored(500)

	if code := s.stop(t); code != exitOK {
		t.Fatalf("it ended with %d", code)
	}
	spillSome(t, filepath.Join(dir, "data", "spill"), id, 500, 600)
	s = startServe(t, dir)
	stored(600)
	if code := s.stop(t); code != exitOK {
		t.Fatalf("it ended with %d", code)
	}

	// What is past its retention, by a clock that may be wrong, is kept.
	late := spillSome(t, filepath.Join(dir, "data", "spill"), id, 600, 700)
	startServe(t, dir, "SLUICE_EVENT_TIME_PAST_DAYS=1", "SLUICE_RETENTION_EVENTS_MAIL=1")
	await(t, "the file is kept", func() bool { _, err := os.Stat(late + spill.DamagedSuffix); return err == nil })
}
