package main

import (
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/lib/doctor"
)

// What the program writes is for its owner alone. That is the data directory after
// mail, templates, spilled events and the built-in mailboxes, and each file of the
// embedded Redis and SQLite. It is also backups, exports and the lines that an import
// refuses. Keys that mail is signed with are not the program's to make; doctor
// says so if others can read one. A data directory that was there
// before keeps its mode, so what is right in it must not need another.
func TestFilesAreForTheirOwner(t *testing.T) {
	t.Parallel()
	dir, receiver := t.TempDir(), startReceiver(t)
	data := filepath.Join(dir, "data")
	if err := os.Mkdir(data, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(data, 0o755); err != nil { // whatever the umask is
		t.Fatal(err)
	}
	setting, _ := signing(t, dir, "example.com")
	configure(t, dir, fmt.Sprintf(modesFile, receiver.Addr(), "sink")+setting)
	s := serveConfigured(t, dir, "SLUICE_ROOT_KEY="+testRoot)
	if status, text := s.ask(t, http.MethodPost, "/v1/templates", `{"id":"hello","subject":"s","text":"t"}`); status != http.StatusCreated {
		t.Fatalf("%d %s", status, text)
	}
	s.mailed(t, `{"from":"shop@example.com","to":"ann@example.com","template":{"id":"hello"}}`)
	s.accepted(t, 1, `{"event":"opened","email":"ann@example.com"}`)
	await(t, "it is in a mailbox", func() bool {
		_, text := s.ask(t, http.MethodGet, "/v1/mailboxes", "")
		return len(text) > len(`{"mails":[]}`) && len(s.texts(t, "SELECT name FROM events WHERE name = 'opened'")) == 1
	})
	spillSome(t, filepath.Join(data, "spill"), "7", 0, 10)
	backups := filepath.Join(dir, "backups")
	if err := os.Mkdir(backups, 0o755); err != nil {
		t.Fatal(err)
	}
	mustRun(t, dir, "backup", backups)
	mustRun(t, dir, "export", "events", "--output", filepath.Join(backups, "events.ndjson"))
	write(t, filepath.Join(dir, "in.ndjson"), "{\"event\":\"opened\",\"email\":\"bob@example.com\",\"id\":\"1\"}\nnonsense\n")
	sluiceRun(t, dir, "import", "events", filepath.Join(dir, "in.ndjson"), "--rejected", filepath.Join(backups, "rejected"))
	embedded := map[string]bool{} // the files of Redis
	look := func(root string) {
		t.Helper()
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || path == root {
				return err
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			if rel, err := filepath.Rel(filepath.Join(data, "redis"), path); err == nil && filepath.IsLocal(rel) {
				embedded[strings.SplitN(rel, ".", 2)[0]] = true
			}
			if mode := info.Mode().Perm(); mode&0o077 != 0 {
				t.Errorf("%s has the mode %s", path, mode)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	look(data)
	look(backups)
	if code := s.stop(t); code != exitOK {
		t.Fatalf("it ended with %d", code)
	}
	look(data)
	for _, name := range []string{"redis", "url", "appendonlydir", "appendonlydir/appendonly"} {
		if !embedded[name] {
			t.Errorf("it has not looked at %s of the embedded Redis, only at %v", name, embedded)
		}
	}
	key := filepath.Join(dir, "example.com.pem")
	if _, found := diagnosed(t, dir); found[doctor.CheckConfigSecrets] != doctor.SeverityOK {
		t.Errorf("a key that its owner alone can read: %s", found[doctor.CheckConfigSecrets])
	}
	if err := os.Chmod(key, 0o644); err != nil {
		t.Fatal(err)
	}
	parent := filepath.Dir(dir) // of all directories of this test
	for mode, want := range map[os.FileMode]doctor.Severity{0o700: doctor.SeverityOK, 0o755: doctor.SeverityWarning} {
		if err := os.Chmod(parent, mode); err != nil {
			t.Fatal(err)
		}
		if _, found := diagnosed(t, dir); found[doctor.CheckConfigSecrets] != want {
			t.Errorf("a key that all can read in a directory of mode %o: %s, want %s", mode, found[doctor.CheckConfigSecrets], want)
		}
	}
}
