package nearest

import (
	"strings"
	"testing"
)

func TestWord(t *testing.T) {
	known := []string{"serve", "dev", "demo", "migrate", "tail", "dead", "bench", "config", "version", "help"}
	for word, want := range map[string]string{
		"serv": "serve", "sevre": "serve", "Migrat": "migrate", "dmeo": "demo", "confgi": "config",
		"hepl": "help", "xyzzy": "", "": "", "d": "", strings.Repeat("serve", 100): "",
	} {
		if got := Word(word, known); got != want {
			t.Errorf("nearest to %q is %q, want %q", word, got, want)
		}
	}
	if got := Closest("xyzzy", []string{strings.Repeat("x", 100), "migrate", "tizzy"}); got != "tizzy" {
		t.Errorf("closest is %q", got)
	}
}
