package smtpd

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
)

// mailbox is a Receiver of one address.
type mailbox struct {
	mu    sync.Mutex
	mails []string // sender, recipient, content
	err   error    // what Receive returns
}

func (m *mailbox) Recipient(to string) error {
	if to != "back@bounces.test" {
		return errors.New("not here")
	}
	return nil
}

func (m *mailbox) Receive(_ context.Context, from, to string, content []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err == nil {
		m.mails = append(m.mails, from, to, string(content))
	}
	return m.err
}

func (m *mailbox) taken() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]string(nil), m.mails...)
}

// receiver starts a server that receives for m. What it is told of keys is of no
// importance to it.
func receiver(t *testing.T, m *mailbox) *rig {
	return start(t, func(o *Options) { o.Receiver, o.OpenLoopback = m, false })
}

const back = "MAIL FROM:<>\r\nRCPT TO:<back@bounces.test>\r\nDATA\r\n"

// Strangers hand in mail to the receiver's addresses, from nobody too, and to no
// others; they cannot log in.
func TestReceives(t *testing.T) {
	m := &mailbox{}
	r := receiver(t, m)
	c := r.dial()
	if got := c.say("EHLO mx.example.com", "250"); strings.Contains(got, "AUTH") || !strings.Contains(got, "STARTTLS") || !strings.Contains(got, "RCPTMAX=1\r\n") {
		t.Errorf("EHLO is answered %q", got)
	}
	c.say("AUTH PLAIN AGEAYg==", "500")
	c.say("MAIL FROM:<>", "250")
	if got := c.say("RCPT TO:<ann-private@bounces.test>", "550"); strings.Contains(got, "ann-private") {
		t.Errorf("a stranger's address is repeated: %q", got)
	}
	c.say("RCPT TO:<back@bounces.test>", "250")
	c.say("RCPT TO:<back@bounces.test>", "452")
	c.say("DATA", "354")
	// A LF by itself is no end of a mail, and no reason to lose a report.
	c.say("Subject: one\nX: y\r\n\r\n\n.\nhello\r\n.", "250")
	if got := m.taken(); len(got) != 3 || got[0] != "" || got[1] != "back@bounces.test" || got[2] != "Subject: one\nX: y\r\n\r\n\n.\nhello\r\n" {
		t.Errorf("taken: %q", got)
	}
	if s := r.Stats(); s.Messages != 1 || s.Refused["address"] != 1 {
		t.Errorf("counted %+v", s)
	}
	if len(r.memory.all()) != 0 {
		t.Error("a mail that was received is sent on")
	}
}

// The sender is told to come again when a mail cannot be stored, and that it is not
// taken when it never can.
func TestReceiveRefuses(t *testing.T) {
	m := &mailbox{}
	c := receiver(t, m).dial()
	c.say("EHLO mx.example.com", "250")
	for _, step := range []struct {
		err   error
		codes string
	}{
		{errors.New("redis is away"), "250 250 354 451"}, {&Never{"it names nothing"}, "250 250 354 550"}, {nil, "250 250 354 250"},
	} {
		m.mu.Lock()
		m.err = step.err
		m.mu.Unlock()
		if got := c.replies(back+"Subject: x\r\n\r\n.\r\n", 4); got != step.codes {
			t.Errorf("%v: answered %s, want %s", step.err, got, step.codes)
		}
	}
	if n := len(m.taken()); n != 3 {
		t.Errorf("%d texts were taken, want one mail", n)
	}
}

// Of a long mail the beginning is kept. One without end ends the connection.
func TestReceivesTheBeginning(t *testing.T) {
	m := &mailbox{}
	r := receiver(t, m)
	c := r.dial()
	c.say("EHLO mx.example.com", "250")
	line := strings.Repeat("x", 997) + "\r\n"
	lines := 3 * MaxReceivedBytes / len(line)
	if got := c.replies(back+strings.Repeat(line, lines)+".\r\n", 4); got != "250 250 354 250" {
		t.Fatalf("answered %s", got)
	}
	if got := m.taken(); len(got) != 3 || len(got[2]) != MaxReceivedBytes {
		t.Errorf("%d bytes are kept, want %d", len(got[2]), MaxReceivedBytes)
	}
	c.say("MAIL FROM:<> SIZE=99999999999", "552")
	if got := c.replies(back, 3); got != "250 250 354" {
		t.Fatalf("answered %s", got)
	}
	go func() { // until the server hangs up
		for {
			if _, err := c.Write([]byte(strings.Repeat(line, 64))); err != nil {
				return
			}
		}
	}()
	c.want("552")
}

// A client that says commands without end is told to go.
func TestReceiverEndsChatter(t *testing.T) {
	c := receiver(t, &mailbox{}).dial()
	if got := c.replies(strings.Repeat("NOOP\r\n", maxReceiverCommands+1), maxReceiverCommands+2); !strings.HasSuffix(got, "250 421 -") {
		t.Errorf("answered %.40s...", got[max(0, len(got)-40):])
	}
}
