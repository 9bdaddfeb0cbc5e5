package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"sluice"
	"sluice/store"
)

var _ store.FeedStore = (*Store)(nil)

// FeedHeads implements store.FeedStore.
func (s *Store) FeedHeads(ctx context.Context, follower string) (map[int]sluice.Position, error) {
	heads, err := s.readCursors(ctx, follower)
	return heads, s.failed(err, "read how far logs are stored in")
}

// errFull ends a page that is large enough.
var errFull = errors.New("the page is full")

// windowMillis is how much of a partition's log a look goes through, by when events were
// accepted: so it needs few days of the table (late.go).
const windowMillis = int64(24 * time.Hour / time.Millisecond)

// FeedPage implements store.FeedStore. The index log_position has the order. One
// statement sees one moment, of the events and of the cursor: read one after the other,
// perhaps on two replicas, the cursor could be past events that are not seen yet.
func (s *Store) FeedPage(ctx context.Context, follower string, partition int, after sluice.Place, limit int) (page store.FeedPage, err error) {
	from := int64(min(after.Position.Major, math.MaxInt64/2))
	end := from + windowMillis
	found, err := s.feedPage(ctx, follower, partition, after, limit, "AND pos_major <= ? AND time >= ? AND time <= ?", end, s.feedTime(from-lateMillis), s.feedTime(end+lateMillis))
	if err == nil && comparePlaces(after, store.EndOf(partition, found.late)) < 0 {
		found, err = s.feedPage(ctx, follower, partition, after, limit, "")
		end = math.MaxInt64
	}
	if err != nil {
		return page, s.failed(err, "read events of partition %d in", partition)
	}
	page, err = wholePage(found.FeedPage, after, found.cursor)
	if errors.Is(err, errManyEvents) && limit < store.MaxFeedRows {
		return s.FeedPage(ctx, follower, partition, after, store.MaxFeedRows)
	}
	if err != nil || page.More || found.cursor.Major <= uint64(end) {
		return page, err
	}
	next := end + 1
	if len(page.Events) == 0 { // there may be long stretches of nothing
		next, err = s.count(ctx, "look for the next event in", rawQuery(s.d, "feed_next"), partition, end)
		if err != nil || next == 0 {
			page.End = store.EndOf(partition, found.cursor)
			return page, err
		}
	}
	page.More, page.End = true, sluice.Place{Partition: partition, Position: sluice.Position{Major: uint64(next)}, Index: -1}
	return page, nil
}

// feedTime is a bound of times, within those that events have.
func (s *Store) feedTime(millis int64) any {
	return s.d.millis(min(max(millis, sluice.MinEventTimeMillis), sluice.MaxEventTimeMillis))
}

// foundPage is what one statement has found.
type foundPage struct {
	store.FeedPage
	cursor, late sluice.Position
}

func (s *Store) feedPage(ctx context.Context, follower string, partition int, after sluice.Place, limit int, window string, bounds ...any) (page foundPage, err error) {
	limit = min(max(limit, 1), store.MaxFeedRows) + 1
	args := slices.Concat([]any{follower, partition, partition}, placeArgs(s.d, partition, after), bounds, []any{limit})
	bytes := 0
	err = s.each(ctx, strings.Replace(rawQuery(s.d, "feed_page"), "$WINDOW", window, 1), args, func(scan scanner) error {
		e := store.StoredEvent{Place: sluice.Place{Partition: partition}}
		there, err := s.scanFed(scan, &page, &e)
		if err != nil || !there {
			return err
		}
		page.Events = append(page.Events, e)
		if bytes += len(e.Properties) + len(e.Name) + len(e.User) + len(e.Email); bytes > store.MaxFeedBytes && len(page.Events) > 1 {
			return errFull
		}
		return nil
	})
	page.More = errors.Is(err, errFull) || len(page.Events) == limit
	if errors.Is(err, errFull) {
		err = nil
	}
	return page, err
}

// errManyEvents says that a page would end within the events of its first item.
var errManyEvents = errors.New("no item has so many")

// wholePage cuts a page at the end of a place: an item may have several events.
func wholePage(page store.FeedPage, after sluice.Place, cursor sluice.Position) (store.FeedPage, error) {
	page.End = after
	if !page.More {
		if end := store.EndOf(after.Partition, cursor); after.Position.Compare(cursor) <= 0 {
			page.End = end
		}
		if n := len(page.Events); n > 0 && comparePlaces(page.End, page.Events[n-1].Place) < 0 {
			page.End = page.Events[n-1].Place
		}
		return page, nil
	}
	last, whole := page.Events[len(page.Events)-1].Place, len(page.Events)
	for whole > 0 && page.Events[whole-1].Place == last {
		whole--
	}
	if whole == 0 {
		return store.FeedPage{}, fmt.Errorf("read events of partition %d: the item at %s, %d, has %d of them or more, and %w", last.Partition, last.Position, last.Index, len(page.Events), errManyEvents)
	}
	page.Events = page.Events[:whole]
	page.End = page.Events[whole-1].Place
	return page, nil
}

// scanFed reads a row of a page. there: it has an event.
func (s *Store) scanFed(scan scanner, page *foundPage, e *store.StoredEvent) (there bool, err error) {
	var stored, late, at [2]nullNumber
	var item *int
	var id, kind, name, app, email, user, message, properties *string
	err = scan(&stored[0], &stored[1], &late[0], &late[1], &at[0], &at[1], &item, s.instant(&e.TimeMillis), &id, &kind, &name, &app, &email, &user, &message, &properties)
	if err != nil {
		return false, err
	}
	page.cursor, page.late = sluice.Position{Major: stored[0].V, Minor: stored[1].V}, sluice.Position{Major: late[0].V, Minor: late[1].V}
	if item == nil {
		return false, nil
	}
	e.Place.Position, e.Place.Index = sluice.Position{Major: at[0].V, Minor: at[1].V}, *item
	for _, c := range []struct {
		from *string
		to   *string
	}{{id, &e.ID}, {name, &e.Name}, {app, &e.App}, {email, &e.Email}, {user, &e.User}, {message, &e.Message}, {properties, &e.Properties}} {
		if c.from != nil {
			*c.to = *c.from
		}
	}
	e.Kind, _ = sluice.ParseEventKind(*kind)
	return true, nil
}

// FeedCount implements store.FeedStore.
func (s *Store) FeedCount(ctx context.Context, after, upTo sluice.Place, most int, app, user string) ([]store.FeedSum, error) {
	args := append(placeArgs(s.d, after.Partition, after), placeArgs(s.d, 0, upTo)[1:]...)
	only := ""
	for _, of := range []struct{ column, value string }{{"app_id", app}, {"user_ref", user}} {
		if of.value != "" {
			only += " AND " + of.column + " = ?"
			args = append(args, of.value)
		}
	}
	sums, err := list(ctx, s.d, s.reads, func(scan scanner, sum *store.FeedSum) error {
		var kind string
		err := scan(&kind, &sum.Name, &sum.Count)
		sum.Kind, _ = sluice.ParseEventKind(kind)
		return err
	}, strings.Replace(rawQuery(s.d, "feed_count"), "$ONLY", only, 1), append(args, most)...)
	return sums, s.failed(err, "count events of partition %d in", after.Partition)
}
