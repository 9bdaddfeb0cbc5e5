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

func (n *captureNode) render(r *run) signal {
	before := r.out
	r.previous += len(before)
	r.out = nil
	s := n.body.render(r)
	text := string(r.out)
	r.out = before
	r.previous -= len(before)
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

// caseNode renders all branches that have the value, else the else branches.
type caseNode struct {
	subject  operand
	branches []whenBranch
	line     int
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
	i := r.cycles[key] % len(n.values)
	r.cycles[key] = i + 1
	r.put(r.given(&n.values[i]))
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

// forNode is a loop.
type forNode struct {
	name          string
	over          expression
	limit, offset *operand
	reversed      bool
	body, other   block // other if there is nothing to go through
	line          int
}

// loop is the variable forloop.
type loop struct {
	index, length int
	parent        *loop
}

func (l *loop) get(name string) (value, bool) {
	switch name {
	case "index":
		return int64(l.index + 1), true
	case "index0":
		return int64(l.index), true
	case "rindex":
		return int64(l.length - l.index), true
	case "rindex0":
		return int64(l.length - l.index - 1), true
	case "first":
		return l.index == 0, true
	case "last":
		return l.index == l.length-1, true
	case "length":
		return int64(l.length), true
	case "parentloop":
		if l.parent != nil {
			return l.parent, true
		}
	}
	return nil, false
}

func (n *forNode) render(r *run) signal {
	r.line = n.line
	at, length := r.turns(r.evaluate(&n.over))
	from, to := r.window(n, length)
	if from >= to {
		return n.other.render(r)
	}
	l := &loop{length: to - from}
	depth := len(r.locals)
	for i := depth - 1; i >= 0 && l.parent == nil; i-- {
		l.parent, _ = r.locals[i].value.(*loop)
	}
	r.locals = append(r.locals, local{n.name, nil}, local{"forloop", l})
	defer func() { r.locals = r.locals[:depth] }()
	for l.index = 0; l.index < l.length; l.index++ {
		r.spend(1)
		i := from + l.index
		if n.reversed {
			i = to - 1 - l.index
		}
		r.locals[depth].value = at(i)
		if n.body.render(r) == breakLoop {
			break
		}
	}
	return goOn
}

// window is which of so many elements are gone through: the reference cuts off
// what offset and limit say before it reverses.
func (r *run) window(n *forNode, length int) (from, to int) {
	to = length
	if n.offset != nil {
		from = int(min(max(integer(r.given(n.offset)), 0), int64(length)))
	}
	if n.limit != nil {
		to = int(min(int64(from)+min(max(integer(r.given(n.limit)), 0), int64(length)), int64(length)))
	}
	return from, to
}

// turns says how many elements a value has, and which.
func (r *run) turns(v value) (at func(int) value, length int) {
	switch v := v.(type) {
	case list:
		return func(i int) value { return v[i] }, len(v)
	case span:
		if n := v.length(); n > int64(r.limits.Steps) {
			r.fail(KindLimit, "the range (%d..%d) has %d numbers, at most %d are possible", v.from, v.to, n, r.limits.Steps)
		}
		return func(i int) value { return v.from + int64(i) }, int(v.length())
	case *object:
		return func(i int) value { return list{v.names[i], v.values[i]} }, len(v.names)
	}
	if text, ok := plainText(v); ok && text != "" {
		return func(int) value { return v }, 1
	}
	return nil, 0
}
