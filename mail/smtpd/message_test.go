package smtpd

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"sluice"
	"sluice/mail"
	"sluice/test/clocktest"
)

// What a sender wishes is done, and does not go out; what is missing is added.
func TestDraft(t *testing.T) {
	now := time.Date(2026, 1, 31, 10, 20, 30, 0, time.UTC)
	r := start(t, open, func(o *Options) { o.Clock = clocktest.At(now) })
	c := r.dial()
	c.replies(hello+"MAIL FROM:<>\r\nRCPT TO:<\"b b\"@Example.COM>\r\nDATA\r\n", 4)
	c.send("X-Sluice-Priority: High\r\nFrom: Ann <ann@example.com>\r\nBcc: secret@example.com\r\nX-SLUICE-CLASS:\r\n marketing\r\n" +
		"X-Sluice-Tag: a, =?utf-8?q?f=C3=BCr?=\r\nx-sluice-tag: c\r\nX-Sluice-Send-At: 2026-02-01T00:00:00+01:00\r\nX-Other: stays\r\n\r\n..hello\r\n\xff8-bit\r\n")
	reply := c.say(".", "250 2.0.0 Accepted as ")
	d := r.memory.all()[0]
	if !sluice.ValidMessageID(d.ID) || !strings.Contains(reply, d.ID) {
		t.Errorf("the id is %q, answered %q", d.ID, reply)
	}
	want := "Received: from me.test ([127.0.0.1])\r\n\tby mx.test with ESMTP id " + d.ID + ";\r\n\tSat, 31 Jan 2026 10:20:30 +0000\r\n" +
		"From: Ann <ann@example.com>\r\nX-Other: stays\r\nDate: Sat, 31 Jan 2026 10:20:30 +0000\r\nMessage-ID: <" + d.ID + "@mx.test>\r\n\r\n.hello\r\n\xff8-bit\r\n"
	if string(d.Content) != want {
		t.Errorf("the content is\n%q, want\n%q", d.Content, want)
	}
	got := fmt.Sprintln(d.Priority, d.Class, d.Form, d.From, d.To, d.Tags, d.DueMillis)
	if want := fmt.Sprintln(mail.PriorityHigh, mail.ClassMarketing, mail.ContentMIME, "", `["b b"@example.com]`, "[a für c]", time.Date(2026, 1, 31, 23, 0, 0, 0, time.UTC).UnixMilli()); got != want {
		t.Errorf("the draft is %s, want %s", got, want)
	}

	c.replies("MAIL FROM:<jürgen@bücher.example> SMTPUTF8\r\nRCPT TO:<用户@例子.example>\r\nDATA\r\n", 3)
	c.send("From: Jürgen <jürgen@bücher.example>\r\nMessage-ID: <mine@here>\r\nDate: Sat, 31 Jan 2026 10:20:30 +0000\r\nSubject: Grüße\r\n\r\n")
	c.say(".", "250")
	d = r.memory.all()[1]
	if got := fmt.Sprintln(d.Priority, d.Class, d.From, d.To, d.Tags, d.DueMillis); got != fmt.Sprintln(mail.PriorityNormal, mail.ClassTransactional, "jürgen@xn--bcher-kva.example", "[用户@xn--fsqu00a.example]", "[]", 0) {
		t.Errorf("the draft is %s", got)
	}
	if !strings.Contains(string(d.Content), "with UTF8SMTP id") || strings.Count(string(d.Content), "Message-ID") != 1 || !strings.Contains(string(d.Content), "Subject: Grüße\r\n") {
		t.Errorf("the content is %q", d.Content)
	}
}

// A message as large as EHLO says is accepted, however long the headers are that are put
// before it. A larger one is refused for its size, before or behind its content.
func TestAnnouncedSize(t *testing.T) {
	r := start(t, open, func(o *Options) {
		o.MaxMessageBytes = sluice.MaxMessageBytes
		o.Hostname = strings.Repeat(strings.Repeat("h", 54)+".", 4) + "t"
	})
	c := r.dial()
	_, says, _ := strings.Cut(c.say("EHLO "+strings.Repeat("e", 255), "250-"), "250-SIZE ")
	says, _, _ = strings.Cut(says, "\r\n")
	size, err := strconv.Atoi(says)
	if err != nil || size < sluice.MaxMessageBytes-2048 {
		t.Fatalf("the size that is announced is %q", says)
	}
	c.say(fmt.Sprintf("MAIL FROM:<ann@example.com> SIZE=%d", size+1), "552 5.3.4")
	const head, end = "From: ann@example.com\r\nSubject: ", "\r\n\r\n"
	rest := size - len(head) - len(end)
	message := head + strings.Repeat("s", rest%100) + end + strings.Repeat(strings.Repeat("x", 98)+"\r\n", rest/100)
	c.say(fmt.Sprintf("MAIL FROM:<ann@example.com> SIZE=%d", len(message)), "250")
	c.say("RCPT TO:<ben@example.com>", "250")
	c.say("DATA", "354")
	c.send(message)
	c.say(".", "250 2.0.0")
	if all := r.memory.all(); len(all) != 1 || len(all[0].Content) <= size || len(all[0].Content) > sluice.MaxMessageBytes {
		t.Errorf("%d messages", len(all))
	}
	c.replies(envelope, 3)
	c.send("X: y\r\n" + message)
	c.say(".", "552 5.3.4")
}
