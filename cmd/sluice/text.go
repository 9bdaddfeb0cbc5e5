package main

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// safeText returns a text for a terminal: what is not printable (control
// characters that move the cursor or change the title, bidirectional marks,
// broken UTF-8) is shown as an escape. Payloads come from outside. A program
// that can push to a list must not be able to write to an operator's terminal.
func safeText(s string) string {
	clean := true
	for _, r := range s {
		if r == utf8.RuneError || !strconv.IsPrint(r) {
			clean = false
			break
		}
	}
	if clean {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[0])
		case strconv.IsPrint(r):
			b.WriteRune(r)
		default:
			quoted := strconv.QuoteRuneToASCII(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		}
		s = s[n:]
	}
	return b.String()
}

// safeLines is safeText of each line.
func safeLines(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = safeText(lines[i])
	}
	return strings.Join(lines, "\n")
}

// safeJSON encodes a value as one line of JSON that is safe for a terminal.
func safeJSON(v any) (string, error) {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return "", fmt.Errorf("encode as JSON: %w", err)
	}
	return safeLine(strings.TrimSuffix(b.String(), "\n")), nil
}

// safeLine escapes in a line of JSON what is not printable, so that it says the same:
// encoding/json escapes only the characters below the space.
func safeLine(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case strconv.IsPrint(r):
			b.WriteRune(r)
		case r > 0xffff: // RFC 8259, 7: as a surrogate pair
			fmt.Fprintf(&b, `\u%04x\u%04x`, 0xd800+(r-0x10000)>>10, 0xdc00+(r-0x10000)&0x3ff)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// grouped returns a number with its thousands apart: 1,234,567.
func grouped(n int64) string {
	digits := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, digits = "-", digits[1:]
	}
	var b strings.Builder
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(d)
	}
	return sign + b.String()
}
