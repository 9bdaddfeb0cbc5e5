package template

import (
	"fmt"
	"strings"

	"sluice"
)

// Kind says why a template cannot be compiled or a mail not rendered.
type Kind byte

// The kinds.
const (
	KindSyntax  Kind = 1 // the template is no template
	KindLimit   Kind = 2 // it is too large, or does too much for this recipient
	KindTime    Kind = 3 // it took too long: perhaps because the machine is busy
	KindMissing Kind = 4 // what the template needs is not given
	KindValue   Kind = 5 // a value with which what is asked for cannot be done
	KindAborted Kind = 6 // the template itself says that this mail is not to be sent
	KindInput   Kind = 7 // the variables or the content cannot be used
)

var kindWords = sluice.Words[Kind]{KindSyntax: "syntax", KindLimit: "limit", KindTime: "time", KindMissing: "missing", KindValue: "value", KindAborted: "aborted", KindInput: "input"}

// String returns the kind's word, as metrics and reasons have it.
func (k Kind) String() string { return kindWords.Of(k) }

// Error is why a template cannot be compiled, or a mail not be rendered: the
// recipient is parked with it. All but KindTime will be the same again with the
// same template and values.
type Error struct {
	Kind    Kind
	Part    string // subject, preheader, from, html, text, header NAME; empty: none of them
	Line    int    // in that part, from 1; 0: none
	Message string
}

// Error returns the message with where it is.
func (e *Error) Error() string {
	where := e.Part
	if e.Line > 0 {
		where = fmt.Sprintf("%s, line %d", e.Part, e.Line)
	}
	if where == "" {
		return e.Message
	}
	return where + ": " + e.Message
}

// maxErrorBytes bounds a message: it may quote a template.
const maxErrorBytes = 300

func newError(kind Kind, line int, format string, args ...any) *Error {
	text := strings.Map(func(c rune) rune {
		if c < ' ' || c == 0x7f {
			return ' '
		}
		return c
	}, fmt.Sprintf(format, args...))
	if len(text) > maxErrorBytes {
		text = strings.ToValidUTF8(text[:maxErrorBytes], "") + "..."
	}
	return &Error{Kind: kind, Line: line, Message: text}
}

func syntaxError(line int, format string, args ...any) *Error {
	return newError(KindSyntax, line, format, args...)
}
