package store

import "context"

// What the mirror of the series is made of: documents of a day, in a second
// store that is read by others. SQL is the truth; series.Mirror says how one
// becomes the other.

// SeriesDay names a document: what is counted, and the day (UTC) by the moment
// at which it begins, in milliseconds since 1970.
type SeriesDay struct {
	App, Name string
	DayMillis int64
}

// DayTotals are a document: the totals of those hours of a day that have rows,
// all kinds added up.
type DayTotals struct {
	SeriesDay
	Hours []HourTotal
}

// HourTotal is the count of an hour of a day, 0 to 23.
type HourTotal struct {
	Hour  int
	Count int64
}

// SeriesChange notes that a day has other totals since it was last mirrored. A
// process writes the changes of its own stripe. Stamp is another one with every
// change.
type SeriesChange struct {
	SeriesDay
	Stripe int
	Stamp  int64
}

// MirrorState is what the database knows of its mirror.
type MirrorState struct {
	// Epoch is the mirror's, of the session that writes to it; 0: there is no
	// mirror, and no changes are noted.
	Epoch int64

	// Whole: all that was there before changes were noted has been mirrored.
	Whole bool
}

// MirrorStore is the database's side of the mirror. The stores of sqlstore are
// ones.
type MirrorStore interface {
	// MirrorState returns the state.
	MirrorState(ctx context.Context) (MirrorState, error)

	// SetMirrorState changes the state, if it is as expected; else ErrConflict.
	// When it has returned, every transaction that commits knows the new one.
	// Without a mirror there are no changes either.
	SetMirrorState(ctx context.Context, from, to MirrorState) error

	// SeriesChanges returns changes in the order of app, name, day and stripe,
	// those behind one (its Stamp does not matter), or from the first on if
	// after is nil. At most limit.
	SeriesChanges(ctx context.Context, after *SeriesChange, limit int) ([]SeriesChange, error)

	// SettleSeries removes changes that have not come again meanwhile, told by
	// their stamps. ErrConflict: the mirror has another epoch, nothing is removed.
	SettleSeries(ctx context.Context, epoch int64, changes []SeriesChange) error

	// SeriesDays looks through all hours of the series, about limit of them a
	// call, and returns their days, some perhaps in several calls. next is where
	// the next call goes on, nil at the end; the first begins with nil.
	SeriesDays(ctx context.Context, from *SeriesHour, limit int) (days []SeriesDay, next *SeriesHour, err error)

	// DayTotals returns the totals of days. Those without a row are left out.
	DayTotals(ctx context.Context, days []SeriesDay) ([]DayTotals, error)
}

// SeriesHour names the rows of an hour.
type SeriesHour struct {
	App, Name, Kind string
	HourMillis      int64
}

// SeriesMirror is the other side. mongostore.Mirror is one.
type SeriesMirror interface {
	// Begin makes what is missing, and opens an epoch: it returns a number that
	// is one larger with each call of any process, 1 if nothing is there yet.
	Begin(ctx context.Context) (epoch int64, err error)

	// Set writes documents, each unless it has that version already or a newer
	// one. Of newer ones it says so by ErrConflict: then another process has
	// another epoch, and the totals may be older than what is there. Other
	// errors leave open which documents were written.
	Set(ctx context.Context, version int64, days []DayTotals) error
}
