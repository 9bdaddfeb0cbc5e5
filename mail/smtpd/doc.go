// Package smtpd is the SMTP submission listener (RFC 6409). Whatever can send
// mail by SMTP hands its messages in here, with a key of the API, and gets
// their ids when they are durable. It is written by hand. emersion/go-smtp
// reads content octet by octet, which makes a mail of 10 KB cost more than
// twice the CPU. It also answers each pipelined command by a write of its own.
package smtpd
