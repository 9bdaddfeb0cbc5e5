package main

import (
	"strings"
	"testing"
)

// TestPartitionsOfTheDatabase: a new deployment has 64; one that has data keeps
// its number, also if the configuration names none any more, for every command.
func TestPartitionsOfTheDatabase(t *testing.T) {
	t.Parallel()
	fresh := t.TempDir()
	configure(t, fresh, "")
	s := serveConfigured(t, fresh, "SLUICE_ROOT_KEY="+testRoot)
	await(t, "a new deployment has 64 partitions", func() bool { return s.metric(t, `sluice_leases{role="store"}`) == 64 })
	s.stop(t)

	dir := t.TempDir()
	configure(t, dir, "partitions: 4\n")
	s = serveConfigured(t, dir, "SLUICE_ROOT_KEY="+testRoot)
	await(t, "all 4 are held", func() bool { return s.metric(t, `sluice_leases{role="store"}`) == 4 })
	s.stop(t)
	configure(t, dir, "")
	s = serveConfigured(t, dir, "SLUICE_ROOT_KEY="+testRoot)
	await(t, "the 4 of before are held", func() bool { return s.metric(t, `sluice_leases{role="store"}`) == 4 })
	mustRun(t, dir, "sending", "show")
	mustRun(t, dir, "sending", "purge", "--class", "marketing")
	awaitDoctor(t, dir, "doctor goes by the 4 as well", func(r result) bool {
		return !strings.Contains(r.stdout+r.stderr, "set up for") && strings.Contains(r.stdout, "deployment, gaps, lag")
	})
	s.stop(t)
	configure(t, dir, "partitions: 8\n")
	if r := sluiceRun(t, dir, "serve"); r.code == 0 || !strings.Contains(r.stderr, "set up for 4 partitions") {
		t.Errorf("another number is taken: %d\n%s", r.code, r.stderr)
	}
}
