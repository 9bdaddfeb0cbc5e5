package sqlstore

import (
	"context"
	"math"
	"slices"
	"strings"

	"sluice"
	"sluice/store"
)

var _ store.PersonStore = (*Store)(nil)

// personLook is the state of one PersonEvents.
type personLook struct {
	s      *Store
	asked  store.PersonAsked
	late   sluice.Position // up to where the times of events tell nothing (late.go)
	window int64           // in milliseconds
	rows   int             // that were looked through
	page   store.PersonPage
}

// Bounds of a window, in milliseconds: the first is short, a day is long where there are
// many events, and where there are few it grows.
const (
	firstPersonWindow = windowMillis / 24
	minPersonWindow   = firstPersonWindow / 60
	maxPersonWindow   = 64 * windowMillis
	widerPerson       = 8 // times
)

// PersonEvents implements store.PersonStore. It goes back in windows, for the reason that
// FeedPage does, and in each by pieces. The end of a piece is found in the index alone.
// Then the database compares the names of the rows of the piece.
//
// A window has about two pieces, as far as the last one tells: PostgreSQL, before it has
// statistics, sorts all that a window has for the newest 2,000 of it.
func (s *Store) PersonEvents(ctx context.Context, asked store.PersonAsked) (store.PersonPage, error) {
	asked.Before.Partition = asked.Partition
	asked.Before.Position.Major = min(asked.Before.Position.Major, math.MaxInt64)
	l := &personLook{s: s, asked: asked, window: firstPersonWindow, page: store.PersonPage{End: asked.Before}}
	err := s.each(ctx, rawQuery(s.d, "late_events_get"), []any{asked.Partition}, func(scan scanner) error {
		return scan((*number)(&l.late.Major), (*number)(&l.late.Minor))
	})
	for err == nil && !l.page.Done && len(l.page.Events) < asked.Limit && l.rows < store.PersonRows {
		err = l.piece(ctx)
	}
	return l.page, s.failed(err, "look for events of a person in partition %d of", asked.Partition)
}

// piece looks through the next rows before End.
func (l *personLook) piece(ctx context.Context) error {
	newest := int64(l.page.End.Position.Major)
	from := max(newest-l.window, 0)
	window, bounds := "", []any(nil)
	if l.late.Major < uint64(from) {
		window, bounds = "AND time >= ? AND time <= ?", []any{l.s.feedTime(from - lateMillis), l.s.feedTime(newest + lateMillis)}
	}
	before := placeArgs(l.s.d, l.asked.Partition, l.page.End)
	end, count, err := l.endOfPiece(ctx, window, slices.Concat(before, []any{from}, bounds))
	if err != nil {
		return err
	}
	l.rows += max(count, store.PersonPiece/4) // few rows cost their statements
	if count == 0 && l.window == maxPersonWindow {
		return l.skip(ctx, from)
	}
	if count < store.PersonPiece {
		end = sluice.Place{Partition: l.asked.Partition, Position: sluice.Position{Major: uint64(from)}}
	}
	l.size(count, newest-int64(end.Position.Major))
	if count == 0 {
		l.page.End = end
		return nil
	}
	major, minor := l.s.d.number(end.Position.Major), l.s.d.number(end.Position.Minor)
	statement := strings.Replace(named(rawQuery(l.s.d, "person_events"), len(l.asked.Names)), "$WINDOW", window, 1)
	found, err := list(ctx, l.s.d, l.s.reads, l.scan, statement, slices.Concat(before, []any{major}, bounds, []any{major, minor, minor, end.Index}, anys(l.asked.Names))...)
	l.page.Events, l.page.End = append(l.page.Events, found...), end
	if n := l.asked.Limit; len(l.page.Events) > n {
		l.page.Events, l.page.End = l.page.Events[:n], l.page.Events[n-1].Place
	}
	return err
}

// size makes the next window as long as a piece of so many rows, and so many milliseconds,
// tells.
func (l *personLook) size(count int, millis int64) {
	switch {
	case count == store.PersonPiece:
		l.window = min(max(2*millis, minPersonWindow), maxPersonWindow)
	case count < store.PersonPiece/widerPerson:
		l.window = min(widerPerson*l.window, maxPersonWindow)
	}
}

// endOfPiece returns the last place of a piece, and how many rows the piece has.
func (l *personLook) endOfPiece(ctx context.Context, window string, args []any) (end sluice.Place, count int, err error) {
	end.Partition = l.asked.Partition
	err = l.s.each(ctx, strings.Replace(rawQuery(l.s.d, "person_piece"), "$WINDOW", window, 1), append(args, store.PersonPiece), func(scan scanner) error {
		return scan((*number)(&end.Position.Major), (*number)(&end.Position.Minor), &end.Index, &count)
	})
	return end, count, err
}

// skip moves End over a stretch without events, to behind the newest one before it.
func (l *personLook) skip(ctx context.Context, from int64) error {
	next, err := l.s.count(ctx, "look for an earlier event in", rawQuery(l.s.d, "person_newest"), l.asked.Partition, from)
	l.page.Done = err == nil && next == 0
	l.page.End = sluice.Place{Partition: l.asked.Partition}
	if next > 0 {
		l.page.End.Position.Major = uint64(next) + 1
	}
	return err
}

func (l *personLook) scan(scan scanner, e *store.StoredEvent) error {
	e.Place.Partition = l.asked.Partition
	var kind string
	var properties *string
	err := scan((*number)(&e.Place.Position.Major), (*number)(&e.Place.Position.Minor), &e.Place.Index, l.s.instant(&e.TimeMillis), &e.ID, &kind, &e.Name, &e.App, &e.User, &properties)
	e.Kind, _ = sluice.ParseEventKind(kind)
	if properties != nil {
		e.Properties = *properties
	}
	return err
}
