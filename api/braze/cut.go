package braze

import (
	"strconv"
	"strings"

	"sluice/lib/jsonscan"
)

// A body is cut into its objects before any of them is looked into. What is
// wrong inside of one (bytes that are no UTF-8, 10,000 levels, a number that is
// none) must cost that one and no other. The index of each must be the one that
// its sender knows. So the cuts are made by brackets and quotes alone, and each
// piece is then read strictly, by jsonscan. A body whose brackets do not close
// is refused as a whole.

// cutter walks over the members of an object, or the elements of an array,
// without looking into them.
type cutter struct {
	Key   string // decoded; of an object's member
	Value string // as it stands there

	text  string
	at    int
	open  byte
	begun bool
	bad   bool // it could not be told where something ends
}

// cutObject begins to walk over the object that text is.
func cutObject(text string) cutter { return cutter{text: text, open: '{'} }

// cutArray begins to walk over the array that text is.
func cutArray(text string) cutter { return cutter{text: text, open: '['} }

// Next moves to the next part and reports whether there is one.
func (c *cutter) Next() bool {
	s, i := c.text, jsonscan.Space(c.text, c.at)
	if c.bad {
		return false
	}
	if !c.begun {
		c.begun = true
		if i == len(s) || s[i] != c.open {
			return c.fail()
		}
		if i = jsonscan.Space(s, i+1); i < len(s) && s[i] == c.open+2 {
			return c.end(i + 1)
		}
	} else {
		switch {
		case i < len(s) && s[i] == ',':
			i = jsonscan.Space(s, i+1)
		case i < len(s) && s[i] == c.open+2: // the closing one: } is {+2, ] is [+2
			return c.end(i + 1)
		default:
			return c.fail()
		}
	}
	if c.open == '{' {
		var ok bool
		if i, ok = c.cutKey(i); !ok {
			return c.fail()
		}
	}
	end := endOfValue(s, i)
	if end == i || end > len(s) {
		return c.fail()
	}
	c.Value, c.at = s[i:end], end
	return true
}

// cutKey reads a member's name and its colon.
func (c *cutter) cutKey(i int) (int, bool) {
	s := c.text
	if i == len(s) || s[i] != '"' {
		return i, false
	}
	end := endOfString(s, i)
	if end > len(s) {
		return i, false
	}
	c.Key = s[i+1 : end-1]
	if strings.IndexByte(c.Key, '\\') >= 0 {
		if v, err := jsonscan.Scan(s[i:end]); err == nil {
			c.Key = v.Text()
		}
	}
	if i = jsonscan.Space(s, end); i == len(s) || s[i] != ':' {
		return i, false
	}
	return jsonscan.Space(s, i+1), true
}

func (c *cutter) end(i int) bool {
	if jsonscan.Space(c.text, i) != len(c.text) {
		return c.fail()
	}
	c.at, c.text = 0, "" // Next is not called again; if it is, it fails
	return false
}

func (c *cutter) fail() bool {
	c.bad = true
	return false
}

// endOfValue returns where the value ends that begins at s[i], more than len(s)
// if it does not. A scalar ends where something begins that cannot be in one.
func endOfValue(s string, i int) int {
	if i == len(s) {
		return i
	}
	switch s[i] {
	case '"':
		return endOfString(s, i)
	case '{', '[':
	default:
		for i < len(s) && s[i] > ' ' && !strings.ContainsRune(`,:]}[{"`, rune(s[i])) {
			i++
		}
		return i
	}
	depth := 0
	for i < len(s) {
		switch s[i] {
		case '"':
			i = endOfString(s, i)
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
		i++
	}
	return len(s) + 1
}

// endOfString returns where the string ends that begins at s[i] with its quote,
// more than len(s) if it does not.
func endOfString(s string, i int) int {
	i++
	for {
		n := strings.IndexByte(s[i:], '"')
		if n < 0 {
			return len(s) + 1
		}
		slash := strings.IndexByte(s[i:i+n], '\\')
		if slash < 0 {
			return i + n + 1
		}
		if i += slash + 2; i > len(s) { // what is escaped ends no string
			return len(s) + 1
		}
	}
}

// NumbersFit reports whether every number in a scanned value is one that can be
// counted with: whole ones of 64 bits, others within floating point. A profile
// keeps numbers by their digits, and each reader must be able to read them.
func NumbersFit(s string) bool {
	for i := 0; i < len(s); {
		c := s[i]
		if c == '"' {
			i = endOfString(s, i)
			continue
		}
		if c != '-' && c-'0' > 9 {
			i++
			continue
		}
		start, whole := i, true
		for i++; i < len(s); i++ {
			if c = s[i]; c == '.' || c|0x20 == 'e' || c == '+' || c == '-' {
				whole = false
			} else if c-'0' > 9 {
				break
			}
		}
		const surelyFits = 18 // digits, and no exponent
		switch {
		case whole && i-start <= surelyFits, !whole && i-start <= surelyFits && !strings.ContainsAny(s[start:i], "eE"):
		case whole:
			if _, err := strconv.ParseInt(s[start:i], 10, 64); err != nil {
				return false
			}
		default:
			if _, err := strconv.ParseFloat(s[start:i], 64); err != nil {
				return false
			}
		}
	}
	return true
}
