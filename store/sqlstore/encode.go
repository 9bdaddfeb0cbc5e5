package sqlstore

import (
	"fmt"
	"strconv"
	"sync"
	"time"
	"unicode/utf8"

	"sluice"
	"sluice/store"
)

// The format that LOAD DATA and PostgreSQL's COPY read. Cells end at a tab,
// rows at a newline. A backslash goes before a character that would end one,
// before itself, and in \0 (LOAD DATA only) and \N (NULL). COPY refuses a
// carriage return that is not escaped.
//
// Rows are encoded by hand into buffers that are used again. This runs for
// every row: through fmt or text/csv it costs more than the server does.

// maxKeptBytes is the largest buffer that is kept for the next effect.
// maxLoadRows is how many rows one LOAD DATA gets: each may raise a warning,
// and a server lists at most 65,535.
const (
	maxKeptBytes = 32 << 20
	maxLoadRows  = 50_000
)

var buffers = sync.Pool{New: func() any { b := make([]byte, 0, 1<<20); return &b }}

// How appendText treats a byte.
const (
	plain = iota
	escaped
	beyondASCII
)

var byteClasses = func() (c [256]uint8) {
	for _, b := range []byte{0, '\t', '\n', '\r', '\\'} {
		c[b] = escaped
	}
	for b := 0x80; b < 0x100; b++ {
		c[b] = beyondASCII
	}
	return c
}()

// appendText appends a text, escaped, and reports whether it is valid UTF-8.
func appendText(dst []byte, s string) ([]byte, bool) {
	start, beyond := 0, false
	for i := 0; i < len(s); i++ {
		switch byteClasses[s[i]] {
		case escaped:
			dst = append(append(dst, s[start:i]...), '\\', escapeOf(s[i]))
			start = i + 1
		case beyondASCII:
			beyond = true
		}
	}
	dst = append(dst, s[start:]...)
	return dst, !beyond || utf8.ValidString(s)
}

func escapeOf(b byte) byte {
	switch b {
	case '\t':
		return 't'
	case '\n':
		return 'n'
	case '\r':
		return 'r'
	case 0:
		return '0'
	}
	return b
}

// appendBytes appends what need not be UTF-8.
func appendBytes(dst, b []byte) []byte {
	start := 0
	for i := 0; i < len(b); i++ {
		if byteClasses[b[i]] == escaped {
			dst = append(append(dst, b[start:i]...), '\\', escapeOf(b[i]))
			start = i + 1
		}
	}
	return append(dst, b[start:]...)
}

// form is what the two read differently.
type form struct {
	place func(dst []byte, p *sluice.Place, separator byte) []byte
	bytes func(dst, b []byte) []byte
}

var loadForm = form{place: appendPlace, bytes: appendBytes}

// encodeSection encodes a section into a buffer of its own.
func encodeSection(sec *section, f *form) error {
	if sec.buf == nil {
		sec.buf = buffers.Get().(*[]byte)
	}
	dst, err := (*sec.buf)[:0], error(nil)
	sec.cuts = sec.cuts[:0]
	switch {
	case sec.rows != nil:
		dst, err = encodeRows(sec, dst, f)
	case sec.events != nil:
		dst, err = encodeEvents(sec, dst, f)
	default:
		dst = encodeDead(sec, dst, f)
	}
	*sec.buf = dst
	return err
}

func releaseSection(sec *section) {
	if sec.buf != nil && cap(*sec.buf) <= maxKeptBytes {
		buffers.Put(sec.buf)
	}
	sec.buf = nil
}

// encodeRows encodes the rows of a user's table.
func encodeRows(sec *section, dst []byte, f *form) ([]byte, error) {
	classes := sec.table.classes
	c, rows, valid := 0, 0, true
	for i := range sec.rows.Cells {
		cell := &sec.rows.Cells[i]
		switch cell.Kind {
		case store.CellNull:
			dst = append(dst, '\\', 'N')
		case store.CellBool:
			dst = append(dst, boolText(classes[c], cell.Text)...)
		case store.CellBytes:
			dst = f.bytes(dst, []byte(cell.Text))
		default:
			if dst, valid = appendText(dst, cell.Text); !valid {
				return dst, fmt.Errorf("row %d, column %q: %w", i/len(classes), sec.table.spec.Columns[c], errNotUTF8)
			}
		}
		if c++; c < len(classes) {
			dst = append(dst, '\t')
			continue
		}
		c = 0
		dst = append(dst, '\n')
		if rows++; rows == maxLoadRows {
			sec.cuts = append(sec.cuts, cut{len(dst), rows})
			rows = 0
		}
	}
	return sec.lastCut(dst, rows), nil
}

// boolText is a boolean as a column takes it.
func boolText(c class, text string) string {
	if c != classNumber && c != classBit {
		return text
	}
	if text == "true" {
		return "1"
	}
	return "0"
}

// encodeEvents encodes rows of the events table, in the order of eventColumns.
func encodeEvents(sec *section, dst []byte, f *form) ([]byte, error) {
	var clock datetime
	rows := 0
	for i := range sec.events {
		e := &sec.events[i]
		if err := checkEvent(e); err != nil {
			return dst, fmt.Errorf("event %d: %w", i, err)
		}
		valid := true
		if e.ID == "" {
			dst = appendPlaceID(dst, &e.Place)
		} else {
			dst, valid = appendText(dst, e.ID)
		}
		dst = append(append(append(dst, '\t'), e.Kind.String()...), '\t')
		ok := true
		dst, ok = appendText(dst, e.Name)
		valid = valid && ok
		dst = append(dst, '\t')
		dst, ok = appendText(dst, e.App)
		valid = valid && ok
		dst = clock.append(append(dst, '\t'), e.TimeMillis)
		for _, s := range [...]string{e.Email, e.User, e.Message, e.Properties} {
			if s == "" {
				dst = append(dst, '\t', '\\', 'N')
				continue
			}
			dst, ok = appendText(append(dst, '\t'), s)
			valid = valid && ok
		}
		if !valid {
			return dst, fmt.Errorf("event %d: %w", i, errNotUTF8)
		}
		dst = append(f.place(append(dst, '\t'), &e.Place, '\t'), '\n')
		if rows++; rows == maxLoadRows {
			sec.cuts = append(sec.cuts, cut{len(dst), rows})
			rows = 0
		}
	}
	return sec.lastCut(dst, rows), nil
}

// encodeDead encodes dead letters, in the order of deadColumns.
func encodeDead(sec *section, dst []byte, f *form) []byte {
	var clock datetime
	rows := 0
	for i := range sec.dead {
		l := storable(&sec.dead[i], sec.nowMillis)
		dst, _ = appendText(dst, l.Source)
		dst, _ = appendText(append(dst, '\t'), string(l.Form))
		dst = f.place(append(dst, '\t'), &l.Place, '\t')
		dst, _ = appendText(append(dst, '\t'), l.Reason)
		dst = strconv.AppendInt(append(dst, '\t'), int64(len(l.Payload)), 10)
		dst = f.bytes(append(dst, '\t'), l.Payload)
		dst = append(clock.append(append(dst, '\t'), l.TimeMillis), '\n')
		if rows++; rows == maxLoadRows {
			sec.cuts = append(sec.cuts, cut{len(dst), rows})
			rows = 0
		}
	}
	return sec.lastCut(dst, rows)
}

func (sec *section) lastCut(dst []byte, rows int) []byte {
	if rows > 0 {
		sec.cuts = append(sec.cuts, cut{len(dst), rows})
	}
	return dst
}

// appendPlace appends partition, major, minor and item with a separator.
func appendPlace(dst []byte, p *sluice.Place, separator byte) []byte {
	dst = append(strconv.AppendInt(dst, int64(p.Partition), 10), separator)
	dst = append(strconv.AppendUint(dst, p.Position.Major, 10), separator)
	dst = append(strconv.AppendUint(dst, p.Position.Minor, 10), separator)
	return strconv.AppendInt(dst, int64(p.Index), 10)
}

// appendPlaceID appends the id of an event that has none of its own.
func appendPlaceID(dst []byte, p *sluice.Place) []byte { return appendPlace(dst, p, '-') }

// datetime formats times as DATETIME(3) in UTC. Events that follow one another
// mostly share their second: its text is kept.
type datetime struct {
	second int64
	text   []byte
}

func (d *datetime) append(dst []byte, millis int64) []byte {
	second := millis / 1000
	if d.text == nil || second != d.second {
		d.second = second
		d.text = time.Unix(second, 0).UTC().AppendFormat(d.text[:0], "2006-01-02 15:04:05.")
	}
	ms := millis % 1000
	return append(append(dst, d.text...), byte('0'+ms/100), byte('0'+ms/10%10), byte('0'+ms%10))
}
