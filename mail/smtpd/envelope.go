package smtpd

import (
	"errors"
	"strconv"
	"strings"

	"sluice"
	"sluice/lib/key"
	"sluice/lib/mime"
)

// mailFrom answers MAIL FROM:<address> and its parameters.
func (c *conn) mailFrom(arg string) error {
	switch {
	case c.hello == "":
		return c.wrong(503, "5.5.1", "EHLO first")
	case c.mail.open:
		return c.wrong(503, "5.5.1", "There was a MAIL before; RSET forgets it")
	case !c.maySend():
		return nil
	}
	path, parameters, ok := cutPath(arg, "FROM:")
	if !ok {
		return c.wrong(501, "5.5.4", "MAIL wants FROM:<ADDRESS>")
	}
	mail := transaction{open: true}
	for p := range strings.FieldsSeq(parameters) {
		if ok, err := c.parameter(&mail, p); !ok {
			return err
		}
	}
	if path != "" { // empty: the null reverse-path (RFC 5321, 4.5.5)
		address, ok := c.address(path, mail.utf8)
		if !ok {
			return nil
		}
		mail.from = address
	}
	c.mail = mail
	c.say("250 2.1.0 Go on\r\n")
	return nil
}

// maySend reports whether the client may begin a mail, and refuses it if not.
// The key is asked about again for each mail: one that was revoked sends nothing
// more, however long its connection lasts.
func (c *conn) maySend() bool {
	switch {
	case c.receives():
		return true
	case c.keyText != "":
		if !c.keyHolds() {
			return false
		}
		if err := c.server.Authority.Admit(c.who); err != nil {
			c.refuse(refusedRate, 452, "4.7.0", messageOf(err))
			return false
		}
	case c.openTo():
	case c.mayLogIn():
		c.refuse(refusedLogin, 530, "5.7.0", "AUTH first: any name, and for a password a key with the permission messages:send")
		return false
	default:
		c.refuse(refusedLogin, 530, "5.7.0", "STARTTLS first, then AUTH")
		return false
	}
	if c.server.Submitter() == nil {
		c.refuse(refusedUnavailable, 451, "4.3.2", "Mail cannot be taken in now, send it again")
		return false
	}
	return true
}

// keyHolds reports whether the client's key may still send, and refuses what it
// is about to do if not.
func (c *conn) keyHolds() bool {
	who, err := c.identify(c.keyText)
	if err == nil && !who.May(key.MessagesSend) {
		err = &sluice.Error{Code: sluice.CodeUnauthorized}
	}
	if e, ok := errors.AsType[*sluice.Error](err); ok && e.Code == sluice.CodeUnauthorized {
		c.keyText, c.who = "", key.Identity{}
		c.wire.Known(false)
		c.refuse(refusedLogin, 530, "5.7.0", "The key was revoked, or may not send any more")
		return false
	}
	if err != nil {
		c.refuse(refusedUnavailable, 451, "4.3.0", "Keys cannot be checked now, send it again")
		return false
	}
	c.who = who
	return true
}

// messageOf returns an error's text for people.
func messageOf(err error) string {
	if e, ok := errors.AsType[*sluice.Error](err); ok {
		return e.Message
	}
	return err.Error()
}

// cutPath reads KEYWORD<path> and what follows it. Spaces before the < are
// against RFC 5321, 4.1.1.2, but some send them.
func cutPath(arg, keyword string) (path, parameters string, ok bool) {
	if len(arg) < len(keyword) || !strings.EqualFold(arg[:len(keyword)], keyword) {
		return "", "", false
	}
	rest, ok := strings.CutPrefix(strings.TrimLeft(arg[len(keyword):], " "), "<")
	if !ok {
		return "", "", false
	}
	quoted := false
	for i := 0; i < len(rest); i++ {
		switch rest[i] {
		case '\\':
			if quoted {
				i++
			}
		case '"':
			quoted = !quoted
		case '>':
			if quoted {
				continue
			}
			parameters = rest[i+1:]
			return rest[:i], parameters, parameters == "" || parameters[0] == ' '
		}
	}
	return "", "", false
}

// parameter reads one of MAIL. If ok is false, the mail is refused.
func (c *conn) parameter(mail *transaction, p string) (ok bool, err error) {
	name, value, has := strings.Cut(p, "=")
	switch name = strings.ToUpper(name); {
	case !c.extended:
		return false, c.wrong(555, "5.5.4", "Parameters want EHLO")
	case name == "SIZE": // RFC 1870
		n, err := strconv.ParseUint(value, 10, 63)
		if err != nil {
			return false, c.wrong(501, "5.5.4", "SIZE wants a number")
		}
		if n > uint64(c.server.MaxMessageBytes) {
			c.refuseSize()
			return false, nil
		}
		return true, nil
	case name == "BODY" && (strings.EqualFold(value, "7BIT") || strings.EqualFold(value, "8BITMIME")): // RFC 6152
		return true, nil
	case name == "SMTPUTF8" && !has: // RFC 6531
		mail.utf8 = true
		return true, nil
	case name == "AUTH" && has: // RFC 4954, 5: believed by nobody
		return true, nil
	}
	return false, c.wrong(555, "5.5.4", "MAIL has SIZE, BODY=7BIT, BODY=8BITMIME and SMTPUTF8, not "+p)
}

func (c *conn) refuseSize() {
	c.refuse(refusedSize, 552, "5.3.4", "A message has at most "+strconv.Itoa(c.server.MaxMessageBytes)+" octets")
}

// address reads an address of the envelope. If ok is false, it is refused.
func (c *conn) address(path string, utf8Said bool) (address string, ok bool) {
	if path[0] == '@' { // RFC 5321, 4.1.2 and C: a source route is to be ignored
		if _, after, found := strings.Cut(path, ":"); found {
			path = after
		}
	}
	if !utf8Said && !mime.IsASCII(path) {
		c.refuse(refusedAddress, 553, "5.6.7", "An address beyond ASCII wants SMTPUTF8 in MAIL (RFC 6531)")
		return "", false
	}
	a, err := mime.ParseAddress(path)
	if err != nil {
		c.refuse(refusedAddress, 553, "5.1.3", reasonOf(err))
		return "", false
	}
	return a.String(), true
}

// reasonOf returns what package mime says is wrong.
func reasonOf(err error) string {
	if e, ok := errors.AsType[*mime.Error](err); ok && (e.Field == "" || e.Field == "message") {
		return e.Reason
	}
	return err.Error()
}

// rcptTo answers RCPT TO:<address>.
func (c *conn) rcptTo(arg string) error {
	if !c.mail.open {
		return c.wrong(503, "5.5.1", "MAIL first")
	}
	path, parameters, ok := cutPath(arg, "TO:")
	if !ok || path == "" {
		return c.wrong(501, "5.5.4", "RCPT wants TO:<ADDRESS>")
	}
	if strings.TrimSpace(parameters) != "" {
		return c.wrong(555, "5.5.4", "RCPT has no parameters here")
	}
	if most := c.mostRecipients(); len(c.mail.to) == most { // RFC 5321, 4.5.3.1.10
		c.refuse(refusedRecipients, 452, "4.5.3", "A mail has at most "+strconv.Itoa(most)+" recipients here; send it to the others in another")
		return nil
	}
	address, ok := c.address(path, c.mail.utf8)
	if !ok {
		return nil
	}
	if c.receives() && !c.takes(address) {
		return nil
	}
	if c.server.Check != nil {
		if err := c.server.Check(address); err != nil { // refused alone: the mail's other recipients get it
			c.refuse(refusedAddress, 550, "5.4.4", err.Error()) // RFC 3463, 3.5: unable to route
			return nil
		}
	}
	c.mail.to = append(c.mail.to, address)
	c.say("250 2.1.5 Go on\r\n")
	return nil
}
