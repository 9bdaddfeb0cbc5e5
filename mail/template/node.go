package template

// node is a piece of a compiled template.
type node interface {
	render(r *run) signal
}

// signal says whether a loop is left.
type signal byte

const (
	goOn signal = iota
	breakLoop
	continueLoop
)

// block is nodes, one after the other.
type block []node

func (b block) render(r *run) signal {
	for _, n := range b {
		r.spend(1)
		if s := n.render(r); s != goOn {
			return s
		}
	}
	return goOn
}

type textNode string

func (n textNode) render(r *run) signal {
	r.write(string(n))
	return goOn
}

// rawNode is what stands in a raw block.
type rawNode string

func (n rawNode) render(r *run) signal {
	r.write(string(n))
	return goOn
}

type outputNode struct {
	x    expression
	line int
}

func (n *outputNode) render(r *run) signal {
	r.line = n.line
	r.put(r.evaluate(&n.x))
	return goOn
}

type assignNode struct {
	name string
	x    expression
	line int
}

func (n *assignNode) render(r *run) signal {
	r.line = n.line
	r.assign(n.name, r.evaluate(&n.x))
	return goOn
}

func (r *run) assign(name string, v value) {
	if r.assigned == nil {
		r.assigned = make(map[string]value)
	}
	r.assigned[name] = v
}

// captureNode assigns what its body puts out. In HTML that is HTML.
type captureNode struct {
	name string
	body block
}

// aside renders a block and returns what it would put out.
func (r *run) aside(b block) (string, signal) {
	before := r.out
	r.previous += len(before)
	r.out = nil
	s := b.render(r)
	text := string(r.out)
	r.out = before
	r.previous -= len(before)
	return text, s
}

// changedNode puts out what is another text than that of the ifchanged before it.
type changedNode struct{ body block }

func (n *changedNode) render(r *run) signal {
	text, s := r.aside(n.body)
	if r.spendBytes(len(text)); text != r.changed {
		r.changed = text
		r.write(text)
	}
	return s
}

func (n *captureNode) render(r *run) signal {
	text, s := r.aside(n.body)
	if r.escape {
		r.assign(n.name, safe(text))
	} else {
		r.assign(n.name, text)
	}
	return s
}

// ifNode is if, unless and their branches; the last one may have no condition.
type ifNode struct {
	branches []branch
	quiet    bool
}

type branch struct {
	always bool // else
	not    bool // unless
	when   condition
	body   block
}

func (n *ifNode) render(r *run) signal {
	for i := range n.branches {
		b := &n.branches[i]
		if b.always || r.holds(&b.when) != b.not {
			return b.body.render(r)
		}
	}
	return goOn
}

// caseNode renders all branches that have the value, else the else branches; those too that
// stand before the first that has it.
type caseNode struct {
	subject  operand
	branches []whenBranch
	line     int
	quiet    bool
}

type whenBranch struct {
	values []operand // none: else
	body   block
}

func (n *caseNode) render(r *run) signal {
	r.line = n.line
	v, _ := r.operand(&n.subject)
	found := false
	for i := range n.branches {
		b := &n.branches[i]
		if len(b.values) == 0 && found {
			continue
		}
		hit := len(b.values) == 0
		for j := range b.values {
			with, _ := r.operand(&b.values[j])
			r.spend(1)
			if hit = hit || r.equal(v, with); hit {
				break
			}
		}
		if !hit {
			continue
		}
		found = found || len(b.values) > 0
		if s := b.body.render(r); s != goOn {
			return s
		}
	}
	return goOn
}

type signalNode signal

func (n signalNode) render(*run) signal { return signal(n) }

// counterNode is increment and decrement: they count by themselves, whatever is
// assigned to the name.
type counterNode struct {
	name string
	down bool
}

func (n *counterNode) render(r *run) signal {
	if r.counters == nil {
		r.counters = make(map[string]int64)
	}
	if n.down {
		r.counters[n.name]--
		r.put(r.counters[n.name])
		return goOn
	}
	r.put(r.counters[n.name])
	r.counters[n.name]++
	return goOn
}

type cycleNode struct {
	group  *operand // nil: those with the same text are a group
	text   string
	values []operand
	line   int
}

func (n *cycleNode) render(r *run) signal {
	r.line = n.line
	key := n.text
	if n.group != nil {
		key = "group " + r.text(r.given(n.group))
	}
	if r.cycles == nil {
		r.cycles = make(map[string]int)
	}
	i := r.cycles[key]
	if r.cycles[key] = i + 1; i+1 >= len(n.values) {
		r.cycles[key] = 0
	}
	if i < len(n.values) { // a group may have fewer here than elsewhere
		r.put(r.given(&n.values[i]))
	}
	return goOn
}

// abortNode is Braze's abort_message: this recipient gets no mail.
type abortNode struct {
	why  operand
	line int
}

func (n *abortNode) render(r *run) signal {
	r.line = n.line
	v, _ := r.operand(&n.why)
	r.fail(KindAborted, "the template sends no mail to this recipient: %s", r.text(v))
	return goOn
}
