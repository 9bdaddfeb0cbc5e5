// Package template is the language in which mails are written, and what
// becomes of it for one recipient.
//
//	t, err := template.Compile(&version)       // once
//	m, err := t.Render(&template.Input{Variables: `{"order":7}`, Profile: p})
//
// The language is Liquid, of which it has what mails use: outputs with filters,
// if, unless, case, for, tablerow, assign, capture, cycle, increment, ifchanged,
// comment, doc, raw, liquid. It has the names that Braze gives to attributes, ${first_name} and
// custom_attribute.${plan}. docs/templates.md describes it to those who write
// in it.
//
// # Why it is ours
//
// The author of a template may be somebody who must not control the machine,
// and values come from anybody. So a rendering is bounded: in bytes, steps and
// time (Limits). A library was measured first, github.com/osteele/liquid
// v1.9.2, the best of Go's: it has no bound and no place to put one. A loop of
// 10^9 turns with nothing in it never calls anything of ours. Its for and its
// filters do not know the rendering that they belong to. Doubling a text 26
// times by append, and joining a range of 30 million, went on after four
// seconds. What remains when all of that is replaced is a scanner of
// expressions.
//
// # How it is bounded
//
// There is one budget, steps, and everything costs. A piece of the template, a
// turn, a filter, a look into a value, an element of a list cost one step each.
// Texts cost one for 256 bytes that are read or made. So steps bound the memory
// as well: 100,000 of them make 25 MB of texts, of which none is longer than
// the output may be. A new filter counts what it reads and makes. One that
// makes much of little computes how much before it makes it. The clock is asked
// every 1,024 steps.
//
// The compiler bounds what steps do not: the template's length, the number of
// its pieces, the depth of blocks and brackets. There are no includes, so
// nothing recurs. The scanner goes over each byte a bounded number of times.
//
// # What HTML is safe from
//
// In the HTML part every output is escaped, unless it has been: raw, escape,
// escape_once and newline_to_br make HTML, as does capture, whose outputs were escaped.
// Any other filter that makes a text makes one that is escaped, then perhaps twice: that
// is ugly and harmless, the reverse would not be. Subject, sender and headers
// are single lines. What breaks a line there becomes a blank, so no value can
// add a header (CR and LF; RFC 5322, 2.2).
//
// Some of what the reference takes in silence (to compare what has no order, to divide by
// 0), or puts out as an error into the mail, is an error here. It is an error of the template when it is made, with its
// line, or of the recipient, who then gets no mail.
//
// # Where it differs from the reference
//
// Numbers are of 64 bits, others have 15 digits, quotients all that a float64 has.
// docs/templates.md has the cases of the public suite golden-liquid that fail, and why.
package template
