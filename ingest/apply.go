package ingest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sluice"
	"sluice/lib/faults"
	"sluice/store"
)

// How much one transaction holds, and when it is flushed.
const (
	// flushRows is where a transaction is full: beyond this it gets hardly any
	// faster, and what is in memory twice (encoded and being sent) grows. MariaDB
	// gains nothing beyond 10,000 rows, PostgreSQL a tenth.
	flushRows  = 32768
	flushBytes = 8 << 20

	// flushWait is how long the first row of a quiet time waits for company,
	// flushSoon how many rows do not wait any longer.
	flushWait = 40 * time.Millisecond
	flushSoon = 2000

	// flushUpdates is the number of updates of users that fills a transaction.
	// flushUsers is the number of users it may name: each takes some 2 KB while
	// it is changed.
	flushUpdates = 131_072
	flushUsers   = 16_384

	// A transaction of updates of users begins usersEvery after the one before
	// began, or sooner: after usersRest times as long as that one took. So a
	// user with many updates is read and written less often under load, and no
	// update waits long when there is little.
	usersEvery = 500 * time.Millisecond
	usersRest  = 4

	// maxReloads is how often in a row the names that journeys ask for are read again at
	// once. keptUpdates is up to how many updates of a transaction are kept for that where
	// no journey is in use.
	maxReloads  = 3
	keptUpdates = 8192

	// factsPartitions is of how many partitions facts go in one transaction: some
	// thousands of each.
	factsPartitions = 2

	// countsWait is how long a transaction of nothing but counts waits.
	countsWait = 500 * time.Millisecond
)

// prepare encodes an effect and counts the time.
func prepare(store store.Store, stats *Stats, effect *store.Effect) (store.Prepared, error) {
	started := time.Now()
	p, err := store.Prepare(effect)
	stats.Encode.Observe(time.Since(started))
	return p, err
}

// apply carries out a prepared effect of a follower, piece by piece where the store
// refuses it as a whole, and counts what it did.
func apply(ctx context.Context, to store.Store, stats *Stats, follower string, p store.Prepared) (done store.Applied, err error) {
	if err := faults.Hit("load"); err != nil {
		return done, err
	}
	started := time.Now()
	done, err = to.Apply(ctx, p)
	if errors.Is(err, sluice.ErrRefused) {
		stats.Refused.Add(1)
		if err := lookAgain(ctx, to, p); err != nil {
			return done, err
		}
		done, err = to.ApplyEach(ctx, p)
	}
	if err != nil {
		if errors.Is(err, sluice.ErrConflict) {
			stats.Conflicts.Add(1)
		}
		return done, err
	}
	if err := faults.Hit("committed"); err != nil {
		return done, err
	}
	stats.Fine(follower)
	stats.committed(done, time.Since(started))
	return done, nil
}

// lookAgain fails if a table of the effect cannot be used any more. A table
// that has become another while we run (MyISAM, a view on one) keeps the rows
// of the load that was refused. It would get them a second time row by row.
func lookAgain(ctx context.Context, store store.Store, p store.Prepared) error {
	for _, rows := range p.Effect().Rows {
		if _, err := store.OpenTable(ctx, rows.Table.Spec()); err != nil {
			return fmt.Errorf("look again at a table that refused rows: %w", err)
		}
	}
	return nil
}
