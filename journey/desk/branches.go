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
		names := doc.Steps[i].Branches()
		s.Paths = nil
		for n := 0; len(names) > 1 && n < len(names); n++ {
			b := BranchCounts{Branch: names[n], Entered: s.Branches[names[n]]}
			for _, at := range g.alone(i, n) {
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
//
// A document may have thousands of branches, and to visit what each leads to, way by way,
// took seconds. So the visits are those of each step, whichever branches lead there.
type graph struct {
	ways  [][]int     // by step: the steps that its ways lead to; nowhere: none
	first int         // where people enter
	leads map[int]led // by step, as far as it was asked
}

// nowhere is where a way leads that ends.
const nowhere = -1

// led is how people come to a step.
type led struct {
	before []bool // the steps to which they come without it
	ways   int    // that lead to it from these
	alone  []int  // the steps to which they come by it alone, itself among them
}

func graphOf(doc *plan.Document) *graph {
	g := &graph{first: nowhere, leads: make(map[int]led)}
	numbers := make(map[string]int)
	for i := range doc.Steps {
		numbers[doc.Steps[i].ID] = i
	}
	number := func(id string) int {
		if at, ok := numbers[id]; ok {
			return at
		}
		return nowhere
	}
	for i := range doc.Steps {
		var to []int
		for _, id := range doc.Steps[i].Ways() {
			to = append(to, number(id))
		}
		g.ways = append(g.ways, to)
	}
	if len(doc.Steps) > 0 {
		g.first = number(doc.Steps[0].ID)
	}
	return g
}

// alone are the steps that a way leads to, the n-th from a step, and no way else.
func (g *graph) alone(from, n int) (steps []int) {
	to := g.ways[from][n]
	if to == nowhere || to == g.first {
		return nil
	}
	l, ok := g.leads[to]
	if !ok {
		l = g.ledTo(to)
		g.leads[to] = l
	}
	others := l.ways
	if l.before[from] {
		others--
	}
	if others > 0 {
		return nil
	}
	return l.alone
}

// ledTo finds how people come to a step.
func (g *graph) ledTo(to int) (l led) {
	behind := make([]bool, len(g.ways))
	l.before = make([]bool, len(g.ways))
	g.visit(g.first, to, l.before)
	g.visit(to, nowhere, behind)
	for at := range g.ways {
		if behind[at] && !l.before[at] {
			l.alone = append(l.alone, at)
		}
		for _, next := range g.ways[at] {
			if next == to && l.before[at] {
				l.ways++
			}
		}
	}
	return l
}

// visit notes a step and all that it leads to, a step left out.
func (g *graph) visit(at, without int, seen []bool) {
	if at == nowhere || at == without || seen[at] {
		return
	}
	seen[at] = true
	for _, next := range g.ways[at] {
		g.visit(next, without, seen)
	}
}
