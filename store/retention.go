package store

import (
	"context"
	"slices"
	"strings"

	"sluice"
	"sluice/mail"
)

// RetentionStore is a store from which what is too old goes. The stores of sqlstore
// are ones. All of it may be done by several processes at once, and while
// others write: nothing here waits for a lock, or holds one, for more than
// about a second; what fails for that is tried again later. Times are
// milliseconds since 1970; days are those of UTC.
type RetentionStore interface {
	// MakeEventDays makes partitions of the table events for the days that begin
	// before a moment and have none. It returns how many it made: 0 as well if
	// the database cannot divide a table, or if another process is at it.
	MakeEventDays(ctx context.Context, beforeMillis int64) (made int, err error)

	// DropEventDays drops the partitions whose days have all ended by a moment,
	// with their events, and returns their names.
	DropEventDays(ctx context.Context, endedMillis int64) (dropped []string, err error)

	// NextEvent returns the time of the oldest event that is not before a moment, which
	// may be later than any event can be.
	NextEvent(ctx context.Context, fromMillis int64) (millis int64, ok bool, err error)

	// DeleteEvents deletes the oldest events of a kind in a half-open range of
	// time, some thousands at most. Before the time reached none is left; that
	// is toMillis when all are deleted.
	DeleteEvents(ctx context.Context, kind sluice.EventKind, fromMillis, toMillis int64) (deleted int, reachedMillis int64, err error)

	// ForgetAddresses takes the members "ip" and "user_agent" out of the properties of
	// the oldest mail events opened and clicked in a half-open range of time, of some
	// thousand mail events at most. Of a URL there, "url" or "click_url", it cuts query or
	// path off if they name a mail address. Before the time reached none has them; that
	// is toMillis when all are done.
	ForgetAddresses(ctx context.Context, fromMillis, toMillis int64) (changed int, reachedMillis int64, err error)

	// DropEnded removes sessions and links of accounts that ended before a time, and
	// entries of the audit log before an id.
	DropEnded(ctx context.Context, nowMillis int64, auditBefore string) error

	// DeleteSeries deletes the hours or, if days is true, the days of the series
	// that begin before a moment, in several transactions. Those of kind system
	// with one of the names given stay.
	DeleteSeries(ctx context.Context, days bool, beforeMillis int64, staying ...string) (deleted int, err error)

	// DeleteReactions deletes the counts of what mail sent and got back of the oldest hour
	// that begins before a moment. more: there may be others.
	DeleteReactions(ctx context.Context, beforeMillis int64) (deleted int, more bool, err error)

	// DeleteDeadLetters deletes some hundreds at most of those that were found
	// before a moment. more: there are others.
	DeleteDeadLetters(ctx context.Context, beforeMillis int64) (deleted int, more bool, err error)

	// DeleteSoftBounces deletes the days before a moment, of some thousand addresses
	// at most, in their order after one. next is where to go on; empty: none is left.
	DeleteSoftBounces(ctx context.Context, afterEntry string, beforeMillis int64) (deleted int, next string, err error)

	// DeleteSends deletes sends that have ended and that were accepted, and last
	// changed, before a moment, some thousands at most, in the order of their
	// messages after one. Their totals stay. next is where to go on; empty: none
	// is left.
	DeleteSends(ctx context.Context, afterMessage string, beforeMillis int64) (deleted int, next string, err error)

	// DropOrphans is that of SendStore.
	DropOrphans(ctx context.Context, beforeMillis int64) (dropped int, err error)

	// Erasures returns at most limit names of users who are to be erased from the
	// events, in their order, after one: those written in a half-open range of
	// time.
	Erasures(ctx context.Context, after string, fromMillis, toMillis int64, limit int) ([]Erasure, error)

	// EraseEvents erases those who are named, MaxErasures at most, from some
	// thousand events at most, from a moment and id on and before toMillis, which may be
	// later than any event can be. Named are they by their user or their address. The rows
	// stay, without address, user, message and properties. What was accepted later than
	// ErasureMarginMillis after a name was written is somebody else's.
	// It returns where to go on; that is toMillis when it is done.
	EraseEvents(ctx context.Context, names []Erasure, from sluice.EventKey, toMillis int64) (erased int, next sluice.EventKey, err error)

	// SendsOf returns the sends to those who are named, MaxErasures at most, among
	// some thousand messages after one, but those that were accepted later than
	// ErasureMarginMillis after a name was written. next is where to go on; empty:
	// there are no more messages.
	SendsOf(ctx context.Context, names []Erasure, afterMessage string) (sends []mail.SendRow, next string, err error)

	// EraseSends erases who sends were to: their rows stay, in their states,
	// without address, user and metadata, and without what servers replied.
	EraseSends(ctx context.Context, sends []mail.SendRow) error

	// EraseSoftBounces deletes the soft bounces of the addresses that are named,
	// but those of days that begin later than ErasureMarginMillis after a name was
	// written.
	EraseSoftBounces(ctx context.Context, names []Erasure) (erased int, err error)

	// EraseAudit takes those who are named, MaxErasures at most, out of some thousand
	// entries of the audit log, behind one: of an entry whose path or detail names one,
	// the detail goes, and of the path what names somebody. Entries that were made later
	// than ErasureMarginMillis after a name was written stay. next is where to go on;
	// empty: there are no more entries.
	EraseAudit(ctx context.Context, names []Erasure, afterID string) (erased int, next string, err error)

	// DeleteContexts deletes what people entered journeys with who left them before a
	// moment, some thousands at most. more: there are others.
	DeleteContexts(ctx context.Context, beforeMillis int64) (deleted int, more bool, err error)

	// EraseFacts deletes the facts for journeys that say what users who are named by
	// their ids, MaxErasures at most, did or were, and what they entered journeys with.
	// That they were merged or deleted stays, until journeys have read it.
	EraseFacts(ctx context.Context, names []Erasure) (erased int, err error)

	// DeadLetters, DeadLetter and DropDeadLetter are those of Store.
	DeadLetters(ctx context.Context, after int64, limit int) ([]sluice.DeadLetter, error)
	DeadLetter(ctx context.Context, id int64) (sluice.DeadLetter, error)
	DropDeadLetter(ctx context.Context, id int64) error

	// DeleteLinks deletes the targets of links that no mail has used since a moment, of
	// some thousand at most, in the order of their hashes after one. next is where to go
	// on; empty: none is left.
	DeleteLinks(ctx context.Context, afterHash string, beforeMillis int64) (deleted int, next string, err error)

	// OldImports returns the ids of imports that were not changed since a moment, the
	// oldest first; DropImport removes one.
	OldImports(ctx context.Context, beforeMillis int64, limit int) ([]string, error)
	DropImport(ctx context.Context, id string) error

	// Erased removes names that were not written again since a moment.
	Erased(ctx context.Context, names []Erasure, beforeMillis int64) error

	// Overwrite overwrites what was deleted or changed in the files of the database,
	// where the store writes these itself (SQLite): the pages that are free, and its
	// log. It takes as long as writing so much, in pieces that let others in between.
	Overwrite(ctx context.Context) error
}

// MaxErasures bounds the names that are erased in one pass over the events.
const MaxErasures = 1000

// ErasureMarginMillis is by how much the clocks of a database's writer and of
// Redis may differ: a user who comes back under the name of one who was erased
// loses the events of that time.
const ErasureMarginMillis = 60 * 60 * 1000

// Erasure is a name that events and sends have of a user who is to be erased:
// the user's own, or an address that no other user has.
type Erasure struct {
	Name          string
	CreatedMillis int64 // when it was written
}

// addressMark begins the names that are addresses. No external id begins with a
// control character.
const addressMark = "\x01"

// AddressErasure is the name that stands for an address.
func AddressErasure(address string) string { return addressMark + address }

// personMembers are under which a body or a query of the API names users. Their names are
// looked for nowhere else: a user may be called as anything is, "v1" or "marketing", and
// nobody is to take things out of the audit log by the deletion of a user.
var personMembers = []string{
	UserMember, "external_ids", "external_user_id", "external_user_ids", "user", "users", "user_id", "user_ids", "braze_id", "braze_ids", "recipient", "recipients",
}

// UserMember is the member that names a user by the external id.
const UserMember = "external_id"

// NamesUsers reports whether users are named under a member of a body or a query of the
// API.
func NamesUsers(member string) bool { return slices.Contains(personMembers, member) }

// SaysUsers reports whether a member of a condition says that users are named beside it:
// {"field":"external_id","is":"equals","value":NAME}.
func SaysUsers(member, value string) bool { return member == "field" && value == UserMember }

// Address returns the address that the name stands for.
func (e *Erasure) Address() (address string, ok bool) { return strings.CutPrefix(e.Name, addressMark) }
