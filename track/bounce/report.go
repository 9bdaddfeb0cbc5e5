package bounce

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"

	"sluice"
)

const (
	// MaxMailBytes is how much of a mail is read. A report stands before the mail that
	// it returns, so what is cut off is the content of that one.
	MaxMailBytes = 1 << 20

	maxRecipients = 1_000 // of one report; more are not read
)

// errEmpty is the error of a mail that has nothing.
var errEmpty = errors.New("the mail is empty; give a whole mail, with its head")

// Read reads one mail, as Parse does, up to MaxMailBytes of it. What is behind them
// stays unread. An empty mail, or one that cannot be read, is an error.
func Read(r io.Reader) ([]Event, error) {
	b, err := io.ReadAll(io.LimitReader(r, MaxMailBytes))
	if err != nil {
		return nil, fmt.Errorf("read the mail: %w", err)
	}
	if len(bytes.TrimSpace(b)) == 0 {
		return nil, errEmpty
	}
	return Parse(b), nil
}

// Parse returns the events that a mail reports: at least one, at most 1,000. The mail
// is one of RFC 5322 with lines that end in CRLF or LF. A first line "From " of an
// mbox is passed over, and so is what is behind MaxMailBytes. A mail that is no
// report is one event `unknown`. Parse never fails and keeps nothing of b.
func Parse(b []byte) []Event {
	m := readMail(b)
	for _, find := range []func() []Event{m.status, m.feedback, m.qmail, m.exim, m.answer} {
		if events := once(find()); len(events) > 0 {
			return events
		}
	}
	e := m.event(sluice.EventUnknown, "")
	e.identify(m, "")
	return []Event{e}
}

// once leaves out events with an id that was there before.
func once(events []Event) (kept []Event) {
	seen := make(map[string]bool)
	for _, e := range events {
		if !seen[e.EventID] {
			seen[e.EventID] = true
			kept = append(kept, e)
		}
	}
	return kept
}

// report is a mail that may report something.
type report struct {
	*part
	original header // of the mail that it is about; nil: it is not here
	about    string // the id of that mail, or ""
	id       string // its own
	time     string // when it was written
	subject  string
	returned []field // what the returned head gives the metadata of all its events
	kept     []field // what the report gives the metadata of all its events
}

func readMail(b []byte) *report {
	b = bytes.TrimLeft(b[:min(len(b), MaxMailBytes)], "\r\n")
	if bytes.HasPrefix(b, []byte("From ")) {
		_, b = cutLine(b)
	}
	budget := maxParts
	m := &report{part: readPart(b, 0, &budget)}
	if m.id = messageID(m.head.get("message-id")); m.id == "" {
		sum := sha256.Sum256(bytes.ReplaceAll(b, []byte("\r\n"), []byte("\n"))) // one mail, however its lines end
		m.id = hex.EncodeToString(sum[:])
	}
	if p := m.find("message/rfc822", "message/global", "text/rfc822-headers", "message/global-headers"); p != nil {
		m.original, _ = cutHeader(withoutEmptyLines(p.content()))
	}
	m.setAbout()
	m.time, m.subject = date(m.head.get("date")), clean(decodeWords(m.head.get("subject")))
	return m
}

// setAbout finds the id of the mail that the report is about: in its head, which is
// returned, or in what the report says it answers (RFC 5322, 3.6.4). What its events keep
// of that head is read here, once for all of them.
func (m *report) setAbout() {
	m.returned = m.returned[:0]
	for _, name := range [...]string{"cfbl-feedback-id", "feedback-id", "return-path"} { // RFC 9477, 3.2
		m.returned = append(m.returned, metadataOf(field{name, m.original.get(name)}))
	}
	m.about = messageID(m.original.get("message-id"))
	if m.about == "" {
		m.about = lastMessageID(m.head.get("in-reply-to"))
	}
	if m.about == "" {
		m.about = lastMessageID(m.head.get("references"))
	}
}

// event returns an event with what it has of the whole report.
func (m *report) event(name, recipient string) Event {
	e := Event{
		Type: name, Recipient: recipient, MessageID: m.about, Time: m.time, Description: m.subject,
		Tags: []string{}, Metadata: make(map[string]string),
	}
	for _, f := range m.returned {
		e.keep(f)
	}
	return e
}

// metadataOf makes of a field what an event keeps of it: key and value.
func metadataOf(f field) field {
	return field{strings.ReplaceAll(f.name, "-", "_"), cleanTo(decodeWords(f.value), maxValueBytes)}
}

// keep adds what metadataOf has made. Of several of one key the first counts.
func (e *Event) keep(f field) {
	if _, known := e.Metadata[f.name]; !known && f.value != "" && len(f.name) <= maxKeyBytes && len(e.Metadata) < maxMetadata {
		e.Metadata[f.name] = f.value
	}
}

// identify gives an event its id, once the rest of it is known. action is what tells
// it from another event of the same mail, recipient and status.
func (e *Event) identify(m *report, action string) {
	about := e.MessageID
	if about == "" {
		about = "report:" + m.id // without it, all reports of one recipient would be one
	}
	if action == "" {
		action = e.Type
	}
	e.EventID = eventID(about, e.Recipient, action, e.Metadata[keyStatus])
}
