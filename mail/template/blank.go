package template

import (
	"slices"
	"strings"
)

// silenced removes the blanks from the blocks of a tag that puts out nothing else, as
// the reference does, and reports whether it is such a tag. Without that each
// {% if %} that only assigns leaves empty lines.
func silenced(bodies ...*block) bool {
	for _, b := range bodies {
		for _, n := range *b {
			if !isQuiet(n) {
				return false
			}
		}
	}
	for _, b := range bodies {
		*b = slices.DeleteFunc(*b, func(n node) bool { _, text := n.(textNode); return text })
	}
	return true
}

// isQuiet reports whether a node puts out nothing, or blanks.
func isQuiet(n node) bool {
	switch n := n.(type) {
	case textNode:
		return strings.Trim(string(n), blanks) == ""
	case *assignNode, *captureNode:
		return true
	case *ifNode:
		return n.quiet
	case *caseNode:
		return n.quiet
	case *forNode:
		return n.quiet
	}
	return false
}

func (n *ifNode) silence() {
	bodies := make([]*block, len(n.branches))
	for i := range n.branches {
		bodies[i] = &n.branches[i].body
	}
	n.quiet = silenced(bodies...)
}

func (n *caseNode) silence() {
	bodies := make([]*block, len(n.branches))
	for i := range n.branches {
		bodies[i] = &n.branches[i].body
	}
	n.quiet = silenced(bodies...)
}
