package mime

import (
	"bytes"
	"errors"
	"net/mail"
	"strings"
	"testing"
	"time"

	"sluice"
)

var (
	testNow = time.Date(2026, 11, 21, 18, 30, 0, 0, time.FixedZone("", 3600))
	testID  = "0123456789abcdef0123456789abcdef@example.com"
)

const ready = "From: a@example.com\r\nDate: Sat, 21 Nov 2026 17:30:00 +0000\r\nMessage-ID: <1@example.com>\r\n"

func TestScan(t *testing.T) {
	longest := strings.Repeat("x", MaxLineBytes)
	for name, tt := range map[string]struct{ in, want string }{
		"as it is":              {ready + "\r\nhello\r\n", ready + "\r\nhello\r\n"},
		"no end of line":        {ready + "\r\nhello", ready + "\r\nhello\r\n"},
		"no body":               {ready, ready + "\r\n"},
		"no body, no end":       {strings.TrimSuffix(ready, "\r\n"), ready + "\r\n"},
		"empty body":            {ready + "\r\n", ready + "\r\n"},
		"LF":                    {strings.ReplaceAll(ready+"\r\na\r\nb\r\n", "\r\n", "\n"), ready + "\r\na\r\nb\r\n"},
		"LF without an end":     {strings.ReplaceAll(strings.TrimSuffix(ready, "\r\n"), "\r\n", "\n"), ready + "\r\n"},
		"bare CR, LF in a body": {ready + "\r\na\rb\nc\r\r\n\n\r.\r\n", ready + "\r\na\r\nb\r\nc\r\n\r\n\r\n\r\n.\r\n"},
		"smuggling 1":           {ready + "\r\na\n.\r\nMAIL FROM:<x>", ready + "\r\na\r\n.\r\nMAIL FROM:<x>\r\n"},
		"smuggling 2":           {ready + "\r\na\r.\r\nMAIL FROM:<x>", ready + "\r\na\r\n.\r\nMAIL FROM:<x>\r\n"},
		"smuggling 3":           {ready + "\r\na\n.\nMAIL FROM:<x>\r\r\n.\r\n", ready + "\r\na\r\n.\r\nMAIL FROM:<x>\r\n\r\n.\r\n"},
		"dots":                  {ready + "\r\n.\r\n..\r\n.a\r\n", ready + "\r\n.\r\n..\r\n.a\r\n"},
		"date and id": {"From: a@example.com\r\n\r\nx\r\n",
			"From: a@example.com\r\nDate: Sat, 21 Nov 2026 17:30:00 +0000\r\nMessage-ID: <" + testID + ">\r\n\r\nx\r\n"},
		"Bcc, Return-Path": {"Return-Path: <x@y.z>\r\nBCC: a@b.c,\r\n  d@e.f\r\nResent-Bcc: q@r.s\r\n" + ready + "\r\nBcc: body\r\n", ready + "\r\nBcc: body\r\n"},
		"folded":           {ready + "Subject: a\r\n\tb\r\n \r\n c\r\n\r\nx\r\n", ready + "Subject: a\r\n\tb\r\n c\r\n\r\nx\r\n"},
		"empty subject":    {ready + "Subject:\r\n\r\nx\r\n", ready + "Subject:\r\n\r\nx\r\n"},
		"space before ':'": {ready + "Subject : a\r\n\r\nx\r\n", ready + "Subject: a\r\n\r\nx\r\n"},
		"998 octets":       {ready + "X: " + longest[3:] + "\r\n\r\n" + longest + "\r\n" + longest, ready + "X: " + longest[3:] + "\r\n\r\n" + longest + "\r\n" + longest + "\r\n"},
		"control":          {ready + "X-Sluice-Tag: a\r\n\tb\r\nx-sluice-priority: high\r\n\r\nx\r\n", ready + "\r\nx\r\n"},
		"twice what may":   {ready + "Received: a\r\nReceived: b\r\n\r\nx\r\n", ready + "Received: a\r\nReceived: b\r\n\r\nx\r\n"},
	} {
		s, err := Scan([]byte(tt.in), testID, testNow)
		if err != nil || string(s.Message) != tt.want {
			t.Errorf("%s: %v\n got %+q\nwant %q", name, err, messageOf(s), tt.want)
			continue
		}
		if !strings.Contains(tt.want, "Message-ID: <"+s.ID+">") {
			t.Errorf("%s: the id is %q", name, s.ID)
		}
		if name == "control" && (len(s.Control) != 2 || s.Control[0] != (Header{"X-Sluice-Tag", "a\tb"}) || s.Control[1].Value != "high") {
			t.Errorf("control: %q", s.Control)
		}
		again, err := Scan(s.Message, testID, testNow)
		if err != nil || !bytes.Equal(again.Message, s.Message) {
			t.Errorf("%s: again: %v, %q", name, err, messageOf(again))
		}
	}
}

func TestScanBehind(t *testing.T) {
	const trace = "Received: from a\r\n\tby b; now\r\n"
	s, err := ScanBehind([]byte(trace), []byte("From: a@b.test\nDate: x\nMessage-ID: <c@d>\n\nhi\n"), "", time.Time{})
	if want := trace + "From: a@b.test\r\nDate: x\r\nMessage-ID: <c@d>\r\n\r\nhi\r\n"; err != nil || string(s.Message) != want {
		t.Errorf("%v, %q, want %q", err, s.Message, want)
	}
}

func TestScanRefuses(t *testing.T) {
	for name, tt := range map[string]struct{ in, field, reason string }{
		"nothing":            {"", "headers.From", "missing"},
		"no From":            {"To: a@b.c\r\n\r\nx", "headers.From", "missing"},
		"only a body":        {"\r\nFrom: a@b.c\r\n", "headers.From", "missing"},
		"NUL in the body":    {ready + "\r\na\r\n\x00", "message", "NUL, in line 6"},
		"NUL in a header":    {"From: a\x00\r\n\r\n", "message", "NUL, in line 1"},
		"999 octets":         {ready + "\r\nx\r\n" + strings.Repeat("x", MaxLineBytes+1) + "\r\n", "message", "line 6 has 999 octets"},
		"999 at the end":     {ready + "\r\nx\r\n" + strings.Repeat("x", MaxLineBytes+1), "message", "line 6 has 999 octets"},
		"999 in a header":    {ready + "X: " + strings.Repeat("x", MaxLineBytes-2) + "\r\n\r\n", "headers.X", "fold it"},
		"999 in a fold":      {ready + "X: y\r\n " + strings.Repeat("x", MaxLineBytes) + "\r\n\r\n", "headers.X", "fold it"},
		"From twice":         {"From: a@b.c\r\nfrom: d@e.f\r\n\r\n", "headers.from", "twice, in line 2"},
		"Subject twice":      {ready + "Subject: a\r\nSubject: b\r\n\r\n", "headers.Subject", "twice"},
		"CR in a header":     {ready + "Subject: a\rBcc: x@y.z\r\n\r\n", "headers", "by itself"},
		"LF in a header":     {ready + "Subject: a\nBcc: x@y.z\r\n\r\n", "headers", "by itself"},
		"LF before a body":   {ready + "Subject: a\n\r\nx", "headers", "by itself"},
		"CR LF CR":           {ready + "\r\r\nx", "headers", "by itself"},
		"no colon":           {ready + "hello\r\n\r\n", "message", "line 4 is no header"},
		"space in a name":    {"From a@b.c Sat Nov 21 12:00:00 2026\r\n" + ready + "\r\n", "message", "line 1 is no header"},
		"begins with a fold": {" From: a@b.c\r\n\r\n", "message", "line 1 is no header"},
		"no name":            {ready + ": x\r\n\r\n", "message", "is no name"},
		"Latin 1":            {ready + "Subject: \xfc\r\n\r\n", "headers.Subject", "no UTF-8"},
		"many headers":       {ready + strings.Repeat("X: "+strings.Repeat("x", 900)+"\r\n", 300) + "\r\n", "headers", "octets together"},
		"too large":          {ready + "\r\n" + strings.Repeat("x\r\n", sluice.MaxMessageBytes/3), "message", "at most"},
		"too large with CR":  {ready + "\r\n" + strings.Repeat("x\n", sluice.MaxMessageBytes*2/5), "message", "as it would go out"},
	} {
		_, err := Scan([]byte(tt.in), testID, testNow)
		e, ok := errors.AsType[*Error](err)
		if !ok || e.Field != tt.field || !strings.Contains(e.Reason, tt.reason) {
			t.Errorf("%s: %v, want %s: ...%s", name, err, tt.field, tt.reason)
		}
	}
	if _, err := Scan([]byte("From: a@b.c\r\n\r\n"), "a\r\nb@c", testNow); err == nil {
		t.Error("an id with a line break was taken")
	}
}

// A sender's domain may be so long that an id at it is longer than an address may be.
func TestIDAtALongDomain(t *testing.T) {
	domain := strings.Repeat(strings.Repeat("a", 61)+".", 4) + "test"
	a, err := ParseAddress("a@" + domain)
	if err != nil {
		t.Fatal(err)
	}
	id := strings.Repeat("0", sluice.MessageIDBytes) + ".1234567890@" + a.Domain
	c, f := common(t), fields()
	if f.ID = id; !bytes.Contains(build(t, c, f), []byte("\r\nMessage-ID: <"+id+">\r\n")) {
		t.Error("a mail has another id")
	}
	if s, err := Scan([]byte("From: a@b.c\r\n\r\nx"), id, testNow); err != nil || s.ID != id {
		t.Errorf("%v", err)
	}
	for more, want := range map[int]bool{0: true, 1: false} {
		if err := CheckID("a@" + strings.Repeat("b", MaxLineBytes-len("Message-ID: <a@>")+more)); (err == nil) != want {
			t.Errorf("a line of %d octets: %v", MaxLineBytes+more, err)
		}
	}
}

func TestScanSaysWhatItHas(t *testing.T) {
	for _, tt := range []struct {
		in              string
		eightBit, utf8b bool
	}{
		{ready + "\r\nplain ASCII, and longer than a word or two\r\n", false, false},
		{ready + "\r\nplain ASCII, and longer than a word or tw\xfc\r\n", true, false},
		{ready + "Subject: ü\r\n\r\nx\r\n", false, true},
		{ready + "X-Sluice-Tag: ü\r\n\r\nx\r\n", false, false},
	} {
		s, err := Scan([]byte(tt.in), testID, testNow)
		if err != nil || s.EightBit != tt.eightBit || s.UTF8 != tt.utf8b {
			t.Errorf("%q: %+v, %v", tt.in, s, err)
			continue
		}
		if eightBit, utf8b := Octets(s.Message); eightBit != tt.eightBit || utf8b != tt.utf8b {
			t.Errorf("%q: Octets says %v, %v", tt.in, eightBit, utf8b)
		}
	}
}

// checkWire holds a message against what every message that leaves keeps.
func checkWire(t *testing.T, m []byte) *mail.Message {
	t.Helper()
	if !bytes.HasSuffix(m, []byte(crlf)) || bytes.IndexByte(m, 0) >= 0 {
		t.Fatalf("it has a NUL, or no end: %q", m)
	}
	for _, line := range bytes.Split(bytes.TrimSuffix(m, []byte(crlf)), []byte(crlf)) {
		if bytes.ContainsAny(line, "\r\n") || len(line) > MaxLineBytes {
			t.Fatalf("line %q", line)
		}
	}
	parsed, err := mail.ReadMessage(bytes.NewReader(m))
	if err != nil {
		t.Fatalf("net/mail: %v: %q", err, m)
	}
	return parsed
}

func FuzzScan(f *testing.F) {
	for _, s := range []string{ready + "\r\nx", "From: a\n\nb\r\rc\n", "a:b\r\n c\r\n\r\n", "From:a\r\nSubject:\r\n \r\n x\r\n\r\n.\r\n", "From: a\r\n\r\n\n\r", "Bcc: x\nFrom: y"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		before := bytes.Clone(raw)
		s, err := Scan(raw, testID, testNow)
		if !bytes.Equal(before, raw) {
			t.Fatal("what was handed in has changed")
		}
		if err != nil {
			if _, ok := errors.AsType[*Error](err); !ok {
				t.Fatalf("error %T", err)
			}
			return
		}
		checkWire(t, s.Message)
		again, err := Scan(s.Message, testID, testNow)
		if err != nil || !bytes.Equal(again.Message, s.Message) {
			t.Fatalf("%q scanned again: %v, %+v", s.Message, err, again)
		}
	})
}

func BenchmarkScan(b *testing.B) {
	raw := []byte(ready + "Subject: hello\r\nTo: b@example.com\r\nMIME-Version: 1.0\r\nContent-Type: text/plain\r\n\r\n" + strings.Repeat("This is a line of a mail, as long as they are at times.\r\n", 180))
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Scan(raw, testID, testNow); err != nil {
			b.Fatal(err)
		}
	}
}

func messageOf(s *Scanned) []byte {
	if s == nil {
		return nil
	}
	return s.Message
}
