package chaos

import (
	"debug/elf"
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
