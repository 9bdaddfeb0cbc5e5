package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"sluice"
)

// Connections for small writes.
const (
	smallConns    = 2
	smallIdleTime = 5 * time.Minute

	// A small write that was rolled back because of another one is tried so often, and
	// about so much later each time: by chance, or two nodes would meet again and again.
	smallTries = 10
	smallAgain = 20 * time.Millisecond
)

// setSmall gives a store of a server connections of their own for small writes:
// lease numbers, keys, templates, what people decide. By the one writing connection
// they would wait until a bulk load ends. They touch no row that a bulk load
// changes, so neither waits for the other's locks, but for the number of publishes, which
// an effect locks last (published.go), and for the state of the mirror (mirror.go).
func (s *Store) setSmall(small *sql.DB) {
	most := smallConns
	if s.options.Beside != nil {
		most = writerSmallConns
	}
	small.SetMaxOpenConns(most)
	small.SetMaxIdleConns(most)
	small.SetConnMaxIdleTime(smallIdleTime)
	s.small = small
}

// writeSmall is write for what is small and must not wait for a bulk load. In
// SQLite, which has one writer, it is write. fn is called again if the server has
// rolled its transaction back because of another one, as Galera does at COMMIT.
func (s *Store) writeSmall(ctx context.Context, fn func(*txn) error) error {
	if s.small == nil || s.options.ReadOnly {
		return s.write(ctx, fn)
	}
	for try := 1; ; try++ {
		err := s.writeSmallOnce(ctx, fn)
		if err == nil || try == smallTries || !rolledBack(err) {
			return err
		}
		if paused := sluice.Pause(ctx, time.Duration(try)*smallAgain/2+rand.N(time.Duration(try)*smallAgain)); paused != nil {
			return err
		}
	}
}

func (s *Store) writeSmallOnce(ctx context.Context, fn func(*txn) error) error {
	conn, err := s.beginSmall(ctx)
	if err != nil {
		return fmt.Errorf("begin transaction: %w", err)
	}
	if err = fn(&txn{store: s, conn: conn}); err == nil {
		if err = s.d.commit(ctx, conn); err != nil {
			err = fmt.Errorf("commit: %w", err)
		}
	}
	if err != nil { // its transaction ends with it
		_ = conn.Raw(func(any) error { return driver.ErrBadConn })
	}
	_ = conn.Close() // back to the others, or gone
	return err
}

// beginSmall begins a transaction on a connection for small writes. One that the
// server has closed while it was idle shows only now: then it is tried on another.
func (s *Store) beginSmall(ctx context.Context) (*sql.Conn, error) {
	var errs []error
	for range smallConns + 1 {
		conn, err := s.small.Conn(ctx)
		if err != nil {
			return nil, errors.Join(append(errs, err)...)
		}
		if _, err = conn.ExecContext(ctx, s.d.begin()); err == nil {
			return conn, nil
		}
		errs = append(errs, err)
		discard(conn)
		if ctx.Err() != nil {
			break
		}
	}
	return nil, errs[len(errs)-1]
}

// Reach reports whether the database answers, beside whatever is written and read.
func (s *Store) Reach(ctx context.Context) error {
	db := s.small
	if db == nil {
		db = s.reads
	}
	return s.failed(db.PingContext(ctx), "reach")
}
