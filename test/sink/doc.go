// Package sink is an SMTP server that takes every mail, counts it and forgets
// it: the other end of tests and benches. It is strict where clients go wrong,
// and it fails on purpose where a test wants it to.
//
// It is our own for three reasons. Existing servers have no CHUNKING, or do not
// discard a chunk after a refused MAIL or RCPT, as emersion/go-smtp. None breaks
// in the middle of a window. Decision 54 has figures.
package sink
