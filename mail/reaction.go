package mail

import (
	"strconv"
	"strings"

	"sluice"
)

// ReactionKind is what a mail has sent, or got back.
type ReactionKind uint8

// The kinds. ReactionRefused counts the bounced mails that were never sent: the server
// refused them at once. They are counted as bounced, too.
const (
	ReactionSent ReactionKind = 1 + iota // a server has taken it
	ReactionDelivered
	ReactionOpened
	ReactionClicked
	ReactionUnsubscribed
	ReactionComplained
	ReactionBouncedHard
	ReactionBouncedSoft
	ReactionBouncedBlock
	ReactionBouncedOther
	ReactionRefused
)

var reactionWords = sluice.Words[ReactionKind]{
	ReactionSent: "sent", ReactionDelivered: "delivered", ReactionOpened: "opened", ReactionClicked: "clicked", ReactionUnsubscribed: "unsubscribed",
	ReactionComplained: "complained", ReactionBouncedHard: "bounced_hard", ReactionBouncedSoft: "bounced_soft", ReactionBouncedBlock: "bounced_block",
	ReactionBouncedOther: "bounced_other", ReactionRefused: "refused",
}

// String returns the kind's word, as it stands in the table reactions.
func (k ReactionKind) String() string { return reactionWords.Of(k) }

// ParseReactionKind reads a kind from its word.
func ParseReactionKind(word string) (ReactionKind, bool) { return reactionWords.Parse(word) }

// BouncedKind returns the kind of a bounce of a class.
func BouncedKind(c BounceClass) ReactionKind {
	return [...]ReactionKind{BounceOther: ReactionBouncedOther, BounceBlock: ReactionBouncedBlock, BounceSoft: ReactionBouncedSoft, BounceHard: ReactionBouncedHard}[c]
}

// Reaction is what a mail event says that names one of our sends: the mail was opened
// or clicked, or something else came back, which is counted and no more.
type Reaction struct {
	SendKey // Number is AnyNumber if the event names the message alone

	Kind       ReactionKind
	Machine    bool // a machine did it, as far as its event says
	Own        bool // our own pages have seen it: its time is exact
	Link       int  // of a click: the link's number in the mail, from 1; 0: not known
	Judged     bool // of a click of our own pages: what could speak against it has come
	First      bool // of a judged click: it was the first of its send
	TimeMillis int64
	Email      string       // of whom, if the event says so
	Place      sluice.Place // of the event
	Forwarded  bool         // it comes from the log of another partition: its event has no row here
}

// Answers reports whether somebody has opened or clicked the mail.
func (r *Reaction) Answers() bool { return r.Kind == ReactionOpened || r.Kind == ReactionClicked }

// EventCounted is the name of an item that the store forwards to the partition of a send, so
// that its reaction counts once there. It is no event, and has no row; KindMember of its
// properties is the reaction's kind.
const (
	EventCounted = "counted"
	KindMember   = "kind"
)

// AnyNumber stands for the send of a message that has one alone, or of the address.
const AnyNumber = -1

// ReactionID returns an id for a reaction that our own pages have seen: "ld-", the
// partition of its send, and what no other process has with a number that rises.
// By it a repeat goes to the same log, also from a file (ReactionPartition).
func ReactionID(partition int, process string, number int64) string {
	b := strconv.AppendInt(append(make([]byte, 0, 64), reactionPrefix...), int64(partition), 10)
	b = append(append(append(b, '-'), process...), '-')
	return string(strconv.AppendInt(b, number, 10))
}

// ReactionPartition returns the partition that an id of ReactionID names; false: it
// is none.
func ReactionPartition(id string) (int, bool) {
	rest, ok := strings.CutPrefix(id, reactionPrefix)
	digits, _, found := strings.Cut(rest, "-")
	n, err := strconv.ParseUint(digits, 10, 16)
	return int(n), ok && found && err == nil && n < sluice.MaxPartitions
}

const reactionPrefix = "ld-"
