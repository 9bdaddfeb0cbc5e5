package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"
)

// aheadClock is a machine's clock that is wrong by so much.
type aheadClock time.Duration

func (a aheadClock) Now() time.Time { return time.Now().Round(0).Add(time.Duration(a)) }

// What a command or the API writes is dated by the time that all processes share,
// whatever the clock of its machine says: an opt-in that is dated ahead would void
// the opt-outs after it.
func TestTimesOfAWrongClock(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	configure(t, dir, serveFile)
	s := serveConfigured(t, dir, "SLUICE_ROOT_KEY="+testRoot)
	var stdout, stderr buffer
	run := func(args ...string) string {
		t.Helper()
		stdout, stderr = buffer{}, buffer{}
		m := Main{Args: args, Dir: s.dir, Stdout: &stdout, Stderr: &stderr, Clock: aheadClock(7 * 24 * time.Hour)}
		if code := m.Run(t.Context()); code != exitOK {
			t.Fatalf("%q: %d %s%s", args, code, stdout.String(), stderr.String())
		}
		return stdout.String()
	}
	ahead := func(entry string) bool {
		t.Helper()
		var row struct{ Time string }
		text := run("suppression", "list", "--entry", entry, "--json")
		err := json.Unmarshal([]byte(text), &row)
		at, parseErr := time.Parse(time.RFC3339, row.Time)
		if err != nil || parseErr != nil {
			t.Fatalf("%s: %s, %v, %v", entry, text, err, parseErr)
		}
		return time.Until(at) > time.Minute
	}
	tries := 0
	await(t, "what the command adds is dated by the time of Redis", func() bool { // it waits 2 s for that at most
		tries++
		entry, began := fmt.Sprintf("ann%d@example.com", tries), time.Now()
		run("suppression", "add", entry)
		took, wrong := time.Since(began), ahead(entry)
		if wrong && took < clockWithin {
			t.Fatalf("the command took its own time after %s", took)
		}
		return !wrong
	})
	if code := s.stop(t); code != 0 {
		t.Fatalf("it ended with %d", code)
	}
	run("suppression", "list") // without a Redis that runs it goes by its own

	s = serveAt(t, aheadClock(4*time.Minute), s.dir, "SLUICE_ROOT_KEY="+testRoot)
	if status, answer := s.ask(t, http.MethodPost, "/v1/suppressions", `{"suppressions":[{"entry":"bob@example.com","reason":"manual"}]}`); status != http.StatusOK {
		t.Fatalf("%d %s", status, answer)
	}
	if ahead("bob@example.com") {
		t.Error("what the API adds is dated ahead")
	}
}
