package sluice

import (
	"flag"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// draw makes TestDrawing write the drawing instead of comparing it.
var draw = flag.Bool("draw", false, "write the drawing of the wings into its decision")

// drawn returns the node of the drawing that a package is in: its wing, the words, or
// the root.
func drawn(dir string) string {
	switch {
	case dir == ".":
		return "sluice"
	case words[dir] > 0:
		return "words"
	}
	return wingOf(dir) + "/"
}

// drawing returns the imports between wings as Mermaid draws them. What follows from
// others is left out: of a → b, b → c and a → c, the last.
func drawing(t *testing.T) string {
	to := make(map[string]map[string]bool)
	for _, s := range sources(t) {
		if s.test {
			continue
		}
		from := drawn(s.dir)
		for _, spec := range s.syntax.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			dir, ours := strings.CutPrefix(imported, module+"/")
			if imported == module {
				dir, ours = ".", true
			}
			if node := drawn(dir); ours && node != from {
				if to[from] == nil {
					to[from] = make(map[string]bool)
				}
				to[from][node] = true
			}
		}
	}
	var b strings.Builder
	b.WriteString("flowchart TD\n")
	for _, from := range slices.Sorted(maps.Keys(to)) {
		var all []string
		for _, node := range slices.Sorted(maps.Keys(to[from])) {
			if leads(t, to, node, from, nil) {
				t.Errorf("%s and %s import each other", from, node)
			}
			if !slices.ContainsFunc(slices.Collect(maps.Keys(to[from])), func(by string) bool { return by != node && leads(t, to, by, node, nil) }) {
				all = append(all, node)
			}
		}
		b.WriteString("    " + from + " --> " + strings.Join(all, " & ") + "\n")
	}
	return b.String()
}

// leads reports whether arrows lead from one node to another.
func leads(t *testing.T, to map[string]map[string]bool, from, target string, way []string) bool {
	if slices.Contains(way, from) {
		t.Fatalf("a circle of imports: %s", strings.Join(append(way, from), " → "))
	}
	for next := range to[from] {
		if next == target || leads(t, to, next, target, append(way, from)) {
			return true
		}
	}
	return false
}

// TestDrawing: the document draws the imports as they are, and they have no circle.
func TestDrawing(t *testing.T) {
	const file, begin, end = "docs/decisions/59-drawing-of-wings.md", "```mermaid\n", "```\n"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), begin)
	old, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("%s has no drawing", file)
	}
	is := drawing(t)
	switch {
	case old == is:
	case *draw:
		if err := os.WriteFile(file, []byte(before+begin+is+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s draws other imports than there are; `go test . -run TestDrawing -draw` draws\n%s", file, is)
	}
}
