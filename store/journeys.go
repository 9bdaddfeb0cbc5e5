package store

import (
	"context"
	"errors"

	"sluice"
	"sluice/journey"
)

// ErrPublished says that names of journeys were published since those of the effect were
// read (Effect.Published). Nothing was written. Read the names again, then what the
// effect was made of.
var ErrPublished = errors.New("names of journeys were published meanwhile")

// Bounds of journeys.
const (
	// MaxJourneys bounds how many there are, archived ones included.
	MaxJourneys = 1000

	// MaxHoldBytes bounds the reason why one stands.
	MaxHoldBytes = 255

	// MaxVersionsInUse bounds the versions of a journey that are in use, and
	// MaxVersions those that there ever were.
	MaxVersionsInUse = 255
	MaxVersions      = 10_000

	// MaxContexts bounds the people of whom contexts are read at once.
	MaxContexts = 512

	// MinFacts is the smallest limit of Facts. One item is about so many facts at most:
	// an address that user.MaxSharing users have, two kinds each.
	MinFacts = 256

	// FactsBytes is after how many bytes of their bodies Facts returns no more, and up to
	// those of an item more: an element may have MaxElementBytes.
	FactsBytes = 8 << 20
)

// Journey is one as it is kept. What its texts mean is the caller's business.
type Journey struct {
	Number        int64  // rises, from 1; given by AddJourney
	ID            string // one journey has it
	Name, Status  string
	Version       int    // the one that was published last; 0: none
	Revision      int64  // counts the changes
	Draft         string // the document that is being worked on
	CreatedMillis int64
	UpdatedMillis int64

	// Hold is why it stands, paused, until an operator decides: a restore has paused it, a
	// run of it is late, or too much of its mail came back. Empty: it does not. Any other status takes it away.
	// A restore and PutStatus alone write it.
	Hold string

	// RestoredMillis is when a restore has paused it, while that is its Hold; else 0. What
	// was accepted before lets people in: they may have been inside when the backup was made.
	RestoredMillis int64

	// SkipUntilMillis is when it was resumed last without the messages that were due by
	// then; 0: never. PutStatus alone writes it.
	SkipUntilMillis int64
}

// JourneyVersion is what was published. But for EndedMillis it never changes.
type JourneyVersion struct {
	Journey       int64 // Journey.Number
	Version       int   // from 1
	Document      string
	Names         journey.Names
	CreatedMillis int64
	EndedMillis   int64 // 0: it is in use, and facts of its names are written
}

// JourneyStore is where journeys, their versions and facts are kept. The stores of
// package sqlstore are ones; what is promised of Store's methods holds for these.
// Refusals are *Errors: CodeNotFound where there is no such journey or version,
// CodeInvalid where there are too many, or another journey has the id.
//
// How a publish loses nothing. One number in SQL, the publish number, rises with each
// change of the names, in the transaction that makes it. Every transaction of the store
// follower reads that number last, and locks it against changes until it commits. If it
// is another than that under which the names were read, the transaction writes nothing
// (ErrPublished). So what is committed after Publish has returned was looked at with the
// new names, also by a process that was slow, cut off or frozen. What was tried and
// dropped: to wait at a publish until all processes have said that they know the names.
// A frozen one says nothing, and holds the publish up.
type JourneyStore interface {
	// AddJourney stores a new one and returns it with its number.
	AddJourney(ctx context.Context, j Journey) (Journey, error)

	// Journey returns one by its id.
	Journey(ctx context.Context, id string) (Journey, error)

	// Journeys lists at most limit of them in the order of their ids, after one.
	Journeys(ctx context.Context, after string, limit int) ([]Journey, error)

	// PutJourney writes name, status, draft and UpdatedMillis of a journey. It returns
	// ErrConflict if the revision is another than j's; it raises that by one.
	PutJourney(ctx context.Context, j Journey) error

	// PutStatus does what PutJourney does, writes SkipUntilMillis and, of one that is
	// paused, Hold, MaxHoldBytes of it, and raises the publish
	// number, all in one transaction, and returns that number. A process that moves people looks at the
	// number, and so learns of the new status.
	PutStatus(ctx context.Context, j Journey) (published int64, err error)

	// Publish does what PutJourney does, stores a new version, whose number is one more
	// than j.Version, and raises the publish number, all in one transaction. It returns
	// the version's and the publish number. It waits for transactions of the store that
	// are about to commit, for some seconds at most.
	Publish(ctx context.Context, j Journey, document string, names journey.Names) (version int, published int64, err error)

	// EndVersions says of versions that nobody is inside them any more. Facts of names
	// that no other version asks for are written no more. It raises the publish number,
	// unless all have ended before.
	EndVersions(ctx context.Context, journey int64, versions []int, millis int64) error

	// JourneyVersion returns one version.
	JourneyVersion(ctx context.Context, journey int64, version int) (JourneyVersion, error)

	// VersionsInUse lists the versions in use, of all journeys, by journey and version.
	VersionsInUse(ctx context.Context) ([]JourneyVersion, error)

	// Registered returns the names of all versions in use, with the publish number, both
	// as of one moment.
	Registered(ctx context.Context) (*journey.Registered, error)

	// Held counts the journeys with a Hold. HeldJourneys returns why each stands, by its
	// id, MaxJourneys at most.
	Held(ctx context.Context) (int64, error)
	HeldJourneys(ctx context.Context) (map[string]string, error)

	// Published returns the publish number; 0: nothing was ever published.
	Published(ctx context.Context) (int64, error)

	// Contexts returns what is kept of what some people, MaxContexts at most, entered a
	// journey with (Effect.Contexts). Who has left it may be among them for a while.
	Contexts(ctx context.Context, partition int, journey int64, numbers []int64) ([]journey.Kept, error)

	// Facts returns facts of a partition behind a place, in the order of their places
	// and numbers: at most limit (from MinFacts on), no more once they have FactsBytes, and
	// never a part of those of a place. So a reader can go on behind the place of the last. What it knows of journeys
	// must be as new as the facts: if Published, asked after Facts, returns a later number
	// than the one under which it has read them, the facts are for who reads them anew.
	Facts(ctx context.Context, partition int, after sluice.Place, limit int) ([]journey.Fact, error)
}
