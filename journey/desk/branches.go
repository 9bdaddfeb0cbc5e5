package desk

import "sluice/journey/plan"

// BranchCounts is what has happened on a branch: the steps to which a way leads from it alone.
// Where a branch meets another one again it is over.
type BranchCounts struct {
	Branch     string           `json:"branch"`
	Entered    int64            `json:"entered"` // went from the step by it
	Waiting    int64            `json:"waiting"` // are at one of its steps now
	Passed     int64            `json:"passed"`  // have gone on from its last step; of a branch without steps all
	Exited     int64            `json:"exited"`  // were taken out at one of its steps
	Sent       int64            `json:"sent"`    // mails of its steps, and so what follows
	Opened     int64            `json:"opened"`
	Clicked    int64            `json:"clicked"`
	OpenedRaw  int64            `json:"opened_raw"`
	ClickedRaw int64            `json:"clicked_raw"`
	Converted  map[string]int64 `json:"converted,omitempty"` // of people who were at one of its steps, or went to the end by it
}

// addBranches adds what has happened on the branches of steps, of what has happened at the
// steps. Those of other versions may have had other branches.
func (c *Counts) addBranches(doc *plan.Document) {
	g := graphOf(doc)
	for i := range doc.Steps {
		s := c.at(doc.Steps[i].ID)
		names, ways := doc.Steps[i].Branches(), doc.Steps[i].Ways()
		s.Paths = nil
		for n := 0; len(names) > 1 && n < len(names); n++ {
			b := BranchCounts{Branch: names[n], Entered: s.Branches[names[n]]}
			for _, at := range g.alone(i, n, ways[n]) {
				b.add(c.at(doc.Steps[at].ID))
			}
			b.Passed = max(0, b.Entered-b.Waiting-b.Exited)
			s.Paths = append(s.Paths, b)
		}
	}
}

// add adds what has happened at a step of the branch.
func (b *BranchCounts) add(s *StepCounts) {
	b.Waiting += s.Waiting
	b.Exited += s.Exited
	b.Sent += s.Sent
	b.Opened += s.Opened
	b.Clicked += s.Clicked
	b.OpenedRaw += s.OpenedRaw
	b.ClickedRaw += s.ClickedRaw
	for name, n := range s.Converted {
		if b.Converted == nil {
			b.Converted = make(map[string]int64)
		}
		b.Converted[name] += n
	}
}

// graph is where the steps of a document lead. A draft may lead nowhere, or back.
type graph struct {
	ways    [][]string     // by step
	numbers map[string]int // of steps, by id
	first   string         // where people enter
}

func graphOf(doc *plan.Document) *graph {
	g := &graph{numbers: make(map[string]int)}
	for i := range doc.Steps {
		if i == 0 {
			g.first = doc.Steps[i].ID
		}
		g.numbers[doc.Steps[i].ID] = i
		g.ways = append(g.ways, doc.Steps[i].Ways())
	}
	return g
}

// alone are the steps that a way leads to, the n-th from a step, and no way else.
func (g *graph) alone(from, n int, to string) (steps []int) {
	behind, others := make([]bool, len(g.ways)), make([]bool, len(g.ways))
	g.visit(to, -1, -1, behind)
	g.visit(g.first, from, n, others)
	for at := range behind {
		if behind[at] && !others[at] {
			steps = append(steps, at)
		}
	}
	return steps
}

// visit notes a step and all that it leads to, the n-th way from one of them left out.
func (g *graph) visit(id string, from, n int, seen []bool) {
	at, ok := g.numbers[id]
	if !ok || seen[at] {
		return
	}
	seen[at] = true
	for i, next := range g.ways[at] {
		if at != from || i != n {
			g.visit(next, from, n, seen)
		}
	}
}
