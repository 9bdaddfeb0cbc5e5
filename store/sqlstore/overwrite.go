package sqlstore

import (
	"context"
	"fmt"
	"time"

	"sluice"
)

// Deleted data stays in the files of SQLite: in the free room of pages, in free
// pages, and in its log. The first is zeroed as it becomes free, which costs no
// additional page (secure_delete=FAST). Free pages are taken by a table of
// zeros that is dropped when there are none left. It grows in pieces, each a
// transaction between those of others. secure_delete=ON would write each page
// when it becomes free, for every deletion ever. VACUUM would hold up all
// others, and needs as much room again. The log is copied into the file and
// emptied.
//
// A server's database writes its files itself, and removes deleted data from
// them in its own time (InnoDB's purge, VACUUM, the retention of binary logs).

const (
	// wipePieceBytes is what one transaction overwrites: it keeps others waiting for
	// some 50 ms.
	wipePieceBytes = 4 << 20

	// The log is emptied when no reader uses it. Others wait while it is tried,
	// so not for long, and again.
	emptyLogWithin = 200 * time.Millisecond
	emptyLogTries  = 25
	emptyLogAgain  = 200 * time.Millisecond
)

// Overwrite implements store.RetentionStore.
func (s *Store) Overwrite(ctx context.Context) error {
	if _, ok := s.d.(*sqliteDialect); !ok {
		return nil
	}
	err := s.wipePages(ctx)
	if err == nil {
		err = s.emptyLog(ctx)
	}
	return s.failed(err, "overwrite deleted data in")
}

// wipePages fills the pages that are free with zeros. A table that an earlier call
// left is filled up.
func (s *Store) wipePages(ctx context.Context) error {
	for more := true; more; {
		err := s.write(ctx, func(tx *txn) error {
			var free, page int64
			if err := tx.conn.QueryRowContext(ctx, "SELECT freelist_count, page_size FROM pragma_freelist_count, pragma_page_size").Scan(&free, &page); err != nil {
				return err
			}
			if more = free > 0; !more {
				_, err := tx.conn.ExecContext(ctx, "DROP TABLE IF EXISTS wiped")
				return err
			}
			if _, err := tx.conn.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS wiped (zeros BLOB NOT NULL)"); err != nil {
				return err
			}
			_, err := tx.conn.ExecContext(ctx, "INSERT INTO wiped (zeros) VALUES (zeroblob(?))", zerosFor(page, max(1, min(free-1, wipePieceBytes/page))))
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// zerosFor returns the length of a value that fills so many pages to their
// ends, beside the part of it in its row. The value's first bytes are there: as
// many as leave whole pages for the rest, if that is enough. (The format of
// SQLite's files, 1.6: M.)
func zerosFor(page, pages int64) int64 {
	const beyond = 100 // behind M, where whole pages are left
	return pages*(page-4) + (page-12)*32/255 - 23 + beyond
}

// emptyLog copies the log into the file and cuts it to nothing.
func (s *Store) emptyLog(ctx context.Context) (err error) {
	conn, err := s.reads.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() {
		// The pool gets it as it was.
		if _, again := conn.ExecContext(context.WithoutCancel(ctx), "PRAGMA "+busyTimeout(sqliteWithin(s.options))); err == nil {
			err = again
		}
		if closed := conn.Close(); err == nil {
			err = closed
		}
	}()
	if _, err := conn.ExecContext(ctx, "PRAGMA "+busyTimeout(emptyLogWithin)); err != nil {
		return err
	}
	for range emptyLogTries {
		var busy, pages, copied int64
		err = conn.QueryRowContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &pages, &copied)
		if err == nil && busy == 0 {
			return nil
		}
		if sluice.Pause(ctx, emptyLogAgain) != nil {
			return context.Cause(ctx)
		}
	}
	if err == nil {
		err = fmt.Errorf("its log is read all the time and cannot be emptied; it is tried again")
	}
	return err
}
