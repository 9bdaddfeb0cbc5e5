package transfer

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// writeArchive writes an archive of some lines and returns its bytes.
func writeArchive(t *testing.T, path string) []byte {
	t.Helper()
	w, err := createArchive(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"sql/events", "log", "sql/events"} {
		out := &lines{to: w, kind: kind}
		for i := range 1000 {
			if err := out.add(func(b []byte) []byte { return fmt.Appendf(b, `{"kind":"%s","n":%d}`, kind, i) }); err != nil {
				t.Fatal(err)
			}
		}
		if err := out.flush(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Lstat(path); err == nil {
		t.Fatal("it has its name before it is whole")
	}
	if err := w.finish(&Manifest{Partitions: 4}); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestArchiveIsReadBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.tar")
	writeArchive(t, path)
	a, err := OpenArchive(path, nil)
	if err != nil || a.Partitions != 4 || len(a.Members) != 3 {
		t.Fatalf("%+v, %v", a, err)
	}
	defer a.Close()
	n := 0
	err = a.Lines("sql/events", func(line string) error {
		if want := fmt.Sprintf(`{"kind":"sql/events","n":%d}`, n%1000); line != want {
			return fmt.Errorf("got %s, want %s", line, want)
		}
		n++
		return nil
	})
	if err != nil || n != 2000 {
		t.Errorf("%d lines, %v", n, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if _, err := createArchive(path); err == nil || !strings.Contains(err.Error(), "there already") {
		t.Errorf("over a backup: %v", err)
	}
	if err := os.WriteFile(path+".2.part", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := createArchive(path + ".2"); err == nil || !strings.Contains(err.Error(), "another backup is at work") {
		t.Errorf("beside a backup: %v", err)
	}
}

// What was cut short or changed anywhere is refused before anything is done.
func TestDamagedArchiveIsRefused(t *testing.T) {
	dir := t.TempDir()
	whole := writeArchive(t, filepath.Join(dir, "a.tar"))
	bad := filepath.Join(dir, "bad.tar")
	refuse := func(what string, data []byte) {
		t.Helper()
		if err := os.WriteFile(bad, data, 0o600); err != nil {
			t.Fatal(err)
		}
		a, err := OpenArchive(bad, nil)
		if err == nil {
			_ = a.Close()
			t.Errorf("%s: it is taken", what)
		}
	}
	for cut := 0; cut < len(whole)-1024; cut += 512 { // the last two blocks are empty
		refuse(fmt.Sprintf("cut at %d", cut), whole[:cut])
	}
	at := bytes.Index(whole, []byte{0x28, 0xb5, 0x2f, 0xfd}) // the first member's data
	for _, i := range []int{at, at + 50} {
		changed := bytes.Clone(whole)
		changed[i] ^= 1
		refuse(fmt.Sprintf("byte %d changed", i), changed)
	}
	refuse("another format", bytes.Replace(whole, []byte(archiveFormat), []byte("sluice-BACKUP"), 1))
	refuse("a newer version", bytes.Replace(whole, []byte(`"version": 1`), []byte(`"version": 9`), 1))
	refuse("no archive", []byte("hello"))
}
