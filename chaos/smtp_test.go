package chaos

import (
	"fmt"
	"net"
	"net/textproto"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

var smtpListening = regexp.MustCompile(`smtp=(127\.0\.0\.1:\d+)`)

// awaitSMTP returns where the newest of the world's programs takes mail in.
func (w *world) awaitSMTP() (at string) {
	w.t.Helper()
	w.eventually("the program takes mail in", func() bool {
		w.mu.Lock()
		file := w.programs[len(w.programs)-1].cmd.Stderr.(*os.File).Name()
		w.mu.Unlock()
		text, err := os.ReadFile(file)
		if err != nil {
			return false
		}
		found := smtpListening.FindSubmatch(text)
		if found != nil {
			at = string(found[1])
		}
		return found != nil
	})
	return at
}

// mailer is one client of SMTP, and what it was told is accepted.
type mailer struct {
	accepted []string // ids
	large    map[string]bool
	broken   int // connections
}

// handIn hands mails in over one connection until it breaks, small and large
// ones in turn, to two recipients each. Each acceptance is told to told.
func (m *mailer) handIn(at string, told func(), over func() bool) error {
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
	for i := 0; !over(); i++ {
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
		m.accepted = append(m.accepted, id)
		if i%2 == 1 {
			m.large[id] = true
		}
		told()
	}
	return nil
}

// TestAcceptedBySMTPIsKept kills the program right after a 250, again and again.
// A program without the role store accepts, so nothing can have been stored
// before the kill. In the end a program that stores has a send for each recipient
// of each accepted mail, and the contents of those that are large.
func TestAcceptedBySMTPIsKept(t *testing.T) {
	w := newWorld(t)
	w.writeConfig("smtpd: {listen: '127.0.0.1:0', require_auth: false}\n")
	t.Setenv("SLUICE_ROLES", "intake")
	const rounds, clients = 5, 6
	var mu sync.Mutex
	at, end, total := "", false, 0
	fresh := make(chan struct{}) // somebody has just got a 250
	told := func() {
		mu.Lock()
		total++
		mu.Unlock()
		select {
		case fresh <- struct{}{}:
		default:
		}
	}
	over := func() bool { mu.Lock(); defer mu.Unlock(); return end }
	count := func() int { mu.Lock(); defer mu.Unlock(); return total }
	p := w.start("")
	at = w.awaitSMTP()
	mailers := make([]*mailer, clients)
	var sending sync.WaitGroup
	for i := range mailers {
		m := &mailer{large: map[string]bool{}}
		mailers[i] = m
		sending.Go(func() {
			for !over() {
				mu.Lock()
				now := at
				mu.Unlock()
				if err := m.handIn(now, told, over); err != nil {
					m.broken++
					pause(t.Context(), 5*time.Millisecond)
				}
			}
		})
	}
	for range rounds {
		before := count()
		w.eventually("some mails are accepted", func() bool { return count() >= before+20 })
		<-fresh
		p.kill() // whoever got a 250 an instant ago has it
		p = w.start("")
		next := w.awaitSMTP()
		mu.Lock()
		at = next
		mu.Unlock()
	}
	before := count()
	w.eventually("the last program accepts", func() bool { return count() >= before+clients })
	mu.Lock()
	end = true
	mu.Unlock()
	sending.Wait()
	p.kill()
	if n := w.highest("SELECT COUNT(*) FROM sends"); n != 0 {
		t.Fatalf("%d sends are stored already: this test shows nothing", n)
	}
	t.Setenv("SLUICE_ROLES", "store")
	w.start("")
	broken := 0
	for _, m := range mailers {
		broken += m.broken
		for _, id := range m.accepted {
			w.eventually("mail "+id+" is in the ledger", func() bool {
				return w.highest(fmt.Sprintf("SELECT COUNT(*) FROM sends WHERE message = '%s' AND state = 'waiting'", id)) == 2
			})
			if m.large[id] && w.highest(fmt.Sprintf("SELECT COUNT(*) FROM bodies WHERE message = '%s'", id)) != 1 {
				t.Errorf("mail %s was accepted, and its content is not there", id)
			}
		}
	}
	if broken == 0 {
		t.Error("no connection was broken: this test shows little")
	}
	t.Logf("%d mails accepted, %d connections broken", total, broken)
}
