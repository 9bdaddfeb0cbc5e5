// Package sink is an SMTP server that takes every mail, counts it and forgets
// it: the other end of tests and benches. It is strict where clients go wrong,
// and it fails on purpose where a test wants it to.
//
// Its own, since the servers to be had have no CHUNKING, or do not discard a
// chunk whose MAIL or RCPT was refused, and none breaks in the middle of a
// window.
package sink
