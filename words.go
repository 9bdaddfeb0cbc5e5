package sluice

import "slices"

// Words are the words of an enumeration, each at its number; "" is of none. The
// numbers are stored, the words are read and shown.
type Words[K ~uint8] []string

// Of returns the word of a number, "unknown" of one that has none.
func (w Words[K]) Of(k K) string {
	if int(k) < len(w) && w[k] != "" {
		return w[k]
	}
	return "unknown"
}

// Parse returns the number that has a word.
func (w Words[K]) Parse(word string) (k K, ok bool) {
	i := slices.Index(w, word)
	if i < 0 || word == "" {
		return 0, false
	}
	return K(i), true
}
