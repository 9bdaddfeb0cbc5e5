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
	dir, replace := t.TempDir(), make(map[string]string)
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
	run := exec.CommandContext(t.Context(), "go", "test", "-overlay", overlay, "-run", "^TestVisit$", "-v", ".")
	if out, err := run.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: TestVisit") {
		t.Errorf("docs/extend.md does not work: %v\n%s", err, out)
	}
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
