package mime

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// Text derives a plain text from HTML, as a person would write the same mail.
// Paragraphs have empty lines between them, lists have dashes or numbers. Links
// are behind their text as <URL> (RFC 3986, appendix C), quotations have ">".
// Hidden parts (scripts, styles, display:none) are left out. Lines are as long
// as their paragraphs: the encoding breaks them. It never fails: bad HTML is
// read as browsers do.
//
// One walk over the tokens, no tree: mails are made of tables in tables, whose
// order in the source is the order of reading.
func Text(source string) string {
	w := textWriter{out: make([]byte, 0, len(source)/2), most: maxTextGrowth*len(source) + spareTextBytes}
	z := html.NewTokenizer(strings.NewReader(source))
	for {
		switch kind := z.Next(); kind {
		case html.ErrorToken: // the end: a string is read without errors
			w.closeLinks()
			return string(bytes.TrimRight(w.out, " \n"))
		case html.TextToken:
			if w.hidden == 0 {
				w.text(z.Text())
			}
		case html.StartTagToken, html.SelfClosingTagToken:
			name, more := z.TagName()
			tag := atom.Lookup(name)
			closed := kind == html.SelfClosingTagToken && tag == atom.Svg // the slash closes none of HTML's own (HTML, 13.1.2.1)
			w.open(z, tag, more, closed)
		case html.EndTagToken:
			name, _ := z.TagName()
			w.close(atom.Lookup(name))
		}
	}
}

// maxNested bounds lists, links and quotations that are kept open.
const maxNested = 32

// A text is at most maxTextGrowth times as long as its HTML, and a little more:
// the rest is left out. An item of a list has four octets, and before it, 32
// lists and quotations deep, the text has 128. Without the bound the longest
// HTML there may be made 130 MB. HTML that people write becomes shorter.
const (
	maxTextGrowth  = 4
	spareTextBytes = 1 << 10
)

// textWriter writes a text. What is between two words is decided when the second
// comes: a space, a line, an empty line.
type textWriter struct {
	out      []byte
	most     int  // no word is begun behind so many octets
	newlines int  // wanted before the next word
	space    bool // wanted before the next word
	pre      int  // how deep in <pre>

	hidden    int       // how deep in hiddenTag: nothing is shown
	hiddenTag atom.Atom // what has to be closed as often, or is ended by others (endings)
	inner     int       // how deep in it, in elements that have parts of its kind

	quotes int
	lists  []int // of each list the next number; -1: it has none
	links  []link
}

type link struct {
	url   string
	start int // where its text begins
}

// voids have no end (HTML, 13.1.2).
var voids = map[atom.Atom]bool{atom.Area: true, atom.Base: true, atom.Br: true, atom.Col: true, atom.Embed: true, atom.Hr: true, atom.Img: true,
	atom.Input: true, atom.Link: true, atom.Meta: true, atom.Source: true, atom.Track: true, atom.Wbr: true}

// blocks are followed, and begun, by so many ends of lines.
var blocks = map[atom.Atom]int{atom.P: 2, atom.H1: 2, atom.H2: 2, atom.H3: 2, atom.H4: 2, atom.H5: 2, atom.H6: 2, atom.Table: 2, atom.Pre: 2,
	atom.Ul: 2, atom.Ol: 2, atom.Dl: 2, atom.Blockquote: 2, atom.Div: 1, atom.Tr: 1, atom.Li: 1, atom.Dt: 1, atom.Dd: 1, atom.Section: 1,
	atom.Article: 1, atom.Header: 1, atom.Footer: 1, atom.Center: 1, atom.Address: 1, atom.Main: 1, atom.Nav: 1, atom.Aside: 1, atom.Form: 1,
	atom.Figure: 1, atom.Figcaption: 1, atom.Body: 1}

// endings are of elements whose own end may be left out (HTML, 13.1.2.4).
var endings = func() map[atom.Atom]ending {
	groups := []atom.Atom{atom.Tbody, atom.Thead, atom.Tfoot}
	rows := append([]atom.Atom{atom.Tr}, groups...)
	cells := append([]atom.Atom{atom.Td, atom.Th}, rows...)
	table, list := []atom.Atom{atom.Table}, []atom.Atom{atom.Dl}
	// Paragraphs have no blocks in them.
	others := append([]atom.Atom{atom.Hr}, cells...)
	for tag := range blocks {
		others = append(others, tag)
	}
	all := map[atom.Atom]ending{
		atom.P:  {starts: others, ends: others},
		atom.Li: {in: []atom.Atom{atom.Ul, atom.Ol, atom.Menu}, starts: []atom.Atom{atom.Li}},
		atom.Dt: {in: list, starts: []atom.Atom{atom.Dt, atom.Dd}}, atom.Dd: {in: list, starts: []atom.Atom{atom.Dt, atom.Dd}},
		atom.Td: {in: table, starts: cells, ends: rows}, atom.Th: {in: table, starts: cells, ends: rows},
		atom.Tr: {in: table, starts: rows, ends: groups},
	}
	for _, tag := range groups {
		all[tag] = ending{in: table, starts: groups}
	}
	return all
}()

// ending says what ends an element beside its own end: the end of one that it is in, and
// these starts and ends. They end it not where they stand in another such one inside of it.
type ending struct{ in, starts, ends []atom.Atom }

// unseen are never shown. A head is not among them, as its end may be left out: all that
// it may have a text in is.
var unseen = map[atom.Atom]bool{atom.Title: true, atom.Style: true, atom.Script: true, atom.Template: true, atom.Noscript: true,
	atom.Select: true, atom.Textarea: true, atom.Svg: true, atom.Object: true, atom.Iframe: true}

// open begins an element. closed: it ends at once.
func (w *textWriter) open(z *html.Tokenizer, tag atom.Atom, more, closed bool) {
	if w.hidden > 0 && (closed || !w.shownFrom(tag)) {
		return
	}
	var href, alt string
	none := unseen[tag]
	for more {
		var key, value []byte
		key, value, more = z.TagAttr()
		switch string(key) {
		case "href":
			href = strings.TrimSpace(string(value))
		case "alt":
			alt = string(value)
		case "style":
			none = none || isHidden(value)
		case "hidden":
			none = true
		}
	}
	if none && !voids[tag] {
		if !closed {
			w.hidden, w.hiddenTag, w.inner = 1, tag, 0
		}
		return
	}
	w.block(blocks[tag])
	switch tag {
	case atom.Br:
		w.br()
	case atom.Hr:
		w.block(2)
		w.word("----------")
		w.block(2)
	case atom.Img:
		if !none {
			w.text([]byte(alt))
		}
	case atom.Td, atom.Th:
		w.space = true
	case atom.Pre:
		w.pre++
	case atom.Blockquote:
		w.quotes = min(w.quotes+1, maxNested)
	case atom.Ul, atom.Ol:
		next := -1
		if tag == atom.Ol {
			next = 1
		}
		if len(w.lists) > 0 {
			w.newlines = min(w.newlines, 1) // a list in a list has no empty line before it
		}
		if len(w.lists) < maxNested {
			w.lists = append(w.lists, next)
		}
	case atom.Li:
		w.item()
	case atom.A:
		w.closeLinks() // a link in a link closes the first (HTML, 13.2.6.4.7)
		if len(w.links) < maxNested {
			w.links = append(w.links, link{url: href, start: -1})
		}
	}
}

// shownFrom reports whether a start ends what is hidden, and counts it if it does not.
func (w *textWriter) shownFrom(tag atom.Atom) bool {
	e, loose := endings[w.hiddenTag]
	switch {
	case slices.Contains(e.in, tag):
		w.inner++
	case loose && w.inner == 0 && slices.Contains(e.starts, tag):
		w.hidden = 0
	case !loose && tag == w.hiddenTag:
		w.hidden++
	}
	return w.hidden == 0
}

// shownBehind reports whether an end of another element ends what is hidden, and counts
// it if it does not.
func (w *textWriter) shownBehind(tag atom.Atom) bool {
	e := endings[w.hiddenTag]
	switch in := slices.Contains(e.in, tag); {
	case in && w.inner > 0:
		w.inner--
	case w.inner > 0:
	case tag == w.hiddenTag:
		w.hidden--
	case in || slices.Contains(e.ends, tag):
		w.hidden = 0
		return true
	}
	return false
}

func (w *textWriter) close(tag atom.Atom) {
	if w.hidden > 0 && !w.shownBehind(tag) {
		return
	}
	switch tag {
	case atom.A:
		w.closeLinks()
	case atom.Pre:
		w.pre = max(0, w.pre-1)
	case atom.Ul, atom.Ol:
		if len(w.lists) > 0 {
			w.lists = w.lists[:len(w.lists)-1]
		}
		if len(w.lists) > 0 {
			w.block(1)
			return
		}
	}
	w.block(blocks[tag])
	if tag == atom.Blockquote {
		w.quotes = max(0, w.quotes-1)
	}
}

// isHidden reports whether a style hides an element. mso-hide hides from Outlook alone
// what others see, such as a link beside a button of its own for Outlook.
func isHidden(style []byte) bool {
	const longest = 4096
	s := strings.ToLower(string(bytes.Join(bytes.Fields(style[:min(len(style), longest)]), nil)))
	return strings.Contains(s, "display:none") || strings.Contains(s, "visibility:hidden")
}

func (w *textWriter) block(newlines int) { w.newlines = max(w.newlines, newlines) }

// br ends a line; two of them make an empty one.
func (w *textWriter) br() { w.newlines = min(w.newlines+1, 2) }

// item begins an item of a list.
func (w *textWriter) item() {
	if len(w.lists) == 0 {
		w.word("-")
		w.space = true
		return
	}
	last := &w.lists[len(w.lists)-1]
	mark := "-"
	if *last >= 0 {
		mark = strconv.Itoa(*last) + "."
		*last++
	}
	w.word(strings.Repeat("  ", len(w.lists)-1) + mark)
	w.space = true
}

// text writes words, with one space for any run of them.
func (w *textWriter) text(s []byte) {
	for len(s) > 0 {
		r, n := utf8.DecodeRune(s)
		switch {
		case w.pre > 0 && r == '\n':
			w.br()
			s = s[n:]
		case w.pre > 0 && (r == ' ' || r == '\t'):
			m := len(s) - len(bytes.TrimLeft(s, " \t"))
			w.word(strings.ReplaceAll(string(s[:m]), "\t", "    "))
			s = s[m:]
		case isSpace(r):
			w.space = true
			s = s[n:]
		case isFiller(r):
			s = s[n:]
		default:
			m := bytes.IndexFunc(s, func(r rune) bool { return isSpace(r) || isFiller(r) })
			if m < 0 {
				m = len(s)
			}
			w.word(string(s[:m]))
			s = s[m:]
		}
	}
}

func isSpace(r rune) bool { return unicode.IsSpace(r) && r != '\u0085' }

// isFiller reports whether a character only keeps others apart: what previews
// are padded with. Joiners stay, emojis are made with them.
func isFiller(r rune) bool {
	return r == '\u00ad' || r == '\u034f' || r == '\u200b' || r == '\u200c' || r == '\ufeff' || r == 0
}

// word writes a piece of a line, and before it what is due.
func (w *textWriter) word(s string) {
	if len(w.out) > w.most {
		return
	}
	switch {
	case len(w.out) == 0:
		w.indent()
	case w.newlines > 0:
		for range w.newlines {
			w.out = append(w.out, '\n')
		}
		w.indent()
	case w.space:
		w.out = append(w.out, ' ')
	}
	w.newlines, w.space = 0, false
	if n := len(w.links); n > 0 && w.links[n-1].start < 0 {
		w.links[n-1].start = len(w.out)
	}
	w.out = append(w.out, s...)
}

func (w *textWriter) indent() {
	for range w.quotes {
		w.out = append(w.out, "> "...)
	}
}

// closeLinks writes behind the text of links where they lead, unless the text
// says so.
func (w *textWriter) closeLinks() {
	for _, l := range w.links {
		text := ""
		if l.start >= 0 {
			text = string(w.out[l.start:])
		}
		scheme, address, _ := strings.Cut(l.url, ":")
		switch strings.ToLower(scheme) {
		case "http", "https":
			plain := strings.TrimSuffix(strings.TrimPrefix(address, "//"), "/")
			if strings.TrimSuffix(text, "/") == plain || strings.TrimSuffix(text, "/") == strings.TrimSuffix(l.url, "/") {
				continue
			}
		case "mailto", "tel":
			if address, _, _ = strings.Cut(address, "?"); text == "" || strings.Contains(text, address) {
				continue
			}
			l.url = address
		default:
			continue // an anchor, or what a mail cannot do
		}
		if strings.ContainsFunc(l.url, func(r rune) bool { return r <= ' ' || r == '<' || r == '>' }) {
			continue
		}
		w.links = w.links[:0] // the address is no text of a link
		w.newlines, w.space = 0, true
		w.word("<" + l.url + ">")
	}
	w.links = w.links[:0]
}

// padding keeps what follows the preheader out of the preview, which takes as
// much text as it has room for.
const (
	previewChars = 120
	padding      = "&zwnj;&nbsp;"
)

// addPreheader puts a text at the top of the HTML that is not shown there, but
// in the list of mails behind the subject.
func addPreheader(source, preheader string) string {
	if preheader == "" {
		return source
	}
	var b strings.Builder
	at := bodyStart(source)
	b.Grow(len(source) + 2*len(preheader) + previewChars*len(padding) + 200)
	b.WriteString(source[:at])
	b.WriteString(`<div style="display:none;font-size:1px;line-height:1px;max-height:0;max-width:0;opacity:0;overflow:hidden;mso-hide:all">`)
	b.WriteString(html.EscapeString(preheader))
	for range previewChars - utf8.RuneCountInString(preheader) {
		b.WriteString(padding)
	}
	b.WriteString("</div>")
	b.WriteString(source[at:])
	return b.String()
}

// bodyStart finds where the shown part of HTML begins: behind <body>, or behind
// the head, or at the beginning.
func bodyStart(source string) int {
	z := html.NewTokenizer(strings.NewReader(source))
	at, start := 0, 0
	for {
		kind := z.Next()
		at += len(z.Raw())
		switch kind {
		case html.ErrorToken:
			return start
		case html.DoctypeToken:
			start = at
		case html.StartTagToken, html.EndTagToken:
			name, _ := z.TagName()
			switch tag := atom.Lookup(name); {
			case tag == atom.Body && kind == html.StartTagToken:
				return at
			case tag == atom.Html && kind == html.StartTagToken, tag == atom.Head && kind == html.EndTagToken:
				start = at
			case tag == atom.Div || tag == atom.Table || tag == atom.P: // no <body> comes any more
				return start
			}
		}
	}
}
