package main

import (
	"strings"
	"testing"
)

// A stop of a route that the configuration does not have says so: a misspelled name stops
// nothing.
func TestStopOfAnUnknownRoute(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	configure(t, dir, "sending: \"on\"\nroutes:\n  relay: {smtp: {url: 'smtp://127.0.0.1:1'}}\n")
	s := serveConfigured(t, dir, "SLUICE_ROOT_KEY="+testRoot)
	defer s.stop(t)
	for name, want := range map[string]string{"relay": "", "rely": "there is no route rely in the configuration here; known are sink, relay"} {
		if got := mustRun(t, dir, "sending", "pause", "--route", name); !strings.Contains(got.stdout, "is stopped") || !strings.Contains(got.stderr, want) || want == "" && got.stderr != "" {
			t.Errorf("%s: %+v, want %q", name, got, want)
		}
	}
}
