package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// A server of hashes that is away is not missed by a backup. One of a list is: the backup is
// whole but for that list, names it, and fails. A restore waits for the server.
func TestBackupWithoutServersOfLists(t *testing.T) {
	t.Parallel()
	ofHashes, _ := startOther(t)
	ofList, do := startOther(t)
	dir := t.TempDir()
	configure(t, dir, fmt.Sprintf(hashesFile+"lists:\n  q: {app_id: shop}\n  far: {app_id: shop, redis: %q}\n", `"`+ofHashes.URL()+`"`, ofList.URL()))
	s := serveConfigured(t, dir)
	pushAll(t, dir, anonymous(0, 10)...)
	do(append([]string{"RPUSH", "far"}, anonymous(10, 10)...)...)
	await(t, "all is stored", func() bool { return s.metric(t, "sluice_stored_rows_total") == 20 })

	if err := ofHashes.Kill(); err != nil {
		t.Fatal(err)
	}
	whole := filepath.Join(dir, "whole.tar")
	if out := mustRun(t, dir, "backup", whole).stdout; strings.Contains(out, "lists whose servers") {
		t.Errorf("without the server of hashes: %s", out)
	}
	if err := ofList.Kill(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "b.tar")
	const left = "NOT in it: what was held of lists whose servers did not answer: far\n"
	if r := sluiceRun(t, dir, "backup", file); r.code != exitFailed || !strings.Contains(r.stdout, left) || !strings.Contains(r.stderr, "b.tar is whole, but for what is held of list far: connect to redis ") {
		t.Errorf("without the server of a list: %+v", r)
	}
	if out := mustRun(t, dir, "restore", "--check", file).stdout; !strings.Contains(out, "the backup is whole") || !strings.Contains(out, left) {
		t.Errorf("check: %s", out)
	}
	if code := s.stop(t); code != exitOK {
		t.Fatalf("exit code %d:\n%s", code, s.log)
	}
	if r := sluiceRun(t, dir, "restore", "--replace", file); r.code != exitFailed || !strings.Contains(r.stderr, "list far: connect to redis ") {
		t.Errorf("a restore without the server of a list: %+v", r)
	}
	configure(t, dir, "partitions: 4\nlists:\n  q: {app_id: shop}\n")
	if out := mustRun(t, dir, "restore", "--replace", file).stdout; !strings.Contains(out, left) || !strings.Contains(out, "no gap") {
		t.Errorf("restore: %s", out)
	}
	if n := len(ids(t, dir)); n != 20 {
		t.Errorf("%d events are back, want 20", n)
	}
}
