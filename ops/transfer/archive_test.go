package transfer

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice"
	"sluice/lib/faults"
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

// What has the name of a backup is whole and on the disk; what failed leaves
// nothing, whatever failed.
func TestFailedArchiveLeavesNothing(t *testing.T) {
	for _, point := range []string{"backup-sync", "backup-sync-directory"} {
		dir := t.TempDir()
		path := filepath.Join(dir, "a.tar")
		w, err := createArchive(path)
		if err != nil {
			t.Fatal(err)
		}
		disarm, err := faults.Arm(point + "=error")
		if err != nil {
			t.Fatal(err)
		}
		err = w.finish(&Manifest{Partitions: 4})
		disarm()
		if !errors.Is(err, faults.ErrInjected) {
			t.Errorf("%s: %v", point, err)
		}
		if _, err := os.Lstat(path); err == nil {
			t.Errorf("%s: what is not durable has the name of a backup", point)
		}
		if err := w.abandon(); err != nil {
			t.Errorf("%s: abandon: %v", point, err)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("%s: it leaves %v, %v", point, left, err)
		}
	}
}

func TestArchiveName(t *testing.T) {
	dir := t.TempDir()
	b := &Backup{Clock: sluice.SystemClock{}}
	if name, err := b.ArchiveName(dir); err != nil || filepath.Dir(name) != dir || !strings.HasSuffix(name, "Z.tar") {
		t.Errorf("in a directory: %s, %v", name, err)
	}
	if name, err := b.ArchiveName(filepath.Join(dir, "new.tar")); err != nil || name != filepath.Join(dir, "new.tar") {
		t.Errorf("a new file: %s, %v", name, err)
	}
	for _, path := range []string{filepath.Join(dir, "absent"), filepath.Join(dir, "absent") + "/", filepath.Join(dir, "a", "b")} {
		if name, err := b.ArchiveName(path); err == nil || !strings.Contains(err.Error(), "there is no directory "+path) {
			t.Errorf("a directory that is not there: %s, %v", name, err)
		}
	}
}

func TestSealedSecrets(t *testing.T) {
	const pass, name, data = "correct horse battery", "tokens", "0123456789abcdef\x00\xff"
	sealed, err := seal(pass, name, data)
	if err != nil || strings.Contains(sealed, data) {
		t.Fatalf("%q, %v", sealed, err)
	}
	if again, err := seal(pass, name, data); err != nil || again == sealed {
		t.Errorf("two seals are alike: %v", err)
	}
	if got, err := unseal(pass, name, sealed); err != nil || got != data {
		t.Errorf("%q, %v", got, err)
	}
	changed := []byte(sealed)
	changed[len(changed)-1] ^= 1
	for what, try := range map[string][3]string{
		"another passphrase": {pass + "!", name, sealed}, "another secret's name": {pass, "other", sealed}, "changed": {pass, name, string(changed)},
		"not sealed": {pass, name, data}, "cut": {pass, name, sealed[:40]},
	} {
		if got, err := unseal(try[0], try[1], try[2]); err == nil {
			t.Errorf("%s: %q", what, got)
		}
	}
}
