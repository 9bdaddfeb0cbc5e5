package rewrite

import (
	"html"
	"strings"
	"unicode/utf8"
)

// unescape returns what the value of an attribute says: its character references
// replaced once, by the rules of attributes (HTML, 13.2.5.73). There a name without
// a semicolon before = or a letter is none: ?a=1&copy=2 is what it says.
func unescape(value string) string {
	amp := strings.IndexByte(value, '&')
	if amp < 0 {
		return value
	}
	b := make([]byte, 0, len(value))
	for amp >= 0 {
		b = append(b, value[:amp]...)
		value = value[amp:]
		n := reference(value)
		b = append(b, unescapeOne(value[:n], value[n:])...)
		value = value[n:]
		amp = strings.IndexByte(value, '&')
	}
	return string(append(b, value...))
}

// reference returns how long what begins with & is, as far as it may be a
// reference, its semicolon included.
func reference(s string) int {
	n := 1
	if n < len(s) && s[n] == '#' {
		n++
		if n < len(s) && s[n]|0x20 == 'x' {
			for n++; n < len(s) && isHex(s[n]); n++ {
			}
		} else {
			for ; n < len(s) && s[n] >= '0' && s[n] <= '9'; n++ {
			}
		}
	} else {
		for ; n < len(s) && (isLetter(s[n]) || s[n] >= '0' && s[n] <= '9'); n++ {
		}
	}
	if n < len(s) && s[n] == ';' {
		n++
	}
	return n
}

// unescapeOne returns what a reference stands for, or itself if it is none.
func unescapeOne(ref, behind string) string {
	switch {
	case ref == "&amp;":
		return "&"
	case len(ref) == 1:
		return ref
	case ref[1] == '#':
		if digits := strings.TrimRight(ref, ";"); isHex(digits[len(digits)-1]) { // package html wants to see where it ends
			return html.UnescapeString(digits + ";")
		}
	case strings.HasSuffix(ref, ";"):
		// One of which the beginning alone is a name leaves the rest, with the ;.
		if text := html.UnescapeString(ref); ref == "&semi;" || !strings.HasSuffix(text, ";") {
			return text
		}
	case !strings.HasPrefix(behind, "="):
		if text := html.UnescapeString(ref); utf8.RuneCountInString(text) == 1 {
			return text
		}
	}
	return ref
}

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'f'
}
