// Package smtp sends mail to one relay: an SMTP client (RFC 5321) that is a
// mail.Transport.
//
// A call of Deliver takes one connection of the relay's pool and carries a
// window of messages over it. How they go out depends on what the server
// offers:
//
//	PIPELINING, CHUNKING   MAIL RCPT BDAT, MAIL RCPT BDAT, ... with no wait (window.go)
//	PIPELINING             the content of one message and MAIL RCPT DATA of the
//	                       next in one flight: one wait a message (lines.go)
//	neither                one command, one reply: four waits a message
//
// What is known of a message when its connection dies follows from one number:
// how many octets the kernel has taken (outlet). A message whose last octet was
// surely not handed over is untried, and one with a reply has that reply's
// result. Any other is in doubt. No more is guessed.
//
// Meanings of replies are in meaning.go. Nothing is ever repeated here.
package smtp
