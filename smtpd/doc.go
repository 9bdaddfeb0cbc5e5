// Package smtpd is the SMTP submission listener (RFC 6409): whatever can send
// mail by SMTP hands its messages in here, logged in with a key of the API, and
// has their ids when they are durable.
//
// It is written by hand: emersion/go-smtp reads content octet by octet, which
// cost 226 µs of CPU for a mail of 10 KB where this costs a quarter, and answers
// each pipelined command by a write of its own.
package smtpd
