package mail

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"

	"sluice"
	"sluice/user"
)

// A message is what somebody asked to be mailed; a send is that message on its
// way to one of its recipients. Each send has one life: it is accepted (an item
// of its partition's log, durable when the caller is answered), waits in a lane,
// is marked, attempted and recorded, and ends in exactly one of the final
// states. What the lanes in Redis hold is who waits; what has become of a send
// is a row of `sends`, written from the log like everything else.

// Priority says which lane a send waits in. The numbers are stored: never
// change one. The smaller goes first.
type Priority byte

// The priorities.
const (
	PriorityHigh   Priority = 1
	PriorityNormal Priority = 2
	PriorityLow    Priority = 3
)

var priorityWords = sluice.Words[Priority]{PriorityHigh: "high", PriorityNormal: "normal", PriorityLow: "low"}

// String returns the priority's word.
func (p Priority) String() string { return priorityWords.Of(p) }

// ParsePriority reads a priority from its word.
func ParsePriority(word string) (Priority, bool) { return priorityWords.Parse(word) }

// Class says what is done with a send that nobody knows the end of: marketing
// mail is not sent again, transactional mail once more. The numbers are stored.
type Class byte

// The classes.
const (
	ClassTransactional Class = 1
	ClassMarketing     Class = 2
)

var classWords = sluice.Words[Class]{ClassTransactional: "transactional", ClassMarketing: "marketing"}

// String returns the class's word.
func (c Class) String() string { return classWords.Of(c) }

// ParseClass reads a class from its word.
func ParseClass(word string) (Class, bool) { return classWords.Parse(word) }

// SendState is where a send stands in the ledger. The numbers are stored.
type SendState byte

// The states. A send is accepted as waiting; a deferred one waits again. All
// others are final, but that evidence may turn in doubt into sent or failed, and
// cancelled or suppressed into sent, and that transactional mail in doubt is attempted once more.
const (
	SendWaiting    SendState = 1
	SendSent       SendState = 2 // somebody else has taken responsibility for it (RFC 5321, 6.1)
	SendFailed     SendState = 3 // refused for good, or expired, or it cannot be rendered
	SendSuppressed SendState = 4
	SendInDoubt    SendState = 5 // attempted, and nobody knows with what end
	SendCancelled  SendState = 6
)

var stateWords = sluice.Words[SendState]{SendWaiting: "waiting", SendSent: "sent", SendFailed: "failed", SendSuppressed: "suppressed", SendInDoubt: "in_doubt", SendCancelled: "cancelled"}

// String returns the state's word, as it stands in the table sends.
func (s SendState) String() string { return stateWords.Of(s) }

// ParseSendState reads a state from its word.
func ParseSendState(word string) (SendState, bool) { return stateWords.Parse(word) }

// SendStates are all states, in their order.
var SendStates = [...]SendState{SendWaiting, SendSent, SendFailed, SendSuppressed, SendInDoubt, SendCancelled}

// Bounds of messages.
const (
	// MaxInlineBytes is up to where a message's content travels inside its sends:
	// of all of them together. A larger one is a row of `bodies`, which the sends
	// name, so that a content is held once, not once a recipient.
	MaxInlineBytes = 4 << 10

	// MaxRequestSends and MaxRequestSendBytes bound what one request comes to: its
	// recipients, and the bytes of its sends as they wait in Redis, contents that
	// are shared left out. Tags and metadata are in each send.
	MaxRequestSends     = 50_000
	MaxRequestSendBytes = 32 << 20

	// DefaultExpiryMillis is how long a message is tried: five days (RFC 5321,
	// 4.5.4.1: at least 4 to 5).
	DefaultExpiryMillis = 5 * 24 * 60 * 60 * 1000

	// MaxTags, MaxTagBytes and MaxMetadataBytes bound what a message carries for
	// its sender's use. Metadata is a JSON object.
	MaxTags          = 10
	MaxTagBytes      = 128
	MaxMetadataBytes = 2048

	// MaxReplyBytes bounds what is kept of a server's reply.
	MaxReplyBytes = 512
)

// ContentForm is the form of a send's content. The numbers are stored.
type ContentForm byte

// The forms.
const (
	// ContentMIME is a message as it goes out (RFC 5322, lines end in CRLF), but
	// for what the sender puts before it: DKIM-Signature, List-Unsubscribe.
	ContentMIME ContentForm = 1

	// ContentTemplate is a JSON object that names a stored template and its
	// version, or is a mail in the language of templates, with its variables; it is
	// rendered when the send is attempted.
	ContentTemplate ContentForm = 2
)

// Send is a message on its way to one recipient. Its texts may share memory
// with the batch they were read from: they are never changed.
type Send struct {
	Message    string // id
	Number     int    // which of the message's recipients, from 0
	Recipients int    // how many the message has

	Priority Priority
	Class    Class
	Form     ContentForm

	// Milliseconds since 1970. DueMillis is before when it may not be attempted,
	// ExpiresMillis when it is given up.
	AcceptedMillis, DueMillis, ExpiresMillis int64

	Attempts int  // made so far
	Doubted  bool // it was in doubt once: it is attempted for the last time, or by a route that knows it

	From  string // envelope; empty: the null reverse-path (RFC 5321, 4.5.5)
	To    string // envelope
	User  string // the customer's name for the recipient, if known
	App   string
	Route string // asked for; empty: whichever

	Tags     string // separated by commas
	Metadata string // a JSON object, or empty

	// Of mail of journeys: which journey and step has sent it, the variant and the
	// occurrence of the person there, and the person's number in this partition; and
	// whether it counts for no cap. Else nothing.
	Journey, Step, Variant string
	Occurrence             int
	Person                 int64
	IgnoresCaps            bool

	// Content is in its Form; empty: it is the row of `bodies` with the id Message.
	Content string

	// Account is under what it is counted while it waits, empty: it is not (Count).
	// Weight is as how many bytes.
	Account string
	Weight  int
}

// Key names the send.
func (s *Send) Key() SendKey { return SendKey{s.Message, s.Number} }

// ID names the send: the message's id, a dot, and its number.
func (s *Send) ID() string { return s.Message + "." + strconv.Itoa(s.Number) }

// ParseSendID reads what ID wrote.
func ParseSendID(id string) (message string, number int, ok bool) {
	message, digits, found := strings.Cut(id, ".")
	n, err := strconv.ParseUint(digits, 10, 16)
	ok = found && err == nil && sluice.ValidMessageID(message) && strconv.FormatUint(n, 10) == digits
	return message, int(n), ok
}

// SendPartition is the partition that sends to an address are in, out of so
// many: that of the address as a key of a user, without regard to case.
func SendPartition(to string, partitions int) int {
	return user.Key{Kind: user.KeyEmail, Name: strings.ToLower(to)}.Partition(partitions)
}

// Outcome is what has become of a send, on its way to the store: an item of the
// log, from which come the row of `sends` and an event. It holds if the row's
// state is Was, or if it says sent of one that was cancelled or suppressed meanwhile. Else it
// came too late, which the row's life says, and changes nothing else. One that was recorded before changes nothing at all.
type Outcome struct {
	Message    string
	Number     int
	Recipients int

	Was, State SendState // Was is where it stood in the ledger before
	Event      string    // the mail event that it is, one of the words; empty: none
	TimeMillis int64
	DueMillis  int64 // when it is attempted again; 0: never
	Attempts   int   // made, this one included

	Route  string // tried
	Remote string // who answered: a host's name or address
	Code   int    // of the reply; 0: there was none
	Reply  string // the reply's enhanced code and text, or the reason in words
	Reason string // of a rejected one: a word (invalid, bounced, unsubscribed, ...)

	To, User, App  string
	Tags, Metadata string
	HasBody        bool // its content is a row of `bodies`
}

// AppendSend appends a send to a batch.
func AppendSend(batch []byte, s *Send) []byte { return appendSend(batch, sluice.ItemSend, s) }

// AppendKnown appends a send for the ledger alone: it waits in a lane already.
func AppendKnown(batch []byte, s *Send) []byte { return appendSend(batch, sluice.ItemKnown, s) }

func appendSend(batch []byte, kind sluice.ItemKind, s *Send) []byte {
	start := len(batch)
	bits := byte(0)
	if s.Doubted {
		bits |= doubtedBit
	}
	if s.Journey != "" && sluice.Writes(sluice.JourneyForms) {
		bits |= journeyBit
	}
	batch = append(batch, 0, 0, 0, 0, byte(kind), byte(s.Priority), byte(s.Class), byte(s.Form), bits)
	for _, n := range [...]int64{s.AcceptedMillis, s.DueMillis, s.ExpiresMillis} {
		batch = binary.LittleEndian.AppendUint64(batch, uint64(n))
	}
	for _, n := range [...]int{s.Number, s.Recipients, s.Attempts} {
		batch = binary.LittleEndian.AppendUint16(batch, uint16(n))
	}
	for _, t := range [...]string{s.Message, s.From, s.To, s.User, s.App, s.Route, s.Tags, s.Metadata, s.Content} {
		batch = sluice.AppendText(batch, t)
	}
	if bits&journeyBit != 0 {
		batch = appendJourney(batch, s)
	}
	batch = appendAccount(batch, s)
	binary.LittleEndian.PutUint32(batch[start:], uint32(len(batch)-start-4))
	return batch
}

// The bits of a send's fourth byte.
const (
	doubtedBit = 1
	journeyBit = 2 // behind its content is what appendJourney writes
)

const sendHeadBytes = 4 + 3*8 + 3*2

// DecodeSend reads a send. Its texts share memory with the payload.
func DecodeSend(payload []byte, s *Send) error {
	if len(payload) < sendHeadBytes {
		return fmt.Errorf("decode send: %w: %d bytes", sluice.ErrBatchBroken, len(payload))
	}
	s.Priority, s.Class, s.Form, s.Doubted = Priority(payload[0]), Class(payload[1]), ContentForm(payload[2]), payload[3]&doubtedBit != 0
	for i, n := range [...]*int64{&s.AcceptedMillis, &s.DueMillis, &s.ExpiresMillis} {
		*n = int64(binary.LittleEndian.Uint64(payload[4+8*i:]))
	}
	for i, n := range [...]*int{&s.Number, &s.Recipients, &s.Attempts} {
		*n = int(binary.LittleEndian.Uint16(payload[28+2*i:]))
	}
	rest, err := sluice.CutSome("send", payload[sendHeadBytes:], &s.Message, &s.From, &s.To, &s.User, &s.App, &s.Route, &s.Tags, &s.Metadata, &s.Content)
	if err == nil {
		rest, err = cutJourney(rest, s, payload[3]&journeyBit != 0)
	}
	if err != nil {
		return err
	}
	return cutAccount(rest, s)
}

// AppendOutcome appends an outcome to a batch.
func AppendOutcome(batch []byte, o *Outcome) []byte {
	return appendOutcome(batch, sluice.ItemOutcome, o)
}

// AppendCancel appends an outcome that holds if the send is not attempted yet.
func AppendCancel(batch []byte, o *Outcome) []byte { return appendOutcome(batch, sluice.ItemCancel, o) }

// AppendDecision appends an operator's decision about a send in doubt: it is sent,
// it has failed, or it is to be attempted once more (still in doubt, and due).
func AppendDecision(batch []byte, o *Outcome) []byte {
	return appendOutcome(batch, sluice.ItemDecide, o)
}

func appendOutcome(batch []byte, kind sluice.ItemKind, o *Outcome) []byte {
	start := len(batch)
	body := byte(0)
	if o.HasBody {
		body = 1
	}
	batch = append(batch, 0, 0, 0, 0, byte(kind), byte(o.Was), byte(o.State), body)
	for _, n := range [...]int64{o.TimeMillis, o.DueMillis} {
		batch = binary.LittleEndian.AppendUint64(batch, uint64(n))
	}
	for _, n := range [...]int{o.Number, o.Recipients, o.Attempts, o.Code} {
		batch = binary.LittleEndian.AppendUint16(batch, uint16(n))
	}
	for _, t := range [...]string{o.Message, o.Event, o.Route, o.Remote, o.Reply, o.Reason, o.To, o.User, o.App, o.Tags, o.Metadata} {
		batch = sluice.AppendText(batch, t)
	}
	binary.LittleEndian.PutUint32(batch[start:], uint32(len(batch)-start-4))
	return batch
}

const outcomeHeadBytes = 3 + 2*8 + 4*2

// DecodeOutcome reads an outcome. Its texts share memory with the payload.
func DecodeOutcome(payload []byte, o *Outcome) error {
	if len(payload) < outcomeHeadBytes {
		return fmt.Errorf("decode outcome: %w: %d bytes", sluice.ErrBatchBroken, len(payload))
	}
	o.Was, o.State, o.HasBody = SendState(payload[0]), SendState(payload[1]), payload[2] == 1
	for i, n := range [...]*int64{&o.TimeMillis, &o.DueMillis} {
		*n = int64(binary.LittleEndian.Uint64(payload[3+8*i:]))
	}
	for i, n := range [...]*int{&o.Number, &o.Recipients, &o.Attempts, &o.Code} {
		*n = int(binary.LittleEndian.Uint16(payload[19+2*i:]))
	}
	return sluice.CutTexts("outcome", payload[outcomeHeadBytes:], &o.Message, &o.Event, &o.Route, &o.Remote, &o.Reply, &o.Reason, &o.To, &o.User, &o.App, &o.Tags, &o.Metadata)
}

// SendStore is where the ledger of sends is, and the bodies of those that are
// under way. The stores of sqlstore are ones.
//
// Rows of `sends` are written by effects (Effect.Sends, Effect.Outcomes), in
// the transaction that moves the cursor, as are the totals by class and state.
// A final outcome counts its body's recipients down and removes the body with
// the last.
type SendStore interface {
	// AddBodies stores bodies, each with the number of sends that will name it,
	// in one transaction. Of one that is there already only the time is changed.
	AddBodies(ctx context.Context, bodies []Body) error

	// Bodies returns the contents of bodies by the id of their message. One that
	// is not there is left out, as are others once there are mostBytes together;
	// 0: all are returned.
	Bodies(ctx context.Context, messages []string, mostBytes int) (map[string][]byte, error)

	// DropOrphans removes bodies, some hundreds at most, that were stored before
	// a moment and that no row of `sends` needs: their message was never accepted,
	// or only a part of it. What was accepted before must be in `sends` by then.
	DropOrphans(ctx context.Context, beforeMillis int64) (dropped int, err error)

	// MessageSends returns the rows of a message, in the order of their numbers.
	MessageSends(ctx context.Context, message string) ([]SendRow, error)

	// SendTotals returns how many sends are in each state, by class.
	SendTotals(ctx context.Context) ([]SendTotal, error)

	// OpenDoubts returns how many sends are in doubt and will not be attempted
	// again by themselves: somebody has to decide. LostSends returns how many of
	// them were found in no lane (ReasonLost), up to MaxLostCount: after the loss of
	// all lanes they are too many to be counted again and again.
	OpenDoubts(ctx context.Context) (int64, error)
	LostSends(ctx context.Context) (int64, error)

	// SendRows returns the rows of sends, those that there are, in any order.
	SendRows(ctx context.Context, keys []SendKey) ([]SendRow, error)

	// WaitingSends lists the sends of a partition that wait, in the order of their
	// keys, after one, at most limit.
	WaitingSends(ctx context.Context, partition int, after SendKey, limit int) ([]SendRow, error)

	// LaneKeys lists the keys of the sends of a partition that are to be attempted,
	// so that a lane has each: those that wait, and those in doubt with an attempt to
	// come. In the order of keys, after one, at most limit; fewer: there are no more.
	LaneKeys(ctx context.Context, partition int, after SendKey, limit int) ([]LaneKey, error)

	// InDoubt lists sends in doubt, in the order of keys, after one, at most limit.
	InDoubt(ctx context.Context, afterMessage string, afterNumber, limit int) ([]SendRow, error)

	// UserSends lists the sends with a user.ID, from the last key back, at most limit, of those
	// before one; the zero SendKey: from the last.
	UserSends(ctx context.Context, user user.ID, before SendKey, limit int) ([]SendRow, error)

	// NewestSends lists all sends, those accepted last first, at most limit, of those
	// before a place; the zero SendPlace: from the newest.
	NewestSends(ctx context.Context, before SendPlace, limit int) ([]SendRow, error)
}

// Body is a message's content that does not travel inside its sends.
type Body struct {
	Message       string
	Recipients    int
	CreatedMillis int64
	Data          []byte
}

// SendKey names a send.
type SendKey struct {
	Message string
	Number  int
}

// Compare returns -1, 0 or 1, like cmp.Compare: by message, then by number.
func (k SendKey) Compare(o SendKey) int {
	return cmp.Or(strings.Compare(k.Message, o.Message), cmp.Compare(k.Number, o.Number))
}

// SendPlace is where a send stands in the order of acceptance: by time, then by key. Keys
// alone are no such order: those of journeys' mail begin with the day of a person's entry.
type SendPlace struct {
	AcceptedMillis int64
	SendKey
}

// Place is where the send stands in the order of acceptance.
func (r *SendRow) Place() SendPlace { return SendPlace{r.AcceptedMillis, r.Key()} }

// Key names the send.
func (r *SendRow) Key() SendKey { return SendKey{r.Message, r.Number} }

// SendRow is a row of the ledger.
type SendRow struct {
	Message                                  string
	Number                                   int
	Partition                                int
	State                                    SendState
	Priority                                 Priority
	Class                                    Class
	From, To                                 string
	User, App                                string
	Route                                    string // of the last attempt
	Tags                                     string
	Metadata                                 string
	Attempts                                 int
	Reply                                    string // of the last attempt
	Reason                                   string
	AcceptedMillis, UpdatedMillis, DueMillis int64

	// Life is what happened to it, oldest first: a JSON object a line.
	Life string

	// user.ID is the user that User named when the row was written; zero: none that
	// there was. It stays when that user is merged into another.
	UserID user.ID

	Journey, Step, Variant string // as of its Send
	Occurrence             int
	IgnoresCaps            bool

	// When it was opened and clicked first, in ms; 0: never. The human ones are of a
	// person, as far as is known (Reaction).
	FirstOpenMillis, FirstHumanOpenMillis, FirstClickMillis, FirstHumanClickMillis int64
}

// StopStore keeps what mail is stopped, by the names of selectors, with notes. The stores
// of package sqlstore are ones.
type StopStore interface {
	// KeptStops returns what was kept last, and in which epoch of Redis; nil: nothing was.
	KeptStops(ctx context.Context) (names map[string]string, epoch uint64, err error)

	// KeepStops keeps these in the place of what was kept. What was kept in a later epoch
	// stays: ErrConflict.
	KeepStops(ctx context.Context, names map[string]string, epoch uint64) error
}

// RouteDayStore knows how many mails a route attempted on a day.
type RouteDayStore interface {
	// RouteDay returns how many mails a route attempted on a day (days since 1970,
	// UTC), as far as it is stored; fewer if it has attempted any on a later day.
	RouteDay(ctx context.Context, route string, day int64) (attempts int64, err error)
}

// SendTotal is how many sends of a class are in a state.
type SendTotal struct {
	Class Class
	State SendState
	Count int64
}

// Cancelled is what cancelling a message came to, by its recipients.
type Cancelled struct {
	Cancelled int // now or before
	Left      int // it was too late: it has been sent, or nobody knows whether
	Open      int // under way, or not decided yet: cancelled if it has to wait once more
}

// Draft is a message as somebody hands it in: checked, and as it goes out.
type Draft struct {
	ID string // MessageIDBytes long; empty: one is made

	Priority Priority
	Class    Class
	Form     ContentForm
	Content  []byte

	DueMillis     int64   // 0: now
	DueMillisOf   []int64 // for each of To instead, or nil
	ExpiresMillis int64   // 0: DefaultExpiryMillis after it is due

	From  string   // envelope
	To    []string // envelope, 1 to MaxRecipients
	Users []string // the customer's name for each of To, or nil
	App   string
	Route string

	// Author is what its template has for From, where that is not the envelope's
	// address: its readers see it. A content in MIME says so itself.
	Author string

	// Key is the id of the API's key that hands it in, for the bound of what waits of
	// a key; empty: there is none.
	Key string

	// Partly says that it is taken if some of To can be reached: who handed it in
	// did not name addresses.
	Partly bool

	Tags     []string
	Metadata string
}

// Inline reports whether the content travels inside the sends.
func (d *Draft) Inline() bool { return len(d.Content)*len(d.To) <= MaxInlineBytes }

// sendOverheadBytes is about what a send takes beside its texts.
const sendOverheadBytes = sluice.ItemHeaderBytes + sendHeadBytes + sluice.MessageIDBytes + 16

// SendBytes is about how many bytes the message's sends take as they wait.
func (d *Draft) SendBytes() int {
	each := sendOverheadBytes + len(d.From) + len(d.App) + len(d.Route) + len(d.Metadata)
	for _, tag := range d.Tags {
		each += len(tag) + 1
	}
	if d.Inline() {
		each += len(d.Content)
	}
	all := each * len(d.To)
	for _, to := range d.To {
		all += len(to)
	}
	for _, user := range d.Users {
		all += len(user)
	}
	return all
}

// RequestSize adds up what the messages of a request come to.
type RequestSize struct{ Sends, Bytes int }

// Add adds a message. The error, an *Error with CodeTooLarge and the index, says
// that the request is too large with it.
func (r *RequestSize) Add(d *Draft, index int) error {
	r.Sends, r.Bytes = r.Sends+len(d.To), r.Bytes+d.SendBytes()
	switch {
	case r.Sends > MaxRequestSends:
		return &sluice.Error{Code: sluice.CodeTooLarge, Index: index, Message: fmt.Sprintf("the messages up to this one have %d recipients, a request at most %d; send them in several requests", r.Sends, MaxRequestSends)}
	case r.Bytes > MaxRequestSendBytes:
		return &sluice.Error{Code: sluice.CodeTooLarge, Index: index, Message: fmt.Sprintf("the messages up to this one come to %d bytes, a request to at most %d: addresses, tags and metadata count for each recipient; send them in several requests", r.Bytes, MaxRequestSendBytes)}
	}
	return nil
}

// Submitter takes messages in. It returns their ids when all are durably
// accepted. Refusals says that some can never be sent as they are, and that
// nothing was taken; any other error leaves open which are accepted, unless it is
// ErrFull or a *WaitingFull. once, if not empty, names the request: repeated under the same name
// with the same drafts within a day, it is accepted once and answered with the
// same ids.
type Submitter interface {
	Submit(ctx context.Context, once string, drafts []Draft) (ids []string, err error)
}
