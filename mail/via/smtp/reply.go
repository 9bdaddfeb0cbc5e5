package smtp

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"sluice/mail"
)

const (
	// replyBufferBytes is also the longest line of a reply that is read:
	// RFC 5321, 4.5.3.1.5 allows 512 octets.
	replyBufferBytes = 4 << 10

	// maxReplyLines bounds the lines of one reply.
	maxReplyLines = 128
)

// errReply: what the server says is no SMTP. Nothing after it can be trusted to
// be the answer to what was asked.
var errReply = errors.New("the server does not speak SMTP")

// reply is what a server answers. Its text is valid until the next one is read.
type reply struct {
	code int
	text []byte // without the code, lines joined by spaces, at most MaxReplyBytes
}

func (r reply) positive() bool { return r.code >= 200 && r.code < 300 }

// replies reads replies (RFC 5321, 4.2) without allocating.
type replies struct {
	from       io.Reader
	buf        []byte
	start, end int // of what is read and not yet consumed
	text       []byte
}

func newReplies(from io.Reader) replies {
	return replies{from: from, buf: make([]byte, replyBufferBytes), text: make([]byte, 0, mail.MaxReplyBytes)}
}

// buffered is how much has been read and not yet consumed.
func (r *replies) buffered() int { return r.end - r.start }

// begins reports whether that begins so.
func (r *replies) begins(text string) bool {
	return bytes.HasPrefix(r.buf[r.start:r.end], []byte(text))
}

// next reads one reply. each, if not nil, is called with each line's text.
// An error of the connection is returned as it is.
func (r *replies) next(each func(line []byte)) (reply, error) {
	r.text = r.text[:0]
	code := 0
	for range maxReplyLines {
		line, err := r.line()
		if err != nil {
			return reply{}, err
		}
		got, more, text, ok := cutReply(line)
		if !ok {
			return reply{}, fmt.Errorf("%w: it answered %q", errReply, line[:min(len(line), 80)])
		}
		if code != 0 && got != code {
			return reply{}, fmt.Errorf("%w: the lines of one reply have the codes %d and %d", errReply, code, got)
		}
		code = got
		if each != nil {
			each(text)
		}
		r.keep(code, text)
		if !more {
			return reply{code, r.text}, nil
		}
	}
	return reply{}, fmt.Errorf("%w: a reply has more than %d lines", errReply, maxReplyLines)
}

// keep adds a line to the text, as far as it fits. Many servers begin each line
// of a reply with the same enhanced code: it is kept once.
func (r *replies) keep(code int, line []byte) {
	if len(r.text) > 0 {
		if first, _ := cutEnhanced(code, r.text); first != "" {
			if again, rest := cutEnhanced(code, line); again == first {
				line = rest
			}
		}
		if len(r.text) < cap(r.text) {
			r.text = append(r.text, ' ')
		}
	}
	r.text = append(r.text, line[:min(len(line), cap(r.text)-len(r.text))]...)
}

// line returns the next line without its end. A bare LF ends one as well: it is
// only the server's words, and some write it.
func (r *replies) line() ([]byte, error) {
	seen := 0
	for {
		if i := bytes.IndexByte(r.buf[r.start+seen:r.end], '\n'); i >= 0 {
			line := r.buf[r.start : r.start+seen+i]
			r.start += seen + i + 1
			return bytes.TrimSuffix(line, []byte("\r")), nil
		}
		seen = r.end - r.start
		if r.start > 0 {
			copy(r.buf, r.buf[r.start:r.end])
			r.start, r.end = 0, seen
		}
		if r.end == len(r.buf) {
			return nil, fmt.Errorf("%w: a line of a reply has more than %d octets", errReply, len(r.buf))
		}
		n, err := r.from.Read(r.buf[r.end:])
		r.end += n
		if n == 0 && err != nil {
			return nil, err
		}
	}
}

// cutReply takes a line of a reply apart: 250-text, 250 text, 250.
func cutReply(line []byte) (code int, more bool, text []byte, ok bool) {
	if len(line) < 3 {
		return 0, false, nil, false
	}
	for _, c := range line[:3] {
		if c < '0' || c > '9' {
			return 0, false, nil, false
		}
		code = code*10 + int(c-'0')
	}
	if code < 200 || code > 599 {
		return 0, false, nil, false
	}
	if len(line) == 3 {
		return code, false, nil, true
	}
	if line[3] != ' ' && line[3] != '-' {
		return 0, false, nil, false
	}
	return code, line[3] == '-', line[4:], true
}

// cutEnhanced takes the enhanced code from the beginning of a reply's text
// (RFC 2034, RFC 3463). Its class has to be that of the reply's code.
func cutEnhanced(code int, text []byte) (enhanced string, rest []byte) {
	n, dots, digits := 0, 0, 0
	for ; n < len(text); n++ {
		c := text[n]
		if c >= '0' && c <= '9' && digits < 3 {
			digits++
			continue
		}
		if c == '.' && digits > 0 && dots < 2 && (dots > 0 || digits == 1) {
			dots, digits = dots+1, 0
			continue
		}
		break
	}
	if dots != 2 || digits == 0 || int(text[0]-'0') != code/100 || n < len(text) && text[n] != ' ' {
		return "", text
	}
	rest = bytes.TrimLeft(text[n:], " ")
	if string(text[:n]) == "2.0.0" {
		return "2.0.0", rest // by far the most, without an allocation
	}
	return string(text[:n]), rest
}

// oneLine is mail.ReplyText of a text that mostly is one already.
func oneLine(text string) string {
	clean := len(text) <= mail.MaxReplyBytes
	for i := 0; clean && i < len(text); i++ {
		clean = text[i] >= ' ' && text[i] < 0x7f
	}
	if clean {
		return text
	}
	return mail.ReplyText(strings.ToValidUTF8(text, "?"))
}
