package ingest

import (
	"errors"
	"fmt"
	"strings"
	"unsafe"

	"sluice"
	"sluice/lib/jsonscan"
	"sluice/lib/timetext"
)

// EventOptions say how elements become events. One goroutine uses them at a
// time.
type EventOptions struct {
	Now    int64  // milliseconds: the time of events that carry none
	App    string // the app of events that name none
	Origin sluice.Origin
	Apart  bool   // events count for no profile
	Dedupe string // the field that holds the event's own id; empty: none does

	// Optional: an event may lack the dedupe field, and then has no id.
	Optional bool

	// StableNow: a repeat of this event is parsed with the same Now, so an
	// event with an id needs no time of its own.
	StableNow bool

	// Arena takes the texts that do not stand in the element as such. Without
	// one they are allocated.
	Arena *Arena
}

// Arena is memory for the texts of many events. Its owner calls Reset when
// none of those events is used any more, at best as soon as each has been
// written to a batch.
type Arena struct {
	used []byte // texts point into it; what lies between length and capacity is free
}

const arenaBytes = 16 << 10

// Reset frees the memory of all texts for new ones.
func (a *Arena) Reset() { a.used = a.used[:0] }

// buffer returns an empty buffer with room for size bytes. Before the next
// call the caller gives what was written to it, and fitted, to keep.
func (o *EventOptions) buffer(size int) []byte {
	a := o.Arena
	if a == nil {
		return make([]byte, 0, size)
	}
	if cap(a.used)-len(a.used) < size {
		a.used = make([]byte, 0, max(size, arenaBytes))
	}
	return a.used[len(a.used):len(a.used):cap(a.used)]
}

func (o *EventOptions) keep(b []byte) string {
	if o.Arena != nil {
		o.Arena.used = o.Arena.used[:len(o.Arena.used)+len(b)]
	}
	return unsafe.String(unsafe.SliceData(b), len(b))
}

// text returns a value's text. Only a string with escapes needs memory.
func (o *EventOptions) text(v jsonscan.Value) string {
	if !v.Escaped {
		return v.Text()
	}
	return o.keep(v.AppendText(o.buffer(len(v.Raw))))
}

// ParseEvent reads one JSON object as an event, by the names in fieldOf. What is not
// taken stays in Properties, as it was written. The event's texts share memory with
// raw and with the options' arena.
//
// It reads elements of lists (router.go), the items of /v1/events (intake.go) and the
// lines of imports (import.go). An element that goes into a table of the operator's
// own is read by row.go instead.
//
// The error is the reason of a dead letter. It begins with a few words that do
// not change. Of the whole: too large, not JSON, not an object, nested too deep. Of a
// field: name is missing, time is missing, time not understood, time out of range, X too
// long, X contains a NUL character. Of dedupe: dedupe field X is missing, dedupe field X
// is KIND.
func ParseEvent(raw string, opts *EventOptions, e *sluice.Event) error {
	if err := checkSize(raw); err != nil {
		return err
	}
	var f eventFields
	if err := f.gather(raw, opts.Dedupe); err != nil {
		return err
	}
	*e = sluice.Event{App: opts.App, Origin: opts.Origin, Apart: opts.Apart}
	if err := f.readID(opts, e); err != nil {
		return err
	}
	if err := f.readName(opts, e); err != nil {
		return err
	}
	if err := f.readTime(opts, e); err != nil {
		return err
	}
	if err := f.readTexts(opts, e); err != nil {
		return err
	}
	e.Properties = f.rest(raw, opts)
	return nil
}

func checkSize(raw string) error {
	if len(raw) > sluice.MaxElementBytes {
		return fmt.Errorf("too large: %d bytes, the limit of an element is %d bytes", len(raw), sluice.MaxElementBytes)
	}
	return nil
}

// place is where a text of an event is taken to.
type place uint8

const (
	placeName place = iota
	placeTime
	placeEmail
	placeApp
	placeUser
	placeMessage
	placeID
	places
)

// fieldOf is the table of the accepted fields. It returns where a field goes
// and its rank among the fields that go there, 1 first. The rank of any other
// field is 0.
func fieldOf(key string) (place, uint8) {
	switch key {
	case "event":
		return placeName, 1
	case "event_name":
		return placeName, 2
	case "name":
		return placeName, 3
	case "type":
		return placeName, 4
	case "time":
		return placeTime, 1
	case "timestamp":
		return placeTime, 2
	case "ts":
		return placeTime, 3
	case "email":
		return placeEmail, 1
	case "recipient":
		return placeEmail, 2
	case "app_id":
		return placeApp, 1
	case "user_id":
		return placeUser, 1
	case "external_id":
		return placeUser, 2
	case "user":
		return placeUser, 3
	case "message_id":
		return placeMessage, 1
	case "msg_id":
		return placeMessage, 2
	case "message":
		return placeMessage, 3
	}
	return 0, 0
}

// FieldOf returns which field of an event an element's member is, by the name that the
// field has in what is exported; empty: it is a property.
func FieldOf(key string) string {
	p, rank := fieldOf(key)
	if rank == 0 {
		return ""
	}
	return [...]string{placeName: "name", placeTime: "time", placeEmail: "email", placeApp: "app_id", placeUser: "user_id", placeMessage: "message_id"}[p]
}

// usable reports whether a value can be what the place wants; what cannot (an
// object called "message") is not taken. A time of the wrong type is taken,
// and refused later: the time of taking must not silently stand for it.
func usable(p place, v *jsonscan.Value) bool {
	switch v.Kind {
	case jsonscan.String:
		return len(v.Raw) > len(`""`)
	case jsonscan.Number:
		return p != placeName && p != placeEmail
	case jsonscan.Null:
		return false
	}
	return p == placeTime
}

// eventFields are the members of an element that are taken, by their place.
type eventFields struct {
	taken [places]struct {
		value jsonscan.Value
		rank  uint8
		start int // of the member in the element; 0 if it is not to be left out
		end   int
	}
	first, last int // where the first member begins and the last one ends
}

// gather walks over the element once. Of several usable fields for one place
// the one of the first rank is taken; of repeated keys, the last.
func (f *eventFields) gather(raw, dedupe string) error {
	head, path, _ := strings.Cut(dedupe, ".")
	id := &f.taken[placeID]
	m := jsonscan.Read(raw)
	for m.Next() {
		if f.first == 0 {
			f.first = m.Start
		}
		if dedupe != "" && m.Key == dedupe {
			id.value, id.rank, id.start, id.end = m.Value, 1, m.Start, m.End
		} else if path != "" && m.Key == head && id.rank != 1 {
			id.value, id.rank = reach(m.Value, path), 2
		}
		p, rank := fieldOf(m.Key)
		if rank == 0 || !usable(p, &m.Value) {
			continue
		}
		if t := &f.taken[p]; t.rank == 0 || rank <= t.rank {
			t.value, t.rank, t.start, t.end = m.Value, rank, m.Start, m.End
		}
	}
	f.last = m.End
	return m.Err()
}

// readID takes the event's own id. An id that is missing must not pass: the
// event would count again with each repeat.
func (f *eventFields) readID(opts *EventOptions, e *sluice.Event) error {
	if opts.Dedupe == "" {
		return nil
	}
	v := f.taken[placeID].value
	if opts.Optional && (v.Kind == jsonscan.None || v.Kind == jsonscan.Null) {
		return nil
	}
	if err := checkDedupe(opts.Dedupe, v.Kind); err != nil {
		return err
	}
	// As it is: "a" and "a " are two ids.
	if e.ID = opts.text(v); trim(e.ID) == "" {
		return errNoDedupe(opts.Dedupe)
	}
	return checkText("id", e.ID, sluice.MaxEventIDBytes, v.Escaped)
}

func errNoDedupe(field string) error {
	return fmt.Errorf("dedupe field %s is missing", field)
}

// checkDedupe checks the type of an event's own id.
func checkDedupe(field string, kind jsonscan.Kind) error {
	switch kind {
	case jsonscan.String, jsonscan.Number:
		return nil
	case jsonscan.None, jsonscan.Null:
		return errNoDedupe(field)
	}
	return fmt.Errorf("dedupe field %s is %s, want a string or a number", field, kind)
}

// readName takes the name and sets the kind: mail for a name of a mail event,
// else custom. A name that says more than our word for it also stays in
// Properties.
func (f *eventFields) readName(opts *EventOptions, e *sluice.Event) error {
	t := &f.taken[placeName]
	if t.rank != 0 {
		e.Name = opts.text(t.value)
	}
	if trim(e.Name) == "" {
		return errors.New("name is missing: want a string in event, event_name, name or type")
	}
	if word, detailed, ok := MailWord(e.Name); ok {
		e.Kind, e.Name = sluice.KindMail, word
		if detailed {
			t.start = 0
		}
		return nil
	}
	e.Kind = sluice.KindCustom
	return checkText("name", e.Name, sluice.MaxNameBytes, t.value.Escaped)
}

// readTime takes the time. If there is none, the time of taking replaces it. It
// does not where ids are declared: a repeated event is found by (time, id), and
// a repeat is taken at another time.
func (f *eventFields) readTime(opts *EventOptions, e *sluice.Event) error {
	t := &f.taken[placeTime]
	switch {
	case t.rank != 0 && (t.value.Kind == jsonscan.String || t.value.Kind == jsonscan.Number):
		var err error
		e.TimeMillis, err = timetext.Parse(opts.text(t.value), t.value.Kind == jsonscan.String)
		return err
	case t.rank != 0:
		return fmt.Errorf("time not understood: it is %s, want a string or a number", t.value.Kind)
	case opts.Dedupe != "" && !opts.StableNow && (e.ID != "" || !opts.Optional):
		return errors.New("time is missing: an event with an id of its own is known by both; want time, timestamp or ts")
	}
	e.TimeMillis = opts.Now
	return nil
}

// readTexts takes the address and the references.
func (f *eventFields) readTexts(opts *EventOptions, e *sluice.Event) error {
	if t := &f.taken[placeEmail]; t.rank != 0 {
		e.Email = opts.email(t.value)
		if err := checkText("email", e.Email, sluice.MaxEmailBytes, t.value.Escaped); err != nil {
			return err
		}
	}
	for _, ref := range [...]struct {
		place place
		name  string
		most  int
		to    *string
	}{
		{placeApp, "app", sluice.MaxAppIDBytes, &e.App},
		{placeUser, "user", sluice.MaxReferenceBytes, &e.User},
		{placeMessage, "message", sluice.MaxReferenceBytes, &e.Message},
	} {
		t := &f.taken[ref.place]
		if t.rank == 0 {
			continue
		}
		*ref.to = trim(opts.text(t.value))
		if err := checkText(ref.name, *ref.to, ref.most, t.value.Escaped); err != nil {
			return err
		}
	}
	return nil
}

// trim cuts white space off both ends. Most texts have none.
func trim(s string) string {
	if s == "" || s[0] > ' ' && s[0] < 0x80 && s[len(s)-1] > ' ' && s[len(s)-1] < 0x80 {
		return s
	}
	return strings.TrimSpace(s)
}

// checkText checks a text's length and that no database has to hold a NUL,
// which some cannot. It can only have come from an escape.
func checkText(field, s string, most int, escaped bool) error {
	if len(s) > most {
		return fmt.Errorf("%s too long: %d bytes, the limit is %d bytes", field, len(s), most)
	}
	if escaped && strings.IndexByte(s, 0) >= 0 {
		return fmt.Errorf("%s contains a NUL character", field)
	}
	return nil
}

// email returns an address with its domain in lower case, which RFC 5321, 2.4
// says means the same; local parts are their server's business.
func (o *EventOptions) email(v jsonscan.Value) string {
	s := trim(o.text(v))
	at := strings.LastIndexByte(s, '@')
	if at < 0 {
		return s
	}
	upper, ascii := false, true
	for i := at + 1; i < len(s); i++ {
		upper = upper || s[i]-'A' <= 'Z'-'A'
		ascii = ascii && s[i] < 0x80
	}
	switch {
	case !ascii:
		return s[:at] + strings.ToLower(s[at:])
	case !upper:
		return s
	}
	b := append(o.buffer(len(s)), s...)
	for i := at; i < len(b); i++ {
		if b[i]-'A' <= 'Z'-'A' {
			b[i] |= 0x20
		}
	}
	return o.keep(b)
}

// rest returns an object of the members that were not taken, in their order,
// or "" if there is none. Members side by side are copied in one piece, with
// whatever white space is between them.
func (f *eventFields) rest(raw string, opts *EventOptions) string {
	var cuts [places]struct{ start, end int }
	n, size := 0, f.last-f.first+len("{}")
	for p := range f.taken {
		start, end := f.taken[p].start, f.taken[p].end
		i := n
		for i > 0 && cuts[i-1].start > start {
			i--
		}
		if start == 0 || i > 0 && cuts[i-1].start == start { // the id may be the message's as well
			continue
		}
		copy(cuts[i+1:n+1], cuts[i:n])
		cuts[i].start, cuts[i].end = start, end
		n++
		size -= end - start
	}
	b := append(opts.buffer(size), '{')
	at := f.first
	for _, cut := range cuts[:n] {
		if at < cut.start {
			b = appendMembers(b, raw[at:beforeComma(raw, cut.start)])
		}
		at = behindComma(raw, cut.end)
	}
	if at < f.last {
		b = appendMembers(b, raw[at:f.last])
	}
	if len(b) == 1 {
		return ""
	}
	return opts.keep(append(b, '}'))
}

func appendMembers(b []byte, members string) []byte {
	if len(b) > 1 {
		b = append(b, ',')
	}
	return append(b, members...)
}

// beforeComma goes back from a member to the end of the one before it.
func beforeComma(raw string, i int) int {
	for raw[i-1] <= ' ' || raw[i-1] == ',' {
		i--
	}
	return i
}

// behindComma goes on from a member to the start of the next, or to the brace.
func behindComma(raw string, i int) int {
	for raw[i] <= ' ' || raw[i] == ',' {
		i++
	}
	return i
}
