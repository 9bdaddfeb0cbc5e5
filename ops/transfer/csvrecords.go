package transfer

import (
	"bufio"
	"bytes"
	"fmt"
	"io"

	"sluice/store"
)

// maxRecordBytes bounds a record of a CSV: a quote that is never closed
// would take the rest of the file for one.
const maxRecordBytes = 4 << 20

// csvRecords cuts a CSV into records, line by line.
//
// The idea. encoding/csv reads on until a quote is closed, so one stray quote
// makes a record of the rest of the file, and what it took is lost. Here the
// lines of a record are gathered first, by the quotes alone, and handed to it
// when they are whole. So the lines of what is no record are known, and each
// is refused by its number.
type csvRecords struct {
	in        *lineSource
	delimiter []byte

	number  int64  // of the last line read
	buf     []byte // the record being gathered, all its lines
	unread  []byte // what Read has not handed out of the record
	quoted  bool   // the last line read ends within a quote
	quoteAt int64  // the line in which that quote opens

	refused   []byte // lines that are still to be refused
	refusedAt int64  // the number of the first of them
	firstAt   int64  // where what is refused began
	why       error  // of the first
}

// Read implements io.Reader: it hands out the last record that next found.
func (c *csvRecords) Read(p []byte) (int, error) {
	if len(c.unread) == 0 {
		return 0, io.EOF
	}
	n := copy(p, c.unread)
	c.unread = c.unread[n:]
	return n, nil
}

// next reads up to the end of the next record, which Read then hands out. It
// returns the number of the record's first line, or with Refused a line that is
// part of none.
func (c *csvRecords) next() (store.Line, error) {
	if len(c.refused) > 0 {
		return c.refuseOne(), nil
	}
	tooLarge := c.quoted // an earlier record was, and its quote is still open
	c.buf = c.buf[:0]
	first, taken, quoteAt := c.number+1, c.in.taken, c.quoteAt
	for {
		whole, err := c.line()
		if err == io.EOF && c.in.more { // what was read is left for the next part
			c.number, c.in.taken, c.quoted, c.quoteAt = first-1, taken, tooLarge, quoteAt
			return store.Line{}, io.EOF
		}
		if err != nil && (err != io.EOF || len(c.buf) == 0) {
			return store.Line{}, err
		}
		switch {
		case err == io.EOF:
			c.quoted = false
			c.refuse(c.buf, first, c.notClosed())
			return c.refuseOne(), nil
		case tooLarge:
			c.refuse(c.buf, first, c.behindQuote())
			return c.refuseOne(), nil
		case !whole || len(c.buf) > maxRecordBytes:
			why := fmt.Errorf("the record is larger than %d bytes", maxRecordBytes)
			if c.quoted {
				why = c.notClosed()
			}
			c.refuse(c.buf, first, why)
			return c.refuseOne(), nil
		case c.quoted:
			continue
		case len(bytes.TrimRight(c.buf, "\r\n")) == 0:
			c.buf, first, taken = c.buf[:0], c.number+1, c.in.taken
			continue
		}
		c.unread = c.buf
		return store.Line{Number: first}, nil
	}
}

func (c *csvRecords) notClosed() error {
	return fmt.Errorf("the quote that opens in line %d is not closed: double it if it is part of a text", c.quoteAt)
}

func (c *csvRecords) behindQuote() error {
	return fmt.Errorf("it is behind the quote of line %d, which is not closed", c.quoteAt)
}

// line appends the next line to buf, and notes whether it ends within a quote.
// whole is false of a line that is too large, of which the beginning is kept.
func (c *csvRecords) line() (whole bool, err error) {
	begin, size := len(c.buf), 0
	whole = true
	for {
		piece, err := c.in.ReadSlice('\n')
		size += len(piece)
		if room := maxRecordBytes - (len(c.buf) - begin); len(piece) > room {
			whole, piece = false, piece[:max(room, 0)]
		}
		c.buf = append(c.buf, piece...)
		if err == bufio.ErrBufferFull {
			continue
		}
		if err != nil && (err != io.EOF || len(c.buf) == begin) || c.in.cutOff(err, !whole) {
			return whole, err
		}
		break
	}
	c.in.taken += int64(size)
	c.number++
	if n := len(c.buf); c.buf[n-1] != '\n' {
		c.buf = append(c.buf, '\n')
	}
	c.follow(c.buf[begin:])
	return whole, nil
}

// follow goes through a line's quotes as RFC 4180, section 2, has them. A quote
// in the middle of a cell is an error that encoding/csv tells of, in that line.
func (c *csvRecords) follow(line []byte) {
	for {
		if !c.quoted {
			if line[0] == '"' {
				c.quoted, c.quoteAt, line = true, c.number, line[1:]
				continue
			}
			at := bytes.Index(line, c.delimiter)
			if at < 0 {
				return
			}
			line = line[at+len(c.delimiter):]
			continue
		}
		at := bytes.IndexByte(line, '"')
		if at < 0 {
			return
		}
		switch line = line[at+1:]; {
		case line[0] == '"':
			line = line[1:]
		case bytes.HasPrefix(line, c.delimiter):
			c.quoted, line = false, line[len(c.delimiter):]
		default: // the end of the line, or an error
			c.quoted = false
			return
		}
	}
}

// refuse has lines refused, from the line first on.
func (c *csvRecords) refuse(lines []byte, first int64, why error) {
	c.refused, c.refusedAt, c.firstAt, c.why = lines, first, first, why
}

// refuseOne returns the first of the lines that are to be refused.
func (c *csvRecords) refuseOne() store.Line {
	text, rest, _ := bytes.Cut(c.refused, []byte{'\n'})
	line := store.Line{Number: c.refusedAt, Text: string(bytes.TrimSuffix(text, []byte{'\r'})), Refused: c.why}
	c.refused, c.refusedAt = rest, c.refusedAt+1
	c.why = fmt.Errorf("it is part of the record of line %d, which was rejected", c.firstAt)
	return line
}

// detectDelimiter tells by a header what its cells are parted by: a comma, if
// there is one outside of quotes, else a semicolon, a tab or a bar.
func detectDelimiter(header []byte) rune {
	var bare []byte
	for i, part := range bytes.Split(header, []byte{'"'}) {
		if i%2 == 0 {
			bare = append(bare, part...)
		}
	}
	for _, delimiter := range []byte(",;\t|") {
		if bytes.IndexByte(bare, delimiter) >= 0 {
			return rune(delimiter)
		}
	}
	return ','
}
