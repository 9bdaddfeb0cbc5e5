package sink

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"

	"sluice/lib/mime"
)

// data takes a content by DATA.
func (c *conn) data() error {
	switch {
	case !c.mail && !c.sink.opt.Eager:
		return c.refuse("503 5.5.1 MAIL first")
	case c.chunks:
		return c.refuse("503 5.5.1 not behind BDAT")
	case len(c.env.To) == 0 && !c.sink.opt.Eager:
		return c.refuse("554 5.5.1 no valid recipients")
	}
	act, err := c.ask(OnData)
	if err != nil {
		return err
	}
	if err := c.say(act, "354 go on"); err != nil || act.refuses() {
		return err
	}
	if err := c.out.Flush(); err != nil {
		return err
	}
	if err := c.readDotted(); err != nil {
		return err
	}
	return c.end(false)
}

// readDotted reads up to CR LF . CR LF, and nothing else ends it.
func (c *conn) readDotted() error {
	act := c.bodyFault()
	read, start := 0, true // start: behind a CR LF
	for {
		line, err := c.in.ReadSlice('\n')
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
		if read += len(line); act != nil && read > act.Octets {
			return c.strike(*act)
		}
		if start && len(line) > 0 && line[0] == '.' {
			if string(line) == ".\r\n" {
				return nil
			}
			line = line[1:] // RFC 5321, 4.5.2
		}
		start = bytes.HasSuffix(line, []byte("\r\n"))
		c.append(line)
	}
}

// append keeps content, up to what a mail may have.
func (c *conn) append(b []byte) {
	if int64(len(c.content)+len(b)) > c.sink.opt.MaxBytes {
		c.failed = true
		return
	}
	c.content = append(c.content, b...)
}

// bdat takes a chunk. One that does not count is read all the same (RFC 3030, 2).
func (c *conn) bdat(rest string) error {
	words := strings.Fields(strings.ToUpper(rest))
	var n int64 = -1
	if len(words) == 1 || len(words) == 2 && words[1] == "LAST" {
		var err error
		if n, err = strconv.ParseInt(words[0], 10, 64); err != nil {
			n = -1
		}
	}
	if n < 0 || !c.sink.offers("CHUNKING") {
		c.sink.problem("BDAT %.40q: not offered, or wrong", rest)
		return errors.Join(c.refuse("501 5.5.4 BDAT wants a length"), c.out.Flush(), errOver)
	}
	last := len(words) == 2
	if err := c.readChunk(n); err != nil {
		return err
	}
	if !c.sink.offers("PIPELINING") && c.in.Buffered() > 0 {
		c.sink.problem("BDAT is followed by %d octets before its reply", c.in.Buffered())
	}
	c.chunks = true
	switch {
	case !c.mail:
		c.chunks = false
		return c.refuse("503 5.5.1 MAIL first")
	case len(c.env.To) == 0:
		return c.chunkRefused(last, "554 5.5.1 no valid recipients")
	case last:
		return c.end(true)
	case c.failed:
		return c.chunkRefused(last, "552 5.3.4 too large")
	}
	return c.refuse("250 2.0.0 Ok, " + words[0] + " octets")
}

// chunkRefused refuses a chunk, and ends the transaction behind the last one,
// or leaves it open: RFC 3030 does not say which.
func (c *conn) chunkRefused(last bool, text string) error {
	c.failed = true
	if last && !c.sink.opt.Open {
		c.reset()
	}
	return c.refuse(text)
}

func (c *conn) readChunk(n int64) error {
	act := c.bodyFault()
	if act != nil && int64(act.Octets) < n {
		if _, err := io.CopyN(io.Discard, c.in, int64(act.Octets)); err != nil {
			return err
		}
		return c.strike(*act)
	}
	if !c.mail || len(c.env.To) == 0 || int64(len(c.content))+n > c.sink.opt.MaxBytes {
		c.failed = true
		_, err := io.CopyN(io.Discard, c.in, n)
		return err
	}
	at := len(c.content)
	c.content = slices.Grow(c.content, int(n))[:at+int(n)]
	_, err := io.ReadFull(c.in, c.content[at:])
	return err
}

// bodyFault asks for a fault inside the content. Nil: none.
func (c *conn) bodyFault() *Act {
	if c.sink.opt.Fault == nil {
		return nil
	}
	if act := c.fault(OnBody); act != (Act{}) {
		return &act
	}
	return nil
}

// strike ends the session inside a content.
func (c *conn) strike(act Act) error {
	if err := c.begin(act); err != nil {
		return err
	}
	if act.Reply != "" {
		_ = c.say(act, "")
	}
	_ = c.out.Flush()
	return errOver
}

// end is the end of a content: here the mail is taken, or not.
func (c *conn) end(chunked bool) error {
	act, err := c.ask(OnEnd)
	if err != nil {
		return err
	}
	text := "250 2.0.0 Ok: queued as " + strconv.Itoa(c.number) + "-" + strconv.Itoa(c.mails)
	switch {
	case len(c.env.To) == 0:
		if len(c.content) > 0 { // RFC 2920, 3.1
			c.sink.problem("DATA without a recipient has %d octets: a dot alone was wanted", len(c.content))
		}
		text, act.Reply = "554 5.5.1 no valid recipients", ""
	case c.failed && !act.refuses():
		text, act.Reply = "552 5.3.4 too large", ""
	case !act.refuses():
		c.check()
		m := c.env
		m.ID = messageID(c.content)
		m.Connection, m.Chunked, m.TLS = c.number, chunked, c.secure
		c.sink.take(m, c.content)
	default:
		if chunked && c.sink.opt.Open {
			c.failed = true
			return c.say(act, text)
		}
	}
	c.reset()
	return c.say(act, text)
}

// check looks for what a content may not have.
func (c *conn) check() {
	if !c.env.EightBit && !mime.IsASCIIBytes(c.content) {
		c.sink.problem("the content has octets above 127, and there was no BODY=8BITMIME")
	}
	if lines := bytes.Count(c.content, []byte("\r\n")); lines != bytes.Count(c.content, []byte("\n")) || lines != bytes.Count(c.content, []byte("\r")) {
		c.sink.problem("the content has a CR or LF that stands alone")
	}
}

// messageID finds the Message-ID of a content, empty if there is none.
func messageID(content []byte) string {
	const name = "message-id:"
	for len(content) > 0 {
		line, rest, _ := bytes.Cut(content, []byte("\r\n"))
		if len(line) == 0 {
			return ""
		}
		if len(line) >= len(name) && strings.EqualFold(string(line[:len(name)]), name) {
			return string(bytes.TrimSpace(line[len(name):]))
		}
		content = rest
	}
	return ""
}
