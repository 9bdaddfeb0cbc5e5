package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/go-sql-driver/mysql"

	"sluice"
)

// Names and times of locks that are rows.
const (
	migrationLock = "lock.migrate"
	daysLock      = "lock.days"

	// rowLockSeconds is after how many seconds without a renewal a lock is free: its
	// holder is dead, or has stopped.
	rowLockSeconds = 20

	rowLockRenewEvery = rowLockSeconds * time.Second / 5
	rowLockLookEvery  = 200 * time.Millisecond
)

// rowLock is a lock of MariaDB and MySQL that is a row of leases.
//
// The idea. GET_LOCK is known to one server only, and the nodes of a Galera cluster,
// or two servers behind a proxy, are several. A row is the same on all: it is taken
// by one statement that compares its number, and of two nodes that do so at once one
// is refused when it commits. Its time is renewed by a goroutine while it is held,
// so a holder that dies frees it. A holder that stood still longer than that may
// believe that it still has it: what it guards must be harmless when repeated, as
// migrations and days of events are.
type rowLock struct {
	d      *mysqlDialect
	db     *sql.DB
	name   string
	number uint64
	stop   context.CancelFunc
	done   chan struct{}
}

// takeRowLock takes a lock, and waits for it for so long at most; nil: another
// process has it. db is used while it is held.
func (d *mysqlDialect) takeRowLock(ctx context.Context, db *sql.DB, name string, patience time.Duration) (*rowLock, error) {
	l := &rowLock{d: d, db: db, name: name}
	for began := time.Now(); ; {
		got, err := l.try(ctx)
		if err != nil && !rolledBack(err) {
			return nil, err
		}
		if got {
			break
		}
		if time.Since(began) >= patience {
			return nil, nil
		}
		if err := sluice.Pause(ctx, rowLockLookEvery); err != nil {
			return nil, err
		}
	}
	ctx, l.stop = context.WithCancel(context.WithoutCancel(ctx))
	l.done = make(chan struct{})
	go l.renew(ctx) // ends with release
	return l, nil
}

// try takes the lock if it is free.
func (l *rowLock) try(ctx context.Context) (bool, error) {
	var free bool
	err := l.db.QueryRowContext(ctx, query(l.d, "lock_look"), rowLockSeconds, l.name).Scan(&l.number, &free)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		_, err = l.db.ExecContext(ctx, query(l.d, "lock_add"), l.name)
		if e, ok := errors.AsType[*mysql.MySQLError](err); ok && e.Number == errDuplicate {
			return false, nil
		}
		l.number = 1
		return err == nil, err
	case err != nil || !free:
		return false, err
	}
	changed, err := l.exec(ctx, "lock_take")
	l.number++
	return changed, err
}

// exec runs a statement about the row with our number.
func (l *rowLock) exec(ctx context.Context, name string) (changed bool, err error) {
	done, err := l.db.ExecContext(ctx, query(l.d, name), l.name, l.number)
	if err != nil {
		return false, err
	}
	n, err := done.RowsAffected()
	return n == 1, err
}

// renew keeps the lock. A renewal that fails is tried again with the next one.
func (l *rowLock) renew(ctx context.Context) {
	defer close(l.done)
	for sluice.Pause(ctx, rowLockRenewEvery) == nil {
		_, _ = l.exec(ctx, "lock_renew")
	}
}

// release frees the lock. If that fails it is free after rowLockSeconds.
func (l *rowLock) release() {
	l.stop()
	<-l.done
	ctx, cancel := context.WithTimeout(context.Background(), rollbackTimeout)
	defer cancel()
	_, _ = l.exec(ctx, "lock_release")
}

// lockMigrations takes the lock of migrations, whose table may not be there yet.
func (d *mysqlDialect) lockMigrations(ctx context.Context, db *sql.DB) (*rowLock, error) {
	if _, err := db.ExecContext(ctx, d.expand(query(d, "lock_table"))); err != nil {
		return nil, fmt.Errorf("make the table of the migration lock: %w", err)
	}
	lock, err := d.takeRowLock(ctx, db, migrationLock, migrationLockSeconds*time.Second)
	if err == nil && lock == nil {
		err = fmt.Errorf("another process has been migrating for %d s", migrationLockSeconds)
	}
	if err != nil {
		return nil, fmt.Errorf("take the migration lock: %w", err)
	}
	return lock, nil
}
