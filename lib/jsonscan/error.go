package jsonscan

import (
	"fmt"
	"strconv"
	"unicode/utf8"

	"sluice"
)

// Cause says what kind of refusal an Error is.
type Cause uint8

// The causes.
const (
	CauseSyntax    Cause = iota // not JSON
	CauseTooDeep                // JSON so far, but nested deeper than sluice.MaxNestingLevels
	CauseNotObject              // valid JSON, but no object
)

// Error says why a text was refused. Its message begins with a short reason
// that does not change: "not JSON", "nested too deep", "not an object".
type Error struct {
	Cause  Cause
	Offset int    // of the byte that was not expected
	Reason string // what was expected there
}

// Error returns the message.
func (e *Error) Error() string {
	switch e.Cause {
	case CauseTooDeep:
		return "nested too deep: " + e.Reason + ", at byte " + strconv.Itoa(e.Offset)
	case CauseNotObject:
		return "not an object: " + e.Reason
	}
	return "not JSON: " + e.Reason + ", at byte " + strconv.Itoa(e.Offset)
}

// reason is what the scanning functions return instead of an error, which
// would cost the valid texts.
type reason uint8

const (
	fine reason = iota
	wantValue
	wantKey
	wantColon
	wantCommaOrBrace
	wantCommaOrBracket
	wantEnd
	wantLiteral
	wantDigit
	wantNoDigit
	wantQuote
	wantNoControl
	wantEscape
	wantHex
	wantPair
	wantUTF8
	wantArray
	wantShallower
)

var reasons = [...]string{
	wantValue:          "want a value",
	wantKey:            "want a member's name in quotes",
	wantColon:          "want a colon behind a member's name",
	wantCommaOrBrace:   "want a comma or a closing brace",
	wantCommaOrBracket: "want a comma or a closing bracket",
	wantEnd:            "want nothing behind the value",
	wantLiteral:        "want true, false or null",
	wantDigit:          "want a digit",
	wantNoDigit:        "want no digit behind a leading zero",
	wantQuote:          "want a closing quote",
	wantNoControl:      "want control characters in strings escaped",
	wantEscape:         `want one of "\/bfnrtu behind a backslash`,
	wantHex:            `want four hexadecimal digits behind \u`,
	wantPair:           "want surrogates in pairs, high before low",
	wantUTF8:           "want UTF-8",
	wantArray:          "want an opening bracket",
}

func newError(text string, offset int, why reason) *Error {
	if why == wantShallower {
		return &Error{CauseTooDeep, offset, fmt.Sprintf("more than %d levels", sluice.MaxNestingLevels)}
	}
	return &Error{CauseSyntax, offset, reasons[why] + ", got " + got(text, offset)}
}

// got says what stands at an offset.
func got(text string, offset int) string {
	if offset >= len(text) {
		return "the end"
	}
	r, size := utf8.DecodeRuneInString(text[offset:])
	if r == utf8.RuneError && size == 1 {
		return fmt.Sprintf("the byte 0x%02x", text[offset])
	}
	return strconv.QuoteRuneToASCII(r)
}
