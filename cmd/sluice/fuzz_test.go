package main

import (
	"context"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"sluice/test/dnstest"
	"sluice/test/servers"
)

// fuzzWithin bounds the fuzzer: with 2 examples it takes a minute or two beside
// other tests, with the 2,000 of `make fuzz` much longer.
const fuzzWithin = 20 * time.Minute

var fuzzExamples = flag.Int("examples", 2, "how many requests TestFuzzedBySchema makes up for each operation")

// moreExamples is how the configuration bounds the examples of some operations: it would
// win over --max-examples, and raise it.
var moreExamples = regexp.MustCompile(`(max-examples = )\d+`)

// testTools returns a directory of tools that scripts/install-deps.sh --test
// makes, named by the list of what it consists of.
func testTools(t *testing.T, kind, list string) string {
	t.Helper()
	dir, err := servers.Tools("../../scripts", kind, list)
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// pythonTool returns a program of the tests' Python environment.
func pythonTool(t *testing.T, name string) string {
	t.Helper()
	return filepath.Join(testTools(t, "python", "requirements-test.txt"), "bin", name)
}

// A fuzzer reads the document that the program serves and makes up requests,
// good and bad ones. No answer may be a 500 or one that the document does not
// promise; good requests are taken, bad ones refused; what needs a key is
// refused without one; other methods are answered 405, with Allow.
func TestFuzzedBySchema(t *testing.T) {
	t.Parallel()
	tool := pythonTool(t, "st")
	s := startServe(t, t.TempDir(), "SLUICE_ROOT_KEY="+testRoot, "SLUICE_DOMAINS_RESOLVER="+dnstest.Start(t).Addr())
	dir := t.TempDir()
	for _, file := range []string{"schemathesis.toml", "schemathesis_hooks.py"} {
		text, err := os.ReadFile(filepath.Join("testdata", file))
		if err != nil {
			t.Fatal(err)
		}
		text = moreExamples.ReplaceAll(text, []byte("${1}"+strconv.Itoa(min(*fuzzExamples, 50))))
		if err := os.WriteFile(filepath.Join(dir, file), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), fuzzWithin)
	defer cancel()
	cmd := exec.CommandContext(ctx, tool, "--no-color", "--config-file", "schemathesis.toml",
		"run", s.url+"/openapi.json", "--max-examples", strconv.Itoa(*fuzzExamples))
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "SLUICE_FUZZ_KEY="+testRoot, "PYTHONDONTWRITEBYTECODE=1", "PYTHONUTF8=1", "COLUMNS=160")
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Errorf("schemathesis: %v; it does so again with the --seed above", err)
	}
}
