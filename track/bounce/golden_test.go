package bounce

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the events of testdata anew")

// linesOf returns events as the command prints them.
func linesOf(t testing.TB, events []Event) []byte {
	t.Helper()
	var b bytes.Buffer
	out := json.NewEncoder(&b)
	out.SetEscapeHTML(false)
	for i := range events {
		if err := out.Encode(&events[i]); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

// Each mail of testdata gives the events that lie beside it, whichever end its lines
// have. `go test ./track/bounce -run Golden -update` writes them anew.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.eml")
	if err != nil || len(files) < 20 {
		t.Fatalf("%d mails in testdata: %v", len(files), err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		got := linesOf(t, Parse(b))
		golden := strings.TrimSuffix(file, ".eml") + ".ndjson"
		if *update {
			if err := os.WriteFile(golden, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s gives\n%swant\n%s", file, got, want)
		}
		if wire := linesOf(t, Parse(bytes.ReplaceAll(b, []byte("\n"), []byte("\r\n")))); !bytes.Equal(wire, want) {
			t.Errorf("%s with CRLF gives\n%swant\n%s", file, wire, want)
		}
	}
}
