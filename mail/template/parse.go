package template

import "strings"

// Bounds of a source, beside its length.
const (
	maxNodes     = 100_000
	maxNestDepth = 100
)

// parser makes nodes of a source. Blocks nest as its calls do.
type parser struct {
	scan  scanner
	nodes int
	depth int
	loops int // around
}

// parse compiles a source, and says of how many nodes it is.
func parse(source string) (block, int, *Error) {
	p := &parser{scan: scanner{source: source, line: 1}}
	body, end, err := p.block("", 0)
	if err == nil && end.kind != pieceEnd {
		err = syntaxError(end.line, "{%% %s %%} ends nothing", end.name)
	}
	return body, p.nodes, err
}

// block reads nodes up to a tag that ends or divides the block that is open, or
// to the end of the source.
func (p *parser) block(open string, line int) (block, piece, *Error) {
	if p.depth++; p.depth > maxNestDepth {
		return nil, piece{}, syntaxError(line, "blocks are nested more than %d deep", maxNestDepth)
	}
	defer func() { p.depth-- }()
	var body block
	for {
		x, err := p.scan.next()
		if err != nil {
			return nil, x, err
		}
		if x.kind == pieceEnd && open != "" {
			return nil, x, syntaxError(line, "{%% %s %%} has no {%% end%s %%}", open, open)
		}
		if x.kind == pieceEnd || x.kind == pieceTag && ends(x.name) {
			return body, x, nil
		}
		n, err := p.node(x)
		if err != nil {
			return nil, x, err
		}
		if n == nil {
			continue
		}
		if p.nodes++; p.nodes > maxNodes {
			return nil, x, syntaxError(x.line, "the template has more than %d pieces", maxNodes)
		}
		body = append(body, n)
	}
}

// ends reports whether a tag ends or divides a block.
func ends(name string) bool {
	switch name {
	case "else", "elsif", "when":
		return true
	}
	return strings.HasPrefix(name, "end")
}

// node makes a node of a piece; nil of one that puts out nothing.
func (p *parser) node(x piece) (node, *Error) {
	switch {
	case x.kind == pieceText && x.text == "":
		return nil, nil
	case x.kind == pieceText:
		return textNode(x.text), nil
	case x.kind == pieceTag:
		return p.tag(x)
	}
	return output(x)
}

func output(x piece) (node, *Error) {
	if x.text == "" {
		return nil, nil
	}
	r := newReader(x.text, x.line)
	n := &outputNode{r.expression(), x.line}
	return n, r.end()
}

// contentBlocks is a variable to Braze's users; it would be empty here.
const contentBlocks = "content_blocks"

// unavailable are tags of other programs, which people bring along, and what
// is to be done instead.
var unavailable = map[string]string{
	"include": "write its text here", "render": "write its text here", "layout": "write it into each template",
	contentBlocks:       "write its text here",
	"connected_content": "nothing is fetched while a mail is made; send the values as variables",
	"catalog_items":     "send the values as variables", "catalog_selection_items": "send the values as variables",
}

func (p *parser) tag(x piece) (node, *Error) {
	switch x.name {
	case "#", "comment", "raw", "doc":
		return p.verbatim(x)
	case "if", "unless":
		return p.conditional(x)
	case "case":
		return p.choice(x)
	case "for", "tablerow":
		return p.loop(x)
	case "ifchanged":
		return p.changed(x)
	case "capture":
		return p.capture(x)
	case "break", "continue":
		if p.loops == 0 {
			return nil, syntaxError(x.line, "{%% %s %%} stands in no loop", x.name)
		}
		if x.name == "break" {
			return signalNode(breakLoop), nothingAfter(x)
		}
		return signalNode(continueLoop), nothingAfter(x)
	}
	r := newReader(x.text, x.line)
	var n node
	switch x.name {
	case "assign":
		a := &assignNode{name: r.name("a name"), line: x.line}
		if r.err == nil && !r.mark("=") {
			r.fail("assign: want NAME = value, got %s", r.shown())
		}
		a.x = r.expression()
		n = a
	case "echo":
		if x.text == "" {
			return nil, nil
		}
		n = &outputNode{r.expression(), x.line}
	case "increment", "decrement":
		n = &counterNode{r.name("a name"), x.name == "decrement"}
	case "cycle":
		n = cycle(r, x)
	case "abort_message":
		n = abort(r, x)
	default:
		return nil, unknownTag(x)
	}
	return n, r.end()
}

func unknownTag(x piece) *Error {
	if instead, ok := unavailable[x.name]; ok {
		return syntaxError(x.line, "the tag %s is not available: %s", x.name, instead)
	}
	if x.name == "" {
		return syntaxError(x.line, "a tag has no name: {%% %.40s %%}", x.text)
	}
	return syntaxError(x.line, "there is no tag %.40q", x.name)
}

func nothingAfter(x piece) *Error {
	if x.text != "" {
		return syntaxError(x.line, "unexpected %.40q after %s", x.text, x.name)
	}
	return nil
}

func (p *parser) verbatim(x piece) (node, *Error) {
	if x.name == "#" {
		return nil, nil
	}
	if x.name == "doc" && x.text != "" {
		return nil, nothingAfter(x)
	}
	text, err := p.scan.verbatim(x.name, x.line)
	if err != nil || x.name != "raw" || text == "" {
		return nil, err
	}
	return rawNode(text), nothingAfter(x)
}

func cycle(r *reader, x piece) node {
	c := &cycleNode{text: x.text, line: x.line}
	first := r.operand(0)
	if r.mark(":") {
		group := first
		c.group, first = &group, r.operand(0)
	}
	c.values = append(c.values, first)
	for r.err == nil && r.mark(",") {
		c.values = append(c.values, r.operand(0))
	}
	return c
}

// abort reads abort_message() and abort_message('why').
func abort(r *reader, x piece) node {
	a := &abortNode{why: operand{literal: "no reason is given"}, line: x.line}
	if !r.mark("(") || r.mark(")") {
		return a
	}
	a.why = r.operand(0)
	if r.err == nil && !r.mark(")") {
		r.fail("abort_message has no ), got %s", r.shown())
	}
	return a
}

// closes refuses a tag that does not end the block that is open.
func closes(open, end piece) *Error {
	if end.name != "end"+open.name {
		return syntaxError(end.line, "{%% %s %%} stands in {%% %s %%} of line %d, which has no {%% end%s %%} before it", end.name, open.name, open.line, open.name)
	}
	return nothingAfter(end)
}

func (p *parser) conditional(x piece) (node, *Error) {
	n := &ifNode{}
	for at := x; ; {
		b := branch{not: at.name == "unless", always: at.name == "else"}
		if b.always {
			if err := nothingAfter(at); err != nil {
				return nil, err
			}
		} else {
			r := newReader(at.text, at.line)
			b.when = r.condition()
			if err := r.end(); err != nil {
				return nil, err
			}
		}
		var end piece
		var err *Error
		if b.body, end, err = p.block(x.name, x.line); err != nil {
			return nil, err
		}
		n.branches = append(n.branches, b)
		if end.name != "elsif" && end.name != "else" || b.always {
			n.silence()
			return n, closes(x, end)
		}
		p.nodes++
		at = end
	}
}

func (p *parser) choice(x piece) (node, *Error) {
	r := newReader(x.text, x.line)
	n := &caseNode{subject: r.operand(0), line: x.line}
	if err := r.end(); err != nil {
		return nil, err
	}
	// What stands before the first branch is put out by nobody.
	_, end, err := p.block(x.name, x.line)
	for err == nil && (end.name == "when" || end.name == "else") {
		var b whenBranch
		if end.name == "when" {
			r := newReader(end.text, end.line)
			for more := true; more && r.err == nil; more = r.mark(",") || r.word("or") {
				b.values = append(b.values, r.operand(0))
			}
			err = r.end()
		} else {
			err = nothingAfter(end)
		}
		if err != nil {
			return nil, err
		}
		if b.body, end, err = p.block(x.name, x.line); err == nil {
			n.branches = append(n.branches, b)
			p.nodes++
		}
	}
	if err != nil {
		return nil, err
	}
	n.silence()
	return n, closes(x, end)
}

func (p *parser) capture(x piece) (node, *Error) {
	r := newReader(x.text, x.line)
	n := &captureNode{}
	if r.ahead.kind == tokenText { // {% capture "name" %} is as good
		n.name = r.ahead.text
		r.advance()
	} else {
		n.name = r.name("a name")
	}
	if err := r.end(); err != nil {
		return nil, err
	}
	body, end, err := p.block(x.name, x.line)
	if err != nil {
		return nil, err
	}
	n.body = body
	return n, closes(x, end)
}

// loop reads {% for NAME in VALUE [reversed] [limit: N] [offset: N] %} and
// {% tablerow NAME in VALUE [cols: N] [limit: N] [offset: N] %}.
func (p *parser) loop(x piece) (node, *Error) {
	r := newReader(x.text, x.line)
	n := loopHead(r, x)
	if err := r.end(); err != nil {
		return nil, err
	}
	p.loops++
	body, end, err := p.block(x.name, x.line)
	p.loops--
	n.body = body
	if err == nil && end.name == "else" && !n.table {
		if err = nothingAfter(end); err == nil {
			n.other, end, err = p.block(x.name, x.line)
		}
	}
	if err != nil {
		return nil, err
	}
	n.quiet = !n.table && silenced(&n.body, &n.other)
	return n, closes(x, end)
}

// loopHead reads what stands in the tag.
func loopHead(r *reader, x piece) *forNode {
	n := &forNode{name: r.name("the name of the variable"), line: x.line, table: x.name == "tablerow"}
	if r.err == nil && !r.word("in") {
		r.fail("%s: want NAME in VALUE, got %s after the name", x.name, r.shown())
	}
	start := r.begin
	n.over = r.expression()
	n.key = n.name + "-" + strings.Trim(r.text[min(start, r.begin):r.begin], blanks)
	for r.err == nil && r.ahead.kind != tokenEnd {
		if r.mark(",") && r.ahead.kind == tokenEnd {
			break
		}
		switch {
		case !n.table && r.word("reversed"):
			n.reversed = true
		case r.word("limit"):
			n.limit = r.bound(x.name, "limit")
		case r.word("offset"):
			n.offset, n.goesOn = r.offset(x.name)
		case n.table && r.word("cols"):
			n.cols = r.bound(x.name, "cols")
		case n.table:
			r.fail("tablerow: want cols: N, limit: N or offset: N, got %s", r.shown())
		default:
			r.fail("for: want reversed, limit: N or offset: N, got %s", r.shown())
		}
	}
	return n
}

func (r *reader) bound(tag, what string) *operand {
	if !r.mark(":") {
		r.fail("%s: want %s: N, got %s and %s", tag, what, what, r.shown())
	}
	o := r.operand(0)
	return &o
}

// offset reads offset: N, or offset: continue, which goes on where the loop of the same
// name over the same value was.
func (r *reader) offset(tag string) (from *operand, goesOn bool) {
	if tag == "for" && r.mark(":") {
		if r.word("continue") {
			return nil, true
		}
		o := r.operand(0)
		return &o, false
	}
	return r.bound(tag, "offset"), false
}

func (p *parser) changed(x piece) (node, *Error) {
	if err := nothingAfter(x); err != nil {
		return nil, err
	}
	body, end, err := p.block(x.name, x.line)
	if err != nil {
		return nil, err
	}
	return &changedNode{body}, closes(x, end)
}
