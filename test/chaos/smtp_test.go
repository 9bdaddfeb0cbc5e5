package chaos

import (
	"fmt"
	"net"
	"net/http"
	"net/textproto"
	"strings"
	"testing"
	"time"
)

// smtpClients hand mails in by SMTP.
type smtpClients struct {
	clients
	large map[string]bool // whether it is, by the id of what was accepted
}

// handIn hands mails in over one connection until it breaks, small and large
// ones in turn, to two recipients each.
func (m *smtpClients) handIn(at string) error {
	n, err := net.DialTimeout("tcp", at, 5*time.Second)
	if err != nil {
		return err
	}
	defer n.Close()
	if err := n.SetDeadline(time.Now().Add(settleWithin)); err != nil {
		return err
	}
	c := textproto.NewConn(n)
	say := func(code int, format string, args ...any) (string, error) {
		if err := c.PrintfLine(format, args...); err != nil {
			return "", err
		}
		_, text, err := c.ReadResponse(code)
		return text, err
	}
	if _, _, err := c.ReadResponse(220); err != nil {
		return err
	}
	if _, err := say(250, "EHLO chaos.test"); err != nil {
		return err
	}
	for i, more := 0, true; more; i++ {
		body := "small"
		if i%2 == 1 {
			body = strings.TrimSuffix(strings.Repeat(strings.Repeat("x", 70)+"\r\n", 100), "\r\n")
		}
		for _, step := range []struct {
			code int
			line string
		}{{250, "MAIL FROM:<a@example.com>"}, {250, "RCPT TO:<b@example.com>"}, {250, "RCPT TO:<c@example.org>"}, {354, "DATA"}} {
			if _, err := say(step.code, "%s", step.line); err != nil {
				return err
			}
		}
		text, err := say(250, "From: a@example.com\r\n\r\n%s\r\n.", body)
		if err != nil {
			return err
		}
		id := text[strings.LastIndexByte(text, ' ')+1:]
		more = m.took(1, func() { m.large[id] = i%2 == 1 })
	}
	return nil
}

// TestAcceptedBySMTPIsKept kills the program right after a 250, again and again.
// A program without the role store accepts, so nothing can have been stored
// before the kill. In the end a program that stores has a send for each recipient
// of each accepted mail, and the contents of those that are large.
func TestAcceptedBySMTPIsKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.writeConfig("smtpd: {listen: '127.0.0.1:0', require_auth: false}\n")
	w.roles = "intake"
	w.start("")
	m := &smtpClients{clients: clients{at: w.awaitSMTP(), fresh: make(chan struct{})}, large: make(map[string]bool)}
	m.run(6, func(_ *http.Client, _, _ int) bool {
		at, _ := m.now()
		if m.handIn(at) == nil {
			return false // it was told to end
		}
		pause(t.Context(), 5*time.Millisecond)
		return m.missed(func() {})
	})
	w.killFresh(&m.clients, 5, w.awaitSMTP, "SELECT COUNT(*) FROM sends")
	w.roles = "store"
	w.start("")
	for id, large := range m.large {
		w.eventually("mail "+id+" is in the ledger", func() bool {
			return w.highest(fmt.Sprintf("SELECT COUNT(*) FROM sends WHERE message = '%s' AND state = 'waiting'", id)) == 2
		})
		if large && w.highest(fmt.Sprintf("SELECT COUNT(*) FROM bodies WHERE message = '%s'", id)) != 1 {
			t.Errorf("mail %s was accepted, and its content is not there", id)
		}
	}
	t.Logf("%d mails accepted, %d connections broken", m.accepted(), m.repeats)
}
