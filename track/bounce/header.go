package bounce

import (
	"bytes"
	"strings"
)

const (
	maxFields     = 500      // of one head, or one block of a report; more are not kept
	maxFieldBytes = 16 << 10 // of one field with its name and its folded lines; the rest is not kept
)

// field is one field of a head. Its name is in lower case, its value is unfolded.
type field struct{ name, value string }

// header are the fields of a head, in their order.
type header []field

// get returns the value of the first field of a name, or "". Names are in lower case.
func (h header) get(name string) string {
	for _, f := range h {
		if f.name == name {
			return f.value
		}
	}
	return ""
}

// all returns the values of all fields of a name.
func (h header) all(name string) (values []string) {
	for _, f := range h {
		if f.name == name {
			values = append(values, f.value)
		}
	}
	return values
}

// cutLine cuts the first line off, without its end: LF, or CR and LF.
func cutLine(b []byte) (line, rest []byte) {
	line, rest, _ = bytes.Cut(b, []byte{'\n'})
	return bytes.TrimSuffix(line, []byte{'\r'}), rest
}

// withoutEmptyLines takes the lines off that stand before a head and have nothing but
// spaces. Servers that return a mail write one too many.
func withoutEmptyLines(b []byte) []byte {
	for len(b) > 0 {
		line, rest := cutLine(b)
		if len(bytes.TrimSpace(line)) > 0 {
			break
		}
		b = rest
	}
	return b
}

// cutHeader reads fields up to the first line that has nothing but spaces, and
// returns what is behind it. A line that is no field and continues none is left
// out with what continues it.
func cutHeader(b []byte) (h header, rest []byte) {
	var raw []byte // the field that is being read
	take := func() {
		if f, ok := parseField(raw); ok && len(h) < maxFields {
			h = append(h, f)
		}
		raw = raw[:0]
	}
	for len(b) > 0 {
		line, after := cutLine(b)
		b = after
		if len(bytes.TrimSpace(line)) == 0 {
			break
		}
		if line[0] != ' ' && line[0] != '\t' {
			take()
		} else if len(raw) == 0 {
			continue // it continues nothing
		}
		raw = append(raw, line[:min(len(line), maxFieldBytes-len(raw))]...)
	}
	take()
	return h, b
}

func parseField(raw []byte) (field, bool) {
	name, value, found := bytes.Cut(raw, []byte{':'})
	name = bytes.TrimRight(name, " \t") // RFC 5322, 4.5.8
	if !found || len(name) == 0 {
		return field{}, false
	}
	for _, c := range name {
		if c <= ' ' || c > '~' {
			return field{}, false
		}
	}
	return field{strings.ToLower(string(name)), strings.TrimSpace(text(value))}, true
}

// stripComments takes comments (RFC 5322, 3.2.2) off, but none in quotes. A value
// whose parentheses do not match stays as it is.
func stripComments(value string) string {
	var s strings.Builder
	level, quoted := 0, false
	for i := 0; i < len(value); i++ {
		c := value[i]
		switch {
		case c == '\\' && i+1 < len(value) && (quoted || level > 0):
			if i++; level == 0 {
				s.WriteString(value[i-1 : i+1])
			}
			continue
		case c == '"' && level == 0:
			quoted = !quoted
		case c == '(' && !quoted:
			level++
			continue
		case c == ')' && !quoted && level > 0:
			level--
			continue
		}
		if level == 0 {
			s.WriteByte(c)
		}
	}
	if level > 0 || quoted {
		return value
	}
	return strings.TrimSpace(s.String())
}

// typed cuts the type off a value such as "rfc822; ann@example.com" (RFC 3464, 2.1.2).
// It is in lower case, and "" if there is none.
func typed(value string) (kind, rest string) {
	before, after, found := strings.Cut(value, ";")
	if !found || strings.ContainsAny(before, "@<\"") {
		return "", value
	}
	return strings.ToLower(strings.TrimSpace(stripComments(before))), strings.TrimSpace(after)
}

// messageID returns the first id of a value, without < and >, or "".
func messageID(value string) string {
	if _, after, found := strings.Cut(value, "<"); found {
		value, _, _ = strings.Cut(after, ">")
	}
	return clean(value)
}

// lastMessageID returns the last id of a list such as References, or "".
func lastMessageID(value string) string {
	return messageID(value[max(0, strings.LastIndexByte(value, '<')):])
}
