package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"sluice/journey"
	"sluice/store"
)

// The publish number (store.JourneyStore says what it is for).
//
// The invariants. It only rises, and is at least the time in milliseconds when it was
// raised. So a database that has gone back does not give a number a second time, under
// which a process may still hold the names of what is lost. A change of the names of
// versions in use raises it in the same transaction, first: so a publish waits before it
// has done anything, and can be tried again. A transaction of the store holds no lock
// that a publish waits for but this one, and that one last. So the two never wait for
// each other in a circle, and a publish waits for commits, not for loads.

// publishTries bounds how often a publish is begun. A process that was stopped between
// its look and its COMMIT holds the number until the server ends its session.
const publishTries = 5

// errRaise: the publish number was not raised, and nothing else was done before.
var errRaise = errors.New("raise the publish number")

// checkPublished is the last of a transaction: the names that the effect goes by are
// still those that are published, and stay so until the commit.
func (t *txn) checkPublished(ctx context.Context, number int64) error {
	if number == 0 {
		return nil
	}
	var now int64
	err := t.conn.QueryRowContext(ctx, query(t.store.d, "journey_published_lock")).Scan(&now)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("compare the publish number: %w", err)
	}
	if now != number {
		return fmt.Errorf("the publish number is %d, the names were read under %d: %w", now, number, store.ErrPublished)
	}
	return nil
}

// raisePublished raises the publish number and returns it.
func (t *txn) raisePublished(ctx context.Context) (number int64, err error) {
	now := t.store.clock.Now().UnixMilli()
	n, err := t.changed(ctx, "journey_publish_raise", now, now)
	if err == nil && n == 0 {
		err = t.exec(ctx, "journey_publish_add", now)
	}
	if err == nil {
		err = t.conn.QueryRowContext(ctx, query(t.store.d, "journey_published")).Scan(&number)
	}
	return number, err
}

// publish runs a change of the names in a transaction that raises the publish number.
func (s *Store) publish(ctx context.Context, change func(tx *txn) error) (number int64, err error) {
	for range publishTries {
		err = s.writeSmall(ctx, func(tx *txn) error {
			var err error
			if number, err = tx.raisePublished(ctx); err != nil {
				return fmt.Errorf("%w: %w", errRaise, err)
			}
			return change(tx)
		})
		if !errors.Is(err, errRaise) || ctx.Err() != nil {
			break
		}
	}
	return number, err
}

// Published implements store.JourneyStore.
func (s *Store) Published(ctx context.Context) (int64, error) {
	return s.count(ctx, "read the publish number in", rawQuery(s.d, "journey_published"))
}

// Registered implements store.JourneyStore. One statement sees one moment. The number is
// not there before the first look.
func (s *Store) Registered(ctx context.Context) (*journey.Registered, error) {
	for range 2 {
		var published int64
		var versions []journey.Names
		err := s.each(ctx, rawQuery(s.d, "journey_registered"), nil, func(scan scanner) error {
			var names sql.NullString
			if err := scan(&published, &names); err != nil || !names.Valid {
				return err
			}
			var of journey.Names
			if err := json.Unmarshal([]byte(names.String), &of); err != nil {
				return fmt.Errorf("read the names of a version: %w", err)
			}
			versions = append(versions, of)
			return nil
		})
		if err == nil && published > 0 {
			return journey.NewRegistered(published, versions), nil
		}
		if err == nil {
			_, err = s.publish(ctx, func(*txn) error { return nil })
		}
		if err != nil {
			return nil, s.failed(err, "read the names that journeys ask for in")
		}
	}
	return nil, s.failed(errors.New("the row of journey_publish cannot be made"), "read the names that journeys ask for in")
}
