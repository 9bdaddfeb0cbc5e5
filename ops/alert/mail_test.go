package alert

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/quotedprintable"
	"net"
	"net/http/httptest"
	"net/mail"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
)

// mailbox is a mail server that keeps what it gets.
type mailbox struct {
	mu       sync.Mutex
	from     string
	to       []string
	text     string
	login    string
	tls      bool
	open     bool // it takes mail from everybody
	refuses  string
	code     int // of that refusal; 0: 550
	sessions int
}

func (b *mailbox) NewSession(c *smtp.Conn) (smtp.Session, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sessions++
	return &session{b, c}, nil
}

type session struct {
	box  *mailbox
	conn *smtp.Conn
}

func (s *session) Reset()        {}
func (s *session) Logout() error { return nil }

func (s *session) AuthMechanisms() []string {
	if s.box.open {
		return nil
	}
	return []string{sasl.Plain}
}

func (s *session) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, user, password string) error {
		if password != "hunter2" {
			return errors.New("wrong password")
		}
		s.box.login = user
		return nil
	}), nil
}

func (s *session) Mail(from string, _ *smtp.MailOptions) error {
	_, s.box.tls = s.conn.TLSConnectionState()
	s.box.from = from
	return nil
}

func (s *session) Rcpt(to string, _ *smtp.RcptOptions) error {
	if to == s.box.refuses && s.box.code != 0 {
		return &smtp.SMTPError{Code: s.box.code, EnhancedCode: smtp.EnhancedCode{4, 2, 0}, Message: "later"}
	}
	if to == s.box.refuses {
		return &smtp.SMTPError{Code: 550, EnhancedCode: smtp.EnhancedCode{5, 1, 1}, Message: "nobody is there"}
	}
	s.box.to = append(s.box.to, to)
	return nil
}

func (s *session) Data(r io.Reader) error {
	text, err := io.ReadAll(r)
	s.box.text = string(text)
	return err
}

// certificate is one for 127.0.0.1, and who believes it.
func certificate(t *testing.T) (*tls.Config, *tls.Config) {
	t.Helper()
	s := httptest.NewTLSServer(nil)
	defer s.Close()
	pool := x509.NewCertPool()
	pool.AddCert(s.Certificate())
	return &tls.Config{Certificates: s.TLS.Certificates}, &tls.Config{RootCAs: pool}
}

// startMailbox starts a mail server on this machine.
func startMailbox(t *testing.T, server *tls.Config, implicit bool) (*mailbox, string) {
	t.Helper()
	box := &mailbox{}
	s := smtp.NewServer(box)
	s.Domain, s.TLSConfig = "localhost", server
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	place := l.Addr().String()
	if implicit {
		l = tls.NewListener(l, server)
	}
	done := make(chan struct{})
	go func() { // ends with the server
		defer close(done)
		_ = s.Serve(l)
	}()
	t.Cleanup(func() {
		_ = s.Close()
		<-done
	})
	return box, place
}

// A mail arrives by STARTTLS and by TLS, with a login, in the form that mail
// has, whatever is in a list's name.
func TestMail(t *testing.T) {
	server, client := certificate(t)
	for _, scheme := range []string{"smtp", "smtps"} {
		box, place := startMailbox(t, server, scheme == "smtps")
		m, err := NewMail(scheme+"://ann:hunter2@"+place, "sluice@example.com", "ops@example.com, bob@example.org")
		if err != nil {
			t.Fatal(err)
		}
		m.tls = client
		if err := m.Send(t.Context(), testMessage()); err != nil {
			t.Fatalf("%s: %v", scheme, err)
		}
		if !box.tls || box.login != "ann" || box.from != "sluice@example.com" || strings.Join(box.to, " ") != "ops@example.com bob@example.org" {
			t.Errorf("%s: tls %v, login %s, from %s, to %s", scheme, box.tls, box.login, box.from, box.to)
		}
		got, err := mail.ReadMessage(strings.NewReader(box.text))
		if err != nil {
			t.Fatal(err)
		}
		subject, err := new(mime.WordDecoder).DecodeHeader(got.Header.Get("Subject"))
		if err != nil || subject != "[sluice] firing: lag list:q  Bcc: x@example.com and 1 more" || got.Header.Get("Bcc") != "" {
			t.Errorf("subject %q, %v, headers %v", subject, err, got.Header)
		}
		if at, err := got.Header.Date(); err != nil || !at.Equal(begin) {
			t.Errorf("date %v %v", at, err)
		}
		body, err := io.ReadAll(quotedprintable.NewReader(got.Body))
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range []string{"FIRING: lag list:q  Bcc: x@example.com", "ü is behind", "docs/alerts.md#alert-lag", "RESOLVED: disk h1", "until 2026-01-31T11:00:00Z"} {
			if !strings.Contains(string(body), part) {
				t.Errorf("no %q in\n%s", part, body)
			}
		}
	}
}

// A certificate that nobody vouches for, a server elsewhere without STARTTLS,
// a wrong password and silence end it, and no error shows the password.
func TestMailFails(t *testing.T) {
	server, client := certificate(t)
	box, place := startMailbox(t, server, false)
	_, port, _ := net.SplitHostPort(place)
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	for _, tt := range []struct {
		name, url, want string
		tls             *tls.Config
	}{
		{"unknown certificate", "smtp://ann:hunter2@" + place, "certificate", nil},
		{"certificate of another", "smtp://ann:hunter2@localhost:" + port, "certificate", client},
		{"wrong password", "smtp://ann:hunter3@" + place, "log in", client},
		{"silence", "smtp://ann:hunter2@" + silent.Addr().String(), "", client},
		{"nobody", "smtps://ann:hunter2@127.0.0.1:1", "refused", client},
	} {
		m, err := NewMail(tt.url, "a@example.com", "b@example.com")
		if err != nil {
			t.Fatal(err)
		}
		m.tls = tt.tls
		ctx := t.Context()
		if tt.name == "silence" {
			timed, cancel := context.WithCancel(ctx)
			go func() { // ends when the client has come
				if c, err := silent.Accept(); err == nil {
					cancel()
					_, _ = io.Copy(io.Discard, c)
					_ = c.Close()
				}
			}()
			ctx = timed
		}
		if err := m.Send(ctx, testMessage()); err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "hunter") {
			t.Errorf("%s: %v, want %s", tt.name, err, tt.want)
		}
	}
	if box.text != "" {
		t.Error("a mail arrived")
	}
	for _, to := range []string{"", "a", "a@b\r\nBcc: c@d", "Ann <a@example.com>", "a@example.com,", "a@example.com\nRCPT TO:<x@y>", `"a b"@example.com`, strings.Repeat("a@example.com,", 20) + "a@example.com"} {
		if _, err := NewMail("smtp://h:1", "a@example.com", to); err == nil {
			t.Errorf("taken for addresses: %q", to)
		}
	}
	for _, url := range []string{"", "http://h:1", "smtp://", "smtp://a:p%zz@h"} {
		if _, err := NewMail(url, "a@example.com", "a@example.com"); err == nil || strings.Contains(err.Error(), "%zz") {
			t.Errorf("%q: %v", url, err)
		}
	}
}

// A server that says more than a server has to is not listened to for longer.
func TestMailServerThatNeverEnds(t *testing.T) {
	for name, text := range map[string]string{"a line": "220 " + strings.Repeat("x", 60_000), "lines": strings.Repeat("220-hello\r\n", 1000)} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		talked := make(chan struct{})
		go func() { // ends when the client closes
			defer close(talked)
			c, err := l.Accept()
			if err != nil {
				return
			}
			defer c.Close()
			for err == nil {
				_, err = io.WriteString(c, text)
			}
		}()
		m, err := NewMail("smtp://"+l.Addr().String(), "a@example.com", "b@example.com")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		if err := m.Send(ctx, testMessage()); err == nil || !strings.Contains(err.Error(), "more than 262144 bytes") {
			t.Errorf("%s: %v", name, err)
		}
		cancel()
		<-talked
		l.Close()
	}
}

// A server on this machine that takes mail from everybody knows no log-in, and
// is not sent a password.
func TestMailWithoutLogin(t *testing.T) {
	box, place := startMailbox(t, nil, false)
	box.open = true
	send := func(url string) error {
		m, err := NewMail(url+place, "a@example.com", "b@example.com")
		if err != nil {
			t.Fatal(err)
		}
		return m.Send(t.Context(), newMessage("h1", begin, []Notice{{Alert: Test, Status: Firing, Since: begin, Runbook: runbook(Test)}}))
	}
	if err := send("smtp://ann:hunter2@"); err == nil || !strings.Contains(err.Error(), "offers no log-in") || box.text != "" {
		t.Errorf("with a password: %v, %q", err, box.text)
	}
	if err := send("smtp://"); err != nil || !strings.Contains(box.text, "Subject: [sluice] firing: test\r\n") {
		t.Errorf("without: %v, %q", err, box.text)
	}
}

// Without STARTTLS nothing is said to a server elsewhere, not even who we are.
func TestMailNeedsTLSElsewhere(t *testing.T) {
	box, place := startMailbox(t, nil, false)
	m, err := NewMail("smtp://"+place, "a@example.com", "b@example.com")
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Send(t.Context(), testMessage()); err != nil || box.text == "" {
		t.Errorf("to this machine without TLS: %v", err)
	}
	box, place = startMailbox(t, nil, false)
	conn, err := net.Dial("tcp", place)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	m.server.Host = "mail.example.com:25"
	if err := m.talk(conn, testMessage()); err == nil || !strings.Contains(err.Error(), "STARTTLS") || box.from != "" {
		t.Errorf("elsewhere: %v, from %q", err, box.from)
	}
}

// A recipient who is refused keeps the mail from no other one: it is sent once, and the
// error names who was refused. Where all are refused, nothing is sent, and it is tried again.
func TestMailOfWhichSomeAreRefused(t *testing.T) {
	box, place := startMailbox(t, nil, false)
	box.open, box.refuses = true, "gone@example.com"
	var others []string
	for i := range maxRecipients - 1 {
		others = append(others, fmt.Sprintf("%s%d@example.com", strings.Repeat("x", 50), i))
	}
	m, err := NewMail("smtp://"+place, "a@example.com", strings.Join(append([]string{box.refuses}, others...), ","))
	if err != nil {
		t.Fatal(err)
	}
	err = m.Send(t.Context(), testMessage())
	if _, part := errors.AsType[*PartError](err); !part || !strings.Contains(err.Error(), "to gone@example.com: 550 ") {
		t.Errorf("error %v", err)
	}
	if !slices.Equal(box.to, others) {
		t.Errorf("sent to %q, want %q", box.to, others)
	}
	for line := range strings.SplitSeq(box.text, "\r\n") {
		if len(line) > 998 {
			t.Errorf("a line has %d bytes: %.60s", len(line), line)
		}
	}
	got, err := mail.ReadMessage(strings.NewReader(box.text))
	if err != nil {
		t.Fatal(err)
	}
	if to, err := got.Header.AddressList("To"); err != nil || len(to) != maxRecipients {
		t.Errorf("To has %d addresses, %v", len(to), err)
	}
	box.text = ""
	if m, err = NewMail("smtp://"+place, "a@example.com", box.refuses); err != nil {
		t.Fatal(err)
	}
	err = m.Send(t.Context(), testMessage())
	if _, part := errors.AsType[*PartError](err); err == nil || part || box.text != "" {
		t.Errorf("with nobody else: %v, sent %q", err, box.text)
	}
}

// The mail waits some minutes for a recipient who is put off, and then goes to the others.
func TestMailOfWhichSomeArePutOff(t *testing.T) {
	box, place := startMailbox(t, nil, false)
	box.open, box.refuses, box.code = true, "new@example.com", 450
	m, err := NewMail("smtp://"+place, "a@example.com", box.refuses+",old@example.com")
	if err != nil {
		t.Fatal(err)
	}
	msg := testMessage()
	send := func(after time.Duration) error {
		box.to, box.text = nil, ""
		msg.At = msg.At.Add(after)
		return m.Send(t.Context(), msg)
	}
	for range 2 {
		err := send(laterFor / 3)
		if _, part := errors.AsType[*PartError](err); err == nil || part || box.text != "" {
			t.Fatalf("put off: %v, sent %q", err, box.text)
		}
	}
	taken := box.refuses
	box.refuses = ""
	if err := send(0); err != nil || !slices.Equal(box.to, []string{taken, "old@example.com"}) {
		t.Fatalf("taken: %v, sent to %q", err, box.to)
	}
	box.refuses = taken
	if err := send(laterFor); err == nil || box.text != "" {
		t.Fatalf("put off anew: %v, sent %q", err, box.text)
	}
	err = send(laterFor)
	if _, part := errors.AsType[*PartError](err); !part || !slices.Equal(box.to, []string{"old@example.com"}) {
		t.Errorf("put off for long: %v, sent to %q", err, box.to)
	}
}

// What some recipients of a channel were refused is not sent to the others again.
func TestAlertsOfWhichSomeAreRefused(t *testing.T) {
	box, place := startMailbox(t, nil, false)
	box.open, box.refuses = true, "gone@example.com"
	m, err := NewMail("smtp://"+place, "a@example.com", "gone@example.com,stays@example.com")
	if err != nil {
		t.Fatal(err)
	}
	o := openOffice(t)
	a := o.start()
	o.await("it tells", a.tells)
	a.watcher.Channels = []Channel{m}
	a.problems = []Problem{{Kind: Lag, Subject: "store", Summary: "behind"}}
	for range 4 {
		o.pass(time.Minute, "", a)
	}
	if box.sessions != 1 || strings.Join(box.to, " ") != "stays@example.com" {
		t.Errorf("%d mails to %q, want one to stays@example.com", box.sessions, box.to)
	}
}
