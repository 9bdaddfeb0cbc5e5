package transfer

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"sluice"
	"sluice/lib/jsonscan"
)

// Format is how exported events stand in a file.
type Format string

// The formats.
const (
	NDJSON Format = "ndjson" // one JSON object a line
	CSV    Format = "csv"    // RFC 4180, a header first
)

// eventFields are the fields of an exported event, in their order.
var eventFields = []string{"event_id", "kind", "name", "time", "app_id", "email", "user_id", "message_id", "properties"}

// timeLayout is RFC 3339 in UTC with milliseconds, all that an event's time has.
const timeLayout = "2006-01-02T15:04:05.000Z"

// EventWriter writes events as lines that ParseExported reads back as they were.
type EventWriter struct {
	to     io.Writer
	csv    *csv.Writer
	buf    []byte
	record []string
	began  bool
}

// NewEventWriter returns a writer. The caller calls Flush at the end, and gives
// a `to` that gathers small writes.
func NewEventWriter(to io.Writer, format Format) *EventWriter {
	w := &EventWriter{to: to}
	if format == CSV {
		w.csv = csv.NewWriter(to)
	}
	return w
}

// Write writes an event.
func (w *EventWriter) Write(e *sluice.Event) error {
	values := [...]string{
		e.ID, e.Kind.String(), e.Name, time.UnixMilli(e.TimeMillis).UTC().Format(timeLayout),
		e.App, e.Email, e.User, e.Message, oneLine(e.Properties),
	}
	if w.csv != nil {
		if err := w.header(); err != nil {
			return err
		}
		w.record = append(w.record[:0], values[:]...)
		return w.csv.Write(w.record)
	}
	b := append(w.buf[:0], '{')
	for i, v := range values {
		if v == "" {
			continue
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(append(append(b, '"'), eventFields[i]...), '"', ':')
		if eventFields[i] == "properties" && isObject(v) {
			b = append(b, v...)
		} else {
			b = appendJSONText(b, v)
		}
	}
	w.buf = append(b, '}', '\n')
	_, err := w.to.Write(w.buf)
	return err
}

func (w *EventWriter) header() error {
	if w.began {
		return nil
	}
	w.began = true
	return w.csv.Write(eventFields)
}

// Flush writes what is not written yet: of a CSV without events, the header.
func (w *EventWriter) Flush() error {
	if w.csv == nil {
		return nil
	}
	err := w.header()
	w.csv.Flush()
	return errors.Join(err, w.csv.Error())
}

func isObject(s string) bool {
	v, err := jsonscan.Scan(s)
	return err == nil && v.Kind == jsonscan.Object
}

// oneLine makes a JSON text one line: line breaks stand between its members
// only, where a space says the same.
func oneLine(s string) string {
	if !strings.ContainsAny(s, "\r\n") {
		return s
	}
	return strings.NewReplacer("\r", " ", "\n", " ").Replace(s)
}

// appendJSONText appends a text as a JSON string: RFC 8259, section 7.
func appendJSONText(b []byte, s string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
			i++
		case c < ' ':
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
			i++
		case c < utf8.RuneSelf:
			b = append(b, c)
			i++
		default:
			r, n := utf8.DecodeRuneInString(s[i:])
			b = utf8.AppendRune(b, r) // U+FFFD for what is no UTF-8
			i += n
		}
	}
	return append(b, '"')
}

// ParseExported reads a line of an EventWriter, as JSON. The event is taken as
// it is: no name is made another. Its texts share memory with the line.
func ParseExported(line string, e *sluice.Event) error {
	*e = sluice.Event{TimeMillis: -1}
	m := jsonscan.Read(line)
	for m.Next() {
		v := m.Value
		if v.Kind == jsonscan.Null {
			continue
		}
		if m.Key == "properties" && v.Kind == jsonscan.Object {
			e.Properties = v.Raw
			continue
		}
		if v.Kind != jsonscan.String {
			return fmt.Errorf("field %s is %s, want a string", m.Key, v.Kind)
		}
		if err := setExported(e, m.Key, v.Text()); err != nil {
			return err
		}
	}
	if err := m.Err(); err != nil {
		return err
	}
	return checkExported(e)
}

func setExported(e *sluice.Event, field, text string) error {
	var ok bool
	switch field {
	case "event_id":
		e.ID = text
	case "kind":
		if e.Kind, ok = sluice.ParseEventKind(text); !ok {
			return fmt.Errorf("kind %.40q is none of mail, custom, purchase, system", text)
		}
	case "name":
		e.Name = text
	case "time":
		t, err := time.Parse(timeLayout, text)
		if err != nil {
			return fmt.Errorf("time not understood: %.40q, want one like %s", text, timeLayout)
		}
		e.TimeMillis = t.UnixMilli()
	case "app_id":
		e.App = text
	case "email":
		e.Email = text
	case "user_id":
		e.User = text
	case "message_id":
		e.Message = text
	case "properties":
		if text != "" && !isObject(text) {
			return fmt.Errorf("properties are no JSON object")
		}
		e.Properties = text
	default:
		return fmt.Errorf("field %.60q is none of an exported event: without --exported it is taken as any event", field)
	}
	return nil
}

// checkExported checks what the table of events asks of an event. The lengths
// are those of ingest.ParseEvent.
func checkExported(e *sluice.Event) error {
	switch {
	case e.Kind == 0:
		return errors.New("kind is missing")
	case e.Name == "":
		return errors.New("name is missing")
	case e.ID == "":
		return errors.New("event_id is missing")
	case e.TimeMillis < sluice.MinEventTimeMillis || e.TimeMillis > sluice.MaxEventTimeMillis:
		return errors.New("time is missing or out of range: want the years 1970 to 9999")
	}
	for _, f := range [...]struct {
		name, text string
		most       int
	}{
		{"event_id", e.ID, sluice.MaxEventIDBytes}, {"name", e.Name, sluice.MaxNameBytes}, {"app_id", e.App, sluice.MaxAppIDBytes},
		{"email", e.Email, sluice.MaxEmailBytes}, {"user_id", e.User, sluice.MaxReferenceBytes}, {"message_id", e.Message, sluice.MaxReferenceBytes},
	} {
		if len(f.text) > f.most {
			return fmt.Errorf("%s too long: %d bytes, the limit is %d bytes", f.name, len(f.text), f.most)
		}
		if strings.IndexByte(f.text, 0) >= 0 {
			return fmt.Errorf("%s contains a NUL character", f.name)
		}
	}
	return nil
}
