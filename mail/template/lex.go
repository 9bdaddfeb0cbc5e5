package template

import "strings"

// piece is a part of a source: text, an output or a tag.
type piece struct {
	kind pieceKind
	text string // of a text; else what is between the braces, trimmed of blanks
	name string // of a tag
	line int
}

type pieceKind byte

const (
	pieceEnd pieceKind = iota
	pieceText
	pieceOutput
	pieceTag
)

// scanner cuts a source into pieces.
type scanner struct {
	source string
	at     int  // where the next piece begins
	line   int  // of at
	trim   bool // the piece before ended with a dash: blanks after it go

	// noEndraw says that "endraw" does not stand behind at. Looking for it again at each
	// comment would take the square of the source's length.
	noEndraw bool

	lines    []string // of a {% liquid %} tag, still to come: each is a tag
	lineText int      // the line of lines[0]
}

// move goes on to an offset, counting lines.
func (s *scanner) move(to int) {
	s.line += strings.Count(s.source[s.at:to], "\n")
	s.at = to
}

func (s *scanner) next() (piece, *Error) {
	for len(s.lines) > 0 {
		p := s.linePiece()
		if p.text != "" || p.name != "" {
			return p, nil
		}
	}
	if s.at == len(s.source) {
		return piece{kind: pieceEnd, line: s.line}, nil
	}
	if n := opening(s.source[s.at:]); n > 0 {
		return s.textPiece(s.at + n), nil
	}
	return s.bracedPiece()
}

// linePiece is the next line of a {% liquid %} tag. A line may begin with liquid again.
func (s *scanner) linePiece() piece {
	p := tagPiece(s.lines[0], s.lineText)
	for p.name == "liquid" {
		p = tagPiece(p.text, s.lineText)
	}
	s.lines, s.lineText = s.lines[1:], s.lineText+1
	return p
}

// opening returns where the first opening brace is; all of the text if none.
func opening(text string) int {
	for i := 0; ; i++ {
		n := strings.IndexByte(text[i:], '{')
		if n < 0 || i+n+1 >= len(text) {
			return len(text)
		}
		i += n
		if c := text[i+1]; c == '{' || c == '%' {
			return i
		}
	}
}

const blanks = " \t\r\n"

// textPiece is the text up to an offset, trimmed where dashes say so.
func (s *scanner) textPiece(to int) piece {
	text := s.source[s.at:to]
	p := piece{kind: pieceText, line: s.line}
	if s.trim {
		text = strings.TrimLeft(text, blanks)
	}
	if strings.HasPrefix(s.source[to:], "{{-") || strings.HasPrefix(s.source[to:], "{%-") {
		text = strings.TrimRight(text, blanks)
	}
	s.trim = false
	s.move(to)
	p.text = text
	return p
}

// bracedPiece is an output or a tag.
func (s *scanner) bracedPiece() (piece, *Error) {
	line, output := s.line, s.source[s.at+1] == '{'
	length := closing(s.source[s.at+2:], output)
	if length < 0 {
		what := "{% has no %}"
		if output {
			what = "{{ has no }}"
		}
		return piece{}, syntaxError(line, "%s; write %s where it is meant as text", what, "{% raw %}...{% endraw %}")
	}
	inner := s.source[s.at+2 : s.at+2+length]
	s.move(s.at + 2 + length + 2)
	inner = strings.TrimPrefix(inner, "-")
	s.trim = strings.HasSuffix(inner, "-")
	inner = strings.TrimSuffix(inner, "-")
	if output {
		return piece{kind: pieceOutput, text: strings.Trim(inner, blanks), line: line}, nil
	}
	if rest, ok := strings.CutPrefix(strings.TrimLeft(inner, blanks), "liquid"); ok && (rest == "" || strings.ContainsAny(rest[:1], blanks)) {
		line += strings.Count(inner[:len(inner)-len(rest)], "\n")
		s.lines, s.lineText = strings.Split(rest, "\n"), line
		return s.next()
	}
	return tagPiece(inner, line), nil
}

// closing returns how long what an opening brace begins is. A ${name} is passed
// over: {{${first_name}}} ends with the last two braces.
func closing(text string, output bool) int {
	for i := 0; i+1 < len(text); i++ {
		switch {
		case text[i] == '$' && text[i+1] == '{':
			n := strings.IndexAny(text[i:], "}\n")
			if n < 0 {
				return -1
			}
			i += n
		case output && text[i] == '}' && text[i+1] == '}', !output && text[i] == '%' && text[i+1] == '}':
			return i
		}
	}
	return -1
}

// tagPiece cuts a tag into its name and the rest.
func tagPiece(inner string, line int) piece {
	trimmed := strings.TrimLeft(inner, blanks)
	line += strings.Count(inner[:len(inner)-len(trimmed)], "\n")
	trimmed = strings.TrimRight(trimmed, blanks)
	p := piece{kind: pieceTag, line: line}
	if strings.HasPrefix(trimmed, "#") {
		p.name = "#"
		return p
	}
	p.name = tagName(trimmed)
	p.text = strings.Trim(trimmed[len(p.name):], blanks)
	return p
}

func isWord(c byte) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c >= 0x80
}

// verbatimLines is verbatim inside of {% liquid %}, where a comment is lines.
func (s *scanner) verbatimLines(name string, line int) *Error {
	if name == "raw" {
		return syntaxError(line, "{%% raw %%} cannot be a line of {%% liquid %%}; give it braces of its own")
	}
	for depth := 1; len(s.lines) > 0; {
		switch p := s.linePiece(); {
		case p.name == "end"+name:
			if depth--; depth == 0 {
				return nil
			}
		case p.name == name:
			depth++
		}
	}
	return unended(name, line)
}

// verbatim returns what stands before the tag that ends a raw, a comment or a doc, and
// goes on behind that tag. Comments nest, and what is raw in one ends none.
func (s *scanner) verbatim(name string, line int) (string, *Error) {
	if len(s.lines) > 0 {
		return "", s.verbatimLines(name, line)
	}
	start, depth, leftTrimmed := s.at, 1, s.trim
	raw := false
	for i := s.at; ; i += 2 {
		n := strings.Index(s.source[i:], "{%")
		if n < 0 {
			return "", unended(name, line)
		}
		i += n
		// Only the tag that ends it is looked through to its end: looking so at
		// each brace would take the square of the source's length.
		switch inner := tagName(strings.TrimLeft(strings.TrimPrefix(s.source[i+2:], "-"), blanks)); {
		case raw:
			raw = inner != "endraw"
		case inner == "end"+name:
			depth--
		case inner == "doc" && name == "doc":
			return "", syntaxError(line, "{%% doc %%} stands in {%% doc %%}; one has to end before the next begins")
		case inner == "comment" && name == "comment":
			depth++
		case inner == "raw" && name == "comment" && !s.noEndraw:
			raw = strings.Contains(s.source[i:], "endraw")
			s.noEndraw = !raw
		}
		if depth > 0 {
			continue
		}
		length := closing(s.source[i+2:], false)
		if length < 0 {
			return "", unended(name, line)
		}
		text, inner := s.source[start:i], s.source[i+2:i+2+length]
		if leftTrimmed {
			text = strings.TrimLeft(text, blanks)
		}
		if strings.HasPrefix(inner, "-") {
			text = strings.TrimRight(text, blanks)
		}
		s.move(i + 2 + length + 2)
		s.trim = strings.HasSuffix(inner, "-")
		return text, nil
	}
}

func unended(name string, line int) *Error {
	return syntaxError(line, "{%% %s %%} has no {%% end%s %%}", name, name)
}

// tagName returns the word that a text begins with.
func tagName(text string) string {
	n := 0
	for n < len(text) && isWord(text[n]) {
		n++
	}
	return text[:n]
}
