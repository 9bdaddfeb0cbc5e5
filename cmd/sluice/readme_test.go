package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// asProgram has the test's binary be the program.
const asProgram = "SLUICE_TEST_IS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		_ = os.Unsetenv(asProgram) // no variable of the configuration
		main()
	}
	os.Exit(m.Run())
}

// The README's first screen shows a way to each use, and its lines do what it
// says: they are run as they stand there, but for the port. Each is run until its answer
// is there, since the second that they wait is too short for a busy machine.
func TestReadmeFirstScreen(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "\n## See it\n")
	_, rest, _ = strings.Cut(rest, "In a second terminal")
	first, _, ok := strings.Cut(rest, "make run")
	if !ok || strings.Count(string(page[:strings.Index(string(page), "make run")]), "\n") > 50 {
		t.Fatal("the ways to the uses do not stand within the first 50 lines, before `make run`")
	}
	var lines []string
	for line := range strings.Lines(first) {
		if command, code := strings.CutPrefix(line, "    "); code && strings.TrimSpace(command) != "" {
			lines = append(lines, strings.TrimSpace(command))
		}
	}
	if len(lines) != 7 {
		t.Fatalf("%d lines, want one for the key and two for each use", len(lines))
	}
	dir := t.TempDir()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "bin"), 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "bin", "sluice"), "#!/bin/sh\n"+asProgram+"=1 exec '"+program+"' \"$@\"\n")
	if err := os.Chmod(filepath.Join(dir, "bin", "sluice"), 0o700); err != nil {
		t.Fatal(err)
	}
	s := devAt(t, dir)
	run := func(line string) string {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		line = strings.ReplaceAll(line, "127.0.0.1:8019", strings.TrimPrefix(s.url, "http://"))
		cmd := exec.CommandContext(ctx, "bash", "-euc", strings.ReplaceAll(line, "curl ", "curl -sS "))
		cmd.Dir, cmd.Stderr = dir, &buffer{} // which says that the key is not shown again
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v\n%s%s", line, err, out, cmd.Stderr)
		}
		return string(out)
	}
	key := "KEY=" + strings.TrimSpace(run(lines[0]+`; echo "$KEY"`)) + "\n"
	for i, want := range []string{
		`"accepted":1`, `"name":"bought","count":1`, `"attributes_processed":1`, `"email":"ann@example.com"`, `"recipients":1`, `"subject":"Order 7"`,
	} {
		awaitFound(t, want+" by "+lines[i+1], func() (any, bool) {
			out := run(key + lines[i+1])
			return out, strings.Contains(out, want)
		})
	}
}
