package smtpd

import (
	"context"
	"errors"

	"sluice"
)

// Receiver takes mail that is for the program itself, such as bounces.
type Receiver interface {
	// Recipient returns nil if mail to an address is taken, or why it is not. It asks
	// nobody and keeps nothing: strangers call it as often as they like.
	Recipient(to string) error

	// Receive takes a mail over, and returns nil when it is durable. content is up to
	// MaxReceivedBytes of it, valid until Receive returns. An error is a *Never, or
	// the sender is told to try again.
	Receive(ctx context.Context, from, to string, content []byte) error
}

// Never is the error of a Receiver about a mail that it will never take.
type Never struct{ Reason string }

// Error returns the reason, which the sender is told.
func (e *Never) Error() string { return e.Reason }

// Bounds of a server that receives. Its clients are strangers.
const (
	// MaxReceivedBytes is how much of a mail is kept. A report stands before the
	// mail that it returns, so what is cut off is that mail's content.
	MaxReceivedBytes = 1 << 20

	maxReceiverConns      = 256
	maxReceivedHeldBytes  = 128 << 20
	maxReceiverCommands   = 1000 // of a connection
	maxReceiverRecipients = 1    // of a mail: it is taken over as a whole, or not
)

// receives reports whether the mail of this server is for the program itself.
func (c *conn) receives() bool { return c.server.Receiver != nil }

// mostRecipients is how many recipients a mail may have.
func (c *conn) mostRecipients() int {
	if c.receives() {
		return maxReceiverRecipients
	}
	return sluice.MaxRecipients
}

// tooMany reports whether a client that has not logged in has had its commands.
func (c *conn) tooMany() bool {
	most := maxStrangerCommands
	if c.receives() {
		most = maxReceiverCommands
	} else if c.keyText != "" || c.openTo() {
		return false
	}
	c.commands++
	return c.commands > most
}

// takes reports whether a server that receives takes mail to an address. One that is
// not taken is not repeated: it may be anything, and the answer goes to anybody.
func (c *conn) takes(address string) bool {
	if err := c.server.Receiver.Recipient(address); err != nil {
		c.refuse(refusedAddress, 550, "5.1.1", "There is no such address here")
		return false
	}
	return true
}

// cut returns what is kept of a line of content. Of a mail that is received, what is
// beyond MaxReceivedBytes is read and forgotten.
func (c *conn) cut(buf *content, line []byte) []byte {
	if !c.receives() {
		return line
	}
	kept := min(len(line), MaxReceivedBytes-len(buf.bytes))
	buf.ignored += len(line) - kept
	return line[:kept]
}

// receive has a mail taken over. A CR or LF by itself in it is no reason to lose a
// report: it goes on to no other server.
func (c *conn) receive(message transaction, content []byte) {
	ctx, cancel := context.WithTimeout(c.server.work, submitTimeout)
	defer cancel()
	err := c.server.Receiver.Receive(ctx, message.from, message.to[0], content)
	never, ok := errors.AsType[*Never](err)
	switch {
	case ok:
		c.refuse(refusedContent, 550, "5.6.0", never.Reason)
	case err != nil:
		c.server.Log.Warn("a mail that came back could not be taken over; its sender is told to send it again", "from", c.remote, "error", err)
		c.refuse(refusedUnavailable, 451, "4.3.0", "The mail could not be stored now, send it again")
	default:
		c.server.stats.messages.Add(1)
		c.server.stats.recipients.Add(1)
		c.say("250 2.0.0 Thank you\r\n")
	}
}
