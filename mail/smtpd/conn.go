package smtpd

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"sluice/lib/connlimit"
	"sluice/lib/key"
)

// Bounds of a connection.
const (
	// maxWrongCommands and maxWrongLogins end a connection: a client that guesses, or
	// speaks something else than SMTP, shall not go on for ever.
	maxWrongCommands = 20
	maxWrongLogins   = 3

	// maxStrangerCommands ends a connection that has not logged in: five are
	// enough to.
	maxStrangerCommands = 100

	maxReplyBytes = 500 // RFC 5321, 4.5.3.1.5: 512 with code and CRLF
	// lastWords is how long a client may take to hear why its connection ends.
	lastWords = 5 * time.Second

	flushReplyBytes = 4 << 10 // more replies than this are not held back
)

// errOver ends a connection whose last reply is written.
var errOver = errors.New("the connection is over")

// conn is one connection and what its client has said so far. It is used by one
// goroutine, but for interrupt.
//
// Replies are held back while the input has commands that are not answered yet,
// and written together before the connection waits (RFC 2920, 3.2). So a client
// that pipelines gets one packet for its MAIL, RCPT, RCPT, DATA.
type conn struct {
	server *Server
	wire   *wire
	net    net.Conn // wire, or TLS over it
	in     input
	out    []byte // replies that are not written yet
	remote netip.Addr

	tls           bool
	reading       atomic.Bool // a message's content is on its way, or being accepted
	contentEnd    time.Time   // until when it has to be here
	wrongCommands int
	wrongLogins   int
	commands      int // before the login

	hello    string // what the client calls itself; empty: it has not said
	extended bool   // it has by EHLO
	keyText  string // that it has logged in with; empty: none
	who      key.Identity
	mail     transaction
}

// transaction is what is known of the mail that is being handed in.
type transaction struct {
	open bool // there was a MAIL
	from string
	to   []string
	utf8 bool // SMTPUTF8 was said (RFC 6531)
}

func newConn(s *Server, c *connlimit.Conn) *conn {
	w := newWire(c)
	cn := &conn{server: s, wire: w, net: w}
	cn.in.fill = cn.fill
	if a, err := netip.ParseAddrPort(c.RemoteAddr().String()); err == nil {
		cn.remote = a.Addr().Unmap().WithZone("")
	}
	return cn
}

// run speaks with the client until one of the two ends it.
func (c *conn) run() {
	c.reply(220, "", c.server.Hostname+" ESMTP Sluice")
	for {
		line, err := c.in.line()
		if err == nil {
			err = c.command(line)
		}
		if err != nil {
			c.end(err)
			return
		}
	}
}

// end says why the connection ends, if its client may still read it.
func (c *conn) end(err error) {
	switch {
	case errors.Is(err, errLineTooLong):
		c.refuse(refusedCommand, 500, "5.5.6", "A command has at most "+strconv.Itoa(maxLineBytes)+" octets; goodbye")
	case errors.Is(err, errBareEnd):
		c.refuse(refusedCommand, 500, "5.5.2", "Commands end in CRLF, this one has a CR or LF by itself, or a NUL; goodbye")
	case errors.Is(err, errStopping):
		c.reply(421, "4.3.2", c.server.Hostname+" is stopping, try again")
	case errors.Is(err, os.ErrDeadlineExceeded):
		c.reply(421, "4.4.2", c.server.Hostname+" has waited long enough; goodbye")
	case !errors.Is(err, errOver):
		return // the client is gone
	}
	_ = c.net.SetWriteDeadline(time.Now().Add(lastWords))
	_ = c.flush() // it is over either way
}

func (c *conn) close() { _ = c.net.Close() } // nobody is left to tell

// errStopping: the server stops, and the client has no message on its way.
var errStopping = errors.New("the server stops")

// interrupt wakes a connection that waits for a command. Another goroutine
// calls it, after stopping is set. A connection looks at stopping after it has
// set its deadline, so one of the two is seen.
func (c *conn) interrupt() {
	if !c.reading.Load() {
		_ = c.wire.SetReadDeadline(time.Unix(1, 0)) // a closed one needs no waking
	}
}

// fill writes the replies and waits for more.
func (c *conn) fill(in *input) error {
	timeout := c.server.limits.command
	if c.keyText == "" && !c.receives() { // of those who receive, full places go to others (maxReceiverConns)
		timeout = c.server.limits.stranger
	}
	now := time.Now()
	deadline := now.Add(timeout)
	if c.reading.Load() {
		if deadline = now.Add(c.server.limits.block); deadline.After(c.contentEnd) {
			deadline = c.contentEnd
		}
	}
	if err := c.net.SetDeadline(deadline); err != nil {
		return err
	}
	if c.server.stopping.Load() && !c.reading.Load() {
		return errStopping
	}
	c.wire.more = len(c.out) == 0
	if err := c.flush(); err != nil {
		return err
	}
	n, err := c.net.Read(in.room())
	in.w += n
	switch {
	case n > 0:
		return nil
	case err == nil:
		return io.ErrNoProgress
	case c.server.stopping.Load() && !c.reading.Load():
		return errStopping
	}
	return err
}

func (c *conn) flush() error {
	if len(c.out) == 0 {
		return nil
	}
	_, err := c.net.Write(c.out)
	c.out = c.out[:0]
	return err
}

// reply queues a reply of one line. Its text may quote what a client sent: what
// is no printable ASCII is replaced (RFC 5321, 4.2).
func (c *conn) reply(code int, enhanced, text string) {
	c.out = strconv.AppendInt(c.out, int64(code), 10)
	c.out = append(c.out, ' ')
	if enhanced != "" {
		c.out = append(append(c.out, enhanced...), ' ')
	}
	text = text[:min(len(text), maxReplyBytes)]
	for i := range len(text) {
		b := text[i]
		if b < ' ' || b > '~' {
			b = '?'
		}
		c.out = append(c.out, b)
	}
	c.out = append(c.out, "\r\n"...)
}

// say queues a reply as it is.
func (c *conn) say(line string) { c.out = append(c.out, line...) }

// refuse counts a refusal and replies.
func (c *conn) refuse(why reason, code int, enhanced, text string) {
	c.server.stats.refused[why].Add(1)
	c.server.Log.Debug("refused by SMTP", "from", c.remote, "key", c.who.ID, "reply", code, "text", text)
	c.reply(code, enhanced, text)
}

// wrong refuses a command that is unknown, ill-formed or out of order.
func (c *conn) wrong(code int, enhanced, text string) error {
	c.refuse(refusedCommand, code, enhanced, text)
	if c.wrongCommands++; c.wrongCommands >= maxWrongCommands {
		c.reply(421, "4.7.0", "Too many wrong commands; goodbye")
		return errOver
	}
	return nil
}

// command obeys one command. An error ends the connection.
func (c *conn) command(line []byte) error {
	if len(c.out) > flushReplyBytes {
		if err := c.flush(); err != nil {
			return err
		}
	}
	if c.tooMany() {
		c.refuse(refusedLogin, 421, "4.7.0", "Too many commands without a login; goodbye")
		return errOver
	}
	verb, arg, _ := bytes.Cut(line, []byte{' '})
	var name [8]byte // longer than all but STARTTLS, which is as long
	if len(verb) > len(name) {
		return c.unknown("")
	}
	for i, b := range verb {
		if b >= 'a' && b <= 'z' {
			b -= 'a' - 'A'
		}
		name[i] = b
	}
	arg = bytes.TrimSpace(arg)
	switch string(name[:len(verb)]) {
	case "EHLO":
		return c.greet(string(arg), true)
	case "HELO":
		return c.greet(string(arg), false)
	case "MAIL":
		return c.mailFrom(string(arg))
	case "RCPT":
		return c.rcptTo(string(arg))
	case "DATA":
		return c.data(string(arg))
	case "AUTH":
		return c.login(string(arg))
	case "STARTTLS":
		return c.startTLS(string(arg))
	case "RSET":
		c.mail = transaction{}
		c.say("250 2.0.0 Forgotten\r\n")
	case "NOOP":
		c.say("250 2.0.0 Nothing was done\r\n")
	case "VRFY": // RFC 5321, 7.3: a server may decline to tell
		c.say("252 2.5.2 Send it, and see\r\n")
	case "HELP":
		c.say("214 2.0.0 Sluice takes mail in by EHLO, STARTTLS, AUTH, MAIL, RCPT, DATA; the docs say more\r\n")
	case "QUIT":
		c.say("221 2.0.0 Goodbye\r\n")
		return errOver
	default:
		return c.unknown(string(name[:len(verb)]))
	}
	return nil
}

// unknown refuses a command. A command that brings content along, or begins a
// request of another protocol, ends the connection. The rest of it must not be
// taken for commands.
func (c *conn) unknown(verb string) error {
	switch verb {
	case "BDAT", "GET", "POST", "PUT", "HEAD", "OPTIONS", "CONNECT":
		c.refuse(refusedCommand, 502, "5.5.1", verb+" is not possible here; goodbye")
		return errOver
	}
	return c.wrong(500, "5.5.2", "What was sent is no command of SMTP")
}

// openTo reports whether the client needs no key.
func (c *conn) openTo() bool { return c.server.OpenLoopback && c.remote.IsLoopback() }

// mayLogIn reports whether a key may be sent on this connection: only under
// TLS, or from this machine.
func (c *conn) mayLogIn() bool { return c.tls || c.remote.IsLoopback() }

// greet answers EHLO and HELO, which forget a mail that was begun (RFC 5321,
// 4.1.4).
func (c *conn) greet(name string, extended bool) error {
	if !isHello(name) {
		return c.wrong(501, "5.5.4", "EHLO and HELO want the name of your host, or its address in brackets")
	}
	c.hello, c.extended, c.mail = name, extended, transaction{}
	if !extended {
		c.say("250 " + c.server.Hostname + "\r\n")
		return nil
	}
	// CHUNKING is not offered: content by DATA is what every client can do.
	c.say("250-" + c.server.Hostname + "\r\n250-PIPELINING\r\n250-SIZE " + strconv.Itoa(c.server.MaxMessageBytes) +
		"\r\n250-8BITMIME\r\n250-SMTPUTF8\r\n250-ENHANCEDSTATUSCODES\r\n")
	if !c.tls && c.server.tls != nil {
		c.say("250-STARTTLS\r\n")
	}
	if c.mayLogIn() && !c.receives() {
		c.say("250-AUTH PLAIN LOGIN\r\n")
	}
	c.say("250 LIMITS RCPTMAX=" + strconv.Itoa(c.mostRecipients()) + "\r\n") // RFC 9422
	return nil
}

// isHello reports whether a text can be what a host calls itself. Frameworks
// send all sorts of names, which go into a header: so whatever is harmless there.
func isHello(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '.' && c != '-' && c != '_' && c != ':' && c != '[' && c != ']' {
			return false
		}
	}
	return s != "" && len(s) <= 255
}

// startTLS begins TLS (RFC 3207). What came behind the command in the same
// packet was sent in clear, perhaps by somebody on the line. It must not be
// taken for something said under TLS, so it ends the connection.
func (c *conn) startTLS(arg string) error {
	switch {
	case c.server.tls == nil:
		return c.wrong(502, "5.5.1", "There is no TLS here")
	case c.tls:
		return c.wrong(503, "5.5.1", "This is TLS already")
	case arg != "":
		return c.wrong(501, "5.5.4", "STARTTLS has no arguments")
	case c.in.unused() > 0:
		c.refuse(refusedCommand, 503, "5.5.1", "Something was sent behind STARTTLS in clear; goodbye")
		return errOver
	}
	c.say("220 2.0.0 Begin\r\n")
	if err := c.net.SetDeadline(time.Now().Add(c.server.limits.handshake)); err != nil {
		return err
	}
	if err := c.flush(); err != nil {
		return err
	}
	t := tls.Server(c.wire, c.server.tls)
	if err := t.HandshakeContext(c.server.work); err != nil {
		c.server.Log.Debug("a TLS handshake by SMTP failed", "from", c.remote, "error", err)
		return err
	}
	// RFC 3207, 4.2: nothing that was said before counts.
	c.net, c.tls = t, true
	c.hello, c.extended, c.mail = "", false, transaction{}
	c.keyText, c.who = "", key.Identity{}
	return nil
}
