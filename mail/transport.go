package mail

import (
	"context"
	"strings"
	"time"
	"unicode"

	"sluice"
)

// Transport carries mail out: a relay by SMTP, a provider by HTTP, a built-in
// mailbox. It keeps nothing durable and repeats nothing: each envelope is
// attempted once, by the process that has marked it, and the result says what is
// known.
type Transport interface {
	// Name is what routes and metrics call it.
	Name() string

	// Window is how many envelopes one call of Deliver may carry, from 1.
	Window() int

	// Workers is how many calls of Deliver are useful at once.
	Workers() int

	// Deliver attempts the envelopes, at most Window of them, in order, and calls
	// done once for each, from one goroutine, as soon as its result is known. It asks
	// Envelope.Held right before it begins each, and again before the content if it has
	// waited for replies meanwhile.
	// When it returns, all are done. When ctx ends it stops as soon as it can:
	// those not begun are ResultUntried, those whose end is open ResultInDoubt.
	Deliver(ctx context.Context, envelopes []Envelope, done func(i int, r Result))

	// Close ends connections that are idle. No call of Deliver is under way.
	Close() error
}

// Envelope is one attempt: one message to one recipient.
type Envelope struct {
	Send string // Send.ID, for tags by which a provider names it again
	From string // empty: the null reverse-path
	To   string

	Partition int // whose lane it waited in, for a return path that names the send

	// Content is the whole message, ready to go: RFC 5322, CRLF, no bare CR or
	// LF, no line above 998 octets unless it is 8-bit MIME that allows none.
	Content []byte

	EightBit bool // it has octets above 127 in its body (RFC 6152)
	UTF8     bool // it has them in an address or a header (RFC 6531)
	Tags     []string

	// Go says why the envelope is not to be begun, or its content not to follow; nil: it may.
	// It waits for nobody, and may be called from any goroutine. A nil Go: it always may.
	Go func() error
}

// Held asks Go, and returns the result of an envelope that is not to be begun. A transport
// may have waited for minutes since it was given it: for a connection, or for replies.
func (e *Envelope) Held() (r Result, held bool) {
	if e.Go == nil {
		return Result{}, false
	}
	err := e.Go()
	if err == nil {
		return Result{}, false
	}
	return Result{Kind: ResultUntried, Held: err, Text: ReplyText(err.Error())}, true
}

// ResultKind says what is known of an attempt.
type ResultKind byte

// The kinds of results.
const (
	ResultSent     ResultKind = 1 // the other side has taken it
	ResultDeferred ResultKind = 2 // not now: try again
	ResultFailed   ResultKind = 3 // never
	ResultInDoubt  ResultKind = 4 // it may have been taken
	ResultUntried  ResultKind = 5 // surely not taken, and not its fault: it is no attempt
)

var resultWords = sluice.Words[ResultKind]{ResultSent: "sent", ResultDeferred: "deferred", ResultFailed: "failed", ResultInDoubt: "in_doubt", ResultUntried: "untried"}

// ResultKinds are all kinds, in their order.
var ResultKinds = [...]ResultKind{ResultSent, ResultDeferred, ResultFailed, ResultInDoubt, ResultUntried}

// String returns the kind's word.
func (k ResultKind) String() string { return resultWords.Of(k) }

// Blame says whose problem a refusal is: what is to be slowed or paused, and
// whether the recipient may be suppressed.
type Blame byte

// Who is to blame.
const (
	BlameNobody    Blame = 0
	BlameRecipient Blame = 1 // this address
	BlameMessage   Blame = 2 // what it says
	BlameRoute     Blame = 3 // us: our address, our credentials, our reputation, our pace
)

// Stage is a part of the time from when a mail came into its lane to when its
// result was recorded: each instant of it is in one of them.
type Stage byte

// The stages, in their order. The mails of a window go through those before the
// wire together: each spends in them what the window does.
const (
	StageLane    Stage = iota // waiting in the lane, once it was due
	StageProfile              // reading user and body
	StageRender
	StageSign
	StageMark
	StageConnect
	StageTLS    // and the login
	StageWait   // writing it and waiting for replies
	StageRecord // and waiting for it
	StageOther  // all that is in none of these: waiting for a connection, handing over
	Stages      // how many there are
)

// String returns the stage's word.
func (s Stage) String() string {
	return [Stages]string{"lane", "profile", "render", "sign", "mark", "connect", "tls", "wait", "record", "other"}[s]
}

// Result is what is known of an attempt.
type Result struct {
	Kind     ResultKind
	Blame    Blame
	Code     int    // of the reply, 0: none
	Enhanced string // 5.1.1 (RFC 3463), empty: none
	Text     string // the reply's text or what went wrong, at most MaxReplyBytes, one line
	Remote   string // who answered
	ID       string // what the other side calls it, if it said so

	// Closed says that the other side takes nothing now: there is no connection to
	// it, or it has said 421. What it left untried or deferred so may be asked of
	// another at once.
	Closed bool

	// Cause is why the route does not work, of what is its fault; empty: it does, or
	// nobody knows.
	Cause Cause

	// OfSender says that what is the route's fault may be the sender's alone: the other
	// side may not know this sender.
	OfSender bool

	// Held is why its sender held it back, or one before it on its connection; nil: it did
	// not (Envelope.Held). Connected says that there was a connection for it by then.
	Held      error
	Connected bool

	Throttled  bool          // the other side wants fewer
	RetryAfter time.Duration // what the other side asks for; 0: nothing

	Took [Stages]time.Duration // only those that a transport knows: connect, tls, wait
}

// Repeatable is what a transport may be as well: one whose other side knows an
// attempt again by Envelope.Send for a day, and takes it once. What is in doubt
// with it is attempted again by it, whatever its class; by no other.
type Repeatable interface {
	Repeatable() bool
}

// ReplyText makes a text of the other side, or of an error, what Result.Text may
// hold: valid UTF-8, one line, at most MaxReplyBytes, and nothing that turns the
// direction in which it and what follows are read.
func ReplyText(text string) string {
	if len(text) > MaxReplyBytes {
		text = text[:MaxReplyBytes]
	}
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' || unicode.Is(unicode.Bidi_Control, r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "")) // also what the cut has left of a character
	return strings.TrimSpace(text)
}
