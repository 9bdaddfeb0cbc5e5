package smtpd

import (
	"context"
	"encoding/base64"
	"errors"
	"strings"

	"sluice"
	"sluice/lib/key"
)

// login answers AUTH (RFC 4954): PLAIN (RFC 4616) and LOGIN. The password is a
// key of the API; the user's name is of no importance, since a key says whose
// it is. Guessing is hopeless (a key has 256 random bits), so a wrong one costs
// nothing but the connection after a few.
func (c *conn) login(arg string) error {
	mechanism, initial, _ := strings.Cut(arg, " ")
	switch {
	case c.receives():
		return c.unknown("AUTH")
	case !c.extended:
		return c.wrong(503, "5.5.1", "EHLO first")
	case c.keyText != "":
		return c.wrong(503, "5.5.1", "You are logged in")
	case c.mail.open:
		return c.wrong(503, "5.5.1", "Not inside a mail")
	case !c.mayLogIn():
		return c.failed(538, "5.7.11", "STARTTLS first: a key must not be sent in clear. If this one was, revoke it")
	}
	var text string
	var err error
	switch strings.ToUpper(mechanism) {
	case "PLAIN":
		text, err = c.plain(strings.TrimSpace(initial))
	case "LOGIN":
		text, err = c.loginWords(strings.TrimSpace(initial))
	default:
		return c.wrong(504, "5.5.4", "AUTH takes PLAIN and LOGIN")
	}
	if refused, ok := errors.AsType[*fault](err); ok {
		return c.wrong(501, "5.5.2", refused.reason)
	}
	if err != nil {
		return err
	}
	return c.logIn(text)
}

// logIn looks whose key a text is.
func (c *conn) logIn(text string) error {
	who, err := c.identify(text)
	if e, ok := errors.AsType[*sluice.Error](err); ok && e.Code == sluice.CodeUnauthorized {
		return c.failed(535, "5.7.8", "The password is no key; it wants one with the permission messages:send, as `sluice key create` makes them")
	}
	if err != nil {
		c.refuse(refusedUnavailable, 454, "4.7.0", "Keys cannot be checked now, try again")
		return nil
	}
	if !who.May(key.MessagesSend) {
		return c.failed(535, "5.7.8", "The key "+who.ID+" has no permission messages:send")
	}
	c.keyText, c.who = text, who
	c.wire.Known(true)
	c.say("235 2.7.0 Welcome\r\n")
	return nil
}

// identify asks whose key a text is.
func (c *conn) identify(text string) (key.Identity, error) {
	ctx, cancel := context.WithTimeout(c.server.work, submitTimeout)
	defer cancel()
	return c.server.Authority.Identify(ctx, text)
}

// failed refuses a login.
func (c *conn) failed(code int, enhanced, text string) error {
	c.refuse(refusedLogin, code, enhanced, text)
	if c.wrongLogins++; c.wrongLogins >= maxWrongLogins {
		c.reply(421, "4.7.0", "Too many wrong logins; goodbye")
		return errOver
	}
	return nil
}

// plain returns the password of PLAIN: authzid NUL authcid NUL password.
func (c *conn) plain(initial string) (string, error) {
	text := initial
	if text == "" {
		var err error
		if text, err = c.ask("334 \r\n"); err != nil {
			return "", err
		}
	}
	message, err := decode(text)
	if err != nil {
		return "", err
	}
	parts := strings.Split(message, "\x00")
	if len(parts) != 3 {
		return "", &fault{"PLAIN wants three texts with a NUL between them (RFC 4616)"}
	}
	return parts[2], nil
}

// loginWords returns the password of LOGIN, which asks for two words.
func (c *conn) loginWords(initial string) (string, error) {
	if initial == "" {
		name, err := c.ask("334 VXNlcm5hbWU6\r\n") // Username:
		if err != nil {
			return "", err
		}
		initial = name
	}
	if _, err := decode(initial); err != nil {
		return "", err
	}
	word, err := c.ask("334 UGFzc3dvcmQ6\r\n") // Password:
	if err != nil {
		return "", err
	}
	return decode(word)
}

// ask returns the client's next line.
func (c *conn) ask(challenge string) (string, error) {
	c.say(challenge)
	line, err := c.in.line()
	if err != nil {
		return "", err
	}
	if string(line) == "*" { // RFC 4954, 4
		return "", &fault{"AUTH was called off"}
	}
	return string(line), nil
}

// decode reads base64; "=" is an empty text (RFC 4954, 4).
func decode(s string) (string, error) {
	if s == "=" {
		return "", nil
	}
	b, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		return "", &fault{"AUTH wants base64"}
	}
	return string(b), nil
}
