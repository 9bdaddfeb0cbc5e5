package store

import (
	"context"

	"sluice/mail"
)

// MaxReactionMails bounds what is counted by itself of an hour: mails that are told apart
// by campaign, journey, step and variant, each with its links. What is beyond it is
// counted under the campaign OtherName, of no journey and no link.
const MaxReactionMails = 5000

// ReactionStore is where it is read what mail has sent and got back. The stores of
// package sqlstore are ones.
type ReactionStore interface {
	// Reactions returns at most q.Limit rows, in the order of what is told apart, the
	// time first, and of kind and machine.
	Reactions(ctx context.Context, q ReactionQuery) ([]ReactionRow, error)
}

// ReactionColumn is a column that counts are told apart or chosen by.
type ReactionColumn string

// The columns, in the order in which rows are sorted.
const (
	ReactionHour     ReactionColumn = "hour"
	ReactionCampaign ReactionColumn = "campaign"
	ReactionJourney  ReactionColumn = "journey"
	ReactionStep     ReactionColumn = "step"
	ReactionVariant  ReactionColumn = "variant"
	ReactionLink     ReactionColumn = "link"
	ReactionMachine  ReactionColumn = "machine"
)

// ReactionColumns are all of them.
var ReactionColumns = []ReactionColumn{ReactionHour, ReactionCampaign, ReactionJourney, ReactionStep, ReactionVariant, ReactionLink, ReactionMachine}

// ReactionQuery says which counts are added up to what.
type ReactionQuery struct {
	FromMillis, ToMillis int64 // of the hours that begin in this half-open range

	// Only has the values of columns of texts, and of the link in digits: only counts
	// with these. By is what is told apart. Rows have the other columns empty.
	Only map[ReactionColumn]string
	By   map[ReactionColumn]bool

	Limit int // rows
}

// ReactionRow is a sum of counts.
type ReactionRow struct {
	HourMillis                       int64
	Campaign, Journey, Step, Variant string
	Link                             int

	Kind    mail.ReactionKind
	Machine bool // a machine did it

	// Count is how often. Firsts and HumanFirsts are of opens and clicks: of how many
	// sends it was the first, by anybody and by a person.
	Count, Firsts, HumanFirsts int64
}
