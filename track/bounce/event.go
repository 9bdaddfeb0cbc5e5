package bounce

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"unicode"
	"unicode/utf8"

	"sluice"
	"sluice/mail"
)

// Event is what a report says of one recipient. Texts are valid UTF-8 without
// control characters, and empty where the report does not say. Tags and Metadata
// are never nil.
type Event struct {
	Type         string            `json:"type"` // a name of sluice.Event...
	Recipient    string            `json:"recipient"`
	MessageID    string            `json:"message_id"` // of the mail that the report is about, without < and >
	EventID      string            `json:"event_id"`   // the same each time the report is read
	Time         string            `json:"time"`       // RFC 3339, UTC
	RejectReason string            `json:"reject_reason"`
	Description  string            `json:"description"`  // the report's subject
	MTAResponse  string            `json:"mta_response"` // what the server said
	UserAgent    string            `json:"user_agent"`   // of a complaint: what made the report
	ClickURL     string            `json:"click_url"`    // always empty: reports have none
	Tags         []string          `json:"tags"`         // always empty: reports have none
	Metadata     map[string]string `json:"metadata"`
}

// The reasons, as providers' events have them.
const (
	reasonInvalid      = "invalid"
	reasonBounced      = "bounced"
	reasonTimedOut     = "timed_out"
	reasonBlocked      = "blocked"
	reasonSpam         = "spam"
	reasonUnsubscribed = "unsubscribed"
	reasonOther        = "other"
)

const (
	maxTextBytes    = 2_000 // of one member of an event
	maxMetadata     = 40    // members of an event's metadata
	maxKeyBytes     = 100   // of the name of one
	maxValueBytes   = 500   // of its value
	eventIDBytes    = 16
	keyClass        = "bounce_class"
	keyStatus       = "status"
	keyAutoResponse = "auto_response"
)

// eventID makes the id of what a report says. about is the id of the mail that it
// is about, or of the report itself where that is unknown.
func eventID(about, recipient, action, status string) string {
	h := sha256.New()
	for _, s := range []string{about, strings.ToLower(recipient), action, status} {
		h.Write([]byte(s))
		h.Write([]byte{0})
	}
	return hex.EncodeToString(h.Sum(nil)[:eventIDBytes])
}

// judge sets what the refusal of a mail means: its class, the reason, the code.
// code is the enhanced code that decides, or "".
func (e *Event) judge(code string) {
	class := mail.BounceClassOf(code, e.MTAResponse)
	e.Metadata[keyClass] = class.String()
	if code != "" {
		e.Metadata[keyStatus] = code
	}
	if e.Type == sluice.EventBounced {
		e.RejectReason = reasonOf(class, code, e.MTAResponse)
	}
}

// spamLists takes the names out that say "spam" of every sender they list.
var spamLists = strings.NewReplacer("spamhaus", "", "spamcop", "")

// reasonOf returns the word for a final refusal. A code of class 4 in a failure says
// that its sender has given up (RFC 3464, 2.3.4 and RFC 3463, 3.5).
func reasonOf(class mail.BounceClass, code, text string) string {
	switch {
	case class == mail.BounceHard && strings.HasPrefix(code, "5.1."):
		return reasonInvalid
	case class == mail.BounceBlock && strings.Contains(spamLists.Replace(strings.ToLower(text)), "spam"):
		return reasonSpam
	case class == mail.BounceBlock:
		return reasonBlocked
	case strings.HasPrefix(code, "4.") || code == "5.4.7":
		return reasonTimedOut
	case mail.NotOfAddress(code) && code[1:] != ".2.2" && code[1:] != ".2.3": // the message, or its sender
		return reasonOther
	}
	return reasonBounced
}

// text makes valid UTF-8 of bytes: what is none is read as ISO 8859-1.
func text(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	var s strings.Builder
	for _, c := range b {
		s.WriteRune(rune(c))
	}
	return s.String()
}

// clean makes one line of a text: each run of spaces and control characters is one
// space. What is longer than maxTextBytes is cut at a character.
func clean(s string) string { return cleanTo(s, maxTextBytes) }

// cleanTo is clean with another bound, in bytes.
func cleanTo(s string, most int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	s = strings.Join(strings.FieldsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }), " ")
	if len(s) <= most {
		return s
	}
	end := most
	for !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end]
}
