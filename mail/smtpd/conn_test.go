package smtpd

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"sluice"
	"sluice/mail"
)

// What a client says is answered as the standards say, and nothing of it is
// taken for something else.
func TestReplies(t *testing.T) {
	r := start(t, open)
	const mail = "MAIL FROM:<a@b.test>\r\n"
	long := strings.Repeat("x", 20_000)
	tests := []struct{ name, bytes, codes string }{
		{"nothing", "", ""},
		{"HELO", "HELO me\r\n" + mail, "250 250"},
		{"lower case", "ehlo me\r\nmail from:<a@b.test>\r\nrcpt to:<c@d.test>\r\n", "250 250 250"},
		{"an address for a name", "EHLO [127.0.0.1]\r\nEHLO [IPv6:::1]\r\nEHLO my_pc\r\n", "250 250 250"},
		{"no name", "EHLO\r\nHELO \r\nEHLO a b\r\nEHLO a\x1b[2J\r\n", "501 501 501 501"},
		{"no EHLO", mail + "RCPT TO:<c@d.test>\r\nDATA\r\n", "503 503 554"},
		{"MAIL twice", hello + mail + mail, "250 250 503"},
		{"RCPT before MAIL", hello + "RCPT TO:<c@d.test>\r\n", "250 503"},
		{"DATA without a recipient", hello + mail + "DATA\r\nNOOP\r\n", "250 250 554 -"},
		{"DATA without a recipient, in lockstep", hello + mail + "DATA\r\n", "250 250 554"},
		{"RSET", hello + mail + "RSET\r\nRCPT TO:<c@d.test>\r\n" + mail, "250 250 250 503 250"},
		{"EHLO forgets", hello + mail + hello + mail, "250 250 250 250"},
		{"null sender", hello + "MAIL FROM:<>\r\n", "250 250"},
		{"no recipient", hello + mail + "RCPT TO:<>\r\n", "250 250 501"},
		{"spaces", hello + "MAIL FROM: <a@b.test> \r\nRCPT TO: <c@d.test>\r\n", "250 250 250"},
		{"no brackets", hello + "MAIL FROM:a@b.test\r\n", "250 501"},
		{"brackets in quotes", hello + "MAIL FROM:<\"a>b\"@b.test>\r\n", "250 250"},
		{"open brackets", hello + "MAIL FROM:<a@b.test\r\nMAIL FROM:<\"a@b.test>\r\n", "250 501 501"},
		{"behind the brackets", hello + "MAIL FROM:<a@b.test>SIZE=1\r\n", "250 501"},
		{"source route", hello + mail + "RCPT TO:<@x.test,@y.test:c@d.test>\r\n", "250 250 250"},
		{"no domain", hello + "MAIL FROM:<a>\r\n", "250 553"},
		{"an at sign in quotes", hello + "MAIL FROM:<\"a@b\"@c.test>\r\n", "250 250"},
		{"two at signs", hello + "MAIL FROM:<a@b@c.test>\r\n", "250 553"},
		{"a space in an address", hello + "MAIL FROM:<a b@c.test>\r\n", "250 553"},
		{"a tab in an address", hello + "MAIL FROM:<a\t@c.test>\r\n", "250 553"},
		{"a domain that is too long", hello + "MAIL FROM:<a@" + strings.Repeat("x.", 150) + "test>\r\n", "250 553"},
		{"size", hello + "MAIL FROM:<a@b.test> SIZE=1048576\r\n", "250 250"},
		{"too large", hello + "MAIL FROM:<a@b.test> SIZE=1048577\r\n", "250 552"},
		{"size is no number", hello + "MAIL FROM:<a@b.test> SIZE=-1\r\n", "250 501"},
		{"body", hello + "MAIL FROM:<a@b.test> BODY=8BITMIME SMTPUTF8 AUTH=<>\r\n", "250 250"},
		{"body is binary", hello + "MAIL FROM:<a@b.test> BODY=BINARYMIME\r\n", "250 555"}, // RFC 3030 was not offered
		{"unknown parameter", hello + "MAIL FROM:<a@b.test> RET=FULL\r\n" + mail + "RCPT TO:<c@d.test> NOTIFY=NEVER\r\n", "250 555 250 555"},
		{"parameters after HELO", "HELO me\r\nMAIL FROM:<a@b.test> SIZE=1\r\n", "250 555"},
		{"a domain beyond ASCII", hello + "MAIL FROM:<a@bücher.test>\r\nMAIL FROM:<a@bücher.test> SMTPUTF8\r\n", "250 553 250"},
		{"a name beyond ASCII", hello + "MAIL FROM:<jürgen@b.test>\r\nMAIL FROM:<jürgen@b.test> SMTPUTF8\r\n", "250 553 250"},
		{"no UTF-8", hello + "MAIL FROM:<j\xff@b.test> SMTPUTF8\r\n", "250 553"},
		{"others", "NOOP\r\nVRFY ann\r\nHELP\r\nEXPN all\r\nTURN\r\nSTARTTLSS\r\n\r\n", "250 252 214 500 500 500 500"},
		{"QUIT", "QUIT\r\nNOOP\r\n", "221 -"},
		{"chunking", hello + mail + "RCPT TO:<c@d.test>\r\nBDAT 6 LAST\r\nQUIT\r\n", "250 250 250 502 -"},
		{"HTTP", "POST / HTTP/1.1\r\nHost: a\r\n\r\nEHLO me\r\n", "502 -"},
		{"many wrong commands", strings.Repeat("X\r\n", 30), strings.Repeat("500 ", 20) + "421 -"},
		{"a bare LF", "EHLO me\nMAIL FROM:<a@b.test>\r\n", "500 -"},
		{"a bare CR", "EHLO me\rMAIL FROM:<a@b.test>\r\n", "500 -"},
		{"a NUL", "EHLO m\x00e\r\n", "500 -"},
		{"a long command", "NOOP " + long + "\r\nNOOP\r\n", "500 -"},
		{"a command just long enough", "NOOP " + long[:12288-7] + "\r\nNOOP " + long[:12288-6] + "\r\n", "250 500 -"},
		{"TLS without asking", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + long[:600] + "\n", "500 -"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := r.dial()
			c.t = t
			if got := c.replies(tt.bytes, len(strings.Fields(tt.codes))); got != tt.codes {
				t.Errorf("answered %q, want %q", got, tt.codes)
			}
		})
	}
	if n := len(r.memory.all()); n != 0 {
		t.Errorf("%d messages came of it", n)
	}
}

// All that belongs together may be sent at once, and is answered at once.
func TestPipelining(t *testing.T) {
	r := start(t, open)
	c := r.dial()
	one := "MAIL FROM:<ann@example.com>\r\nRCPT TO:<ben@example.com>\r\nRCPT TO:<nobody>\r\nRCPT TO:<cy@example.com>\r\nDATA\r\n" + plainMail + ".\r\n"
	want := "250" + strings.Repeat(" 250 250 553 250 354 250", 20)
	if got := c.replies(hello+strings.Repeat(one, 20), 121); got != want {
		t.Errorf("answered %s, want %s", got, want)
	}
	c.say("QUIT", "221 2.0.0")
	c.want("")
	all := r.memory.all()
	if len(all) != 20 || fmt.Sprint(all[0].To) != "[ben@example.com cy@example.com]" || all[0].From != "ann@example.com" {
		t.Errorf("%d messages, the first from %s to %v", len(all), all[0].From, all[0].To)
	}
	if s := r.Stats(); s.Messages != 20 || s.Recipients != 40 || s.Refused["address"] != 20 || s.Seconds.Count != 20 {
		t.Errorf("counted %+v", s)
	}
}

// A message is answered when it is durable, not before. If it cannot be, its
// sender is told to try again, or why that is no use.
func TestAcceptedIsDurable(t *testing.T) {
	r := start(t, open)
	r.memory.gate, r.memory.inside = make(chan struct{}), make(chan struct{}, 1)
	c := r.dial()
	if got := c.replies(hello+envelope+plainMail+".\r\n", 4); got != "250 250 250 354" {
		t.Fatal(got)
	}
	<-r.memory.inside
	heard := make(chan string)
	go func() { heard <- c.reply() }()
	select {
	case got := <-heard:
		t.Fatalf("answered %q before it was durable", got)
	default:
	}
	close(r.memory.gate)
	if got := <-heard; !strings.HasPrefix(got, "250 2.0.0 Accepted as "+r.memory.all()[0].ID) {
		t.Errorf("answered %q", got)
	}
	for _, tt := range []struct {
		err  error
		want string
	}{
		{fmt.Errorf("append: %w", sluice.ErrFull), "452 4.3.1"},
		{errors.New("the database is away"), "451 4.3.0"},
		{&mail.WaitingFull{Key: true, Most: mail.Load{Sends: 1}, Adds: mail.Load{Sends: 2}}, "452 4.3.1 0 mails of this key wait"},
		{&sluice.Error{Code: sluice.CodeUnavailable, Message: "away"}, "451 4.3.0"},
		{&sluice.Error{Code: sluice.CodeInvalid, Message: "no"}, "550 5.6.0 no"},
		{&sluice.Error{Code: sluice.CodeTooLarge, Message: "large"}, "552 5.3.4 large"},
	} {
		r.memory.mu.Lock()
		r.memory.err, r.memory.inside = tt.err, nil
		r.memory.mu.Unlock()
		c := r.dial()
		c.replies(hello+envelope, 4)
		c.send(plainMail)
		c.say(".", tt.want)
		c.say("MAIL FROM:<>", "250") // it is over, and the next may come
	}
	if n := len(r.memory.all()); n != 1 {
		t.Errorf("%d messages", n)
	}
}

// While there is nowhere for mail to go it is refused, for the time being.
func TestNowhere(t *testing.T) {
	r := start(t, open, func(o *Options) { o.Submitter = func() mail.Submitter { return nil } })
	c := r.dial()
	c.say("EHLO me", "250")
	c.say("MAIL FROM:<>", "451 4.3.2")
}
