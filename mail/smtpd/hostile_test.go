package smtpd

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"sluice"
	"sluice/lib/key"
)

// What others take for the end of a message is none here. Nothing that stands
// behind it becomes a message of its own, and the connection goes on in step
// (CVE-2023-51764, -51765, -51766, CVE-2023-51747, VU#302671).
func TestNothingIsSmuggled(t *testing.T) {
	r := start(t, open)
	const smuggled = "MAIL FROM:<evil@example.com>\r\nRCPT TO:<victim@example.com>\r\nDATA\r\nFrom: evil@example.com\r\n\r\nsmuggled\r\n.\r\n"
	for _, end := range []string{
		"\n.\n", "\n.\r\n", "\r\n.\n", "\r.\r", "\r.\r\n", "\r\n.\r", "\n.\r", "\r.\n", "\n\n.\n\n", "\n.\n\r", "\r\n\x00.\r\n", "\r\n.\x00\r\n", "\r\n.\r\r\n",
		"\r\n.\n\r\n", "\n\r.\n\r", "\r\r\n.\r\r\n", "\r\n\r.\r\n", "\r\r.\r\r", "\x00\r\n.\n", "\r\n.\r\x00\n", "\r\n \r.\r\n", "\r\n\x0b.\r\n", "\r\n\xc2\x85.\xc2\x85",
	} {
		before := len(r.memory.all())
		c := r.dial()
		got := c.replies(hello+envelope+"From: ann@example.com\r\nSubject: hi\r\n\r\nhello"+end+smuggled, 5)
		// The dot that ends the smuggled message ends the one around it.
		c.say("NOOP", "250 2.0.0 Nothing")
		switch after := r.memory.all(); {
		case got == "250 250 250 354 550" && len(after) == before:
		case got == "250 250 250 354 250" && len(after) == before+1 && after[before].From == "ann@example.com" && strings.Contains(string(after[before].Content), "smuggled"):
			// What is no end to anybody: the whole is one message.
			if strings.ContainsAny(strings.ReplaceAll(string(after[before].Content), "\r\n", ""), "\r\n\x00") {
				t.Errorf("%q was taken over as it is", end)
			}
		default:
			t.Errorf("%q: answered %s, %d messages", end, got, len(after)-before)
		}
	}
	for _, d := range r.memory.all() {
		if d.From != "ann@example.com" || d.To[0] != "ben@example.com" {
			t.Errorf("a message from %s to %v was smuggled in", d.From, d.To)
		}
	}
}

// evil is a mail of its own, with its commands. Nobody has said it as such.
const evil = "MAIL FROM:<evil@example.com>\r\nRCPT TO:<victim@example.com>\r\nDATA\r\n" + plainMail + ".\r\n"

// The content of a message never becomes commands, in clear or under TLS. It does
// not when no recipient was taken and the content comes all the same, and not when
// its rest comes too late. Behind it the connection goes on in step.
func TestContentIsNeverCommands(t *testing.T) {
	for _, secure := range []bool{false, true} {
		meet := func(change ...func(*Options)) (*rig, *client) {
			r := start(t, append(change, open)...)
			c := r.dial()
			if secure {
				c = c.startTLS(r.trusted())
			}
			return r, c
		}
		for _, tt := range []struct{ name, bytes, codes string }{
			{"no recipient was taken", hello + "MAIL FROM:<a@b.test>\r\nRCPT TO:<nobody>\r\nDATA\r\n" + evil, "250 250 553 554 -"},
			{"commands end in LF", strings.ReplaceAll(hello+evil, "\r\n", "\n"), "500 -"},
			{"a CR before the last CRLF", hello + envelope + plainMail + "x\r\r\n.\r\nNOOP\r\n", "250 250 250 354 550 250"},
			{"a CR between dot and CRLF", hello + envelope + plainMail + ".\r\r\n.\r\nNOOP\r\n", "250 250 250 354 550 250"},
			{"a CR behind a dot", hello + envelope + plainMail + ".\rx\r\n.\r\nNOOP\r\n", "250 250 250 354 550 250"},
		} {
			r, c := meet()
			if got := c.replies(tt.bytes, len(strings.Fields(tt.codes))); got != tt.codes || len(r.memory.all()) != 0 {
				t.Errorf("%s, TLS %t: answered %s, %d messages", tt.name, secure, got, len(r.memory.all()))
			}
		}
		r, c := meet(func(o *Options) {
			o.limits = realTimeouts
			o.limits.block = 5 * time.Millisecond
		})
		c.replies(hello+envelope+"From: a@b.test\r\n", 4)
		c.want("421")
		_, _ = io.WriteString(c, hello+evil) // fails if the server was faster
		c.want("")
		if n := len(r.memory.all()); n != 0 {
			t.Errorf("TLS %t: the rest of a message became %d messages", secure, n)
		}
	}
}

// Dots are stuffed and unstuffed (RFC 5321, 4.5.2), however the network cuts.
func TestDots(t *testing.T) {
	r := start(t, open)
	const sent = "From: ann@example.com\r\n\r\n..\r\n...\r\n..a\r\n. b\r\n.\t\r\nc.\r\n.d.\r\n\r\n"
	const meant = "\r\n\r\n.\r\n..\r\n.a\r\n b\r\n\t\r\nc.\r\nd.\r\n\r\n"
	c := r.dial()
	c.replies(hello, 1)
	for range 3 {
		c.replies(envelope, 3)
		for _, b := range []byte(sent + ".\r") {
			c.send(string(b))
		}
		c.send("\n")
		c.want("250")
	}
	for _, d := range r.memory.all() {
		if _, body, _ := strings.Cut(string(d.Content), "ann@example.com"); !strings.Contains(body, meant[4:]) {
			t.Errorf("the content is %q", d.Content)
		}
	}
}

// content of an input that comes in pieces, by the reader.
func readAll(text []byte, pieces *rand.Rand) (content []byte, rest int, err error) {
	in := &input{}
	in.fill = func(in *input) error {
		if len(text) == 0 {
			return io.EOF
		}
		room := in.room()
		n := copy(room[:min(len(room), 1+pieces.IntN(1+len(text)))], text)
		in.w += n
		text = text[n:]
		return nil
	}
	err = in.content(func(line []byte) error { content = append(content, line...); return nil })
	return content, in.unused() + len(text), err
}

// A message is the same however its octets are cut, and ends where CRLF.CRLF is
// for the first time. It has no CR or LF by itself unless that is said.
func FuzzContent(f *testing.F) {
	long := strings.Repeat("x", 40_000)
	for _, s := range []string{".\r\n", "a\r\n.\r\nNOOP\r\n", "\r\n.\r\n", "a\n.\n\r\n.\r\n", "..\r\n.\r\n", "a\r.\r\n.\r\n", long + "\r\n.\r\n", long + "\r\r\n.\r\n", "." + long + ".\r\n.\r\n.\r\n", "a\r\n.\rb\r\n.\r\n"} {
		f.Add([]byte(s), uint64(1))
	}
	f.Fuzz(func(t *testing.T, text []byte, seed uint64) {
		got, rest, err := readAll(text, rand.New(rand.NewPCG(seed, 0)))
		end := bytes.Index(text, []byte("\r\n.\r\n")) + 2
		if bytes.HasPrefix(text, []byte(".\r\n")) {
			end = 0
		} else if end == 1 {
			if err != io.EOF {
				t.Fatalf("%q has no end, and the reader says %v", text, err)
			}
			return
		}
		if want := len(text) - end - 3; rest != want {
			t.Fatalf("%q: %d octets are left, want %d", text, rest, want)
		}
		content := text[:end]
		lone := bytes.Count(content, []byte("\r")) != bytes.Count(content, []byte("\r\n")) || bytes.Count(content, []byte("\n")) != bytes.Count(content, []byte("\r\n"))
		if _, ok := errors.AsType[*fault](err); ok != lone || err != nil && !ok {
			t.Fatalf("%q: the reader says %v", text, err)
		}
		if lone {
			return
		}
		var want []byte
		for line := range bytes.SplitAfterSeq(content, []byte("\n")) {
			want = append(want, bytes.TrimPrefix(line, []byte("."))...)
		}
		if !bytes.Equal(got, want) {
			t.Fatalf("%q is read as %q", text, got)
		}
	})
}

// Messages that are no good are read to their end and refused with the reason.
func TestRefusedContent(t *testing.T) {
	r := start(t, open)
	many := strings.Repeat("Received: from a by b; now\r\n", 101)
	for _, tt := range []struct{ name, content, want string }{
		{"empty", "", "550 5.6.0"},
		{"no header", "hello\r\n", "550 5.6.0"},
		{"no From", "Subject: x\r\n\r\n", "550 5.6.0 headers.From"},
		{"two From", "From: a@b.test\r\nFrom: c@d.test\r\n\r\n", "550 5.6.0 headers.From"},
		{"NUL", plainMail + "a\x00b\r\n", "550 5.6.0"},
		{"a long line", plainMail + strings.Repeat("x", 999) + "\r\n", "550 5.6.0 line"},
		{"a very long line", plainMail + strings.Repeat("x", 100_000) + "\r\n", "550 5.6.0 line"},
		{"a bare LF", plainMail + "a\nb\r\n", "550 5.6.0 line 5 ends with an LF"},
		{"a bare CR", plainMail + "a\rb\r\n", "550 5.6.0 line 5 has a CR"},
		{"a bare CR far behind", plainMail + strings.Repeat("x", 50_000) + "\r" + strings.Repeat("x", 50_000) + "\r\n", "550 5.6.0 line 5 has a CR"},
		{"octets above 127 in a header", "From: a@b.test\r\nSubject: Grüße\r\n\r\n", "550 5.6.0 a header has octets above 127"},
		{"octets in a header that are no UTF-8", "From: a@b.test\r\nSubject: Gr\xfc\xdfe\r\n\r\n", "550 5.6.0"},
		{"in circles", many + plainMail, "550 5.6.0 the message has been through"},
		{"unknown wish", "X-Sluice-Colour: red\r\n" + plainMail, "550 5.6.0 X-Sluice-Colour is unknown"},
		{"priority", "X-Sluice-Priority: urgent\r\n" + plainMail, "550 5.6.0 X-Sluice-Priority is"},
		{"class", "X-Sluice-Class: spam\r\n" + plainMail, "550 5.6.0 X-Sluice-Class is"},
		{"tag", "X-Sluice-Tag: a,,b\r\n" + plainMail, "550 5.6.0 X-Sluice-Tag has an empty tag"},
		{"long tag", "X-Sluice-Tag: " + strings.Repeat("x", 129) + "\r\n" + plainMail, "550 5.6.0 X-Sluice-Tag has a tag of 129 bytes"},
		{"tag that is no text", "X-Sluice-Tag: =?utf-8?q?a=00?=\r\n" + plainMail, "550 5.6.0 X-Sluice-Tag has a tag that is no text"},
		{"many tags", "X-Sluice-Tag: a,b,c,d,e,f,g,h,i,j\r\nX-Sluice-Tag: k\r\n" + plainMail, "550 5.6.0 X-Sluice-Tag is one tag too many"},
		{"time", "X-Sluice-Send-At: tomorrow\r\n" + plainMail, "550 5.6.0 X-Sluice-Send-At is"},
		{"far away", "X-Sluice-Send-At: 2999-01-01T00:00:00Z\r\n" + plainMail, "550 5.6.0 X-Sluice-Send-At is"},
		{"large", plainMail + strings.Repeat(strings.Repeat("x", 98)+"\r\n", 10_500), "552 5.3.4 A message has at most 1048576"},
	} {
		c := r.dial()
		c.replies(hello+envelope, 4)
		c.send(tt.content)
		c.say(".", tt.want)
		c.say("MAIL FROM:<a@b.test>", "250") // still in step
	}
	if n := len(r.memory.all()); n != 0 {
		t.Errorf("%d of them were accepted", n)
	}
	c := r.dial()
	if got := c.replies(hello+strings.Replace(envelope, "COM>\r\n", "COM> SMTPUTF8\r\n", 1), 4); got != "250 250 250 354" {
		t.Fatal(got)
	}
}

// A message without an end costs what it may cost, and no more.
func TestEndlessMessage(t *testing.T) {
	r := start(t, open, func(o *Options) { o.MaxMessageBytes = 1000 })
	c := r.dial()
	c.replies(hello+envelope, 4)
	block := strings.Repeat(strings.Repeat("x", 998)+"\r\n", 1000)
	for {
		if _, err := io.WriteString(c, block); err != nil {
			break
		}
	}
	await(t, "its memory is given back", func() bool { return r.held.Left() == maxHeldBytes && r.Stats().Open == 0 })
	if r.refusedOf("size") != 1 {
		t.Errorf("%d refused", r.refusedOf("size"))
	}
}

// Recipients beyond the bound are to be sent to in another transaction.
func TestManyRecipients(t *testing.T) {
	r := start(t, open)
	c := r.dial()
	c.replies(hello+"MAIL FROM:<ann@example.com>\r\n", 2)
	go func() { _, _ = io.WriteString(c, recipients(10_000)) }() // the test fails below if it ends early
	for i := range 10_000 {
		want := "250 2.1.5"
		if i >= sluice.MaxRecipients {
			want = "452 4.5.3"
		}
		c.want(want)
	}
	c.say("RCPT TO:<u7@example.com>", "452")
	c.say("DATA", "354")
	c.send(plainMail)
	c.say(".", "250")
	if d := r.memory.all()[0]; len(d.To) != sluice.MaxRecipients || d.To[999] != "u999@example.com" {
		t.Errorf("%d recipients", len(d.To))
	}
	c.replies("MAIL FROM:<a@b.test>\r\nRCPT TO:<c@d.test>\r\nRCPT TO:<e@f.test>\r\nRCPT TO:<c@D.test>\r\nDATA\r\n", 5)
	c.send(plainMail)
	c.say(".", "250")
	if d := r.memory.all()[1]; len(d.To) != 2 {
		t.Errorf("a recipient who was named twice gets it twice: %v", d.To)
	}
}

// Memory for messages is bounded over all connections.
func TestMemoryIsBounded(t *testing.T) {
	r := start(t, open)
	if !r.held.Take(maxHeldBytes) {
		t.Fatal("the memory is not there")
	}
	c := r.dial()
	c.replies(hello+envelope, 4)
	c.send(plainMail)
	c.say(".", "452 4.3.1")
	r.held.Give(40 << 10)
	c.replies(envelope, 3)
	c.send(plainMail)
	c.say(".", "250")
	c.replies(envelope, 3)
	c.send(plainMail + strings.Repeat(strings.Repeat("x", 98)+"\r\n", 1000))
	c.say(".", "452 4.3.1")
	r.held.Give(maxHeldBytes - 40<<10)
}

// Who is slow is told so, and closed.
func TestSlowClients(t *testing.T) {
	for _, tt := range []struct {
		name, bytes string
		limit       timeouts
	}{
		{"says nothing", "", timeouts{stranger: time.Millisecond, command: time.Hour, block: time.Hour, content: time.Hour}},
		{"says half a command", "EHL", timeouts{stranger: 5 * time.Millisecond, command: time.Hour, block: time.Hour, content: time.Hour}},
		{"stops in a message", hello + envelope + "From: a@b.te", timeouts{stranger: time.Hour, command: time.Hour, block: 5 * time.Millisecond, content: time.Hour}},
		{"goes on for ever", hello + envelope, timeouts{stranger: time.Hour, command: time.Hour, block: time.Hour, content: 20 * time.Millisecond}},
	} {
		r := start(t, open, func(o *Options) { o.limits = tt.limit })
		c := r.silent()
		c.send(tt.bytes)
		for {
			got := c.reply()
			if strings.HasPrefix(got, "421 4.4.2") {
				break
			}
			if got == "" {
				t.Errorf("a client that %s is not told that it was too slow", tt.name)
				break
			}
		}
		c.want("")
	}
}

// Who has not logged in may say what a login takes, and not go on for ever.
func TestStrangersThatTalk(t *testing.T) {
	r := start(t)
	for _, line := range []string{"NOOP\r\n", "RSET\r\n", "VRFY ann\r\n", hello, "HELP\r\n"} {
		c := r.dial()
		got := c.replies(strings.Repeat(line, 300), 300)
		if n := strings.Count(got, " "); n != maxStrangerCommands+1 || !strings.HasSuffix(got, " 421 -") {
			t.Errorf("%q: answered %d times, %s in the end", line, n, got[max(0, len(got)-20):])
		}
	}
	c := r.dial()
	c.say("EHLO me", "250")
	c.say(plain(goodKey), "235")
	if got := c.replies(strings.Repeat("NOOP\r\n", 1000), 1000); strings.Count(got, "250") != 1000 {
		t.Error("a client that has logged in is put out")
	}
}

// Strangers, however many and however slow, neither keep out a client with a
// key nor cut it off in the middle of its message.
func TestStrangersMakeRoom(t *testing.T) {
	r := start(t, func(o *Options) { o.maxConns = 50 })
	c := r.dial()
	c.say("EHLO me", "250")
	c.say(plain(goodKey), "235")
	c.replies(envelope, 3)
	for range 6 {
		for range 50 {
			stranger := r.dial()
			stranger.send("E")
		}
		c.send(plainMail[:10])
		c.send("x\r\nX-")
		late := r.dial()
		late.say("EHLO me", "250")
		late.say(plain(goodKey), "235")
		if got := late.replies(envelope+plainMail+".\r\n", 4); got != "250 250 354 250" {
			t.Fatalf("a later client: %s", got)
		}
	}
	c.send("End: here\r\n\r\nhello\r\n")
	c.say(".", "250")
}

// A key that is revoked by now does not help a stranger either.
func TestWhoseKeyIsRevokedMakesRoom(t *testing.T) {
	const otherKey = "another-key"
	r := start(t, func(o *Options) { o.maxConns = 2 })
	r.keys.change(func() {
		r.keys.known[otherKey] = key.NewIdentity("other", "other", []string{string(key.MessagesSend)})
	})
	holds, revoked := r.dial(), r.dial()
	for c, text := range map[*client]string{holds: otherKey, revoked: goodKey} {
		c.say("EHLO me", "250")
		c.say(plain(text), "235")
	}
	r.keys.change(func() { delete(r.keys.known, goodKey) })
	revoked.say("MAIL FROM:<a@b.test>", "530 5.7.0") // it has been quiet for less long
	r.dial().say("EHLO me", "250")
	revoked.want("")
	holds.say("NOOP", "250")
}

// A thousand who say nothing do not keep out who speaks; beyond the bound the
// one that was quiet longest goes.
func TestIdleConnections(t *testing.T) {
	r := start(t, open, func(o *Options) { o.maxConns = 1000 })
	idle := make([]*client, 1000)
	for i := range idle {
		idle[i] = r.dial()
	}
	for range 3 {
		c := r.dial()
		if got := c.replies(hello+envelope+plainMail+".\r\n", 5); got != "250 250 250 354 250" {
			t.Fatal(got)
		}
	}
	idle[0].want("")
	idle[2].want("")
	idle[999].say("NOOP", "250")
}
