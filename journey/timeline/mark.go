package timeline

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"math"
	"strings"

	"sluice"
	"sluice/mail"
)

// mark is how far the sources were shown.
type mark struct {
	mail       mail.SendKey // the last one
	event      sluice.Place // the last one, or down to where was looked
	eventsDone bool
	other      otherMark // the last one of the others
}

// otherMark names an entry that is neither a mail nor an event; zero: none.
type otherMark struct {
	Millis int64  `json:"t"`
	Name   string `json:"n"`
}

// markText is a mark as it is written.
type markText struct {
	Mail   string    `json:"m,omitempty"`
	Number int       `json:"i,omitempty"`
	Event  [4]uint64 `json:"e"`
	Done   bool      `json:"d,omitempty"`
	Other  otherMark `json:"o"`
}

// maxMarkBytes bounds a mark: names in it are of journeys and groups, and JSON may have six bytes
// for a character.
const maxMarkBytes = 4 << 10

func (m *mark) text() string {
	p := m.event
	text, err := json.Marshal(markText{m.mail.Message, m.mail.Number, [4]uint64{uint64(p.Partition), p.Position.Major, p.Position.Minor, uint64(p.Index)}, m.eventsDone, m.other})
	if err != nil {
		panic(err) // texts and numbers
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

// parseMark reads what text has written; empty: the beginning.
func parseMark(text string) (m mark, err error) {
	if text == "" {
		return m, nil
	}
	var t markText
	raw, err := base64.RawURLEncoding.DecodeString(text[:min(len(text), maxMarkBytes)])
	if err == nil {
		err = json.Unmarshal(raw, &t)
	}
	const most = 1 << 31 // a number of a send has two bytes in the database, a place in a log four
	if err != nil || len(text) > maxMarkBytes || t.Event[0] >= sluice.MaxPartitions || t.Event[3] >= most || t.Number < 0 || t.Number > math.MaxUint16 || t.Mail != "" && !sluice.ValidMessageID(t.Mail) {
		return m, &sluice.Error{Code: sluice.CodeInvalid, Index: -1, Message: "before is not what an answer had as next"}
	}
	m.mail, m.eventsDone, m.other = mail.SendKey{Message: t.Mail, Number: t.Number}, t.Done, t.Other
	m.event = sluice.Place{Partition: int(t.Event[0]), Position: sluice.Position{Major: t.Event[1], Minor: t.Event[2]}, Index: int(t.Event[3])}
	return m, nil
}

// pass moves the mark behind an entry.
func (m *mark) pass(e *Entry) {
	switch e.Kind {
	case KindMail:
		m.mail = e.Mail.Key()
	case KindEvent:
		m.event = e.place
	default:
		m.other = markOf(e)
	}
}

// markOf names an entry among those of its time.
func markOf(e *Entry) otherMark {
	name := string(e.Kind) + " " + e.What
	switch {
	case e.Suppression != nil:
		name += " " + e.Suppression.Scope.String() + " " + e.Suppression.App
	case e.Place != nil:
		name = string(e.Kind) + " " + e.Place.Journey
	}
	return otherMark{e.TimeMillis, name}
}

// compareOthers orders such entries: no two are equal.
func compareOthers(a, b *Entry) int { return compareMarks(markOf(a), markOf(b)) }

func compareMarks(a, b otherMark) int {
	return cmp.Or(cmp.Compare(a.Millis, b.Millis), strings.Compare(a.Name, b.Name))
}

// isBefore reports whether such an entry comes behind the mark.
func (m *mark) isBefore(e *Entry) bool {
	return m.other == (otherMark{}) || compareMarks(markOf(e), m.other) < 0
}
