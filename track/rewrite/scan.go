package rewrite

import "strings"

// scanner finds the tags of a document as browsers do (HTML, 13.2.5), and nothing
// else. It makes no tokens: between two tags it jumps. Comments, those for Outlook
// among them, CDATA, scripts, styles and other raw text are passed over.
//
// Three ways were measured, over the same documents (sluice-bench rewrite). The
// tokenizer of golang.org/x/net/html finds the same tags, and is the oracle of the
// tests. A regular expression is wrong about comments, quotes and raw text. This is
// the third.
type scanner struct {
	s   string
	pos int

	// ended says that the document ends within something that hides what would be
	// put behind it: a comment, a tag, raw text.
	ended bool

	// noCDATAEnd says that there is no ]]> behind pos. Looking for it again at each
	// CDATA would take the square of the document's length.
	noCDATAEnd bool
}

// tag is a start or end tag.
type tag struct {
	start, end int // from < to behind >
	nameEnd    int
	closing    bool

	href, mark attribute // of links alone; the first of each name counts
}

// attribute is a name with its value. of says that it is there.
type attribute struct {
	of               bool
	start, end       int // with quotes, from the name's first character
	valueStart, stop int // without quotes
	quoted           bool
}

// next finds the next tag. false: there is none any more.
func (z *scanner) next(t *tag) bool {
	for {
		i := strings.IndexByte(z.s[z.pos:], '<')
		if i < 0 || z.pos+i+1 == len(z.s) {
			z.pos = len(z.s)
			return false
		}
		z.pos += i
		switch c := z.s[z.pos+1]; {
		case isLetter(c):
			return z.tag(t, z.pos+1)
		case c == '/' && z.pos+2 < len(z.s) && isLetter(z.s[z.pos+2]):
			return z.tag(t, z.pos+2)
		case c == '!', c == '?', c == '/':
			if !z.comment() {
				z.pos, z.ended = len(z.s), true
				return false
			}
		default:
			z.pos++ // text
		}
	}
}

// comment passes over what no tag is: comments, declarations, CDATA. A CDATA
// section ends with ]]> in a picture, and with the first > elsewhere: up to the
// later of the two nothing is touched.
func (z *scanner) comment() bool {
	rest := z.s[z.pos:]
	switch {
	case strings.HasPrefix(rest, "<!--"):
		return z.skipComment()
	case strings.HasPrefix(rest, "<![CDATA[") && !z.noCDATAEnd:
		if end := strings.Index(rest, "]]>"); end >= 0 {
			z.pos += end + len("]]>")
			return true
		}
		z.noCDATAEnd = true
	}
	end := strings.IndexByte(rest, '>')
	z.pos += end + 1
	return end >= 0
}

// skipComment passes over <!-- ... -->. <!--> and <!---> are whole ones, and --!>
// ends one too.
func (z *scanner) skipComment() bool {
	at := z.pos + len("<!--")
	for _, short := range [...]string{">", "->"} {
		if strings.HasPrefix(z.s[at:], short) {
			z.pos = at + len(short)
			return true
		}
	}
	for {
		i := strings.Index(z.s[at:], "--")
		if i < 0 {
			return false
		}
		at += i + 1
		for _, end := range [...]string{"->", "-!>"} {
			if strings.HasPrefix(z.s[at:], end) {
				z.pos = at + len(end)
				return true
			}
		}
	}
}

// tag reads a tag whose name begins at i, and goes on behind it, or behind its raw
// text.
func (z *scanner) tag(t *tag, i int) bool {
	*t = tag{start: z.pos, closing: z.s[z.pos+1] == '/'}
	nameStart := i
	for i < len(z.s) && !endsName[z.s[i]] {
		i++
	}
	t.nameEnd = i
	name := z.s[nameStart:i]
	link := !t.closing && (name == "a" || name == "A" || strings.EqualFold(name, "area"))
	if t.end = z.attributes(t, i, link); t.end == 0 {
		z.pos, z.ended = len(z.s), true
		return false
	}
	z.pos = t.end
	if !t.closing && isRaw(name) {
		z.raw(name)
	}
	return true
}

// attributes reads up to behind the > of a tag, or returns 0 if there is none.
func (z *scanner) attributes(t *tag, i int, link bool) int {
	s := z.s
	for i < len(s) {
		switch c := s[i]; {
		case c == '>':
			return i + 1
		case c == '/' || isSpace(c):
			i++
			continue
		}
		a := attribute{of: true, start: i}
		for i++; i < len(s) && !endsName[s[i]] && s[i] != '='; i++ { // a = at the beginning is of the name
		}
		nameEnd := i
		for i < len(s) && isSpace(s[i]) {
			i++
		}
		a.valueStart, a.stop, a.end = nameEnd, nameEnd, nameEnd
		if i < len(s) && s[i] == '=' {
			if i = z.value(&a, i+1); i < 0 {
				return 0
			}
		}
		if link {
			t.keep(s[a.start:nameEnd], a)
		}
	}
	return 0
}

// value reads the value of an attribute behind its =, and returns where it ends, or
// -1: it does not.
func (z *scanner) value(a *attribute, i int) int {
	s := z.s
	for i < len(s) && isSpace(s[i]) {
		i++
	}
	if i < len(s) && (s[i] == '"' || s[i] == '\'') {
		n := strings.IndexByte(s[i+1:], s[i])
		if n < 0 {
			return -1
		}
		a.quoted, a.valueStart, a.stop, a.end = true, i+1, i+1+n, i+n+2
		return a.end
	}
	a.valueStart = i
	for i < len(s) && s[i] != '>' && !isSpace(s[i]) {
		i++
	}
	a.stop, a.end = i, i
	return i
}

// keep keeps an attribute of a link that means something here.
func (t *tag) keep(name string, a attribute) {
	switch {
	case len(name) == len("href") && !t.href.of && strings.EqualFold(name, "href"):
		t.href = a
	case len(name) == len(offMark) && !t.mark.of && strings.EqualFold(name, offMark):
		t.mark = a
	}
}

// raw passes over the text of an element in which there are no tags, up to its end
// tag. A script that has another in a comment may not end where it seems to: then
// the rest is left as it is.
func (z *scanner) raw(name string) {
	from := z.pos
	for !strings.EqualFold(name, "plaintext") {
		i := strings.Index(z.s[z.pos:], "</")
		if i < 0 {
			break
		}
		z.pos += i
		if after := z.pos + len("</") + len(name); after < len(z.s) && endsName[z.s[after]] && strings.EqualFold(z.s[z.pos+len("</"):after], name) {
			if strings.EqualFold(name, "script") && strings.Contains(z.s[from:z.pos], "<!--") {
				break
			}
			return
		}
		z.pos += len("</")
	}
	z.pos, z.ended = len(z.s), true
}

// isRaw reports whether the content of an element is text, tags or not (HTML,
// 13.2.6; that of noscript is where scripts run).
func isRaw(name string) bool {
	switch name[0] | 0x20 {
	case 'i', 'n', 'p', 's', 't', 'x':
	default:
		return false
	}
	for _, raw := range [...]string{"style", "title", "script", "textarea", "xmp", "iframe", "noembed", "noframes", "noscript", "plaintext"} {
		if len(raw) == len(name) && strings.EqualFold(raw, name) {
			return true
		}
	}
	return false
}

// endsName are the characters behind a tag's name.
var endsName = [256]bool{' ': true, '\t': true, '\n': true, '\f': true, '\r': true, '/': true, '>': true}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' || c == '\f' }

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }
