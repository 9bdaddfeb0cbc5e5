package plan

import (
	"fmt"
	"slices"
	"strings"
)

// Problem is something that is wrong with a document.
type Problem struct {
	Place string `json:"place"`          // steps.wait.delay.for; empty: the document as a whole
	Line  int    `json:"line,omitempty"` // of the YAML, from 1; 0: not known
	Want  string `json:"want"`           // what is wanted there, and what is there
}

// String writes it for people.
func (p Problem) String() string {
	text := p.Want
	if p.Place != "" {
		text = p.Place + ": " + text
	}
	if p.Line > 0 {
		text = fmt.Sprintf("line %d: %s", p.Line, text)
	}
	return text
}

// Problems are what is wrong with a document, in the order of the document: all of it, or the
// first MaxProblems. Of a document with more than maxFoundProblems, those of the first found.
type Problems []Problem

// MaxProblems bounds what is said of one document.
const MaxProblems = 200

// maxFoundProblems is how many problems are gathered, to say the first of them. What is lacking
// at a place is looked for among all that was found, so without a bound a document of 256 KiB
// kept a core for minutes.
const maxFoundProblems = 5 * MaxProblems

// Error writes a line for each.
func (p Problems) Error() string {
	lines := make([]string, len(p))
	for i := range p {
		lines[i] = p[i].String()
	}
	return strings.Join(lines, "\n")
}

// origin is where something stands in the text.
type origin struct{ order, line int }

// collector gathers problems. Once a place has one, it and what is below it get no
// other: what follows from a mistake is none. When it is full it still notes which are bad.
type collector struct {
	origins map[string]origin
	found   []Problem
	bad     map[string]bool
}

func newCollector() *collector {
	return &collector{origins: make(map[string]origin), bad: make(map[string]bool)}
}

// stands notes that something is at a place.
func (c *collector) stands(place string, line int) {
	if _, ok := c.origins[place]; !ok {
		c.origins[place] = origin{len(c.origins) + 1, line}
	}
}

func (c *collector) wrong(place, format string, args ...any) {
	if c.isBad(place) {
		return
	}
	c.bad[place] = true
	if !c.full() {
		c.found = append(c.found, Problem{Place: place, Want: fmt.Sprintf(format, args...)})
	}
}

// full reports whether no more problems are gathered. The document is refused already.
func (c *collector) full() bool { return len(c.found) >= maxFoundProblems }

// isBad reports whether a place, or what it is in, has a problem.
func (c *collector) isBad(place string) bool {
	for {
		if c.bad[place] {
			return true
		}
		if place == "" {
			return false
		}
		place = outer(place)
	}
}

// outer is the place that a place is in.
func outer(place string) string {
	return place[:max(0, strings.LastIndexAny(place, ".["))]
}

// originOf is where a place stands; of one that is not there, what it would be in.
func (c *collector) originOf(place string) origin {
	for {
		if o, ok := c.origins[place]; ok || place == "" {
			return o
		}
		place = outer(place)
	}
}

// problems returns all of them in the order of the text.
func (c *collector) problems() Problems {
	all := slices.Clone(c.found)
	slices.SortStableFunc(all, func(a, b Problem) int { return c.originOf(a.Place).order - c.originOf(b.Place).order })
	for i := range all {
		all[i].Line = c.originOf(all[i].Place).line
	}
	return all[:min(len(all), MaxProblems)]
}
