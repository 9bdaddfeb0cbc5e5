// Package jsonscan reads the members of one JSON object, strictly and without
// allocating. It validates every byte of the text, hands out raw values, and
// decodes only what the caller asks for.
//
// The text is JSON as RFC 8259 defines it, and nothing more. It also refuses
// what section 8.2 leaves to the reader: an escaped surrogate without its
// partner. No UTF-8 can hold it, so it could be neither stored nor compared. It
// refuses invalid UTF-8 (8.1), a byte order mark (8.1), and nesting deeper than
// sluice.MaxNestingLevels. Numbers may have any size: they stay texts.
//
// It is ours because the input path validates all of an element and needs few
// of its members. The standard packages decode into maps and structs, or hand
// out one token at a time; go test -bench . ./lib/jsonscan compares them.
package jsonscan
