package ingest

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// exampleBlock is a piece of a file in docs/extend.md.
var exampleBlock = regexp.MustCompile("(?s)```(?:go|sql) (\\S+)\n(.*?)```")

// exampleAt says behind which line of a file that is there a piece is put; the lines
// that it replaces begin as said.
var exampleAt = map[string]struct{ behind, instead string }{
	"batch.go":        {behind: "	ItemContext ItemKind = 11"},
	"store/facts.go":  {instead: "var FactTables []*FactTable"},
	"ingest/kinds.go": {behind: "	sluice.ItemMarker:"},
}

// TestTheExampleOfAFact builds what docs/extend.md says, over the program as it is,
// and runs its test.
func TestTheExampleOfAFact(t *testing.T) {
	page, err := os.ReadFile("../docs/extend.md")
	if err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	migrations, err := filepath.Glob("../store/sqlstore/schema/sqlite/*.sql")
	if err != nil {
		t.Fatal(err)
	}
	all, err := filepath.Glob("../store/sqlstore/schema/all/*.sql")
	if err != nil {
		t.Fatal(err)
	}
	dir, replace := t.TempDir(), withoutTests(t, filepath.Join(root, "ingest"))
	for i, block := range exampleBlock.FindAllStringSubmatch(string(page), -1) {
		name, text := strings.Replace(block[1], "NNNN", fmt.Sprintf("%04d", len(migrations)+len(all)+1), 1), block[2]
		if at, ok := exampleAt[name]; ok {
			text = inserted(t, filepath.Join(root, name), text, at.behind, at.instead)
		}
		if name == "batch.go" {
			text = strings.Replace(text, "newestItem = ItemContext", "newestItem = ItemVisit", 1)
		}
		file := filepath.Join(dir, fmt.Sprint(i))
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		replace[filepath.Join(root, name)] = file
	}
	overlay := filepath.Join(dir, "overlay.json")
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err == nil {
		err = os.WriteFile(overlay, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	run := exec.CommandContext(t.Context(), "go", "test", "-overlay", overlay, "-vet=off", "-run", "^TestVisit$", "-v", ".")
	run.Env = append(os.Environ(), "CGO_ENABLED=0") // as the program is built: what it stands on is compiled already
	if out, err := run.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: TestVisit") {
		t.Errorf("docs/extend.md does not work: %v\n%s", err, out)
	}
}

// withoutTests has a build find no tests in a directory: to compile them again over
// the changed program takes longer than all else, and only that of the page is run.
func withoutTests(t *testing.T, dir string) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("the tests of %s: %v", dir, err)
	}
	replace := make(map[string]string)
	for _, file := range files {
		replace[file] = "" // there is none
	}
	return replace
}

// inserted returns a file with a piece behind a line, or in the place of one.
func inserted(t *testing.T, file, piece, behind, instead string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	found := false
	for line := range strings.Lines(string(text)) {
		if instead != "" && strings.HasPrefix(line, instead) {
			found = true
			b.WriteString(piece)
			continue
		}
		b.WriteString(line)
		if behind != "" && strings.HasPrefix(line, behind) {
			found = true
			b.WriteString(piece)
		}
	}
	if !found {
		t.Fatalf("%s has no line %q", file, behind+instead)
	}
	return b.String()
}
