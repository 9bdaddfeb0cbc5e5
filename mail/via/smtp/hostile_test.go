package smtp

import (
	"bufio"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/mail"
)

// answering is a server that says what a test wants it to. answer is asked for
// each command, by its verb, for "CONNECT", and for "." behind a content by DATA;
// it returns what is written, and may write itself. A chunk is read before it is
// asked about.
func answering(t *testing.T, answer func(c net.Conn, verb string) string) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				defer c.Close()
				_ = c.SetDeadline(time.Now().Add(testWithin))
				converse(c, answer)
			})
		}
	})
	t.Cleanup(func() { l.Close(); running.Wait() })
	return l.Addr().String()
}

func converse(c net.Conn, answer func(c net.Conn, verb string) string) {
	r := bufio.NewReader(c)
	for verb, content := "CONNECT", false; ; {
		text := answer(c, verb)
		if _, err := io.WriteString(c, text); err != nil || verb == "QUIT" {
			return
		}
		content = verb == "DATA" && strings.HasPrefix(text, "354")
		for {
			line, err := r.ReadString('\n')
			if err != nil {
				return
			}
			if !content {
				words := strings.Fields(line)
				if verb = words[0]; verb == "BDAT" {
					n, _ := strconv.ParseInt(words[1], 10, 64) // it is our client that says it
					if _, err := io.CopyN(io.Discard, r, n); err != nil {
						return
					}
				}
				break
			}
			if verb = "."; line == ".\r\n" {
				break
			}
		}
	}
}

// polite answers as servers do. offers are lines of EHLO's reply.
func polite(verb string, offers ...string) string {
	switch verb {
	case "CONNECT":
		return "220 hello\r\n"
	case "EHLO":
		return "250-me\r\n" + strings.Join(append(offers, "250 SIZE\r\n"), "")
	case "DATA":
		return "354 go on\r\n"
	case "QUIT":
		return "221 bye\r\n"
	}
	return "250 2.0.0 fine\r\n"
}

// offersOf are the lines by which a mode is offered.
var offersOf = map[string][]string{
	"chunking":   {"250-PIPELINING\r\n", "250-CHUNKING\r\n"},
	"pipelining": {"250-PIPELINING\r\n"},
	"lockstep":   nil,
}

// drip writes an octet now and then, never the end of a reply, until nobody is
// there any more. It counts them.
func drip(c net.Conn, count *atomic.Int64) string {
	for text := "250-"; ; text = "x" {
		for i := range len(text) {
			if _, err := c.Write([]byte{text[i]}); err != nil {
				return ""
			}
			count.Add(1)
			<-time.After(time.Millisecond)
		}
	}
}

// The time of a reply is that of the whole of it. A server that sends an octet
// now and then does not hold a connection for longer, with the mails on it.
func TestRepliesThatDrip(t *testing.T) {
	const short = 100 * time.Millisecond
	for mode, offers := range offersOf {
		for _, step := range []string{"CONNECT", "EHLO", "MAIL", "RCPT", "DATA", ".", "BDAT"} {
			if (step == "BDAT") != (mode == "chunking") && (step == "DATA" || step == "." || step == "BDAT") {
				continue
			}
			t.Run(mode+" "+step, func(t *testing.T) {
				t.Parallel()
				var octets atomic.Int64
				address := answering(t, func(c net.Conn, verb string) string {
					if verb == step {
						return drip(c, &octets)
					}
					return polite(verb, offers...)
				})
				r := newRelay(t, address, Options{Timeouts: Timeouts{Greeting: short, Command: short, Data: short, Block: short, End: short, Closing: short}})
				for _, one := range deliver(t, limit(t), r, envelopes(3, 300)) {
					if one.Kind != mail.ResultUntried && one.Kind != mail.ResultInDoubt || !strings.Contains(one.Text, "timeout") {
						t.Errorf("%+v", one)
					}
				}
			})
		}
	}
}

// Such a server does not hold a program that stops and closes its connections
// either.
func TestFarewellThatDrips(t *testing.T) {
	var octets atomic.Int64
	address := answering(t, func(c net.Conn, verb string) string {
		if verb == "QUIT" {
			return drip(c, &octets)
		}
		return polite(verb)
	})
	r := newRelay(t, address, Options{Timeouts: Timeouts{Closing: 50 * time.Millisecond}})
	if got := kinds(deliver(t, limit(t), r, envelopes(1, 300))); got != "S" {
		t.Fatal(got)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if n := octets.Load(); n >= replyBufferBytes {
		t.Errorf("it was listened to for %d octets", n)
	}
}

// Replies that come before what they would answer are no replies: else a mail
// that is refused would be held for taken.
func TestRepliesBeforeCommands(t *testing.T) {
	const more, start = "250 ok\r\n250 ok\r\n250 2.0.0 taken\r\n", "250 ok\r\n250 ok\r\n354 go on\r\n250 2.0.0 taken\r\n"
	for _, x := range []struct{ mode, step, more, want string }{
		{"chunking", "CONNECT", more, "---"}, {"chunking", "EHLO", more, "---"}, {"pipelining", "EHLO", more, "---"}, {"lockstep", "EHLO", more, "---"},
		{"lockstep", "MAIL", more, "---"}, {"lockstep", "RCPT", more, "---"}, {"lockstep", ".", more, "S--"},
		{"chunking", "CONNECT", "250-me\r\n250-PIPELINING\r\n250 CHUNKING\r\n", "---"}, // else each reply is that to the command before
		{"pipelining", ".", start, "S--"},                                              // MAIL, RCPT and DATA of the next are on their way by then
	} {
		t.Run(x.mode+" "+x.step, func(t *testing.T) {
			t.Parallel()
			address := answering(t, func(_ net.Conn, verb string) string {
				text := polite(verb, offersOf[x.mode]...)
				if verb == x.step {
					text += x.more
				}
				return text
			})
			r := newRelay(t, address, Options{})
			results := deliver(t, limit(t), r, envelopes(3, 300))
			if got := kinds(results); got != x.want || !strings.Contains(results[2].Text, "before it was asked") {
				t.Errorf("%s, want %s: %+v", got, x.want, results[2])
			}
		})
	}
	t.Run("behind a refusal", func(t *testing.T) { // what comes next is RSET
		t.Parallel()
		var resets atomic.Int64
		address := answering(t, func(_ net.Conn, verb string) string {
			switch verb {
			case "RSET":
				resets.Add(1)
			case "RCPT":
				return "550 5.1.1 nobody\r\n250 ok\r\n"
			}
			return polite(verb)
		})
		r := newRelay(t, address, Options{})
		results := deliver(t, limit(t), r, envelopes(3, 300))
		if got := kinds(results); got != "F--" || !strings.Contains(results[2].Text, "before it was asked") || resets.Load() != 0 {
			t.Errorf("%s: %+v, and it was asked on", got, results[2])
		}
	})
	t.Run("a chunk that has not left", func(t *testing.T) {
		over := make(chan struct{})
		address := answering(t, func(c net.Conn, verb string) string {
			if verb == "MAIL" {
				_, _ = io.WriteString(c, "250 ok\r\n250 ok\r\n250 2.0.0 taken\r\n") // the client looks at it
				<-over                                                              // and nothing is read
			}
			return polite(verb, offersOf["chunking"]...)
		})
		defer close(over)
		r := newRelay(t, address, Options{})
		results := deliver(t, limit(t), r, envelopes(2, 24<<20)) // more than the kernel takes
		if got := kinds(results); got != "--" || !strings.Contains(results[0].Text, "does not have") {
			t.Errorf("%s: %+v", got, results[0])
		}
	})
}

// A content is not held for taken that the server did not have as a whole, whatever
// it says of it.
func TestContentsTakenTooEarly(t *testing.T) {
	for _, mode := range []string{"pipelining", "lockstep"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			over := make(chan struct{})
			address := answering(t, func(c net.Conn, verb string) string {
				if verb == "DATA" {
					_, _ = io.WriteString(c, "354 go on\r\n")
					_, _ = c.Read(make([]byte, 1)) // the content is on its way
					_, _ = io.WriteString(c, "250 2.0.0 taken\r\n")
					<-over // and nothing more is read
				}
				return polite(verb, offersOf[mode]...)
			})
			defer close(over)
			r := newRelay(t, address, Options{Timeouts: Timeouts{Block: 300 * time.Millisecond}})
			results := deliver(t, limit(t), r, envelopes(2, 24<<20)) // more than the kernel takes
			if got := kinds(results); got != "--" {
				t.Errorf("%s: %+v", got, results[0])
			}
		})
	}
}

// Only that it closes may a server say at any time (RFC 5321, 3.8): then it takes
// nothing, and who asks next is told so.
func TestClosingBeforeCommands(t *testing.T) {
	address := answering(t, func(_ net.Conn, verb string) string {
		text := polite(verb)
		if verb == "." {
			text += "421 4.3.2 closing\r\n"
		}
		return text
	})
	r := newRelay(t, address, Options{})
	results := deliver(t, limit(t), r, envelopes(3, 300))
	if got := kinds(results); got != "SD-" || !results[1].Closed || !results[2].Closed {
		t.Errorf("%s: %+v", got, results[1:])
	}
}

// A server that offers CHUNKING and refuses BDAT, however it puts it, gets the
// mail by DATA.
func TestChunksThatAreRefused(t *testing.T) {
	for _, refusal := range []string{"500 what", "502 5.5.1 no", "501 5.5.4 bad arguments", "503 5.5.1 bad sequence", "503 DATA first", "504 5.5.4 not here"} {
		t.Run(refusal, func(t *testing.T) {
			t.Parallel()
			address := answering(t, func(_ net.Conn, verb string) string {
				if verb == "BDAT" {
					return refusal + "\r\n"
				}
				return polite(verb, offersOf["chunking"]...)
			})
			r := newRelay(t, address, Options{})
			if got := kinds(deliver(t, limit(t), r, envelopes(1, 300))); got != "D" {
				t.Errorf("by BDAT: %s", got)
			}
			if got := kinds(deliver(t, limit(t), r, envelopes(3, 300))); got != "SSS" {
				t.Errorf("then: %s", got)
			}
		})
	}
	for _, refusal := range []string{"550 5.7.1 spam", "501 5.6.0 what a content"} {
		t.Run("a mail that it does not want, "+refusal, func(t *testing.T) {
			address := answering(t, func(_ net.Conn, verb string) string {
				if verb == "BDAT" {
					return refusal + "\r\n"
				}
				return polite(verb, offersOf["chunking"]...)
			})
			r := newRelay(t, address, Options{})
			if got := kinds(deliver(t, limit(t), r, envelopes(2, 300))); got != "FF" || r.noChunk.Load() {
				t.Error(got)
			}
		})
	}
}

// What never ends is not read to its end.
func TestEndlessReplies(t *testing.T) {
	for name, text := range map[string]string{
		"lines": "250-x\r\n", "a line": "250 xxxxxxxxxxxxxxxx", "codes that are none": "150 wait\r\n", "other codes": "250-a\r\n220 b\r\n",
	} {
		for _, step := range []string{"CONNECT", "EHLO", "MAIL", "."} {
			t.Run(name+" "+step, func(t *testing.T) {
				t.Parallel()
				address := answering(t, func(c net.Conn, verb string) string {
					if verb != step {
						return polite(verb)
					}
					for block := strings.Repeat(text, 1000); ; {
						if _, err := io.WriteString(c, block); err != nil {
							return ""
						}
					}
				})
				r := newRelay(t, address, Options{})
				one := deliver(t, limit(t), r, envelopes(1, 300))[0]
				if one.Kind != mail.ResultUntried && (step != "." || one.Kind != mail.ResultInDoubt) || !strings.Contains(one.Text, "speak SMTP") && !strings.Contains(one.Text, "asked") {
					t.Errorf("%+v", one)
				}
			})
		}
	}
}
