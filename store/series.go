package store

import (
	"context"

	"sluice"
)

// SeriesStore is where the series are read. The stores of package sqlstore are
// ones.
type SeriesStore interface {
	// Series returns at most q.Limit rows in the order of time, app, name, kind.
	Series(ctx context.Context, q SeriesQuery) ([]SeriesRow, error)
}

// SeriesQuery says which rows of the series are added up to what.
type SeriesQuery struct {
	Days                 bool  // from the days of UTC; else from the hours
	FromMillis, ToMillis int64 // from the buckets that begin in this half-open range

	App, Name *string           // only this one; nil: all
	Kind      *sluice.EventKind // the same

	// Under is the beginning of names: only those that begin so. Empty: all. Its last
	// byte is below 0x7f.
	Under string

	// Whole adds the buckets of the range up: Millis of a row is when the first of them
	// begins.
	Whole bool

	// Quarters tells the quarters of an hour apart where they are known
	// (SeriesRow.Quarter); for hours alone.
	Quarters bool

	// What is told apart; the others are added up, and empty in the rows.
	ByApp, ByName, ByKind bool

	Limit int // rows
}

// SeriesRow is a count. Millis is when its bucket begins.
type SeriesRow struct {
	Millis          int64
	App, Name, Kind string
	Count           int64

	// Quarter is the quarter of the hour, from 1; 0: all of the hour, of which no
	// quarter is known.
	Quarter int
}

// Bounds of the series. A program that makes names up (an order's number in an
// event's name) must not fill the database with series of one each.
const (
	// DefaultSeriesNames bounds the names (with their kinds) of an app.
	DefaultSeriesNames = 10_000

	// MaxSeriesApps bounds the apps, as a multiple of an app's names: so many
	// names are counted by themselves in all.
	MaxSeriesApps = 100

	// OtherName is the name, and the app, under which what is beyond the bounds
	// is counted together.
	OtherName = "(other)"
)
