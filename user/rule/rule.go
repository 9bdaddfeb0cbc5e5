package rule

import (
	"fmt"

	"sluice/lib/jsonscan"
)

// Bounds of a rule. What exceeds one is refused when it is compiled.
const (
	MaxRuleBytes         = 64 << 10
	MaxNestingLevels     = 16   // of and, or, not and what stands in them
	MaxConditions        = 256  // that are not and, or, not
	MaxListItems         = 200  // of an and, an or, a value that is a list
	MaxRegexes           = 16   // expressions of a rule: the worst takes 26 ms for one user
	MaxRegexBytes        = 1024 // of an expression's text
	MaxRegexInstructions = 1000 // of an expression as compiled: x{500} has 500
	MaxDays              = 36500
)

// MaxRegexTextBytes bounds the texts that expressions are matched against; a
// longer one matches none. With MaxRegexInstructions it bounds the time that
// one condition takes for one user.
const MaxRegexTextBytes = 4096

// Rule is a compiled rule. It does not change, so it may be used by many
// goroutines at once.
type Rule struct{ root node }

// node is a condition, or what ties several together.
type node struct {
	tie  tie
	all  []node    // of and, or: at least one; of not and named: one
	cond condition // if tie is single
	name string    // of named: the segment, as JSON
}

type tie uint8

const (
	single tie = iota
	and
	or
	not
	named // a segment, whose rule it has
)

// String returns the name of a tie as rules have it.
func (t tie) String() string { return [...]string{"", "and", "or", "not", memberSegment}[t] }

// Error says what is wrong with a rule, and where.
type Error struct {
	Path string // and[1].attribute; empty: the rule as a whole
	Want string // what is wanted there, and what is there
}

// Error returns the text for people.
func (e *Error) Error() string {
	if e.Path == "" {
		return "compile rule: " + e.Want
	}
	return "compile rule: " + e.Path + ": " + e.Want
}

func wrong(path, format string, args ...any) error {
	return &Error{path, fmt.Sprintf(format, args...)}
}

// Compile reads a rule. The error is an *Error. The rule keeps none of the
// memory of the text.
func Compile(text string) (*Rule, error) { return CompileFor(text, Options{}) }

// CompileFor is Compile of a rule that may be about more than a profile.
func CompileFor(text string, o Options) (*Rule, error) {
	if len(text) > MaxRuleBytes {
		return nil, wrong("", "want at most %d bytes, got %d", MaxRuleBytes, len(text))
	}
	v, err := jsonscan.Scan(string([]byte(text)))
	if err != nil {
		return nil, wrong("", "want JSON: %v", err)
	}
	n, err := (&compiler{options: o}).node("", v, 1)
	if err != nil {
		return nil, err
	}
	return &Rule{n}, nil
}

// String returns the rule as JSON, in one form: compiled again it is the same
// rule.
func (r *Rule) String() string { return string(r.root.append(nil)) }

func (n *node) append(dst []byte) []byte {
	switch n.tie {
	case single:
		return n.cond.append(dst)
	case not:
		dst = append(dst, `{"not":`...)
		return append(n.all[0].append(dst), '}')
	case named:
		return append(append(dst, `{"`+memberSegment+`":`+n.name...), '}')
	}
	dst = append(dst, `{"`+n.tie.String()+`":[`...)
	for i := range n.all {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = n.all[i].append(dst)
	}
	return append(dst, ']', '}')
}

// each calls f for every condition.
func (n *node) each(f func(*condition)) {
	if n.tie == single {
		f(&n.cond)
	}
	for i := range n.all {
		n.all[i].each(f)
	}
}

// copied is a tree of its own, so that a Set can number its conditions.
func (n *node) copied() node {
	c := *n
	c.all = make([]node, len(n.all))
	for i := range n.all {
		c.all[i] = n.all[i].copied()
	}
	return c
}
