package bounce

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"sluice/lib/mime"
)

// addressOf returns the address of a field of a delivery status: of the types
// rfc822 and utf-8, of smtp, which some servers write for rfc822, or of none. Others, such as x400, have none that is mailed.
func addressOf(value string) string {
	kind, address := typed(value)
	address = strings.TrimSpace(stripComments(address))
	if inner, found := strings.CutPrefix(address, "<"); found {
		address = strings.TrimSuffix(inner, ">")
	}
	switch kind {
	case "", "rfc822", "smtp":
		return clean(address)
	case "utf-8":
		return clean(fromUnitext(address))
	}
	return ""
}

// originalOf returns the address of Original-Recipient. It is the ORCPT of the mail
// (RFC 3461, 6.3), which some servers copy as xtext and others decode. final is
// the address of Final-Recipient: if they are alike, there is nothing to decode.
// The type utf-8 has an encoding of its own.
func originalOf(value, final string) string {
	kind, _ := typed(value)
	address := addressOf(value)
	if kind == "utf-8" || strings.EqualFold(address, final) {
		return address
	}
	return clean(fromXtext(address))
}

// fromXtext decodes xtext (RFC 3461, 4): "+" and two hexadecimal digits are an
// octet. A text that no encoder makes stays as it is, for it was decoded before:
// ann+2024@example.com has a tag. In xtext each "+" begins an octet that has to
// be encoded: "+", "=", and what is not visible ASCII. The result is an address.
func fromXtext(s string) string {
	if !strings.Contains(s, "+") {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '+' {
			b.WriteByte(s[i])
			continue
		}
		if i+2 >= len(s) || s[i+1:i+3] != strings.ToUpper(s[i+1:i+3]) {
			return s
		}
		n, err := strconv.ParseUint(s[i+1:i+3], 16, 8)
		if err != nil || n != '+' && n != '=' && n > ' ' && n <= '~' {
			return s
		}
		b.WriteByte(byte(n))
		i += 2
	}
	if _, err := mime.ParseAddress(b.String()); err != nil {
		return s
	}
	return b.String()
}

// maxHexDigits are the digits of the last character of Unicode.
const maxHexDigits = 6

// fromUnitext decodes what an address of the type utf-8 has beyond ASCII (RFC 6533,
// 3): \x{HEX} is a character. What is no such form stays as it is. The end of one is
// looked for within maxHexDigits: at each, the whole rest would take the square.
func fromUnitext(s string) string {
	var b strings.Builder
	for {
		before, after, found := strings.Cut(s, `\x{`)
		b.WriteString(before)
		if !found {
			return b.String()
		}
		digits, _, closed := strings.Cut(after[:min(len(after), maxHexDigits+1)], "}")
		n, err := strconv.ParseUint(digits, 16, 32)
		if !closed || err != nil || n < ' ' || !utf8.ValidRune(rune(n)) {
			b.WriteString(`\x{`)
			s = after
			continue
		}
		b.WriteRune(rune(n))
		s = after[len(digits)+1:]
	}
}
