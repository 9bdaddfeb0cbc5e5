package main

import (
	"bytes"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The secret that signs links is in a backup only if a passphrase seals it, and
// comes back by that; without it a database keeps the one that it has.
func TestSecretsInBackups(t *testing.T) {
	t.Parallel()
	const inDatabase = "SELECT hex(data) FROM secrets WHERE name = 'token'"
	from := t.TempDir()
	s := startServe(t, from)
	var secret []string
	await(t, "there is a secret", func() bool { secret = s.texts(t, inDatabase); return len(secret) == 1 })
	if code := s.stop(t); code != exitOK {
		t.Fatalf("exit code %d:\n%s", code, s.log)
	}
	plain, sealed, pass, wrong := filepath.Join(from, "plain.tar"), filepath.Join(from, "sealed.tar"), filepath.Join(from, "pass"), filepath.Join(from, "wrong")
	write(t, pass, "correct horse battery\nmore\n")
	write(t, wrong, "correct horse batteries\n")
	if out := mustRun(t, from, "backup", plain).stdout; !strings.Contains(out, "NOT in it: the secret") {
		t.Errorf("it does not say what is missing: %s", out)
	}
	if out := mustRun(t, from, "backup", "--passphrase-file", pass, sealed).stdout; strings.Contains(out, "NOT in it") {
		t.Errorf("%s", out)
	}
	if r := sluiceRun(t, from, "backup", filepath.Join(from, "absent")); r.code != exitFailed || !strings.Contains(r.stderr, "there is no directory") {
		t.Errorf("a directory that is not there: %+v", r)
	}
	write(t, filepath.Join(from, "short"), "short\n")
	if r := sluiceRun(t, from, "backup", "--passphrase-file", filepath.Join(from, "short"), filepath.Join(from, "x.tar")); r.code != exitFailed || !strings.Contains(r.stderr, "want 16 to") {
		t.Errorf("a short passphrase: %+v", r)
	}
	entries, err := os.ReadDir(from)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() == "absent" || e.Name() == "x.tar" || strings.HasSuffix(e.Name(), ".part") {
			t.Errorf("it leaves %s", e.Name())
		}
	}
	raw, err := hex.DecodeString(secret[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{plain, sealed} {
		if text, err := os.ReadFile(file); err != nil || bytes.Contains(text, raw) {
			t.Errorf("%s has the secret, %v", file, err)
		}
	}
	if out := mustRun(t, from, "restore", "--replace", plain).stdout; !strings.Contains(out, "was not put back") {
		t.Errorf("%s", out)
	}
	if got := s.texts(t, inDatabase); !slices.Equal(got, secret) {
		t.Errorf("a restore without it changed the secret of the database")
	}
	for what, tt := range map[string]struct {
		args []string
		want []string // secrets in the database
		says string   // of a refusal
	}{
		"left out":           {[]string{plain}, nil, ""},
		"sealed, opened":     {[]string{"--passphrase-file", pass, sealed}, secret, ""},
		"sealed, no key":     {[]string{sealed}, nil, "--passphrase-file"},
		"sealed, wrong key":  {[]string{"--passphrase-file", wrong, sealed}, nil, "the passphrase is not the one"},
		"sealed, without it": {[]string{"--without-secrets", sealed}, nil, ""},
	} {
		to := t.TempDir()
		configure(t, to, serveFile)
		r := sluiceRun(t, to, append([]string{"restore"}, tt.args...)...)
		if (r.code == exitOK) != (tt.says == "") || !strings.Contains(r.stderr, tt.says) {
			t.Errorf("%s: %+v", what, r)
		}
		got := (&served{dir: to}).texts(t, inDatabase)
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %d secrets, want %d", what, len(got), len(tt.want))
		}
	}
}

// A database without secrets has none that a backup could leave out: that of webhooks is
// made with the first of them.
func TestNoSecretsInBackups(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	configure(t, dir, "partitions: 4\n")
	s := serveConfigured(t, dir, "SLUICE_ROOT_KEY="+testRoot)
	const names = "SELECT name FROM secrets"
	if got := s.texts(t, names); len(got) != 0 {
		t.Errorf("a start makes %v", got)
	}
	if code := s.stop(t); code != exitOK {
		t.Fatalf("exit code %d:\n%s", code, s.log)
	}
	if out := mustRun(t, dir, "backup", filepath.Join(dir, "before.tar")).stdout; strings.Contains(out, "NOT in it") {
		t.Errorf("nothing is missing: %s", out)
	}
	if out := mustRun(t, dir, "restore", "--replace", filepath.Join(dir, "before.tar")).stdout; strings.Contains(out, "was not put back") {
		t.Errorf("nothing was left out: %s", out)
	}
	mustRun(t, dir, "webhook", "add", "https://example.com/hook")
	if got := s.texts(t, names); !slices.Equal(got, []string{"webhooks"}) {
		t.Errorf("the first webhook makes %v", got)
	}
	if out := mustRun(t, dir, "backup", filepath.Join(dir, "behind.tar")).stdout; !strings.Contains(out, "NOT in it: the secrets") {
		t.Errorf("it does not say what is missing: %s", out)
	}
}
