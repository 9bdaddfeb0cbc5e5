package alert

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	stdmime "mime"
	"mime/quotedprintable"
	"net"
	"net/smtp"
	"net/textproto"
	"net/url"
	"strings"
	"time"

	"sluice/lib/mime"
	"sluice/lib/netaddr"
)

const (
	// maxRecipients bounds the addresses of a mail.
	maxRecipients = 20

	// maxSaidBytes bounds what a server may say in all, its certificate included.
	maxSaidBytes = 256 << 10
)

// Mail sends messages by a mail server: the operator's own, not the way of the
// mail that Sluice sends for others.
type Mail struct {
	server *url.URL
	from   string
	to     []string
	tls    *tls.Config // whose certificates are believed; nil: the machine's

	later map[string]time.Time // since when an address has been put off; owned by Send
}

// laterFor is how long the mail waits for a recipient whom the server puts off (4yz; RFC
// 5321, 4.2.1), as it does with strangers for some minutes. The first try after that, which
// is some 8 minutes after the first of all, goes to the others.
const laterFor = 6 * time.Minute

// NewMail returns a channel by smtp://USER:PASSWORD@HOST:PORT, which must offer
// STARTTLS unless it is on this machine, or smtps://, which is TLS from the
// beginning. The errors show no URL.
func NewMail(server, from, to string) (*Mail, error) {
	u, err := url.Parse(server)
	if err != nil || u.Hostname() == "" || u.Scheme != "smtp" && u.Scheme != "smtps" {
		return nil, errors.New("needs alerts.smtp: smtp://USER:PASSWORD@HOST:587 (STARTTLS) or smtps://USER:PASSWORD@HOST:465, with special characters of a password as %XX")
	}
	m := &Mail{server: u, later: make(map[string]time.Time)}
	if m.from, err = address(from); err != nil {
		return nil, fmt.Errorf("needs alerts.from: %w", err)
	}
	for one := range strings.SplitSeq(to, ",") {
		a, err := address(one)
		if err != nil {
			return nil, err
		}
		m.to = append(m.to, a)
	}
	if len(m.to) > maxRecipients {
		return nil, fmt.Errorf("has %d addresses, the most is %d", len(m.to), maxRecipients)
	}
	return m, nil
}

// address takes NAME@HOST and nothing around it. Beyond ASCII before the @, or in
// quotes, it is refused: not every server carries that.
func address(s string) (string, error) {
	s = strings.TrimSpace(s)
	a, err := mime.ParseAddress(s)
	if err != nil || a.UTF8() || strings.HasPrefix(a.String(), `"`) {
		return "", fmt.Errorf("%q is no address, want NAME@HOST", s)
	}
	return a.String(), nil
}

// Name implements Channel.
func (*Mail) Name() string { return "email" }

// Send implements Channel. A recipient that the server refuses keeps the mail from no
// other one: the mail goes to those who are taken, and the error is a *PartError.
func (m *Mail) Send(ctx context.Context, msg *Message) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("send mail by %s: %w", m.server.Host, err)
		}
	}()
	conn, err := m.dial(ctx)
	if err != nil {
		return err
	}
	// net/smtp knows no context: the end of ctx closes for it.
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	return m.talk(conn, msg)
}

// talk has the conversation with the server, and closes the connection.
func (m *Mail) talk(conn net.Conn, msg *Message) error {
	c, err := smtp.NewClient(conn, m.server.Hostname())
	if err != nil {
		return errors.Join(err, conn.Close())
	}
	defer func() { _ = c.Close() }() // after Quit it is closed already
	if err := m.secure(c); err != nil {
		return err
	}
	if err := c.Mail(m.from); err != nil {
		return fmt.Errorf("as %s: %w", m.from, err)
	}
	refused, err := m.recipients(c, msg.At)
	if err != nil {
		return err
	}
	w, err := c.Data()
	if err != nil {
		return err
	}
	if _, err := w.Write(m.text(msg)); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	_ = c.Quit() // the mail is taken: that the server does not say goodbye changes nothing
	if len(refused) > 0 {
		return &PartError{errors.Join(refused...)}
	}
	return nil
}

// recipients names them to the server, and returns the refusals. It fails if nobody is
// taken, if somebody is put off for a while, or if the connection ends: then all are tried
// again, and nobody is told twice.
func (m *Mail) recipients(c *smtp.Client, now time.Time) (refused []error, err error) {
	for _, to := range m.to {
		err := c.Rcpt(to)
		if err == nil {
			delete(m.later, to)
			continue
		}
		err = fmt.Errorf("to %s: %w", to, err)
		answer, answered := errors.AsType[*textproto.Error](err)
		const final = 500
		if !answered || answer.Code < final && m.waits(to, now) {
			return nil, err
		}
		refused = append(refused, err)
	}
	if len(refused) == len(m.to) {
		return nil, errors.Join(refused...)
	}
	return refused, nil
}

// waits reports whether the mail waits for an address that is put off.
func (m *Mail) waits(to string, now time.Time) bool {
	since, ok := m.later[to]
	if !ok || now.Before(since) { // the clock was set back
		m.later[to], since = now, now
	}
	return now.Sub(since) < laterFor
}

func (m *Mail) dial(ctx context.Context) (net.Conn, error) {
	port := m.server.Port()
	if port == "" {
		port = map[string]string{"smtp": "587", "smtps": "465"}[m.server.Scheme]
	}
	var d net.Dialer
	raw, err := d.DialContext(ctx, "tcp", net.JoinHostPort(m.server.Hostname(), port))
	if err != nil {
		return nil, err
	}
	conn := &listened{raw, maxSaidBytes}
	if m.server.Scheme == "smtp" {
		return conn, nil
	}
	secure := tls.Client(conn, m.tlsConfig())
	if err := secure.HandshakeContext(ctx); err != nil {
		return nil, errors.Join(err, raw.Close())
	}
	return secure, nil
}

// listened is a connection that is listened to for so many bytes: net/smtp keeps
// a line until it ends.
type listened struct {
	net.Conn
	left int
}

// Read implements net.Conn.
func (l *listened) Read(b []byte) (int, error) {
	if l.left == 0 {
		return 0, fmt.Errorf("it has said more than %d bytes", maxSaidBytes)
	}
	n, err := l.Conn.Read(b[:min(len(b), l.left)])
	l.left -= n
	return n, err
}

func (m *Mail) tlsConfig() *tls.Config {
	c := &tls.Config{}
	if m.tls != nil {
		c = m.tls.Clone()
	}
	c.ServerName, c.MinVersion = m.server.Hostname(), tls.VersionTLS12
	return c
}

// secure begins TLS and says who we are. A server elsewhere that offers no
// STARTTLS is refused, and so is one between us and it that hides the offer.
func (m *Mail) secure(c *smtp.Client) error {
	if m.server.Scheme == "smtp" {
		offered, _ := c.Extension("STARTTLS")
		switch {
		case offered:
			if err := c.StartTLS(m.tlsConfig()); err != nil {
				return fmt.Errorf("begin TLS: %w", err)
			}
		case !netaddr.IsLoopback(m.server.Hostname()):
			return errors.New("it offers no STARTTLS; use smtps://, or a server that does")
		}
	}
	if user := m.server.User; user != nil {
		if offered, _ := c.Extension("AUTH"); !offered {
			return errors.New("it offers no log-in: leave USER:PASSWORD@ out of alerts.smtp, or name the port for those who send (587, 465)")
		}
		password, _ := user.Password()
		if err := c.Auth(smtp.PlainAuth("", user.Username(), password, m.server.Hostname())); err != nil {
			return fmt.Errorf("log in: %w", err)
		}
	}
	return nil
}

// text returns the mail. All that comes from elsewhere is in one line each
// (oneLine) and encoded: a header cannot be added by a list's name.
func (m *Mail) text(msg *Message) []byte {
	first := msg.Alerts[0]
	subject := oneLine(fmt.Sprintf("[sluice] %s: %s", first.Status, first.about()))
	if n := len(msg.Alerts) - 1; n > 0 {
		subject += fmt.Sprintf(" and %d more", n)
	}
	var b bytes.Buffer
	// An address a line: a line may have 998 bytes (RFC 5322, 2.1.1).
	fmt.Fprintf(&b, "From: %s\r\nTo: %s\r\nDate: %s\r\nMessage-ID: <%s@%s>\r\n", m.from, strings.Join(m.to, ",\r\n "),
		msg.At.Format(time.RFC1123Z), rand.Text(), mime.DomainOf(m.from))
	fmt.Fprintf(&b, "Subject: %s\r\nMIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: quoted-printable\r\nAuto-Submitted: auto-generated\r\n\r\n",
		stdmime.QEncoding.Encode("utf-8", subject))
	q := quotedprintable.NewWriter(&b)
	for _, n := range msg.Alerts {
		fmt.Fprintf(q, "%s: %s\r\n%s\r\nsince %s", strings.ToUpper(n.Status), oneLine(n.about()), oneLine(n.Summary), n.Since.Format(time.RFC3339))
		if n.Until != nil {
			fmt.Fprintf(q, " until %s", n.Until.Format(time.RFC3339))
		}
		fmt.Fprintf(q, "\r\n%s\r\n\r\n", n.Runbook)
	}
	fmt.Fprintf(q, "Sent by sluice on %s.\r\n", oneLine(msg.Host))
	_ = q.Close() // writes to memory
	return b.Bytes()
}
