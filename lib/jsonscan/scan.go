package jsonscan

import (
	"math/bits"
	"unicode/utf8"

	"sluice"
)

// The scanning functions take a text and the offset where something begins, and
// return the offset behind it. With a reason other than fine, they return the
// offset of the byte that was not expected.
//
// Strings are most of a text. They are scanned eight bytes at a time. A byte
// that ends the plain run sets the high bit of its place in a mask. Such a byte
// is a quote, a backslash, a control character, or anything but ASCII. A table
// lookup for each byte does as well on strings of ten bytes, and a quarter on
// long ones.

const (
	ones        = 0x0101010101010101
	highBits    = ones * 0x80
	quotes      = ones * '"'
	backslashes = ones * '\\'
	blanks      = ones * ' '
)

// load8 returns eight bytes, the first one lowest. The compiler makes one load
// of it.
func load8(s string, i int) uint64 {
	s = s[i : i+8]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}

// Space returns where the white space ends that begins at s[i]: RFC 8259, section 2.
func Space(s string, i int) int {
	const set = 1<<' ' | 1<<'\t' | 1<<'\n' | 1<<'\r'
	for i < len(s) && s[i] <= ' ' && uint64(1)<<s[i]&set != 0 {
		i++
	}
	return i
}

// plainEnd returns where a run of plain characters of a string ends. The sums
// are exact up to the lowest bit that is set: a subtraction borrows from its
// neighbour only where it has itself found something.
func plainEnd(s string, i int) int {
	for i+8 <= len(s) {
		x := load8(s, i)
		mask := (((x ^ quotes) - ones) | ((x ^ backslashes) - ones) | (x - blanks) | x) & highBits
		if mask != 0 {
			return i + bits.TrailingZeros64(mask)>>3
		}
		i += 8
	}
	for i < len(s) && s[i] >= ' ' && s[i] < utf8.RuneSelf && s[i] != '"' && s[i] != '\\' {
		i++
	}
	return i
}

// scanString scans a string from behind its opening quote to behind its
// closing one, and reports whether it contains escapes.
func scanString(s string, i int) (end int, escaped bool, why reason) {
	for {
		i = plainEnd(s, i)
		if i == len(s) {
			return i, escaped, wantQuote
		}
		switch c := s[i]; {
		case c == '"':
			return i + 1, escaped, fine
		case c == '\\':
			escaped = true
			if i, why = scanEscape(s, i+1); why != fine {
				return i, escaped, why
			}
		case c < ' ':
			return i, escaped, wantNoControl
		default:
			for i < len(s) && s[i] >= utf8.RuneSelf {
				_, size := utf8.DecodeRuneInString(s[i:])
				if size == 1 {
					return i, escaped, wantUTF8
				}
				i += size
			}
		}
	}
}

// scanEscape scans an escape from behind its backslash; for a high surrogate
// also the low one that must follow: RFC 8259, section 7.
func scanEscape(s string, i int) (end int, why reason) {
	if i == len(s) {
		return i, wantEscape
	}
	switch s[i] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i + 1, fine
	case 'u':
	default:
		return i, wantEscape
	}
	r, ok := hex4(s, i+1)
	switch {
	case !ok:
		return i, wantHex
	case r < 0xd800 || r > 0xdfff:
		return i + 5, fine
	case r >= 0xdc00 || i+6 >= len(s) || s[i+5] != '\\' || s[i+6] != 'u':
		return i, wantPair
	}
	if low, ok := hex4(s, i+7); !ok || low < 0xdc00 || low > 0xdfff {
		return i, wantPair
	}
	return i + 11, fine
}

// hex4 reads four hexadecimal digits.
func hex4(s string, i int) (r rune, ok bool) {
	if i+4 > len(s) {
		return 0, false
	}
	for _, c := range []byte(s[i : i+4]) {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

// scanNumber scans a number: RFC 8259, section 6.
func scanNumber(s string, i int) (end int, why reason) {
	if i < len(s) && s[i] == '-' {
		i++
	}
	start := i
	if i = digits(s, i); i == start {
		return i, wantDigit
	}
	if s[start] == '0' && i > start+1 {
		return start + 1, wantNoDigit
	}
	if i < len(s) && s[i] == '.' {
		start = i + 1
		if i = digits(s, start); i == start {
			return i, wantDigit
		}
	}
	if i < len(s) && s[i]|0x20 == 'e' {
		i++
		if i < len(s) && (s[i] == '+' || s[i] == '-') {
			i++
		}
		start = i
		if i = digits(s, start); i == start {
			return i, wantDigit
		}
	}
	return i, fine
}

func digits(s string, i int) int {
	for i < len(s) && s[i]-'0' <= 9 {
		i++
	}
	return i
}

// scanOther scans a value that is no string. level is how many objects and
// arrays it stands in.
func scanOther(s string, i, level int) (end int, kind Kind, why reason) {
	if i == len(s) {
		return i, None, wantValue
	}
	switch c := s[i]; c {
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		end, why = scanNumber(s, i)
		return end, Number, why
	case '{':
		end, why = scanNested(s, i, level)
		return end, Object, why
	case '[':
		end, why = scanNested(s, i, level)
		return end, Array, why
	case 't':
		end, why = scanWord(s, i, "true")
		return end, Bool, why
	case 'f':
		end, why = scanWord(s, i, "false")
		return end, Bool, why
	case 'n':
		end, why = scanWord(s, i, "null")
		return end, Null, why
	}
	return i, None, wantValue
}

func scanWord(s string, i int, word string) (end int, why reason) {
	if len(s)-i < len(word) || s[i:i+len(word)] != word {
		return i, wantLiteral
	}
	return i + len(word), fine
}

// The stack of scanNested has one bit a level.
const _ = uint(64 - sluice.MaxNestingLevels)

// scanNested scans the object or array that begins at s[i]. It does not call
// itself: the open brackets are a stack of bits, 1 for an object, the innermost
// lowest. So a text of a million brackets costs nothing but its reading.
func scanNested(s string, i, level int) (end int, why reason) {
	objects, open := uint64(0), 0
	for {
		if i == len(s) {
			return i, wantValue
		}
		switch c := s[i]; c {
		case '{', '[':
			if level+open == sluice.MaxNestingLevels {
				return i, wantShallower
			}
			open++
			objects <<= 1
			if c == '{' {
				objects |= 1
			}
			i = Space(s, i+1)
			if i < len(s) && s[i] == c+2 { // the closing one: } is {+2, ] is [+2
				break
			}
			if c == '{' {
				if i, why = scanName(s, i); why != fine {
					return i, why
				}
			}
			continue
		case '"':
			i, _, why = scanString(s, i+1)
		default:
			i, _, why = scanOther(s, i, level)
		}
		if why != fine {
			return i, why
		}
		if i, objects, open, why = scanClosing(s, i, objects, open); why != fine || open == 0 {
			return i, why
		}
	}
}

// scanClosing goes on behind a value: over what closes there and, if anything
// stays open, to where the next value begins.
func scanClosing(s string, i int, objects uint64, open int) (int, uint64, int, reason) {
	for {
		i = Space(s, i)
		isObject := objects&1 != 0
		switch {
		case i < len(s) && s[i] == ',':
			i = Space(s, i+1)
			if !isObject {
				return i, objects, open, fine
			}
			i, why := scanName(s, i)
			return i, objects, open, why
		case i < len(s) && (isObject && s[i] == '}' || !isObject && s[i] == ']'):
			i++
			objects >>= 1
			if open--; open == 0 {
				return i, objects, open, fine
			}
		case isObject:
			return i, objects, open, wantCommaOrBrace
		default:
			return i, objects, open, wantCommaOrBracket
		}
	}
}

// scanName scans a member's name, its colon and the white space behind it.
func scanName(s string, i int) (end int, why reason) {
	if i == len(s) || s[i] != '"' {
		return i, wantKey
	}
	if i, _, why = scanString(s, i+1); why != fine {
		return i, why
	}
	if i = Space(s, i); i == len(s) || s[i] != ':' {
		return i, wantColon
	}
	return Space(s, i+1), fine
}

// appendDecoded appends the text of a string that has been scanned, given
// without its quotes.
func appendDecoded(dst []byte, s string) []byte {
	for i := 0; i < len(s); {
		if s[i] != '\\' {
			start := i
			for i < len(s) && s[i] != '\\' {
				i++
			}
			dst = append(dst, s[start:i]...)
			continue
		}
		switch c := s[i+1]; c {
		case 'b':
			dst = append(dst, '\b')
		case 'f':
			dst = append(dst, '\f')
		case 'n':
			dst = append(dst, '\n')
		case 'r':
			dst = append(dst, '\r')
		case 't':
			dst = append(dst, '\t')
		case 'u':
			r, _ := hex4(s, i+2)
			if r >= 0xd800 && r <= 0xdfff { // scanEscape has seen the other half
				low, _ := hex4(s, i+8)
				r = 0x10000 + (r-0xd800)<<10 + (low - 0xdc00)
				i += 6
			}
			dst = utf8.AppendRune(dst, r)
			i += 4
		default:
			dst = append(dst, c)
		}
		i += 2
	}
	return dst
}
