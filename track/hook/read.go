package hook

import (
	"bytes"
	"fmt"
	"mime/multipart"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"sluice/lib/jsonscan"
)

// Bounds of what is read of one element.
const (
	maxMembers = 4096 // of an object
	maxValues  = 1000 // of a list in it; further ones are left out
	maxFields  = 1000 // of a form
)

// clean makes a body a text that jsonscan reads wherever it is JSON at all. Providers
// pass on what strangers wrote, such as user agents and subjects, cut anywhere. So
// invalid UTF-8, half of a surrogate pair and NUL, which no database holds, become
// U+FFFD. A byte order mark at the start goes.
func clean(body []byte) string {
	s := strings.TrimPrefix(string(body), "\ufeff")
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "\ufffd")
	}
	if !strings.Contains(s, `\u`) {
		return s
	}
	var b strings.Builder
	b.Grow(len(s))
	for {
		at := strings.IndexByte(s, '\\')
		if at < 0 || at+1 == len(s) {
			b.WriteString(s)
			return b.String()
		}
		b.WriteString(s[:at])
		s = s[at:]
		n := 2
		if r, ok := unit(s); ok {
			n = 6
			low, paired := unit(s[6:])
			switch {
			case utf16.IsSurrogate(r) && paired && utf16.DecodeRune(r, low) != 0xfffd:
				n = 12
			case utf16.IsSurrogate(r), r == 0:
				b.WriteString(`\ufffd`)
				s = s[6:]
				continue
			}
		}
		b.WriteString(s[:n])
		s = s[n:]
	}
}

// unit reads the escape that a text begins with.
func unit(s string) (rune, bool) {
	if len(s) < 6 || s[:2] != `\u` {
		return 0, false
	}
	n, err := strconv.ParseUint(s[2:6], 16, 16)
	return rune(n), err == nil
}

// split cuts the elements of an array apart by commas, brackets and quotes, whatever they
// are otherwise. So an element that is no JSON costs itself alone. It returns no more
// than most+1.
func split(array string, most int) (all []string) {
	depth, start, quoted := 0, 1, false
	add := func(end int) {
		if element := strings.TrimSpace(array[start:end]); element != "" {
			all = append(all, element)
		}
		start = end + 1
	}
	for i := 1; i < len(array); i++ {
		switch c := array[i]; {
		case quoted:
			end := strings.IndexAny(array[i:], `"\`)
			if end < 0 {
				i = len(array)
				break
			}
			if i += end; array[i] == '"' {
				quoted = false
			} else {
				i++
			}
		case c == '"':
			quoted = true
		case c == '[', c == '{':
			depth++
		case depth == 0 && c == ']':
			add(i)
			i = len(array) // what follows is one element that cannot be read
		case depth > 0 && (c == ']' || c == '}'):
			depth--
		case depth == 0 && c == ',':
			if add(i); len(all) > most {
				return all
			}
		}
	}
	if start < len(array) {
		add(len(array))
	}
	return all
}

// object is a JSON object by the names of its members. Of two of one name the last
// counts.
type object map[string]jsonscan.Value

// usualMembers is how many members most objects have at most.
const usualMembers = 24

// readObject reads an object.
func readObject(text string) (object, error) {
	o := object{}
	if err := o.read(text); err != nil {
		return nil, err
	}
	return o, nil
}

// read adds the members of an object.
func (o object) read(text string) error {
	m := jsonscan.Read(text)
	for m.Next() {
		if o[m.Key] = m.Value; len(o) > maxMembers {
			return fmt.Errorf("an object has more than %d members", maxMembers)
		}
	}
	return m.Err()
}

// objectOf returns a value as an object, an empty one if it is none.
func objectOf(v jsonscan.Value) object {
	if v.Kind != jsonscan.Object {
		return nil
	}
	o, _ := readObject(v.Raw) // nil if it has too many members
	return o
}

// inner returns the object at the end of a way of names.
func (o object) inner(way ...string) object {
	for _, name := range way {
		o = objectOf(o[name])
	}
	return o
}

// text returns the first member of these names that is a string or a number and not
// empty; of a number its digits.
func (o object) text(names ...string) string {
	for _, name := range names {
		if s := textOf(o[name]); s != "" {
			return s
		}
	}
	return ""
}

// joined returns the texts of members, those that are there, with colons between them.
func (o object) joined(names ...string) string {
	var all []string
	for _, name := range names {
		if s := o.text(name); s != "" {
			all = append(all, s)
		}
	}
	return strings.Join(all, ": ")
}

func textOf(v jsonscan.Value) string {
	if v.Kind == jsonscan.String || v.Kind == jsonscan.Number {
		return v.Text()
	}
	return ""
}

// is reports whether a member is true, or the text of it.
func (o object) is(name string) bool {
	v := o[name]
	return v.Kind == jsonscan.Bool && v.Raw == "true" || strings.EqualFold(textOf(v), "true")
}

// list returns the values of a member that is an array; of any other that one value.
func (o object) list(name string) (all []jsonscan.Value) {
	v := o[name]
	switch v.Kind {
	case jsonscan.None, jsonscan.Null:
		return nil
	case jsonscan.Array:
		for e := jsonscan.ReadArray(v.Raw); e.Next() && len(all) < maxValues; {
			all = append(all, e.Value)
		}
		return all
	}
	return []jsonscan.Value{v}
}

// texts returns the texts of a member that is a list of them, or one.
func (o object) texts(name string) (all []string) {
	if v := o[name]; v.Kind == jsonscan.String {
		if s := v.Text(); s != "" {
			return []string{s}
		}
		return nil
	}
	for _, v := range o.list(name) {
		if s := textOf(v); s != "" {
			all = append(all, s)
		}
	}
	return all
}

// listText returns the texts of a JSON array in a text. What is none is one text.
func listText(text string) []string {
	if o, err := readObject(`{"":` + clean([]byte(text)) + `}`); err == nil && o[""].Kind == jsonscan.Array {
		return o.texts("")
	}
	return []string{text}
}

// form reads a body that is a form, application/x-www-form-urlencoded or
// multipart/form-data. Which one it is, and the boundary, are seen by the body itself:
// lines may stand before the first boundary (RFC 2046, 5.1.1). Files in it are left out.
func form(body []byte) (url.Values, error) {
	if parts := fromBoundary(body); parts != nil {
		return multipartForm(parts)
	}
	if n := bytes.Count(body, []byte{'&'}); n >= maxFields {
		return nil, fmt.Errorf("%w: the form has more than %d fields", ErrUnreadable, maxFields)
	}
	values := url.Values{}
	for field := range strings.SplitSeq(string(bytes.TrimSpace(body)), "&") {
		if name, value, _ := strings.Cut(field, "="); field != "" {
			values.Add(formText(name), formText(value))
		}
	}
	return values, nil
}

// formText decodes a name or value of a form as browsers do (WHATWG URL, 5.1). What is no
// escape stays as it is, and a semicolon is a character.
func formText(s string) string {
	s = strings.ReplaceAll(s, "+", " ")
	if !strings.Contains(s, "%") {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+3], 16, 8); err == nil {
				b.WriteByte(byte(n))
				i += 2
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// fromBoundary returns a body from its first line on that begins with two hyphens, or nil
// if there is none.
func fromBoundary(body []byte) []byte {
	if body = bytes.TrimLeft(body, "\r\n\t "); bytes.HasPrefix(body, []byte("--")) {
		return body
	}
	if at := bytes.Index(body, []byte("\n--")); at >= 0 {
		return body[at+1:]
	}
	return nil
}

// maxBoundaryBytes is RFC 2046, 5.1.1.
const maxBoundaryBytes = 70

func multipartForm(body []byte) (url.Values, error) {
	head, _, _ := bytes.Cut(body[2:], []byte("\n"))
	boundary := string(bytes.TrimRight(head, "\r \t"))
	if boundary == "" || len(boundary) > maxBoundaryBytes {
		return nil, fmt.Errorf("%w: the form's first line is no boundary of 1 to %d characters", ErrUnreadable, maxBoundaryBytes)
	}
	values := url.Values{}
	parts := multipart.NewReader(bytes.NewReader(body), boundary)
	for n := 0; ; n++ {
		if n == maxFields {
			return nil, fmt.Errorf("%w: the form has more than %d fields", ErrUnreadable, maxFields)
		}
		part, err := parts.NextPart()
		if err != nil {
			if len(values) == 0 {
				return nil, fmt.Errorf("%w: read the form: %w", ErrUnreadable, err)
			}
			return values, nil
		}
		if part.FormName() == "" || part.FileName() != "" {
			continue
		}
		var value bytes.Buffer
		if _, err := value.ReadFrom(part); err != nil {
			return values, nil // it ends in the middle of a field
		}
		values.Add(part.FormName(), value.String())
	}
}
