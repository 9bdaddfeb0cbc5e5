package transfer

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"sluice"
	"sluice/lib/jsonscan"
	"sluice/store"
)

// Bounds of reading lines.
const (
	lineBufferBytes = 256 << 10
	headBytes       = 4 << 10 // by which the form is told
	maxColumnBytes  = 1 << 10 // of a column's name

	// maxUnpackWindow bounds what a zstd file makes its reader keep.
	maxUnpackWindow = 128 << 20
)

// LineOptions say how a file is read.
type LineOptions struct {
	Format    Format // empty: told by the first character
	Delimiter rune   // of CSV; 0: told by the header

	// Header, with no Format, says by the first line whether the file is a CSV and
	// what its cells are parted by; what it is not, is read as lines of any form.
	Header func(first string) (delimiter rune, ok bool)

	// Columns are names of columns and members that are made others; what becomes the
	// empty name is left out.
	Columns map[string]string

	// From is where others have read up to, of a file that is read in parts. The part
	// begins behind what they have taken (Taken).
	From LineState

	// More: the file goes on behind this part. What is no whole line or record at its
	// end is left unread, for the next part.
	More bool

	// Cell appends a cell of a CSV as JSON; nil: as a text.
	Cell func(dst []byte, column, cell string) []byte
}

// LineState is where reading a file stands behind a line, so that another process can
// read on. The zero value is the beginning of a file.
type LineState struct {
	Format    Format   `json:"format,omitempty"`
	Delimiter rune     `json:"delimiter,omitempty"` // of a CSV
	Header    []string `json:"header,omitempty"`    // of a CSV, as the file has it
	Line      int64    `json:"line,omitempty"`      // the number of the last line
	QuoteAt   int64    `json:"quote_at,omitempty"`  // the line with a quote that is not closed, which was rejected
	Inside    bool     `json:"inside,omitempty"`    // of a line that was too long: its rest is passed over
}

// ErrUnfinished says that a part of a file ends before its header does.
var ErrUnfinished = errors.New("the first line is not whole")

// LineReader reads a file line by line: NDJSON or CSV, packed with
// gzip or zstd or not; what it is is told by its content. A record of a CSV
// becomes a JSON object; empty cells are left out.
type LineReader struct {
	options LineOptions
	in      *lineSource
	done    func()
	number  int64 // of the last line read

	csv     *csv.Reader // nil: NDJSON
	records *csvRecords
	header  []string
	columns []string // the header as the file has it
	buf     []byte
}

// lineSource is what lines are read of, and how much of it they took.
type lineSource struct {
	*bufio.Reader
	more   bool
	taken  int64 // bytes, of whole lines
	inside bool  // of a line that was too long
}

// passOver leaves out the rest of a line that was too long.
func (s *lineSource) passOver() error {
	for s.inside {
		piece, err := s.ReadSlice('\n')
		s.taken += int64(len(piece))
		switch {
		case err == nil:
			s.inside = false
		case err == io.EOF:
			return nil
		case err != bufio.ErrBufferFull:
			return err
		}
	}
	return nil
}

// cutOff says of a line that the part of a file has not to its end: whether it was too long,
// so that it is taken. Else it is left for the next part.
func (s *lineSource) cutOff(err error, tooLong bool) (left bool) {
	if err != io.EOF || !s.more {
		return false
	}
	s.inside = tooLong
	return !tooLong
}

// NewLineReader begins to read. The caller closes it.
func NewLineReader(file io.Reader, options LineOptions) (*LineReader, error) {
	r := &LineReader{options: options, done: func() {}}
	if err := r.open(file); err != nil {
		r.done()
		return nil, fmt.Errorf("read the file: %w", err)
	}
	return r, nil
}

// Close ends reading.
func (r *LineReader) Close() { r.done() }

// Taken returns how many bytes the lines had that Next has returned, with what lies
// between them: the next part of the file begins there. The file must not be packed.
func (r *LineReader) Taken() int64 { return r.in.taken }

// Between says that reading can be left off here, behind the last line that Next has
// returned: Taken and State say all. It is false among lines of one record of a CSV.
func (r *LineReader) Between() bool { return r.csv == nil || len(r.records.refused) == 0 }

// State returns where reading stands when Next has returned io.EOF, or Between.
func (r *LineReader) State() LineState {
	s := LineState{Format: NDJSON, Line: r.number, Inside: r.in.inside}
	if r.csv != nil {
		s.Format, s.Delimiter, s.Header, s.Line = CSV, r.options.Delimiter, r.columns, r.records.number
		if r.records.quoted {
			s.QuoteAt = r.records.quoteAt
		}
	}
	return s
}

// goOn begins behind what others have read.
func (r *LineReader) goOn(file io.Reader) error {
	from := &r.options.From
	r.in = &lineSource{Reader: bufio.NewReaderSize(file, lineBufferBytes), more: r.options.More, inside: from.Inside}
	r.number = from.Line
	if from.Format == CSV {
		r.options.Delimiter = from.Delimiter
		r.records = r.newRecords()
		r.records.number, r.records.quoted, r.records.quoteAt = from.Line, from.QuoteAt > 0, from.QuoteAt
		r.readCSV()
		if err := r.nameColumns(slices.Clone(from.Header)); err != nil {
			return err
		}
	}
	return r.in.passOver()
}

func (r *LineReader) open(file io.Reader) error {
	if r.options.From.Format != "" {
		return r.goOn(file)
	}
	in := bufio.NewReaderSize(file, lineBufferBytes)
	magic, err := in.Peek(4)
	if err != nil && err != io.EOF {
		return err
	}
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}): // RFC 1952, 2.3.1
		z, err := gzip.NewReader(in)
		if err != nil {
			return err
		}
		in = bufio.NewReaderSize(z, lineBufferBytes)
	case bytes.Equal(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}): // RFC 8878, 3.1.1
		z, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxUnpackWindow))
		if err != nil {
			return err
		}
		r.done = z.Close
		in = bufio.NewReaderSize(z, lineBufferBytes)
	}
	r.in = &lineSource{Reader: in, more: r.options.More}
	if mark, err := in.Peek(3); err == nil && string(mark) == "\uFEFF" {
		_, _ = in.Discard(len(mark)) // they are in the buffer
		r.in.taken += int64(len(mark))
	}
	if head, err := in.Peek(headBytes); err == io.EOF && r.options.More && !bytes.Contains(bytes.TrimLeft(head, " \t\r\n"), []byte{'\n'}) {
		return ErrUnfinished // by its first line the form is told
	}
	format, err := r.format()
	if err != nil || format == NDJSON {
		return err
	}
	return r.openCSV()
}

// format tells NDJSON from CSV by the first character that is no space.
func (r *LineReader) format() (Format, error) {
	if r.options.Format != "" {
		return r.options.Format, nil
	}
	head, err := r.in.Peek(headBytes)
	if err != nil && err != io.EOF {
		return "", err
	}
	switch head = bytes.TrimLeft(head, " \t\r\n"); {
	case r.options.Header != nil:
		first, _, _ := bytes.Cut(head, []byte{'\n'})
		delimiter, ok := r.options.Header(strings.TrimSpace(string(first)))
		if !ok {
			return NDJSON, nil
		}
		r.options.Delimiter = delimiter
		return CSV, nil
	case len(head) == 0:
		return NDJSON, nil
	case head[0] == '[':
		return "", errors.New("it is a JSON array: make lines of it, such as by jq -c '.[]'")
	case head[0] == '{':
		return NDJSON, nil
	}
	return CSV, nil
}

func (r *LineReader) openCSV() error {
	if r.options.Delimiter == 0 {
		head, err := r.in.Peek(headBytes)
		if err != nil && err != io.EOF {
			return err
		}
		first, _, _ := bytes.Cut(bytes.TrimLeft(head, "\r\n"), []byte{'\n'})
		r.options.Delimiter = detectDelimiter(first)
	}
	r.records = r.newRecords()
	r.readCSV()
	line, err := r.records.next()
	if err == io.EOF && r.options.More {
		return ErrUnfinished
	}
	if err == io.EOF {
		return nil
	}
	if err == nil {
		err = line.Refused
	}
	var header []string
	if err == nil {
		header, err = r.csv.Read()
	}
	if err != nil {
		return fmt.Errorf("its header: %w", err)
	}
	for i, name := range header {
		header[i] = strings.Clone(strings.TrimSpace(name))
	}
	return r.nameColumns(slices.Clone(header))
}

func (r *LineReader) newRecords() *csvRecords {
	return &csvRecords{in: r.in, delimiter: []byte(string(r.options.Delimiter))}
}

// nameColumns says what the columns of a CSV become.
func (r *LineReader) nameColumns(header []string) error {
	r.columns = header
	for i, name := range header { // each line has them again
		if len(name) > maxColumnBytes {
			return fmt.Errorf("the name of column %d has %d bytes, at most %d are allowed: %.60q", i+1, len(name), maxColumnBytes, name)
		}
	}
	for _, from := range slices.Sorted(maps.Keys(r.options.Columns)) {
		if !slices.Contains(header, from) {
			return fmt.Errorf("there is no column %q to be taken for %s; there are %s", from, r.options.Columns[from], strings.Join(header, ", "))
		}
	}
	for _, name := range header {
		if to, ok := r.options.Columns[name]; ok {
			name = to
		}
		r.header = append(r.header, name)
	}
	return nil
}

// readCSV begins to read records; after one that is none, anew.
func (r *LineReader) readCSV() {
	r.csv = csv.NewReader(r.records)
	r.csv.ReuseRecord, r.csv.FieldsPerRecord, r.csv.Comma = true, -1, r.options.Delimiter
}

// Next returns the next line that is not empty; io.EOF at the end. Any other
// error ends reading.
func (r *LineReader) Next() (store.Line, error) {
	line, err := r.next()
	if err != nil && err != io.EOF {
		err = fmt.Errorf("read the file behind line %d: %w", r.number, err)
	}
	return line, err
}

func (r *LineReader) next() (store.Line, error) {
	if r.csv != nil {
		return r.record()
	}
	for {
		line, err := r.line()
		if err != nil || line.Refused != nil {
			return line, err
		}
		if line.Text = strings.TrimSpace(line.Text); line.Text == "" {
			continue
		}
		if len(r.options.Columns) > 0 {
			line.Text = r.rename(line.Text)
		}
		return line, nil
	}
}

// line reads a line of an NDJSON. Of one that is too long the beginning is kept.
func (r *LineReader) line() (store.Line, error) {
	r.buf = r.buf[:0]
	tooLong, size := false, 0
	for {
		piece, err := r.in.ReadSlice('\n')
		size += len(piece)
		if room := sluice.MaxElementBytes + len("\r\n") - len(r.buf); len(piece) > room {
			tooLong, piece = true, piece[:max(room, 0)]
		}
		r.buf = append(r.buf, piece...)
		if err == bufio.ErrBufferFull {
			continue
		}
		if err != nil && (err != io.EOF || len(r.buf) == 0) {
			return store.Line{}, err
		}
		if r.in.cutOff(err, tooLong) {
			return store.Line{}, io.EOF
		}
		r.in.taken += int64(size)
		r.number++
		line := store.Line{Number: r.number, Text: string(r.buf)}
		if tooLong {
			line.Refused = fmt.Errorf("too large: the limit of a line is %d bytes", sluice.MaxElementBytes)
		}
		return line, nil
	}
}

// rename gives members of an object other names. What is no object stays.
func (r *LineReader) rename(text string) string {
	b := append(r.buf[:0], '{')
	m := jsonscan.Read(text)
	for m.Next() {
		name := m.Key
		if to, ok := r.options.Columns[name]; ok {
			name = to
		}
		if name == "" && m.Key != "" {
			continue
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(appendJSONText(b, name), ':')
		b = append(b, m.Value.Raw...)
	}
	r.buf = b
	if m.Err() != nil {
		return text
	}
	return string(append(b, '}'))
}

// record reads a record of a CSV as a JSON object.
func (r *LineReader) record() (store.Line, error) {
	line, err := r.records.next()
	if err != nil || line.Refused != nil {
		return line, err
	}
	r.number = line.Number
	cells, err := r.csv.Read()
	if parse, ok := errors.AsType[*csv.ParseError](err); ok {
		r.readCSV()
		r.records.refuse(r.records.buf, line.Number, parse.Err)
		return r.records.refuseOne(), nil
	}
	if err != nil {
		return line, err
	}
	b := append(r.buf[:0], '{')
	for i, cell := range cells {
		if i >= len(r.header) {
			line.Refused = fmt.Errorf("it has %d cells, the header has %d", len(cells), len(r.header))
			break
		}
		if cell == "" || r.header[i] == "" {
			continue
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(appendJSONText(b, r.header[i]), ':')
		if r.options.Cell != nil {
			b = r.options.Cell(b, r.header[i], cell)
		} else {
			b = appendJSONText(b, cell)
		}
	}
	r.buf = append(b, '}')
	line.Text = string(r.buf)
	return line, nil
}
