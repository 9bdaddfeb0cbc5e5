package main

import (
	"fmt"
	"strings"
	"testing"
)

// Dead letters of a list are replayed while servers of another list and of hashes do not
// answer. Of those the command says why it could not, and keeps them.
func TestReplayWithoutServersOfLists(t *testing.T) {
	t.Parallel()
	ofHashes, _ := startOther(t)
	ofList, do := startOther(t)
	dir := t.TempDir()
	configure(t, dir, fmt.Sprintf(hashesFile+"lists:\n  q: {app_id: shop}\n  far: {app_id: shop, redis: %q}\n", `"`+ofHashes.URL()+`"`, ofList.URL()))
	s := serveConfigured(t, dir)
	pushAll(t, dir, "no event")
	do("RPUSH", "far", "no event either")
	await(t, "both are dead", func() bool { return s.metric(t, "sluice_dead_letters_total") == 2 })
	if err := ofHashes.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := ofList.Kill(); err != nil {
		t.Fatal(err)
	}
	r := sluiceRun(t, dir, "dead", "replay", "--all")
	if r.code != exitFailed || !strings.Contains(r.stdout, "1 replayed, 1 failed") || !strings.Contains(r.stderr, "connect to redis ") {
		t.Errorf("replay: %+v", r)
	}
	await(t, "the one of the list that answers is dead again", func() bool { return s.metric(t, "sluice_dead_letters_total") == 3 })
	if out := mustRun(t, dir, "dead", "list").stdout; strings.Count(out, "list:far") != 1 {
		t.Errorf("the other one is not kept: %s", out)
	}
}
