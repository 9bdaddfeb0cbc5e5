// Package smtpd is the SMTP submission listener (RFC 6409). Whatever can send
// mail by SMTP hands its messages in here, with a key of the API, and gets
// their ids when they are durable. It is written by hand: on emersion/go-smtp it
// would not keep what TestContentIsNeverCommands demands, or save an eighth of
// its code at twice the CPU (docs/decisions/57-smtp-server-by-library.md).
package smtpd
