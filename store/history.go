package store

import (
	"context"

	"sluice"
	"sluice/journey"
	"sluice/mail"
	"sluice/user"
)

// Bounds of questions about the mail of people.
const (
	MaxMailPeople    = 512 // of one statement
	MaxMailQuestions = 64  // a bit each
)

// MailAsked asks whether something happened to a mail that Of means, at SinceMillis or
// later; 0: ever. Of an open and of a click it is the first of each mail.
type MailAsked struct {
	Event       journey.MailEvent
	Of          journey.MailOf
	SinceMillis int64
}

// MailCounted is mail that is counted: accepted at SinceMillis or later, neither failed,
// suppressed nor cancelled, and not of those that count for no cap.
type MailCounted struct {
	SinceMillis int64
	Tag         string     // that it has; empty: any
	Class       mail.Class // 0: any
}

// MailHistory answers what mail people got, from the ledger of sends, by the users that
// its rows name. A user is known by the id that the row has: of somebody who has taken
// others in, ask for these too. The stores of sqlstore are ones.
type MailHistory interface {
	// MailKnown answers questions, MaxMailQuestions at most: bit i of a user's answer is
	// that of asked[i]. Users without any such mail are left out.
	MailKnown(ctx context.Context, ids []user.ID, asked []MailAsked) (map[user.ID]uint64, error)

	// MailCounts counts mail of users of one partition, MaxMailPeople at most, and
	// returns up to where a follower had applied the log of that partition at the moment
	// of the count. So who has appended mail to the log knows which of it is counted.
	// Users without any are left out.
	MailCounts(ctx context.Context, follower string, partition int, numbers []int64, counted []MailCounted) (counts map[int64][]int, applied sluice.Position, err error)
}
