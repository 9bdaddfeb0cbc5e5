package smtpd

import (
	"bytes"
	"errors"
	"fmt"
)

// What a client sends is lines (RFC 5321, 2.3.8): each ends in CRLF, and a CR
// or LF by itself is no end of anything. A server that takes "\n.\n" or
// "\r.\r\n" for the end of a message lets the rest of it be read as commands.
// That is how mail is smuggled (CVE-2023-51764, -51765, -51766). So content
// ends with CRLF.CRLF and nothing else. Content with anything that another
// server might take for an end is refused as a whole by servers that take mail to be sent, after it has been read to
// its real end. After a command that does not end in CRLF nothing more is read
// at all.

// Bounds of what is read.
const (
	// maxLineBytes bounds a command and its CRLF. RFC 4954, 4 wants 12,288 for
	// AUTH; all others are shorter (RFC 5321, 4.5.3.1.4).
	maxLineBytes = 12288

	inputBytes = 16 << 10
)

// Why a connection cannot go on.
var (
	errLineTooLong = errors.New("the line is too long")
	errBareEnd     = errors.New("lines end in CRLF, this one has a CR or LF by itself, or a NUL")
)

// input is what was read and not used yet. fill reads more into it.
type input struct {
	buf  [inputBytes]byte
	r, w int // buf[r:w] was not used yet
	fill func(*input) error

	// Of the content that is read, or was read last.
	lines int   // how many were begun
	wrong error // a *fault, if it has one
}

// unused is how many octets were read ahead.
func (in *input) unused() int { return in.w - in.r }

// room moves what is there to the front and returns the room behind it.
func (in *input) room() []byte {
	if in.r > 0 {
		in.w = copy(in.buf[:], in.buf[in.r:in.w])
		in.r = 0
	}
	return in.buf[in.w:]
}

// line returns the next line without its CRLF, valid until the next call.
func (in *input) line() ([]byte, error) {
	for searched := 0; ; {
		if i := bytes.IndexByte(in.buf[in.r+searched:in.w], '\n'); i >= 0 {
			line := in.buf[in.r : in.r+searched+i+1]
			in.r += len(line)
			if len(line) > maxLineBytes {
				return nil, errLineTooLong
			}
			text, ok := bytes.CutSuffix(line, []byte("\r\n"))
			if !ok || bytes.IndexByte(text, '\r') >= 0 || bytes.IndexByte(text, 0) >= 0 {
				return nil, errBareEnd
			}
			return text, nil
		}
		if searched = in.unused(); searched >= maxLineBytes {
			return nil, errLineTooLong
		}
		if err := in.fill(in); err != nil {
			return nil, err
		}
	}
}

// content hands the lines of a message to add, with their CRLF and without
// their stuffed dots (RFC 5321, 4.5.2), up to CRLF.CRLF. It returns an *fault
// if a CR or LF was by itself. Then add got all of it all the same, and what
// follows in the input is still the next command.
func (in *input) content(add func([]byte) error) error {
	in.lines, in.wrong = 1, nil
	start := true // of a line: what is before it ended in CRLF
	for {
		i := bytes.IndexByte(in.buf[in.r:in.w], '\n')
		if i < 0 {
			if in.unused() == inputBytes {
				// A line that does not fit. Its last octet may be the CR of its end.
				if err := in.part(add, inputBytes-1, start); err != nil {
					return err
				}
				start = false
			}
			if err := in.fill(in); err != nil {
				return err
			}
			continue
		}
		line := in.buf[in.r : in.r+i+1]
		crlf := i > 0 && line[i-1] == '\r'
		if start && crlf && i == 2 && line[0] == '.' {
			in.r += 3
			return in.wrong
		}
		if !crlf && in.wrong == nil {
			in.wrong = &fault{fmt.Sprintf("line %d ends with an LF by itself: lines end in CRLF", in.lines)}
		}
		if err := in.part(add, i+1, start); err != nil {
			return err
		}
		start = crlf
		in.lines++
	}
}

// part uses n octets: a line, or a part of one that begins at its start or not.
func (in *input) part(add func([]byte) error, n int, start bool) error {
	text := in.buf[in.r : in.r+n]
	in.r += n
	if start && text[0] == '.' {
		text = text[1:]
	}
	if body := bytes.TrimSuffix(text, []byte("\r\n")); in.wrong == nil && bytes.IndexByte(body, '\r') >= 0 {
		in.wrong = &fault{fmt.Sprintf("line %d has a CR by itself: lines end in CRLF", in.lines)}
	}
	return add(text)
}

// fault is why a message that was read to its end is refused.
type fault struct{ reason string }

// Error returns the reason.
func (f *fault) Error() string { return f.reason }
