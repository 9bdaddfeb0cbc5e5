package smtp

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"sluice/mail"
)

func TestRepliesThatAreNone(t *testing.T) {
	for _, text := range []string{
		"hello\r\n", "25\r\n", "2500 x\r\n", "250x\r\n", "150 x\r\n", "650 x\r\n", "000 x\r\n", "\r\n",
		"250-a\r\n251 b\r\n", "+OK\r\n", "HTTP/1.1 400 Bad Request\r\n", "25\xb0 x\r\n",
		"250 " + strings.Repeat("x", replyBufferBytes) + "\r\n",
		strings.Repeat("250-x\r\n", maxReplyLines) + "250 x\r\n",
	} {
		if r, err := readReply(text); !errors.Is(err, errReply) {
			t.Errorf("%.40q: %v, %v", text, r, err)
		}
	}
	for _, text := range []string{"250 a\r\n", "250\r\n", "250 \r\n", "250-a\r\n250-\r\n250 b\r\n", "250 a\n", "354 go\r\n"} {
		if r, err := readReply(text); err != nil || r.code == 0 {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := readReply("250-a\r\n250 b"); err != io.EOF {
		t.Errorf("half a reply: %v", err)
	}
}

// Whatever a server writes, in whatever pieces it comes: the same replies are
// read, none is longer than it may be, and nothing goes wrong.
func FuzzReplies(f *testing.F) {
	f.Add([]byte("250-a\r\n250 b\r\n354 go\r\n550 5.1.1 nobody\r\n"))
	f.Add([]byte("250-5.7.1 a\r\n250 5.7.1 b\r\nx"))
	f.Add([]byte("421 \xff\x00\r\r\n\n"))
	f.Add(bytes.Repeat([]byte("250-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\r\n"), 140))
	f.Fuzz(func(t *testing.T, data []byte) {
		read := func(from io.Reader) (all []string, end string) {
			r := newReplies(from)
			for {
				one, err := r.next(func(line []byte) { all = append(all, string(line)) })
				if err != nil {
					return all, err.Error()
				}
				enhanced, text := cutEnhanced(one.code, one.text)
				line := oneLine(string(text))
				if one.code < 200 || one.code > 599 || len(one.text) > mail.MaxReplyBytes || len(line) > mail.MaxReplyBytes || len(enhanced) > len("5.123.123") || strings.ContainsAny(line, "\r\n\x00") {
					t.Fatalf("%d %q %q", one.code, enhanced, line)
				}
				all = append(all, string(one.text), line)
				for at := stepConnect; at <= stepEnd; at++ {
					if kind, _, _ := meaningOf(at, max(400, one.code), enhanced, one.text); kind == mail.ResultSent || kind == mail.ResultInDoubt {
						t.Fatalf("%s: %q is judged %d", at, one.text, kind)
					}
				}
			}
		}
		whole, end := read(bytes.NewReader(data))
		for _, from := range []io.Reader{iotest.OneByteReader(bytes.NewReader(data)), iotest.HalfReader(bytes.NewReader(data)), iotest.DataErrReader(bytes.NewReader(data))} {
			if pieces, e := read(from); !slices.Equal(pieces, whole) || e != end {
				t.Fatalf("in pieces: %q, %s; at once: %q, %s", pieces, e, whole, end)
			}
		}
	})
}
