package sluice

import "testing"

func TestWords(t *testing.T) {
	type kind byte
	w := Words[kind]{1: "one", 3: "three"}
	for k, want := range []string{"unknown", "one", "unknown", "three", "unknown"} {
		if got := w.Of(kind(k)); got != want {
			t.Errorf("%d is %q, want %q", k, got, want)
		}
	}
	for word, want := range map[string]kind{"one": 1, "three": 3, "": 0, "unknown": 0, "two": 0} {
		if k, ok := w.Parse(word); k != want || ok != (want != 0) {
			t.Errorf("%q is %d, %v", word, k, ok)
		}
	}
	if _, ok := ParseEventKind(KindCounter.String()); ok {
		t.Error("an event may have the kind of counts")
	}
}
