package template

import (
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// filter is what {{ value | name: args }} does. A filter counts the bytes and
// elements that it reads and makes (run.text, run.made, run.spend). It makes no
// text that is longer than what may be put out. What it would make is computed
// first, where that is more than a few times what it reads.
type filter struct {
	least, most int // arguments
	apply       func(r *run, in value, args []value) value
}

// filters is the table of all filters. docs/templates.md lists them, which a
// test compares.
var filters = tableOf(textFilters, numberFilters, listFilters, searchFilters, encodingFilters, timeFilters)

func tableOf(tables ...map[string]filter) map[string]*filter {
	all := make(map[string]*filter)
	for _, table := range tables {
		for name, f := range table {
			all[name] = &f
		}
	}
	return all
}

// ofText is a filter that makes a text of a text.
func ofText(f func(string) string) filter {
	return filter{0, 0, func(r *run, in value, _ []value) value { return r.made(f(r.text(in))) }}
}

var textFilters = map[string]filter{
	"default": {0, 1, func(_ *run, in value, args []value) value {
		if truthy(in) && !isEmpty(in) {
			return in
		}
		if len(args) == 0 {
			return ""
		}
		return args[0]
	}},
	"upcase":     ofText(strings.ToUpper),
	"downcase":   ofText(strings.ToLower),
	"capitalize": ofText(capitalize),
	"strip":      ofText(strings.TrimSpace),
	"lstrip":     ofText(func(s string) string { return strings.TrimLeftFunc(s, unicode.IsSpace) }),
	"rstrip":     ofText(func(s string) string { return strings.TrimRightFunc(s, unicode.IsSpace) }),
	"strip_newlines": ofText(func(s string) string {
		return strings.NewReplacer("\r\n", "", "\n", "", "\r", "").Replace(s)
	}),
	"strip_html": ofText(stripHTML),
	"append": {1, 1, func(r *run, in value, args []value) value {
		return r.joined(r.text(in), r.text(args[0]))
	}},
	"prepend": {1, 1, func(r *run, in value, args []value) value {
		return r.joined(r.text(args[0]), r.text(in))
	}},
	"remove": {1, 1, func(r *run, in value, args []value) value {
		return r.replace(in, args[0], "", -1)
	}},
	"remove_first": {1, 1, func(r *run, in value, args []value) value {
		return r.replace(in, args[0], "", 1)
	}},
	"remove_last": {1, 1, func(r *run, in value, args []value) value {
		return r.replaceLast(in, args[0], "")
	}},
	"replace": {1, 2, func(r *run, in value, args []value) value {
		return r.replace(in, args[0], at(args, 1), -1)
	}},
	"replace_first": {1, 2, func(r *run, in value, args []value) value {
		return r.replace(in, args[0], at(args, 1), 1)
	}},
	"replace_last": {2, 2, func(r *run, in value, args []value) value {
		return r.replaceLast(in, args[0], args[1])
	}},
	"truncate":      {0, 2, truncate},
	"truncatewords": {0, 2, truncateWords},
	"slice":         {1, 2, slice},
	"split": {1, 1, func(r *run, in value, args []value) value {
		return r.split(r.text(in), r.text(args[0]))
	}},
	"newline_to_br": {0, 0, func(r *run, in value, _ []value) value {
		text := strings.ReplaceAll(r.markup(in), "\r\n", "\n")
		r.room(len(text) + 6*strings.Count(text, "\n"))
		return safe(r.made(strings.ReplaceAll(text, "\n", "<br />\n")))
	}},
}

// at is an argument that may be left out.
func at(args []value, i int) value {
	if i < len(args) {
		return args[i]
	}
	return nil
}

// textAt is the text of an argument that may be left out, for which another stands.
func (r *run) textAt(args []value, i int, other string) string {
	if i < len(args) {
		return r.text(args[i])
	}
	return other
}

// markup is a value as HTML, where HTML is made.
func (r *run) markup(v value) string {
	text := r.text(v)
	if _, ok := v.(safe); ok || !r.escape {
		return text
	}
	return r.made(escapeHTML(text))
}

func (r *run) joined(a, b string) value {
	r.room(len(a) + len(b))
	return r.made(a + b)
}

func (r *run) replace(in, old, with value, n int) value {
	text, o, w := r.text(in), r.text(old), r.text(with)
	times := strings.Count(text, o)
	if n >= 0 {
		times = min(times, n)
	}
	if grown := len(w) - len(o); grown > 0 && times > r.limits.OutputBytes/grown {
		r.room(math.MaxInt)
	}
	return r.made(strings.Replace(text, o, w, n))
}

func (r *run) replaceLast(in, old, with value) value {
	text, o, w := r.text(in), r.text(old), r.text(with)
	i := strings.LastIndex(text, o)
	if i < 0 {
		return text
	}
	r.room(len(text) + len(w))
	return r.made(text[:i] + w + text[i+len(o):])
}

// capitalize makes the first letter a capital and all others small.
func capitalize(s string) string {
	n := runeCut(s, 1)
	return strings.ToUpper(s[:n]) + strings.ToLower(s[n:])
}

// whole is an argument that must be a whole number, or the text of one.
func (r *run) whole(name string, v value) int64 {
	n, ok := v.(int64)
	if text, is := plainText(v); is {
		parsed, err := strconv.ParseInt(strings.Trim(text, blanks), 10, 64)
		n, ok = parsed, err == nil
	}
	if !ok {
		r.fail(KindValue, "%s: want a whole number, got %s", name, kindName(v))
	}
	return n
}

func truncate(r *run, in value, args []value) value {
	text, most := r.text(in), int64(50)
	if len(args) > 0 {
		most = r.whole("truncate", args[0])
	}
	mark := r.textAt(args, 1, "...")
	if int64(utf8.RuneCountInString(text)) <= most {
		return text
	}
	cut := runeCut(text, max(most-int64(utf8.RuneCountInString(mark)), 0))
	return r.joined(text[:cut], mark)
}

func truncateWords(r *run, in value, args []value) value {
	text, most := r.text(in), int64(15)
	if len(args) > 0 {
		most = max(r.whole("truncatewords", args[0]), 1)
	}
	mark := r.textAt(args, 1, "...")
	words := strings.Fields(text)
	if int64(len(words)) <= most {
		return text
	}
	return r.joined(strings.Join(words[:most], " "), mark)
}

// slice cuts a part out of a text or a list; a negative start counts from the
// end.
func slice(r *run, in value, args []value) value {
	from, length := r.whole("slice", args[0]), int64(1)
	if at(args, 1) != nil {
		length = max(r.whole("slice", args[1]), 0)
	}
	window := func(n int64) (int64, int64) {
		if from < 0 {
			from += n
		}
		if from < 0 || from > n {
			return 0, 0
		}
		return from, from + min(length, n-from)
	}
	if l, ok := in.(list); ok {
		a, b := window(int64(len(l)))
		return l[a:b]
	}
	text := r.text(in)
	a, b := window(int64(utf8.RuneCountInString(text)))
	start := runeCut(text, a)
	return text[start : start+runeCut(text[start:], b-a)]
}

// split cuts a text into a list; by "" into its characters, by " " at all
// blanks. Empty texts at the end are left out, as in the reference.
func (r *run) split(text, by string) value {
	n := strings.Count(text, by)
	if by == " " {
		n = 0
		for i := range len(text) {
			if text[i] <= ' ' {
				n++
			}
		}
	}
	r.spend(n + 1)
	parts := strings.Fields(text)
	if by != " " {
		parts = strings.Split(text, by)
	}
	for len(parts) > 0 && parts[len(parts)-1] == "" {
		parts = parts[:len(parts)-1]
	}
	all := make(list, len(parts))
	for i, p := range parts {
		all[i] = p
	}
	return all
}

// stripHTML removes tags, comments, scripts and styles. What it leaves is text
// and is escaped like any other.
func stripHTML(s string) string {
	var b strings.Builder
	for s != "" {
		i := strings.IndexByte(s, '<')
		if i < 0 {
			break
		}
		b.WriteString(s[:i])
		s = s[i:]
		end := ">"
		for _, raw := range [...][2]string{{"<script", "</script>"}, {"<style", "</style>"}, {"<!--", "-->"}} {
			if len(s) >= len(raw[0]) && strings.EqualFold(s[:len(raw[0])], raw[0]) {
				end = raw[1]
			}
		}
		n := indexFold(s, end)
		if n < 0 {
			break
		}
		s = s[n+len(end):]
	}
	b.WriteString(s)
	return b.String()
}

// indexFold is strings.Index of a tag whose letters may be capitals.
func indexFold(s, tag string) int {
	for i := 0; ; i++ {
		n := strings.IndexByte(s[i:], tag[0])
		if n < 0 || i+n+len(tag) > len(s) {
			return -1
		}
		i += n
		if strings.EqualFold(s[i:i+len(tag)], tag) {
			return i
		}
	}
}
