package rule

import (
	"fmt"
	"strings"
)

// Finding is what became of a condition for one user: a tree of the rule's
// form.
type Finding struct {
	Condition string    `json:"condition"`       // as JSON; of several: and, or, not
	Found     string    `json:"found,omitempty"` // the user's value; of several: none
	Holds     bool      `json:"holds"`
	All       []Finding `json:"all,omitempty"` // of and, or, not
}

// maxFoundBytes bounds a value in a Finding: an attribute may have 50 KiB.
const maxFoundBytes = 200

// Explain says for one user what each condition found and whether it holds.
// All of them are looked at, also where the first decides. The text is that of
// the profile; id and nowMillis are those of Match.
func (r *Rule) Explain(text string, id uint64, nowMillis int64) (*Finding, error) {
	return r.ExplainGiven(text, id, nowMillis, Given{})
}

// ExplainGiven is Explain of a rule that asks for more than a profile. Bit i of
// what is known answers need i of a set of this rule alone.
func (r *Rule) ExplainGiven(text string, id uint64, nowMillis int64, given Given) (*Finding, error) {
	s, err := NewSet(r)
	if err != nil {
		return nil, err
	}
	e := s.evaluation(nowMillis)
	if err := e.read(text, id); err != nil {
		return nil, fmt.Errorf("explain rule: read profile: %w", err)
	}
	if err := e.readGiven(&given); err != nil {
		return nil, fmt.Errorf("explain rule: read properties and context: %w", err)
	}
	f := e.explain(&s.rules[0])
	return &f, nil
}

func (e *evaluation) explain(n *node) Finding {
	f := Finding{Condition: n.tie.String(), Holds: e.holds(n)}
	if n.tie == named {
		f.Condition += " " + n.name
	}
	for i := range n.all {
		f.All = append(f.All, e.explain(&n.all[i]))
	}
	if n.tie == single {
		value := e.find(&n.cond)
		f.Condition, f.Found = string(n.cond.append(nil)), value.text(&n.cond)
		if len(f.Found) > maxFoundBytes {
			f.Found = strings.ToValidUTF8(f.Found[:maxFoundBytes], "") + "..."
		}
		f.Found = strings.Clone(f.Found)
	}
	return f
}

// String writes the tree, a line a condition:
//
//	no   and
//	yes    {"attribute":"plan","is":"equals","value":"gold"}: "gold"
//	no     {"event":"login","is":"greater_than","value":3}: 2
func (f *Finding) String() string {
	var b strings.Builder
	f.write(&b, 0)
	return b.String()
}

func (f *Finding) write(b *strings.Builder, level int) {
	word := "no   "
	if f.Holds {
		word = "yes  "
	}
	b.WriteString(word + strings.Repeat("  ", level) + f.Condition)
	if len(f.All) == 0 {
		b.WriteString(": " + f.Found)
	}
	b.WriteByte('\n')
	for i := range f.All {
		f.All[i].write(b, level+1)
	}
}
