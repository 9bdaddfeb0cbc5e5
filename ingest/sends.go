package ingest

import (
	"encoding/json"
	"strconv"
	"strings"

	"sluice"
	"sluice/lib/jsonscan"
	"sluice/mail"
	"sluice/store"
)

// A send that was accepted, and each outcome that has a word, is a mail event as
// well. Its id is made of the send, the attempt and the word, so a repeat is
// left out like that of any other event. An outcome that came too late for the
// ledger is an event too: it did happen.

// addSend adds a send's row, and that it was queued.
func (t *storing) addSend(place sluice.Place, payload []byte) error {
	s := mail.StoredSend{Place: place}
	if err := mail.DecodeSend(payload, &s.Send); err != nil {
		return err
	}
	t.effect.Sends = append(t.effect.Sends, s)
	t.addMailEvent(place, &sluice.Event{
		TimeMillis: s.AcceptedMillis, ID: mailEventID(s.ID(), s.Attempts, sluice.EventQueued), Name: sluice.EventQueued,
		App: s.App, Email: s.To, User: reference(s.User), Message: s.Message,
		Properties: mailProperties{Send: s.ID(), Attempt: s.Attempts, Route: s.Route, Tags: splitTags(s.Tags)}.text(s.Metadata),
	})
	return nil
}

// reference is how an event names a user. Mail of an older program may have a longer name,
// with which no event of it could be stored.
func reference(name string) string {
	if len(name) > sluice.MaxReferenceBytes {
		return ""
	}
	return name
}

// addOutcome adds what an outcome changes, and that it happened.
func (t *storing) addOutcome(place sluice.Place, payload []byte) error {
	o := mail.StoredOutcome{Place: place}
	if err := mail.DecodeOutcome(payload, &o.Outcome); err != nil {
		return err
	}
	end, lost := t.s.lostUpTo[place.Partition]
	o.Restored = lost && !end.Before(place.Position)
	bounce := ownBounce(o.Event, o.Reply)
	if o.Event == sluice.EventBounced || bounce != silent {
		o.Bounced = mail.BouncedKind(bounce)
	}
	t.effect.Outcomes = append(t.effect.Outcomes, o)
	if o.Event == "" {
		return nil
	}
	send := mail.Send{Message: o.Message, Number: o.Number}
	e := &sluice.Event{
		TimeMillis: o.TimeMillis, ID: mailEventID(send.ID(), o.Attempts, o.Event), Name: o.Event,
		App: o.App, Email: o.To, User: reference(o.User), Message: o.Message,
		Properties: mailProperties{
			Send: send.ID(), Attempt: o.Attempts, Route: o.Route, Code: o.Code, Reply: o.Reply, Reason: o.Reason, Tags: splitTags(o.Tags),
		}.text(o.Metadata),
	}
	t.addMailEvent(place, e)
	t.suppress(e, bounce, place)
	return nil
}

func (t *storing) addMailEvent(place sluice.Place, e *sluice.Event) {
	e.Kind = sluice.KindMail
	t.effect.Events = append(t.effect.Events, store.StoredEvent{Event: *e, Place: place})
	t.names[e.Name]++
}

func mailEventID(send string, attempt int, name string) string {
	return send + "." + strconv.Itoa(attempt) + "." + name
}

func splitTags(tags string) []string {
	if tags == "" {
		return nil
	}
	return strings.Split(tags, ",")
}

// mailProperties are what a mail event of a send tells beyond its columns.
type mailProperties struct {
	Send     string          `json:"send"`
	Attempt  int             `json:"attempt"`
	Route    string          `json:"route,omitempty"`
	Code     int             `json:"code,omitempty"`
	Reply    string          `json:"reply,omitempty"`
	Reason   string          `json:"reason,omitempty"`
	Tags     []string        `json:"tags,omitempty"`
	Metadata json.RawMessage `json:"metadata,omitempty"`
}

// text returns the properties as JSON. Metadata that is none is left out.
func (p mailProperties) text(metadata string) string {
	p.Metadata = json.RawMessage(metadata)
	text, err := jsonscan.Marshal(p)
	if err != nil {
		p.Metadata = nil
		text, _ = jsonscan.Marshal(p) // numbers and texts: nothing that could fail
	}
	return string(text)
}
