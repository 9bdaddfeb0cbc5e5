package agent

import (
	"strconv"
	"testing"
)

// What an agent says is what stands in it, whatever was asked before. That all signs are
// known is tested with requests (package land).
func TestRead(t *testing.T) {
	r := NewReader()
	for range 2 {
		for text, want := range map[string]Verdict{
			"":                                   {},
			"Mozilla/5.0":                        {true, Apple, ""},
			"Mozilla/5.0 (X11; a)":               {},
			"x (via ggpht.com GoogleImageProxy)": {false, "", "google"},
			"PYTHON-requests/2":                  {true, Program, ""},
			"Barracuda Sentinel (EE)":            {true, Scanner, ""},
		} {
			if got := r.Read(text); got != want {
				t.Errorf("%q: %+v, want %+v", text, got, want)
			}
		}
	}
}

// Agents that are made up take no more memory than they may, and change no verdict.
func TestReaderForgets(t *testing.T) {
	r := NewReader()
	for i := range 3 * kept {
		name := strconv.Itoa(i)
		if got := r.Read("agent " + name); got != (Verdict{}) {
			t.Fatalf("agent %s: %+v", name, got)
		}
		if got := r.Read("python " + name); got.Reason != Program {
			t.Fatalf("python %s: %+v", name, got)
		}
		if len(r.known) > kept {
			t.Fatalf("%d agents are remembered", len(r.known))
		}
	}
}

// Of few agents the verdicts are remembered; of more than are, each is looked at anew.
func BenchmarkRead(b *testing.B) {
	for _, many := range []int{16, 5 * kept} {
		agents := make([]string, many)
		for i := range agents {
			agents[i] = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0." + strconv.Itoa(i) + " Safari/537.36"
		}
		b.Run(strconv.Itoa(many), func(b *testing.B) {
			r, i := NewReader(), 0
			for b.Loop() {
				if r.Read(agents[i%many]).Machine {
					b.Fatal(agents[i%many])
				}
				i++
			}
		})
	}
}
