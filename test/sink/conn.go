package sink

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	readBufferBytes = 64 << 10

	// replyBytes is after how much replies are written although more commands
	// are there to be read.
	replyBytes = 4 << 10

	// maxCommandBytes bounds a command: RFC 5321, 4.5.3.1.4 asks for 512, and
	// extensions and UTF-8 for more.
	maxCommandBytes = 4 << 10
)

// errOver ends a connection.
var errOver = errors.New("the session is over")

// conn is one connection. Its goroutine alone touches it.
type conn struct {
	sink   *Sink
	raw    net.Conn // the socket
	conn   net.Conn // it, or TLS over it
	in     *bufio.Reader
	out    *bufio.Writer
	number int

	secure, known bool // under TLS; logged in
	mails         int  // MAIL commands so far

	mail    bool // a transaction is open
	failed  bool // it had a chunk that was refused, or a mail is too large
	chunks  bool // it has had BDAT
	env     Mail
	content []byte
}

func newConn(s *Sink, raw net.Conn, number int) *conn {
	c := &conn{sink: s, raw: raw, conn: raw, number: number}
	c.in, c.out = bufio.NewReaderSize(raw, readBufferBytes), bufio.NewWriterSize(raw, 2*replyBytes)
	return c
}

// run serves until the session ends, on either side.
func (c *conn) run() {
	if c.sink.opt.Implicit && c.handshake() != nil {
		return
	}
	if c.step(OnConnect, "220 sink ESMTP", nil) != nil {
		return
	}
	for {
		line, err := c.command()
		if err != nil || c.obey(line) != nil {
			return
		}
	}
}

// handshake begins TLS. Whatever was read in clear is dropped (RFC 3207, 4.2).
func (c *conn) handshake() error {
	t := tls.Server(c.raw, c.sink.opt.TLS)
	if err := t.HandshakeContext(c.sink.ctx); err != nil {
		return err
	}
	c.conn, c.secure = t, true
	c.in.Reset(t)
	c.out.Reset(t)
	return nil
}

// command reads a line. Replies are written before it is waited for.
func (c *conn) command() (string, error) {
	if c.in.Buffered() == 0 || c.out.Buffered() > replyBytes {
		if err := c.out.Flush(); err != nil {
			return "", err
		}
	}
	line, err := c.in.ReadSlice('\n')
	if err != nil {
		return "", err
	}
	text, ok := bytes.CutSuffix(line, []byte("\r\n"))
	if !ok || bytes.IndexByte(text, '\r') >= 0 || len(line) > maxCommandBytes {
		c.sink.problem("a command is too long or does not end in CR LF: %.80q", line)
		return "", errOver
	}
	return string(text), nil
}

// ask asks for a fault and begins it: an error ends the session.
func (c *conn) ask(step Step) (Act, error) {
	if c.sink.opt.Fault == nil {
		return Act{}, nil
	}
	act := c.fault(step)
	return act, c.begin(act)
}

func (c *conn) fault(step Step) Act {
	return c.sink.opt.Fault(At{step, c.number, c.mails - 1, c.env.To})
}

// begin does what comes before the step: an error ends the session.
func (c *conn) begin(act Act) error {
	if act.Delay > 0 {
		if err := c.out.Flush(); err != nil {
			return err
		}
		t := time.NewTimer(act.Delay)
		defer t.Stop()
		select {
		case <-t.C:
		case <-c.sink.ctx.Done():
		}
	}
	if act.Hang {
		_ = c.out.Flush()
		select {
		case <-c.sink.goOn:
		case <-c.sink.ctx.Done():
		}
	}
	if act.Cut == Unacted {
		_ = c.out.Flush()
		return errOver
	}
	return nil
}

// say writes a reply, as far as the fault lets it.
func (c *conn) say(act Act, text string) error {
	if act.Reply != "" {
		text = act.Reply
	}
	if !c.sink.offers("ENHANCEDSTATUSCODES") {
		text = withoutEnhanced(text)
	}
	text += "\r\n"
	switch act.Cut {
	case Unsaid:
		text = ""
	case Midreply:
		text = text[:len(text)/2]
	}
	if _, err := c.out.WriteString(text); err != nil {
		return err
	}
	if act.closes() {
		_ = c.out.Flush()
		return errOver
	}
	return nil
}

// step is a step that is a reply and an effect: effect happens unless a fault
// refuses or prevents it.
func (c *conn) step(step Step, text string, effect func()) error {
	act, err := c.ask(step)
	if err != nil {
		return err
	}
	if effect != nil && !act.refuses() {
		effect()
	}
	return c.say(act, text)
}

func withoutEnhanced(text string) string {
	if len(text) > 8 && text[5] == '.' && text[7] == '.' {
		return text[:4] + strings.TrimLeft(text[5:], ".0123456789 ")
	}
	return text
}

func (c *conn) refuse(text string) error { return c.say(Act{}, text) }

// obey does what a command says.
func (c *conn) obey(line string) error {
	verb, rest, _ := strings.Cut(line, " ")
	verb = strings.ToUpper(verb)
	last := verb == "DATA" || verb == "EHLO" || verb == "HELO" || verb == "STARTTLS" || verb == "AUTH" || verb == "QUIT" || verb == "NOOP"
	if c.in.Buffered() > 0 && verb != "BDAT" && (last || !c.sink.offers("PIPELINING")) { // RFC 2920, 3.1
		c.sink.problem("%s is followed by %d octets before its reply", verb, c.in.Buffered())
	}
	switch verb {
	case "EHLO", "HELO":
		return c.hello(verb)
	case "STARTTLS":
		return c.startTLS()
	case "AUTH":
		return c.auth(rest)
	case "MAIL":
		return c.mailFrom(rest)
	case "RCPT":
		return c.rcptTo(rest)
	case "DATA":
		return c.data()
	case "BDAT":
		return c.bdat(rest)
	case "RSET":
		return c.step(OnReset, "250 2.0.0 Ok", c.reset)
	case "NOOP":
		return c.step(OnNoop, "250 2.0.0 Ok", nil)
	case "QUIT":
		act, err := c.ask(OnQuit)
		if err == nil {
			err = c.say(act, "221 2.0.0 Bye")
		}
		_ = c.out.Flush()
		return errors.Join(err, errOver)
	}
	return c.refuse("500 5.5.1 command not known")
}

func (c *conn) hello(verb string) error {
	c.reset()
	if verb == "HELO" {
		return c.step(OnHello, "250 sink", nil)
	}
	lines := []string{"sink"}
	for _, x := range []string{"PIPELINING", "CHUNKING", "8BITMIME", "SMTPUTF8", "ENHANCEDSTATUSCODES"} {
		if c.sink.offers(x) {
			lines = append(lines, x)
		}
	}
	if c.sink.offers("SIZE") {
		lines = append(lines, "SIZE "+strconv.FormatInt(c.sink.opt.MaxBytes, 10))
	}
	if c.sink.opt.TLS != nil && !c.secure {
		lines = append(lines, "STARTTLS")
	}
	if c.sink.opt.User != "" && c.secure {
		for _, x := range []string{"PLAIN", "LOGIN"} {
			if c.sink.offers("AUTH " + x) {
				lines = append(lines, "AUTH "+x)
			}
		}
	}
	before, last := lines[:len(lines)-1], lines[len(lines)-1]
	text := ""
	for _, line := range before {
		text += "250-" + line + "\r\n"
	}
	return c.step(OnHello, text+"250 "+last, nil)
}

func (c *conn) startTLS() error {
	if c.sink.opt.TLS == nil || c.secure {
		return c.refuse("503 5.5.1 no TLS here")
	}
	act, err := c.ask(OnStartTLS)
	if err != nil {
		return err
	}
	if err := errors.Join(c.say(act, "220 2.0.0 go on"), c.out.Flush()); err != nil || act.refuses() {
		return err
	}
	c.reset()
	return c.handshake()
}

func (c *conn) auth(rest string) error {
	o := &c.sink.opt
	if o.User == "" || !c.secure {
		return c.refuse("538 5.7.11 no AUTH here")
	}
	method, initial, _ := strings.Cut(rest, " ")
	want := []string{"\x00" + o.User + "\x00" + o.Password}
	if strings.EqualFold(method, "LOGIN") {
		want = []string{o.User, o.Password}
	}
	ok := true
	for i, text := range want {
		answer := initial
		if i > 0 || initial == "" {
			if err := errors.Join(c.refuse("334 "+base64.StdEncoding.EncodeToString([]byte("?"))), c.out.Flush()); err != nil {
				return err
			}
			var err error
			if answer, err = c.command(); err != nil {
				return err
			}
		}
		got, err := base64.StdEncoding.DecodeString(answer)
		ok = ok && err == nil && string(got) == text
	}
	if !ok {
		return c.refuse("535 5.7.8 wrong user or password")
	}
	return c.step(OnAuth, "235 2.7.0 welcome", func() { c.known = true })
}

// reset ends the transaction.
func (c *conn) reset() {
	c.mail, c.failed, c.chunks = false, false, false
	c.env = Mail{To: c.env.To[:0]}
	c.content = c.content[:0]
}

func (c *conn) mailFrom(rest string) error {
	switch {
	case c.sink.opt.User != "" && !c.known:
		return c.refuse("530 5.7.0 log in first")
	case c.mail:
		return c.refuse("503 5.5.1 nested MAIL")
	}
	path, params, ok := cutPath(rest, "FROM:")
	if !ok {
		return c.refuse("501 5.5.4 want MAIL FROM:<address>")
	}
	c.mails++
	c.reset()
	c.env.From = path
	for p := range strings.FieldsSeq(params) {
		key, value, _ := strings.Cut(strings.ToUpper(p), "=")
		switch {
		case key == "SIZE" && c.sink.offers("SIZE"):
			n, err := strconv.ParseInt(value, 10, 64)
			if err != nil || n > c.sink.opt.MaxBytes {
				return c.refuse("552 5.3.4 too large")
			}
		case key == "BODY" && c.sink.offers("8BITMIME"):
			c.env.EightBit = value == "8BITMIME"
		case key == "SMTPUTF8" && c.sink.offers("SMTPUTF8"):
			c.env.UTF8 = true
		default:
			c.sink.problem("MAIL has the parameter %s, which is not offered", p)
			return c.refuse("555 5.5.4 parameter not known")
		}
	}
	return c.step(OnMail, "250 2.1.0 Ok", func() { c.mail = true })
}

func (c *conn) rcptTo(rest string) error {
	path, _, ok := cutPath(rest, "TO:")
	switch {
	case !c.mail:
		return c.refuse("503 5.5.1 MAIL first")
	case c.chunks:
		return c.refuse("503 5.5.1 not behind BDAT")
	case !ok || path == "":
		return c.refuse("501 5.5.4 want RCPT TO:<address>")
	case !c.env.UTF8 && slices.ContainsFunc([]byte(path+c.env.From), func(b byte) bool { return b > 127 }):
		c.sink.problem("an address is not ASCII, and there was no SMTPUTF8")
		return c.refuse("553 5.6.7 not without SMTPUTF8")
	}
	return c.step(OnRcpt, "250 2.1.5 Ok", func() { c.env.To = append(c.env.To, path) })
}

// cutPath takes FROM:<path> params apart.
func cutPath(rest, word string) (path, params string, ok bool) {
	if len(rest) < len(word)+2 || !strings.EqualFold(rest[:len(word)], word) || rest[len(word)] != '<' {
		return "", "", false
	}
	path, params, ok = strings.Cut(rest[len(word)+1:], ">")
	return path, params, ok && (params == "" || params[0] == ' ')
}
