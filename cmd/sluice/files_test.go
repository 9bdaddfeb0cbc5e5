package main

import (
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"testing"
)

// What the program writes is for its owner alone: the data directory after mail,
// templates, spilled events and the built-in mailboxes, with the embedded Redis and
// SQLite; backups, exports and what an import refuses. A data directory that was there
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
	s := startMode(t, dir, "sink", receiver)
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
	files := 0
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
			files++
			if mode := info.Mode().Perm(); mode&0o077 != 0 {
				t.Errorf("%s has the mode %s", path, mode)
			}
			if d.IsDir() && d.Name() == "redis" { // Redis writes its own; nobody else gets in
				return fs.SkipDir
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
	if files < 10 {
		t.Errorf("it has looked at %d files", files)
	}
}
