package sluice

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"unicode/utf8"
)

// EventKind tells whose word an event's name is, so that a customer's own
// event "opened" is not taken for a mail event.
type EventKind uint8

// The kinds. Their numbers are stored: never change one.
const (
	KindMail     EventKind = 1
	KindCustom   EventKind = 2
	KindPurchase EventKind = 3
	KindSystem   EventKind = 4

	// KindCounter is the kind of counts that came as counts. No event has it.
	KindCounter EventKind = 5
)

var kindWords = Words[EventKind]{KindMail: "mail", KindCustom: "custom", KindPurchase: "purchase", KindSystem: "system", KindCounter: "counter"}

// String returns the kind's word, as it stands in the events table.
func (k EventKind) String() string { return kindWords.Of(k) }

// ParseEventKind reads an event's kind from its word.
func ParseEventKind(word string) (EventKind, bool) { return kindWords[:KindCounter].Parse(word) }

// Origin says who reported an event, hence what it changes beyond its row: which
// address is mailed (package ingest, suppress.go).
type Origin uint8

// The origins. Their numbers are stored in logs: never change one.
const (
	// OriginOther is a list, or a key of the API, that is not trusted with consent:
	// its opt-outs and bounces count, its opt-ins do not. Events that older versions
	// wrote have it.
	OriginOther Origin = 0

	// OriginTrusted is one that is: it has the permission consent:write, or
	// `consent: true`, or an operator imports it.
	OriginTrusted Origin = 1

	// OriginOwn is Sluice itself: a person pressed a button of its pages. It counts
	// when it was accepted, whatever its time says.
	OriginOwn Origin = 2

	// OriginOwnRepeat is OriginOwn of an event that has a row already: it changes who
	// is mailed and is not stored again.
	OriginOwnRepeat Origin = 3
)

// Event is one thing that happened. Its texts may share memory with the batch
// they were read from: they are never changed.
type Event struct {
	Kind       EventKind
	Origin     Origin // in logs only: the table events has no column for it
	Apart      bool   // in logs only: it does not count for the profile of its user
	TimeMillis int64  // since the epoch, UTC
	ID         string // the event's own id; empty: it is named by its place in the log
	Name       string // mail events: one of the words below
	App        string
	Email      string
	User       string // the customer's name for the user
	Message    string // the message the event belongs to
	Properties string // what else the producer sent: a JSON object, or empty
}

// The words for what happens to a mail, past tense, one list for all.
const (
	EventQueued        = "queued"
	EventSent          = "sent"
	EventDeferred      = "deferred"
	EventDelivered     = "delivered"
	EventBounced       = "bounced"
	EventRejected      = "rejected"
	EventFailed        = "failed"
	EventOpened        = "opened"
	EventClicked       = "clicked"
	EventComplained    = "complained"
	EventUnsubscribed  = "unsubscribed"
	EventSubscribed    = "subscribed"
	EventAutoresponded = "autoresponded"
	EventUnknown       = "unknown"
)

// EventKey is a place in the order of the events: those after it in time, or at
// its time with a larger id.
type EventKey struct {
	Millis int64
	ID     string
}

// Count is how often something happened, to be added to the series of its app,
// kind and name at its time.
type Count struct {
	Kind       EventKind
	TimeMillis int64 // any moment of the hour that it belongs to; of its quarter, see Quarter
	By         int64
	App        string
	Name       string
}

// Check says why a count can never be stored.
func (c *Count) Check() error {
	switch {
	case c.Kind < KindMail || c.Kind > KindCounter:
		return fmt.Errorf("kind %d of a count is not one of mail, custom, purchase, system, counter", c.Kind)
	case c.TimeMillis < MinEventTimeMillis || c.TimeMillis > MaxEventTimeMillis:
		return fmt.Errorf("time %d ms is outside the years 1970 to 9999", c.TimeMillis)
	case len(c.App) > MaxAppIDBytes:
		return fmt.Errorf("app_id has %d bytes, the limit is %d", len(c.App), MaxAppIDBytes)
	case len(c.Name) > MaxNameBytes:
		return fmt.Errorf("name has %d bytes, the limit is %d", len(c.Name), MaxNameBytes)
	case !utf8.ValidString(c.App) || !utf8.ValidString(c.Name):
		return errors.New("app_id or name is not valid UTF-8")
	}
	return nil
}

// MaxCount is where a count stays: it must neither wrap nor end a follower.
// The smallest is -MaxCount, whose negative there is.
const MaxCount = math.MaxInt64

// AddCount adds within ±MaxCount, as store/sqlstore/query/series_add does.
func AddCount(a, b int64) int64 {
	b = max(b, -MaxCount)
	switch {
	case b > 0 && a > MaxCount-b:
		return MaxCount
	case b < 0 && a < -MaxCount-b:
		return -MaxCount
	}
	return a + b
}

// Place is where an item stands: its partition, the position of its batch in
// the partition's log, its index in the batch.
type Place struct {
	Partition int
	Position  Position
	Index     int
}

// Behind reports whether p is behind another place of its partition.
func (p Place) Behind(q Place) bool {
	return cmp.Or(p.Position.Compare(q.Position), cmp.Compare(p.Index, q.Index)) > 0
}

// DeadLetter is an item that cannot be applied, kept with its reason until an
// operator replays or drops it.
type DeadLetter struct {
	ID         int64  // given by the store
	Source     string // "list:NAME", "hashes:NAME", "hook:NAME", "lane:LANE", "log" or "commit:FOLLOWER"
	Form       Form
	Place      Place
	Reason     string
	Payload    []byte
	TimeMillis int64 // when it was found to be dead
}

// Form says what a dead letter's payload is, hence how it is replayed.
type Form string

// The forms.
const (
	FormElement Form = "element" // an element of a foreign list: pushed to it again
	FormItem    Form = "item"    // an item of a log: appended to its partition again
	FormBatch   Form = "batch"   // a whole batch nobody could read: only shown
	FormCommand Form = "command" // an operation of a commit: only shown
)
