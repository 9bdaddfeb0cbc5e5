package smtp

import (
	"strings"
	"testing"

	"sluice/mail"
	"sluice/test/sink"
)

// What a server does not offer is not sent to it, and what would break out of
// its place is sent to nobody. The rest of the window goes on.
func TestWhatIsNotSent(t *testing.T) {
	plain := envelopes(1, 100)[0]
	change := func(f func(e *mail.Envelope)) mail.Envelope {
		e := plain
		f(&e)
		return e
	}
	body := func(text string) mail.Envelope {
		return change(func(e *mail.Envelope) { e.Content = []byte("Message-ID: " + id(0) + "\r\n\r\n" + text) })
	}
	for _, x := range []struct {
		name    string
		e       mail.Envelope
		without string
		says    string // empty: it is sent
		blame   mail.Blame
	}{
		{"bare LF", body("a\nb\r\n"), "", "stands alone", mail.BlameMessage},
		{"bare CR", body("a\rb\r\n"), "", "stands alone", mail.BlameMessage},
		{"CR at the end", body("a\r\n\r"), "", "stands alone", mail.BlameMessage},
		{"LF first", change(func(e *mail.Envelope) { e.Content = []byte("\nx\r\n") }), "", "octet 0", mail.BlameMessage},
		{"smuggled: LF . LF", body("a\n.\nMAIL FROM:<x@y>\r\n"), "", "stands alone", mail.BlameMessage},
		{"smuggled: CR . CR LF", body("a\r.\r\nMAIL FROM:<x@y>\r\n"), "", "stands alone", mail.BlameMessage},
		{"smuggled: CR LF . CR", body("a\r\n.\rMAIL FROM:<x@y>\r\n"), "", "stands alone", mail.BlameMessage},
		{"smuggled: CR LF . CR LF", body("a\r\n.\r\nMAIL FROM:<x@y>\r\n"), "", "", 0},
		{"empty", change(func(e *mail.Envelope) { e.Content = nil }), "", "", 0},
		{"8-bit", body("na\xc3\xafve\r\n"), "", "", 0},
		{"8-bit, not offered", body("na\xc3\xafve\r\n"), "8BITMIME", "8BITMIME", mail.BlameMessage},
		{"said to be 8-bit, not offered", change(func(e *mail.Envelope) { e.EightBit = true }), "8BITMIME", "8BITMIME", mail.BlameMessage},
		{"7-bit, nothing offered", plain, "8BITMIME", "", 0},
		{"UTF-8 in the address", change(func(e *mail.Envelope) { e.To = "jos\u00e9@sink.test" }), "", "", 0},
		{"UTF-8 in the address, not offered", change(func(e *mail.Envelope) { e.To = "jos\u00e9@sink.test" }), "SMTPUTF8", "SMTPUTF8", mail.BlameMessage},
		{"UTF-8 in the header, not offered", change(func(e *mail.Envelope) { e.UTF8 = true }), "SMTPUTF8", "SMTPUTF8", mail.BlameMessage},
		{"too large", body(strings.Repeat("0123456789\r\n", 1000)), "", "takes 10000", mail.BlameMessage},
		{"too large, and the server does not say so", body(strings.Repeat("0123456789\r\n", 1000)), "SIZE", "too large", mail.BlameMessage},
		{"CR LF in the recipient", change(func(e *mail.Envelope) { e.To = "a@b\r\nRCPT TO:c@d" }), "", "control character", mail.BlameRecipient},
		{"NUL in the recipient", change(func(e *mail.Envelope) { e.To = "a\x00@b" }), "", "control character", mail.BlameRecipient},
		{"a parameter in the sender", change(func(e *mail.Envelope) { e.From = "a@b> BODY=8BITMIME" }), "", "angle bracket", mail.BlameMessage},
		{"a space", change(func(e *mail.Envelope) { e.To = "a b@c" }), "", "space", mail.BlameRecipient},
		{"a quoted space", change(func(e *mail.Envelope) { e.To = `"a b"@c` }), "", "", 0},
		{"half a quotation", change(func(e *mail.Envelope) { e.To = `"a b@c` }), "", "quotation", mail.BlameRecipient},
		{"a quotation that ends in a backslash", change(func(e *mail.Envelope) { e.To = `"a\` }), "", "backslash", mail.BlameRecipient},
		{"no recipient", change(func(e *mail.Envelope) { e.To = "" }), "", "empty", mail.BlameRecipient},
		{"too long", change(func(e *mail.Envelope) { e.To = strings.Repeat("a", 254) + "@b" }), "", "longer", mail.BlameRecipient},
	} {
		for _, mode := range modes {
			t.Run(x.name+", "+mode.name, func(t *testing.T) {
				s := startSink(t, sink.Options{Without: append([]string{x.without}, mode.without...), MaxBytes: 10000})
				r := newRelay(t, s.Addr(), Options{})
				all := envelopes(3, 100)
				all[1] = x.e
				results := deliver(t, limit(t), r, all)
				want := "SSS"
				if x.says != "" {
					want = "SFS"
				}
				one := results[1]
				if kinds(results) != want || !strings.Contains(one.Text, x.says) || one.Blame != x.blame || s.Received() != strings.Count(want, "S") {
					t.Errorf("%s, %d taken: %+v", kinds(results), s.Received(), one)
				}
			})
		}
	}
}
