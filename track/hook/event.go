package hook

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	netmail "net/mail"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"sluice"
	"sluice/ingest"
	"sluice/lib/jsonscan"
	"sluice/lib/timetext"
	"sluice/mail"
	"sluice/mail/via/ses"
)

// Reason is why a mail was not delivered, one list for all providers.
type Reason string

// The reasons.
const (
	ReasonInvalid      Reason = "invalid"      // the address can be no address
	ReasonBounced      Reason = "bounced"      // it was refused, or was before
	ReasonTimedOut     Reason = "timed_out"    // nobody took it in time
	ReasonBlocked      Reason = "blocked"      // by the receiver or by the provider
	ReasonSpam         Reason = "spam"         // it was taken for spam, now or before
	ReasonUnsubscribed Reason = "unsubscribed" // the person wants none
	ReasonOther        Reason = "other"
)

// Bounds of an event. Texts are cut at the end of a character. Of what names something
// a part would name something else, so an address or id that is too long is left out,
// and an event id is replaced by its hash.
const (
	MaxTextBytes      = 2048 // description and reply
	MaxUserAgentBytes = 1024
	MaxURLBytes       = 8192
	MaxMessageIDBytes = 255
	MaxTags           = 50
	MaxTagBytes       = 255
	MaxMetadata       = 100      // members
	MaxMetadataBytes  = 16 << 10 // of all members; one that would be too much is left out

	maxTimeBytes = 64 // a longer text is no time

	// maxLevels is how deep a member of the metadata may nest, below the levels of an element
	// (sluice.MaxNestingLevels) that has it.
	maxLevels = sluice.MaxNestingLevels - 4
)

// Event is what a provider says of one mail to one recipient. A text that it does not
// say is empty. All texts are UTF-8 without NUL; but for Description and MTAResponse they
// have no control characters.
type Event struct {
	Type      string // one of the words for mail events (package sluice)
	Recipient string // an address, as the provider writes it

	// MessageID names the message: the send, if a tag of ours says which, else what
	// another sender's tag says, else ProviderID.
	MessageID  string
	ProviderID string // the provider's name of the message, as it writes it

	// EventID is never empty: the provider's, or one that follows from the element, so
	// that a repeat has the same.
	EventID string

	TimeMillis int64 // when it happened, as the provider says
	Timed      bool  // there is such a time

	RejectReason Reason
	Description  string // in the provider's words; of an unreadable element its text
	MTAResponse  string // what the receiver's server replied
	UserAgent    string
	ClickURL     string
	Bot          string // what the provider says of a program that opened or clicked

	// Of a bounced mail: hard, soft, block or other (mail.BounceClass); the enhanced code
	// (RFC 3463), if it is known; the provider's own words. Printed, these and Bot are
	// metadata.
	BounceClass, Status       string
	BounceType, BounceSubtype string

	// OneOf is how many recipients a complaint names of which one has complained; it
	// says something above 1.
	OneOf int

	// Several recipients of one element share these: do not change them. Metadata is in the
	// order of the names.
	Tags     []string
	Metadata []Member

	metadata object // what becomes Metadata
	bounded  bool   // all but what differs between recipients is held to the bounds
}

// Member is a member of the metadata: a name, and a JSON value as the provider writes it.
type Member struct{ Name, Value string }

// word returns our word for a provider's name of an event: that of the provider's own
// table, else the one that all share, else `unknown`.
func word(own map[string]string, name string) string {
	if w, ok := own[name]; ok {
		return w
	}
	if w, _, ok := ingest.MailWord(name); ok {
		return w
	}
	return sluice.EventUnknown
}

// timed sets the time to that of the first text that is one.
func (e *Event) timed(texts ...string) {
	for _, s := range texts {
		if s == "" || len(s) > maxTimeBytes {
			continue
		}
		if ms, err := timetext.Parse(s, true); err == nil {
			e.TimeMillis, e.Timed = ms, true
			return
		}
	}
}

// set adds a value to the metadata.
func (e *Event) set(name string, v jsonscan.Value) {
	if e.metadata == nil {
		e.metadata = object{}
	}
	e.metadata[name] = v
}

// setText adds a text to the metadata.
func (e *Event) setText(name, text string) {
	if raw, err := json.Marshal(text); err == nil {
		v, _ := jsonscan.Scan(clean(raw)) // what Marshal writes is JSON
		e.set(strings.ToValidUTF8(name, "\ufffd"), v)
	}
}

// merge adds the members of an object to the metadata.
func (e *Event) merge(o object) {
	for name, v := range o {
		e.set(name, v)
	}
}

// mergeText adds a text that is a JSON object to the metadata by its members, and any
// other under a name.
func (e *Event) mergeText(name, text string) {
	if o, err := readObject(clean([]byte(text))); err == nil {
		e.merge(o)
	} else if text != "" {
		e.setText(name, text)
	}
}

// finish completes an event, the one with this index of its element, and holds it to
// the bounds. The ids of events that have none follow from the element.
func (e *Event) finish(element *element, index int) {
	e.bound()
	if e.EventID == "" {
		e.EventID = element.id()
	}
	e.EventID = eventID(e.EventID, index)
	e.Recipient = nameUpTo(e.Recipient, sluice.MaxEmailBytes)
	if e.Type == sluice.EventUnknown && e.Description == "" {
		e.Description = textUpTo(element.text, MaxTextBytes)
	}
	e.MTAResponse = textUpTo(e.MTAResponse, MaxTextBytes)
	if e.RejectReason == "" {
		switch e.Type {
		case sluice.EventBounced:
			e.RejectReason = ReasonBounced
		case sluice.EventRejected:
			e.RejectReason = ReasonOther
		}
	}
}

// bound holds to the bounds what the recipients of an element have in common. It is done
// before an event is copied for each: thousands of copies of tags and metadata would be
// more memory than the body by far.
func (e *Event) bound() {
	if e.bounded {
		return
	}
	e.bounded = true
	if len(e.EventID) > sluice.MaxEventIDBytes {
		e.EventID = derived(e.EventID)
	}
	e.ProviderID = nameUpTo(cmp.Or(e.ProviderID, e.MessageID), MaxMessageIDBytes)
	e.MessageID = cmp.Or(ownSend(e.metadata), nameUpTo(e.MessageID, MaxMessageIDBytes), e.ProviderID)
	e.Description = textUpTo(e.Description, MaxTextBytes)
	e.UserAgent = lineUpTo(e.UserAgent, MaxUserAgentBytes)
	e.ClickURL = urlUpTo(e.ClickURL)
	e.Bot = lineUpTo(e.Bot, MaxTagBytes)
	e.boundTags()
	e.boundMetadata()
}

func (e *Event) boundTags() {
	kept := e.Tags[:0] // which are this event's alone until now
	for _, tag := range e.Tags {
		if tag = lineUpTo(tag, MaxTagBytes); tag != "" && len(kept) < MaxTags {
			kept = append(kept, tag)
		}
	}
	e.Tags = kept
}

// boundMetadata takes members in the order of their names, so that a repeat of an event
// that has too many keeps the same.
func (e *Event) boundMetadata() {
	if len(e.metadata) == 0 {
		return
	}
	all := make([]Member, 0, len(e.metadata))
	for name, v := range e.metadata {
		if v.Kind != jsonscan.None && levels(v.Raw) <= maxLevels {
			all = append(all, Member{name, v.Raw})
		}
	}
	e.metadata = nil
	slices.SortFunc(all, func(a, b Member) int { return strings.Compare(a.Name, b.Name) })
	e.Metadata = all[:0]
	bytes := 0
	for _, m := range all {
		if size := len(m.Name) + len(m.Value); bytes+size <= MaxMetadataBytes && len(e.Metadata) < MaxMetadata {
			bytes += size
			e.Metadata = append(e.Metadata, m)
		}
	}
}

// levels is how deep a JSON text nests.
func levels(raw string) (deepest int) {
	if raw == "" || raw[0] != '{' && raw[0] != '[' {
		return 0
	}
	depth, quoted := 0, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{', c == '[':
			depth++
			deepest = max(deepest, depth)
		case c == '}', c == ']':
			depth--
		}
	}
	return deepest
}

// sendTags are the names under which a mail of ours carries the id of its send: the tag
// of the transport for SES, and the member that events have (INTERFACES.md, section 4).
var sendTags = []string{ses.SendTag, "send"}

// ownSend returns the id of the send that a tag of ours names, or "". In a tag of SES or
// Resend the dot of an id is a hyphen.
func ownSend(metadata object) string {
	for _, name := range sendTags {
		id := metadata.text(name)
		if len(id) > MaxMessageIDBytes {
			continue
		}
		if at := strings.LastIndexByte(id, '-'); at > 0 && !strings.Contains(id, ".") {
			id = id[:at] + "." + id[at+1:]
		}
		if _, _, ok := mail.ParseSendID(id); ok {
			return id
		}
	}
	return ""
}

// ownMessage returns a Message-ID if it is that of a mail of ours (ID@DOMAIN), else "".
func ownMessage(text string) string {
	id, _, _ := strings.Cut(strings.TrimPrefix(text, "<"), "@")
	if !sluice.ValidMessageID(id) {
		return ""
	}
	return strings.Trim(text, "<>")
}

// eventID returns an id, if it can be kept as it is, else one that follows from it. The
// second and further events of an element have ids of their own.
func eventID(id string, index int) string {
	suffix := ""
	if index > 0 {
		suffix = "-" + strconv.Itoa(index+1)
	}
	if len(id)+len(suffix) > sluice.MaxEventIDBytes || lineUpTo(id, len(id)) != id {
		return derived(id) + suffix
	}
	return id + suffix
}

// derived makes an id of texts: 32 hexadecimal digits. The length before each text keeps
// two texts from being taken for two others.
func derived(texts ...string) string {
	h := sha256.New()
	for _, s := range texts {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(s)))
		h.Write(size[:])
		h.Write([]byte(s))
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// textUpTo holds a text to a number of bytes. Line breaks and tabs may stay.
func textUpTo(s string, most int) string {
	return cut(s, most, func(r rune) bool { return r == '\n' || r == '\r' || r == '\t' || !unicode.IsControl(r) })
}

// isPlain reports whether a text is printable ASCII, as nearly all texts of events are.
func isPlain(s string) bool {
	for i := range len(s) {
		if s[i]-' ' >= 0x7f-' ' {
			return false
		}
	}
	return true
}

// lineUpTo is textUpTo without any control characters: nothing of it can begin a line of a header
// or of a log.
func lineUpTo(s string, most int) string {
	return strings.TrimSpace(cut(s, most, func(r rune) bool { return !unicode.IsControl(r) }))
}

// urlUpTo holds a URL to its bound, and is it byte for byte otherwise. Control characters
// become escapes (RFC 3986, 2.1): they could begin a line, and without them it would be
// another URL.
func urlUpTo(s string) string {
	if len(s) <= MaxURLBytes && isPlain(s) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		text := string(r)
		if unicode.IsControl(r) {
			text = ""
			for _, c := range []byte(string(r)) {
				text += fmt.Sprintf("%%%02X", c)
			}
		}
		if b.Len()+len(text) > MaxURLBytes {
			break
		}
		b.WriteString(text)
	}
	return b.String()
}

// nameUpTo is a text that names something, without white space around it. One that is too
// long, or has a control character inside, is none: a part would name something else.
func nameUpTo(s string, most int) string {
	if len(s) <= most && isPlain(s) {
		return strings.TrimSpace(s)
	}
	s = strings.TrimSpace(strings.ToValidUTF8(s, "\ufffd"))
	if len(s) > most || strings.ContainsFunc(s, unicode.IsControl) {
		return ""
	}
	return s
}

// cut keeps allowed characters, of up to most bytes in all. Bytes that are no UTF-8
// become U+FFFD.
func cut(s string, most int, allowed func(rune) bool) string {
	end := min(len(s), most)
	if isPlain(s[:end]) {
		return s[:end]
	}
	for end < len(s) && end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	if !strings.ContainsFunc(s[:end], func(r rune) bool { return r == utf8.RuneError || !allowed(r) }) {
		return s[:end] // as almost always, and without a copy for each event of an element
	}
	var b strings.Builder
	for _, r := range s {
		if !allowed(r) {
			continue
		}
		if b.Len()+utf8.RuneLen(r) > most {
			break
		}
		b.WriteRune(r)
	}
	return b.String()
}

// address returns the address of a mailbox such as `Ann <ann@example.com>`, or the text
// itself.
func address(s string) string {
	if !strings.Contains(s, "<") || len(s) > MaxTextBytes {
		return s
	}
	if a, err := netmail.ParseAddress(s); err == nil {
		return a.Address
	}
	return s
}
