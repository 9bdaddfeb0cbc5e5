package store

import (
	"context"
	"io"

	"sluice"
	"sluice/journey"
	"sluice/mail"
	"sluice/user"
)

// Store is the SQL side: rows, and the cursors of the followers whose effect
// is rows. SQLite, MariaDB/MySQL and PostgreSQL keep this contract; package storetest is
// its conformance suite and runs on the real servers.
//
// Every method may be called from several goroutines at once. Every method
// that writes is durable when it returns nil. An error that is neither
// ErrConflict nor ErrRefused leaves open whether the write happened (the
// connection may have died inside COMMIT): the caller reads the cursor again.
type Store interface {
	// Migrate brings the schema to this program's version, forward only, and
	// refuses a schema newer than that. Safe to call from several processes.
	Migrate(ctx context.Context) error

	// Ping reports whether the database answers and the schema is the right one.
	Ping(ctx context.Context) error

	// TakeLease raises and returns the lease number of each partition of a role.
	// The numbers only ever rise, also when Redis has lost its memory of them.
	TakeLease(ctx context.Context, role string, partitions []int) (map[int]uint64, error)

	// Cursors returns a follower's position in each partition. A cursor that
	// does not exist yet is created at the zero Position.
	Cursors(ctx context.Context, follower string, partitions []int) (map[int]sluice.Position, error)

	// OpenTable looks at a table of the user's own and says how rows get into
	// it. It is refused with the reason and the remedy if it or a column does
	// not exist, if it cannot take part in a transaction, or if spec.Dedupe
	// names a column without a unique key of its own.
	OpenTable(ctx context.Context, spec TableSpec) (Table, error)

	// Prepare encodes an effect for the server's bulk path. It does no I/O, so
	// that the next effect is encoded while the one before it is applied. The
	// effect's memory must stay unchanged until it is applied.
	Prepare(effect *Effect) (Prepared, error)

	// Apply moves the cursors and writes the rows in one transaction by the
	// server's fastest path. ErrConflict: a cursor was not at From, nothing was
	// written. ErrRefused: the server does not take some row as it is (a
	// conversion, a length, a constraint), nothing was written: use ApplyEach.
	Apply(ctx context.Context, p Prepared) (Applied, error)

	// ApplyEach does what Apply does, piece by piece, in one transaction, and the
	// pieces that are refused row by row: rows that are refused become dead
	// letters with the server's reason. For what Apply has refused.
	ApplyEach(ctx context.Context, p Prepared) (Applied, error)

	// DeadLetters lists dead letters without their payloads, oldest first,
	// after the one with id `after`, at most limit.
	DeadLetters(ctx context.Context, after int64, limit int) ([]sluice.DeadLetter, error)

	// DeadLetter returns one with its payload, or an *Error with CodeNotFound.
	DeadLetter(ctx context.Context, id int64) (sluice.DeadLetter, error)

	// DropDeadLetter removes one. Removing what is gone already is no error.
	DropDeadLetter(ctx context.Context, id int64) error

	// CountDeadLetters returns how many there are.
	CountDeadLetters(ctx context.Context) (int64, error)

	io.Closer
}

// KeyStore is where the API's keys are kept. The stores of package sqlstore
// are ones; what is promised of Store's methods holds for these.
type KeyStore interface {
	// AddKey stores a new key. Its id must be new.
	AddKey(ctx context.Context, k APIKey) error

	// APIKey returns one, revoked or not, or an *Error with CodeNotFound.
	APIKey(ctx context.Context, id string) (APIKey, error)

	// APIKeys lists all, oldest first.
	APIKeys(ctx context.Context) ([]APIKey, error)

	// RevokeKey revokes one, for good. The error is an *Error with CodeNotFound
	// if there is none; revoking one again changes nothing.
	RevokeKey(ctx context.Context, id string) error
}

// SecretStore is where secrets are kept that all processes of a deployment share.
// The stores of package sqlstore are ones.
type SecretStore interface {
	// Secret returns the secret of a name, and makes it of fresh bytes (at most
	// 255) if there is none: of several who do so at once one is first.
	Secret(ctx context.Context, name string, fresh []byte) ([]byte, error)
}

// APIKey is what is kept of a key of the API (package key).
type APIKey struct {
	ID            string
	Name          string
	Permissions   []string
	Hash          []byte
	CreatedMillis int64
	RevokedMillis int64 // 0: it is not
}

// Effect is what one transaction does: it moves cursors and writes rows.
type Effect struct {
	Moves  []Move
	Events []StoredEvent // into the standard table `events`
	Rows   []TableRows   // into tables of the user's own
	Dead   []sluice.DeadLetter

	// Counts are added to the series, beside those of Events, which the store
	// counts itself: only rows really inserted count.
	Counts []sluice.Count

	// Users is what is done to users; nil: nothing.
	Users *user.Changes

	// Sends become rows of the ledger; one that is there already changes nothing.
	// Outcomes change such rows, in their order.
	Sends    []mail.StoredSend
	Outcomes []mail.StoredOutcome

	// Reactions set when their sends were opened and clicked first. One whose send is
	// in another partition is forwarded there (user.Forward); one of no send that there
	// is changes nothing. Repeats of events must not be among them.
	//
	// MailNames are those of which journeys want facts, with Published; nil: none. A
	// send that is sent by this effect, or that is reacted to, is a fact of its user.
	// Where that user is in another partition it is forwarded as user.OpMailed.
	//
	// Forwarded has, by partition, a number that those of its new forwards are above.
	Reactions []mail.Reaction
	MailNames *journey.Names
	Forwarded map[int]int64

	// Facts become rows of their tables; one that is there already changes nothing.
	Facts []Fact

	// Suppress changes suppressions, as SuppressionStore.Suppress does. Each must
	// pass its Check. SoftBounces are counted, and may add to them: those count
	// that happened after a suppression for that reason was removed last.
	Suppress    []mail.Suppression
	SoftBounces []mail.SoftBounce

	// JourneyFacts become rows of journey_facts, of which one may have many. They come
	// behind those that are there, and the same again changes nothing. Published is the
	// publish number under which the names were read that they were chosen by
	// (journey.Registered): if it is another by now, the effect fails with ErrPublished.
	// 0: none was read, and none is compared.
	JourneyFacts []journey.Fact
	Published    int64

	// Contexts are kept, or said to be needed no more, in their order.
	Contexts []journey.Kept

	// FactsUpTo has, by partition, up to which place facts are deleted, that one
	// included: all who read them are past it. Of each partition some thousands go at
	// most, the oldest.
	FactsUpTo map[int]sluice.Place

	// Stripe keeps the rows of the series that one process writes apart from
	// those of others: the lowest partition that it holds.
	Stripe int
}

// Move is the step of one cursor. The transaction fails with ErrConflict
// unless the cursor stands at From.
type Move struct {
	Follower  string
	Partition int
	From, To  sluice.Position
}

// StoredEvent is an event with its place in the log, which names it if it has
// no id of its own.
type StoredEvent struct {
	sluice.Event
	Place sluice.Place
}

// TableSpec says how the elements of a list become rows of a table.
type TableSpec struct {
	Table   string   // "table" or "schema.table"
	Columns []string // in the order of a row's cells
	Dedupe  string   // the column that holds the event's own id; empty: none
}

// Table is a user's table that a store has looked at.
type Table interface {
	Spec() TableSpec
}

// TableRows are rows for one table: Cells holds them one after the other, and
// Raw the element that each came from, for the dead letter of a refused row.
type TableRows struct {
	Table  Table
	Cells  []Cell
	Raw    []string
	Places []sluice.Place // one a row, or nil if places are not kept
	Source string         // of its dead letters: "list:NAME"
}

// Cell is one value as its producer wrote it.
type Cell struct {
	Kind CellKind
	Text string // the text; a number's, boolean's or JSON value's literal
}

// CellKind is the JSON type of a cell.
type CellKind uint8

// The kinds of cells.
const (
	CellNull CellKind = iota
	CellText
	CellNumber
	CellBool
	CellJSON // an object or an array

	// CellBytes is no JSON: bytes of any kind, for columns of a dump.
	CellBytes
)

// Prepared is an effect encoded for a store's bulk path.
type Prepared interface {
	Effect() *Effect
}

// Applied counts what a transaction did.
type Applied struct {
	Rows       int // rows inserted, events and users' rows together
	Duplicates int // rows left out because their id was there already
	Dead       int // dead letters written
	Forwarded  int // what happened to mails and is for other partitions
}
