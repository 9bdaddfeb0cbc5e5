package template

import (
	"math"
	"strconv"
)

// forLoop and tableLoop are the variables that say where a loop is.
const (
	forLoop   = "forloop"
	tableLoop = "tablerowloop"
)

// forNode is a loop: for or tablerow.
type forNode struct {
	name          string
	key           string // of the loop: its variable and what it goes over, as they are written
	table         bool   // tablerow
	goesOn        bool   // offset: continue
	cols          *operand
	over          expression
	limit, offset *operand
	reversed      bool
	body, other   block // other if there is nothing to go through
	line          int
	quiet         bool
}

// loop is the variable forloop, or tablerowloop.
type loop struct {
	name          string
	index, length int
	parent        *loop
	cols          int // of tablerow; 0: for
}

func (l *loop) get(name string) (value, bool) {
	if l.cols > 0 {
		if v, ok := l.cell(name); ok {
			return v, true
		}
	}
	switch name {
	case "name":
		return l.name, l.cols == 0
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
	if n.table {
		return r.table(n, at, from, to)
	}
	if from >= to {
		return n.other.render(r)
	}
	l := &loop{name: n.key, length: to - from}
	depth := len(r.locals)
	for i := depth - 1; i >= 0 && l.parent == nil; i-- {
		if r.locals[i].name == forLoop {
			l.parent, _ = r.locals[i].value.(*loop)
		}
	}
	r.locals = append(r.locals, local{n.name, nil}, local{forLoop, l})
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
// what offset and limit say before it reverses. It notes where a loop may go on.
func (r *run) window(n *forNode, length int) (from, to int) {
	to = length
	if n.goesOn {
		from = min(r.reached[n.key], length)
	}
	if at, ok := r.loopBound("offset", n.offset); ok {
		from = int(min(max(at, 0), int64(length)))
	}
	if most, ok := r.loopBound("limit", n.limit); ok {
		to = int(min(int64(from)+min(max(most, 0), int64(length)), int64(length)))
	}
	if !n.table {
		if r.reached == nil {
			r.reached = make(map[string]int)
		}
		r.reached[n.key] = to
	}
	return from, to
}

// loopBound is the number behind limit, offset or cols; false: there is none, or it is nil.
func (r *run) loopBound(what string, o *operand) (int64, bool) {
	if o == nil {
		return 0, false
	}
	v := r.given(o)
	if v == nil {
		return 0, false
	}
	if f, ok := v.(float64); ok {
		return whole(f), true
	}
	return r.whole(what, v), true
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

// cell is what tablerowloop has beside what forloop has.
func (l *loop) cell(name string) (value, bool) {
	col := l.index % l.cols
	switch name {
	case "col":
		return int64(col + 1), true
	case "col0":
		return int64(col), true
	case "col_first":
		return col == 0, true
	case "col_last":
		return col == l.cols-1, true
	case "row":
		return int64(l.index/l.cols + 1), true
	}
	return nil, false
}

// table puts out the rows and cells of a tablerow, as the reference does. The tags are
// HTML in every part.
func (r *run) table(n *forNode, at func(int) value, from, to int) signal {
	cols, ok := r.loopBound("cols", n.cols)
	if !ok {
		cols = int64(to - from)
	}
	if at == nil && to == 0 {
		return goOn // there is nothing to go through, not even an empty list
	}
	l := &loop{length: to - from, cols: int(min(max(cols, 1), math.MaxInt32))}
	depth := len(r.locals)
	r.locals = append(r.locals, local{n.name, nil}, local{tableLoop, l})
	defer func() { r.locals = r.locals[:depth] }()
	r.write("<tr class=\"row1\">\n")
	for ; l.index < l.length; l.index++ {
		r.spend(1)
		r.locals[depth].value = at(from + l.index)
		col := l.index%l.cols + 1
		r.write(`<td class="col` + strconv.Itoa(col) + `">`)
		s := n.body.render(r)
		r.write("</td>")
		if s == breakLoop {
			break
		}
		if col == l.cols && l.index+1 < l.length {
			r.write("</tr>\n<tr class=\"row" + strconv.Itoa(l.index/l.cols+2) + `">`)
		}
	}
	r.write("</tr>\n")
	return goOn
}
