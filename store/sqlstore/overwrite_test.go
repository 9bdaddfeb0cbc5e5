package sqlstore_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice"
	"sluice/store"
	"sluice/store/sqlstore"
)

// Data deleted from a SQLite database is in none of its files: not in rows, in
// free pages, or in the log. The remaining data is all there.
func TestSQLiteOverwrites(t *testing.T) {
	file := filepath.Join(t.TempDir(), "sluice.db")
	s := migrated(t, "sqlite:"+file, sqlstore.Options{})
	const secret = "cleartext-of-somebody"
	for i := range 20 { // some in rows, some in pages of their own
		must(t, apply(t.Context(), s, &store.Effect{Dead: []sluice.DeadLetter{
			{Reason: "stays", Payload: []byte(strings.Repeat("kept ", 1+i*500))},
			{Reason: "goes", Payload: []byte(strings.Repeat(secret+" ", 1+i*500))},
		}}))
	}
	held := func() (names []string) {
		for _, suffix := range []string{"", "-wal"} {
			text, err := os.ReadFile(file + suffix)
			if err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
			if n := bytes.Count(text, []byte(secret)); n > 0 {
				names = append(names, fmt.Sprintf("%s: %d times", filepath.Base(file+suffix), n))
			}
		}
		return names
	}
	letters, err := s.DeadLetters(t.Context(), 0, 100)
	must(t, err)
	for _, l := range letters {
		if l.Reason == "goes" {
			must(t, s.DropDeadLetter(t.Context(), l.ID))
		}
	}
	if len(held()) == 0 {
		t.Fatal("what is deleted stands nowhere even before it is overwritten: this test tells nothing")
	}
	for range 2 { // again does no harm
		must(t, s.Overwrite(t.Context()))
		if names := held(); len(names) != 0 {
			t.Errorf("what was deleted stands in %s", names)
		}
	}
	if letters, err = s.DeadLetters(t.Context(), 0, 100); err != nil || len(letters) != 20 {
		t.Errorf("%d dead letters are left, %v; want 20", len(letters), err)
	}
	if got := sqlstore.WriterPragma(t, s, "integrity_check"); got != "ok" {
		t.Error(got)
	}
	if got := sqlstore.WriterPragma(t, s, "freelist_count"); got == "0" {
		t.Error("no page is free: the pages of zeros have stayed")
	}
}
