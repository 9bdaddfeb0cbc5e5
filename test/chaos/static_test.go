package chaos

import (
	"debug/elf"
	"os"
	"strings"
	"testing"
)

// The program is one static file: it runs in any image, whatever C library that
// has.
func TestTheProgramIsStatic(t *testing.T) {
	file, err := elf.Open(binary)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	libraries, err := file.ImportedLibraries()
	if err != nil || len(libraries) > 0 {
		t.Errorf("it needs the libraries %v (%v)", libraries, err)
	}
	for _, p := range file.Progs {
		if p.Type == elf.PT_INTERP {
			t.Error("it needs a loader")
		}
	}
}

// docs/chaos.md says of each kind of fault what it is.
func TestKindsInDocs(t *testing.T) {
	text, err := os.ReadFile("../../docs/chaos.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range allKinds() {
		if !strings.Contains(string(text), "`"+k.name+"`") {
			t.Errorf("docs/chaos.md does not say what %s is", k.name)
		}
	}
}
