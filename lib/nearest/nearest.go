// Package nearest finds the known word that a misspelt one was meant to be.
package nearest

import (
	"cmp"
	"math"
	"strings"
)

// maxNearestBytes bounds the words that are compared: the time grows with the
// product of the two lengths.
const maxNearestBytes = 64

// Word returns the known word that takes the fewest edits (a letter put in,
// taken out, changed, or two neighbours swapped) to get from word, or "" if
// none is near: more than a third of the letters would change.
func Word(word string, known []string) string {
	if len(word) > maxNearestBytes {
		return ""
	}
	return within(max(1, (len(word)+1)/3), word, known)
}

// Closest returns the known word that takes the fewest edits, however many.
func Closest(word string, known []string) string { return within(math.MaxInt, word, known) }

func within(most int, word string, known []string) (best string) {
	for _, k := range known {
		if len(k) > maxNearestBytes {
			continue
		}
		if n := edits(strings.ToLower(word), strings.ToLower(k)); n <= most {
			best, most = k, n-1
		}
	}
	return best
}

// edits is the optimal string alignment distance, three rows of its table.
func edits(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}

// DidYouMean returns "; did you mean X?" with the nearest known word, or, if
// none is near, the list of all.
func DidYouMean(word string, known []string) string {
	return cmp.Or(Hint(word, known), "; known are "+strings.Join(known, ", "))
}

// Hint is DidYouMean without the list: empty if no word is near.
func Hint(word string, known []string) string {
	if near := Word(word, known); near != "" {
		return "; did you mean " + near + "?"
	}
	return ""
}
