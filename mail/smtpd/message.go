package smtpd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	stdmime "mime"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"sluice"
	"sluice/lib/mime"
	"sluice/lib/timetext"
	"sluice/mail"
)

// Bounds of a message's content.
const (
	firstContentBytes = 16 << 10
	keptContentBytes  = 1 << 20 // larger buffers are not kept for the next message

	// maxIgnoredBytes is what is read past a message that is too large, so that
	// its sender learns why: then the connection ends.
	maxIgnoredBytes = 64 << 20

	// maxHops is where a message is going round in circles (RFC 5321, 6.3: at
	// least 100).
	maxHops = 100

	// maxAhead is how far ahead a message may be handed in.
	maxAhead = 366 * 24 * time.Hour
)

// content is the memory of one message while it is read.
type content struct {
	bytes   []byte
	taken   int   // of the server's memory
	ignored int   // octets that were not kept
	wrong   error // why not: errTooLarge, errNoMemory
}

var contents = sync.Pool{New: func() any { return &content{bytes: make([]byte, 0, firstContentBytes)} }}

var (
	errTooLarge = errors.New("the message is too large")
	errNoMemory = errors.New("the memory for messages is taken")
)

// data answers DATA.
func (c *conn) data(arg string) error {
	switch {
	case !c.mail.open || len(c.mail.to) == 0:
		reply := "MAIL and RCPT first"
		if c.mail.open {
			reply = "There is no recipient: none was given, or none was taken"
		}
		if c.in.unused() > 0 {
			// Content may have been sent without waiting; it must not be taken
			// for commands.
			c.refuse(refusedCommand, 554, "5.5.1", reply+"; goodbye")
			return errOver
		}
		return c.wrong(554, "5.5.1", reply)
	case arg != "":
		return c.wrong(501, "5.5.4", "DATA has no arguments")
	}
	buf := contents.Get().(*content)
	defer c.release(buf)
	c.take(buf, cap(buf.bytes))
	c.say("354 Go on, and end with a dot\r\n")
	c.contentEnd = time.Now().Add(c.server.limits.content)
	c.reading.Store(true)
	defer c.reading.Store(false)
	err := c.in.content(func(line []byte) error { return c.keep(buf, line) })
	if _, ok := errors.AsType[*fault](err); err != nil && !ok {
		return err
	}
	if err := c.flush(); err != nil { // what follows may take its time
		return err
	}
	began := c.server.Clock.Now()
	c.wire.Busy()
	mail := c.mail
	c.mail = transaction{}
	c.accept(mail, buf, err)
	c.server.stats.seconds.Observe(c.server.Clock.Now().Sub(began))
	return nil
}

// keep appends a line to what is kept of a message.
func (c *conn) keep(buf *content, line []byte) error {
	whole := len(line)
	line = c.cut(buf, line)
	if whole > len(line) && buf.ignored > maxIgnoredBytes {
		c.refuseSize()
		return errOver
	}
	if buf.wrong == nil {
		switch size := len(buf.bytes) + len(line); {
		case size > c.server.MaxMessageBytes:
			buf.wrong = errTooLarge
		case size > cap(buf.bytes):
			if more := max(2*cap(buf.bytes), size); c.take(buf, more) {
				buf.bytes = append(make([]byte, 0, more), buf.bytes...)
			}
		}
	}
	if buf.wrong == nil {
		buf.bytes = append(buf.bytes, line...)
		return nil
	}
	if buf.ignored += len(line); buf.ignored > maxIgnoredBytes {
		c.refuseSize()
		return errOver
	}
	return nil
}

// take takes memory for a message, so that it has n bytes.
func (c *conn) take(buf *content, n int) bool {
	if !c.server.held.Take(n - buf.taken) {
		buf.wrong = errNoMemory
		return false
	}
	buf.taken = n
	return true
}

// release gives the memory of a message back.
func (c *conn) release(buf *content) {
	c.server.held.Give(buf.taken)
	if cap(buf.bytes) <= keptContentBytes {
		*buf = content{bytes: buf.bytes[:0]}
		contents.Put(buf)
	}
}

// accept takes a message over, or refuses it. wrong is a *fault that was found
// when it was read.
func (c *conn) accept(message transaction, buf *content, wrong error) {
	switch {
	case errors.Is(buf.wrong, errTooLarge):
		c.refuseSize()
		return
	case buf.wrong != nil:
		c.refuse(refusedUnavailable, 452, "4.3.1", "Too much is being taken in at the moment, send it again")
		return
	case c.receives():
		c.receive(message, buf.bytes)
		return
	case wrong != nil:
		c.refuse(refusedContent, 550, "5.6.0", wrong.Error())
		return
	case c.keyText != "" && !c.keyHolds(): // since MAIL hours may have passed
		return
	}
	draft, err := c.draft(message, buf.bytes)
	if err != nil {
		c.refuse(refusedContent, 550, "5.6.0", reasonOf(err))
		return
	}
	if c.keyText != "" {
		draft.Key = c.who.Bounded()
	}
	submitter := c.server.Submitter()
	if submitter == nil {
		c.refuse(refusedUnavailable, 451, "4.3.2", "Mail cannot be taken in now, send it again")
		return
	}
	ctx, cancel := context.WithTimeout(c.server.work, submitTimeout)
	defer cancel()
	ids, err := submitter.Submit(ctx, "", []mail.Draft{draft})
	if err != nil {
		c.notAccepted(err)
		return
	}
	// From here on the mail is durable and ours: the 250 takes the
	// responsibility.
	c.server.stats.messages.Add(1)
	c.server.stats.recipients.Add(int64(len(draft.To)))
	if c.keyText != "" {
		c.server.Authority.Spend(c.who, len(draft.To))
	}
	c.say("250 2.0.0 Accepted as " + ids[0] + "\r\n")
}

// notAccepted says why a message was not taken.
func (c *conn) notAccepted(err error) {
	e, ok := errors.AsType[*sluice.Error](err)
	_, never := errors.AsType[sluice.Refusals](err)
	full, _ := errors.AsType[*mail.WaitingFull](err)
	switch {
	case full != nil: // RFC 5321, 4.2.2: insufficient system storage
		c.refuse(refusedUnavailable, 452, "4.3.1", full.Error())
	case never:
		c.refuse(refusedAddress, 550, "5.7.1", e.Message) // RFC 3463, 3.8: not authorized, refused
	case errors.Is(err, sluice.ErrFull):
		c.refuse(refusedUnavailable, 452, "4.3.1", "There is no room for more mail now, send it again later")
	case ok && e.Code == sluice.CodeInvalid:
		c.refuse(refusedContent, 550, "5.6.0", e.Message)
	case ok && e.Code == sluice.CodeTooLarge:
		c.refuse(refusedSize, 552, "5.3.4", e.Message)
	default:
		c.server.Log.Warn("a message that came by SMTP could not be accepted; its sender is told to send it again", "from", c.remote, "key", c.who.ID, "error", err)
		c.refuse(refusedUnavailable, 451, "4.3.0", "The message could not be stored now, send it again")
	}
}

// draft makes of what was sent a message that goes out.
func (c *conn) draft(message transaction, raw []byte) (mail.Draft, error) {
	now := c.server.Clock.Now()
	id := sluice.NewMessageID(now.UnixMilli())
	d := mail.Draft{
		ID: id, Priority: mail.PriorityNormal, Class: mail.ClassTransactional, Form: mail.ContentMIME,
		From: message.from, To: withoutRepeats(message.to),
	}
	scanned, err := mime.ScanBehind(c.received(id, message.utf8, now), raw, id+"@"+c.server.Hostname, now)
	if err != nil {
		return d, err
	}
	if scanned.UTF8 && !message.utf8 { // RFC 6531, 3.2
		return d, errors.New("a header has octets above 127: encode it (RFC 2047), or say SMTPUTF8 in MAIL")
	}
	if hops(scanned.Message) > maxHops+1 { // ours included
		return d, fmt.Errorf("the message has been through more than %d servers, it goes round in circles", maxHops)
	}
	var track mail.Track
	for _, h := range scanned.Control {
		if strings.EqualFold(h.Name, "X-Sluice-Track") {
			var ok bool
			if track, ok = mail.ParseTrack(h.Value); !ok {
				return d, fmt.Errorf("%s is %q, want true, false, opens or clicks", h.Name, h.Value)
			}
			continue
		}
		if err := control(&d, h, now); err != nil {
			return d, fmt.Errorf("%s %w", h.Name, err)
		}
	}
	d.Content = mail.WithTrack(scanned.Message, track)
	return d, nil
}

// withoutRepeats returns addresses once each, in their order.
func withoutRepeats(to []string) []string {
	if len(to) < 2 {
		return to
	}
	seen := make(map[string]bool, len(to))
	kept := to[:0]
	for _, a := range to {
		if !seen[a] {
			seen[a] = true
			kept = append(kept, a)
		}
	}
	return kept
}

// hops is how many servers a message has been through.
func hops(message []byte) int {
	const name = "received:"
	n := 0
	for rest := message; len(rest) > len(name) && rest[0] != '\r'; {
		if bytes.EqualFold(rest[:len(name)], []byte(name)) {
			n++
		}
		rest = rest[bytes.IndexByte(rest, '\n')+1:] // each line has one
	}
	return n
}

// received returns the trace that each server leaves (RFC 5321, 4.4). It names
// the sender by its own word and by what the network calls it. The recipient is
// left out: others may read it.
func (c *conn) received(id string, utf8Said bool, now time.Time) []byte {
	with := "SMTP"
	if c.extended {
		with = "ESMTP"
		if utf8Said { // RFC 6531, 4.3
			with = "UTF8SMTP"
		}
		if c.tls { // RFC 3848
			with += "S"
		}
		if c.keyText != "" {
			with += "A"
		}
	}
	address := c.remote.String()
	if c.remote.Is6() {
		address = "IPv6:" + address
	}
	b := make([]byte, 0, 256)
	b = append(b, "Received: from "+c.hello+" (["+address+"])\r\n\tby "+c.server.Hostname+" with "+with+" id "+id+";\r\n\t"...)
	return append(now.UTC().AppendFormat(b, "Mon, 02 Jan 2006 15:04:05 -0700"), "\r\n"...)
}

// control obeys one of the headers by which a sender says how a mail is to be
// sent. They do not go out.
func control(d *mail.Draft, h mime.Header, now time.Time) error {
	value, err := new(stdmime.WordDecoder).DecodeHeader(h.Value)
	if err != nil {
		return errors.New("cannot be decoded (RFC 2047)")
	}
	var ok bool
	switch strings.ToLower(h.Name) {
	case "x-sluice-priority":
		if d.Priority, ok = mail.ParsePriority(strings.ToLower(value)); !ok {
			return fmt.Errorf("is %q, want high, normal or low", value)
		}
	case "x-sluice-class":
		if d.Class, ok = mail.ParseClass(strings.ToLower(value)); !ok {
			return fmt.Errorf("is %q, want transactional or marketing", value)
		}
	case "x-sluice-tag":
		return addTags(d, value)
	case "x-sluice-send-at":
		at, err := timetext.Parse(value, true)
		if err != nil {
			return fmt.Errorf("is %q, want a time such as 2026-01-31T10:20:00Z", value)
		}
		if at > now.Add(maxAhead).UnixMilli() {
			return fmt.Errorf("is %q, at most %d days ahead are possible", value, maxAhead/(24*time.Hour))
		}
		d.DueMillis = max(at, 0)
	default:
		return errors.New("is unknown; there are X-Sluice-Priority, X-Sluice-Class, X-Sluice-Tag, X-Sluice-Track and X-Sluice-Send-At")
	}
	return nil
}

// addTags adds tags that are separated by commas.
func addTags(d *mail.Draft, value string) error {
	for tag := range strings.SplitSeq(value, ",") {
		tag = strings.TrimSpace(tag)
		switch {
		case tag == "":
			return errors.New("has an empty tag; several are separated by commas")
		case len(tag) > mail.MaxTagBytes:
			return errors.New("has a tag of " + strconv.Itoa(len(tag)) + " bytes, at most " + strconv.Itoa(mail.MaxTagBytes) + " are possible")
		case !utf8.ValidString(tag) || strings.ContainsFunc(tag, unicode.IsControl):
			return errors.New("has a tag that is no text")
		case len(d.Tags) == mail.MaxTags:
			return errors.New("is one tag too many, at most " + strconv.Itoa(mail.MaxTags) + " are possible")
		}
		d.Tags = append(d.Tags, tag)
	}
	return nil
}
