package spill

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"sluice"
	"sluice/lib/faults"
	"sluice/lib/filelock"
)

const deployment = "4711"

// envSpillTo makes the test binary a process that spills until it is killed.
const envSpillTo = "SPILL_TEST_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(envSpillTo); dir != "" {
		spillForEver(dir)
	}
	os.Exit(m.Run())
}

// spillForEver writes events from several goroutines and prints the name of
// each that is on disk.
func spillForEver(dir string) {
	w := Open(dir, deployment, sluice.SystemClock{})
	var mu sync.Mutex
	var all sync.WaitGroup
	for who := range 8 {
		all.Go(func() {
			for n := 0; ; n++ {
				name := fmt.Sprintf("%d-%d", who, n)
				if err := w.Write(event(name)); err != nil {
					panic(err)
				}
				mu.Lock()
				fmt.Println(name)
				mu.Unlock()
			}
		})
	}
	all.Wait()
}

func event(name string) sluice.Event {
	return sluice.Event{Kind: sluice.KindMail, TimeMillis: 1, Name: name, Email: "ann@example.com"}
}

// readAll reads a file's events.
func readAll(t *testing.T, path string) (names []string, left int64) {
	t.Helper()
	r, err := OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for {
		line, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		var e sluice.Event
		if err := Decode(line.Text, &e); err != nil || line.Number != int64(len(names)+1) || e.ID == "" || e.Email != "ann@example.com" {
			t.Fatalf("record %d is %+v, %v", line.Number, e, err)
		}
		names = append(names, e.Name)
	}
	left, _ = r.Rest()
	return names, left
}

func onlyFile(t *testing.T, dir string) string {
	t.Helper()
	files, err := List(dir)
	if err != nil || len(files) != 1 {
		t.Fatalf("files %v, %v, want one", files, err)
	}
	return files[0].Path
}

func TestWritersOfOneFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "spill")
	w := Open(dir, deployment, sluice.SystemClock{})
	var all sync.WaitGroup
	for who := range 16 {
		all.Go(func() {
			for n := range 50 {
				if err := w.Write(event(fmt.Sprintf("%d-%d", who, n))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if _, err := OpenFile(onlyFile(t, dir)); !errors.Is(err, filelock.ErrHeld) {
		t.Errorf("a file that is being written can be read: %v", err)
	}
	if err := w.Release(); err != nil {
		t.Fatal(err)
	}
	names, left := readAll(t, onlyFile(t, dir))
	seen := map[string]bool{}
	for _, name := range names {
		seen[name] = true
	}
	if len(names) != 800 || len(seen) != 800 || left != 0 || w.Stats() != (Stats{Kept: 800}) {
		t.Errorf("%d events, %d different, %d bytes left, %+v", len(names), len(seen), left, w.Stats())
	}
	if err := w.Write(sluice.Event{Name: "without a time"}); err == nil {
		t.Error("an event without a time is taken")
	}
}

// Whatever is cut off or damaged, what comes before is read.
func TestTornAndDamaged(t *testing.T) {
	dir := t.TempDir()
	w := Open(dir, deployment, sluice.SystemClock{})
	for _, name := range []string{"one", "two", "three"} {
		if err := w.Write(event(name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Release(); err != nil {
		t.Fatal(err)
	}
	path := onlyFile(t, dir)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	record := (len(whole) - headerBytes - 2) / 3 // "three" is two longer
	third := headerBytes + 2*record
	try := func(what string, content []byte, want int) {
		t.Helper()
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		names, left := readAll(t, path)
		if len(names) != want || (left == 0) != (headerBytes+want*record == len(content)) {
			t.Errorf("%s: %v, %d bytes left", what, names, left)
		}
	}
	for cut := third; cut < len(whole); cut++ {
		try(fmt.Sprintf("cut at %d", cut), whole[:cut], 2)
	}
	for at := headerBytes + record; at < third; at++ {
		damaged := append([]byte(nil), whole...)
		damaged[at] ^= 0x10
		try(fmt.Sprintf("damaged at %d", at), damaged, 1)
	}
	for at := range headerBytes {
		damaged := append([]byte(nil), whole...)
		damaged[at] ^= 0x10
		if err := os.WriteFile(path, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		if r, err := OpenFile(path); err == nil {
			t.Errorf("a header damaged at %d is read: %+v", at, r.Header)
		}
	}
	if err := os.WriteFile(path, whole[:third+5], 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := r.Next(); err != nil {
			break
		}
	}
	if err := r.Done(false); err != nil {
		t.Fatal(err)
	}
	if kept := onlyFile(t, dir); kept != path+DamagedSuffix {
		t.Errorf("%s is what is left of a damaged file", kept)
	}
	// Tried again by hand, it is still found under its name.
	if r, err = OpenFile(path + DamagedSuffix); err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := r.Next(); err != nil {
			break
		}
	}
	if err := r.Done(false); err != nil {
		t.Fatal(err)
	}
	if kept := onlyFile(t, dir); kept != path+DamagedSuffix {
		t.Errorf("%s is what is left of a damaged file that was tried again", kept)
	}
}

func TestBounds(t *testing.T) {
	dir := t.TempDir()
	w := Open(dir, deployment, sluice.SystemClock{})
	w.maxFile, w.maxDir = 2000, 5000
	var err error
	n := int64(0)
	for ; err == nil && n < 1000; n++ {
		err = w.Write(event(strconv.FormatInt(n, 10)))
	}
	if !errors.Is(err, ErrFull) {
		t.Fatalf("after %d events: %v, want %v", n, err, ErrFull)
	}
	files, err := List(dir)
	if err != nil || len(files) != 3 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	// One that is done is replayed while the last is still being written.
	var gone int
	for _, f := range files {
		if f.Path != w.path {
			names, _ := readAll(t, f.Path)
			gone = len(names)
			if err := os.Remove(f.Path); err != nil {
				t.Fatal(err)
			}
			break
		}
	}
	if err := w.Write(event("again")); err != nil {
		t.Errorf("there is room again: %v", err)
	}
	if err := w.Release(); err != nil {
		t.Fatal(err)
	}
	if files, err = List(dir); err != nil {
		t.Fatal(err)
	}
	sum, read := int64(0), 0
	for _, f := range files {
		sum += f.Bytes
		names, _ := readAll(t, f.Path)
		read += len(names)
	}
	if sum > w.maxDir || int64(read+gone) != w.Stats().Kept || w.Stats().Refused != 1 {
		t.Errorf("%d bytes, %d events in the files, %d replayed, %+v", sum, read, gone, w.Stats())
	}
}

// A process that is killed while it spills has every event on disk that it has
// said to be there, each once.
func TestKilledWhileWriting(t *testing.T) {
	for round := range 4 {
		dir := t.TempDir()
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), envSpillTo+"="+dir)
		if round == 0 { // between a write and its sync
			cmd.Env = append(cmd.Env, faults.EnvFailpoint+"=spilled=kill,20")
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		acked := map[string]bool{}
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			acked[lines.Text()] = true
			if len(acked) == 100+150*round {
				_ = cmd.Process.Kill()
			}
		}
		_ = cmd.Wait()
		seen := map[string]int{}
		names, _ := readAll(t, onlyFile(t, dir))
		for _, name := range names {
			seen[name]++
		}
		for name := range acked {
			if seen[name] == 0 {
				t.Errorf("%s was said to be on disk, and is not", name)
			}
		}
		if len(seen) != len(names) {
			t.Errorf("%d events, %d different", len(names), len(seen))
		}
		t.Logf("%d said to be there, %d there", len(acked), len(names))
	}
}
