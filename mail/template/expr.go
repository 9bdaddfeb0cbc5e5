package template

import (
	"math"
	"strconv"
	"strings"
)

// maxIndexDepth bounds brackets in brackets: a[b[c]].
const maxIndexDepth = 16

// expression is a value with what filters make of it.
type expression struct {
	base    operand
	filters []call
}

// operand is what a value comes from: a literal, a range or a variable.
type operand struct {
	literal  value
	from, to *operand  // a range, if from is not nil
	path     *variable // a variable, if it is not nil
}

// variable is a name and what is looked for in it.
type variable struct {
	name    string
	root    *operand // [name]: the name is computed; nil: it is written
	profile bool     // ${name}: the name of a standard attribute
	keys    []operand
	text    string // as it was written, for errors
}

// call is a filter and its arguments.
type call struct {
	filter *filter
	args   []operand
	lax    *operand // allow_false of the filter default
}

// condition is comparisons joined by and and or. They bind from the right, as
// in the reference: a and b or c is a and (b or c).
type condition struct {
	tests []test
	ands  []bool // what joins a test and the next: and, or else or
}

// test is a comparison, or one value if op is empty.
type test struct {
	left, right operand
	op          string
	line        int
}

type tokenKind byte

const (
	tokenEnd tokenKind = iota
	tokenName
	tokenProfile // ${name}
	tokenText
	tokenNumber
	tokenMark // | : , . .. [ ] ( ) == != <> < > <= >= =
)

type lexeme struct {
	kind tokenKind
	text string
}

// reader reads an expression.
type reader struct {
	text  string
	at    int
	line  int
	ahead lexeme
	begin int // of ahead in text
	err   *Error
}

func newReader(text string, line int) *reader {
	r := &reader{text: text, line: line}
	r.advance()
	return r
}

func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = syntaxError(r.line, format, args...)
	}
	r.ahead = lexeme{}
}

// advance reads the next lexeme.
func (r *reader) advance() {
	if r.err != nil {
		return
	}
	rest := strings.TrimLeft(r.text[r.at:], blanks)
	r.begin = len(r.text) - len(rest)
	n := 0
	switch {
	case rest == "":
		r.ahead = lexeme{}
		return
	case strings.HasPrefix(rest, "${"):
		end := strings.IndexByte(rest, '}')
		if end < 0 || strings.Trim(rest[2:end], blanks) == "" {
			r.fail("${ has no name and }: %.40q", rest)
			return
		}
		r.ahead, n = lexeme{tokenProfile, strings.Trim(rest[2:end], blanks)}, end+1
	case rest[0] == '"' || rest[0] == '\'':
		end := strings.IndexByte(rest[1:], rest[0])
		if end < 0 {
			r.fail("the text %.40s has no end quote", rest)
			return
		}
		r.ahead, n = lexeme{tokenText, rest[1 : 1+end]}, end+2
	default:
		if n = r.plain(rest); n == 0 {
			return
		}
	}
	r.at = r.begin + n
}

// plain reads a number, a name or a mark and returns how long it is.
func (r *reader) plain(rest string) (n int) {
	switch c := rest[0]; {
	case c >= '0' && c <= '9', c == '-' && len(rest) > 1 && rest[1] >= '0' && rest[1] <= '9':
		n = numberLength(rest)
		r.ahead = lexeme{tokenNumber, rest[:n]}
	case isWord(c):
		for n < len(rest) && (isWord(rest[n]) || rest[n] == '-') {
			n++
		}
		if n < len(rest) && rest[n] == '?' {
			n++
		}
		r.ahead = lexeme{tokenName, rest[:n]}
	default:
		if n = markLength(rest); n == 0 {
			r.fail("unexpected %.20q", rest)
			return 0
		}
		r.ahead = lexeme{tokenMark, rest[:n]}
	}
	return n
}

func numberLength(s string) int {
	n := 1
	digits := func() {
		for n < len(s) && s[n] >= '0' && s[n] <= '9' {
			n++
		}
	}
	digits()
	if n+1 < len(s) && s[n] == '.' && s[n+1] >= '0' && s[n+1] <= '9' {
		n++
		digits()
	}
	return n
}

func markLength(s string) int {
	if len(s) > 1 {
		switch s[:2] {
		case "==", "!=", "<>", "<=", ">=", "..", "{{", "}}":
			return 2
		}
	}
	if strings.IndexByte("|:,.[]()<>=", s[0]) >= 0 {
		return 1
	}
	return 0
}

// mark takes a mark if it comes next.
func (r *reader) mark(text string) bool { return r.takes(tokenMark, text) }

// word takes a word if it comes next.
func (r *reader) word(text string) bool { return r.takes(tokenName, text) }

func (r *reader) takes(kind tokenKind, text string) bool {
	if r.ahead.kind != kind || r.ahead.text != text {
		return false
	}
	r.advance()
	return true
}

// name takes any name.
func (r *reader) name(what string) string {
	text := r.ahead.text
	if r.ahead.kind != tokenName {
		r.fail("want %s, got %s", what, r.shown())
		return ""
	}
	r.advance()
	return text
}

func (r *reader) shown() string {
	if r.ahead.kind == tokenEnd {
		return "nothing"
	}
	return strconv.Quote(r.ahead.text)
}

// end refuses what is left.
func (r *reader) end() *Error {
	if r.err == nil && r.ahead.kind != tokenEnd {
		r.fail("unexpected %s", r.shown())
	}
	return r.err
}

func (r *reader) expression() expression {
	x := expression{base: r.operand(0)}
	for r.err == nil && r.mark("|") {
		x.filters = append(x.filters, r.call())
	}
	return x
}

// call reads NAME: arg, arg, allow_false: true
func (r *reader) call() (c call) {
	name := r.name("the name of a filter")
	if r.err != nil {
		return c
	}
	if c.filter = filters[name]; c.filter == nil {
		r.fail("there is no filter %.40q", name)
		return c
	}
	for more := r.mark(":"); more && r.err == nil; more = r.mark(",") {
		if name == "default" && r.word("allow_false") {
			if !r.mark(":") {
				r.fail("default: want allow_false: true, got allow_false and %s", r.shown())
			}
			lax := r.operand(0)
			c.lax = &lax
			continue
		}
		c.args = append(c.args, r.operand(0))
	}
	if n := len(c.args); r.err == nil && (n < c.filter.least || n > c.filter.most) {
		r.fail("filter %s: want %s, got %d", name, argumentCount(c.filter.least, c.filter.most), n)
	}
	return c
}

func argumentCount(least, most int) string {
	switch {
	case most == 0:
		return "no arguments"
	case least == most:
		return strconv.Itoa(least) + " argument(s)"
	}
	return strconv.Itoa(least) + " to " + strconv.Itoa(most) + " arguments"
}

// operand reads a literal, a range or a variable.
func (r *reader) operand(depth int) operand {
	if r.err != nil {
		return operand{}
	}
	if depth > maxIndexDepth {
		r.fail("brackets are nested more than %d deep", maxIndexDepth)
		return operand{}
	}
	l := r.ahead
	switch l.kind {
	case tokenText:
		r.advance()
		return operand{literal: l.text}
	case tokenNumber:
		r.advance()
		v, ok := parseNumber(l.text)
		if !ok {
			r.fail("the number %.40s is too large", l.text)
		}
		return operand{literal: v}
	case tokenProfile:
		start := r.begin
		if !isAttribute(l.text) {
			r.fail("${%.64s} is no standard attribute; one of your own is custom_attribute.${%.64s}, a variable is written without ${}", l.text, l.text)
		}
		r.advance()
		return r.path(&variable{name: l.text, profile: true}, start, depth)
	case tokenName:
		start := r.begin
		r.advance()
		if v, ok := literals[l.text]; ok {
			return operand{literal: v}
		}
		if l.text == contentBlocks {
			r.fail("%s is not available: %s", l.text, unavailable[l.text])
		}
		return r.path(&variable{name: l.text}, start, depth)
	}
	if r.mark("(") {
		return r.span(depth)
	}
	if start := r.begin; r.mark("[") { // a variable whose name has blanks, or is computed
		name := r.operand(depth + 1)
		if r.err == nil && !r.mark("]") {
			r.fail("[ has no ], got %s", r.shown())
		}
		if text, ok := name.literal.(string); ok {
			return r.path(&variable{name: text}, start, depth)
		}
		return r.path(&variable{root: &name}, start, depth)
	}
	if r.mark("{{") { // as in {% if {{${first_name}}} == "Ann" %}: so Braze's users write
		o := r.operand(depth + 1)
		if r.err == nil && !r.mark("}}") {
			r.fail("want }}, got %s", r.shown())
		}
		return o
	}
	r.fail("want a value, got %s", r.shown())
	return operand{}
}

// literals are the words that are values.
var literals = map[string]value{"true": true, "false": false, "nil": nil, "null": nil, "empty": empty, "blank": blank}

// span reads a..b) of a range.
func (r *reader) span(depth int) operand {
	from := r.operand(depth + 1)
	if r.err == nil && !r.mark("..") {
		r.fail("want a range, (1..3), got %s; conditions have no brackets: and, or bind from the right", r.shown())
	}
	to := r.operand(depth + 1)
	if r.err == nil && !r.mark(")") {
		r.fail("the range has no ), got %s", r.shown())
	}
	return operand{from: &from, to: &to}
}

// path reads what follows a name: .key, [index], .${key}.
func (r *reader) path(v *variable, start, depth int) operand {
	for r.err == nil {
		switch {
		case r.ahead.kind == tokenMark && r.ahead.text == ".":
			r.advance()
			if r.ahead.kind != tokenName && r.ahead.kind != tokenProfile && r.ahead.kind != tokenNumber {
				r.fail("want a name after the dot, got %s", r.shown())
				return operand{}
			}
			if r.ahead.kind == tokenProfile && len(v.keys) == 0 && !v.profile {
				r.checkName(v, r.ahead.text)
			}
			v.keys = append(v.keys, operand{literal: r.ahead.text})
			r.advance()
		case r.ahead.kind == tokenMark && r.ahead.text == "[":
			r.advance()
			v.keys = append(v.keys, r.operand(depth+1))
			if r.err == nil && !r.mark("]") {
				r.fail("[ has no ], got %s", r.shown())
			}
		default:
			v.text = strings.Trim(r.text[start:r.begin], blanks)
			return operand{path: v}
		}
	}
	return operand{}
}

func parseNumber(text string) (value, bool) {
	if strings.IndexByte(text, '.') < 0 {
		n, err := strconv.ParseInt(text, 10, 64)
		return n, err == nil
	}
	f, err := strconv.ParseFloat(text, 64)
	return f, err == nil && !math.IsInf(f, 0)
}

// condition reads a condition to the end.
func (r *reader) condition() condition {
	var c condition
	for r.err == nil {
		t := test{left: r.operand(0), line: r.line}
		switch {
		case r.ahead.kind == tokenMark && comparisons[r.ahead.text], r.ahead.kind == tokenName && r.ahead.text == "contains":
			t.op = r.ahead.text
			r.advance()
			t.right = r.operand(0)
		}
		c.tests = append(c.tests, t)
		switch {
		case r.word("and"):
			c.ands = append(c.ands, true)
		case r.word("or"):
			c.ands = append(c.ands, false)
		default:
			return c
		}
	}
	return c
}

var comparisons = map[string]bool{"==": true, "!=": true, "<>": true, "<": true, ">": true, "<=": true, ">=": true}
